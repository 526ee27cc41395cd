"""Creates the pods of `webhook/defaults/conformance.yaml` as dry runs: whether this cluster, with all else that is in it, does
what the tests of this version see. Nothing is stored.
"""

import asyncio
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from webhook.cli.checks.result import Result
from webhook.cli.cluster.release import Release
from webhook.errors import ApiError
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.kube.pod import DECISION, Pod, annotations_of
from webhook.kube.yaml import parse_documents
from webhook.policy.model import Policy, named
from webhook.text import bare, printable

CHECK: Final = "conformance"
_FORBIDDEN: Final = "is forbidden: User "
_REFUSED: Final = ("denied the request", "ValidatingAdmissionPolicy", "violates PodSecurity", "exceeded quota")
"""Words of answers that are about the pod, and not about a webhook that cannot be called."""
_MAX_TEXT: Final = 300
Case = Mapping[str, Any]


def conformance(access: Access, release: Release, namespace: str, policy: Policy, profile: str) -> list[Result]:
    """A result for each case. It needs the right to create pods in the namespace, which must have opted in."""
    return asyncio.run(_all(access, release, namespace, [*_cases(policy, profile)]))


def _cases(policy: Policy, profile: str) -> Iterator[Case]:
    """Those that the policy decides as the shipped one does."""
    _, settings = policy.profile(profile)
    refusing = {name for name, rule in named(settings.rules) if rule.action == "deny"}
    injecting = {name for name, injector in named(settings.injectors) if injector.enabled}
    (cases,) = parse_documents(files("webhook.defaults").joinpath("conformance.yaml").read_bytes())
    for case in () if settings.shadow else cases:
        if case.get("refused") in refusing | {None} and case.get("injector") in injecting | {None}:
            yield case


async def _all(access: Access, release: Release, namespace: str, cases: list[Case]) -> list[Result]:
    async with Api(always(access)) as api:
        return [await _tried(api, release, namespace, case) for case in cases]


async def _tried(api: Api, release: Release, namespace: str, case: Case) -> Result:
    container = {"name": "main", "image": "none", **case.get("container", {})}
    metadata = {"name": "gpu-admission-conformance", "namespace": namespace, "labels": case.get("labels", {})}
    spec = {**case.get("spec", {}), "containers": [container]}
    try:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        stored = await api.post(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except ApiError as error:
        return _refused(release, case, error.reason or str(error))
    return _admitted(release, case, stored)


def _refused(release: Release, case: Case, message: str) -> Result:
    rule, said = case.get("refused"), printable(message)[:_MAX_TEXT]
    for ours in (rule, case.get("or")):
        if ours and f"[{ours}]" in message:
            return Result(CHECK, "ok", f"{case['case']}: refused by {ours}")
    if _FORBIDDEN in message:
        return Result(CHECK, "unknown", f"{case['case']}: no right to create pods there: {said}")
    if any([words in message for words in _REFUSED]):
        return Result(CHECK, "ok" if rule else "unknown", f"{case['case']}: something else refuses it: {said}")
    return Result(CHECK, "broken", f"{case['case']}: not created: {said}", f"gpu-admission doctor; {release.logs}")


def _admitted(release: Release, case: Case, stored: Pod) -> Result:
    decided = DECISION in annotations_of(stored)
    if rule := case.get("refused"):
        text = f"{case['case']}: admitted, and {rule} of the policy refuses it"
        return Result(
            CHECK, "broken", text, f"see whether the validating webhook is called: gpu-admission doctor; {release.logs}"
        )
    if case.get("untouched"):
        text = "decided about" if decided else "not touched"
        return Result(CHECK, "broken" if decided else "ok", f"{case['case']}: {text}")
    missing = [*_missing(case.get("changes", {}), stored["spec"], "spec")]
    if not missing:
        return Result(CHECK, "ok", f"{case['case']}: so it is stored")
    why = "no replica decided about it" if not decided else "another webhook or policy changed it after us"
    return Result(
        CHECK, "broken", f"{case['case']}: stored without {missing[0]}: {why}", f"gpu-admission doctor; {release.logs}"
    )


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
