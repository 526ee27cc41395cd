"""What a tenant may try: everything in a review is written by one."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU
from tests.controlplane.objects import pod
from tests.devices import dra
from tests.served import PROFILES, Server, after, plain_pod, review
from tests.state.objects import facts
from tests.strategies import PREFERRED, WRONG, damaged, pods
from tests.test_hostile import counted
from webhook.kube.pod import DECISION, Pod
from webhook.state.objects import ListKind

NAMESPACES = st.sampled_from(PROFILES)


def strings(value: Any) -> Iterator[str]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, str):
        yield value
    for item in items:
        yield from strings(item)


@given(pods(), NAMESPACES, WRONG, st.randoms(use_true_random=False), st.sampled_from(["mutate", "validate"]))
def test_a_wrong_value_anywhere_is_an_answer_or_a_bad_request(
    obj: Pod, namespace: str, wrong: Any, random: Any, hook: str
) -> None:
    status, _ = getattr(Server().handlers, hook)(review(damaged(obj, wrong, random), namespace=namespace))
    assert status in (200, 400)


def _of_many_names(prefix: str, count: int) -> Pod:
    names = {f"{prefix}{i}": 1 for i in range(count)}
    return pod(containers=[{"name": "main", "image": "app", "resources": {"limits": {GPU: 1, **names}}}])


def test_a_thousand_resource_names_are_not_looked_for_on_every_node() -> None:
    many = _of_many_names("tenant.example/", 1_000)
    response = Server().mutate(many)
    assert orjson.loads(response["auditAnnotations"]["decision"])["why"] == "too many resources are asked for"
    after(response, many)


@pytest.mark.parametrize(
    "tweak",
    [
        pytest.param({"annotations": {DECISION: "x" * 1_000_000}}, id="a huge record"),
        pytest.param(
            {"annotations": {DECISION: '{"nodes":[["gpu-a1",1e300,0,0]]}'}}, id="a record that cannot be encoded"
        ),
        pytest.param({"annotations": {DECISION: '{"nodes":' + "[" * 900 + "]" * 900 + "}"}}, id="a deep record"),
        pytest.param({"name": "a\nb\x1b[31m" * 1000}, id="a name that forges lines"),
        pytest.param({"priorityClassName": "x" * 100_000}, id="a huge priority class"),
        pytest.param({"labels": {"workload-type": "\n" * 1000}}, id="a class that is no word"),
        pytest.param({"namespace": "ns\n"}, id="another namespace inside"),
        pytest.param({"owned_by": "x\n" * 1000}, id="an owner of a strange kind"),
    ],
)
def test_what_a_tenant_writes_is_bounded_and_escaped(tweak: dict[str, Any]) -> None:
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["gpu-a1"]}]}}]}}  # fmt: skip
    before = plain_pod(**tweak, affinity=affinity)
    for hook in ("mutate", "validate"):
        response = getattr(Server(), hook)(before)
        told = [*response.get("warnings", ()), *response.get("auditAnnotations", {}).values()]
        assert all(line.isprintable() and len(line) <= 2048 for line in told)
        message = response.get("status", {}).get("message", "")
        assert message.replace("\n- ", "").replace("\n", "", 1).isprintable()
        assert len(message) < 20_000


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nvidia.com/mig-a~b", id="a tilde"),
        pytest.param("nvidia.com/mig-a/b", id="a slash"),
        pytest.param("nvidia.com/mig-~1~0", id="what looks escaped"),
        pytest.param('nvidia.com/mig-"\n', id="a quote and a line"),
        pytest.param("nvidia.com/mig-" + "x" * 5000, id="five thousand letters"),
    ],
)
def test_resource_names_of_any_form_are_patched_or_refused(name: str) -> None:
    before = pod(containers=[{"name": "main", "image": "a", "resources": {"limits": {name: 1}}}])
    response = Server().mutate(before)
    if response["allowed"] and len(name) < 317:  # a longer one is no name of a resource
        stored = after(response, before)
        assert stored["spec"]["containers"][0]["resources"] == {"limits": {name: 1}, "requests": {name: 1}}


@pytest.mark.parametrize(
    "quantity", ["9" * 64, "9" * 65, "1" + "0" * 5000, "1e99999999999", "-1", "0.5", "x", "", 1e300]
)
def test_quantities_of_any_form_are_answered(quantity: Any) -> None:
    before = pod(containers=[{"name": "main", "image": "a", "resources": {"limits": {GPU: quantity}}}])
    server = Server()
    mutated, validated = server.mutate(before), server.validate(before)
    if mutated["allowed"]:
        after(mutated, before)
    assert not validated["allowed"]
    assert len(validated["status"]["message"]) < 2000


def test_a_forged_record_reserves_nothing_that_the_pod_would_not_get_without_it() -> None:
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["gpu-a1"]}]}}]}}  # fmt: skip
    plain, forged = Server(), Server()
    plain.mutate(plain_pod(affinity=affinity))
    record = '{"nodes":[["gpu-a1",8,0,1]],"strategy":"evil"}'
    response = forged.mutate(plain_pod(annotations={DECISION: record}, affinity=affinity))
    assert facts(forged.state)["free"] == facts(plain.state)["free"]
    assert "evil" not in "".join(strings(response))


CLAIMS = [
    pytest.param({}, id="no requests"),
    pytest.param([], id="a list"),
    pytest.param({"devices": {"requests": ["x"] * 3}}, id="requests that are words"),
    pytest.param(dra.claim_spec(*[dra.exactly()] * 2_000), id="more requests than Kubernetes allows"),
    pytest.param(dra.claim_spec(dra.exactly(2**63)), id="a count beyond 64 bits"),
    pytest.param(dra.claim_spec(dra.exactly(-1)), id="a count below 0"),
    pytest.param(
        {"devices": {"requests": [{"name": "a\nb\x1b[31m" * 100, "exactly": dra.exactly(2**40)}]}},
        id="a request that forges lines",
    ),
    pytest.param(dra.claim_spec(dra.exactly(9, of="a\nb\x1b[31m" * 100)), id="a class that forges lines"),
    pytest.param(
        dra.claim_spec(dra.exactly(selector='device.driver == "\x1b[31m\n"' + " " * 1_000)),
        id="an expression that forges lines",
    ),
    pytest.param(dra.claim_spec(dra.exactly(selector="((((" * 2_000)), id="an expression that is none"),
    pytest.param(
        dra.claim_spec(
            dra.exactly(
                selector=f"{list(range(40))}.all(a, {list(range(40))}.all(b, {list(range(40))}.all(c, a < 99)))"
            )
        ),
        id="an expression that loops",
    ),
    pytest.param(
        dra.claim_spec(dra.exactly(selector="device.claims[0].namespace == ''")),
        id="an expression of another claim's device",
    ),
    pytest.param(
        dra.claim_spec(dra.exactly(), constraints=[{"requests": ["\n"] * 50, "matchAttribute": "a/b\n"}] * 50),
        id="constraints over requests that are not there",
    ),
    pytest.param(dra.claim_spec(dra.exactly(adminAccess=True)), id="the right of an administrator"),
]


@pytest.mark.parametrize("spec", CLAIMS)
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_a_claim_of_any_form_is_answered_and_what_is_said_of_it_is_bounded(kind: str, spec: Any) -> None:
    server = Server()
    server.state.seen("deviceclasses", dra.device_class(), 0.0)
    server.state.seen("resourceslices", dra.gpus_of("gpu-a1"), 0.0)
    made = {"metadata": {"name": "c"}, "spec": spec if kind == "ResourceClaim" else {"spec": spec}}
    where = {"group": "resource.k8s.io", "version": "v1"}
    about = {"kind": where | {"kind": kind}, "resource": where | {"resource": f"{kind.lower()}s"}}
    with counted() as calls:
        status, answer = server.handlers.validate(review(made, name="c", **about))
    assert status in (200, 400)
    assert calls.count < 400_000
    text = [answer.decode()] if status == 400 else [*strings(orjson.loads(answer))]
    assert all(line.replace("\n- ", "").replace("\n", "", 1).isprintable() and len(line) < 20_000 for line in text)
    kinds: tuple[ListKind, ...] = ("resourceclaims", "resourceclaimtemplates")
    stored = made | {"metadata": {"name": "c", "namespace": "default", "uid": "c"}}
    server.state.seen(kinds[kind != "ResourceClaim"], stored, 0.0)
    asking = "resourceClaimName" if kind == "ResourceClaim" else "resourceClaimTemplateName"
    using = plain_pod(resourceClaims=[{"name": "c", asking: "c"}])
    for hook in ("mutate", "validate"):
        status, _ = getattr(server.handlers, hook)(review(using))
        assert status == 200
