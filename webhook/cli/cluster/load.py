"""Reads a cluster: through the API server, where kinds that may not be read are reported as missing, or from a file.

A file is a List as `kubectl get -o json` prints it; a snapshot also has the time and what is missing.
"""

import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console
from yaml import YAMLError

from webhook.cli import connection
from webhook.cli.cluster.answers import QUESTIONS, ask_all
from webhook.cli.terminal import write
from webhook.errors import ApiError, BadInput, BadPod
from webhook.feeds.access import SERVICE_ACCOUNT, Access, always, from_kubeconfig, in_cluster
from webhook.feeds.api import Api
from webhook.feeds.file import documents_in, objects_in
from webhook.feeds.tasks import together
from webhook.kube.kinds import KINDS, OTHERS, Kind
from webhook.kube.pod_schema import INTEGER, POD, QUANTITIES, SELECTOR, STRING, STRINGS, Schema, conform
from webhook.text import quoted
from webhook.whatif.cluster.measured import Measured
from webhook.whatif.cluster.release import NAME, release_of
from webhook.whatif.cluster.snapshot import BUT, ENGINE, NEEDED, Object, Snapshot, complete

_PAGE: Final = 500
FORBIDDEN: Final = "no right to list "
"""How the reason begins if a kind may not be listed."""
READER: Final = "the component reader (manifests/components/reader)"
EVERYWHERE: Final = ""
"""In place of a namespace: the answer needs the objects of all namespaces."""
_ALL: Final = "all namespaces"
_ABSENT, _FORBIDDEN, _UNKNOWN_USER = 404, 403, 401


def load(
    kubeconfig: Path | None,
    context: str | None,
    kinds: Iterable[str],
    namespace: str | None = EVERYWHERE,
    *,
    needed: Collection[str] = NEEDED,
) -> Snapshot:
    """`read`, for a command."""
    with Console(stderr=True).status("reading the cluster"):
        return asyncio.run(read(kubeconfig, context, kinds, namespace, needed=needed))


async def read(
    kubeconfig: Path | None,
    context: str | None,
    kinds: Iterable[str],
    namespace: str | None = EVERYWHERE,
    *,
    needed: Collection[str] = NEEDED,
) -> Snapshot:
    """List these kinds, and ask these questions (`cluster.answers`).

    If a kind may not be listed in all namespaces, it is listed in `namespace` only (None: the namespace of the context;
    EVERYWHERE: it is missing). Raises BadInput if no cluster can be reached, or a kind in `needed` may not be listed.
    """
    default, access = way_to_api(kubeconfig, context)
    where = f"on the cluster of context {context}" if context else "on the cluster of the kubeconfig"
    snapshot = Snapshot({}, taken=time.time(), namespace=default, read_from=where)

    async def access_kept() -> Access:
        snapshot.access = await access()
        return snapshot.access

    await _list_all(Api(access_kept), snapshot, list(kinds), needed, default if namespace is None else namespace)
    return snapshot


def way_to_api(kubeconfig: Path | None, context: str | None) -> tuple[str, Callable[[], Awaitable[Access]]]:
    """The namespace of the context, and what reads its credentials. Raises BadInput if there is no kubeconfig."""
    paths = _paths(kubeconfig)
    if _exist(paths):
        return _namespace(paths, context), partial(_as_given, partial(from_kubeconfig, paths, context))
    if "KUBERNETES_SERVICE_HOST" in os.environ and kubeconfig is None:
        return _own_namespace(), partial(_as_given, in_cluster)
    raise BadInput(f"{paths}: no kubeconfig there. Give --kubeconfig FILE, or --from FILE for a snapshot")


async def _as_given(read: Callable[[], Awaitable[Access]]) -> Access:
    return connection.given(await read())


def has_cluster() -> bool:
    """Whether there is a kubeconfig, or the ServiceAccount of a pod."""
    return _exist(_paths(None)) or "KUBERNETES_SERVICE_HOST" in os.environ


def _paths(kubeconfig: Path | None) -> str:
    return str(kubeconfig or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")


def _exist(paths: str) -> bool:
    return any(Path(path).exists() for path in paths.split(os.pathsep) if path)


def _own_namespace() -> str:
    """The namespace of the pod that this runs in."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"


def _namespace(paths: str, context: str | None) -> str:
    """The namespace of the context, by default of the current one. Raises BadInput if there is no such context."""
    from kubernetes_asyncio.config import ConfigException, list_kube_config_contexts  # noqa: PLC0415  slow to import

    try:
        contexts, current = list_kube_config_contexts(paths)
    except (TypeError, AttributeError, LookupError):
        raise BadInput(
            f"--kubeconfig {paths}: it has not the form of a kubeconfig. kubectl config view shows one"
        ) from None
    except (ConfigException, OSError, ValueError, YAMLError) as error:
        raise BadInput(f"--kubeconfig {paths}: {' '.join(str(error).split())}") from None
    entry = next((each for each in contexts if each["name"] == context), None) if context else current
    if entry is None:
        known = ", ".join(sorted(each["name"] for each in contexts)) or "none"
        raise BadInput(f"--context {context}: {paths} has no such context: it has {known}")
    return str(entry["context"].get("namespace") or "default")


async def _list_all(api: Api, into: Snapshot, kinds: list[str], needed: Collection[str], namespace: str) -> None:
    """List the kinds, then ask the questions among them: some need the objects."""
    questions = [name for name in kinds if name in QUESTIONS]
    kinds = [name for name in kinds if name not in QUESTIONS]
    async with api:
        installed = await _configuration(api)
        into.release = release_of(installed)
        await together(*[_list(api, kind, needed, namespace, into) for kind in kinds])
        into.objects = {kind: into.objects[kind] for kind in kinds if kind in into.objects}
        if not installed:
            into.release = release_of(into.objects)
        await ask_all(api, into, questions)


async def read_more(into: Snapshot, kinds: Iterable[str]) -> None:
    """List further kinds, and ask further questions, for a snapshot that was read there. Raises BadInput."""
    wanted = list(kinds)
    assert into.access is not None
    async with Api(always(into.access)) as api:
        await together(*[_list(api, name, (), EVERYWHERE, into) for name in wanted if name not in QUESTIONS])
        await ask_all(api, into, [name for name in wanted if name in QUESTIONS])


async def _configuration(api: Api) -> dict[str, list[Object]]:
    """Our mutating webhook configuration, which says where the webhook is; nothing if it is not there or may not be read."""
    kind = KINDS["MutatingWebhookConfiguration"]
    try:
        return {"MutatingWebhookConfiguration": [await api.get(f"{kind.path()}/{NAME}")]}
    except ApiError as error:
        if error.status in (_ABSENT, _FORBIDDEN):
            return {}
        raise BadInput(_why(error, "MutatingWebhookConfiguration")) from None


async def _list(
    api: Api, name: str, needed: Collection[str], namespace: str, into: Snapshot, served: Kind | None = None
) -> None:
    """List the objects of a kind. If it may not be listed, `into.missing` has the reason. `served`: it in another version."""
    kind = served or KINDS[name]
    try:
        into.objects[name] = await _pages(api, name, kind.path(into.only_in(name)))
    except ApiError as error:
        if error.status == _ABSENT and kind.other:
            await _list(api, name, needed, namespace, into, kind._replace(group=kind.other, other=""))
            return
        if error.status == _ABSENT:
            into.objects[name] = []
            return
        own = kind.namespaced or name == "Namespace"
        if error.status == _FORBIDDEN and own and namespace and into.only_in(name) is None:
            try:
                into.objects[name] = await _within(api, name, kind, namespace)
                into.missing[name] = _forbidden(kind, f"{BUT}{namespace}")
                return
            except ApiError as in_namespace:
                error = in_namespace
        if error.status == _FORBIDDEN and name in OTHERS and not await _is_served(api, kind):
            into.objects[name] = []
            return
        if error.status in (_FORBIDDEN, _UNKNOWN_USER) and name not in needed:
            into.missing[name] = _forbidden(kind, into.only_in(name) or _ALL)
            return
        raise BadInput(_why(error, name)) from None


async def _is_served(api: Api, kind: Kind) -> bool:
    """Whether the API server has the group of a kind, which everybody may ask: who may not list it is not told so."""
    try:
        await api.get(kind.group.rpartition("/")[0])
    except ApiError as error:
        return error.status != _ABSENT
    return True


def giver(kinds: Iterable[str]) -> str:
    """What has the right to list these kinds, for who may not: nodes and what belongs to them are for tenants too."""
    return READER if "Node" in kinds else "the ClusterRole gpu-admission-viewer"


def _forbidden(kind: Kind, where: str) -> str:
    return f"{FORBIDDEN}{kind.plural}{f' of {where}' if kind.namespaced and where != _ALL else ''}"


def _why(error: ApiError, name: str) -> str:
    kind = KINDS[name]
    if error.status == _FORBIDDEN:
        said = f"{_forbidden(kind, _ALL)}, and nothing can be said without"
        return f"{said}: {giver([name])} gives it. Or give --from FILE"
    if error.status == _UNKNOWN_USER:
        said = "it does not know who asks: the token or certificate of the context is wrong, or has expired"
        return f"the API server refuses the kubeconfig: {said} (401). Log in again, or give --context"
    said = without_tls_object(str(error).partition(": ")[2] or str(error))
    return f"the API server cannot be asked: {said}. Is it the right --context, and does kubectl reach it?"


def without_tls_object(message: str) -> str:
    """An error message of aiohttp without the TLS object that it names beside each host."""
    return re.sub(r" ssl:(<[^>]*>|\w+)", "", message)


async def _within(api: Api, name: str, kind: Kind, namespace: str) -> list[Object]:
    """The objects of a kind in one namespace; that namespace itself."""
    if name == "Namespace":
        return [complete(name, await api.get(f"{kind.path()}/{namespace}"))]
    return await _pages(api, name, kind.path(namespace))


async def _pages(api: Api, name: str, path: str) -> list[Object]:
    return [complete(name, obj) async for page in api.pages(path, _PAGE) for obj in page.get("items") or ()]


_MARK: Final = "snapshot"
"""Key in the List for what a snapshot has besides its objects."""
_DROPPED: Final = ("managedFields", "selfLink")
"""Metadata that no command reads."""

_METADATA: Final[dict[str, Schema]] = {
    **dict.fromkeys(("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"), STRING),
    **dict.fromkeys(("labels", "annotations"), STRINGS),
}
_SCHEMAS: Final[dict[str, Schema]] = {
    "Node": {
        "spec": {"taints": [dict.fromkeys(("key", "value", "effect"), STRING)]},
        "status": {
            "allocatable": QUANTITIES,
            "capacity": QUANTITIES,
            "conditions": [{"type": STRING, "status": STRING}],
        },
    },
    "Pod": {"spec": {**POD["spec"], "priority": INTEGER, "volumes": [{"name": STRING}]}, "status": {"phase": STRING}},
    "PriorityClass": {"value": INTEGER},
    "PodDisruptionBudget": {"spec": {"selector": SELECTOR}},
}
"""The types of fields of the objects that people write by hand. All others come from kubectl."""


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot, or what `kubectl get -o json` or `-o yaml` prints; `-` is stdin. Raises BadInput."""
    snapshot = Snapshot({}, read_from=f"on {path}")
    for document in documents_in(path):
        mark = document.get(_MARK) if isinstance(document, dict) else None
        if isinstance(mark, dict):
            taken = mark.get("taken") or 0
            if not isinstance(taken, (int, float)):
                raise BadInput(f"{path}: snapshot.taken: saw {quoted(taken)}, wanted seconds since 1970")
            snapshot.taken = float(taken)
            snapshot.missing.update(mark.get("missing") or {})
            snapshot.objects |= {kind: [] for kind in mark.get("kinds") or ()}
            if (measured := mark.get("gpuMetrics")) is not None:
                snapshot.measured = Measured.read(measured, str(path))
        for kind, obj in objects_in(document, path):
            try:
                conform(obj, {"metadata": _METADATA, "spec": {}, "status": {}}, "")
                conform(obj, _SCHEMAS.get(kind, {}), "")
            except BadPod as error:
                where = f"{path}: {kind} {quoted(obj['metadata']['name'])}"
                raise BadInput(f"{where}: {error}. Give it as kubectl prints it") from None
            obj.setdefault("kind", kind)
            if kind in KINDS and KINDS[kind].namespaced:
                obj["metadata"].setdefault("namespace", "default")
            snapshot.objects.setdefault(kind, []).append(obj)
    for kind in KINDS:
        if kind not in snapshot.objects and kind not in ENGINE:
            snapshot.missing.setdefault(kind, f"{path} has no {KINDS[kind].plural}")
    for name, question in QUESTIONS.items():
        if name not in snapshot.objects:
            snapshot.missing.setdefault(name, f"{path} has no {question.subject}")
    snapshot.release = release_of(snapshot.objects)
    return snapshot


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write a file that only its owner can read, since it tells much about the cluster; `-` is stdout. Raises BadInput."""
    items = [obj for objects in snapshot.objects.values() for obj in objects]
    for obj in items:
        for key in _DROPPED:
            obj["metadata"].pop(key, None)
    mark: dict[str, Any] = {"taken": snapshot.taken, "missing": snapshot.missing, "kinds": list(snapshot.objects)}
    if snapshot.measured:
        mark["gpuMetrics"] = snapshot.measured.document()
    text = orjson.dumps({"apiVersion": "v1", "kind": "List", _MARK: mark, "items": items})
    if str(path) == "-":
        sys.stdout.buffer.write(text + b"\n")
        return
    write(path, text)
