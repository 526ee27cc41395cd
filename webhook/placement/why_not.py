"""Explains why no node could take a pod even if all nodes were up and empty: what is missing, where, with numbers.

`feasible` judges the nodes, as if they were empty and nothing were wrong that passes by itself. Here are the words, in the order
in which a person looks at them, and the label of nodes that is most similar to one that no node has.

Only CPU, memory, ephemeral storage, pods and GPUs are compared: a provider of another resource may come later.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.devices.types import DeviceClaim
from webhook.framework.cluster_view import Expression, Unschedulable
from webhook.kube.gpus import DIVIDED, GPU_KINDS, GPU_LABELS, MODEL_LABELS, NO_GPUS, PARTS, Gpus, vendor
from webhook.kube.less import less
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import PodRequests, total_requests
from webhook.kube.taints import passes
from webhook.nodes.nodes import GENERAL, Nodes
from webhook.placement.constraints import Constraints, Mask, matches, matches_any
from webhook.placement.feasible import EVER, Feasible
from webhook.text import amount_number, amount_words, bare, listed, nearest, plural, suggestion
from webhook.vendors.catalogue import machine_domains

NOTHING_SERVED: Final[Mapping[str, DeviceClaim]] = {}
_OPERATORS: Final = "ask those who run this cluster"
_OF_MACHINES: Final = machine_domains()
_MAX_NAMED: Final = 3
_MAX_LOOKED_AT: Final = 1000
_MAX_CHARACTERS: Final = 63
_MAX_KEYS: Final = 1000
_MAX_VALUES: Final = 1000


class Search:
    """Searches why one pod is unschedulable, on the nodes as they are now."""

    def __init__(
        self,
        pod_requests: PodRequests,
        constraints: Constraints,
        nodes: Nodes,
        gpus: Gpus,
        served: Mapping[str, DeviceClaim] = NOTHING_SERVED,
    ) -> None:
        self._pod_requests, self._constraints, self._nodes, self._gpus = pod_requests, constraints, nodes, gpus
        self._rows = slice(0, nodes.columns.rows)
        self._served = {name: self._by_class(claim) for name, claim in served.items()}
        """How much of a resource nodes have by DRA, for the resources that a DeviceClass stands for."""
        self._judgement = Feasible(constraints, pod_requests, EVER, claimed=served)
        self._asked = {name: amount for name, amount in pod_requests.requests if gpus.kind(name) is not None}
        self._without_plugin = self._labelled_without_gpus()

    def unschedulable(self) -> Iterator[Unschedulable]:
        """Each cause once, missing resources first; nothing if some node could take the pod."""
        if reasons := list(self._reasons()):
            of_new_nodes = self._of_new_nodes()
            yield from [reason._replace(of_new_nodes=of_new_nodes) for reason in reasons]

    def _reasons(self) -> Iterator[Unschedulable]:
        missing = [name for name, _ in self._pod_requests.requests if _may_be_missing(name) and not self._most(name)]
        yield from map(self._on_no_node, missing)
        if any([name in missing or not self._devices(name).any() for name in self._asked]):
            return  # reported above, or the device plugin is away for the moment
        left = self._nodes.columns.alive[self._rows].copy()
        for name, amount in self._asked.items():
            able = left & (self._devices(name) >= amount)
            if not able.any():
                yield self._too_many(name, amount, left)
                return
            left = able
        with_gpus = left
        selected = with_gpus & self._selected()
        if not selected.any():
            yield self._not_selected(with_gpus)
            return
        left = selected & self._judgement.open(self._nodes, self._rows)
        if not left.any():
            yield self._tainted(selected)
            return
        yield from self._shares(left)
        short = list(self._short(left, with_gpus))
        yield from short
        if not (
            short
            or missing
            or (left & self._judgement.room(self._nodes, self._rows, self._nodes.columns.capacity)).any()
        ):
            asked = [amount_words(name, amount) for name, amount in self._pod_requests.requests if name != "pods"]
            seen = f"a pod that asks {listed(asked, 8)}"
            wanted = "what one node has; each of these some node has, but none has all of them"
            yield Unschedulable("together", "spec", seen, wanted, "Ask for less of one of them", False)

    def _selected(self) -> Mask:
        checks = self._judgement.selection(self._nodes, self._rows)
        mask: Mask = np.logical_and.reduce([np.ones_like(self._without_plugin), *[check.passes for check in checks]])
        return mask

    # --- resources ----------------------------------------------------------------------------------------------------

    def _on_no_node(self, name: str) -> Unschedulable:
        known = [resource for resource in self._nodes.columns.capacity if "/" in resource and self._most(resource)]
        offered = self._gpus.among(known) if name in self._asked else known
        offered.sort(key=lambda resource: (vendor(resource) != vendor(name), resource))
        there = f"; nodes have {listed(map(bare, offered))}" if offered else "; no node has any"
        known = [resource for resource in offered if vendor(resource) == vendor(name)]
        near = f"Ask for {{}}, which is the nearest, or {_OPERATORS}"
        otherwise = f"Remove it, or {_OPERATORS}"
        if name not in self._asked:
            there = ""
        elif (silent := self._silent(name)).any():
            have = "has GPUs by its labels, but lists"
            have = have if np.count_nonzero(silent) == 1 else "have GPUs by their labels, but list"
            there, near = f"; {self._named(silent)} {have} none", f"{near} to look at the device plugin there"
            otherwise = f"A{_OPERATORS[1:]} to look at the device plugin there"
        else:  # without it the pod would run without a GPU
            otherwise = (
                f"Ask for what nodes have, or {_OPERATORS}" if offered else f"A{_OPERATORS[1:]} for nodes that have it"
            )
        fix = suggestion(name, known, near, otherwise)
        wanted = f"a resource that some node has: {bare(name)} is on no node{there}"
        return Unschedulable("resource", name, amount_words(name, self._pod_requests.amount(name)), wanted, fix, False)

    def _too_many(self, name: str, amount: int, among: Mask) -> Unschedulable:
        devices, max_gpus = self._devices(name), int(self._devices(name)[among].max(initial=0))
        if not max_gpus:  # GPUs of two names that no node has together
            seen = f"a pod that asks {self._gpu_words()}"
            wanted = "GPUs that one node has together; none has all of these"
            return Unschedulable("together", "spec", seen, wanted, "Ask for one of them", False)
        may = among & self._selected() & self._judgement.open(self._nodes, self._rows)
        there = int(devices[may].max(initial=0))
        which = " that it may go to" if 0 < there < max_gpus else ""
        max_gpus = there if which else max_gpus
        largest = (may if which else among) & (devices == max_gpus)
        pods = -(-amount // max_gpus)
        split = f"{pods} pods of {'' if amount % max_gpus == 0 else 'at most '}{max_gpus}"
        has = f"node{which} has" if np.count_nonzero(largest) == 1 else f"nodes{which} have"
        # If it is not lasting, some GPUs are away now: they are sick, or their device plugin does not run.
        lasting = amount > self._most(name) and not self._without_plugin.any()
        wanted = (
            f"at most {max_gpus}, which is what the largest {has}{'' if lasting else ' now'}: {self._named(largest)}"
        )
        fix = f"Ask for {max_gpus} or fewer, or spread the work over {split}"
        return Unschedulable("gpus", name, f"{amount} {bare(name)}", wanted, fix, lasting)

    def _shares(self, left: Mask) -> Iterator[Unschedulable]:
        """The pod requests several GPUs, but only nodes where these are slices or shares have as many."""
        for name, amount in self._asked.items():
            ones = self._nodes.columns.one[self._rows][left]
            if amount > 1 and name in DIVIDED and self._gpus.kind(name) == "whole" and ones.all():
                kinds = " or ".join([PARTS[GPU_KINDS[one]] for one in np.unique(ones).tolist()])
                wanted = f"1, or nodes with whole GPUs; those that have as many have {kinds}: {self._named(left)}"
                fix = "Ask for 1: a second slice or share is no second GPU"
                yield Unschedulable("shared", name, f"{amount} {bare(name)}", wanted, fix, False)

    def _short(self, left: Mask, with_gpus: Mask) -> Iterator[Unschedulable]:
        """Resources of which no node that the pod may use has enough. Their amounts are of one node, one with enough of the rest
        if there is any."""
        capacity = {name: amounts[self._rows] for name, amounts in self._nodes.columns.capacity.items()}
        counts = " and ".join([str(count) for count in self._asked.values()])
        asked = [each for each in self._pod_requests.requests if each[0] not in self._asked and each[0] in capacity]
        able, short = left.copy(), list[tuple[str, int]]()
        for name, amount in asked:
            largest = int(capacity[name][left].max(initial=0))
            if amount > largest and (name in GENERAL or largest):
                short.append((name, amount))
            else:
                able &= capacity[name] >= amount
        able = able if able.any() else left.copy()
        for name, amount in short:
            amounts = capacity[name]
            largest = int(amounts[able].max())
            wider = [(" that it may go to", with_gpus), (" and enough of the rest", left)]
            which = "".join([words for words, mask in wider if int(amounts[mask].max()) > largest][-1:])
            able &= amounts == largest
            where = self._named(able if which else with_gpus & (amounts == largest))
            seen = f"a pod that asks {amount_words(name, amount)} with {self._gpu_words()}"
            wanted = (
                f"what some node has; the largest node with {counts}{which} has {amount_number(name, largest)}: {where}"
            )
            beside = np.any(
                [self._without_plugin, *[self._devices(gpu, installed=True) > 0 for gpu in self._asked]], axis=0
            )
            lasting = name in GENERAL and amount > int(amounts[beside].max(initial=0))
            yield Unschedulable(name, "spec", seen, wanted, "", lasting, largest)

    def _devices(self, name: str, *, installed: bool = False) -> NDArray[np.int64]:
        """The allocatable amount of a resource by node, or what the node may offer as it is: see `nodes.installed_on`. Shared
        and sliced GPUs count once. Huge pages are the kubelet's own: no device plugin withdraws them."""
        columns, nothing = self._nodes.columns, np.zeros(self._nodes.columns.rows, np.int64)
        amounts = (columns.installed if installed and "/" in name else columns.capacity).get(name, nothing)[self._rows]
        whole = name in DIVIDED and self._gpus.kind(name) == "whole"
        per_gpu = (columns.sharing * columns.slices)[self._rows].astype(np.int64)
        listed = amounts // (per_gpu if whole else 1)
        return np.where(amounts > 0, listed, self._served.get(name, nothing))

    def _by_class(self, claim: DeviceClaim) -> NDArray[np.int64]:
        """How many devices of a claim each node would have if it were empty: see `DeviceTable.most`."""
        table, numbers = self._nodes.devices, self._nodes.columns.devices[self._rows]
        most = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            most[number] = table.most(number, claim)
        by_node: NDArray[np.int64] = most[numbers]
        return by_node

    def _most(self, name: str) -> int:
        """The most that one node may offer as it is."""
        return int(self._devices(name, installed=True).max(initial=0))

    def _labelled_without_gpus(self) -> Mask:
        """Nodes with the label of a GPU model that list no GPU: their device plugin has not come up yet."""
        return self._listing_none(self._nodes.columns.model[self._rows] > 0)

    def _silent(self, name: str) -> Mask:
        """Nodes that by their labels have GPUs of this vendor, and have none, of a device plugin or by DRA."""
        columns = self._nodes.columns
        mask = np.zeros_like(columns.alive[self._rows])
        for key in GPU_LABELS:
            if vendor(key) == vendor(name):
                has = (Expression(key, "Exists", ()), Expression(key, "NotIn", NO_GPUS))
                mask |= matches(has, self._nodes, self._rows)
        return self._listing_none(mask & columns.alive[self._rows] & (columns.devices[self._rows] == 0))

    def _listing_none(self, mask: Mask) -> Mask:
        columns = self._nodes.columns
        for name in self._gpus.among(columns.installed):
            mask &= columns.installed[name][self._rows] == 0
        return mask

    # --- labels and taints --------------------------------------------------------------------------------------------

    def _not_selected(self, among: Mask) -> Unschedulable:
        constraints, required = self._constraints, self._constraints.required
        for expression in constraints.selector:
            mask = matches((expression,), self._nodes, self._rows)
            if not (among & mask).any():
                return self._unmatched(f"spec.nodeSelector[{bare(expression.key)}]", expression, mask)
        path = "spec.affinity.nodeAffinity"
        if required == ():
            wanted = "one that can match: an empty term matches nothing, and Gt and Lt compare with one whole number"
            return Unschedulable("label", path, "no such term in node affinity", wanted, "Write the terms anew", False)
        if required is not None and not (among & matches_any(required, self._nodes, self._rows)).any():
            for expression in required[0] if len(required) == 1 else ():
                mask = matches((expression,), self._nodes, self._rows)
                if not (among & mask).any():
                    return self._unmatched(path, expression, mask)
            seen = f"{plural(len(required), 'required term')} of node affinity"
        elif required is None:
            path, seen = "spec.nodeSelector", listed(map(label_words, constraints.selector), 3)
        else:
            path, seen = "spec", f"{listed(map(label_words, constraints.selector), 3)} and node affinity"
        wanted = f"what some node with {self._gpu_words()} has together; none of {plural(int(among.sum()), 'node')} has"
        return Unschedulable("label", path, seen, wanted, "Remove what these nodes do not have", False)

    def _unmatched(self, path: str, expression: Expression, mask: Mask) -> Unschedulable:
        """No node with the GPUs matches this expression. `mask`: the nodes that match it."""
        label, having = label_words(expression), self._nodes.columns.alive[self._rows] & mask
        if having.any():
            name = next(iter(self._asked))
            max_gpus = int(self._devices(name)[having].max())
            wanted = f"a label of nodes with {self._gpu_words()}; {plural(int(having.sum()), 'node')} with {label} "
            wanted += f"{'has' if having.sum() == 1 else 'have'} at most {max_gpus}"
            return Unschedulable("label", path, label, wanted, "Choose other nodes, or ask for fewer GPUs", False)
        wanted = f"a label that some node has: no node has {label}"
        fix = f"Remove it, or {_OPERATORS} to label the nodes"
        positive = expression.operator in ("In", "Exists")
        if positive and (near := nearest_label(self._nodes, expression.key, expression.values)) is not None:
            key, value, words = near
            wanted, fix = f"{wanted}; nearest: {words}", f"Write {bare(key)}: {bare(value)} if that is meant"
        return Unschedulable("label", path, label, wanted, fix, False)

    def _tainted(self, among: Mask) -> Unschedulable:
        statuses = dict.fromkeys(self._nodes.columns.status[self._sorted(among)].tolist())
        taints = {taint for number in [*statuses][:_MAX_LOOKED_AT] for taint in self._nodes.statuses[number].taints}
        shown = sorted(taint.text for taint in self._judgement.untolerated(taints) if not passes(taint))
        seen = f"no toleration of {listed(map(bare, shown), 3)}"
        wanted = f"one: {plural(int(among.sum()), 'node')} would take the pod but for that"
        return Unschedulable(
            "taint", "spec.tolerations", seen, wanted, f"Add it if these nodes are for you, or {_OPERATORS}", False
        )

    def _of_new_nodes(self) -> bool:
        """Whether no node with these GPUs is of the machines that the pod requires by their labels, none of which is a slip."""
        required = self._constraints.required or ()
        machine = [
            expression
            for expression in (*self._constraints.selector, *(required[0] if len(required) == 1 else ()))
            if vendor(expression.key) in _OF_MACHINES and expression.operator in ("In", "Exists")
        ]
        for key, _, values, _ in machine:
            if self._is_respelt(key, values):
                return False
            near = None if self._nodes.labels.is_anywhere(key) else nearest_label(self._nodes, key, values)
            if near is not None:
                return False
        left = matches(tuple(machine), self._nodes, self._rows) & self._nodes.columns.alive[self._rows]
        for name in self._asked:
            left = left & (self._devices(name) > 0)
        return bool(machine) and not left.any()

    def _is_respelt(self, key: str, values: tuple[str, ...]) -> bool:
        """Whether nodes have all these values of a label in another case or with other signs. By less than that a new model may
        differ from a known one, so no other value is taken for a slip."""
        columns, column = self._nodes.columns, self._nodes.labels.column(key)
        if column is None or not values:
            return False
        codes = np.unique(column.padded(columns.rows)[self._rows][columns.alive[self._rows]])
        known = {column.values[code] for code in codes.tolist()} - {""}
        alike = {*map(_signless, known)}
        return all([value not in known and _signless(value) in alike for value in values])

    # --- words --------------------------------------------------------------------------------------------------------

    def _gpu_words(self) -> str:
        whole = [name for name in self._asked if self._gpus.kind(name) == "whole"]
        if len(self._asked) == 1 and whole:
            return plural(self._asked[whole[0]], "GPU")
        return " and ".join(f"{amount} {bare(name)}" for name, amount in self._asked.items())

    def _named(self, mask: Mask) -> str:
        names = [self._nodes.columns.name[row] for row in self._sorted(mask)[: _MAX_NAMED + 1].tolist()]
        return ", ".join([*names[:_MAX_NAMED], *("…" for _ in names[_MAX_NAMED:])])

    def _sorted(self, mask: Mask) -> NDArray[np.intp]:
        """These rows by the names of their nodes: the same on every replica."""
        rows = self._nodes.by_name()
        return rows[mask[rows]]


def for_pod(reason: Unschedulable, pod: Pod) -> Unschedulable:
    """The reason with the amount for which this pod may ask beside what else it needs."""
    if reason.fix:
        return reason
    name = reason.cause
    over = total_requests({"spec": {"containers": [], "overhead": pod["spec"].get("overhead")}}).get(name, 0)
    if over >= reason.most:
        return reason._replace(fix="Use another RuntimeClass: the overhead of this one is too much")
    if (found := less(pod, name, reason.most)) is None:
        return reason._replace(fix=f"A{_OPERATORS[1:]}")
    more = ": the overhead of its RuntimeClass is added to that" if over else ""
    return reason._replace(fix=f"Ask for at most {amount_words(name, found.amount)}{found.where}{more}")


def _may_be_missing(resource: str) -> bool:
    """Whether a resource is not on every node."""
    return "/" in resource or resource.startswith("hugepages-")


# --- labels -----------------------------------------------------------------------------------------------------------


def nearest_label(
    nodes: Nodes, key: str, values: Iterable[str], rows: Mask | None = None
) -> tuple[str, str, str] | None:
    """The nearest label that some node (of these rows) has: its key, its value, and both with the number of nodes in words. None
    if none is similar.

    Searched are the key itself, keys that differ from it only in punctuation, case and domain, and the labels of GPU
    models.
    """
    wanted = [value for value in values if len(value) <= _MAX_CHARACTERS][:8]
    keys = sorted(nodes.labels.keys())[:_MAX_KEYS]  # sorted, as the values below: every replica finds the same
    alike = [known_key for known_key in keys if _bare_key(known_key) == _bare_key(key)]
    for candidate in (key, *alike, *MODEL_LABELS):
        column = nodes.labels.column(candidate)
        if column is None:
            continue
        codes = column.padded(nodes.columns.rows)[: nodes.columns.rows]
        counts = np.bincount(codes if rows is None else codes[rows], minlength=len(column.values))
        if np.count_nonzero(counts) > _MAX_VALUES:
            continue
        known = sorted(value for value, count in zip(column.values, counts.tolist(), strict=True) if value and count)
        for value in wanted:
            nearest_value = _like(value, known) or (None if candidate in MODEL_LABELS else nearest(value, known))
            if nearest_value is not None and (candidate, nearest_value) != (key, value):
                count = int(counts[column.ids[nearest_value]])
                return candidate, nearest_value, f"{bare(candidate)}={bare(nearest_value)} ({plural(count, 'node')})"
    return None


def _like(value: str, known: list[str]) -> str | None:
    """A known value that differs only in punctuation and case, or contains `value`: `a100` in `NVIDIA-A100-SXM4-80GB`."""
    bare_value = _signless(value)
    if not bare_value:
        return None
    same = [each for each in known if _signless(each) == bare_value]
    parts = [each for each in known if len(bare_value) > 1 and bare_value in _signless(each)]
    return next(iter(same or parts), None)


def _bare_key(key: str) -> str:
    return _signless(key.rpartition("/")[2])


def _signless(text: str) -> str:
    return "".join([c for c in text.lower() if c.isalnum()])


def label_words(expression: Expression) -> str:
    """ "zone=a", "zone in (a, b)", "cores > 8", "gpu Exists"."""
    key, operator, values, _ = expression
    shown = listed(map(bare, values), 3)
    if operator == "In":
        return f"{bare(key)}={shown}" if len(values) == 1 else f"{bare(key)} in ({shown})"
    return " ".join([bare(key), {"Gt": ">", "Lt": "<"}.get(operator, operator), *([shown] if values else [])])
