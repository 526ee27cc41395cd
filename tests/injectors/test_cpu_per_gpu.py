"""The injector that adds missing CPU and memory requests beside GPUs.

Covers framework.resources_per_gpu.
"""

import pytest

from tests.builders import GPU, Case, container
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from tests.injectors.filling import BOTH, BUSY, FILL, LIMITED, NODE, OWN, SLICE, SMALL, asking, on, requests, view
from tests.state import objects
from webhook.framework.interface import Outcome
from webhook.framework.resources_per_gpu import CLASSES, PerGpu
from webhook.injectors.cpu_per_gpu import CpuPerGpuRequests
from webhook.kube.pod import DECISION
from webhook.policy.model import Policy


def beside(**asked: str) -> Case:
    """A container with a GPU beside one that has none and asks for this."""
    return on(view(), pod(containers=[asking(), container("other", gpu=None, requests=asked)]))


LEFT_ALONE = [
    pytest.param(on(view(), pod(containers=[asking(cpu="1", memory="64Mi")])), None, id="requests of the user"),
    pytest.param(on(view(), pod(containers=[asking(cpu="0", memory="0")])), None, id="requests of 0"),
    pytest.param(
        on(view(), pod(containers=[LIMITED])), None, id="limits without requests, which the API server makes equal"
    ),
    pytest.param(on(view(), pod(containers=[asking()]), workload="development"), None, id="a class without numbers"),
    pytest.param(on(view(), pod(containers=[SLICE])), None, id="a part of a GPU"),
    pytest.param(on(view(), pod(containers=[{"name": "main"}])), None, id="a container without a GPU"),
    pytest.param(
        on(view(), pod(containers=[asking(cpu="8", memory="1Gi")], init=[asking(name="setup")])),
        None,
        id="an init container, which runs alone",
    ),
    pytest.param(
        on(view(), pod(containers=[{"name": "main"}], ephemeral=[asking(name="debug")])),
        None,
        id="an ephemeral container",
    ),
    pytest.param(
        on(view(), pod(containers=[{"name": "m", "resources": {"claims": [{"name": "gpu"}]}}])),
        None,
        id="GPUs by a claim",
    ),
    pytest.param(
        on(view(), pod(containers=[asking()], resources={"limits": {"memory": "64Gi"}})),
        "the pod has resources of its own",
        id="pod-level resources",
    ),
    pytest.param(
        on(view(), pod(containers=[asking()], owned_by="DaemonSet")), "its node is fixed", id="a pod of a DaemonSet"
    ),
    *[
        pytest.param(
            on(view(), pod(containers=[asking()], schedulerName=name)),
            "its scheduler plans by what its template asks for",
            id=f"a pod of {name}",
        )
        for name in ("kai-scheduler", "volcano", "yunikorn")
    ],
    pytest.param(
        on(view(), pod(containers=[asking()], annotations={DECISION: "{}"})),
        "decided for before",
        id="an earlier decision",
    ),
    pytest.param(
        on(view(fresh=False), pod(containers=[asking()])), "cluster state is stale", id="a state that is not fresh"
    ),
    pytest.param(beside(cpu="many"), "a request is not a quantity", id="a request that is no quantity"),
    pytest.param(on(view(), pod(containers=BOTH)), "GPUs of several names", id="GPUs of two vendors"),
    pytest.param(
        on(view(), pod(containers=[asking(16)])), "no node has as many GPUs", id="more GPUs than any node has"
    ),
    pytest.param(
        on(view(node("plain", 0)), pod(containers=[asking()])), "no node has as many GPUs", id="GPUs that no node has"
    ),
    pytest.param(
        beside(cpu="13", memory="100Gi"),
        "the pod requests its share of a node already",
        id="another container that requests the share of a node",
    ),
    pytest.param(
        on(view(NODE, taken=[BUSY]), pod(containers=[asking()])),
        "no node has as much free now",
        id="a node with room for the pod, but not for more",
    ),
]


@pytest.mark.parametrize(("left", "why"), LEFT_ALONE)
def test_left_alone(left: Case, why: str | None) -> None:
    assert unchanged(FILL, left) == (Outcome("skipped", why) if why else Outcome("none"))


FULL = {"cpu": "8", "memory": "32Gi"}
_OTHER = container("other", gpu=None, requests={"cpu": "3", "memory": "11Gi"})
_MORE = container("other", gpu=None, requests={"cpu": "4", "memory": "1Gi"})
# What the container has then, what it had before of that, and whether its class needs more.
FILLED = [
    pytest.param(on(view(), pod(containers=[asking()])), FULL, {}, False, id="neither"),
    pytest.param(
        on(view(), pod(containers=[{"name": "m", "resources": {"limits": {GPU: "4"}, "requests": None}}])),
        {"cpu": "32", "memory": "128Gi"},
        {},
        False,
        id="no requests at all, of four GPUs",
    ),
    pytest.param(
        on(view(), pod(containers=[asking(cpu="1")])),
        {"cpu": "1", "memory": "32Gi"},
        {"cpu": "1"},
        False,
        id="only memory is missing",
    ),
    pytest.param(
        on(view(), pod(containers=[{"name": "m", "resources": {"limits": {GPU: "1", "cpu": "2"}}}])),
        {"memory": "32Gi"},
        {},
        False,
        id="a limit stands in for the request of CPU",
    ),
    pytest.param(
        on(view(), pod(containers=[asking()]), workload="inference"),
        {"cpu": "4", "memory": "8Gi"},
        {},
        False,
        id="another class",
    ),
    pytest.param(
        on(view(NODE, SMALL), pod(containers=[asking()])),
        {"cpu": "3136m", "memory": "12Gi"},
        {},
        True,
        id="no more than the share of the smallest node",
    ),
    pytest.param(
        on(view(NODE, SMALL), pod(containers=[asking(2)])),
        {"cpu": "16", "memory": "64Gi"},
        {},
        False,
        id="a smaller node that has not as many GPUs does not count",
    ),
    pytest.param(
        on(view(SMALL), pod(containers=[asking(), _OTHER])),
        {"cpu": "136m", "memory": "1Gi"},
        {},
        True,
        id="the share less what other containers request",
    ),
    pytest.param(
        on(view(SMALL), pod(containers=[asking(), _MORE])),
        {"memory": "11Gi"},
        {},
        True,
        id="what is left of one resource only",
    ),
    pytest.param(
        on(view(NODE, taken=[objects.stored("all", 8, on="big")]), pod(containers=[asking()])),
        FULL,
        {},
        False,
        id="a node that is full now, where the pod waits in any case",
    ),
    pytest.param(
        on(view(NODE, taken=[BUSY]), pod(containers=[asking()]), strategy="off"),
        FULL,
        {},
        False,
        id="a full node, where the scheduler chooses",
    ),
]


@pytest.mark.parametrize(("starved", "wanted", "before", "less"), FILLED)
def test_missing_requests_are_added(starved: Case, wanted: dict[str, str], before: dict[str, str], less: bool) -> None:
    limits = starved.pod["spec"]["containers"][0]["resources"].get("limits")
    after, said = applied(FILL, starved, OWN)
    assert requests(after) == wanted
    assert after["spec"]["containers"][0]["resources"]["limits"] == limits, "no limits are added"
    added = {name: amount for name, amount in wanted.items() if name not in before}
    assert said == Outcome("filledLess" if less else "filled", added)


def test_containers_and_sidecars_share_by_their_numbers_of_gpus() -> None:
    sidecar = asking(name="side") | {"restartPolicy": "Always"}
    made = pod(containers=[asking(2, "a"), asking(1, "b", memory="1Gi"), container("c", gpu=None)], init=[sidecar])
    after, said = applied(FILL, on(view(), made), OWN)
    assert requests(after, position=0) == {"cpu": "16", "memory": "64Gi"}
    assert requests(after, position=1) == {"cpu": "8", "memory": "1Gi"}
    assert after["spec"]["containers"][2] == container("c", gpu=None)
    assert requests(after, "initContainers") == FULL
    assert said[:2] == ("filled", {"cpu": "32", "memory": "96Gi"})


def test_numbers_and_share_are_settings() -> None:
    odd = PerGpu(cpu=("2500m", "3"), memory=("1G", "2G"))
    after, _ = applied(CpuPerGpuRequests(classes={"training": odd}), on(view(), pod(containers=[asking()])), OWN)
    assert requests(after) == {"cpu": "2500m", "memory": "1000000000"}
    after, _ = applied(CpuPerGpuRequests(classes=CLASSES, node_share=10), on(view(), pod(containers=[asking()])), OWN)
    assert requests(after) == {"cpu": "1600m", "memory": "12800Mi"}


def test_a_new_or_changed_node_counts_at_once() -> None:
    of = objects.state([NODE])
    big, small = {"cpu": 16000, "memory": 125 * 2**30}, {"cpu": 3920, "memory": 15 * 2**30}
    assert of.view(0).least_per_gpu(GPU, 1) == big
    of.node_seen(SMALL)
    assert [of.view(0).least_per_gpu(GPU, count) for count in (1, 2, 10**30)] == [small, big, None]
    of.node_gone("small")
    assert of.view(0).least_per_gpu(GPU, 1) == big
    assert of.view(0).least_per_gpu("amd.com/gpu", 1) is None


RULES = "rules: {cpuPerGpu: {classes: {training: {cpu: ['2', '4'], memory: [1Gi, 2Gi]}}}}"
OWN_CLASSES = "classes: {notebook: {cpu: ['1', '2'], memory: [1Gi, 2Gi]}}"


@pytest.mark.parametrize(
    ("injector", "cpu"),
    [
        pytest.param("enabled: true", {"training": "2"}, id="those of the rule"),
        pytest.param(f"enabled: true, {OWN_CLASSES}", {"notebook": "1"}, id="its own"),
    ],
)
def test_the_numbers_are_those_of_the_rule_unless_it_has_its_own(injector: str, cpu: dict[str, str]) -> None:
    policy = Policy.load(
        f"classes: [{{class: notebook}}]\nprofiles: {{default: {{injectors: {{cpuPerGpu: {{{injector}}}}}, {RULES}}}}}"
    )
    fill = dict(policy.units["default"].injectors)["cpuPerGpu"]
    assert isinstance(fill, CpuPerGpuRequests)
    assert {name: per.cpu[0] for name, per in (fill.classes or {}).items()} == cpu
