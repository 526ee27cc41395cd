"""Replays a trace in two ways: pods come and stay until the cluster is full, or pods come and end."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

import numpy as np

from bench.simulator import Fleet
from bench.simulator_ours import Ours, Ranking
from bench.simulator_published import BestFit, Fragmentation, Random
from bench.simulator_scheduler import AtOnce, Policy, Scheduler, Stock
from bench.traces import Shape, Trace, arrivals, draws

INFLATED: Final = 1.3
"""GPUs that all arrivals request together, as a multiple of the GPUs of the cluster."""
WARM_UP: Final = 2.0
"""Mean lifetimes before pods are counted, in a run in which pods end."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run, besides the trace and the policy."""

    burst: int = 1
    """Pods that are ranked before any of them is bound."""
    load: float | None = None
    """The share of all GPUs that pods request on average, in a run in which pods end; None: pods stay."""
    lifetimes: float = 5.0
    """Duration of a run in which pods end, in mean lifetimes."""
    images: float = 0.0
    """Probability that a node has the pod's image."""
    sampled: bool = False
    """Whether the scheduler looks at a part of the nodes."""
    every: bool = True
    """Whether pods without GPUs are ranked too."""
    replicas: int = 1
    """Replicas of the webhook."""
    unseen: int = 16
    """Number of pods after which a replica knows the node that another replica chose."""
    chooser: str = "fullest"
    """How a node chooses the device for a part of a GPU."""


@dataclass(slots=True)
class Result:
    """The result of one run of one policy."""

    unallocated: float
    """Percentage of GPUs not allocated: at the end of the run, or, if pods end, on average."""
    refused: dict[int, float]
    """Percentage of pods that fitted nowhere, by the number of GPUs that they request."""
    first: float = 0.0
    """Percentage of ranked and bound pods that were bound to the first ranked node."""
    listed: float = 0.0
    """Percentage of ranked and bound pods that were bound to any ranked node."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """Pairs: percentage of all GPUs requested so far, percentage of GPUs not allocated."""


Make = Callable[[Fleet, Trace, Sequence[Shape], np.random.Generator, Options], Policy]


def _ours(exact: bool) -> Make:
    """`exact`: as in `Ours`."""

    def make(fleet: Fleet, trace: Trace, shapes: Sequence[Shape], rng: np.random.Generator, options: Options) -> Policy:
        rankings = [Ranking(fleet, shapes, every=options.every, replica=number) for number in range(options.replicas)]
        return Ours(rankings, _scheduler(fleet, rng, options), exact=exact, unseen=options.unseen)

    return make


def _scheduler(fleet: Fleet, rng: np.random.Generator, options: Options) -> Scheduler:
    return Scheduler(fleet, rng, options.images, options.sampled)


POLICIES: Final[dict[str, Make]] = {
    "random": lambda fleet, trace, shapes, rng, options: AtOnce(Random(fleet, rng)),
    "best-fit": lambda fleet, trace, shapes, rng, options: AtOnce(BestFit(fleet)),
    "FGD": lambda fleet, trace, shapes, rng, options: AtOnce(Fragmentation(fleet, trace.pods)),
    "stock": lambda fleet, trace, shapes, rng, options: AtOnce(Stock(_scheduler(fleet, rng, options))),
    "ours, first choice": _ours(exact=True),
    "ours, scheduler": _ours(exact=False),
}


def replay(trace: Trace, make: Make, seed: int, options: Options) -> Result:
    """One run with nodes and pods in random order. All policies get the same nodes and pods for the same seed."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(trace.nodes))
    shared = any(pod.gpus and not pod.whole for pod in trace.pods)
    fleet = Fleet([trace.nodes[place] for place in order], shared, options.replicas, options.chooser)
    run = _fill if options.load is None else _flow
    return run(fleet, trace, make, rng, options)


def _fill(fleet: Fleet, trace: Trace, make: Make, rng: np.random.Generator, options: Options) -> Result:
    """Pods stay, and pods that fit nowhere are dropped (FGD, USENIX ATC'23, section 6.1)."""
    shapes, order = arrivals(trace, rng, INFLATED)
    policy = make(fleet, trace, shapes, rng, options)
    asked = np.cumsum([shapes[number].amount for number in order])
    order = order[: int(np.searchsorted(asked, fleet.total, side="right"))]
    came, refused = Counter[int](), Counter[int]()
    curve: list[tuple[float, float]] = []
    arrived = 0
    for start in range(0, len(order), options.burst):
        burst = [int(number) for number in order[start : start + options.burst]]
        ranked = [policy.admit(number) for number in burst]
        # The scheduler does not bind the pods of a burst in the order of their admission.
        for place in rng.permutation(len(burst)) if len(burst) > 1 else (0,):
            number = burst[place]
            shape = shapes[number]
            arrived += shape.amount
            came[shape.gpus] += 1
            pick = policy.pick(shape, number, ranked[place])
            if pick is None:
                refused[shape.gpus] += 1
                continue
            fleet.bind(pick.row, shape, pick.device)
            policy.changed(pick.row, start + int(place), number)
        if 100 * arrived // fleet.total > len(curve):
            curve.append((100 * arrived / fleet.total, 100 * (1 - fleet.used / fleet.total)))
    return _result(100 * (1 - fleet.used / fleet.total), came, refused, policy, curve)


def _flow(fleet: Fleet, trace: Trace, make: Make, rng: np.random.Generator, options: Options) -> Result:
    """Poisson arrivals and exponential lifetimes of mean 1. Pods request the share `options.load` of all GPUs on average."""
    assert options.load is not None
    mean = sum(pod.amount for pod in trace.pods) / len(trace.pods)
    rate = options.load * fleet.total / mean
    shapes, order = draws(trace, rng, round(rate * options.lifetimes))
    times, lives = np.cumsum(rng.exponential(1 / rate, len(order))), rng.exponential(1.0, len(order))
    policy = make(fleet, trace, shapes, rng, options)
    leaving: list[tuple[float, int, int, Shape, tuple[int, ...]]] = []
    came, refused = Counter[int](), Counter[int]()
    used: list[int] = []
    for start in range(0, len(order), options.burst):
        burst = range(start, min(start + options.burst, len(order)))
        while leaving and leaving[0][0] <= times[start]:
            _, row, pod, left, taken = heappop(leaving)
            fleet.release(row, left, taken)
            policy.changed(row, pod, None)
        ranked = [policy.admit(int(order[place])) for place in burst]
        for place in start + rng.permutation(len(burst)):
            number = int(order[place])
            shape = shapes[number]
            pick = policy.pick(shape, number, ranked[place - start])
            if times[place] > WARM_UP:
                came[shape.gpus] += 1
                refused[shape.gpus] += pick is None
                used.append(fleet.used)
            if pick is not None:
                taken = fleet.bind(pick.row, shape, pick.device)
                policy.changed(pick.row, int(place), number)
                heappush(leaving, (float(times[place] + lives[place]), pick.row, int(place), shape, taken))
    return _result(100 * (1 - float(np.mean(used)) / fleet.total), came, refused, policy, [])


def _result(
    unallocated: float,
    came: Counter[int],
    refused: Counter[int],
    policy: Policy,
    curve: list[tuple[float, float]],
) -> Result:
    ranked = max(policy.ranked, 1)
    return Result(
        unallocated,
        {gpus: 100 * refused[gpus] / came[gpus] for gpus in sorted(came)},
        100 * policy.first / ranked,
        100 * policy.listed / ranked,
        curve,
    )
