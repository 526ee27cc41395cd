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
from tests.tables import table
from webhook.framework.interface import Outcome
from webhook.framework.resources_per_gpu import CLASSES, PerGpu
from webhook.injectors.cpu_per_gpu import CpuPerGpuRequests
from webhook.kube.pod import DECISION
from webhook.policy.model import Policy


def beside(**asked: str) -> Case:
    """A container with a GPU beside one that has none and asks for this."""
    return on(view(), pod(containers=[asking(), container("other", gpu=None, requests=asked)]))


LEFT_ALONE: dict[str, tuple[Case, str | None]] = {
    "requests of the user": (on(view(), pod(containers=[asking(cpu="1", memory="64Mi")])), None),
    "requests of 0": (on(view(), pod(containers=[asking(cpu="0", memory="0")])), None),
    "limits without requests, which the API server makes equal": (on(view(), pod(containers=[LIMITED])), None),
    "a class without numbers": (on(view(), pod(containers=[asking()]), workload="development"), None),
    "a part of a GPU": (on(view(), pod(containers=[SLICE])), None),
    "a container without a GPU": (on(view(), pod(containers=[{"name": "main"}])), None),
    "an init container, which runs alone": (
        on(view(), pod(containers=[asking(cpu="8", memory="1Gi")], init=[asking(name="setup")])),
        None,
    ),
    "an ephemeral container": (on(view(), pod(containers=[{"name": "main"}], ephemeral=[asking(name="debug")])), None),
    "GPUs by a claim": (on(view(), pod(containers=[{"name": "m", "resources": {"claims": [{"name": "gpu"}]}}])), None),
    "pod-level resources": (
        on(view(), pod(containers=[asking()], resources={"limits": {"memory": "64Gi"}})),
        "the pod has resources of its own",
    ),
    "a pod of a DaemonSet": (on(view(), pod(containers=[asking()], owned_by="DaemonSet")), "its node is fixed"),
    "an earlier decision": (on(view(), pod(containers=[asking()], annotations={DECISION: "{}"})), "decided for before"),
    "a state that is not fresh": (on(view(fresh=False), pod(containers=[asking()])), "cluster state is stale"),
    "a request that is no quantity": (beside(cpu="many"), "a request is not a quantity"),
    "GPUs of two vendors": (on(view(), pod(containers=BOTH)), "GPUs of several names"),
    "more GPUs than any node has": (on(view(), pod(containers=[asking(16)])), "no node has as many GPUs"),
    "GPUs that no node has": (on(view(node("plain", 0)), pod(containers=[asking()])), "no node has as many GPUs"),
    "another container that requests the share of a node": (
        beside(cpu="13", memory="100Gi"),
        "the pod requests its share of a node already",
    ),
    "a node with room for the pod, but not for more": (
        on(view(NODE, taken=[BUSY]), pod(containers=[asking()])),
        "no node has as much free now",
    ),
}


@pytest.mark.parametrize(("left", "why"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone(left: Case, why: str | None) -> None:
    assert unchanged(FILL, left) == (Outcome("skipped", why) if why else Outcome("none"))


FULL = {"cpu": "8", "memory": "32Gi"}
_OTHER = container("other", gpu=None, requests={"cpu": "3", "memory": "11Gi"})
_MORE = container("other", gpu=None, requests={"cpu": "4", "memory": "1Gi"})
# What the container has then, what it had before of that, and whether its class needs more.
FILLED: dict[str, tuple[Case, dict[str, str], dict[str, str], bool]] = {
    "neither": (on(view(), pod(containers=[asking()])), FULL, {}, False),
    "no requests at all, of four GPUs": (
        on(view(), pod(containers=[{"name": "m", "resources": {"limits": {GPU: "4"}, "requests": None}}])),
        {"cpu": "32", "memory": "128Gi"},
        {},
        False,
    ),
    "only memory is missing": (
        on(view(), pod(containers=[asking(cpu="1")])),
        {"cpu": "1", "memory": "32Gi"},
        {"cpu": "1"},
        False,
    ),
    "a limit stands in for the request of CPU": (
        on(view(), pod(containers=[{"name": "m", "resources": {"limits": {GPU: "1", "cpu": "2"}}}])),
        {"memory": "32Gi"},
        {},
        False,
    ),
    "another class": (
        on(view(), pod(containers=[asking()]), workload="inference"),
        {"cpu": "4", "memory": "8Gi"},
        {},
        False,
    ),
    "no more than the share of the smallest node": (
        on(view(NODE, SMALL), pod(containers=[asking()])),
        {"cpu": "3136m", "memory": "12Gi"},
        {},
        True,
    ),
    "a smaller node that has not as many GPUs does not count": (
        on(view(NODE, SMALL), pod(containers=[asking(2)])),
        {"cpu": "16", "memory": "64Gi"},
        {},
        False,
    ),
    "the share less what other containers request": (
        on(view(SMALL), pod(containers=[asking(), _OTHER])),
        {"cpu": "136m", "memory": "1Gi"},
        {},
        True,
    ),
    "what is left of one resource only": (
        on(view(SMALL), pod(containers=[asking(), _MORE])),
        {"memory": "11Gi"},
        {},
        True,
    ),
    "a node that is full now, where the pod waits in any case": (
        on(view(NODE, taken=[objects.pod("all", 8, on="big")]), pod(containers=[asking()])),
        FULL,
        {},
        False,
    ),
    "a full node, where the scheduler chooses": (
        on(view(NODE, taken=[BUSY]), pod(containers=[asking()]), strategy="off"),
        FULL,
        {},
        False,
    ),
}


@pytest.mark.parametrize(("starved", "wanted", "before", "less"), FILLED.values(), ids=FILLED)
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


@table(
    ("injector", "cpu"),
    {
        "those of the rule": ("enabled: true", {"training": "2"}),
        "its own": (f"enabled: true, {OWN_CLASSES}", {"notebook": "1"}),
    },
)
def test_the_numbers_are_those_of_the_rule_unless_it_has_its_own(injector: str, cpu: dict[str, str]) -> None:
    policy = Policy.load(
        f"classes: [{{class: notebook}}]\nprofiles: {{default: {{injectors: {{cpuPerGpu: {{{injector}}}}}, {RULES}}}}}"
    )
    fill = dict(policy.units["default"].injectors)["cpuPerGpu"]
    assert isinstance(fill, CpuPerGpuRequests)
    assert {name: per.cpu[0] for name, per in (fill.classes or {}).items()} == cpu
