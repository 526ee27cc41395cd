"""What packing leaves whole, whatever kinds of pods were seen lately."""

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.e2e.behaviour.case import Case, runs
from tests.e2e.behaviour.made import goes_to, taken

A, B = node("a"), node("b")
CASES = [
    Case(
        "pods of 1, 2 and 4 GPUs leave a node for one of 8",
        [A, B],
        [pod("one", 1), pod("two", 2), pod("four", 4), pod("eight", 8), pod("last", 1)],
        [runs(count=5)],
    ),
    *[
        goes_to("a", f"a pod of {gpus} goes to a node with {used} of 8 taken", [A, B], gpus, there=[taken("a", used)])
        for used, gpus in ((1, 4), (3, 1), (4, 2), (6, 1))
    ],
]
