"""Finds pods of an older revision of their workload, which their controller does not replace while they wait.

A StatefulSet that makes its pods in order goes on once each is ready, and with `OnDelete` it never replaces one by itself
(kubernetes.io/docs/concepts/workloads/controllers/statefulset, "Forced rollback").
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.kube.pod import Pod, controller_reference, labels_of
from webhook.text import bare
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix
from webhook.whatif.waiting.situation import Case


def revision_of(pod: Pod) -> str:
    """ "": its labels do not say."""
    return labels_of(pod).get("pod-template-hash") or labels_of(pod).get("controller-revision-hash") or ""


def outdated(case: Case) -> Iterator[Cause]:
    """The cause that the pod is of an older revision: its template was changed since."""
    pod, owner = case.pod, controller_reference(case.pod) or {}
    if owner.get("kind") != "StatefulSet":
        return
    of = case.situation.names_of.find(case.namespace)("StatefulSet", str(owner.get("name")))
    own, newest = revision_of(pod), str(((of or {}).get("status") or {}).get("updateRevision") or "")
    if of is None or not own or not newest or own == newest or not _made_anew(of, pod):
        return
    name = f"statefulset/{owner['name']}"
    text = f"it is of an older revision: {bare(name)} has another template now, and does not replace a pod that waits"
    words = f"delete it: {bare(name)} makes it again by its template of now"
    delete = kubectl("delete", "pod", pod["metadata"]["name"], namespace=case.namespace)
    yield Cause.of("oldRevision", text, Fix(words, delete, pod=_by_template(of, pod)), alone=1)


def _made_anew(of: Mapping[str, Any], pod: Pod) -> bool:
    """Whether it would be made by the new template: those below the partition are not (stateful_set_utils.go,
    isCurrentRevisionNeeded)."""
    rolling = (of["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    first = (of["spec"].get("ordinals") or {}).get("start") or 0
    ordinal = pod["metadata"]["name"].rpartition("-")[2]
    return ordinal.isdecimal() and int(ordinal) - int(first) >= int(rolling.get("partition") or 0)


def _by_template(of: Mapping[str, Any], pod: Pod) -> Pod:
    """The pod as the controller makes it by the template of now, with the claims that are its own."""
    template, labels = of["spec"].get("template") or {}, labels_of(pod)
    own = {each["metadata"]["name"] for each in of["spec"].get("volumeClaimTemplates") or ()}
    mounted = [each for each in pod["spec"].get("volumes") or () if each["name"] in own]
    metadata = template.get("metadata") or {}
    kept = {key: value for key, value in labels.items() if key.startswith(("apps.kubernetes.io/", "statefulset."))}
    revision = {"controller-revision-hash": of["status"]["updateRevision"]}
    return {
        **pod,
        "metadata": {
            **pod["metadata"],
            "labels": {**(metadata.get("labels") or {}), **kept, **revision},
            "annotations": metadata.get("annotations") or {},
        },
        "spec": {**template["spec"], "volumes": [*(template["spec"].get("volumes") or ()), *mounted]},
    }
