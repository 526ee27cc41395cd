"""Which priority classes a pod may name."""

from dataclasses import replace

from tests.builders import TWO_NODES, UNKNOWN, Case, ClusterFacts, case, classes, pod
from webhook.framework.interface import ProfileView
from webhook.rules.priority_class import PriorityClassAllowed

RULE = PriorityClassAllowed(reserved={"system-*": (), "gpu-inference": ("serving", "team-b*")})

ENTITLED = PriorityClassAllowed(reserved={"system-*": (), "gpu-top": ("team-a",)}).completed(
    ProfileView(injectors={}, rules={}, entitled={"gpu-inference": ("serving", "team-b*"), "gpu-top": ("serving",)})
)

BY_LABEL = PriorityClassAllowed(
    reserved={**RULE.reserved, "gpu-inference": ("serving", "class.gpu-admission.io/inference")}
)
LABELLED = replace(TWO_NODES, namespaces={"team-a": {"class.gpu-admission.io/inference": ""}})

ALLOWED: dict[str, Case] = {
    "no class": case(pod()),
    "a class that is free for all": case(pod(priorityClassName="gpu-training")),
    "a reserved class in a namespace it is reserved for": case(
        pod(priorityClassName="gpu-inference"), namespace="team-b-prod"
    ),
    "any class while the classes are not yet known": case(pod(priorityClassName="gpu-training"), cluster=UNKNOWN),
    "a class that the API server knows, and our watch does not yet": case(pod(priorityClassName="new", priority=7)),
    "a class that the default settings do not reserve": case(
        pod(priorityClassName="gpu-inference"), rule=PriorityClassAllowed()
    ),
    "the class of a workload, in a namespace that is entitled to it": case(
        pod(priorityClassName="gpu-inference"), namespace="team-b-prod", rule=ENTITLED
    ),
    "the class of a workload, in a namespace with the label that entitles to it": case(
        pod(priorityClassName="gpu-inference"), rule=BY_LABEL, cluster=LABELLED
    ),
    "a class of two entries, by the first": case(
        pod(priorityClassName="gpu-top", priority=7),
        rule=PriorityClassAllowed(reserved={"gpu-top": ("team-a",), "gpu-*": ("serving",)}),
    ),
    "a class of no workload": case(pod(priorityClassName="gpu-training"), rule=ENTITLED),
    "an exception that `reserved` makes": case(pod(priorityClassName="gpu-top", priority=7), rule=ENTITLED),
}

REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a class that does not exist, with a name similar to one that does": (
        case(pod(priorityClassName="gpu-trainnig")),
        [
            'spec.priorityClassName: saw "gpu-trainnig", wanted a PriorityClass of this cluster: gpu-training. '
            "Write gpu-training if that is meant, or remove the line."
        ],
    ),
    "a class that does not exist, with a name of its own": (
        case(pod(priorityClassName="urgent"), cluster=ClusterFacts(priority_classes=classes("b", "a"))),
        [
            'spec.priorityClassName: saw "urgent", wanted a PriorityClass of this cluster: a, b. '
            "Choose one of those, or remove the line."
        ],
    ),
    "a class that does not exist, where there is none": (
        case(pod(priorityClassName="urgent"), cluster=ClusterFacts(priority_classes=classes())),
        [
            'spec.priorityClassName: saw "urgent", wanted a PriorityClass of this cluster: none. '
            "Choose one of those, or remove the line."
        ],
    ),
    "a reserved class that the watch does not know yet": (
        case(pod(priorityClassName="system-new", priority=7)),
        [
            'spec.priorityClassName: saw "system-new" in namespace "team-a", wanted another class: this one is '
            "for no namespace of a tenant. Use gpu-training, or remove the line."
        ],
    ),
    "a system class, by default": (
        case(pod(priorityClassName="system-node-critical"), rule=PriorityClassAllowed()),
        [
            'spec.priorityClassName: saw "system-node-critical" in namespace "team-a", wanted another class: this one is '
            "for no namespace of a tenant. Use gpu-inference, gpu-training, or remove the line."
        ],
    ),
    "a system class while the classes are not yet known": (
        case(pod(priorityClassName="system-node-critical"), cluster=UNKNOWN),
        [
            'spec.priorityClassName: saw "system-node-critical" in namespace "team-a", wanted another class: this one is '
            "for no namespace of a tenant. Remove the line."
        ],
    ),
    "the PriorityClass of a class of workload that the namespace is not entitled to": (
        case(pod(priorityClassName="gpu-inference"), rule=ENTITLED),
        [
            'spec.priorityClassName: saw "gpu-inference" in namespace "team-a", wanted another class: this one is '
            "only for namespaces serving, team-b*. Use gpu-training, or remove the line."
        ],
    ),
    "a class for namespaces with a label": (
        case(pod(priorityClassName="gpu-inference"), rule=BY_LABEL),
        [
            'spec.priorityClassName: saw "gpu-inference" in namespace "team-a", wanted another class: this one is '
            "only for namespaces serving, or those with the label class.gpu-admission.io/inference. Use gpu-training, or "
            "remove the line."
        ],
    ),
    "a class that is reserved for others": (
        case(pod(priorityClassName="gpu-inference")),
        [
            'spec.priorityClassName: saw "gpu-inference" in namespace "team-a", wanted another class: this one is '
            "only for namespaces serving, team-b*. Use gpu-training, or remove the line."
        ],
    ),
}
