"""Pods, random and made by hand, created and updated: the exported policies and the rules say the same, but for what the units
themselves list.
"""

import asyncio
import copy
import re
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import deciding
from tests.builders import admission_review
from tests.controlplane.api import Api, ApiError, Object
from tests.controlplane.objects import pod
from tests.export.pods import PODS
from tests.export.random_pods import ANNOTATIONS, TOLERATIONS, debuggers, pods
from tests.export.world import INSIDE, POLICY, Json
from webhook.policy.model import DEFAULT_PROFILE, Policy, named
from webhook.whatif import offline

pytestmark = pytest.mark.controlplane

LOADED = Policy.load(POLICY)
RULES = dict(named(LOADED.profile(DEFAULT_PROFILE)[1].rules))
COMPARED = frozenset(name for name, rule in RULES.items() if not rule.not_exported)
"""The rules that are exported. The random pods avoid what their `differs` lists."""
AT_ONCE = 30
Verdict = tuple[set[str], set[str]]


def ours(review: Json) -> Verdict:
    """The rules that refuse, and those that warn."""
    (document,) = offline.documents(orjson.dumps(review), "review")
    assert isinstance(document, offline.Document)
    decision = deciding.run(document, deciding.decide_validate, LOADED, offline.new_state()).decision
    found: dict[str, set[str]] = {"deny": set(), "warn": set()}
    for unit, action, _ in decision.findings:
        found[action].add(unit)
    return found["deny"], found["warn"]


def review(new: Json, old: Json | None = None, subresource: str | None = None) -> Json:
    operation, name = "UPDATE" if old else "CREATE", new["metadata"]["name"]
    return admission_review(new, INSIDE, name=name, operation=operation, oldObject=old, subResource=subresource)


async def theirs(asked: Any) -> Verdict | None:
    """What the API server says of a request. None: it refused it by itself."""
    try:
        return warned(await asked)
    except ApiError as error:
        return denied(error)


def warned(found: Object) -> Verdict:
    return set(), {name for text in found.warnings for name in re.findall(r"\[(\w+)\]", text)}


def denied(error: ApiError) -> Verdict | None:
    refused = set(re.findall(r"\[(\w+)\]", error.message)) if "ValidatingAdmissionPolicy" in error.message else set()
    return (refused, set()) if refused else None


def same(rules: Verdict, policies: Verdict) -> bool:
    """Refused or not. The API server names the first rule that refuses, and no warnings beside it."""
    denied, warned = (found & COMPARED for found in rules)
    if denied or policies[0] & COMPARED:
        return policies[0] & COMPARED <= denied and (bool(policies[0]) or not denied)
    return bool(policies[0]) or bool(rules[0]) or warned == policies[1] & COMPARED


async def created(api: Api, body: Json) -> str:
    """How the two differ about a new pod; "" if they do not."""
    try:  # with the defaults of the API server, as a webhook sees it, and with what the exported policies add
        complete = await api.create(body, INSIDE, dryRun="All")
        policies = warned(complete)
    except ApiError as error:
        if not (policies := denied(error)):
            return ""
        try:
            complete = await api.create(body, "default", dryRun="All")
        except ApiError:
            return ""
    complete = {**body, "spec": complete["spec"], "metadata": {**body["metadata"], "namespace": INSIDE}}
    complete["spec"].pop("priority", None)
    rules = ours(review(complete))
    return "" if same(rules, policies) else f"rules {rules}, policies {policies}: {body}"


async def updated(api: Api, old: Json, change: Json, subresource: str) -> str:
    new = copy.deepcopy(old)
    if debugger := change.get("debugger"):
        new["spec"]["ephemeralContainers"] = [debugger]
        patch: Json = {"spec": {"ephemeralContainers": [debugger]}}
    else:
        new["metadata"]["annotations"] = {**(old["metadata"].get("annotations") or {}), **change["annotations"]}
        new["spec"]["tolerations"] = [*(old["spec"].get("tolerations") or []), *change["tolerations"]]
        patch = {
            "metadata": {"annotations": change["annotations"]},
            "spec": {"tolerations": new["spec"]["tolerations"]},
        }
    arguments = {"strategy": "strategic-merge"} if debugger else {}
    asked = api.patch("Pod", old["metadata"]["name"], patch, INSIDE, subresource=subresource, dryRun="All", **arguments)
    policies = await theirs(asked)
    # The webhook is not called for the status: manifests/71-running-pods.yaml guards it.
    rules = ours(review(new, old, subresource if debugger else None))
    return "" if policies is None or same(rules, policies) else f"rules {rules}, policies {policies}: {change}"


async def test_pods_are_judged_alike(server: Api) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(body: Json) -> str:
        async with room:
            return await created(server, body)

    drawn = [*PODS, *some_of(pods(), 300)]
    wrong = [text for text in await asyncio.gather(*map(one, drawn)) if text]
    assert not wrong, "\n".join(wrong[:9])


def some_of(strategy: st.SearchStrategy[Json], number: int) -> list[Json]:
    """So many examples, the same in each run. They are judged side by side."""
    found: list[Json] = []

    @settings(max_examples=number, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def draw(one: Json) -> None:
        found.append(one)

    draw()
    return found


BASES = [
    pod("with-gpu", 1, schedulingGates=[{"name": "example.com/stay"}]),
    pod("without-gpu", 0),
    pod("with-annotation", 1, annotations={"devices.gke.io/container.main": "1", "note": "1"}),
    pod("with-claim", 0, resourceClaims=[{"name": "claim", "resourceClaimName": "c"}]),
]
CHANGES = st.fixed_dictionaries({"debugger": debuggers()}) | st.fixed_dictionaries(
    {
        "annotations": st.dictionaries(st.sampled_from(ANNOTATIONS), st.sampled_from(("1", "all")), max_size=2),
        "tolerations": TOLERATIONS,
    }
)


async def test_random_updates_are_judged_alike(server: Api) -> None:
    there = [await server.create(base, INSIDE) for base in BASES]
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, change: Json) -> str:
        old = there[number % len(there)]
        subresource = "ephemeralcontainers" if "debugger" in change else "" if number % 3 else "status"
        if subresource == "status":
            change = {**change, "tolerations": []}
        async with room:
            return await updated(server, old, change, subresource)

    try:
        drawn = some_of(CHANGES, 150)
        wrong = [text for text in await asyncio.gather(*map(one, range(len(drawn)), drawn)) if text]
    finally:
        for each in there:
            await server.delete("Pod", each["metadata"]["name"], INSIDE, grace=0)
    assert not wrong, "\n".join(wrong[:9])


def test_what_differs_is_listed_and_little() -> None:
    differ = {name: rule.differs for name, rule in RULES.items() if rule.differs}
    assert differ.keys() == {"gpuLimit", "gpuMixing", "runtimeClass", "priorityClass"}, (
        "each is a sentence in the header of the export"
    )
