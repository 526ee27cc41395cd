"""`make demo`: starts the real server on a sample cluster, sends it sample pods over HTTPS, and shows each decision and its
reasons."""

from __future__ import annotations

import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from urllib.request import Request, urlopen

import jsonpatch
import orjson
import yaml
from rich.console import Console
from rich.markup import escape

from webhook.admission import words
from webhook.cli.terminal import DIFF_COLOURS, diff
from webhook.kube.pod import DECISION

_DEFAULTS = files("webhook.defaults")
console = Console(highlight=False, soft_wrap=True)


def main() -> None:
    """Run the demo. An answer that does not come is an exception."""
    console.print("[bold]gpu-admission[/bold]: the server runs on a sample cluster of four GPU nodes; one is broken.\n")
    with _server() as port:
        for number, (title, pod) in enumerate(_pods(), 1):
            console.print(f"[bold cyan]{number}. {escape(title)}[/bold cyan]")
            mutated = _ask(port, "mutate", pod)
            if mutated["allowed"]:
                after = _patched(pod, mutated)
                _show(pod, after, mutated)
                _verdict(_ask(port, "validate", after))
            else:
                _verdict(mutated)
            console.print()
    console.print("Next: [bold]make up[/bold] starts a real Kubernetes control plane with the webhook in it.")


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Title and manifest of each sample pod. The title is the comment on the first line of its document."""
    text = _DEFAULTS.joinpath("pods.yaml").read_text().partition("\n\n")[2]
    for document in text.split("---\n"):
        yield document.partition("\n")[0].removeprefix("# "), yaml.safe_load(document)


@contextmanager
def _server() -> Iterator[int]:
    """Runs the server; gives its HTTPS port."""
    command = [sys.executable, "-m", "webhook", "serve", "--cluster", str(_DEFAULTS.joinpath("cluster.yaml"))]
    command += ["--host", "127.0.0.1", "--port", "0", "--ops-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:  # noqa: S603
        assert server.stdout is not None
        try:
            ready = server.stdout.readline()
            if not ready:
                assert server.stderr is not None
                sys.exit(f"the server did not start:\n{server.stderr.read().decode()}")
            yield orjson.loads(ready)["port"]
        finally:
            server.terminate()
            server.communicate(timeout=30)


def _ask(port: int, hook: str, pod: dict[str, Any]) -> dict[str, Any]:
    """Send an AdmissionReview as the API server does. Returns its `response`."""
    request = {
        "uid": "demo",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": pod["metadata"]["namespace"],
        "object": pod,
    }
    body = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    context = ssl.create_default_context()  # not verified: the server made its certificate just now, and is on loopback
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    call = Request(f"https://127.0.0.1:{port}/{hook}", body, {"Content-Type": "application/json"})
    with urlopen(call, context=context, timeout=30) as answer:  # noqa: S310
        response: dict[str, Any] = orjson.loads(answer.read())["response"]
    return response


def _patched(pod: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    if "patch" not in response:
        return pod
    after: dict[str, Any] = jsonpatch.apply_patch(pod, orjson.loads(b64decode(response["patch"])))
    return after


def _show(before: dict[str, Any], after: dict[str, Any], response: dict[str, Any]) -> None:
    decision = after["metadata"].get("annotations", {}).pop(DECISION, None)
    if after["metadata"].get("annotations") == {}:
        del after["metadata"]["annotations"]
    if before == after:
        console.print("  unchanged", style="dim")
    for line in diff(before, after, 2):
        console.print(f"  {line}", style=(DIFF_COLOURS | {"⋮": "dim"}).get(line[0], ""), markup=False)
    for warning in response.get("warnings", ()):
        console.print(f"  warning: {warning}", style="yellow", markup=False)
    if decision:
        _why(orjson.loads(decision))


def _why(record: dict[str, Any]) -> None:
    units = "; ".join(sentence for _, sentence in words.units(record))
    console.print(f"  why: class {record['class']}; {units}", style="dim", markup=False)
    if nodes := record.get("nodes"):
        table = ", ".join(_node(*node) for node in nodes)
        console.print(f"  nodes ({record['strategy']}, {words.source(record)}): {table}", style="dim", markup=False)
    elif why := words.why_none(record):
        console.print(f"  no node chosen: {why}", style="dim", markup=False)


def _node(name: str, free: int, peers: int, score: float, usable: int | None = None, load: int | None = None) -> str:
    fit = "" if usable is None else f", {usable} of them not busy, hot or sick"
    used = "" if load is None else f", used {load} %"
    return f"{name} ({free} GPUs free{fit}{used}, {peers} of its pods)"


def _verdict(response: dict[str, Any]) -> None:
    if response["allowed"]:
        console.print("  allowed", style="bold green")
    else:
        console.print(f"  refused: {response['status']['message']}", style="bold red", markup=False)


if __name__ == "__main__":
    main()
