"""Checks how much storage a driver has for the volumes that are made when the pod has its node.

k8s.io/kubernetes pkg/scheduler/framework/plugins/volumebinding/binder.go, hasEnoughCapacity.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from webhook.kube.quantity import parse_quantity
from webhook.placement.constraints import Mask
from webhook.text import bare
from webhook.whatif.cluster.snapshot import Object
from webhook.whatif.waiting.causes import Cause, NodeCheck
from webhook.whatif.waiting.situation import Case, Situation
from webhook.whatif.waiting.volumes import claim_names, selected, storage_asked


def storage(case: Case) -> NodeCheck:
    """Nodes with too little storage for a volume of the pod. Drivers that do not say what they have make any."""
    s, claims = case.situation, case.situation.snapshot.named("PersistentVolumeClaim")
    short = dict[str, tuple[Mask, str]]()
    for name in claim_names(case.pod) if s.snapshot.of("CSIStorageCapacity") or s.snapshot.of("CSIDriver") else ():
        claim = claims.get((case.namespace, name))
        if claim is not None and not claim["spec"].get("volumeName") and claim["status"].get("phase") != "Bound":
            of = s.snapshot.named("StorageClass").get(("", str(claim["spec"].get("storageClassName"))), {})
            if (found := _too_little(s, claim, of)) is not None:
                short[name] = found

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for name, (small, most) in short.items():
            if (off := mask & small).any():
                claim = claims[case.namespace, name]
                which = f"{bare(storage_asked(claim))} of class {bare(str(claim['spec'].get('storageClassName')))}"
                text = f"no volume of {which} can be made for claim {bare(name)} on {s.where(off)}: at most {bare(most)} there"
                less, other = "ask for less storage in a new claim", "name another class in a new claim"
                yield s.cause("volumeNodeConflict", text, off, np.zeros_like(off), less, other)

    return NodeCheck(
        s.alive & np.any([np.zeros_like(s.alive), *[small for small, _ in short.values()]], axis=0), explain
    )


def _too_little(s: Situation, claim: Object, storage_class: Object) -> tuple[Mask, str] | None:
    """The nodes where its driver has too little for the volume of a claim, and the most that it has there; None if it does not
    say."""
    driver = s.snapshot.named("CSIDriver").get(("", str(storage_class.get("provisioner"))), {"spec": {}})
    size = parse_quantity(storage_asked(claim))
    if not driver["spec"].get("storageCapacity") or "CSIStorageCapacity" in s.snapshot.missing or not size:
        return None
    there = [
        (str(each.get("maximumVolumeSize") or each.get("capacity") or "0"), each["nodeTopology"])
        for each in s.snapshot.of("CSIStorageCapacity")
        if each.get("storageClassName") == storage_class["metadata"]["name"] and each.get("nodeTopology") is not None
    ]
    less = [amount for amount, _ in there if parse_quantity(amount) < size]
    able = _within(s, [topology for amount, topology in there if parse_quantity(amount) >= size])
    return ~able, max(less, key=parse_quantity, default="nothing")


def _within(s: Situation, topologies: Iterable[Object]) -> Mask:
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
