"""Which priority classes a pod may name."""

from dataclasses import replace
from typing import Any

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


ALLOWED: dict[str, Case] = {
    "no class": case(pod()),
    "a class that is free for all": named("gpu-training"),
    "a reserved class in a namespace it is reserved for": named("gpu-inference", namespace="team-b-prod"),
    "any class while the classes are not yet known": named("gpu-training", cluster=UNKNOWN),
    "a class that the API server knows, and our watch does not yet": named("new", 7),
    "a class that the default settings do not reserve": named("gpu-inference", rule=PriorityClassAllowed()),
    "the class of a workload, in a namespace that is entitled to it": named(
        "gpu-inference", namespace="team-b-prod", rule=ENTITLED
    ),
    "the class of a workload, in a namespace with the label that entitles to it": named(
        "gpu-inference", rule=BY_LABEL, cluster=LABELLED
    ),
    "a class of two entries, by the first": named("gpu-top", 7, rule=TWO_ENTRIES),
    "a class of no workload": named("gpu-training", rule=ENTITLED),
    "a guessed class of a pod in a group": grouped(guessed=True),
    "a class of a pod in a group that its author names": grouped(priorityClassName="gpu-training"),
    "a pod in a group without a GPU": grouped(0),
    "an exception that `reserved` makes": named("gpu-top", 7, rule=ENTITLED),
}


def unknown(name: str, end: str) -> list[str]:
    return [f'spec.priorityClassName: saw "{name}", wanted a PriorityClass of this cluster: {end}']


def others(name: str, end: str) -> list[str]:
    return [
        f'spec.priorityClassName: saw "{name}" in namespace "team-a", wanted another class: this one is {end} or remove the line.'
    ]


_CHOOSE = "Choose one of those, or remove the line."
_NOBODY = "for no namespace of a tenant."
_SERVING = "only for namespaces serving, team-b*. Use gpu-training,"
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a class that does not exist, with a name similar to one that does": (
        named("gpu-trainnig"),
        unknown("gpu-trainnig", "gpu-training. Write gpu-training if that is meant, or remove the line."),
    ),
    "a class that does not exist, with a name of its own": (
        named("urgent", cluster=ClusterFacts(priority_classes=classes("b", "a"))),
        unknown("urgent", f"a, b. {_CHOOSE}"),
    ),
    "a class that does not exist, where there is none": (
        named("urgent", cluster=ClusterFacts(priority_classes=classes())),
        unknown("urgent", f"none. {_CHOOSE}"),
    ),
    "a reserved class that the watch does not know yet": (
        named("system-new", 7),
        others("system-new", f"{_NOBODY} Use gpu-training,"),
    ),
    "a system class, by default": (
        named("system-node-critical", rule=PriorityClassAllowed()),
        others("system-node-critical", f"{_NOBODY} Use gpu-inference, gpu-training,"),
    ),
    "a system class, although `reserved` leaves it out": (
        named("system-node-critical", rule=ENTITLED),
        others("system-node-critical", f"{_NOBODY} Use gpu-training,"),
    ),
    "a system class while the classes are not yet known": (
        named("system-node-critical", cluster=UNKNOWN),
        [others("system-node-critical", _NOBODY)[0].replace(" or remove", " Remove")],
    ),
    "the PriorityClass of a class of workload that the namespace is not entitled to": (
        named("gpu-inference", rule=ENTITLED),
        others("gpu-inference", _SERVING),
    ),
    "a class for namespaces with a label": (
        named("gpu-inference", rule=BY_LABEL),
        others(
            "gpu-inference",
            "only for namespaces serving, or those with the label class.gpu-admission.io/inference. Use gpu-training,",
        ),
    ),
    "a class that is reserved for others": (named("gpu-inference"), others("gpu-inference", _SERVING)),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "a label for a class, in a pod of a group": (
        grouped(),
        [
            "spec.priorityClassName: saw none in a pod of a group, with a label for class training, wanted gpu-training, in the "
            "PodGroup too: both need the same priority, so the label alone does nothing. Name it in both, or remove the label."
        ],
    ),
}
