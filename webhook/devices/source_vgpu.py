"""Parts of GPUs as HAMi and Volcano give them out: a node's cards, and what pods have of them, in annotations.

Both write the same text. Of a node: `UUID,slots,MiB,…` for each card, with `:` after it; HAMi from 2.8 on a JSON list. Of a pod:
`UUID,type,MiB,cores:` for each card, with `;` after each container. Follows HAMi pkg/device/devices.go (DecodeNodeDevices,
DecodePodDevices, Resourcereqs), HAMi pkg/device/nvidia/device.go (Fit), and Volcano pkg/scheduler/api/devices/nvidia/vgpu.

A part of a card in percent of its memory, and a pod that names its cards or their type, are left to that scheduler. So are cards
in mode `mig`: a pod gets an instance, which is larger than what it asks for, and has few places on its card.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from webhook.devices.types import Device, DeviceClaim, DeviceRequest, DeviceSet, Use
from webhook.errors import QuantityError
from webhook.kube.device_tree import Facts
from webhook.kube.pod import Pod, annotations_of
from webhook.kube.quantity import parse_quantity
from webhook.vendors.catalogue import every, resources
from webhook.vendors.model import SharedCards

MAX_TEXT: Final = 64 << 10
MAX_DEVICES: Final = 256
_MAX_AMOUNT: Final = 1 << 31
_WHOLE: Final = frozenset([each.name for each in resources("whole")])
_EXCLUSIVE: Final = 100
"""With all cores of a card a container has it alone."""


class Vgpu:
    """A source of devices, by what the catalogue says of its text."""

    def __init__(self, of: SharedCards) -> None:
        self.said = of
        self.name, self.own_scheduler = of.name, of.scheduler
        self.resource, self.part_resources = of.cards, (of.memory, of.percentage, of.cores)
        self.annotations = (of.registered, *of.assigned)

    def devices(self, node: Mapping[str, Any]) -> DeviceSet:
        notes = node["metadata"].get("annotations") or {}
        text, (handshake, cordoned) = notes.get(self.said.registered) or "", self.said.withdrawn
        if len(text) > MAX_TEXT or (notes.get(handshake) or "").startswith("Deleted"):
            return DeviceSet()
        if whole_number(((node.get("status") or {}).get("allocatable") or {}).get(self.resource, 1)) == 0:
            return DeviceSet()  # its device plugin is gone: from 2.10 on HAMi says so nowhere else
        out = set((notes.get(cordoned) or "")[:MAX_TEXT].split(","))
        cards = self._from_json(text) if text.startswith("[") else self._from_text(text)
        found = {card.name: card for card in cards if card is not None and card.name not in out}
        return DeviceSet(tuple(found.values())[:MAX_DEVICES])

    def uses(self, pod: Pod) -> tuple[Use, ...]:
        """At most what its containers ask for: everybody can write the annotation."""
        notes = annotations_of(pod)
        text = next((notes[key] for key in self.said.assigned if notes.get(key)), "")
        if not text or len(text) > MAX_TEXT:
            return ()
        requests = self._requests(pod, parts=False)
        asked = sum([request.devices for request in requests])
        if not asked:
            return ()
        largest = [
            max([dict(request.amounts).get(f"{self.name}/{part}", _MAX_AMOUNT) for request in requests])
            for part in ("memory", "cores")
        ]
        entries = [entry.split(",") for group in text.split(";") for entry in group.split(":") if "," in entry]
        found = []
        for uuid, _, memory, cores, *_ in (entry for entry in entries[:asked] if len(entry) >= 4):
            amounts = [whole_number(memory), whole_number(cores)]
            if None not in amounts:
                parts = [int(min(amount or 0, most)) for amount, most in zip(amounts, largest, strict=True)]
                found.append(Use(uuid.partition("[")[0], self._amounts(*parts)))
        return tuple(found)

    def claim(self, pod: Pod) -> DeviceClaim | None:
        notes = annotations_of(pod)
        requests = tuple((request,) for request in self._requests(pod, parts=True))
        left = not requests or any([key in notes for key in self.said.choosing])
        return None if left else DeviceClaim(requests, source=self.name)

    def _requests(self, pod: Pod, *, parts: bool) -> list[DeviceRequest]:
        """What each container asks for; [] if one of them asks by percentage. `parts`: also if it asks for whole cards only."""
        found, part = [], False
        limits = [
            (container.get("resources") or {}).get("limits") or {} for container in pod["spec"].get("containers") or ()
        ]
        whole = self.resource in _WHOLE  # cards alone are those of the device plugin
        telling = self.part_resources if whole else (self.resource, *self.part_resources)
        if parts and all([asked.keys().isdisjoint(telling) for asked in limits]):
            return []  # as of most pods
        for asked in limits:
            amounts = [
                whole_number(asked[name]) if name in asked else 0 for name in (self.resource, *self.part_resources)
            ]
            if None in amounts or amounts[2] or not amounts[0]:
                if any([name in asked for name in self.part_resources]):
                    return []
                continue
            count, memory, _, cores = (amount or 0 for amount in amounts)
            part = part or bool(memory or cores or not whole)
            found.append(
                DeviceRequest(self.name, min(count, MAX_DEVICES), amounts=self._amounts(memory or None, cores))
            )
        return found if part or not parts else []

    def _amounts(self, memory: int | None, cores: int | None) -> tuple[tuple[str, int], ...]:
        """One use of a card. What is not named is taken whole: memory without a number, slots with all cores."""
        named = {"memory": memory, "cores": min(cores or 0, _EXCLUSIVE), "slots": None if cores == _EXCLUSIVE else 1}
        return tuple((f"{self.name}/{key}", amount) for key, amount in named.items() if amount is not None)

    def _from_text(self, text: str) -> Iterator[Device | None]:
        for entry in text.split(":")[:MAX_DEVICES]:
            uuid, *values = entry.split(",")
            said: dict[str, Any] = dict(zip(("count", "devmem", *self.said.fields), values, strict=False))
            if len(said) >= 2:
                healthy = str(said.get("health", "true")).lower() == "true"
                yield self._card(said | {"id": uuid, "health": healthy})

    def _from_json(self, text: str) -> Iterator[Device | None]:
        try:
            listed = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        for said in listed[:MAX_DEVICES] if isinstance(listed, list) else ():
            if isinstance(said, dict):
                yield self._card(said)

    def _card(self, said: Mapping[str, Any]) -> Device | None:
        """None for a card that is unhealthy or gives out MIG instances, or of which a number is wrong. `said`: by the names of
        HAMi's JSON."""
        slots, memory, cores = (whole_number(said.get(key, other)) for key, other in _NUMBERS)
        uuid, model = said.get("id"), said.get("type", "")
        if (
            None in (slots, memory, cores)
            or not isinstance(uuid, str)
            or not uuid
            or not said.get("health")
            or said.get("mode") == "mig"
        ):
            return None
        capacity = {
            f"{self.name}/memory": memory or 0,
            f"{self.name}/cores": cores or 0,
            f"{self.name}/slots": slots or 0,
        }
        attributes = {f"{self.name}/type": model[:64]} if isinstance(model, str) and model else {}
        return Device(uuid[:128], Facts(self.name, attributes, capacity, shared=True))


_NUMBERS: Final = (("count", None), ("devmem", None), ("devcore", _EXCLUSIVE))


def whole_number(value: Any) -> int | None:
    """A whole number within the bounds of HAMi's; None otherwise."""
    try:
        number = parse_quantity(value) if isinstance(value, str | int) and not isinstance(value, bool) else -1
    except QuantityError:
        return None
    return number if isinstance(number, int) and 0 <= number < _MAX_AMOUNT else None


VGPUS: Final = tuple([Vgpu(each) for each in every(SharedCards)])
