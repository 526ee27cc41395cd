"""Pods carry the team that pays for them.

Fields: metadata.labels[team].

Read by:
    kube-scheduler: nothing
    cluster-autoscaler: nothing
    Karpenter: nothing
    Kueue, KAI, Volcano, YuniKorn: nothing
    descheduler: nothing
    quotas and others: NetworkPolicies and Services that select pods of a team
"""

from collections.abc import Mapping
from typing import ClassVar

from webhook.framework.interface import Context, Injector, Outcome
from webhook.kube.json_patch import Edit


class TeamLabel(Injector):
    """A pod without the label gets the team of its namespace."""

    not_exported: ClassVar[str] = "reads the name of the namespace"

    sentences: ClassVar[Mapping[str, str]] = {
        "present": "it has the label of its team already",
        "added": "it got the label of the team {}",
    }

    label: str = "team"
    """The key of the label."""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        path = ("metadata", "labels", self.label)
        if edit.get(path) is not None:
            return Outcome("present")
        edit.set(path, context.namespace)
        return Outcome("added", context.namespace)
