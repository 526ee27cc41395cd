"""The taints and labels of nodes that a policy refers to, beside those of the shipped policy, which are for all clusters."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from webhook.injectors.topology_spread import Constraint
from webhook.policy.model import DEFAULT_PROFILE, Policy, PolicyFile, Profile
from webhook.text import bare, listed


class Reference(NamedTuple):
    """A taint or label that a profile refers to, and the `field` that does."""

    field: str
    key: str
    """of a taint: a name pattern"""
    values: tuple[str, ...] = ()
    """It has one of these values; () is any value."""
    required: bool = False
    """Whether pods wait for ever without it."""

    @property
    def text(self) -> str:
        return f"{bare(self.key)}{f'={listed(map(bare, self.values))}' if self.values else ''}"


def node_taints(profile: Profile) -> Iterator[Reference]:
    for section in ("taints", "allowed"):
        for taint in getattr(profile.injectors.tolerations, section):
            yield Reference(f"injectors.tolerations.{section}", taint.key, (taint.value,) if taint.value else ())
    for key in profile.rules.cpu_pod_on_gpu_node.taints:
        yield Reference("rules.cpuPodOnGpuNode.taints", key)


def node_labels(profile: Profile) -> Iterator[Reference]:
    spread = profile.injectors.topology_spread
    for constraint in spread.constraints if spread.enabled and spread.mode == "constraints" else ():
        required = constraint.when_unsatisfiable == "DoNotSchedule"
        yield Reference("injectors.topologySpread.constraints", constraint.key, required=required)
    for key in profile.placement.gangs.keys:
        yield Reference("placement.gangs.keys", key)
    for key in profile.placement.health.labels:
        yield Reference("placement.health.labels", key)
    for preference in profile.placement.preferences:
        for expression in preference.nodes:
            if expression.operator not in ("NotIn", "DoesNotExist"):
                values = tuple(expression.values) if expression.operator == "In" else ()
                yield Reference("placement.preferences", expression.key, values)


def hard_spread(policy: Policy) -> Iterator[tuple[str, Constraint]]:
    """The constraints with DoNotSchedule that pods get, each with the name of its profile.

    The scheduler counts every value of the key on nodes that the pod's node selector and required node affinity do not exclude,
    with GPUs or without (`nodeAffinityPolicy: Honor`, `nodeTaintsPolicy: Ignore`; podtopologyspread/filtering.go). Where no pod
    can start, none is counted, so that all other values may have `maxSkew` pods at most.
    """
    for name in policy.file.profiles:
        spread = policy.profile(name)[1].injectors.topology_spread
        for constraint in spread.constraints if spread.enabled and spread.mode == "constraints" else ():
            if constraint.when_unsatisfiable == "DoNotSchedule":
                yield name, constraint


def added(policy: Policy, references: Callable[[Profile], Iterator[Reference]]) -> Iterator[tuple[str, Reference]]:
    """The references that the shipped profile does not have, each with the name of the first profile that has it."""
    seen = set(references(_shipped()))
    for name in policy.file.profiles:
        for reference in references(policy.profile(name)[1]):
            if reference not in seen:
                seen.add(reference)
                yield name, reference


@cache
def _shipped() -> Profile:
    return Policy.of(PolicyFile()).profile(DEFAULT_PROFILE)[1]
