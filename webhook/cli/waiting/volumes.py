"""Volumes: claims that are not there or not bound, and volumes that are elsewhere.

k8s.io/kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumerestrictions,nodevolumelimits}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from webhook.cli.waiting.cause import Cause, Check
from webhook.cli.waiting.situation import Case, Situation
from webhook.kube.pod import Pod
from webhook.kube.quantity import parse_quantity
from webhook.placement.constraints import Mask, compiled, matches
from webhook.text import bare, listed, nearest, quoted

_LAZY: Final = "WaitForFirstConsumer"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ALONE: Final = "ReadWriteOncePod"
Object = Mapping[str, Any]


def missing(case: Case) -> Iterator[Cause]:
    """Volume claims for which the scheduler looks at no node."""
    s = case.situation
    claims = s.snapshot.named("PersistentVolumeClaim")
    for name in _claim_names(case.pod):
        claim = claims.get((case.namespace, name))
        claim_text = f"PersistentVolumeClaim {bare(name)}"
        if claim is None:
            if "PersistentVolumeClaim" not in s.snapshot.missing:
                near = nearest(name, [n for namespace, n in claims if namespace == case.namespace])
                hint = f"; nearest: {bare(near)}" if near else ""
                fix = f"create it, or name {bare(near)} in spec.volumes" if near else "create it: kubectl apply -f …"
                yield Cause("volumeClaimMissing", f"{claim_text} does not exist in {case.namespace}{hint}", fix)
        elif claim["metadata"].get("deletionTimestamp"):
            yield Cause(
                "volumeClaimDeleting", f"{claim_text} is being deleted", "wait until it is gone, and create it again"
            )
        elif claim["status"].get("phase") == "Lost":
            volume = bare(claim["spec"].get("volumeName"))
            yield Cause(
                "volumeClaimLost",
                f"{claim_text}: its volume {volume} is gone",
                "delete the claim, and restore the data to a new one",
            )
        elif claim["status"].get("phase") != "Bound":
            yield from _unbound(case, claim, claim_text)
        elif _ALONE in (claim["spec"].get("accessModes") or ()):
            for other in _users(s, case.namespace, name):
                who = f"{other['metadata']['namespace']}/{other['metadata']['name']}"
                text = f"{claim_text} is {_ALONE}, and pod {who} has it"
                yield Cause("volumeInUse", text, f"end {who}, or use accessMode ReadWriteMany")


def _unbound(case: Case, claim: Object, claim_text: str) -> Iterator[Cause]:
    s, name = case.situation, claim["spec"].get("storageClassName")
    classes = {key[1]: obj for key, obj in s.snapshot.named("StorageClass").items()}
    if not name:
        text = f"{claim_text} is not bound and names no StorageClass" + (
            ", and no class is the default" if name is None else ""
        )
        fix = f"set spec.storageClassName ({listed(sorted(classes)) or 'there is no class'}) in a new claim, or create a volume"
        yield Cause("volumeClaimUnbound", text, fix)
    elif name not in classes and "StorageClass" not in s.snapshot.missing:
        near = nearest(name, sorted(classes))
        hint = f"; nearest: {bare(near)}" if near else f"; there are {listed(sorted(classes))}" if classes else ""
        yield Cause(
            "storageClassMissing",
            f"{claim_text} wants StorageClass {quoted(name)}, which does not exist{hint}",
            f"create the class, or a new claim with {bare(near or '…')}",
        )
    elif classes.get(name, {}).get("volumeBindingMode") != _LAZY:
        said = next(
            (event["message"] for event in s.events_of("PersistentVolumeClaim", claim) if event.get("message")), ""
        )
        text = f"{claim_text} is not bound{f': {quoted(said)}' if said else ''}"
        yield Cause(
            "volumeClaimUnbound",
            text,
            f"see kubectl describe pvc -n {case.namespace} {bare(claim['metadata']['name'])}",
        )


def elsewhere(case: Case) -> Check:
    """Nodes that cannot reach the volumes of the pod, or a free volume for its claim."""
    s, conflicts = case.situation, dict[str, Mask]()
    claims, volumes = s.snapshot.named("PersistentVolumeClaim"), s.snapshot.named("PersistentVolume")
    for name in _claim_names(case.pod):
        claim = claims.get((case.namespace, name))
        if claim is None:
            continue
        volume = volumes.get(("", str(claim["spec"].get("volumeName"))))
        if volume is not None:
            conflicts[f"volume {volume['metadata']['name']} of claim {name}"] = ~_reachable(s, volume)
        elif claim["status"].get("phase") != "Bound" and "PersistentVolume" not in s.snapshot.missing:
            storage_class = s.snapshot.named("StorageClass").get(("", str(claim["spec"].get("storageClassName"))), {})
            if storage_class.get("provisioner") == _NO_PROVISIONER:
                able = [_reachable(s, each) for each in volumes.values() if _suits(each, claim)]
                conflicts[f"a free volume for claim {name}"] = ~np.any(able, axis=0) if able else s.alive
    fails = np.any([*conflicts.values()], axis=0) if conflicts else s.alive & False

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for volume_text, away in conflicts.items():
            if (off := mask & away).any():
                there = s.alive & ~away
                text = f"{volume_text} cannot be reached from {s.where(off)}" + (
                    f": it is on {s.where(there)}" if there.any() else ""
                )
                fix = (
                    f"make room on {s.where(there)}, or copy the data to a volume elsewhere"
                    if there.any()
                    else "create a volume that a node can reach, or use a StorageClass that provisions them"
                )
                yield s.cause("volumeNodeConflict", text, fix, off, alone)

    return Check(s.alive & fails, explain)


def limits(case: Case) -> Check:
    """Nodes that have as many volumes of a driver attached as they can."""
    s = case.situation
    wanted, fails = _drivers(s, case.pod), np.zeros(len(s.alive), bool)
    full: dict[int, str] = {}
    for node in s.snapshot.of("CSINode") if wanted else ():
        name = node["metadata"]["name"]
        for driver in node["spec"].get("drivers") or () if name in s.nodes.row_of else ():
            limit, row = (driver.get("allocatable") or {}).get("count"), s.nodes.row_of[name]
            if limit is None or driver["name"] not in wanted:
                continue
            there = {v for pod in s.pods_on.get(name, ()) for v in _drivers(s, pod).get(driver["name"], ())}
            if len(there | wanted[driver["name"]]) > limit:
                fails[row], full[row] = True, f"{bare(driver['name'])} takes {limit} on a node"

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"{s.where(mask)}: as many volumes as can be attached: {listed(sorted(set(full.values())))}"
        yield s.cause("volumeLimit", text, "use fewer volumes, move pods with volumes away, or add a node", mask, alone)

    return Check(s.alive & fails, explain)


def _claim_names(pod: Pod) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
        elif volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


def _users(s: Situation, namespace: str, claim: str) -> Iterator[Pod]:
    for _, pod in s.bound:
        if pod["metadata"]["namespace"] == namespace and pod["spec"].get("volumes") and claim in _claim_names(pod):
            yield pod


def _drivers(s: Situation, pod: Pod) -> dict[str, set[str]]:
    """The CSI volumes of a pod by driver."""
    by_driver: dict[str, set[str]] = {}
    for name in _claim_names(pod) if pod["spec"].get("volumes") else ():
        claim = s.snapshot.named("PersistentVolumeClaim").get((pod["metadata"]["namespace"], name))
        volume = s.snapshot.named("PersistentVolume").get(
            ("", str(((claim or {}).get("spec") or {}).get("volumeName")))
        )
        if csi := ((volume or {}).get("spec") or {}).get("csi"):
            by_driver.setdefault(csi["driver"], set()).add(csi["volumeHandle"])
    return by_driver


def _reachable(s: Situation, volume: Object) -> Mask:
    return able(s, (volume["spec"].get("nodeAffinity") or {}).get("required"))


def able(s: Situation, required: Object | None) -> Mask:
    """The nodes that a NodeSelector takes."""
    constraints = compiled({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}})
    if constraints is None or constraints.required is None:
        return s.alive
    rows = slice(0, len(s.alive))
    selected: Mask = np.any([matches(term, s.nodes, rows) for term in constraints.required] or [~s.alive], axis=0)
    return s.alive & selected


def _suits(volume: Object, claim: Object) -> bool:
    spec, asked = volume["spec"], claim["spec"]
    size = parse_quantity(((asked.get("resources") or {}).get("requests") or {}).get("storage", "0"))
    return bool(
        volume["status"].get("phase") in ("Available", None)
        and spec.get("storageClassName") == asked.get("storageClassName")
        and set(asked.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and parse_quantity((spec.get("capacity") or {}).get("storage", "0")) >= size
    )
