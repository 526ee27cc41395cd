"""What one tenant can do with claims for devices, and what another then pays or gets: rows of `bench.tenant_cases`.

GPUs come by DRA here, and the other tenant's pods have claims too.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from bench.bodies.parts import Json
from bench.claims import claiming
from bench.devices import DRIVER, classes, slice_of
from bench.hostile_cel import EXPRESSIONS
from bench.recorded import NAMESPACE
from bench.tenant_world import ATTACKER, OUTSIDE, Cost, Outcome, World, forged, new_pod

_NUMBERS = count()
_MODEL: Final = f'device.attributes["{DRIVER}"].productName'
_LOOP: Final = f"{[*range(40)]}.all(a, {' && '.join(['a + 1 > 0'] * 40)} && {_MODEL} != 'x')"
_REGISTERED: Final = "".join([f"GPU-{number},10,81920,NVIDIA-H100,true,hami-core:" for number in range(8)])


def _exactly(devices: int = 1, selector: str = "", **more: Any) -> Json:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    return {"deviceClassName": DRIVER, "count": devices, "selectors": selectors} | more


def _template(world: World, name: str, namespace: str, *requests: Json) -> None:
    """Each request: what it asks `exactly`, or a whole request."""
    written = [each if "firstAvailable" in each else {"exactly": each} for each in requests]
    devices = {"requests": [{"name": f"r{number}"} | each for number, each in enumerate(written)]}
    made = {"metadata": {"name": name, "namespace": namespace}, "spec": {"spec": {"devices": devices}}}
    world.state.seen("resourceclaimtemplates", made, world.now)


def _claim(world: World, name: str, *nodes: str, admin: bool = False) -> None:
    """A claim of 8 devices; `nodes`: where it says that it has them."""
    results = [
        {"request": "r0", "driver": DRIVER, "pool": node, "device": f"gpu-{n}"} for node in nodes for n in range(8)
    ]
    if admin:
        results = [each | {"adminAccess": True} for each in results]
    where = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": where}}
    spec = {"devices": {"requests": [{"name": "r0", "exactly": _exactly(8, adminAccess=admin)}]}}
    made: Json = {"metadata": {"name": name, "namespace": OUTSIDE}, "spec": spec, "status": {}}
    if nodes:
        made["status"] = {"allocation": allocation}
    world.state.seen("resourceclaims", made, world.now)


def _claiming(name: str, namespace: str, *entries: Json, **more: Any) -> Json:
    return new_pod(
        name, namespace, resourceClaims=[{"name": f"c{n}", **each} for n, each in enumerate(entries)], **more
    )


def _devices(world: World) -> None:
    """GPUs by DRA on some nodes, and templates for the other tenant's pods."""
    for name in world.nodes[:200]:
        world.state.seen("resourceslices", slice_of(name, 8, "templates"), world.now)
    for each in classes("templates"):
        each["spec"].pop("extendedResourceName", None)
        world.state.seen("deviceclasses", each, world.now)
    for devices in (1, 2, 4, 8):
        _template(world, f"gpus-{devices}", NAMESPACE, _exactly(devices))
    for kind in ("resourceslices", "deviceclasses", "resourceclaimtemplates", "resourceclaims"):
        world.state.complete(kind, {*world.state.known(kind)}, world.now)  # type: ignore[arg-type]
    world.written = claiming


def _many(world: World) -> None:
    for number in world.many(10_000):
        _template(world, f"t{number}", OUTSIDE, _exactly(8))
        _claim(world, f"c{number}")


def _another(world: World, number: int) -> None:
    _template(world, "t0", OUTSIDE, _exactly(1 + number % 8))
    _claim(world, "c0")


def _different() -> Iterator[Json]:
    """Requests of 8 alternatives whose expressions nobody has written yet."""
    while True:
        texts = [f'{_MODEL}.lowerAscii() != "{next(_NUMBERS)}"' for _ in range(8)]
        each = [_exactly(1, text) | {"name": f"a{number}"} for number, text in enumerate(texts)]
        yield {"firstAvailable": each}


def _costly(world: World, number: int) -> None:
    """32 claims with 4 requests of 8 alternatives, no two alike."""
    requests = _different()
    for each in world.many(32):
        _template(world, f"costly-{each}", ATTACKER, *[next(requests) for _ in range(4)])
    entries = [{"resourceClaimTemplateName": f"costly-{each}"} for each in world.many(32)]
    world.created("Pod", "", _claiming(f"costly-{number}", ATTACKER, *entries))


def _loops(world: World, number: int) -> None:
    """One claim, in a pod of which one is created before each review."""
    _template(
        world, "loops", ATTACKER, _exactly(1, f"[1,2,3].all(a, [1,2,3].all(b, {_MODEL} != string(a * b * {number})))")
    )
    world.created("Pod", "", _claiming(f"loops-{number}", ATTACKER, {"resourceClaimTemplateName": "loops"}))


def _hostile(number: int) -> str:
    """An expression that takes as much work as one may, or one that was made to cost much; no two are alike."""
    texts = [_LOOP, *EXPRESSIONS.values()]
    return f"{number} > -1 && ({texts[number % len(texts)]})"


def _ask_hostile(world: World, number: int) -> Json:
    _template(world, f"hostile-{number}", ATTACKER, *[_exactly(1, _hostile(4 * number + each)) for each in range(4)])
    return _claiming(f"hostile-{number}", ATTACKER, {"resourceClaimTemplateName": f"hostile-{number}"})


def _all_hostile(world: World) -> None:
    """Claims, and pods that wait with them and say that they were given a node."""
    for number in world.many(300):
        _claim(world, f"hostile-{number}")
        world.seen(forged(_ask_hostile(world, number), world.nodes[number % 40]))


def _another_hostile(world: World, number: int) -> None:
    world.created("Pod", "", _ask_hostile(world, 1_000 + number))


def _shared(world: World) -> None:
    _claim(world, "shared")
    for number in world.many(256):
        made = _claiming(f"shares-{number}", OUTSIDE, {"resourceClaimName": "shared"})
        world.seen(forged(made, world.nodes[number % 40]))


def _shared_changes(world: World, number: int) -> None:
    _claim(world, "shared", *world.nodes[number % 2 : 1])


def _searched(world: World) -> None:
    """Claims that fit no node, which takes a search to see, of pods that wait on every node."""
    _template(world, "long", ATTACKER, _exactly(4), _exactly(5))
    for number in world.many(30):
        for name in world.nodes[:200]:
            made = _claiming(f"long-{number}-{name}", ATTACKER, {"resourceClaimTemplateName": "long"})
            world.seen(forged(made, name))


def _one_more(world: World, number: int) -> None:
    world.asked(_claiming(f"refused-{number}", ATTACKER, {"resourceClaimTemplateName": "some"}))


def _many_refused(world: World) -> None:
    """They are given nodes, and never stored."""
    _template(world, "some", ATTACKER, _exactly())
    for number in world.many(4_000):
        _one_more(world, number)


def _whole(world: World) -> float:
    """How many of the other tenant's pods for 8 devices get a node."""
    found = 0
    for number in range(len(world.nodes)):
        made = _claiming(f"whole-{number}", NAMESPACE, {"resourceClaimTemplateName": "gpus-8"})
        node = world.choice(made)
        if node:
            world.seen(world.asked(made), node=node)
        found += bool(node)
    return float(found)


def _forged(world: World) -> None:
    _template(world, "all", OUTSIDE, _exactly(8))
    for number, node in enumerate(world.nodes):
        world.seen(forged(_claiming(f"forged-{number}", OUTSIDE, {"resourceClaimTemplateName": "all"}), node))


def _refused(world: World) -> None:
    """They are given a node, and never stored."""
    _template(world, "all", ATTACKER, _exactly(8))
    for number in range(len(world.nodes)):
        world.asked(_claiming(f"refused-{number}", ATTACKER, {"resourceClaimTemplateName": "all"}))


def _admin(world: World) -> None:
    for number, node in enumerate(world.nodes):
        _claim(world, f"admin-{number}", node, admin=True)


def _unbound(world: World) -> None:
    """Their pods are bound by their author to nodes, with claims that have no devices: the kubelet does not start them."""
    _template(world, "none", OUTSIDE, _exactly(8, f'{_MODEL} == "none"'))
    for number, node in enumerate(world.nodes):
        world.seen(_claiming(f"bound-{number}", OUTSIDE, {"resourceClaimTemplateName": "none"}), node=node)


def _huge(world: World) -> None:
    """Names of 4 kB, which no API server lets through, in claims, classes and expressions."""
    long = "x" * 4096
    for number in world.many(1_000):
        _template(world, f"{long}{number}", OUTSIDE, _exactly(8, f'{_MODEL} == "{long}"') | {"deviceClassName": long})
        _claim(world, f"{long}{number}")


def _vgpus(world: World) -> None:
    for name in world.nodes:
        labels = world.state.nodes.labels.get(world.state.nodes.row_of[name])
        amount = {"cpu": "64", "memory": "1Ti", "pods": "110", "volcano.sh/vgpu-number": "80"}
        amount |= {"volcano.sh/vgpu-memory": "655360"}
        status = {"allocatable": amount, "capacity": amount, "conditions": [{"type": "Ready", "status": "True"}]}
        notes = {"volcano.sh/node-vgpu-register": _REGISTERED, "hami.io/node-nvidia-register": _REGISTERED}
        metadata = {"name": name, "labels": {**labels}, "annotations": notes}
        world.state.seen("nodes", {"metadata": metadata, "spec": {}, "status": status}, world.now)


def _vgpu(name: str, namespace: str) -> Json:
    made = new_pod(name, namespace)
    for amounts in made["spec"]["containers"][0]["resources"].values():
        amounts |= {"volcano.sh/vgpu-number": "8", "volcano.sh/vgpu-memory": "81920"}
    return made


def _whole_vgpus(world: World) -> float:
    found = 0
    for number in range(len(world.nodes)):
        node = world.choice(_vgpu(f"whole-{number}", NAMESPACE))
        if node:
            world.seen(world.asked(_vgpu(f"whole-{number}", NAMESPACE)), node=node)
        found += bool(node)
    return float(found)


def _annotated(world: World) -> None:
    """Pods that ask for no GPU say that they have all, in 256 KB."""
    text = "".join([f"GPU-{number % 8},NVIDIA,81920,100:" for number in range(9_000)])
    for number, node in enumerate(world.nodes):
        made = new_pod(f"annotated-{number}", OUTSIDE)
        keys = ("volcano.sh/vgpu-ids-new", "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate")
        made["metadata"]["annotations"] = dict.fromkeys(keys, text if number % 2 else f"{text[:200]};")
        world.seen(made, node=node)


COSTS: Final[dict[str, Cost]] = {
    "10,000 claims and templates, of which one changes before each review": Cost(_many, _another, _devices),
    "32 claims with 4 requests of 8 alternatives, no two alike, before each review": Cost(
        before_each=_costly, cluster=_devices
    ),
    "a claim whose expression has loops before each review": Cost(before_each=_loops, cluster=_devices),
    "300 claims whose expressions were made to cost much, with their pods": Cost(_all_hostile, cluster=_devices),
    "the same, and another pod with such claims before each review": Cost(_all_hostile, _another_hostile, _devices),
    "256 waiting pods of one claim, which changes before each review": Cost(_shared, _shared_changes, _devices),
    "30 pods on each node that wait with claims that fit nowhere": Cost(_searched, cluster=_devices),
    "4,000 refused pods with claims, another before each review": Cost(_many_refused, _one_more, _devices),
    "1,000 claims with names of 4 kB": Cost(_huge, cluster=_devices),
}
_WHOLE = "of 40 pods for 8 devices, with a node"
OUTCOMES: Final[dict[str, Outcome]] = {
    "40 forged pods that claim all devices": Outcome(_whole, _WHOLE, _forged, 0.5, _devices),
    "40 refused pods that claim all devices": Outcome(_whole, _WHOLE, _refused, 0.5, _devices),
    "40 claims that have all devices with adminAccess": Outcome(_whole, _WHOLE, _admin, before=_devices),
    "40 pods that bind themselves, with claims for devices that nobody has": Outcome(
        _whole, _WHOLE, _unbound, before=_devices
    ),
    "40 pods without GPUs that are annotated as if they had all": Outcome(
        _whole_vgpus, "of 40 pods for 8 parts of GPUs, with a node", _annotated, before=_vgpus
    ),
}
