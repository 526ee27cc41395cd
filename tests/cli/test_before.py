"""What the webhook writes into a pod can be taken back by the pod's record."""

import copy
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.served import POLICY, PROFILES, Server, after, plain_pod
from tests.strategies import pods
from webhook.cli.before import before
from webhook.kube.pod import DECISION, Pod, annotations_of

VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}


def without_empty(value: Any) -> Any:
    """Without empty maps and lists, which say nothing in a pod."""
    if isinstance(value, dict):
        found = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in ({}, [], None, "")}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


@settings(derandomize=True)
@given(pods(), st.sampled_from(PROFILES))
@example(plain_pod(), "pinned")
@example(plain_pod(), "default")
def test_the_pod_before_is_the_one_that_was_submitted(submitted: Pod, namespace: str) -> None:
    assume(DECISION not in annotations_of(submitted))
    answer = Server().mutate(submitted, namespace=namespace)
    assume(answer["allowed"])
    stored = after(answer, submitted)
    assert comparable(before(stored, POLICY.gpus)) == comparable(submitted)


def comparable(pod: Pod) -> Pod:
    """Without what nobody can tell afterwards: whether the author wrote a limit or a request, which container hid its GPUs
    itself, and what the API server writes by the priority class, whoever named that."""
    found: Pod = copy.deepcopy(pod)
    for container in (*(found["spec"].get("containers") or ()), *(found["spec"].get("initContainers") or ())):
        container["env"] = [each for each in container.get("env") or () if each != VOID]
        resources = container.get("resources") or {}
        container["resources"] = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    if found["spec"].get("priorityClassName") == "everyday":  # the global default, which the API server writes
        del found["spec"]["priorityClassName"]
    found["spec"] = {name: each for name, each in found["spec"].items() if name not in ("priority", "preemptionPolicy")}
    return without_empty(found)


def test_a_pod_without_a_record_is_as_it_was() -> None:
    pod = plain_pod()
    assert before(pod, POLICY.gpus) == pod
