"""The facts of all vendors by kind, in the order of VENDORS. They are constants: nothing changes them."""

from typing import Final, Literal, TypeVar

from webhook import vendors
from webhook.text import matches
from webhook.vendors.model import (
    Annotation,
    Condition,
    Fact,
    Gives,
    HostPath,
    Label,
    Metric,
    One,
    Resource,
    Says,
    SeriesLabel,
    Taint,
    TaintSays,
    Unhealthy,
    Variable,
)

F = TypeVar("F", bound=Fact)


def every(kind: type[F]) -> tuple[F, ...]:
    """All facts of one kind."""
    facts = (fact for vendor in vendors.VENDORS for of_source in vendor.facts.values() for fact in of_source)
    return tuple([fact for fact in facts if isinstance(fact, kind)])


def labels(*says: Says) -> tuple[str, ...]:
    """The keys of the labels that say this of a node."""
    return tuple([label.key for label in every(Label) if label.says in says])


def machine_domains() -> frozenset[str]:
    """The domains of the labels that a node has as soon as it is made, since they say what machine it is: those of the vendors
    whose labels name pools, and of Kubernetes. A key without a domain is here itself."""
    of_vendors = [
        [fact for of in each.facts.values() for fact in of if isinstance(fact, Label)] for each in vendors.VENDORS
    ]
    made = [label for found in of_vendors if any([each.says == "pool" for each in found]) for label in found]
    return frozenset(["topology.kubernetes.io", "node.kubernetes.io", *[label.key.partition("/")[0] for label in made]])


def resources(*one: One) -> tuple[Resource, ...]:
    """The resources of which one is this."""
    return tuple([resource for resource in every(Resource) if resource.one in one])


GPU: Final = resources("whole")[0].name
"""The best known resource, for examples."""


def taints(says: TaintSays) -> tuple[Taint, ...]:
    """The taints that say this, without those that a pattern among them covers."""
    found = [taint for taint in every(Taint) if taint.says == says]
    wider = [taint for taint in found if taint.key.endswith("*")]
    return tuple([each for each in found if not any([matches(one.key, each.key) for one in wider if one is not each])])


def variables(*gives: Gives) -> tuple[str, ...]:
    """The names of the variables that give this."""
    return tuple([variable.name for variable in every(Variable) if variable.gives in gives])


def sharing(resource: str) -> str:
    """The name of the system, with no GPUs of its own, that counts a resource for parts of GPUs; "" if none is known."""
    for vendor in vendors.VENDORS:
        known = [fact for of in vendor.facts.values() for fact in of if isinstance(fact, Resource)]
        if not any([fact.one == "whole" for fact in known]) and any([matches(fact.name, resource) for fact in known]):
            return vendor.name
    return ""


def hiding() -> dict[str, str]:
    """By the domain of its resources, the variable of each vendor with which a container gets no device, and its value:
    "AMD_VISIBLE_DEVICES=void". Without the first vendor's."""
    found: dict[str, str] = {}
    for vendor in vendors.VENDORS[1:]:
        facts = [fact for of_source in vendor.facts.values() for fact in of_source]
        written = [f"{fact.name}={fact.none[0]}" for fact in facts if isinstance(fact, Variable) and fact.none]
        domains = [fact.name.partition("/")[0] for fact in facts if isinstance(fact, Resource)]
        found |= {domain: pair for pair in written for domain in domains}
    return found


def hiding_anywhere() -> tuple[str, ...]:
    """The variables, with their values, that pods for any node may have. Without the first vendor's."""
    return tuple([f"{each.name}={each.none[0]}" for each in every(Variable) if each.none and each.anywhere])


def annotations(*gives: Gives, by_scheduler: bool = False) -> tuple[str, ...]:
    """The keys of the annotations that give this."""
    every_one = [each for each in every(Annotation) if each.by_scheduler is by_scheduler]
    return tuple([each.key for each in every_one if each.gives in gives])


def unhealthy() -> dict[str, tuple[str, ...]]:
    """By label, its values on a node that is not to be chosen."""
    return {label.key: label.values for label in every(Unhealthy)}


def conditions(*, of_parts: bool = False) -> dict[str, str]:
    """By condition, its status on a node that is not to be chosen; `of_parts`: for pods that ask for parts of GPUs."""
    return {each.type: each.sick for each in every(Condition) if each.of_parts is of_parts}


def metric(measures: str) -> str:
    """The name of the metric that measures this."""
    return next(each.name for each in every(Metric) if each.measures == measures)


def series_labels(*says: str) -> tuple[str, ...]:
    """The labels of series that say one of these, those of the first before those of the next."""
    return tuple([label.name for one in says for label in every(SeriesLabel) if label.says == one])


def host_paths(gives: Literal["node", "nothing"]) -> tuple[str, ...]:
    """The paths of nodes that give this, wherever they are mounted."""
    return tuple([path.path for path in every(HostPath) if path.gives == gives and not path.label])
