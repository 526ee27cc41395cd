"""Reviews that a stranger forges: they change little for others and end no reservation."""

import copy

from tests.edge import asked, dial, running, streams
from tests.served import NOW as NOW_SERVED
from tests.served import Server, after, plain_pod, review
from webhook.nodes.ledger import Counts


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
    assert served.state.request_counts.popular({}, ("nvidia.com/gpu",)) == (), (
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
