"""Plays all cases of a file at once, with us and without us."""

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from tests.controlplane import clusters, objects
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.kinds import CLUSTER_WIDE
from tests.controlplane.nodes import node
from tests.e2e.behaviour.case import HOST, Case, Change, Json, Side
from tests.installed import BARE, PROBES, known, opt_in, tried

POOL = "behaviour/side"
"""Label of a node, and selector of every pod: which side of which case it belongs to."""
_QUIET, _STILL, _LONGEST = 1.0, 120.0, 600.0
"""Seconds. All is as it should be, and stays so; otherwise, nothing changes any more; and at the longest."""
_AT_ONCE = 24


class Played(NamedTuple):
    ours: Side
    plain: Side


class _Sides(NamedTuple):
    case: Case
    ours: Side
    plain: Side


async def play(api: Api, cases: Sequence[Case]) -> dict[str, Played]:
    """By the case's id."""
    tag = f"b{uuid.uuid4().hex[:4]}"
    sides = [
        _Sides(case, *[Side(f"{tag}-{n}{which}", {}) for which in ("ours", "plain")]) for n, case in enumerate(cases)
    ]
    each = [(case, side) for case, *both in sides for side in both]
    mark = node(f"{tag}-mark", 1, labels={POOL: f"{tag}-mark"})
    nodes = [_node(node, side) for case, side in each for node in case.nodes]
    try:
        await clusters.apply(api, [*nodes, mark], within=120)
        await _gathered(api.namespace(side.tag) for _, side in each)
        await _gathered(_change(api, case.first, side) for case, side in each)
        await _gathered(_create_there(api, case, side) for case, side in each)
        await _settle(api, sides, before=True)
        await _gathered(opt_in(api, ours.tag, case.profile) for case, ours, _ in sides)
        await _heard(api, mark)
        await _gathered(_create(api, case.objects, side) for case, side in each)
        for changes in (attrgetter("later"), attrgetter("last")):
            if any(map(changes, cases)):
                await _settle(api, sides, goes_on=changes)
                for step in zip_longest(*[changes(case) for case, _ in each]):
                    await _heard(api, mark)
                    await _gathered(_change(api, [one], side) for one, (_, side) in zip(step, each, strict=True) if one)
        await _settle(api, sides)
    finally:
        await _gathered(_end(api, case, side) for case, side in each)
        await _without_pods(api, {side.tag for _, side in each})
        names = [f"{side.tag}-{name}" for _, side in each for name in side.labels]
        await clusters.remove(api, [mark["metadata"]["name"], *names])
        await _gathered(_remove_cluster_wide(api, case, side) for case, side in each)
    return {case.id: Played(ours, plain) for case, ours, plain in sides}


async def _heard(api: Api, mark: Json) -> None:
    """Wait until the webhook and the scheduler have heard of all that happened to nodes and pods so far.

    Watches show writes in their order, so a pod that takes the GPU of node `mark` shows how far that of pods is."""
    await known(api, [mark])
    name = mark["metadata"]["name"]
    probe = objects.pod("probe", nodeSelector={POOL: mark["metadata"]["labels"][POOL]})

    async def free() -> bool:
        return bool((await tried(api, probe, PROBES)).get("nodes"))

    async def taken() -> bool:
        return not await free()

    await api.create(objects.pod(name, nodeName=name), BARE)
    await wait_until(taken, 120, f"the webhook to know that a pod has the GPU of {name}")
    await api.delete("Pod", name, BARE, grace=0)
    await wait_until(free, 120, f"the webhook to know that the GPU of {name} is free")


async def _gathered(all_of_them: Iterable[Awaitable[Any]]) -> None:
    """Some at a time: the machine is small."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(what: Awaitable[Any]) -> None:
        async with room:
            await what

    await asyncio.gather(*map(one, all_of_them))


# --- what there is of a side --------------------------------------------------------------------------------------------


def _node(node: Json, side: Side) -> Json:
    found: Json = json.loads(json.dumps(node))
    found["metadata"]["labels"] = _named(found["metadata"]["labels"], side.tag)
    metadata = found["metadata"]
    name = f"{side.tag}-{metadata['name']}"
    metadata["labels"] |= {HOST: name, POOL: side.tag}
    side.labels[metadata["name"]] = metadata["labels"]
    metadata["name"] = name
    return found


def _of_side(obj: Json, side: Side) -> Json:
    """With the names of this side, and pods confined to its nodes."""
    found: Json = _named(obj, side.tag)
    for spec in _pod_specs(found):
        spec["nodeSelector"] = {POOL: side.tag, **spec.get("nodeSelector", {})}
    return found


def _pod_specs(value: Any) -> Iterator[Json]:
    """All that are in an object, templates in templates too."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for each in value.values():
            yield from _pod_specs(each)
    elif isinstance(value, list):
        for each in value:
            yield from _pod_specs(each)


def _named(value: Any, tag: str) -> Any:
    if isinstance(value, dict):
        return {key: _named(each, tag) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, tag) for each in value]
    if isinstance(value, str) and value.startswith("@"):
        return f"{tag}-{value[1:]}"
    return value


def judged(case: Case, played: dict[str, Played]) -> None:
    """The case is as it should be."""
    ours, plain = played[case.id]
    wrong = [said for check in case.expect if (said := check(ours))]
    worse = len(plain.running) - len(ours.running)
    if worse > 0 and not case.fewer:
        wrong.append(f"{worse} fewer run with us: {[p['metadata']['name'] for p in ours.pods]}, {ours.refused}")
    assert not wrong, "\n".join(wrong)
    without = [said for check in case.without if (said := check(plain))]
    assert not without, "without us: " + "\n".join(without)


async def _create_there(api: Api, case: Case, side: Side) -> None:
    for obj in case.there:
        await api.create(_of_side(obj, side), None if obj["kind"] in _CLUSTER_WIDE else side.tag)


async def _create(api: Api, objects: Iterable[Json], side: Side) -> None:
    for obj in objects:
        name = obj["metadata"]["name"]
        try:
            answer = await api.create(_of_side(obj, side), None if obj["kind"] in _CLUSTER_WIDE else side.tag)
            side.warnings[name] = answer.warnings
        except ApiError as error:
            side.refused[name] = error.message
            side.warnings[name] = error.warnings


async def _change(api: Api, changes: Iterable[Change | Json], side: Side) -> None:
    for change in changes:
        if not isinstance(change, Change):
            if change["kind"] == "Node":
                await clusters.apply(api, [_node(change, side)])
            else:
                await _create(api, [change], side)
            continue
        kind, name, patch, subresource = change
        where = None if kind in _CLUSTER_WIDE else side.tag
        name = f"{side.tag}-{name}" if kind in _CLUSTER_WIDE else name
        if patch is None:
            await api.delete(kind, name, where, grace=0)
        else:
            await api.patch(kind, name, _named(patch, side.tag), where, subresource=subresource)
            if kind == "Node":
                side.labels[change.name] = (await api.get("Node", name))["metadata"]["labels"]


_CLUSTER_WIDE = frozenset(kind for kinds in CLUSTER_WIDE.values() for kind in kinds.split())


# --- until it is settled ------------------------------------------------------------------------------------------------


async def _settle(
    api: Api, sides: Sequence[_Sides], before: bool = False, goes_on: Callable[[Case], object] = lambda _: False
) -> None:
    """Until all is as it is to be, or nothing changes any more: while a claim is on its way to its volume, something does.
    `before`: until all pods that are there run. `goes_on`: of these cases until their pods are there, since more is to happen."""
    started = changed = time.monotonic()
    seen: object = None
    there = {(side.tag, obj["metadata"]["name"]) for case, *both in sides for side in both for obj in case.there}
    while True:
        pods = _by_namespace(await api.list("Pod"))
        for _, *both in sides:
            for side in both:
                found = [p for p in pods.get(side.tag, ()) if before or (side.tag, p["metadata"]["name"]) not in there]
                side.pods = sorted(found, key=lambda pod: str(pod["metadata"]["name"]))
        now = time.monotonic()
        state = [[_state(pod) for pod in side.pods] for _, *both in sides for side in both]
        unbound = await _claims_on_their_way(api, sides)
        if state != seen or unbound:
            seen, changed = state, now
        if before:
            if not unbound and all(why == "running" for side in state for _, why in side):
                return
        elif now - changed > (
            _QUIET if all(_complete(s) if goes_on(s.case) else _as_wanted(s) for s in sides) else _STILL
        ) and _tried(state):
            return
        if now - started > _LONGEST:
            return
        await asyncio.sleep(1)  # to list all pods costs the API server more than what happens to them


async def _claims_on_their_way(api: Api, sides: Sequence[_Sides]) -> bool:
    """Whether a claim that names its volume is not bound to it yet: the controller looks when it has time."""
    tags, volumes = {side.tag for _, *both in sides for side in both}, await api.list("PersistentVolume")
    names = {volume["metadata"]["name"] for volume in volumes}
    claims = [c for c in await api.list("PersistentVolumeClaim") if c["metadata"]["namespace"] in tags]
    return any(c["spec"].get("volumeName") in names and c["status"].get("phase") != "Bound" for c in claims)


def _as_wanted(sides: _Sides) -> bool:
    case, ours, plain = sides
    wrong = any(check(ours) for check in case.expect)
    return not wrong and not any(check(plain) for check in case.without)


def _complete(sides: _Sides) -> bool:
    """Whether all pods are there that the objects of a case ask for."""
    specs = [obj["spec"] for obj in sides.case.objects if obj["kind"] != "TrainingRuntime"]  # which makes none itself
    wanted = sum(0 if spec.get("suspend") else spec.get("replicas", spec.get("parallelism", 1)) for spec in specs)
    return all(len(side.pods) >= wanted for side in (sides.ours, sides.plain))


def _by_namespace(pods: Iterable[Json]) -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for pod in pods:
        found.setdefault(pod["metadata"]["namespace"], []).append(pod)
    return found


def _state(pod: Json) -> tuple[str, str]:
    status = pod.get("status") or {}
    reasons = [c.get("reason", "") for c in status.get("conditions") or () if c["type"] == "PodScheduled"]
    if pod["spec"].get("nodeName"):
        return pod["metadata"]["name"], "running" if status.get("phase") == "Running" else "bound"
    if pod["spec"]["schedulerName"] != "default-scheduler":
        reasons = ["not the scheduler's"]
    return pod["metadata"]["name"], reasons[0] if reasons else ""


def _tried(state: Iterable[Iterable[tuple[str, str]]]) -> bool:
    """Whether the scheduler looked at each of them."""
    return all(why for side in state for _, why in side)


def _made(case: Case) -> list[Json]:
    return [each for each in (*case.there, *case.objects, *case.later, *case.last) if not isinstance(each, Change)]


async def _end(api: Api, case: Case, side: Side) -> None:
    """All that makes pods. The namespace stays: to remove one takes the API server a hundred requests."""
    for kind in {each["kind"] for each in _made(case) if list(_pod_specs(each))} - {"Pod"}:
        await api.delete_all(kind, side.tag, propagationPolicy="Background")


async def _without_pods(api: Api, namespaces: set[str]) -> None:
    """Remove all pods, and wait for their end."""

    async def none() -> bool:
        left = namespaces & _by_namespace(await api.list("Pod")).keys()
        await _gathered(api.delete_all("Pod", each, gracePeriodSeconds="0") for each in left)
        return not left

    await wait_until(none, 120, "all pods gone", 0.5)


async def _remove_cluster_wide(api: Api, case: Case, side: Side) -> None:
    """What a case made that is in no namespace, but for nodes."""
    for kind, name in {
        (each["kind"], each["metadata"]["name"]) for each in _made(case) if each["kind"] in _CLUSTER_WIDE
    }:
        if kind == "PersistentVolume":
            with contextlib.suppress(ApiError):
                await api.patch(kind, _named(name, side.tag), {"metadata": {"finalizers": None}})
        if kind != "Node":
            await api.delete(kind, _named(name, side.tag), missing_ok=True)
