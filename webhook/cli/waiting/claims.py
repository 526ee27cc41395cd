"""Checks ResourceClaims (DRA): whether they exist, and which nodes have the devices for them.

k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.cli.cluster.snapshot import Object
from webhook.cli.waiting.causes import Cause, NodeCheck
from webhook.cli.waiting.claim_devices import Wanted, class_selectors, counts, has, requests
from webhook.cli.waiting.free_devices import claim_entries, is_simulated
from webhook.cli.waiting.situation import Case, Situation
from webhook.cli.waiting.unoffered import without
from webhook.cli.waiting.volumes import selected
from webhook.cli.waiting.workloads import refusal
from webhook.cluster.devices import DeviceClaim
from webhook.cluster.source_kai import KAI, asking
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, plural

_MAX_USERS: Final = 256
"""Maximum number of pods that share a claim (resource.k8s.io/v1 ResourceClaimReservedForMaxSize)."""
_LARGEST_PART: Final = 0.99
"""KAI refuses a pod that asks for all of a GPU as a part."""
_FAILED: Final = "FailedResourceClaimCreation"


def missing(case: Case) -> Iterator[Cause]:
    """Claims for which the scheduler looks at no node."""
    s = case.situation
    for entry, claim_name in claim_entries(case.pod):
        template = entry.get("resourceClaimTemplateName")
        who, claim = _claim(case, entry, claim_name)
        if claim is None:
            kind, word = (
                ("ResourceClaimTemplate", "claimTemplateMissing") if template else ("ResourceClaim", "claimMissing")
            )
            yield from case.absent(
                "claimMissing" if claim_name else word,
                "ResourceClaim" if claim_name else kind,
                str(claim_name or template),
            )
            continue
        if claim_name is None and not is_simulated(case.pod):
            text = f"no ResourceClaim was made of template {bare(str(template))}"
            made_for = f"PodResourceClaim {entry.get('name')}: "
            said = [str(e.get("message")) for e in s.events_of("Pod", case.pod) if e.get("reason") == _FAILED]
            if message := next((each for each in said if made_for in each), ""):
                yield refusal(s, case.namespace, f"{text}: ", message)
                continue
            fix = f"see kubectl describe pod -n {case.namespace} {bare(case.pod['metadata']['name'])}"
            yield Cause("claimMissing", f"{text} yet", fix)
            continue
        classes = {name for _, name in s.snapshot.named("DeviceClass")}
        named = {each.device_class for alternatives in requests(s, claim) for each in alternatives}
        for name in sorted(named - classes):
            yield from case.absent("deviceClassMissing", "DeviceClass", name, f" ({who})")
        if len(claim["status"].get("reservedFor") or ()) >= _MAX_USERS:
            text = f"ResourceClaim {bare(str(claim_name))} is used by {_MAX_USERS} pods, the most that can"
            yield Cause("claimInUse", text, "use another claim")


def _claim(case: Case, entry: Mapping[str, Any], name: str | None) -> tuple[str, Object | None]:
    """What messages call the claim of an entry, and the claim: as it would be if it is not made yet; None if there is none."""
    s = case.situation
    if name is not None:
        return f"claim {bare(name)}", s.snapshot.named("ResourceClaim").get((case.namespace, name))
    template = str(entry.get("resourceClaimTemplateName"))
    found = s.snapshot.named("ResourceClaimTemplate").get((case.namespace, template))
    made = None if found is None else {"spec": found["spec"].get("spec") or {}, "status": {}}
    return f"claim of template {bare(template)}", made


def devices(case: Case) -> NodeCheck:
    """Nodes without enough free devices for the pod's claims, or without the devices that are allocated to them."""
    s, away, short = case.situation, _away(case), list[_Short]()
    for entry, name in claim_entries(case.pod):
        who, claim = _claim(case, entry, name)
        if claim is not None and who not in away:
            short += _shortages(s, who, requests(s, claim))
    for resource, class_name in case.device_class_of.items():
        wanted = Wanted(class_name, case.demand.amount(resource), class_selectors(s, class_name))
        plugin = s.capacity.get(resource, np.zeros(len(s.alive))) > 0
        short += [
            each._replace(few=each.few & ~plugin, unknown=each.unknown & ~plugin)
            for each in _shortages(s, bare(resource), [(wanted,)])
        ]
    together = untold = np.zeros_like(s.alive)
    if not case.wants.reason:
        found = s.devices.search(case.wants, s.alive)
        short = [each._replace(few=each.few & found.few, unknown=found.unknown) for each in short]
        together, untold = found.few, found.unknown
    if case.part is not None:
        together = together | ~s.groups.fits(case.part, case.whole_gpus)
    fails = np.any([together, untold, *away.values(), *[each.few | each.unknown for each in short]], axis=0)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        left = mask.copy()
        for each in short:
            if (off := left & each.few).any():
                left &= ~off
                yield from _short(s, each, off, alone & (len(short) == 1))
        few = np.any([np.zeros_like(left), *[each.few for each in short]], axis=0)
        if (off := left & together & ~few).any():
            left &= ~off
            yield from _apart(case, off, alone) if case.part is None else _no_room(case, case.part, off, alone)
        for who, unknown in (*[(each.who, each.unknown) for each in short], ("the pod", untold)):
            if (off := left & unknown).any():
                left &= ~off
                text = f"{who}: whether the devices of {s.where(off)} can be had is not known"
                why = "a selector cannot be evaluated here, or others have parts of these GPUs"
                fix = (
                    f"see what the scheduler says ({why}), or what the devices are: kubectl get resourceslices -o yaml"
                )
                yield s.cause("noDevice", text, fix, off, np.zeros_like(off))
        for who, elsewhere in away.items():
            if (off := left & elsewhere).any():
                there = s.where(s.alive & ~elsewhere)
                text = f"the devices of {who} are on {there}, not on {s.where(off)}"
                fix = f"make room on {there}, or use a claim of its own: a ResourceClaimTemplate makes one for each pod"
                yield s.cause("claimElsewhere", text, fix, off, np.zeros_like(off))  # room on other nodes than these

    return NodeCheck(s.alive & fails, explain)


class _Short(NamedTuple):
    """A request, and the nodes on which it cannot be satisfied, or on which that is not known."""

    who: str
    wanted: Wanted
    few: Mask
    unknown: Mask


def _shortages(s: Situation, who: str, wanted: Iterable[tuple[Wanted, ...]]) -> Iterator[_Short]:
    """One for each of the requests. Those that select the same devices need as many as all of them together."""
    together = Counter[tuple[Wanted, ...]]()
    for alternatives in wanted:
        key = tuple([each._replace(number=0) for each in alternatives])
        together[key] += alternatives[0].number if len(alternatives) == 1 else 0
        if len(alternatives) > 1:
            together[alternatives] += 0
    for alternatives, count in together.items():
        each_few, each_unknown = [], []
        for each in alternatives:
            number, of = count or each.number, counts(s, each)
            sure, may = of.free >= number, of.free + of.unknown >= number
            each_few.append(~may)
            each_unknown.append(may & ~sure)
        few = np.all(each_few, axis=0)
        unknown = ~few & np.all([few | unknown for few, unknown in zip(each_few, each_unknown, strict=True)], axis=0)
        yield _Short(who, alternatives[0]._replace(number=count or alternatives[0].number), few, unknown)


def _short(s: Situation, short: _Short, off: Mask, alone: Mask) -> Iterator[Cause]:
    """The cause for nodes with too few devices for a request: none matches, there are fewer, or others have them."""
    who, wanted = short.who, short.wanted
    found, of = counts(s, wanted), bare(wanted.device_class)
    most, free = (int(number[off].max(initial=0)) for number in found[:2])
    asked = f"{who}: {plural(wanted.number, 'device')} of {of} wanted"
    of_class = counts(s, Wanted(wanted.device_class, 1, class_selectors(s, wanted.device_class), wanted.tolerates))
    taints = sorted(set().union(*[taints for row, taints in found.taints.items() if off[row]]))
    if taints and most < wanted.number:
        text = (
            f"{asked}, and it does not tolerate the taints of devices of {s.where(off)}: {listed(map(bare, taints), 3)}"
        )
        fix = (
            "remove the taints (kubectl get devicetaintrules, or the driver tells why), or tolerate them in a new claim"
        )
        alone = np.zeros_like(alone)  # devices with a taint may not work
    elif not of_class.match.any():
        text = f"{asked}, and no node has any"
        fix, alone = "install or repair the driver that offers them: kubectl get resourceslices", np.zeros_like(alone)
    elif not found.match.any():
        own = wanted.selectors[len(class_selectors(s, wanted.device_class)) :]
        text = f"{asked}, and no device matches {listed([f'«{bare(each)}»' for each in own], 3)}"
        fix = "correct the selector in a new claim; what devices have: kubectl get resourceslices -o yaml"
        alone = np.zeros_like(alone)  # nobody can try it: what it should say is not known
    else:
        text = f"{asked}, at most {free} free on a node: not on {s.where(off)}"
        if most < wanted.number:
            fix = f"ask for at most {most} in a claim, or repair the driver there: kubectl get resourceslices"
            if not most:
                fix = f"let the pod run where they are, or repair the driver on {s.where(off)}: kubectl get resourceslices"
        else:
            others = has(s, wanted.device_class, off)
            fix = f"wait for pod/{others[0]} to end" if others else "wait for a claim to be released"
            fix = f"{fix}, or ask for fewer devices: {free} {'are' if free != 1 else 'is'} free" if free else fix
    yield s.cause("noDevice", text, fix, off, alone)


def _no_room(case: Case, part: DeviceClaim, off: Mask, alone: Mask) -> Iterator[Cause]:
    """The causes for nodes that have no GPU of which KAI could give the pod its part."""
    s, number = case.situation, part.requests[0][0].devices
    if (none := off & (s.capacity.get(KAI.whole, np.zeros(len(off))) == 0)).any():
        yield from without(case, KAI.whole, none, alone)
    if (never := off & ~none & s.groups.refused).any():
        text = f"{s.where(never)}: KAI gives no parts of GPUs where there are MIG instances or GPUs by DRA"
        yield s.cause("noDevice", text, "let the pod run on other nodes", never, np.zeros_like(off))
    if not (off := off & ~none & ~s.groups.refused).any():
        return
    most = floor(100 * s.groups.most(np.flatnonzero(off), case.whole_gpus, number)) / 100
    of = f"{number} GPUs" if number > 1 else "a GPU"
    text = f"{s.where(off)}: at most {most:g} of {of} free for the part that it asks for"
    most = min(most, _LARGEST_PART)
    fix = (
        f"ask for gpu-fraction: {most:g} at most, or wait for a pod there to end"
        if most
        else "wait for a pod there to end"
    )
    yield s.cause("noDevice", text, fix, off, alone, asking(case.pod, most) if most else None)


def _apart(case: Case, off: Mask, alone: Mask) -> Iterator[Cause]:
    """The cause for nodes that have enough devices for each request of the pod, and not for all of them."""
    s = case.situation
    if parts := [claim.source for claim in case.wants.claims if claim.source]:
        by = listed(sorted(set(parts)))
        text = f"no GPU of {s.where(off)} has enough free for the part that it asks for (by {by})"
        yield s.cause("noDevice", text, "ask for a smaller part, or wait for a pod there to end", off, alone)
        return
    entries = list(claim_entries(case.pod))
    found = [claim for _, claim in [_claim(case, *each) for each in entries] if claim is not None]
    wanted = [each for claim in found for each in (claim["spec"].get("devices") or {}).get("requests") or ()]
    every = any((each.get("exactly") or each).get("allocationMode") == "All" for each in wanted)
    names = [bare(str(name or entry.get("resourceClaimTemplateName"))) for entry, name in entries]
    who = (
        f"claim{'s' if len(names) > 1 else ''} {listed(names, 5)}" if names else listed(map(bare, case.device_class_of))
    )
    wants = [each for claim in found for request in requests(s, claim) for each in request]
    others = sorted({pod for each in wants for pod in has(s, each.device_class, off)})
    tainted = {row for each in wants for row in counts(s, each).taints}
    if every and off[[*tainted]].any():
        text = (
            f"{who}: all devices that match are wanted, and it does not tolerate the taints of some of {s.where(off)}"
        )
    elif every:
        text = f"{who}: all devices that match are wanted, and others have some of those of {s.where(off)}"
    elif len(wanted) == 1:
        text = f"{who}: no device that matches can be had on {s.where(off)}: others have parts of the same GPUs"
    else:
        text = f"{who}: not enough devices for all requests together on {s.where(off)}: each alone could be met"
    fix = f"wait for pod/{others[0]} to end" if others else "ask for other or fewer devices in a new claim"
    yield s.cause(
        "noDevice", text, f"{fix}; what devices have: kubectl get resourceslices -o yaml", off, alone & bool(others)
    )


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
