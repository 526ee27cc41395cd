"""`gpu-admission top`: the GPUs of nodes, pools and models, and who has them, how busy they are, and how many are free."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.cluster.answers import GPU_SUMS, ask, idle_by_namespace
from webhook.cli.cluster.load import READER
from webhook.cli.reading import measure_gpus, policy_of, say_by, selector, snapshot_of
from webhook.cli.terminal import PROGRAM, age, bar, clear, document, out, repeated, say, show, table
from webhook.errors import BadInput
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.kube.gpus import DIVIDED, Gpus
from webhook.kube.quantity import quantity_text
from webhook.nodes.utilisation import IDLE_FOR
from webhook.policy.model import Policy
from webhook.text import amount_number, listed, no_such, plural, quoted
from webhook.whatif.cluster.report import (
    AMOUNTS,
    UNKNOWN,
    by_model,
    gpu_nodes,
    holder,
    holders,
    report,
    report_of_pods,
    together,
)
from webhook.whatif.cluster.snapshot import CLAIMS, ENGINE, Snapshot
from webhook.whatif.cluster.sums import by_kind, larger, largest

_STYLES = {"healthy": "green", "cordoned": "yellow", "notReady": "red", "unhealthy": "red", "offersNoGpus": "red"}
_NO_MORE: Final = "with no tolerations but the webhook's"
_MEASURED: Final = {"idle": "IDLE", "utilisation": "UTILISATION", "memory": "MEMORY", "temperature": "HOTTEST"}
"""Column titles of GPU metrics, by their key in the document."""


By = Literal["namespace", "workload", "class", "model"]
What = Literal["nodes", "models", "namespaces", "workloads", "classes"]
_BY: Final[Mapping[What, By | None]] = {
    "nodes": None,
    "models": "model",
    "namespaces": "namespace",
    "workloads": "workload",
    "classes": "class",
}
_DROPPED: Final = (
    *("USED", "PROMISED", "UNUSABLE", "ALLOCATED", "FREE CPU", "FREE MEMORY", "PODS", "TAINTS", "MEMORY", "HOTTEST"),
    *("UTILISATION", "POOL", "RESOURCE", "MODEL"),
)
"""Columns that a narrow terminal does without, the first first."""


def top(
    what: Annotated[What, typer.Argument(help="What has a row.", show_default="nodes")] = "nodes",
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these nodes. Default: all with GPUs.", show_default=False)
    ] = None,
    labels: options.Selector = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Only nodes whose GPU model has this in its name, such as `H100`."),
    ] = None,
    output: options.Output = "table",
    watch: options.Watch = False,
    metrics: options.Metrics = None,
    policy: options.Policy = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show who has the GPUs, what is free and what is idle: by node and pool, or by model, namespace, workload or class.

    Examples: `gpu-admission top`. Who has the H100s: `gpu-admission top workloads --model H100`. One node, with its taints and
    pods: `gpu-admission top nodes gpu-a -o wide`.

    GPUs are `allocated` to bound pods, `promised` to pods for which the webhook chose the node and that are not bound yet, free,
    or `unusable`: sick, or free on a node that takes no pods. A node is `healthy`, `cordoned`, `notReady`, `unhealthy` (by the
    labels and conditions that the policy names), or `offersNoGpus`: its labels say that it has GPUs, and its device plugin offers
    none. `3 rejected`: the kubelet rejected 3 pods after they were bound. `1 withdrawn`: the node has 1 GPU that it does not
    offer, for example because the device plugin found it unhealthy. The largest job that could start now takes GPUs of one
    model, on healthy nodes with a free CPU for each, and has the tolerations that the webhook adds; below it is a larger one for
    pods that tolerate more.

    If the policy has a source of GPU metrics, the table also shows how many allocated GPUs are idle now, utilisation, memory,
    and the temperature of the hottest GPU. `top workloads` shows who has the idle GPUs, `top namespaces` also for how long
    the running webhook has seen them idle. A source that is a Service of the cluster is read through the API server, which needs
    the right to `get` services/proxy.
    """
    by = _BY[what]

    def refresh() -> None:
        running = ["ReplicaMetrics"] if by == "namespace" else []
        kinds = (*ENGINE, *CLAIMS, *running)
        of_nodes = by in (None, "model") or names or labels or model
        snapshot = snapshot_of(file, kubeconfig, context, kinds, None, needed=("Node",) if of_nodes else ("Pod",))
        if snapshot.state.nodes.dra and (why := snapshot.missing.get("ResourceClaim")) and file is not None:
            say(f"warning: {why}: GPUs that come by DRA are not counted", "yellow")
        if unknown := [each for each in names or () if each not in snapshot.nodes]:
            raise no_such("node", unknown[0], list(snapshot.nodes))
        matches = selector(labels)
        rules = policy_of(policy, snapshot)
        measure_gpus(snapshot, rules, metrics)
        wanted = names or gpu_nodes(snapshot, rules)
        wanted = [each for each in wanted if matches(snapshot.nodes[each]["metadata"].get("labels") or {})]
        blind = "Node" in snapshot.missing
        reports = report_of_pods(snapshot, rules) if blind else report(snapshot, rules, wanted)
        if model:
            reports = _of_model(reports, model)
        if watch and output in ("table", "wide"):
            clear()
        jobs = largest(reports, snapshot, rules) if by in (None, "model") else []
        sums = sums_by(by, reports, idle_by_namespace(snapshot), jobs) if by else reports
        say_by(policy, snapshot, always=False)
        if document([*map(as_written, sums)], output, "Top"):
            return
        if by in (None, "model") or not (reports or blind):
            some = " on these nodes" if names or labels or model else ""
            _print(reports, labels, by, jobs, rules.gpus, some=some, wide=output == "wide")
            if _has(reports, "unusable"):
                say("unusable: on nodes that take no pods, sick, or not offered", "dim")
            if "Pod" in snapshot.missing and snapshot.access:
                _print_sums_of_all(snapshot, snapshot.access)
        else:
            _print_holders(sums, by, snapshot.taken)
        if any("idle" in each or "idleFor" in each for each in (*reports, *sums)):
            _say_of_idle(reports, sums if by else [], by)
            if by == "namespace" and not any("idleFor" in each for each in sums):
                say(why_not_since(snapshot), "dim")
        elif sums and metrics is None and (file or rules.file.gpu_metrics.source == "off"):
            say(why_not_measured(file, rules), "dim")

    repeated(refresh, watch=watch, from_file=file is not None)


def as_written(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a document with times and amounts as Kubernetes writes them."""
    written = dict(entry)
    if "since" in entry:
        time = datetime.fromtimestamp(entry["since"], UTC).isoformat()
        written["since"] = time.replace("+00:00", "Z") if entry["since"] else None
    if "memory" in entry:
        written["memory"] = {part: quantity_text("memory", mib << 20) for part, mib in entry["memory"].items()}
    if "host" in entry:
        parts = entry["host"].items()
        written["host"] = {name: {part: quantity_text(name, n) for part, n in of.items()} for name, of in parts}
    if isinstance(entry.get("pods"), list):
        written["pods"] = [*map(as_written, entry["pods"])]
    return written


def _of_model(reports: list[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    """Those whose model has `part` in its name. Raises BadInput if none has."""
    if found := [node for node in reports if part.lower() in (node["model"] or "").lower()]:
        return found
    known = listed(sorted({node["model"] for node in reports if node["model"]}), 10) or "no model"
    raise BadInput(f"--model: saw {quoted(part)}, wanted a part of the name of a model; nodes have {known}")


def sums_by(
    by: By, reports: list[dict[str, Any]], idle_for: Mapping[str, Mapping[str, int]], jobs: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The document that `-o json` prints, but for nodes."""
    if by == "model":
        of_model: dict[str, dict[str, Any]] = {}
        for job in jobs:
            of_model.setdefault(job["model"], {}).setdefault(job["resource"], job["steps"])
        return [each | {"largest": of_model.get(each["model"], {})} for each in by_model(reports)]
    found = holders(reports, by)
    for each in found if by == "namespace" and idle_for else ():
        each["idleFor"] = idle_for.get(each["namespace"], {})
    return found


def why_not_measured(file: object, policy: Policy) -> str:
    """Why nobody knows which GPUs are idle. `file`: the snapshot; None: a cluster."""
    off = "gpuMetrics.source of the policy is off" if policy.file.gpu_metrics.source == "off" else "no source answers"
    return f"which GPUs are idle is not known: {f'{file} has no GPU metrics' if file else off}"


def why_not_since(snapshot: Snapshot) -> str:
    """Why nobody knows since when GPUs are idle."""
    why = snapshot.missing.get("ReplicaMetrics") or "no replica gives metrics"
    return f"since when they are idle is not known, as the running webhook counts it: {why}"


def _say_of_idle(reports: list[dict[str, Any]], sums: list[dict[str, Any]], by: By | None) -> None:
    """One line on stderr: where it is said whose the idle GPUs are, or which of them are in no row."""
    idle = [node for node in reports if node.get("idle")]
    if by in (None, "model"):
        return say(f"whose the idle GPUs are, and for how long: {PROGRAM} top namespaces", "dim") if idle else None
    return say(more, "dim") if (more := idle_of_nobody(reports, sums, by)) else None


def idle_of_nobody(reports: list[dict[str, Any]], sums: list[dict[str, Any]], by: By) -> str:
    """How many idle GPUs are in no row of `sums`, and where they are; "" if there are none."""
    rest = sum(node.get("idle", 0) for node in reports) - sum(each.get("idle", 0) for each in sums)
    where = [
        node["name"]
        for node in reports
        if node.get("idle", 0) > sum(pod.get("idle", 0) for pod in node["pods"])
        and len({holder(pod, by) for pod in node["pods"] if "idle" not in pod}) > 1
    ]
    why = "of several on one node (its metrics do not say which pod has which GPU)"
    return f"at least {rest} more idle, {why}: {listed(where)}" if rest > 0 else ""


def _print_holders(sums: list[dict[str, Any]], by: str, now: float) -> None:
    if not sums:
        return say("no pod has GPUs there")
    known = [key for key in ("idle", "idleFor") if any(key in each for each in sums)]
    lines, place = [], ["ON"] if by == "workload" else []
    for each in sums:
        more = [_since(each[key]) if key == "idleFor" else each[key] for key in known]
        for resource, count in each["gpus"].items():
            on = [listed([f"{node} {number}" for node, number in each["on"].items()], 8)] if place else []
            lines.append([each[by], each["pods"], each["nodes"], age(each["since"], now), resource, count, *more, *on])
            more = [""] * len(known)
    titles = {"idle": "IDLE NOW", "idleFor": "IDLE FOR"}
    return table(
        [by.upper(), "PODS", "NODES", "SINCE", "RESOURCE", "GPUS", *[titles[key] for key in known], *place],
        lines,
        drop=["NODES", "PODS", "SINCE", "ON"],
    )


def _since(idle_for: Mapping[str, int]) -> str:
    """How many GPUs have been idle for how long at least, the longest first: `2 for 1d, 6 for 1h`."""
    found, said = [], 0
    for word in reversed([*IDLE_FOR]):
        if (number := idle_for.get(word, 0)) > said:
            found.append(f"{number} for {word}")
            said = number
    return listed(found) or ("less than 1h" if idle_for.get("window") else "")


def _print(
    reports: list[dict[str, Any]],
    labels: str | None,
    by: By | None,
    jobs: list[dict[str, Any]],
    gpus: Gpus,
    *,
    some: str,
    wide: bool,
) -> None:
    if not reports:
        return say(f"no node with {labels} has GPUs" if labels else "no node has GPUs")
    known = [key for key in _MEASURED if any(key in node for node in reports)]
    parts = [part for part in AMOUNTS if part != "unusable" or _has(reports, part)]
    if _has(reports, UNKNOWN):
        parts = ["total", "allocated", UNKNOWN]
    names = ["YOURS" if UNKNOWN in parts and part == "allocated" else part.upper() for part in parts]
    titles = ["RESOURCE", *names, "USED", *[_MEASURED[key] for key in known]]
    rows = [
        [node["name"], node["pool"], node["model"], _health(node), *line]
        + ([*_host(node), listed(node["taints"]), _pods(node, resource)] if wide else [])
        for node in reports
        for resource, line in zip(node["gpus"] or [""], _lines(node, known, parts), strict=True)
    ]
    if by is None:
        more = ["FREE CPU", "FREE MEMORY", "TAINTS", "PODS"] if wide else []
        # where a node has several rows, its resource is what tells them apart
        drop = _DROPPED if len(rows) == len(reports) else sorted(_DROPPED, key="RESOURCE".__eq__)
        table(["NODE", "POOL", "MODEL", "HEALTH", *titles, *more], rows, drop=drop)
        out("")
    of: Literal["pool", "model"] = "model" if by else "pool"
    sums = [
        [name, group["gpus"][line[0]]["nodes"], *line]
        for name, group in _groups(reports, of, gpus)
        if group["gpus"]
        for line in _lines(group, known, parts)
    ]
    table([of.upper(), "NODES", *titles], sums, drop=[each for each in _DROPPED if each != of.upper()])
    out("")
    if UNKNOWN in parts:
        return None
    job = "; ".join(map(_job, larger(jobs))) or "none, as no healthy node has a free GPU and CPU"
    return show(Text(f"largest job that could start now{some}: {job}"))


def _print_sums_of_all(snapshot: Snapshot, access: Access) -> None:
    """For those who may not list all pods: the sums of all GPUs as the webhook counts them. Whose they are is not told. The
    component `manifests/components/reader` has the rights for it."""
    asyncio.run(_ask_for_sums(snapshot, access))
    if sums := _sums_of_all(snapshot):
        table(["MODEL", "RESOURCE", *map(str.upper, AMOUNTS)], sums)
    else:
        why = snapshot.missing.get("GpuSums", "no answer of the webhook")
        say(f"how many GPUs others have is not known: {why}: {READER} gives it")


async def _ask_for_sums(snapshot: Snapshot, access: Access) -> None:
    async with Api(always(access)) as api:
        await ask(api, snapshot, "GpuSums", GPU_SUMS)


def _sums_of_all(snapshot: Snapshot) -> list[list[Any]]:
    """A row for each model and resource, with its AMOUNTS."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for answer in snapshot.of("GpuSums"):
        for _, labels, value in answer["status"]["samples"]:
            of = found.setdefault((labels.get("model", ""), labels.get("resource", "")), Counter())
            of.update({labels.get("state", ""): int(value or 0), "total": int(value or 0)})
    return [[*key, *[of[part] for part in AMOUNTS]] for key, of in sorted(found.items())]


def _groups(
    reports: list[dict[str, Any]], of: Literal["pool", "model"], gpus: Gpus
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each pool or model with its sums, by kind of GPU if a resource of it stands for several: 8 GPUs and 56 slices are no 64.
    Then each kind of all."""
    names = sorted({node[of] for node in reports})
    for name in [*names, None] if len(names) > 1 else names:
        those = [node for node in reports if name in (None, node[of])]
        kinds = [*by_kind(those, gpus)]
        named = Counter([key for _, nodes in kinds for key in {key for node in nodes for key in node["gpus"]}])
        if name is not None and max(named.values(), default=1) == 1:
            yield name or "-", together(those)
        else:
            for kind, nodes in kinds:
                yield kind if name is None else f"{name or '-'}, {kind}", together(nodes)


def _job(largest: Mapping[str, Any]) -> str:
    """`3 nodes × 8 GPUs of NVIDIA-L4, or 5 nodes × 4`, as the page says it."""
    units = {"whole": "GPU", "slice": "slice", "share": "share"}
    first, *others = [f"{plural(each['nodes'], 'node')} × {each['gpus']}" for each in largest["steps"][:4]]
    unit = plural(largest["steps"][0]["gpus"], units[largest["kind"]]).partition(" ")[2]
    model = f" of {largest['model']}" if largest["model"] else ""
    more = f"if it tolerates {listed(largest['taints'])}" if largest["taints"] else _NO_MORE
    return f"{first} {unit}{model}{''.join([f', or {each}' for each in others])}, {more}"


def _has(reports: Iterable[Mapping[str, Any]], part: str) -> bool:
    return any(counts.get(part) for node in reports for counts in node["gpus"].values())


def _lines(entry: Mapping[str, Any], known: Sequence[str], parts: Sequence[str]) -> Iterator[list[Any]]:
    """The rows of a node or a pool, one for each GPU resource. The first row has the GPU metrics of the keys `known`."""
    numbers = [_cell(key, entry.get(key)) for key in known]
    for resource, gpus in entry["gpus"].items():
        one = f" ({entry['one']}s)" if "one" in entry and resource in DIVIDED else ""
        used = bar(gpus["allocated"] + gpus["promised"], gpus["total"])
        yield [f"{resource}{one}", *[gpus.get(part, 0) for part in parts], used, *numbers]
        numbers = [""] * len(known)
    if not entry["gpus"]:
        yield ["", *[0 for _ in parts], "", *numbers]


def _cell(key: str, value: Any) -> Any:
    if value is None:
        return ""
    if key == "utilisation":
        return bar(value, 100).append(f" {value:3} %")
    if key == "memory":
        return f"{value['used'] / 1024:.0f}/{value['total'] / 1024:.0f} GiB"
    return f"{value} °C" if key == "temperature" else value


def _health(node: dict[str, Any]) -> Text:
    more = "".join([f", {node[key]} {key}" for key in ("sick", "rejected", "withdrawn") if node.get(key)])
    return Text(f"{node['health']}{more}", style="red" if more else _STYLES[node["health"]])


def _host(node: dict[str, Any]) -> list[str]:
    """Free and total CPU and memory: `96 of 128`, `1Ti of 2Ti`."""
    amounts = [(name, node["host"].get(name, {"free": 0, "total": 0})) for name in ("cpu", "memory")]
    return [" of ".join([amount_number(name, each[key]) for key in ("free", "total")]) for name, each in amounts]


def _pods(node: dict[str, Any], resource: str) -> str:
    """The pods that have GPUs of this resource; in the first row also those whose GPUs the node does not offer."""
    first = next(iter(node["gpus"]), resource) == resource
    counts = [
        (f"{pod['namespace']}/{pod['name']}", pod["gpus"].get(resource) or (first and sum(pod["gpus"].values())))
        for pod in node["pods"]
        if resource in pod["gpus"] or (first and not pod["gpus"].keys() & node["gpus"].keys())
    ]
    return listed([f"{name} ({count})" for name, count in counts])
