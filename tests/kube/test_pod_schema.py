"""The check that the fields of a pod have the types that its readers trust."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU, container
from tests.controlplane.objects import pod
from webhook.errors import BadPod
from webhook.kube.pod import REQUIRED
from webhook.kube.pod_schema import check

Path = tuple[str | int, ...]

EVERYTHING = pod(
    containers=[
        container(
            env={"A": "b", "C": {"configMapKeyRef": {"name": "x"}}},
            envFrom=[{"prefix": "P_", "configMapRef": {"name": "x"}}, {"secretRef": {"name": "y"}}],
            ports=[{"containerPort": 80, "hostPort": 8080}],
            volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s"}],
            volumeDevices=[{"name": "d", "devicePath": "/dev/xvda"}],
            securityContext={"privileged": False, "capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]}},
            restartPolicy=None,
        )
    ],
    init=[container("setup", gpu=None)],
    ephemeral=[container("debug", gpu=None)],
    labels={"app": "a"},
    annotations={"note": "n"},
    owned_by="ReplicaSet",
    tolerations=[{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
    topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1, "labelSelector": {"matchLabels": {"a": "b"}}}],
    schedulingGates=[{"name": "g"}],
    resourceClaims=[{"name": "c"}],
    volumes=[{"name": "v", "hostPath": {"path": "/v"}}],
    nodeName="n",
    schedulerName="default-scheduler",
    priorityClassName="p",
    runtimeClassName="nvidia",
    serviceAccountName="s",
    restartPolicy="Always",
    preemptionPolicy="Never",
    hostPID=False,
    hostIPC=False,
    nodeSelector={"a": "b"},
    resources={"limits": {"cpu": 8}, "requests": {"cpu": 0.5}},
    overhead={"cpu": "1"},
    securityContext={
        "windowsOptions": {"hostProcess": False},
        **{f"{kind}Profile": {"type": "RuntimeDefault"} for kind in ("seccomp", "appArmor")},
        "seLinuxOptions": {"type": "container_t"},
    },
    affinity={
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
            ],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "In", "values": ["b"]}]}, {}]
            },
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"topologyKey": "zone"}}]
        },
    },
)


@pytest.mark.parametrize(
    "good",
    [
        pytest.param(EVERYTHING, id="a pod with everything"),
        pytest.param({"metadata": {}, "spec": {}}, id="a pod with nothing"),
        pytest.param({"metadata": {"labels": None}, "spec": {"containers": None, "affinity": None}}, id="nulls"),
        pytest.param(
            {"metadata": {"x": 1}, "spec": {"y": [{}], "containers": [{"z": 1}]}, "status": 5}, id="unknown fields"
        ),
        pytest.param(pod(limits={GPU: 2, "cpu": 0.5}), id="quantities as numbers"),
    ],
)
def test_a_well_formed_pod_is_returned_unchanged(good: dict[str, Any]) -> None:
    before = copy.deepcopy(good)
    assert check(good) is good
    assert good == before


def replaced(path: Path, value: object) -> dict[str, Any]:
    changed: dict[str, Any] = copy.deepcopy(EVERYTHING)
    here: Any = changed
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    return changed


def paths(value: Any, here: Path = ()) -> list[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, item in items for p in ((*here, key), *paths(item, (*here, key)))]


def dotted(path: Path) -> str:
    """As messages write it, whatever the form of keys that are free."""
    return ".".join(map(str, path))


UNREAD = {"apiVersion", "kind", "image", "containerPort", "tolerationSeconds", "maxSkew", "controller"}
UNREAD_WITHIN = {"configMapRef", "secretRef", "schedulingGates"}
"""Fields that no unit reads, and those within which none is read."""
READ = [path for path in paths(EVERYTHING) if path[-1] not in UNREAD and UNREAD_WITHIN.isdisjoint(path[:-1])]
SELECTED = "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0]"
MALFORMED: list[tuple[Path, object, str]] = [
    (("metadata",), None, "metadata: wanted a map, saw nothing"),
    (("spec",), [], "spec: wanted a map, saw a list"),
    (("metadata", "labels", "app"), 5, 'metadata.labels["app"]: wanted a string, saw a number'),
    (("metadata", "annotations", "a\nb"), {}, r'metadata.annotations["a\nb"]: wanted a string, saw a map'),
    (("spec", "containers", 0), None, "spec.containers[0]: wanted a map, saw nothing"),
    (("spec", "initContainers", 0, "name"), True, "spec.initContainers[0].name: wanted a string, saw true"),
    (("spec", "overhead", "cpu"), True, 'spec.overhead["cpu"]: wanted a quantity, saw true'),
    (("spec", "overhead", "cpu"), [], 'spec.overhead["cpu"]: wanted a quantity, saw a list'),
    (("spec", "containers", 0, "env"), {}, "spec.containers[0].env: wanted a list, saw a map"),
    (("spec", "hostPID"), "true", "spec.hostPID: wanted true or false, saw a string"),
    (
        ("spec", "containers", 0, "ports", 0, "hostPort"),
        "1",
        "spec.containers[0].ports[0].hostPort: wanted a whole number, saw a string",
    ),
    (
        ("spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0, "matchFields", 0, "key"),
        None,
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].key: wanted a string, saw nothing",
    ),
    *[
        (("spec", "topologySpreadConstraints", 0, "labelSelector", "matchExpressions"), [{"key": "a", **expression}], message)
        for expression, message in (
            ({"key": None, "operator": "Exists"}, f"{SELECTED}.key: wanted a string, saw nothing"),
            ({}, f"{SELECTED}.operator: wanted a string, saw nothing"),
            ({"operator": "Is"}, f'{SELECTED}.operator: wanted one of In, NotIn, Exists, DoesNotExist, saw "Is"'),
            ({"operator": "In", "values": [1]}, f"{SELECTED}.values[0]: wanted a string, saw a number"),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), [pytest.param(*row, id=row[2]) for row in MALFORMED])
def test_a_malformed_pod_is_refused_with_the_path_of_the_field(path: Path, value: object, message: str) -> None:
    with pytest.raises(BadPod) as caught:
        check(replaced(path, value))
    assert str(caught.value) == message


@pytest.mark.parametrize("path", READ, ids=dotted)
def test_every_field_that_is_read_is_checked(path: Path) -> None:
    """Of no type is a tuple: no JSON has one."""
    with pytest.raises(BadPod, match=r": wanted .*, saw tuple$"):
        check(replaced(path, ()))


@pytest.mark.parametrize(
    ("value", "seen"), [(None, "nothing"), ([], "a list"), ("pod", "a string"), (5, "a number")], ids=str
)
def test_a_pod_that_is_no_map_is_refused(value: object, seen: str) -> None:
    with pytest.raises(BadPod, match=f"^object: wanted a Pod, saw {seen}$"):
        check(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=3), inside, max_size=2),
    max_leaves=5,
)


@given(st.sampled_from(paths(EVERYTHING)), JSON)
def test_any_value_at_any_path_is_accepted_or_a_bad_pod(path: Path, value: object) -> None:
    message = ""
    try:
        check(replaced(path, value))
    except BadPod as error:
        message = str(error)
    assert message == "" or ("wanted" in message and message.isprintable())
