"""What must always hold, whatever the pod: it is asked for many that no person would write."""

import copy
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import container
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.oracle import matches
from tests.served import NODES, POLICY, PROFILES, Server, after, patch_of, plain_pod
from tests.state.objects import facts
from tests.strategies import PREFERRED, REQUIRED, ZONE, pods
from webhook.kube.pod import DECISION, Pod

OWN = re.compile(
    r"/metadata/annotations(/gpu-admission\.io~1decision)?"
    r"|/spec/(containers|initContainers)/\d+/resources/(limits|requests)(/[^/]+)?"
    r"|/spec/(containers|initContainers)/\d+/env(/-)?"
    r"|/spec/tolerations(/-)?"
    r"|/spec/(priorityClassName|priority|preemptionPolicy)"
    r"|/spec/topologySpreadConstraints(/-)?"
    r"|/spec/affinity|/spec/affinity/podAntiAffinity|/spec/affinity/nodeAffinity"
    rf"|/spec/affinity/podAntiAffinity/{PREFERRED}(/-)?"
    rf"|/spec/affinity/nodeAffinity/{PREFERRED}(/-)?"
    rf"|/spec/affinity/nodeAffinity/{REQUIRED}(/nodeSelectorTerms/\d+/matchFields(/-)?)?"
)
EVERYWHERE = [*NODES, node("gone", labels={ZONE: "zone-b"}), node("elsewhere", 0, labels={"missing": "2"})]
NAMESPACES = st.sampled_from(PROFILES)


def allowed_nodes(obj: Pod) -> set[str]:
    """The nodes that the pod's selector and required affinity leave it."""
    spec = obj["spec"]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    terms = None if required is None else required.get("nodeSelectorTerms") or []
    selector = (spec.get("nodeSelector") or {}).items()
    return {
        n["metadata"]["name"]
        for n in EVERYWHERE
        if all(n["metadata"]["labels"].get(k) == v for k, v in selector)
        and (terms is None or any(matches(n, term) for term in terms))
    }


OWN_VOID = {"env": {"NVIDIA_VISIBLE_DEVICES": "void"}}


@given(pods(), NAMESPACES)
@example(plain_pod(), "pinned")
@example(pod(containers=[container(**OWN_VOID), container("side", gpu=None)]), "default")
@example(pod(containers=[container("main", **OWN_VOID), container("main", gpu=None)]), "default")
def test_invariants_of_mutation(before: Pod, namespace: str) -> None:
    server, sent = Server(), copy.deepcopy(before)
    first = server.mutate(before, namespace=namespace)
    assert before == sent
    assert all(line.isprintable() and len(line) <= 256 for line in first.get("warnings", ()))
    if not first["allowed"]:
        assert first["status"]["message"].replace("\n", "").isprintable()
        assert "patch" not in first
        return
    operations = patch_of(first)
    assert [o["path"] for o in operations if not OWN.fullmatch(o["path"])] == [], "only our own paths"
    stored = after(first, before)
    assert allowed_nodes(stored) <= allowed_nodes(before), "placement is never widened"
    if operations:
        assert 0 < len(stored["metadata"]["annotations"][DECISION]) <= 2048

    reserved = facts(server.state)["free"]
    second = server.mutate(stored, namespace=namespace, uid="u-2")
    assert second["allowed"]
    assert patch_of(second) == [], "twice is once"
    assert facts(server.state)["free"] == reserved, "nothing is reserved twice"

    assert Server().mutate(before, namespace=namespace) == first, "the same input, the same answer"


@given(pods(), NAMESPACES)
def test_a_dry_run_leaves_no_trace(before: Pod, namespace: str) -> None:
    server = Server()
    untouched = facts(server.state)
    first = server.mutate(before, namespace=namespace, dryRun=True)
    assert facts(server.state) == untouched
    assert list(server.state.ledger.holders()) == []
    assert server.mutate(before, namespace=namespace, dryRun=True) == first
    assert server.mutate(before, namespace=namespace) == first, "and says what would be"


@given(pods(), NAMESPACES)
def test_a_pod_that_one_node_could_take_is_still_welcome_there(before: Pod, namespace: str) -> None:
    """By default nothing is required that was not: neither a node, nor a domain, nor a runtime."""
    if namespace == "pinned":
        return
    stored = after(Server().mutate(before, namespace=namespace), before)
    assert allowed_nodes(stored) == allowed_nodes(before)
    old, new = (
        [c for c in o["spec"].get("topologySpreadConstraints") or () if c["whenUnsatisfiable"] == "DoNotSchedule"]
        for o in (before, stored)
    )
    assert old == new


@given(pods(), NAMESPACES)
def test_any_pod_is_judged(obj: Pod, namespace: str) -> None:
    server = Server()
    response = server.validate(obj, namespace=namespace)
    assert set(response) <= {"uid", "allowed", "status", "warnings", "auditAnnotations"}
    assert server.validate(obj, namespace=namespace) == response
    unchanged = server.validate(obj, namespace=namespace, operation="UPDATE", oldObject=obj)
    assert unchanged == {"uid": "u-1", "allowed": True}, "an update that changes nothing of ours passes"


RULES = dict(POLICY.units["default"].rules)


def refusing(response: dict[str, Any]) -> set[str]:
    """The rules that refuse."""
    return set(re.findall(r"\[(\w+)\]", response.get("status", {}).get("message", ""))) & set(RULES)


@given(pods(), NAMESPACES)
def test_a_pod_that_we_made_is_not_refused_for_what_we_made_of_it(obj: Pod, namespace: str) -> None:
    server = Server()
    first = server.mutate(obj, namespace=namespace)
    if not first["allowed"]:
        return
    as_it_was, as_it_is = (server.validate(o, namespace=namespace) for o in (obj, after(first, obj)))
    # gpuFits looks at nodes: once the taints are tolerated, whatever else keeps the pod away comes to light.
    assert refusing(as_it_was) or refusing(as_it_is) <= {"gpuFits"}
