"""Checks volume claims: whether they exist and are bound, and which nodes can reach and attach the volumes.

k8s.io/kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumerestrictions,nodevolumelimits}.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np

from webhook.kube.pod import Pod, annotations_of
from webhook.kube.quantity import parse_quantity
from webhook.kube.stores import full_name
from webhook.placement.constraints import Mask, terms_of
from webhook.text import bare, listed, quoted
from webhook.whatif.cluster.snapshot import Object
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix, NodeCheck
from webhook.whatif.waiting.free_devices import is_simulated
from webhook.whatif.waiting.nodes import unselected
from webhook.whatif.waiting.resources import large_enough
from webhook.whatif.waiting.situation import Case, Situation, absent, with_spec, without_affinity

_BOUND_WITH_POD: Final = "WaitForFirstConsumer"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ONE_POD: Final = "ReadWriteOncePod"
_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def missing(case: Case) -> Iterator[Cause]:
    """Volume claims for which the scheduler looks at no node."""
    s = case.situation
    claims = s.snapshot.named("PersistentVolumeClaim")
    ephemeral = _ephemeral(case.pod)
    for name in claim_names(case.pod):
        claim = claims.get((case.namespace, name))
        claim_text = f"PersistentVolumeClaim {bare(name)}"
        if claim is None and name in ephemeral:
            if not is_simulated(case.pod) and not s.snapshot.lacks("PersistentVolumeClaim", case.namespace):
                look = kubectl("describe", "pod", case.pod["metadata"]["name"], namespace=case.namespace)
                text = f"{claim_text} was not made yet of its ephemeral volume"
                yield Cause.of("volumeClaimMissing", text, Fix("see why", look))
        elif claim is None:
            yield from case.absent(
                "volumeClaimMissing", "PersistentVolumeClaim", name, named=partial(_mounting, case, name)
            )
        elif claim["metadata"].get("deletionTimestamp"):
            fix = "wait until it is gone, and create it again"
            yield Cause.of("volumeClaimDeleting", f"{claim_text} is being deleted", fix)
        elif claim["status"].get("phase") == "Lost":
            volume = bare(claim["spec"].get("volumeName"))
            fix = "delete the claim, and restore the data to a new one"
            yield Cause.of("volumeClaimLost", f"{claim_text}: its volume {volume} is gone", fix)
        elif claim["status"].get("phase") != "Bound":
            yield from _unbound(case, claim, claim_text)


def in_use(case: Case) -> NodeCheck:
    """All nodes, while another pod has a claim that one pod may have."""
    s = case.situation
    alone_in = [
        (name, other)
        for name, claim in _claims(s, case.pod).items()
        if _ONE_POD in (claim["spec"].get("accessModes") or ())
        for _, other in s.bound
        if other["metadata"]["namespace"] == case.namespace and name in claim_names(other)
    ]

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for name, other in alone_in:
            text = f"PersistentVolumeClaim {bare(name)} is {_ONE_POD}, and pod {full_name(other)} has it"
            fix = Fix(f"wait for pod {full_name(other)} to end", ends=(other,))
            if s.names_of.top(other) == s.names_of.top(case.pod):
                fix = Fix("let the old pod go first: strategy Recreate")
            yield s.cause("volumeInUse", text, mask, alone, fix, "use accessMode ReadWriteMany")

    return NodeCheck(s.alive & bool(alone_in), explain)


def _unbound(case: Case, claim: Object, claim_text: str) -> Iterator[Cause]:
    """The cause for a claim that is not bound, unless it is bound together with the pod."""
    s, name = case.situation, claim["spec"].get("storageClassName")
    classes = {class_name: obj for (_, class_name), obj in s.snapshot.named("StorageClass").items()}
    said = s.events_of("PersistentVolumeClaim", claim)
    last = next((str(event["message"]) for event in said if event.get("message")), "")
    if not name:
        known = "StorageClass" not in s.snapshot.missing
        default = [each for each in classes.values() if annotations_of(each).get(_IS_DEFAULT) == "true"]
        no_default = ", and no class is the default" if name is None and known and not default else ""
        text = f"{claim_text} is not bound and names no StorageClass{no_default}"
        which = f" ({listed(map(bare, sorted(classes))) or 'there is no class'})" if known else ""
        fix = f"set spec.storageClassName{which} in a new claim"
        yield Cause.of("volumeClaimUnbound", text, fix, "create a volume")
    elif name not in classes and ("StorageClass" not in s.snapshot.missing or f'"{name}" not found' in last):
        yield absent(s, case.namespace, "storageClassMissing", "StorageClass", name, of=f" ({claim_text} names it)")
    elif classes.get(name, {}).get("volumeBindingMode") != _BOUND_WITH_POD:
        text = f"{claim_text} is not bound{f': {quoted(last)}' if last else ''}"
        look = kubectl("describe", "pvc", claim["metadata"]["name"], namespace=case.namespace)
        yield Cause.of("volumeClaimUnbound", text, Fix("see why", look))


def unreachable(case: Case) -> NodeCheck:
    """Nodes that cannot reach the volumes of the pod, or no free volume for its claim."""
    s, reach, unmade = case.situation, dict[str, Mask](), dict[str, str]()
    for name, claim in _claims(s, case.pod).items():
        if (volume := _volume_of(s, claim)) is not None:
            reach[f"volume {bare(volume['metadata']['name'])} of claim {bare(name)}"] = _reachable(s, volume)
        elif claim["status"].get("phase") != "Bound" and "PersistentVolume" not in s.snapshot.missing:
            storage_class, of = _class_of(s, claim), bare(str(claim["spec"].get("storageClassName")))
            if topologies := storage_class.get("allowedTopologies"):
                reach[f"a volume of class {of} for claim {bare(name)}"] = _allowed(s, topologies)
            if storage_class.get("provisioner") == _NO_PROVISIONER:
                volumes = s.snapshot.of("PersistentVolume")
                if able := [_reachable(s, each) for each in volumes if _suits(each, claim)]:
                    reach[f"a free volume for claim {bare(name)}"] = np.any(able, axis=0)
                else:
                    unmade[name] = of
    passes = np.all([np.full_like(s.alive, not unmade), *reach.values()], axis=0)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for volume_text, there in reach.items():
            if (off := mask & ~there).any():
                yield _elsewhere(case, volume_text, off, s.alive & there)
        for name, of in unmade.items():
            text = (
                f"no volume suits claim {bare(name)}, and class {of} makes none: its provisioner is {_NO_PROVISIONER}"
            )
            fix = f"create a PersistentVolume of class {of} that is large enough"
            only = alone & (len(unmade) == 1)
            yield s.cause("volumeNodeConflict", text, mask, only, fix, "name a class that makes them")

    return NodeCheck(s.alive & ~passes, explain)


def _elsewhere(case: Case, volume_text: str, off: Mask, there: Mask) -> Cause:
    """The cause for nodes that cannot reach a volume. `there`: those that can."""
    s = case.situation
    text = f"{volume_text} cannot be reached from {s.where(off)}"
    if there.any():
        text = f"{text}: it is on {s.where(there)}"
    return s.cause("volumeNodeConflict", text, off, np.zeros_like(off), *_brought_together(case, off, there))


def _brought_together(case: Case, off: Mask, there: Mask) -> list[Fix | str]:
    """What brings the pod to its volume, on the nodes `there`, or the volume to the pod."""
    s, copied = case.situation, "copy the data to a volume elsewhere"
    if not there.any():
        return ["create a volume that a node can reach", "use a StorageClass that provisions them"]
    if not (there & large_enough(case)).any():
        never = f"{s.where(there)} could never take the pod"
        return [f"copy the data to a volume that {s.where(off)} can reach: {never}"]
    if not (there & ~unselected(case)).any():
        anywhere = with_spec(without_affinity(case.pod, "nodeAffinity"), nodeSelector={})
        return [Fix(f"let the pod run on {s.where(there)}", pod=anywhere), copied]
    return [f"make room on {s.where(there)}", copied]


def _mounting(case: Case, name: str, instead: str) -> Pod:
    """The pod with another claim in place of this one."""
    volumes = [
        {**each, "persistentVolumeClaim": {**claim, "claimName": instead}}
        if (claim := each.get("persistentVolumeClaim")) and claim["claimName"] == name
        else each
        for each in case.pod["spec"].get("volumes") or ()
    ]
    return with_spec(case.pod, volumes=volumes)


def limits(case: Case) -> NodeCheck:
    """Nodes to which no more volumes of a CSI driver can be attached."""
    s = case.situation
    wanted, fails = _volumes_by_driver(s, case.pod), np.zeros_like(s.alive)
    full: dict[int, str] = {}
    for node in s.snapshot.of("CSINode") if wanted else ():
        name, row = node["metadata"]["name"], s.nodes.row_of.get(node["metadata"]["name"])
        if row is None:
            continue
        for entry in node["spec"].get("drivers") or ():
            driver, limit = entry["name"], (entry.get("allocatable") or {}).get("count")
            if limit is None or driver not in wanted:
                continue
            attached = {v for pod in s.pods_on.get(name, ()) for v in _volumes_by_driver(s, pod).get(driver, ())}
            if len(attached | wanted[driver]) > limit:
                fails[row], full[row] = True, f"{bare(driver)} takes {limit} on a node"

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"{s.where(mask)}: as many volumes as can be attached: {listed(sorted(set(full.values())))}"
        yield s.cause(
            "volumeLimit", text, mask, alone, "use fewer volumes", "move pods with volumes away", "add a node"
        )

    return NodeCheck(s.alive & fails, explain)


def storage(case: Case) -> NodeCheck:
    """Nodes with too little storage for a volume that is made when the pod has its node. Drivers that do not say what they have
    make any (volumebinding/binder.go, hasEnoughCapacity)."""
    s, short = case.situation, list[tuple[str, Object, Mask, str]]()
    are_limited = s.snapshot.of("CSIStorageCapacity") or s.snapshot.of("CSIDriver")
    for name, claim in _claims(s, case.pod).items() if are_limited else ():
        unbound = not claim["spec"].get("volumeName") and claim["status"].get("phase") != "Bound"
        if unbound and (found := _too_little(s, claim, _class_of(s, claim))) is not None:
            short.append((name, claim, *found))

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for name, claim, small, most in short:
            if (off := mask & small).any():
                which = f"{bare(_storage_asked(claim))} of class {bare(str(claim['spec'].get('storageClassName')))}"
                text = f"no volume of {which} can be made for claim {bare(name)} on {s.where(off)}: at most {bare(most)} there"
                less, other = "ask for less storage in a new claim", "name another class in a new claim"
                yield s.cause("volumeNodeConflict", text, off, np.zeros_like(off), less, other)

    fails = np.any([np.zeros_like(s.alive), *[small for _, _, small, _ in short]], axis=0)
    return NodeCheck(s.alive & fails, explain)


def _too_little(s: Situation, claim: Object, storage_class: Object) -> tuple[Mask, str] | None:
    """The nodes where its driver has too little for the volume of a claim, and the most that it has there; None if it does not
    say."""
    driver = s.snapshot.named("CSIDriver").get(("", str(storage_class.get("provisioner"))), {"spec": {}})
    size = parse_quantity(_storage_asked(claim))
    if not driver["spec"].get("storageCapacity") or "CSIStorageCapacity" in s.snapshot.missing or not size:
        return None
    there = [
        (str(each.get("maximumVolumeSize") or each.get("capacity") or "0"), each["nodeTopology"])
        for each in s.snapshot.of("CSIStorageCapacity")
        if each.get("storageClassName") == storage_class["metadata"]["name"] and each.get("nodeTopology") is not None
    ]
    less = [amount for amount, _ in there if parse_quantity(amount) < size]
    able = _within_topologies(s, [topology for amount, topology in there if parse_quantity(amount) >= size])
    return ~able, max(less, key=parse_quantity, default="nothing")


def _allowed(s: Situation, topologies: Iterable[Object]) -> Mask:
    """The nodes in the allowedTopologies of a StorageClass."""
    terms = [
        {"matchExpressions": [{**each, "operator": "In"} for each in topology["matchLabelExpressions"]]}
        for topology in topologies
    ]
    return selected(s, {"nodeSelectorTerms": terms})


def _within_topologies(s: Situation, topologies: Iterable[Object]) -> Mask:
    """The nodes that one of these label selectors selects. Those of one label, as of one node each, are one term."""
    values, terms = dict[str, list[str]](), list[Object]()
    for topology in topologies:
        labels, others = topology.get("matchLabels") or {}, topology.get("matchExpressions") or ()
        if not labels and not others:
            return s.alive
        if len(labels) == 1 and not others:
            ((key, value),) = labels.items()
            values.setdefault(key, []).append(value)
        else:
            of = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
            terms.append({"matchExpressions": [*of, *others]})
    terms += [{"matchExpressions": [{"key": key, "operator": "In", "values": of}]} for key, of in values.items()]
    return selected(s, {"nodeSelectorTerms": terms})


def claim_names(pod: Pod) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
    yield from _ephemeral(pod)


def _ephemeral(pod: Pod) -> list[str]:
    """The names of the claims that are made of volumes of the pod."""
    volumes = pod["spec"].get("volumes") or ()
    return [f"{pod['metadata']['name']}-{volume['name']}" for volume in volumes if volume.get("ephemeral")]


def _volumes_by_driver(s: Situation, pod: Pod) -> dict[str, set[str]]:
    """The handles of the pod's CSI volumes by driver. A claim that is not bound counts for the driver of its class
    (nodevolumelimits/csi.go, getCSIDriverInfoFromSC)."""
    by_driver: dict[str, set[str]] = {}
    for claim in _claims(s, pod).values():
        volume = _volume_of(s, claim)
        if volume is not None and (csi := volume["spec"].get("csi")):
            by_driver.setdefault(csi["driver"], set()).add(csi["volumeHandle"])
        elif not claim["spec"].get("volumeName"):
            by_driver.setdefault(str(_class_of(s, claim).get("provisioner")), set()).add(full_name(claim))
    return by_driver


def _claims(s: Situation, pod: Pod) -> dict[str, Object]:
    """By name, the claims of the pod that exist."""
    claims, namespace = s.snapshot.named("PersistentVolumeClaim"), pod["metadata"]["namespace"]
    return {name: claims[namespace, name] for name in claim_names(pod) if (namespace, name) in claims}


def _volume_of(s: Situation, claim: Object) -> Object | None:
    return s.snapshot.named("PersistentVolume").get(("", str(claim["spec"].get("volumeName"))))


def _class_of(s: Situation, claim: Object) -> Object:
    """The StorageClass of a claim; {} if it is not known."""
    return s.snapshot.named("StorageClass").get(("", str(claim["spec"].get("storageClassName"))), {})


def _reachable(s: Situation, volume: Object) -> Mask:
    return selected(s, (volume["spec"].get("nodeAffinity") or {}).get("required"))


def selected(s: Situation, node_selector: Object | None) -> Mask:
    """The nodes that a NodeSelector selects; all if there is none."""
    return s.alive & s.matching(terms_of(node_selector.get("nodeSelectorTerms") or ())) if node_selector else s.alive


def _storage_asked(claim: Object) -> str:
    """The storage that a claim asks for."""
    return str(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage") or "0")


def _suits(volume: Object, claim: Object) -> bool:
    """Whether a free volume satisfies a claim."""
    spec, asked = volume["spec"], claim["spec"]
    size = parse_quantity(_storage_asked(claim))
    return bool(
        volume["status"].get("phase") in ("Available", None)
        and spec.get("storageClassName") == asked.get("storageClassName")
        and set(asked.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and parse_quantity((spec.get("capacity") or {}).get("storage", "0")) >= size
    )
