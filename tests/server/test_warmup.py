"""The decision that nobody asked for: made in full, and without a trace."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cluster.objects import node, state
from webhook.cli.offline import load_state
from webhook.cluster.state import ClusterState
from webhook.errors import PolicyError
from webhook.feeds.policy import CurrentPolicy
from webhook.placement.placer import Placer
from webhook.server.warmup import warm_up
from webhook.telemetry.logs import configure
from webhook.telemetry.metrics import Metrics

POLICY = files("webhook.defaults").joinpath("policy.yaml").read_bytes()
CLUSTER = Path(str(files("webhook.defaults").joinpath("cluster.yaml")))

AMD: dict[str, Any] = {"amd.com/gpu": "8"}


def policies(text: bytes = POLICY) -> CurrentPolicy:
    holder = CurrentPolicy(Metrics(), configure())
    if not holder.load(text):
        raise PolicyError([str(holder.error)])
    return holder


STATES = {
    "nodes with GPUs": load_state(CLUSTER),
    "GPUs of another name": state(nodes=[node("a", None, **AMD)]),
    "no nodes at all": state(),
    "a cluster that nobody knows": ClusterState(max_age=0.0),
}


@pytest.mark.parametrize("known", STATES.values(), ids=STATES)
def test_nothing_is_promised_by_a_warm_up_among(known: ClusterState) -> None:
    before = (known.ledger.counts, dict(known.ledger.ended), known.history.popular({}))
    answers = warm_up(policies(), known, Placer(known), lambda: 0.0)
    assert [status for status, _ in answers] == [200] * 4
    assert (known.ledger.counts, dict(known.ledger.ended), known.history.popular({})) == before
    assert known.ledger.counts == (0, 0)


def test_a_node_is_chosen_and_everything_injected_as_for_a_pod_that_is_meant() -> None:
    known = load_state(CLUSTER)
    (_, mutated), (_, validated), *_ = warm_up(policies(), known, Placer(known), lambda: 0.0)
    record = orjson.loads(orjson.loads(mutated)["response"]["auditAnnotations"]["decision"])
    assert record["nodes"]
    assert orjson.loads(validated)["response"]["allowed"] is True


def test_what_a_first_decision_imports_is_there_after_it() -> None:
    """In a process of its own: what is imported stays so."""
    program = """
import sys
from tests.server.test_warmup import CLUSTER, Placer, load_state, policies, warm_up
known, holder = load_state(CLUSTER), policies()
placer = Placer(known)
warm_up(holder, known, placer, lambda: 0.0)
before = set(sys.modules)
warm_up(holder, known, placer, lambda: 1.0)
print(sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
