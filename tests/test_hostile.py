"""Bodies that were made to keep the program busy: each is answered, and with a bounded number of calls.

Calls are counted, not seconds: a loop that was forgotten costs millions of them. `python -m bench.hostile` measures time and
memory.
"""

import gc

import pytest

from bench.bodies import BODIES
from bench.bodies.claims import devices
from bench.bodies.parts import Body, container, pod, review
from bench.bodies.policies import config_map
from tests.effort import counted
from tests.served import Server
from webhook.kube.pod_requests import counted_requests
from webhook.server.http import MAX_BODY_BYTES

_MOST_CALLS = 800_000
"""Three times what any of these bodies makes, and half a second of one core. A loop that is quadratic makes tens of millions."""


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES.items()])
def test_whatever_the_body_it_is_answered_with_a_bounded_number_of_calls(body: Body) -> None:
    text = body.make()
    assert len(text) <= MAX_BODY_BYTES
    server = Server()
    for number, name in enumerate(("gpu-a1", "gpu-a2")):
        told, of_class = devices(name, number)
        server.state.seen("resourceslices", told, 0.0)
        server.state.seen("deviceclasses", of_class, 0.0)
    for hook in body.hooks:
        with counted() as calls:
            status, answer = getattr(server.handlers, hook)(text)
        assert status in (200, 400)
        assert len(answer) < 400_000
        assert calls.count < _MOST_CALLS, f"{calls.count} calls in {hook}"


def test_there_are_bodies_of_every_kind() -> None:
    assert len(BODIES) >= 100


def test_nothing_is_kept_of_pods_with_thousands_of_resource_names() -> None:
    server = Server()
    for number in range(5):
        stored = pod([container(resources={"limits": {f"a.b/{number}-{n}": "1" for n in range(30_000)}})])
        stored["metadata"] |= {"name": f"p{number}", "uid": f"u{number}"}
        stored["spec"]["nodeName"] = "gpu-a1"
        assert len(counted_requests(stored).requests) == 1
        server.state.pod_seen(stored, 0.0)
    gc.collect()
    assert sum(len(found) for found in gc.get_objects() if type(found) is tuple and len(found) > 10_000) == 0


def test_no_reservation_is_kept_for_an_object_that_does_not_exist() -> None:
    """The API server looks at names only after the mutating hook."""
    server, long = Server(), "x" * 1_000_000
    owner = {"kind": "ReplicaSet", "name": "a", "uid": long, "controller": True}
    for number in range(5):
        tweaks = {
            "name": "",
            "generateName": f"{number}{long}",
            "ownerReferences": [owner | {"uid": f"{number}{long}"}],
        }
        server.handlers.mutate(review(pod(metadata=tweaks, nodeSelector={"nvidia.com/gpu.product": f"{number}{long}"})))
        server.handlers.mutate(review(pod(metadata=tweaks)))
    gc.collect()
    held = [each for each in gc.get_objects() if type(each) in (tuple, dict) for each in each if isinstance(each, str)]
    assert not [text for text in held if len(text) > 100_000 and text[1:10] == "x" * 9 and text is not long]


def test_a_policy_with_thousands_of_problems_is_refused_in_a_few_lines() -> None:
    text = "profiles: {default: {rules: {hostDevices: {paths: [" + ", ".join("[]" for _ in range(1_000)) + "]}}}}"
    response = Server.answered(*Server().handlers.validate(config_map({"policy.yaml": text})))
    assert not response["allowed"]
    assert len(response["status"]["message"]) < 10_000
