"""Validates the policy ConfigMap when it is applied: refuses a bad policy, and compares a good one with the cluster.

If the policy names something that the cluster does not have, there is only a warning: PriorityClasses and nodes may be created
after the policy.
"""

from collections.abc import Iterator

from webhook.admission.context import subject_of
from webhook.admission.decision import IGNORED, Decision
from webhook.errors import PolicyError
from webhook.framework.cluster_view import Cluster
from webhook.kube.review import Request
from webhook.policy.loader import KEY
from webhook.policy.model import Policy, Profile
from webhook.text import bare, listed, nearest, plural, quoted

_MAX_PROBLEMS = 20


def validate(request: Request, cluster: Cluster) -> Decision:
    """Refuse the policy ConfigMap in `request` if its policy is not valid. The caller has checked that it is this ConfigMap."""
    if request.operation not in ("CREATE", "UPDATE") or request.object is None:
        return IGNORED
    data = request.object.get("data")
    text = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        keys = "no data"
        if isinstance(data, dict) and data:
            keys = plural(len(data), "key") if len(data) > _MAX_PROBLEMS else listed(sorted(data), show=quoted)
        return _refused(request, [f"saw {keys}, wanted the key {quoted(KEY)} with the policy as text"])
    try:
        policy = Policy.load(text)
    except PolicyError as error:
        return _refused(request, error.problems)
    return Decision("allowed", warnings=tuple(_missing(policy, cluster)))


def _refused(request: Request, problems: list[str]) -> Decision:
    shown = problems[:_MAX_PROBLEMS]
    if len(problems) > len(shown):
        shown.append(f"… and {len(problems) - len(shown)} more")
    head = f"{plural(len(problems), 'problem')} in {KEY}; the policy in force stays"
    return Decision("denied", message="\n- ".join([f"{subject_of(request)}: {head}:", *shown]))


def _missing(policy: Policy, cluster: Cluster) -> Iterator[str]:
    """Warnings about what the policy names and the cluster does not have."""
    if cluster.knows_priority_classes:
        known = list(cluster.priority_classes)
        class_names = {
            name
            for profile in policy.file.profiles.values()
            if profile.injectors.priority_class.enabled
            for name in profile.injectors.priority_class.classes.values()
        }
        for name in sorted(class_names.difference(known)):
            near = nearest(name, known)
            hint = f"; did you mean {quoted(near)}?" if near else "; pods will keep their priority"
            yield f"the cluster has no PriorityClass {quoted(name)}{hint}"
    offered = cluster.resources() if cluster.fresh else ()
    if offered and not policy.gpus.among(offered):
        yield f"no node offers a resource that `gpus` names; nodes offer {listed(sorted(offered))}"
    elif offered:
        by_text: dict[str, list[str]] = {}
        for name, profile in policy.file.profiles.items():
            for text in _missing_on_nodes(profile, policy, cluster):
                by_text.setdefault(text, []).append(name)
        for text, names in by_text.items():
            yield f"{'profile' if len(names) == 1 else 'profiles'} {listed(map(bare, names), 3)}: {text}"


def _missing_on_nodes(profile: Profile, policy: Policy, cluster: Cluster) -> Iterator[str]:
    """The same for taints and labels in one profile, without the defaults, which are for many kinds of clusters."""
    tolerations = profile.injectors.tolerations
    tainted = {taint.key for taint in cluster.gpu_taints(policy.gpus)}
    unknown = {taint.key for taint in tolerations.taints if taint.vendor is None} - tainted
    if tolerations.enabled and unknown:
        yield f"no GPU node carries the taint {listed(sorted(unknown))}"
    labels = sorted(label for label in _labels(profile) if not cluster.domains(label, policy.gpus))
    if labels:
        yield f"no GPU node has the label {listed(labels)}"


def _labels(profile: Profile) -> set[str]:
    """The node labels that a profile names beside the default ones."""
    spread, gangs = profile.injectors.topology_spread, profile.placement.gangs
    labels = {constraint.key for constraint in spread.constraints if spread.enabled}
    labels |= set(gangs.keys) if gangs.enabled else set()
    labels |= {requirement.key for preference in profile.placement.preferences for requirement in preference.nodes}
    return labels - _DEFAULT_LABELS


_DEFAULT = Profile()
_DEFAULT_LABELS = {
    *(constraint.key for constraint in _DEFAULT.injectors.topology_spread.constraints),
    *_DEFAULT.placement.gangs.keys,
}
