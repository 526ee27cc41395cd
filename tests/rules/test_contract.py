"""The contract of all rules: one file with one test file, a page that names the fields read, and no pod makes a rule fail.

Covers framework.interface.
"""

import importlib
import pkgutil
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import webhook.rules
from tests.builders import EMPTY, POOLS, TWO_NODES, UNKNOWN, Case, Obstructed, case, container, pod
from tests.effort import times
from webhook.errors import BadPod
from webhook.framework.cluster_view import Obstacle
from webhook.framework.interface import Rule, Template
from webhook.kube.pod import Pod
from webhook.kube.pod_schema import check
from webhook.policy.model import Rules

NAMES = sorted(module.name for module in pkgutil.iter_modules(webhook.rules.__path__))
LONGEST_MESSAGE = 2000


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"webhook.rules.{name}")


def rule_of(name: str) -> type[Rule]:
    """The one rule of a file."""
    found = [v for v in vars(module_of(name)).values() if isinstance(v, type) and issubclass(v, Rule) and v is not Rule]
    assert len(found) == 1, f"webhook/rules/{name}.py: wanted one rule, saw {found}"
    return found[0]


RULES = {name: rule_of(name)() for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_rule_names_the_fields_it_reads_and_says_what_holds_for_dra(name: str) -> None:
    text = sys.modules[type(RULES[name]).__module__].__doc__ or ""
    assert "\nFields read: " in text
    assert any(word in text for word in ("\nRefused: ", "\nWarned about: "))
    assert "DRA" in text
    assert RULES[name].__doc__


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_has_the_name_of_its_file(name: str) -> None:
    assert type(RULES[name]).__name__.startswith("".join(word.capitalize() for word in name.split("_")))


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_has_a_test_file_with_both_tables(name: str) -> None:
    tests = importlib.import_module(f"tests.rules.test_{name}")
    assert tests.ALLOWED
    assert tests.REFUSED


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_a_rule_can_be_written_and_read_again_and_each_is_documented(name: str) -> None:
    rule = RULES[name]
    written = rule.model_dump(mode="json", by_alias=True)
    assert type(rule).model_validate(written) == rule
    assert type(rule).model_validate({**written, "action": "off"}).action == "off"
    for setting, field in type(rule).model_fields.items():
        assert setting == "action" or field.description, f"{name}.{setting} has no docstring"


@pytest.mark.parametrize("name", NAMES)
def test_a_good_pod_passes(name: str) -> None:
    assert case(pod(restartPolicy="Never")).messages(RULES[name]) == []


def test_the_policy_lists_every_rule_once() -> None:
    listed = [type(getattr(Rules(), name)) for name in Rules.model_fields]
    assert sorted(rule.__module__.rpartition(".")[2] for rule in listed) == NAMES


# --- any pod ----------------------------------------------------------------------------------------------------------

ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 9), st.text(max_size=8), st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)  # fmt: skip
WORDS = st.one_of(
    st.sampled_from(["", "a", "all", "0,1", "void", "\n\u202e\x00", "x" * 300, "NVIDIA_", "privileged", "$(A)"]),
    st.text(max_size=12),
)
QUANTITIES = st.one_of(
    st.sampled_from(["1", "0", "-1", "500m", "0.5", "9" * 30, "1e9", "1E", "", "one", "16", 2, 0.5, -3, "\n"]),
    st.text(max_size=5),
)
RESOURCES = st.dictionaries(
    st.sampled_from(
        ["cpu", "memory", "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/mig-\n",
         "amd.com/gpu", "nvidia.com/GPUs", "volcano.sh/vgpu-number"]
    ),
    QUANTITIES,
    max_size=4,
)  # fmt: skip
ENV_NAMES = st.sampled_from(
    ["NVIDIA_VISIBLE_DEVICES", "CUDA_VERSION", "CUDA_VISIBLE_DEVICES", "NVIDIA_DISABLE_REQUIRE", "LD_PRELOAD", "A"]
)
PATHS = st.sampled_from(
    ["/", "", "/dev", "//dev/nvidia0", "..//var/run/nvidia-container-devices/all", "/mnt", "/a\nb", "/var/run"]
)
LABELS = st.dictionaries(st.one_of(st.sampled_from(["nvidia.com/gpu.product", "a"]), WORDS), WORDS, max_size=2)


def partly(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Maps with any of these keys; sometimes the value has another type."""
    return st.fixed_dictionaries({}, optional={k: st.one_of(v, v, v, ODD) for k, v in parts.items()})


CONTAINERS = partly(
    name=WORDS,
    resources=partly(limits=RESOURCES, requests=RESOURCES, claims=st.lists(partly(name=WORDS), max_size=1)),
    env=st.lists(partly(name=ENV_NAMES, value=WORDS, valueFrom=partly(secretKeyRef=ODD)), max_size=3),
    envFrom=st.lists(partly(prefix=WORDS, configMapRef=ODD), max_size=2),
    volumeMounts=st.lists(partly(name=WORDS, mountPath=PATHS), max_size=2),
    securityContext=partly(
        privileged=st.booleans(),
        capabilities=partly(add=st.lists(st.sampled_from(["ALL", "cap_sys_admin", "\n", "x"]), max_size=2)),
    ),
    restartPolicy=st.sampled_from(["Always", "x"]),
)
TERMS = partly(
    matchExpressions=st.lists(
        partly(key=st.sampled_from(["nvidia.com/gpu.product", "a"]), operator=st.just("In"), values=st.lists(WORDS)),
        max_size=2,
    )
)
SPECS = partly(
    containers=st.lists(CONTAINERS, max_size=2),
    initContainers=st.lists(CONTAINERS, max_size=2),
    ephemeralContainers=st.lists(CONTAINERS, max_size=1),
    volumes=st.lists(partly(name=WORDS, hostPath=partly(path=PATHS)), max_size=2),
    tolerations=st.lists(partly(key=st.sampled_from(["nvidia.com/gpu", ""]), operator=st.just("Exists")), max_size=2),
    nodeSelector=LABELS,
    affinity=partly(
        nodeAffinity=partly(
            requiredDuringSchedulingIgnoredDuringExecution=partly(nodeSelectorTerms=st.lists(TERMS, max_size=2))
        )
    ),
    resources=partly(limits=RESOURCES, requests=RESOURCES),
    priorityClassName=st.one_of(WORDS, st.sampled_from(["system-node-critical", "gpu-training", "gpu-trainin\n"])),
    runtimeClassName=st.one_of(WORDS, st.just("nvidia")),
    nodeName=WORDS,
    schedulerName=WORDS,
    restartPolicy=WORDS,
    hostPID=st.booleans(),
    hostIPC=st.booleans(),
    resourceClaims=st.lists(partly(name=WORDS), max_size=1),
    schedulingGates=st.lists(partly(name=WORDS), max_size=1),
    topologySpreadConstraints=st.lists(partly(topologyKey=WORDS), max_size=1),
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "cdi.k8s.io/\n", "team"]), WORDS
)


OBSTACLE = Obstacle("cpu", "spec", "9 CPUs", "8", "Ask for 8", True)


@st.composite
def cases(draw: st.DrawFn) -> Case | None:
    """A pod that passes `pod_schema.check`, with its context; None if its shape was wrong."""
    made = {"metadata": draw(partly(annotations=ANNOTATIONS, labels=LABELS, name=WORDS)), "spec": draw(SPECS)}
    try:
        known: Pod = check(made)
    except BadPod:
        return None
    cluster = draw(st.sampled_from([EMPTY, UNKNOWN, TWO_NODES, POOLS, replace(POOLS, elastic=True)]))
    return case(
        known,
        cluster=cluster,
        namespace=draw(WORDS),
        workload=draw(st.sampled_from(["training", "inference", "none"])),
        operation=draw(st.sampled_from(["CREATE", "UPDATE"])),
        template=draw(st.sampled_from([None, Template(None), Template(1), Template(4)])),
        nodes=draw(st.sampled_from([None, Obstructed(), Obstructed(OBSTACLE)])),
    )


@given(cases())
@times(3)
def test_no_pod_makes_a_rule_fail_and_its_findings_are_printable_and_repeatable(made: Case | None) -> None:
    if made is None:
        return
    for name, rule in RULES.items():
        messages = made.messages(rule)
        assert messages == made.messages(rule), name
        for message in messages:
            assert message.isprintable(), (name, message)
            assert len(message) <= LONGEST_MESSAGE, (name, message)


def test_findings_are_yielded_one_by_one_so_that_those_beyond_the_bound_cost_nothing() -> None:
    many = [container(str(n), gpu="500m", securityContext={"privileged": True}) for n in range(3)]
    for name in ("gpu_quantity", "privileged"):
        findings = iter(RULES[name].check(*case(pod(*many))[:2]))
        assert next(findings) != next(findings), name
