"""Who takes scheduling gates away."""

from tests.tables import table
from webhook.kube.gates import GATES, gate_of


@table(
    ("name", "owner"),
    {
        "Kueue's queue": ("kueue.x-k8s.io/admission", "Kueue"),
        "Kueue's topology": ("kueue.x-k8s.io/topology", "Kueue"),
        "one with a name in it": ("gke.io/topology-aware-auto-train-7", "the topology scheduler of GKE"),
        "one that nobody knows": ("example.com/my-gate", None),
        "the beginning of one": ("kueue.x-k8s.io/", None),
    },
)
def test_a_gate_has_an_owner(name: str, owner: str | None) -> None:
    gate = gate_of(name)
    assert (gate.owner if gate else None) == owner


def test_each_is_said_in_a_sentence() -> None:
    for gate in GATES.values():
        assert f"{gate.owner} takes it away when {gate.until}".isprintable()
        assert gate.until.startswith("it") or gate.until.startswith("all")
