"""Replicas of a service: over hosts and zones at least as evenly as without us, and where they were chosen to go."""

from collections import Counter

from tests.controlplane.objects import deployment
from tests.e2e.behaviour.case import HOST, ZONE, Case, Check, Side, apart, as_chosen, recorded, runs, waits
from tests.e2e.behaviour.made import LATE, claim, taken, using, volume
from tests.e2e.behaviour.workloads import in_zones


def evenly(key: str, *names: str) -> Check:
    """The numbers of pods in the domains of a node label differ by one at the most."""

    def check(side: Side) -> str:
        domains = Counter({labels.get(key, ""): 0 for labels in side.labels.values()})
        domains.update([side.labels[side.node(found)].get(key, "") for found in side.of(names) if side.node(found)])
        fine = max(domains.values()) - min(domains.values()) <= 1
        return "" if fine else f"wanted evenly over {key}, saw {dict(domains)}"

    return check


def service(said: str, replicas: int, *there: dict[str, object], profile: str = "default", **zones: int) -> Case:
    """A Deployment goes to all zones evenly, each of its pods to another host, and where it was chosen to go."""
    expect = [runs(count=replicas), evenly(ZONE), apart(HOST), as_chosen()]
    return Case(said, in_zones(**zones), [deployment("chat", replicas)], expect, there=there, profile=profile)


ONE_TAKEN = [taken(f"a{number}", 1) for number in range(1, 5)]
CASES = [
    service("replicas go to both zones, though all partly used nodes are in one", 4, *ONE_TAKEN, a=4, b=4),
    service("four replicas over two zones", 4, a=2, b=2),
    service("four replicas over three zones", 4, taken("a1", 2), taken("a2", 1), a=2, b=2, c=2),
    service("six replicas over three zones", 6, taken("b1", 3), a=2, b=2, c=2),
    service("six replicas over two zones, of which one is larger", 6, taken("b1", 1), taken("b2", 1), a=3, b=5),
    Case(  # which host each gets depends on the order too: five in a zone weigh as much as a chosen node
        "more replicas than hosts",
        in_zones(a=2, b=2),
        [deployment("chat", 10)],
        [runs(count=10), evenly(ZONE), evenly(HOST)],
        there=[taken("a1", 2)],
    ),
    Case(  # which host each gets depends on the order in which the scheduler takes them: a hard constraint has no slack
        "a hard spread over zones, of the policy",
        in_zones(a=4, b=4),
        [deployment("chat", 4)],
        [runs(count=4), evenly(ZONE)],
        there=ONE_TAKEN,
        profile="zoned",
    ),
    Case(
        "a hard spread over zones, of the policy, where one zone is full: no node is chosen that the pod cannot get",
        in_zones(a=2, b=1),
        [deployment("chat", 3)],
        [waits("chat", count=2)],
        there=[taken("b1", 8)],
        profile="zoned",
        fewer="the policy says that no pod may be alone in its zone",
    ),
    Case(
        "without nodeAffinity no node is chosen, and the policy's spread is there",
        in_zones(a=2, b=2),
        [deployment("chat", 4)],
        [runs(count=4), apart(HOST), recorded("chat", unit=("topologySpread", "added"), nodes=None, why=None)],
        profile="unchosen",
    ),
    Case(
        "one replica with a volume that is bound late is ranked",
        in_zones(a=2),
        [deployment("one", 1, volumes=using("data"))],
        [runs(count=1), as_chosen(), recorded("one", strategy="spread")],
        there=[LATE, volume("disk", late=True), claim("data", late=True), taken("a1", 2)],
    ),
]
