"""Reviews that a stranger forges: they change little for others and end no reservation."""

import copy

import orjson
import pytest

from tests.builders import GPU, pod
from tests.cluster.objects import free
from tests.edge import asked, dial, running, streams
from tests.served import NOW as NOW_SERVED
from tests.served import Server, after, plain_pod, review
from webhook.cluster.ledger import Counts
from webhook.kube.pod import DECISION, Pod


def forged(number: int) -> bytes:
    """The review of a pod that nobody will store, of an owner that does not exist."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": f"u-{number}", "controller": True}
    obj = plain_pod()
    obj["metadata"] = {"generateName": f"x-{number}-", "namespace": "default", "ownerReferences": [owner]}
    return review(obj, uid=f"u-{number}")


async def test_forged_reservations_are_few_change_little_for_others_and_expire() -> None:
    served = Server()
    async with running(served.handlers.mutate) as server, streams() as opened:
        opened.append(stranger := await dial(server, "127.0.7.2"))
        for number in range(200):
            assert await asked(stranger, forged(number)) == 200
    nodes = served.state.nodes
    served.state.usage.seen_from("another")
    free = nodes.columns.free["nvidia.com/gpu"]
    full = [name for name, row in nodes.row_of.items() if free[row] < nodes.columns.capacity["nvidia.com/gpu"][row]]
    assert len(full) <= max(1, nodes.count // 8), "others see the part of one namespace taken, and no more"
    assert served.state.demands.popular({}, ("nvidia.com/gpu",)) == (), (
        "nodes are not kept free for pods that nobody stores"
    )
    served.state.expire(NOW_SERVED + 11)
    assert served.state.ledger.counts == Counts(0, 0)


async def test_a_forged_refusal_ends_no_reservation() -> None:
    served = Server()
    async with running(served.handlers.validate) as server, streams() as opened:
        opened.append(stranger := await dial(server, "127.0.7.2"))
        honest = plain_pod(owned_by="web")
        honest["metadata"]["namespace"] = "default"  # as in the review
        patched = after(served.mutate(honest), honest)
        assert served.state.ledger.counts == Counts(1, 0)
        for _ in range(3):
            stolen = copy.deepcopy(patched)
            stolen["spec"]["hostPID"] = True
            assert await asked(stranger, review(stolen)) == 200
        assert served.state.ledger.counts == Counts(1, 0)
        stored = {**patched, "metadata": {**patched["metadata"], "name": "web-1", "uid": "abc"}}
        served.state.pod_seen(stored, NOW_SERVED)
        assert served.state.ledger.counts == Counts(0, 1)


def in_default(name: str, gpus: int) -> Pod:
    """A pod in the namespace of the review."""
    asks = {"limits": {GPU: gpus}}
    made = pod({"name": "main", "image": "i", "resources": asks}, name=name, namespace="default", owned_by="Job")
    made["metadata"]["ownerReferences"][0]["uid"] = name
    return made


def first_node(found: Pod) -> str:
    node: str = orjson.loads(found["metadata"]["annotations"][DECISION])["nodes"][0][0]
    return node


@pytest.mark.parametrize("gpus", [5, 8, 64], ids=["a little more", "as much as a node has", "more than any node has"])
async def test_a_forged_second_call_ends_no_reservation(gpus: int) -> None:
    """A pod that another webhook enlarges is reviewed and placed again. Here a stranger forges such a second review."""
    served, alone = Server(), Server()
    async with running(served.handlers.mutate) as server, streams() as opened:
        opened.append(stranger := await dial(server, "127.0.7.2"))
        honest = in_default("honest", 4)
        patched = after(served.mutate(honest), honest)
        assert first_node(patched) == first_node(after(alone.mutate(honest), honest)) == "gpu-b1"
        for _ in range(3):
            forged = copy.deepcopy(patched)
            forged["spec"]["containers"][0]["resources"] = {"limits": {GPU: gpus}, "requests": {GPU: gpus}}
            assert await asked(stranger, review(forged)) == 200
        assert free(served.state, "gpu-b1") <= 4, "the node is still reserved"
        third = in_default("third", 4)
        served.mutate(third)
        assert served.state.ledger.counts.reserved <= 2 + 3, "a forged call reserves no more than any forged review"
        stored = {**patched, "metadata": {**patched["metadata"], "name": "honest-1", "uid": "abc"}}
        for each in (served, alone):
            each.state.pod_seen(stored, NOW_SERVED)
    for each in (served, alone):
        each.state.expire(NOW_SERVED + each.state.ledger.unseen_ttl)
    nodes = ("gpu-a1", "gpu-a2", "gpu-b1")
    assert [[free(each.state, name) for name in nodes] for each in (served, alone)] == [[8, 8, 0]] * 2, (
        "nothing is left"
    )
