"""Cases of devices that are drawn by lot, the same for the same seed: small clusters with GPUs by DRA and by device plugins.

Nodes have 1 to 16 GPUs of two models and two drivers: whole ones, whole ones beside their MIG partitions, some that several pods
share, some of a device plugin. A pool may be complete only later, and a driver may publish late. Pods ask by templates and
by claims that they share, for a model, for GPUs of one NVLink domain, for alternatives, for parts, for two claims at once.

Pods that few nodes can take come first, as in `bench.drawn`. All together ask for most of the GPUs, so that it shows who packs.
"""

import random
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, made
from tests.e2e.behaviour.case import Case, Json

_DRIVERS = {"nvidia": "gpu.nvidia.com", "amd": "gpu.amd.com"}
_MODELS = ("H100", "A100")
_SIZES = (1, 2, 2, 4, 4, 8, 8, 16)
_KINDS = ("whole", "whole", "whole", "whole", "mig", "shares", "plugin", "amd", "late", "incomplete")
_USED = 0.85
"""Of the GPUs of a kind, those that pods ask for at most."""
_MEMORY = 80


def drawn(seed: int) -> Case:
    """One case. Nothing is expected of it but that no fewer of its GPUs are in use with us."""
    lot = random.Random(seed)
    nodes: list[Json] = []
    there: list[Json] = [*_classes()]
    later: list[Json] = []
    left: dict[str, float] = {}
    for name in "abcdefgh"[: lot.randint(4, 8)]:
        kind, gpus, model = lot.choice(_KINDS), lot.choice(_SIZES), lot.choice(_MODELS)
        nodes.append(node(name, gpus if kind == "plugin" else 0, cpu=str(max(16, 12 * gpus)), memory="2Ti"))
        gpus = min(gpus, 8) if kind == "mig" else gpus  # a slice has counters of 8 at most
        of = {"late": "whole", "incomplete": "whole"}.get(kind, kind)
        left[of] = left.get(of, 0) + _USED * gpus
        if kind != "plugin":
            slices = _slices(name, kind, gpus, model)
            there += [] if kind == "late" else slices[: 1 if kind == "incomplete" else None]
            later += slices if kind == "late" else slices[1:] if kind == "incomplete" else []
    first: list[Json] = []
    rest: list[Json] = []
    for number in range(lot.randint(8, 20)):
        asked, kind, few, objects = _workload(lot, f"w{number}", sorted(left))
        if asked > left[kind]:
            continue
        left[kind] -= asked
        there += objects[:-1]
        (first if few else rest).append(objects[-1])
    half = -(-len(rest) // 2)
    if not first:
        first, rest, half = rest[:half], rest[half:], len(rest)
    return Case(f"devices {seed}", nodes, first, [], there=there, later=[*later, *rest[:half]], last=rest[half:])


def _classes() -> list[Json]:
    def of(name: str, text: str) -> Json:
        return made("DeviceClass", f"@{name}", spec={"selectors": [{"cel": {"expression": text}}]})

    driver, amd = _DRIVERS["nvidia"], _DRIVERS["amd"]
    typed = f'device.driver == "{driver}" && device.attributes["{driver}"].type'
    return [
        of("gpu", f'{typed} == "gpu"'),
        of("mig", f'{typed} == "mig"'),
        of("any", f'device.driver == "{driver}"'),
        of("amd", f'device.driver == "{amd}"'),
    ]


def _slices(name: str, kind: str, gpus: int, model: str) -> list[Json]:
    driver = _DRIVERS["amd" if kind == "amd" else "nvidia"]
    devices: list[Json] = []
    for index in range(gpus):
        attributes = {
            "type": {"string": "gpu"},
            "productName": {"string": model},
            "clique": {"int": index // 4},
            "uuid": {"string": f"@GPU-{name}-{index}"},
        }
        gpu: Json = {
            "name": f"gpu-{index}",
            "attributes": attributes,
            "capacity": {"memory": {"value": f"{_MEMORY}Gi"}},
        }
        devices.append(gpu)
        if kind == "shares":
            gpu["allowMultipleAllocations"] = True
        if kind == "mig":
            gpu["consumesCounters"] = [_drawn(index, _MEMORY)]
            for half in range(2):
                part = {"type": {"string": "mig"}, "productName": {"string": model}}
                devices.append(
                    {
                        "name": f"mig-{index}-{half}",
                        "attributes": part,
                        "consumesCounters": [_drawn(index, _MEMORY // 2)],
                    }
                )
    pool = {"name": f"@{name}", "generation": 1, "resourceSliceCount": 1}
    common = {"driver": driver, "nodeName": f"@{name}", "pool": pool}
    found = [made("ResourceSlice", f"@{name}", spec={**common, "devices": devices})]
    if kind in ("mig", "incomplete"):
        pool["resourceSliceCount"] = 2
        sets = [{"name": f"gpu-{i}", "counters": {"memory": {"value": f"{_MEMORY}Gi"}}} for i in range(gpus)]
        if kind == "mig":
            found.append(made("ResourceSlice", f"@{name}-c", spec={**common, "sharedCounters": sets}))
        else:
            found.append(made("ResourceSlice", f"@{name}-b", spec={**common, "devices": devices[gpus // 2 :]}))
            found[0]["spec"]["devices"] = devices[: gpus // 2]
            if not gpus // 2:
                found[0]["spec"].pop("devices")
    return found


def _drawn(index: int, memory: int) -> Json:
    return {"counterSet": f"gpu-{index}", "counters": {"memory": {"value": f"{memory}Gi"}}}


def _exactly(of: str, count: int = 1, selector: str = "", **more: Any) -> Json:
    found: Json = {"deviceClassName": f"@{of}", "count": count, **more}
    if selector:
        found["selectors"] = [{"cel": {"expression": f'device.attributes["{_DRIVERS["nvidia"]}"].{selector}'}}]
    return found


def _workload(lot: random.Random, name: str, kinds: list[str]) -> tuple[float, str, bool, list[Json]]:
    """GPUs that it asks for, the kind of node, whether few nodes can take it; its templates and claims, and itself."""
    kind = lot.choice(kinds)
    gpus, replicas = lot.choice((1, 1, 1, 2, 2, 4, 8)), lot.choice((1, 1, 2, 2, 3, 4))
    cpu = lot.choice(("100m", "1", str(4 * gpus)))
    what = lot.choice(("plain", "plain", "plain", "model", "clique", "either", "two", "together"))
    requests: list[list[Json]]
    constraints: list[Json] = []
    share, few = float(gpus), False
    if kind == "plugin":
        return share * replicas, kind, False, [_of(lot, name, replicas, gpus, share, cpu, [])]
    if kind == "amd":
        requests = [[{"exactly": _exactly("amd", gpus)}]]
    elif kind == "mig" and (lot.random() < 0.7):
        share = 0.5
        requests = [[{"exactly": _exactly(lot.choice(("mig", "mig", "any")))}]]
    elif kind == "shares" and lot.random() < 0.7:
        share = 0.25
        requests = [[{"exactly": _exactly("gpu", capacity={"requests": {"memory": f"{_MEMORY // 4}Gi"}})}]]
    elif what == "model":
        few = True
        requests = [[{"exactly": _exactly("gpu", gpus, f'productName == "{lot.choice(_MODELS)}"')}]]
    elif what == "clique":
        gpus = min(gpus, 4)
        share = float(gpus)
        requests = [[{"exactly": _exactly("gpu", gpus)}]]
        constraints = [{"matchAttribute": f"{_DRIVERS['nvidia']}/clique"}]
    elif what == "either":
        wanted = [
            {"name": f"m{i}", **_exactly("gpu", gpus, f'productName == "{model}"')}
            for i, model in enumerate(lot.sample(_MODELS, 2))
        ]
        requests = [[{"firstAvailable": wanted}]]
    elif what == "two":
        share = float(gpus + 1)
        requests = [[{"exactly": _exactly("gpu", gpus)}], [{"exactly": _exactly("gpu")}]]
    else:
        requests = [[{"exactly": _exactly("gpu", gpus)}]]
    shared = what == "together" and kind == "whole"
    specs = [
        {
            "devices": {"requests": [{"name": f"r{i}", **each} for i, each in enumerate(some)]}
            | ({"constraints": constraints} if constraints else {})
        }
        for some in requests
    ]
    objects = [
        made("ResourceClaim", f"{name}-{i}", spec=spec)
        if shared
        else made("ResourceClaimTemplate", f"{name}-{i}", spec={"spec": spec})
        for i, spec in enumerate(specs)
    ]
    key = "resourceClaimName" if shared else "resourceClaimTemplateName"
    claims = [{"name": f"c{i}", key: f"{name}-{i}"} for i in range(len(specs))]
    total = share if shared else share * replicas
    return total, kind, few, [*objects, _of(lot, name, replicas, 0, share / (replicas if shared else 1), cpu, claims)]


def _of(lot: random.Random, name: str, replicas: int, gpus: int, share: float, cpu: str, claims: list[Json]) -> Json:
    build = lot.choice((deployment, job))
    resources: Json = {"requests": {"cpu": cpu}}
    if gpus:
        resources["limits"] = {"nvidia.com/gpu": str(gpus)}
    if claims:
        resources["claims"] = [{"name": claim["name"]} for claim in claims]
    labels = {"gpus": f"{share:g}"}
    spec: Json = {"resourceClaims": claims} if claims else {}
    return build(name, replicas, gpus, container={"resources": resources}, labels=labels, **spec)
