"""The check that the fields of a pod have the types that its readers trust."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU, container, pod
from webhook.errors import BadPod
from webhook.kube.pod_schema import check

EVERYTHING = pod(
    container(
        env={"A": "b", "C": {"fieldRef": {"fieldPath": "metadata.name"}}},
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "x"}}, {"secretRef": {"name": "y"}}],
        ports=[{"containerPort": 80, "hostPort": 8080}],
        volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "s"}],
        volumeDevices=[{"name": "d", "devicePath": "/dev/xvda"}],
        securityContext={"privileged": False, "capabilities": {"add": ["SYS_PTRACE"], "drop": ["ALL"]}},
        restartPolicy=None,
    ),
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
    securityContext={},
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
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
            ]
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
        pytest.param(pod(container(limits={GPU: 2, "cpu": 0.5})), id="quantities as numbers"),
    ],
)
def test_a_well_formed_pod_is_returned_unchanged(good: dict[str, Any]) -> None:
    before = copy.deepcopy(good)
    assert check(good) is good
    assert good == before


def replaced(path: list[str | int], value: object) -> dict[str, Any]:
    changed: Any = copy.deepcopy(EVERYTHING)
    here = changed
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    result: dict[str, Any] = changed
    return result


NODE = ["spec", "affinity", "nodeAffinity"]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MALFORMED: list[tuple[list[str | int], object, str]] = [
    (["metadata"], None, "metadata: wanted a map, saw nothing"),
    (["metadata"], "x", "metadata: wanted a map, saw a string"),
    (["spec"], [], "spec: wanted a map, saw a list"),
    (["metadata", "labels"], [], "metadata.labels: wanted a map, saw a list"),
    (["metadata", "labels", "app"], 5, 'metadata.labels["app"]: wanted a string, saw a number'),
    (["metadata", "annotations", "a\nb"], {}, r'metadata.annotations["a\nb"]: wanted a string, saw a map'),
    (["metadata", "name"], 5, "metadata.name: wanted a string, saw a number"),
    (["metadata", "ownerReferences"], {}, "metadata.ownerReferences: wanted a list, saw a map"),
    (["metadata", "ownerReferences", 0], "x", "metadata.ownerReferences[0]: wanted a map, saw a string"),
    (["metadata", "ownerReferences", 0, "uid"], [], "metadata.ownerReferences[0].uid: wanted a string, saw a list"),
    (["spec", "containers"], {}, "spec.containers: wanted a list, saw a map"),
    (["spec", "containers", 0], None, "spec.containers[0]: wanted a map, saw nothing"),
    (["spec", "initContainers", 0, "name"], True, "spec.initContainers[0].name: wanted a string, saw true"),
    (["spec", "containers", 0, "resources"], 1, "spec.containers[0].resources: wanted a map, saw a number"),
    (
        ["spec", "containers", 0, "resources", "limits", GPU],
        None,
        f'spec.containers[0].resources.limits["{GPU}"]: wanted a quantity, saw nothing',
    ),
    (
        ["spec", "containers", 0, "resources", "requests", GPU],
        True,
        f'spec.containers[0].resources.requests["{GPU}"]: wanted a quantity, saw true',
    ),
    (["spec", "overhead", "cpu"], [], 'spec.overhead["cpu"]: wanted a quantity, saw a list'),
    (["spec", "containers", 0, "env"], {}, "spec.containers[0].env: wanted a list, saw a map"),
    (["spec", "containers", 0, "env", 0], "A=b", "spec.containers[0].env[0]: wanted a map, saw a string"),
    (["spec", "containers", 0, "env", 0, "name"], 5, "spec.containers[0].env[0].name: wanted a string, saw a number"),
    (["spec", "containers", 0, "env", 1, "value"], 5, "spec.containers[0].env[1].value: wanted a string, saw a number"),
    (
        ["spec", "containers", 0, "securityContext", "privileged"],
        "yes",
        "spec.containers[0].securityContext.privileged: wanted true or false, saw a string",
    ),
    (["spec", "tolerations", 0, "key"], [], "spec.tolerations[0].key: wanted a string, saw a list"),
    (
        ["spec", "topologySpreadConstraints", 0, "topologyKey"],
        {},
        "spec.topologySpreadConstraints[0].topologyKey: wanted a string, saw a map",
    ),
    (["spec", "nodeSelector", "a"], 1, 'spec.nodeSelector["a"]: wanted a string, saw a number'),
    (["spec", "nodeName"], [], "spec.nodeName: wanted a string, saw a list"),
    (["spec", "hostPID"], "true", "spec.hostPID: wanted true or false, saw a string"),
    (["spec", "affinity"], [], "spec.affinity: wanted a map, saw a list"),
    ([*NODE, PREFERRED, 0, "preference"], [], f"{'.'.join(NODE)}.{PREFERRED}[0].preference: wanted a map, saw a list"),
    (
        [*NODE, PREFERRED, 0, "weight"],
        "100",
        f"{'.'.join(NODE)}.{PREFERRED}[0].weight: wanted a whole number, saw a string",
    ),
    (
        [*NODE, REQUIRED, "nodeSelectorTerms", 0, "matchFields", 0, "values", 0],
        7,
        f"{'.'.join(NODE)}.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].values[0]: wanted a string, saw a number",
    ),
    (
        ["spec", "affinity", "podAntiAffinity", PREFERRED, 0],
        "x",
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0]: wanted a map, saw a string",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), [pytest.param(*row, id=row[2]) for row in MALFORMED])
def test_a_malformed_pod_is_refused_with_the_path_of_the_field(
    path: list[str | int], value: object, message: str
) -> None:
    with pytest.raises(BadPod) as caught:
        check(replaced(path, value))
    assert str(caught.value) == message


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


def paths(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, item in items for p in ((*here, key), *paths(item, (*here, key)))]


@given(st.sampled_from(paths(EVERYTHING)), JSON)
def test_any_value_at_any_path_is_accepted_or_a_bad_pod(path: tuple[str | int, ...], value: object) -> None:
    message = ""
    try:
        check(replaced(list(path), value))
    except BadPod as error:
        message = str(error)
    assert message == "" or ("wanted" in message and message.isprintable())
