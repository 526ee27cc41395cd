"""What the webhook would change on a pod that it has not been asked about."""

import orjson

from webhook.cli import offline
from webhook.cli.waiting.situation import Situation
from webhook.errors import BadInput, BadReview
from webhook.kube.pod import PROFILE_LABEL, Pod
from webhook.placement.placer import Placer


def has_opted_in(situation: Situation, namespace: str) -> bool:
    """Whether the webhook is asked about pods of this namespace. One that is not known counts as opted in."""
    return offline.opted_in(namespace, situation.snapshot.state.view(situation.snapshot.taken))


def with_changes(situation: Situation, pod: Pod) -> Pod | None:
    """The pod as the webhook would change it if it were created now and its namespace had opted in; None: it would refuse it.
    No node is chosen."""
    snapshot = situation.snapshot
    (read,) = offline.documents(orjson.dumps(offline.as_submitted(pod)), pod["metadata"]["name"])
    if isinstance(read, BadInput):
        return None
    view, placer = snapshot.state.view(snapshot.taken), Placer(snapshot.state)
    try:
        _, validated, admitted = offline.ask(read.request, situation.policy, view, placer, chooses=False)
    except BadReview:
        return None
    return None if validated.message else {**pod, "spec": {**pod["spec"], **admitted["spec"]}}


def how_to_opt_in(namespace: str) -> str:
    return f"kubectl label namespace {namespace} {PROFILE_LABEL}=default"
