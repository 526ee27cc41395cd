"""What a user reads where a GPU pod is refused: the words of the API server's answer, and its warnings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import Case, case
from tests.controlplane.api import Api, ApiError, Object
from tests.e2e.conftest import Sides
from tests.rules.test_pod_form import ALLOWED, REFUSED
from webhook.rules.pod_form import PodForm

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]


async def tried(api: Api, pod: Json, namespace: str) -> Object:
    """Create it as a dry run."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "namespace"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
    return await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", made, dryRun="All")


async def words(api: Api, pod: Json, namespace: str) -> str:
    """Why it is refused; empty where it is not."""
    try:
        await tried(api, pod, namespace)
    except ApiError as error:
        return error.message
    return ""


# --- The form of a pod: the tables of the rule, judged by the API server -----------------------------------------------


@pytest.mark.parametrize("made", ALLOWED.values(), ids=ALLOWED)
async def test_the_api_server_takes_what_the_rule_for_the_form_allows(made: Case, api: Api, sides: Sides) -> None:
    await tried(api, made.pod, sides.plain)
    assert "[podForm]" not in await words(api, made.pod, sides.ours), "another rule may refuse it"


@pytest.mark.parametrize(("made", "messages"), REFUSED.values(), ids=REFUSED)
async def test_what_the_rule_for_the_form_refuses_the_api_server_would_refuse_and_our_words_come_first(
    made: Case, messages: list[str], api: Api, sides: Sides
) -> None:
    with pytest.raises(ApiError) as without_us:
        await tried(api, made.pod, sides.plain)
    assert without_us.value.status == 422
    with pytest.raises(ApiError) as with_us:
        await tried(api, made.pod, sides.ours)
    assert with_us.value.status == 403
    assert 'admission webhook "mutate.gpu-admission.io" denied the request' in with_us.value.message
    for message in messages:
        assert f"{message} [podForm]" in with_us.value.message


NAMES = st.sampled_from(["main", "main", "b", "c", "Main", "a_b", "-a", "a-", "a.b", "", "x" * 63, "x" * 64, "1", "é"])
POD_NAMES = st.sampled_from(["p", "p.q", "p..q", "P", "p_", "p-", "a" * 253, "a" * 254, ".p", "1"])
VOLUMES = ["data", "model", "Model", "x" * 64, ""]
REQUESTS = st.dictionaries(
    st.sampled_from(["rdma/hca", "vendor.example/gpu", "cpu", "nvidia.com/gpu", "hugepages-2Mi", "a.kubernetes.io/b"]),
    st.sampled_from(["1", "2", "2000m", "0"]),
    max_size=3,
)


def maybe(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=parts)


CONTAINERS = st.fixed_dictionaries(
    {"name": NAMES, "image": st.sampled_from(["i", "i", "i", "i", ""])},
    optional={
        "resources": maybe(limits=REQUESTS, requests=REQUESTS, claims=st.lists(maybe(name=NAMES), max_size=2)),
        "volumeMounts": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(VOLUMES), "mountPath": st.sampled_from(["/a", "/b"])}),
            max_size=2,
        ),
    },
)
CLAIMS = maybe(name=NAMES, resourceClaimName=st.just("one"), resourceClaimTemplateName=st.just("two"))
TOLERATIONS = maybe(
    key=st.sampled_from(["nvidia.com/gpu", ""]),
    operator=st.sampled_from(["Exists", "Equal", "", "exists", "Gt", "Lt", "In"]),
    value=st.sampled_from(["", "5", "gpu"]),
    effect=st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", "", "noSchedule", "Never"]),
)
KEYS = maybe(topologyKey=st.sampled_from(["kubernetes.io/hostname", ""]), labelSelector=st.just({}))
TERMS = maybe(
    requiredDuringSchedulingIgnoredDuringExecution=st.lists(KEYS, max_size=1),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(
        st.fixed_dictionaries({"weight": st.just(1), "podAffinityTerm": KEYS}), max_size=1
    ),
)
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(CONTAINERS, max_size=2),
        "volumes": st.lists(
            st.builds(lambda name: {"name": name, "emptyDir": {}}, st.sampled_from(VOLUMES)), max_size=2
        ),
        "resourceClaims": st.lists(CLAIMS, max_size=2),
        "tolerations": st.lists(TOLERATIONS, max_size=2),
        "affinity": maybe(podAffinity=TERMS, podAntiAffinity=TERMS),
    },
)
METADATA = st.one_of(st.builds(lambda n: {"name": n}, POD_NAMES), st.builds(lambda n: {"generateName": n}, POD_NAMES))


async def test_the_api_server_refuses_any_pod_whose_form_the_rule_refuses(api: Api, sides: Sides) -> None:
    refused: list[Json] = []

    @given(METADATA, SPECS)
    @settings(max_examples=400, database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
    def collect(metadata: Json, spec: Json) -> None:
        made = case({"metadata": metadata, "spec": spec})
        if made.messages(PodForm()):
            refused.append(made.pod)

    collect()
    assert len(refused) > 100
    answers = await asyncio.gather(*(tried(api, each, sides.plain) for each in refused), return_exceptions=True)
    wrongly = [pod for pod, answer in zip(refused, answers, strict=True) if not isinstance(answer, ApiError)]
    assert [(pod, case(pod).messages(PodForm())) for pod in wrongly] == []
