"""Objects as KAI writes them: pkg/binder/binding/resourcereservation/resource_reservation.go (createResourceReservationPod) and
pkg/binder/binding/binder.go (patchBindAnnotations).
"""

from typing import Any

from tests.state.objects import Object, stored

GROUP = "runai-gpu-group"
KAI_SCHEDULER: Object = {"schedulerName": "kai-scheduler"}


def reservation(
    group: str, on: str, *, name: str = "", namespace: str = "kai-resource-reservation", gpus: int = 1
) -> Object:
    """The pod that holds the GPU of a group."""
    made = stored(name or f"gpu-reservation-{group}-{on}", gpus, on=on, phase="Running")
    made["metadata"] |= {
        "namespace": namespace,
        "labels": {"app": namespace, GROUP: group},
        "annotations": {"karpenter.sh/do-not-disrupt": "true", "run.ai/reserve_for_gpu_index": "GPU-5c1f"},
    }
    return made


def part(
    name: str, fraction: str = "0.5", *groups: str, on: str | None = None, key: str = "gpu-fraction", **more: Any
) -> Object:
    """A pod that asks for a part of a GPU. `groups`: those that it got one of."""
    made = stored(name, 0, on=on, phase="Running" if on else "", **{**KAI_SCHEDULER, **more})
    notes = made["metadata"].setdefault("annotations", {})
    notes[key] = fraction
    if len(groups) > 1:
        notes["gpu-fraction-num-devices"] = str(len(groups))
    if groups:
        notes["received-resource-type"] = "Fraction"
        keys = [f"{GROUP}/{group}" if len(groups) > 1 else GROUP for group in groups]
        made["metadata"]["labels"] = dict(zip(keys, groups, strict=True))
    return made
