"""Validates the policy ConfigMap when it is applied: refuses a bad policy, and compares a good one with the cluster.

A policy for a later version of the program is not refused: an upgrade applies it while replicas of the old version answer.

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
from webhook.policy.model import Policy
from webhook.policy.references import Reference, added, node_labels, node_taints
from webhook.policy.written_for import PROGRAM, later_version
from webhook.text import bare, listed, matches, plural, quoted, suggestion

_MAX_PROBLEMS = 20


def validate(request: Request, cluster: Cluster) -> Decision:
    """Refuse the policy ConfigMap in `request` if its policy is not valid. The caller has checked that it is this ConfigMap."""
    if request.operation not in ("CREATE", "UPDATE") or request.object is None:
        return IGNORED
    data = request.object.get("data")
    text = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        keys = listed(data, show=quoted) if isinstance(data, dict) and data else "no data"
        return _refused(request, [f"saw {keys}, wanted the key {quoted(KEY)} with the policy as text"])
    try:
        policy = Policy.load(text)
    except PolicyError as error:
        if later := later_version(text):
            return Decision("allowed", warnings=(_of_later(later, error.problems),))
        return _refused(request, error.problems)
    return Decision("allowed", warnings=tuple(_missing(policy, cluster)))


def _of_later(later: str, problems: list[str]) -> str:
    seen = f"the policy is for version {later}, and a replica of {PROGRAM} cannot use it: {listed(problems, 1)}"
    return f"{seen}; it keeps the policy in force until it is replaced"


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
            hint = suggestion(name, known, '; did you mean "{}"?', "; pods will keep their priority")
            yield f"the cluster has no PriorityClass {quoted(name)}{hint}"
    offered = cluster.resources() if cluster.fresh else ()
    if offered and not policy.gpus.among(offered):
        yield f"no node offers a resource that `gpus` names; nodes offer {listed(sorted(offered))}"
    elif offered:
        tainted = [taint.key for taint in cluster.gpu_taints(policy.gpus)]
        taints = [at for at in added(policy, node_taints) if not any(matches(at[1].key, key) for key in tainted)]
        labels = [at for at in added(policy, node_labels) if not cluster.domains(at[1].key, policy.gpus)]
        yield from _on_no_node("carries the taint", taints)
        yield from _on_no_node("has the label", labels)


def _on_no_node(words: str, references: list[tuple[str, Reference]]) -> Iterator[str]:
    """One warning for each profile. `references`: each with the name of its profile."""
    for profile in dict.fromkeys(name for name, _ in references):
        keys = sorted({reference.key for name, reference in references if name == profile})
        yield f"profile {bare(profile)}: no GPU node {words} {listed(keys)}"
