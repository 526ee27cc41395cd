"""Claims and their templates are checked when they are created, and pods by what their claims ask for."""

import itertools
from typing import Any, cast

import pytest

from tests.admission.reviews import reported
from tests.builders import request
from tests.controlplane.nodes import node
from tests.devices import dra
from tests.state.objects import placer, state
from webhook.admission import claims, pods, workloads
from webhook.admission.decision import Decision
from webhook.errors import BadReview
from webhook.kube.device_selectors import Selector
from webhook.kube.review import Request
from webhook.policy.model import Policy
from webhook.state.objects import ListKind
from webhook.state.state import ClusterState
from webhook.text import bare

POLICY = Policy.load("profiles: {default: {rules: {gpuLimit: {perContainer: 4, perPod: 6}}}, tried: {dryRun: true}}")
CLUSTER = state([node("a")])
for kind, obj in {
    "deviceclasses": dra.device_class(),
    "resourceslices": dra.gpus_of("a"),
    "resourceclaimtemplates": dra.template("large", dra.exactly(5)),
    "resourceclaims": dra.claim("mine", dra.exactly(5)),
}.items():
    CLUSTER.seen(kind, obj, 0)
VIEW = CLUSTER.view(0.0)


def asked(obj: Any, kind: str = "ResourceClaimTemplate", **more: Any) -> Request:
    name = obj["metadata"]["name"] if obj else ""
    group = "resource.k8s.io"
    return request(obj, kind=kind, group=group, resource=f"{kind.lower()}s", **{"name": name, **more})


def judged(*requests: Any, spec: Any = None, **more: Any) -> Decision:
    obj = dra.template("t", *requests) if spec is None else {"metadata": {"name": "t"}, "spec": spec}
    return claims.validate(asked(obj, **more), POLICY, VIEW)


def test_a_good_template_is_allowed() -> None:
    decision = judged(dra.exactly(2), dra.exactly(1, of="dra.net"))
    assert (decision.result, decision.findings) == ("allowed", ())


def test_a_template_is_refused_for_one_request_and_for_their_sum() -> None:
    one = judged(dra.exactly(2), dra.exactly(5))
    assert one.result == "denied"
    assert reported(one)[0][::2] == ("gpuLimit", "spec.spec.devices.requests[1]")
    assert one.message.startswith('ResourceClaimTemplate "t": ')
    many = judged(*[dra.exactly(4)] * 2)
    assert (many.result, reported(many)[0][::2]) == ("denied", ("gpuLimit", "spec"))


def test_a_claim_has_its_own_field() -> None:
    claim = dra.claim("c", dra.exactly(5))
    decision = claims.validate(asked(claim, "ResourceClaim"), POLICY, VIEW)
    assert reported(decision)[0][::2] == ("gpuLimit", "spec.devices.requests[0]")


def test_warnings_are_no_refusal() -> None:
    decision = judged(dra.exactly(selector="device.attributes['gpu.nvidia.com'].productName == 'B300'"))
    assert decision.result == "allowed"
    assert [unit for unit, *_ in reported(decision)] == ["gpuFits"]
    tolerant = judged(dra.exactly(tolerations=[{"operator": "Exists"}]))
    assert [unit for unit, *_ in reported(tolerant)] == ["claimTolerations"]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (
            "has({}.productName) && {}.index > 90",
            'devices have productName: "H100"; index: 0, 1, 2, 3, 4 and 3 more (kubectl get resourceslices -o yaml). Or',
        ),
        (
            'device.driver == "gpu.amd.com"',
            "devices that a node has. Correct the expressions of its selectors, or wait",
        ),
    ],
)
def test_a_warning_says_what_was_asked_for_and_what_devices_have(selector: str, wanted: str) -> None:
    text = selector.replace("{}", 'device.attributes["gpu.nvidia.com"]')
    (found,) = judged(dra.exactly(selector=text)).findings
    assert f"which selects by the expression «{bare(text)}» devices that no node has" in found.finding.message
    assert wanted in found.finding.message


def test_of_several_expressions_the_first_is_named_with_which_nothing_is_left() -> None:
    both = dra.exactly(selector='device.attributes["gpu.nvidia.com"].productName == "H100"')
    both["selectors"].append({"cel": {"expression": 'device.attributes["gpu.nvidia.com"].index > 90'}})
    (found,) = judged(both).findings
    assert "index > 90» devices" in found.finding.message


def test_what_is_not_decided() -> None:
    assert judged(dra.exactly(5), operation="UPDATE").result == "ignored"
    assert judged(dra.exactly(5), subresource="status").result == "ignored"
    assert claims.validate(asked(None), POLICY, VIEW).result == "ignored"
    assert judged(dra.exactly(5), namespace="gpu-operator").findings == ()


@pytest.mark.parametrize("spec", [None, [], {}, {"spec": 1}, {"spec": {"devices": {"requests": [{}]}}}])
def test_a_malformed_template_is_a_bad_review(spec: Any) -> None:
    with pytest.raises(BadReview, match="wanted a ResourceClaimTemplate"):
        claims.validate(asked({"metadata": {"name": "t"}, "spec": spec}), POLICY, VIEW)


def claiming(**entry: str) -> Any:
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {"containers": [container], "resourceClaims": [{"name": "gpu", **entry}]},
    }


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"resourceClaimTemplateName": "large"}, 'of template "large"'),
        ({"resourceClaimName": "mine"}, 'of claim "mine"'),
    ],
)
def test_a_pod_is_refused_for_what_its_claims_ask_for(entry: dict[str, str], words: str) -> None:
    decision = pods.validate(asked(claiming(**entry), "Pod")._replace(resource="pods"), POLICY, VIEW, placer(CLUSTER))
    assert decision.result == "denied"
    assert reported(decision)[0][::2] == ("gpuLimit", "spec.resourceClaims[0]")
    assert words in decision.message


@pytest.mark.parametrize("entry", [{"resourceClaimTemplateName": "later"}, {"resourceClaimName": "later"}, {}])
def test_a_claim_that_is_not_known_counts_for_nothing(entry: dict[str, str]) -> None:
    decision = pods.validate(asked(claiming(**entry), "Pod")._replace(resource="pods"), POLICY, VIEW, placer(CLUSTER))
    assert decision.result == "allowed"


def test_the_author_of_a_workload_is_told_what_its_claims_would_be_refused_for() -> None:
    pod = claiming(resourceClaimTemplateName="large")
    workload = {"metadata": {"name": "w"}, "spec": {"replicas": 1, "template": {"metadata": {}, "spec": pod["spec"]}}}
    made = asked(workload, "Deployment")._replace(group="apps", resource="deployments")
    decision = workloads.validate(made, POLICY, VIEW, placer(CLUSTER))
    assert ("gpuLimit", "spec.template.spec.resourceClaims[0]") in [found[::2] for found in reported(decision)]


def of_pod(*entries: dict[str, str], state: ClusterState = CLUSTER, **limits: str) -> Decision:
    pod = claiming()
    pod["spec"]["resourceClaims"] = [{"name": f"c{number}", **entry} for number, entry in enumerate(entries)]
    pod["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    return pods.validate(request(pod), POLICY, state.view(0.0), placer(state))


def cluster_with(**objects: list[Any]) -> ClusterState:
    of = state([node("a")])
    for kind, listed in {
        "deviceclasses": [dra.device_class()],
        "resourceslices": [dra.gpus_of("a")],
        **objects,
    }.items():
        of.replace(cast(ListKind, kind), listed, 0)
    return of


NIC = dra.device_class("nic")
NIC["spec"]["selectors"] = [{"cel": {"expression": "device.driver == 'dra.net'"}}]
MIG = "device.attributes['gpu.nvidia.com'].type == 'mig'"
MANY = "loops.map(x, x).map(x, x).map(x, x).map(x, x)"
"""More loops than are evaluated."""
SEVEN = [
    dra.template("seven", dra.exactly(4), dra.exactly(3)),
    dra.template("nics", *[dra.exactly(16, of="nic")] * 32),
    dra.template("slices", dra.exactly(7, f"true || {MIG}")),
    dra.template("costly", dra.exactly(7, f"{MIG} || {MANY}")),
    dra.template("alternatives", {"firstAvailable": [dra.exactly(1), dra.exactly(7)]}),
    dra.template("all", dra.exactly(allocationMode="All")),
]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([{"resourceClaimTemplateName": "seven"}], id="two requests of one claim"),
        pytest.param([*[{"resourceClaimTemplateName": "nics"}] * 40, {"resourceClaimTemplateName": "seven"}], id="the 41st"),
        pytest.param([{"resourceClaimTemplateName": "slices"}], id="whole GPUs that call themselves slices"),
        pytest.param([{"resourceClaimTemplateName": "costly"}], id="slices, by an expression that cannot be decided"),
        pytest.param([{"resourceClaimTemplateName": "alternatives"}], id="the second alternative"),
        pytest.param([{"resourceClaimTemplateName": "all"}], id="all of a node that has 8"),
    ],
)  # fmt: skip
def test_what_a_tenant_may_try_to_get_more_devices(entries: list[dict[str, str]]) -> None:
    of = cluster_with(resourceclaimtemplates=SEVEN, deviceclasses=[dra.device_class(), NIC])
    decision = of_pod(*entries, state=of)
    assert {unit for unit, *_ in reported(decision)} >= {"gpuLimit"}
    assert decision.result == "denied"


def test_claims_and_resources_of_any_name_add_up() -> None:
    classes = [dra.device_class(), dra.device_class("fast", resource="example.com/fast")]
    of = cluster_with(resourceclaimtemplates=[dra.template("four", dra.exactly(4))], deviceclasses=classes)
    four = {"resourceClaimTemplateName": "four"}
    assert of_pod(four, state=of, **{"example.com/fast": "2"}).result == "allowed"
    for name in ("example.com/fast", "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/fast"):
        decision = of_pod(four, state=of, **{name: "3"})
        assert (decision.result, reported(decision)[0][::2]) == ("denied", ("gpuLimit", "spec"))


def test_what_is_done_for_expressions_is_bounded_for_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 64 claims of a pod have 8 requests with 8 alternatives each, no two alike."""
    made, numbers = [], itertools.count()
    compiled = Selector.__init__
    monkeypatch.setattr(Selector, "__init__", lambda *args: made.append(1) or compiled(*args))

    def one_of_eight() -> Any:
        return {"firstAvailable": [dra.exactly(1, f"device.driver != '{next(numbers)}'") for _ in range(8)]}

    templates = [dra.template(f"t{number}", *[one_of_eight() for _ in range(8)]) for number in range(64)]
    of = cluster_with(resourceclaimtemplates=templates)
    of_pod(*[{"resourceClaimTemplateName": f"t{number}"} for number in range(64)], state=of)
    assert 0 < len(made) < 1000
