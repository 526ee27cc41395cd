"""A server that decides nothing, to compare ours with: `python -m bench.least CERT KEY [PATCH]`.

It prints its port and serves until it is killed. It is a plain aiohttp application: router, Response, uvloop, no access log.
`/echo` reads the body and returns it. `/nothing` parses the body and answers with a fixed patch of two operations; `/allow`
parses it and answers without a patch: the least that a mutating and a validating webhook do. `/patched` answers with the patch
in the file PATCH, which it reads for the first request.
"""

import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import uvloop
from aiohttp import web

_PATCH = [
    {"op": "add", "path": "/metadata/annotations", "value": {"example.org/seen": "true"}},
    {"op": "add", "path": "/spec/terminationGracePeriodSeconds", "value": 30},
]


@contextmanager
def started(command: list[str], core: int | None = None) -> Iterator[tuple[int, int]]:
    """Run a server that prints its port when it is ready. Gives the port and the process id. `core`: the core that it uses."""
    pinned = [] if core is None or (os.cpu_count() or 1) == 1 else ["taskset", "-c", str(core)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen([*pinned, *command], stdout=subprocess.PIPE, stderr=log) as server,
    ):
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            if not line:
                log.seek(0)
                sys.exit(f"{command} did not start:\n{log.read().decode()[-2000:]}")
            yield json.loads(line)["port"], server.pid
        finally:
            server.terminate()
            server.wait(timeout=60)


def command(*files: Path) -> list[str]:
    """The command with the files CERT, KEY and PATCH."""
    return [sys.executable, "-m", "bench.least", *map(str, files)]


def configurations(port: int, ca: Path, namespace: str, mutating: str) -> list[dict[str, Any]]:
    """The configurations of both webhooks that decide nothing, for the pods of one namespace. `ca`: the file of their CA.
    `mutating`: the path of the mutating one."""
    configurations = []
    for kind, path in (("Mutating", mutating), ("Validating", "allow")):
        bundle = b64encode(ca.read_bytes()).decode()
        hook = {
            "name": f"{path}.{namespace}.example.org",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{port}/{path}", "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
        }
        version, name = "admissionregistration.k8s.io/v1", {"name": namespace}
        configuration = {"apiVersion": version, "kind": f"{kind}WebhookConfiguration", "metadata": name}
        configurations.append(configuration | {"webhooks": [hook]})
    return configurations


async def _echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), content_type="application/json")


async def _allow(request: web.Request, **patch: str) -> web.Response:
    uid = orjson.loads(await request.read())["request"]["uid"]
    response = {"uid": uid, "allowed": True, **patch}
    body = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    return web.Response(body=body, content_type="application/json")


async def _nothing(request: web.Request) -> web.Response:
    return await _allow(request, patchType="JSONPatch", patch=b64encode(orjson.dumps(_PATCH)).decode())


async def serve(cert: str, key: str, patch: str = "") -> None:
    @cache
    def encoded() -> str:
        return b64encode(Path(patch).read_bytes()).decode()

    async def patched(request: web.Request) -> web.Response:
        return await _allow(request, patchType="JSONPatch", patch=encoded())

    app = web.Application(client_max_size=8 << 20)
    app.router.add_post("/echo", _echo)
    app.router.add_post("/nothing", _nothing)
    app.router.add_post("/allow", _allow)
    app.router.add_post("/patched", patched)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=120)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
