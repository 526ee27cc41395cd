"""Checks ResourceClaims (DRA): whether they exist, and which nodes have the devices for them.

k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from math import floor
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.devices.claims import selectors_of
from webhook.devices.source_kai import KAI, NUMBER, asking, of_fewer
from webhook.devices.types import DeviceClaim
from webhook.kube.pod import Pod
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, plural, printable, quoted
from webhook.whatif.cluster.snapshot import Object
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix, NodeCheck
from webhook.whatif.waiting.free_devices import Wants, claim_entries, is_simulated
from webhook.whatif.waiting.scheduler_message import scheduler_message
from webhook.whatif.waiting.situation import Case, Situation, with_spec
from webhook.whatif.waiting.unoffered import without
from webhook.whatif.waiting.volumes import selected
from webhook.whatif.waiting.workloads import refusal

_MAX_USERS: Final = 256
"""Maximum number of pods that share a claim (resource.k8s.io/v1 ResourceClaimReservedForMaxSize)."""
_LARGEST_PART: Final = 0.99
"""KAI refuses a pod that asks for all of a GPU as a part."""
_FAILED: Final = "FailedResourceClaimCreation"
_ANY_TAINT: Final = (("", None, ""),)
_TEMPLATED: Final = "claim of template "
_FAILS: Final = re.compile(r"(selector #\d+ on device \S+): CEL runtime error: (.+)", re.DOTALL)
"""How the scheduler says that an expression fails on a device, so that it looks at no node (dra allocator)."""
_LOOK: Final = Fix("see what the devices are", kubectl("get", "resourceslices", "-o", "yaml"))
_MAX_WAITS = _MAX_NAMED = 3
"""Maximum number of pods for whose end to wait, and of attributes whose values are told."""
_MAX_TRIED: Final = 50
"""Of so many pods that have devices it is looked at what their end would leave."""


class _Request(NamedTuple):
    """One request of a pod for devices, without its others."""

    who: str
    """What messages call its claim, or the extended resource for which one is made."""
    device_class: str
    own: tuple[str, ...]
    """Its expressions beside those of the class."""
    wants: Wants
    claim: DeviceClaim
    """Of those that match it asks for one at least if it asks for all."""
    every: bool = False
    """It asks for all devices of a node that match."""

    @property
    def changed(self) -> str:
        """Where its author changes what it asks for: a claim cannot be changed."""
        return "in the template, and create the pod again" if self.who.startswith(_TEMPLATED) else "in a new claim"

    @property
    def alike(self) -> str:
        """What its devices must have in common, or must not: ", all of one gpu.example.com/model"."""
        how = [
            ("each of another" if each.distinct else "all of one", each.attribute) for each in self.claim.constraints
        ]
        return "".join([f", {words} {bare(attribute)}" for words, attribute in how if self.devices > 1])

    @property
    def devices(self) -> int:
        return self.claim.requests[0][0].devices

    def most(self, s: Situation, rows: Mask, *, free: bool = True, enough: int = 0, **changed: Any) -> int:
        """How many devices it could have on one of these nodes, of those that are free or of all; no more than are `enough`.
        `changed`: fields of the request in its most wanted alternative."""
        asked = self.claim.requests[0][0]

        def claim(number: int) -> DeviceClaim:
            return self.claim._replace(requests=((asked._replace(devices=number, **changed),),))

        return s.devices.most(claim, enough or self.devices, rows, free=free)


def missing(case: Case) -> Iterator[Cause]:
    """Claims for which the scheduler looks at no node."""
    s = case.situation
    classes = {name for _, name in s.snapshot.named("DeviceClass")}
    for entry, name in claim_entries(case.pod):
        template, (who, claim) = entry.get("resourceClaimTemplateName"), _claim(case, entry, name)
        if template is None and name is None:
            text = f"spec.resourceClaims {quoted(str(entry.get('name')))} names no claim and no template"
            yield Cause.of("claimMissing", text, "write its resourceClaimName", "write its resourceClaimTemplateName")
        elif claim is None:
            kind, field = ("Template", "resourceClaimTemplateName") if name is None else ("", "resourceClaimName")
            other = partial(_claiming, case.pod, entry, field)
            missing = str(template if name is None else name)
            yield from case.absent(f"claim{kind}Missing", f"ResourceClaim{kind}", missing, named=other)
        elif name is None and not is_simulated(case.pod):
            yield _not_made(case, entry, f"no ResourceClaim was made of template {bare(str(template))}")
        else:
            for device_class in sorted(_classes(claim) - classes):
                yield from case.absent("deviceClassMissing", "DeviceClass", device_class, f" ({who})")
            if len(claim["status"].get("reservedFor") or ()) >= _MAX_USERS:
                text = f"ResourceClaim {bare(str(name))} is used by {_MAX_USERS} pods, the most that can"
                yield Cause.of("claimInUse", text, "use another claim")


def _claiming(pod: Pod, entry: Mapping[str, Any], field: str, name: str) -> Pod:
    """The pod that names another claim or template."""
    entries = [{**each, field: name} if each is entry else each for each in pod["spec"]["resourceClaims"]]
    return with_spec(pod, resourceClaims=entries)


def _not_made(case: Case, entry: Mapping[str, Any], text: str) -> Cause:
    """The cause for a claim that nobody has made of its template."""
    s, made_for = case.situation, f"PodResourceClaim {entry.get('name')}: "
    said = [str(e.get("message")) for e in s.events_of("Pod", case.pod) if e.get("reason") == _FAILED]
    if message := next((each for each in said if made_for in each), ""):
        return refusal(s, case.namespace, f"{text}: ", message)
    look = kubectl("describe", "pod", case.pod["metadata"]["name"], namespace=case.namespace)
    return Cause.of("claimMissing", f"{text} yet", Fix("see why", look))


def _claim(case: Case, entry: Mapping[str, Any], name: str | None) -> tuple[str, Object | None]:
    """What messages call the claim of an entry, and the claim: as it would be if it is not made yet; None if there is none."""
    s, template = case.situation, entry.get("resourceClaimTemplateName")
    who = f"claim {bare(str(name))}" if template is None else f"{_TEMPLATED}{bare(str(template))}"
    if name is not None:
        return who, s.snapshot.named("ResourceClaim").get((case.namespace, name))
    found = s.snapshot.named("ResourceClaimTemplate").get((case.namespace, str(template)))
    return who, None if found is None else {"spec": found["spec"].get("spec") or {}, "status": {}}


def _written(claim: Object) -> list[list[Mapping[str, Any]]]:
    """The alternatives of each request of a claim, as they are written."""
    asked = (claim["spec"].get("devices") or {}).get("requests") or ()
    return [each.get("firstAvailable") or [each.get("exactly") or each] for each in asked]


def _classes(claim: Object) -> set[str]:
    return {str(each["deviceClassName"]) for alternatives in _written(claim) for each in alternatives}


def _requests(case: Case) -> Iterator[_Request]:
    """The requests of the claims that have no devices yet."""
    s = case.situation
    for entry, name in claim_entries(case.pod):
        who, claim = _claim(case, entry, name)
        if claim is None:
            continue
        for asked in s.devices.asked(case.pod, [(entry, name)]).claims:
            for place, (written, alternatives) in enumerate(zip(_written(claim), asked.requests, strict=True)):
                own = [each for each in asked.constraints if not each.requests or place in each.requests]
                one = tuple([each._replace(devices=max(1, each.devices)) for each in alternatives])
                alone = DeviceClaim((one,), tuple([each._replace(requests=frozenset()) for each in own]))
                first, every = written[0], not alternatives[0].devices
                yield _Request(who, first["deviceClassName"], selectors_of(first), Wants((alone,)), alone, every)
    for resource, alone in case.wants.extended.items():
        name = s.snapshot.state.device_requests.class_of(resource)
        yield _Request(bare(resource), name, (), Wants(extended={resource: alone}), alone)


def devices(case: Case) -> NodeCheck:
    """Nodes without enough free devices for the pod's claims, or without the devices that are allocated to them."""
    s, away = case.situation, _away(case)
    few, unknown = s.devices.search(case.wants, s.alive)
    if case.part is not None:
        few = few | ~s.groups.fits(case.part, case.whole_gpus)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        left, asked = mask.copy(), [*_requests(case)]
        for each in asked:
            if (off := left & few & s.devices.search(each.wants, s.alive).few).any():
                left &= ~off
                yield from _short(case, each, off, alone, sole=len(asked) == 1)
        if (off := left & few).any():
            left &= ~off
            yield from _apart(case, asked, off, alone) if case.part is None else _no_room(case, case.part, off, alone)
        if (off := left & unknown).any():
            left &= ~off
            if asked and (failed := _FAILS.search(scheduler_message(s, case.pod))):
                text = (
                    f"{asked[0].who if len(asked) == 1 else 'a claim'}: {printable(f'{failed[1]} fails: {failed[2]}')}"
                )
                correct = _LOOK._replace(words=f"correct it {asked[0].changed}; what devices have")
                yield s.cause("noDevice", text, off, np.zeros_like(off), correct)
                return
            why = case.wants.reason or "a selector cannot be evaluated here, or it would take long"
            text = f"the pod: whether the devices of {s.where(off)} can be had is not known: {why}"
            yield s.cause("noDevice", text, off, np.zeros_like(off), "see what the scheduler says", _LOOK)
        for who, elsewhere in away.items():
            if (off := left & elsewhere).any():
                there = s.where(s.alive & ~elsewhere)
                text = f"the devices of {who} are on {there}, not on {s.where(off)}"
                own = "use a claim of its own: a ResourceClaimTemplate makes one for each pod"
                yield s.cause("claimElsewhere", text, off, np.zeros_like(off), f"make room on {there}", own)

    return NodeCheck(s.alive & np.any([few, unknown, *away.values()], axis=0), explain)


def _short(case: Case, request: _Request, off: Mask, alone: Mask, *, sole: bool) -> Iterator[Cause]:
    """The cause for nodes with too few devices for a request: none matches, there are fewer, or others have them. `sole`: the pod
    has no others, which would need some of what is free."""
    s, number, nobody = case.situation, request.devices, np.zeros_like(alone)
    alone = alone if sole else nobody
    most, free = (request.most(s, off, free=each) for each in (False, True))
    asked = f"{request.who}: {plural(number, 'device')} of {bare(request.device_class)} wanted{request.alike}"
    of_class = s.snapshot.state.device_requests.class_selectors(request.device_class) or ()
    if most < number and request.most(s, off, free=False, tolerations=_ANY_TAINT) > most:
        keys = listed(map(bare, s.devices.taints(off)), 3)
        text = f"{asked}, and it does not tolerate the taints of devices of {s.where(off)}: {keys}"
        remove = Fix("remove the taints, or ask their driver's log why", kubectl("get", "devicetaintrules"))
        yield s.cause("noDevice", text, off, nobody, remove, f"tolerate them {request.changed}")
    elif not request.most(s, s.alive, free=False, enough=1, selectors=of_class, amounts=()):
        repair = _LOOK._replace(words="install or repair the driver that offers them; what there is")
        yield s.cause("noDevice", f"{asked}, and no node has any", off, nobody, repair)
    elif not request.most(s, s.alive, free=False, enough=1):
        wanted = listed([f"«{bare(each)}»" for each in request.own], 3) or "the capacity that it asks for"
        correct = _LOOK._replace(words=f"correct the selector {request.changed}; what devices have")
        text = f"{asked}, and no device matches {wanted}{_values(case, request)}"
        yield s.cause("noDevice", text, off, nobody, correct)
    else:
        text = f"{asked}, at most {free} free on a node: not on {s.where(off)}"
        less = f"at most {free or most}" if sole else "fewer"
        fewer = [f"ask for {less} {request.changed}"] if free or 0 < most < number else []
        if most < number:
            repair = _LOOK._replace(words=f"repair the driver on {s.where(off)}")
            elsewhere = [] if most else ["let the pod run where they are"]
            yield s.cause("noDevice", text, off, alone if free else nobody, *fewer, *elsewhere, repair)
        else:
            waits = _waits(case, request, off)
            waits = waits if waits or fewer else [Fix("wait for a claim to be released")]
            yield s.cause("noDevice", text, off, alone, *waits, *fewer)


def _values(case: Case, request: _Request) -> str:
    """What devices have of the attributes and capacities that the selectors of a request read."""
    view = case.situation.snapshot.state.view(case.situation.snapshot.taken)
    found = dict([each for expression in request.own for each in view.device_values(expression) if each[1]])
    said = [f"{bare(name)}: {listed(values)}" for name, values in [*found.items()][:_MAX_NAMED]]
    return f"; devices have {'; '.join(said)}" if said else ""


def _waits(case: Case, request: _Request, nodes: Mask) -> list[Fix]:
    """«wait for pod/x in team to end»: the pods for which claims with devices of this class on these nodes are reserved, or else
    those whose end would leave more, since they hold counters that its devices need. For its own workload nobody waits."""
    s = case.situation
    known, own = s.snapshot.named("ResourceClaim"), s.names_of.top(case.pod)
    users: dict[str, bool] = {}
    for namespace, name in s.devices.holders(nodes):
        of_class = request.device_class in _classes(known[namespace, name])
        for user in known[namespace, name]["status"].get("reservedFor") or ():
            users[str(user.get("uid"))] = of_class or users.get(str(user.get("uid")), False)
    holders = [pod for _, pod in s.bound if str(pod["metadata"].get("uid")) in users and s.names_of.top(pod) != own]
    pods = [pod for pod in holders if users[str(pod["metadata"]["uid"])]]
    if not pods:
        free = request.most(s, nodes)
        pods = [pod for pod in holders[:_MAX_TRIED] if request.most(s.without((pod,)), nodes) > free]
    names = {f"{bare(pod['metadata']['name'])} in {pod['metadata']['namespace']}": pod for pod in pods}
    return [Fix(f"wait for pod/{name} to end", ends=(names[name],)) for name in sorted(names)[:_MAX_WAITS]]


def _no_room(case: Case, part: DeviceClaim, off: Mask, alone: Mask) -> Iterator[Cause]:
    """The causes for nodes that have no GPU of which KAI could give the pod its part."""
    s, number = case.situation, part.requests[0][0].devices
    has = s.capacity.get(KAI.whole, np.zeros(len(off), np.int64))
    if (none := off & (has == 0)).any():
        yield from without(case, KAI.whole, none, alone)
    if (few := off & (has > 0) & (has < number)).any():
        largest = int(has[few].max())
        fewer = Fix(f"ask for {NUMBER}: {largest} at most", pod=of_fewer(case.pod, largest))
        text = f"{s.where(few)}: fewer GPUs than the {number} of which it asks for parts"
        yield s.cause("noDevice", text, few, alone, fewer)
        off = off & ~few
    if (never := off & ~none & s.groups.refused).any():
        gives = f"{KAI.own_scheduler} gives no parts of GPUs"
        text = f"{s.where(never)}: {gives} where there are MIG instances or GPUs by DRA, or no limits yet"
        yield s.cause("noDevice", text, never, np.zeros_like(off), "let the pod run on other nodes")
    if not (off := off & ~none & ~s.groups.refused).any():
        return
    most = floor(100 * s.groups.most(np.flatnonzero(off), case.whole_gpus, number)) / 100
    of = f"{number} GPUs" if number > 1 else "a GPU"
    text = f"{s.where(off)}: at most {most:g} of {of} free for the part that it asks for"
    most = min(most, _LARGEST_PART)
    less = [Fix(f"ask for gpu-fraction: {most:g} at most", pod=asking(case.pod, most))] if most else []
    yield s.cause("noDevice", text, off, alone, *less, "wait for a pod there to end")


def _apart(case: Case, asked: list[_Request], off: Mask, alone: Mask) -> Iterator[Cause]:
    """The cause for nodes that have enough devices for each request of the pod, and not for all of them."""
    s = case.situation
    if parts := [claim.source for claim in case.wants.claims if claim.source]:
        by = listed(sorted(set(parts)))
        text = f"no GPU of {s.where(off)} has enough free for the part that it asks for (by {by})"
        yield s.cause("noDevice", text, off, alone, "ask for a smaller part", "wait for a pod there to end")
        return
    who = listed([*dict.fromkeys([each.who for each in asked])])
    waits = {fix.words: fix for each in asked for fix in _waits(case, each, off)}
    if not any(each.every for each in asked):
        text = f"{who}: not enough devices for all requests together on {s.where(off)}: each alone could be met"
    else:
        text = f"{who}: all devices that match are wanted, and others have some of those of {s.where(off)}, or they have taints"
    other = _LOOK._replace(words=f"ask for other or fewer devices {asked[0].changed}; what devices have")
    yield s.cause("noDevice", text, off, alone, *waits.values(), other)


def elsewhere(case: Case) -> Mask:
    """Nodes that cannot reach the devices that are allocated to the pod's claims."""
    away: Mask = np.any([np.zeros_like(case.situation.alive), *_away(case).values()], axis=0)
    return away


def _away(case: Case) -> dict[str, Mask]:
    """The same for each claim that has devices, by what messages call it."""
    found = {}
    for entry, name in claim_entries(case.pod):
        who, claim = _claim(case, entry, name)
        if claim is not None and (allocation := claim["status"].get("allocation")):
            found[who] = ~selected(case.situation, allocation.get("nodeSelector"))
    return found
