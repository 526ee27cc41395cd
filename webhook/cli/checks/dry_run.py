"""Creates pods as dry runs: the whole way from the API server to a replica and back. Nothing is stored.

`dry_run` creates one. `conformance` creates those of `webhook/defaults/conformance.yaml`: whether this cluster, with all else
that is in it, does what the tests of this version see. Both need the right to create pods there; the namespace has opted in.
"""

import asyncio
import shlex
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from webhook.cli.checks.result import Result, broken, ok, unknown
from webhook.errors import ApiError
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.kube.pod import DECISION, Pod, annotations_of
from webhook.kube.record import record_of
from webhook.kube.yaml import parse_documents
from webhook.policy.model import Policy, named
from webhook.text import bare, printable
from webhook.vendors.catalogue import GPU
from webhook.whatif.cluster.release import Release

_SECONDS: Final = 30
"""The API server sees the label of a new namespace a moment after it is there."""
_DENIED: Final = ("validate.gpu-admission.io", "denied the request")
"""Words of the API server's answer if a rule refuses a pod."""
_FORBIDDEN: Final = "is forbidden: User "
_REFUSED: Final = ("denied the request", "ValidatingAdmissionPolicy", "violates PodSecurity", "exceeded quota")
"""Words of answers that are about the pod, and not about a webhook that cannot be called."""
_UNREACHED: Final = ("deadline exceeded", "i/o timeout", "no route to host")
_REACH: Final = "let the API server reach the port https of the pods (docs/operations.md, GpuAdmissionFailedOpen)"
_MAX_TEXT: Final = 300
Case = Mapping[str, Any]
_ONE_GPU: Final[Case] = {"container": {"resources": {"limits": {GPU: "1"}}}}


async def _created(api: Api, namespace: str, case: Case) -> Pod:
    """The pod of a case as it would be stored. Raises ApiError."""
    container = {"name": "main", "image": "none", **case.get("container", {})}
    metadata = {"name": "gpu-admission-dry-run", "namespace": namespace, "labels": case.get("labels", {})}
    spec = {**case.get("spec", {}), "containers": [container]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return await api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def dry_run(access: Access, release: Release, namespace: str) -> Result:
    """What happens to a pod with one GPU."""
    return asyncio.run(_try(access, release, namespace))._replace(check="dryRun")


async def _try(access: Access, release: Release, namespace: str) -> Result:
    async with Api(always(access)) as api:
        for _ in range(_SECONDS):
            found = await _once(api, release, namespace)
            if found.state != "broken":
                break
            await asyncio.sleep(1)
        return found


async def _once(api: Api, release: Release, namespace: str) -> Result:
    asked = f"the webhook is asked about a GPU pod in {namespace}, and"
    try:
        stored = await _created(api, namespace, _ONE_GPU)
    except ApiError as error:
        said = printable(error.reason)[:_MAX_TEXT] or str(error)
        if all(words in said for words in _DENIED):
            return ok(f"{asked} would refuse it: {said}")
        if _FORBIDDEN in said:
            return unknown(f"no right to create pods in {namespace}: {said}")
        text = f"a GPU pod in {namespace} cannot be created: {said}"
        if error.reason.startswith(f'namespaces "{namespace}" not found'):
            return broken(text, "name a namespace that exists")
        unreached = any(words in said for words in _UNREACHED)
        return broken(text, f"{_REACH}, and see" if unreached else "", release.logs)
    if policy := record_of(stored).get("policy"):
        return ok(f"{asked} decides by policy {bare(policy)}")
    text = f"a GPU pod in {namespace} would be created without a decision: the API server did not ask, or got no answer"
    return broken(text, "see whether the namespace has opted in, and why", release.logs)


def conformance(access: Access, release: Release, namespace: str, policy: Policy, profile: str) -> list[Result]:
    """A result for each case that the policy decides as the shipped one does."""
    return asyncio.run(_all(access, release, namespace, [*_cases(policy, profile)]))


def _cases(policy: Policy, profile: str) -> Iterator[Case]:
    _, settings = policy.profile(profile)
    refusing = {name for name, rule in named(settings.rules) if rule.action == "deny"}
    injecting = {name for name, injector in named(settings.injectors) if injector.enabled}
    (cases,) = parse_documents(files("webhook.defaults").joinpath("conformance.yaml").read_bytes())
    for case in () if settings.dry_run else cases:
        if case.get("refused") in refusing | {None} and case.get("injector") in injecting | {None}:
            yield case


async def _all(access: Access, release: Release, namespace: str, cases: list[Case]) -> list[Result]:
    async with Api(always(access)) as api:
        found = [(case["case"], await _tried(api, release, namespace, case)) for case in cases]
    return [each._replace(check="conformance", text=f"{case}: {each.text}") for case, each in found]


async def _tried(api: Api, release: Release, namespace: str, case: Case) -> Result:
    rule, see = case.get("refused"), f"gpu-admission doctor; {shlex.join(release.logs)}"
    try:
        stored = await _created(api, namespace, case)
    except ApiError as error:
        return _refused(case, error.reason or str(error), see)
    decided = DECISION in annotations_of(stored)
    if rule:
        step = f"see whether the validating webhook is called: {see}"
        return broken(f"admitted, and {rule} of the policy refuses it", step)
    if case.get("untouched"):
        return broken("decided about") if decided else ok("not touched")
    if missing := next(_missing(case.get("changes", {}), stored["spec"], "spec"), ""):
        why = "no replica decided about it" if not decided else "another webhook or policy changed it after us"
        return broken(f"stored without {missing}: {why}", see)
    return ok("so it is stored")


def _refused(case: Case, message: str, see: str) -> Result:
    rule, said = case.get("refused"), printable(message)[:_MAX_TEXT]
    for ours in (rule, case.get("or")):
        if ours and f"[{ours}]" in message:
            return ok(f"refused by {ours}")
    if _FORBIDDEN in message:
        return unknown(f"no right to create pods there: {said}")
    if any(words in message for words in _REFUSED):
        return (ok if rule else unknown)(f"something else refuses it: {said}")
    return broken(f"not created: {said}", see)


def _missing(wanted: Any, seen: Any, path: str) -> Iterator[str]:
    """Paths of what is wanted and not there. An entry of a list may be anywhere in it, as others may add to it."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        for key, value in wanted.items():
            yield from _missing(value, seen.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(seen, list):
        for entry in wanted:
            if all([any(_missing(entry, other, path)) for other in seen]):
                yield f"{path}: {bare(str(entry))}"
    elif wanted != seen:
        yield f"{path}: {bare(str(wanted))}"
