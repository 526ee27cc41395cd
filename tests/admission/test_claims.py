"""Claims and their templates are checked when they are created, and pods by what their claims ask for."""

from typing import Any

import pytest

from tests.admission.reviews import reported
from tests.builders import request
from tests.cluster import dra
from tests.cluster.objects import node, placer, state
from webhook.admission import claims, pods, workloads
from webhook.admission.decision import Decision
from webhook.errors import BadReview
from webhook.kube.review import Request
from webhook.policy.model import Policy

POLICY = Policy.load("profiles: {default: {rules: {gpuLimit: {perContainer: 4, perPod: 6}}}, tried: {shadow: true}}")
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
