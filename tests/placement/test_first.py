"""The first decisions of a process are as fast as later ones: they import nothing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys
from tests.controlplane.nodes import node
from tests.placement.placed import affinity, expression
from tests.served import PROFILES, Server, after, plain_pod

named = expression("metadata.name", "In", "gpu-a1", part="matchFields")
affinities = [None, affinity(expression("rank", "Gt", "1")), affinity(preferred=[(70, named)])]
pods = [plain_pod(affinity=each) for each in affinities]
server = Server()
for number in range(70):
    server.state.node_seen(node(f"more-{number}", labels={"rank": str(number)}))
before = set(sys.modules)
for profile in PROFILES:
    for pod in pods:
        server.validate(after(server.mutate(pod, namespace=profile), pod), namespace=profile)
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_decisions_import_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
