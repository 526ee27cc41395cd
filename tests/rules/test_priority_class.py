"""Which priority classes a pod may name."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import TWO_NODES, UNKNOWN, Case, ClusterFacts, case, classes
from tests.controlplane.objects import pod
from webhook.framework.interface import ProfileView, Workload
from webhook.injectors.priority_class import PriorityClassName
from webhook.rules.priority_class import PriorityClassAllowed

SERVING = ("serving", "team-b*")
RULE = PriorityClassAllowed(reserved={"system-*": (), "gpu-inference": SERVING})
ENTITLED = PriorityClassAllowed(reserved={"gpu-top": ("team-a",)}).completed(
    ProfileView(
        injectors={"priorityClass": PriorityClassName()},
        rules={},
        entitled={"gpu-inference": SERVING, "gpu-top": ("serving",)},
    )
)
BY_LABEL = PriorityClassAllowed(
    reserved={**RULE.reserved, "gpu-inference": ("serving", "class.gpu-admission.io/inference")}
)
LABELLED = replace(TWO_NODES, namespaces={"team-a": {"class.gpu-admission.io/inference": ""}})
TWO_ENTRIES = PriorityClassAllowed(reserved={"gpu-top": ("team-a",), "gpu-*": ("serving",)})


def named(name: str, priority: int | None = None, **context: Any) -> Case:
    return case(pod(priorityClassName=name, **({} if priority is None else {"priority": priority})), **context)


def grouped(gpus: int = 1, *, guessed: bool = False, **spec: Any) -> Case:
    """A pod of a group, whose label asks for its class, or with a guess."""
    made = case(pod("p", gpus, schedulingGroup={"podGroupName": "ring"}, **spec), rule=ENTITLED)
    return made._replace(context=made.context._replace(workload=Workload("training", guessed=guessed)))


ALLOWED = [
    pytest.param(case(pod()), id="no class"),
    pytest.param(named("gpu-training"), id="a class that is free for all"),
    pytest.param(
        named("gpu-inference", namespace="team-b-prod"), id="a reserved class in a namespace it is reserved for"
    ),
    pytest.param(named("gpu-training", cluster=UNKNOWN), id="any class while the classes are not yet known"),
    pytest.param(named("new", 7), id="a class that the API server knows, and our watch does not yet"),
    pytest.param(
        named("gpu-inference", rule=PriorityClassAllowed()), id="a class that the default settings do not reserve"
    ),
    pytest.param(
        named("gpu-inference", namespace="team-b-prod", rule=ENTITLED),
        id="the class of a workload, in a namespace that is entitled to it",
    ),
    pytest.param(
        named("gpu-inference", rule=BY_LABEL, cluster=LABELLED),
        id="the class of a workload, in a namespace with the label that entitles to it",
    ),
    pytest.param(named("gpu-top", 7, rule=TWO_ENTRIES), id="a class of two entries, by the first"),
    pytest.param(named("gpu-training", rule=ENTITLED), id="a class of no workload"),
    pytest.param(grouped(guessed=True), id="a guessed class of a pod in a group"),
    pytest.param(grouped(priorityClassName="gpu-training"), id="a class of a pod in a group that its author names"),
    pytest.param(grouped(0), id="a pod in a group without a GPU"),
    pytest.param(named("gpu-top", 7, rule=ENTITLED), id="an exception that `reserved` makes"),
]


def unknown(name: str, end: str) -> list[str]:
    return [f'spec.priorityClassName: saw "{name}", wanted a PriorityClass of this cluster: {end}']


def others(name: str, end: str) -> list[str]:
    return [
        f'spec.priorityClassName: saw "{name}" in namespace "team-a", wanted another class: this one is {end} or remove the line.'
    ]


_CHOOSE = "Choose one of those, or remove the line."
_NOBODY = "for no namespace of a tenant."
_SERVING = "only for namespaces serving, team-b*. Use gpu-training,"
REFUSED = [
    pytest.param(
        named("gpu-trainnig"),
        unknown("gpu-trainnig", "gpu-training. Write gpu-training if that is meant, or remove the line."),
        id="a class that does not exist, with a name similar to one that does",
    ),
    pytest.param(
        named("urgent", cluster=ClusterFacts(priority_classes=classes("b", "a"))),
        unknown("urgent", f"a, b. {_CHOOSE}"),
        id="a class that does not exist, with a name of its own",
    ),
    pytest.param(
        named("urgent", cluster=ClusterFacts(priority_classes=classes())),
        unknown("urgent", f"none. {_CHOOSE}"),
        id="a class that does not exist, where there is none",
    ),
    pytest.param(
        named("system-new", 7),
        others("system-new", f"{_NOBODY} Use gpu-training,"),
        id="a reserved class that the watch does not know yet",
    ),
    pytest.param(
        named("system-node-critical", rule=PriorityClassAllowed()),
        others("system-node-critical", f"{_NOBODY} Use gpu-inference, gpu-training,"),
        id="a system class, by default",
    ),
    pytest.param(
        named("system-node-critical", rule=ENTITLED),
        others("system-node-critical", f"{_NOBODY} Use gpu-training,"),
        id="a system class, although `reserved` leaves it out",
    ),
    pytest.param(
        named("system-node-critical", cluster=UNKNOWN),
        [others("system-node-critical", _NOBODY)[0].replace(" or remove", " Remove")],
        id="a system class while the classes are not yet known",
    ),
    pytest.param(
        named("gpu-inference", rule=ENTITLED),
        others("gpu-inference", _SERVING),
        id="the PriorityClass of a class of workload that the namespace is not entitled to",
    ),
    pytest.param(
        named("gpu-inference", rule=BY_LABEL),
        others(
            "gpu-inference",
            "only for namespaces serving, or those with the label class.gpu-admission.io/inference. Use gpu-training,",
        ),
        id="a class for namespaces with a label",
    ),
    pytest.param(named("gpu-inference"), others("gpu-inference", _SERVING), id="a class that is reserved for others"),
]
WARNED = [
    pytest.param(
        grouped(),
        [
            "spec.priorityClassName: saw none in a pod of a group, with a label for class training, wanted gpu-training, in the "
            "PodGroup too: both need the same priority, so the label alone does nothing. Name it in both, or remove the label."
        ],
        id="a label for a class, in a pod of a group",
    ),
    pytest.param(
        grouped(priorityClassName="gpu-top", priority=7),
        [
            'spec.priorityClassName: saw "gpu-top" in a pod of a group, with a label for class training, wanted '
            "gpu-training, in the PodGroup too: both need the same priority, so the label alone does nothing. Name it in both, "
            "or remove the label."
        ],
        id="the same, and the class of all groups by the component pod-groups",
    ),
]
