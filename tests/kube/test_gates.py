"""Who takes scheduling gates away."""

import pytest

from webhook.kube.gates import GATES, gate_of


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        pytest.param("kueue.x-k8s.io/admission", "Kueue", id="Kueue's queue"),
        pytest.param("kueue.x-k8s.io/topology", "Kueue", id="Kueue's topology"),
        pytest.param("gke.io/topology-aware-auto-train-7", "the topology scheduler of GKE", id="one with a name in it"),
        pytest.param("example.com/my-gate", None, id="one that nobody knows"),
        pytest.param("kueue.x-k8s.io/", None, id="the beginning of one"),
    ],
)
def test_a_gate_has_an_owner(name: str, owner: str | None) -> None:
    gate = gate_of(name)
    assert (gate.owner if gate else None) == owner


def test_each_is_said_in_a_sentence() -> None:
    for gate in GATES.values():
        assert f"{gate.owner} takes it away when {gate.until}".isprintable()
        assert gate.until.startswith("it") or gate.until.startswith("all")
