"""A workload with GPUs, or with folders of the node, is one that the API server takes: the object around its template.

What is found here the API server would refuse a moment later, between the two hooks: without the label that differs, and
without what is wrong with the pods themselves. It is said here first, all at once. Nothing is refused that it would accept;
where a release or a feature gate decides, this rule is silent. Custom resources are none of its business.

Fields read:   of Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers, Jobs and CronJobs: metadata.name,
               generateName and labels; selector, replicas, parallelism, completions, completionMode, backoffLimit and
               deadlines; schedule of a CronJob; restartPolicy and activeDeadlineSeconds of the template
Refused:       names that are none; values of labels that are none; no selector, or one that does not take the pods of the
               template; a selector for a Job, which makes its own; numbers below zero; Indexed without completions; a
               restartPolicy or deadline that the kind does not have; a schedule that has not five fields
DRA:           a claim counts as a GPU, and so does a volume with hostPath: drivers and device plugins ask for none.

Source: pkg/apis/apps/validation/validation.go, pkg/apis/batch/validation/validation.go (and strategy.go of their registries).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from webhook.facts import Holder
from webhook.interface import Context, Finding, Rule
from webhook.names import LABEL, SUBDOMAIN, VALUE_WORDS, fix_of_value, generates, is_label_value
from webhook.pod import Pod, labels_of, mounts_the_host
from webhook.text import bare, listed, nearest, quoted

_JOBS = ("Job", "CronJob")
_LONGEST_CRON_JOB = 52
_NAMES_ITSELF = frozenset(("job-name", "batch.kubernetes.io/job-name"))
"""Labels that a Job gives its pods by its name: to select by them does no harm."""
_UIDS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NUMBERS = {
    "replicas": "Write 0 to run none",
    "parallelism": "Write 0 to run none",
    "completions": "Write how many pods are to finish",
    "backoffLimit": "Write 0 for no second attempt, or as many as may fail",
    "activeDeadlineSeconds": "Remove the line for no deadline",
    "ttlSecondsAfterFinished": "Remove the line to keep what has finished",
    "minReadySeconds": "Remove the line",
}


class WorkloadForm(Rule):
    """A workload with GPUs has the form that the API server demands: names, labels, selector, counts, restart policy."""

    early: ClassVar[bool] = True

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        holder = context.holder
        if holder is None or not (context.gpu_names or context.has_gpu(pod) or mounts_the_host(pod)):
            return
        if holder.new:
            yield from _name(holder)
            labels = _map(_map(holder.object.get("metadata")).get("labels"))
            for key, value in labels.items():  # those of the template are for another rule, which has pods too
                if isinstance(value, str) and not is_label_value(value):
                    yield Finding(f".metadata.labels[{bare(key)}]", quoted(value), VALUE_WORDS, fix_of_value(value))
        if holder.kind in _JOBS:
            yield from _job(holder)
        else:
            yield from _selector(holder, labels_of(pod))
        for name, fix in _NUMBERS.items():
            if (number := _whole(holder.spec.get(name))) is not None and number < 0:
                yield Finding(f".{holder.field}{name}", f"{name} {quoted(number)}", "0 or more", fix)
        yield from _restart(holder.kind, pod["spec"])


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _name(holder: Holder) -> Iterator[Finding]:
    metadata, what = _map(holder.object.get("metadata")), f"{holder.kind} name"
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if not isinstance(name, str) or not name:
        if isinstance(prefix, str) and prefix and not generates(prefix):
            fix = SUBDOMAIN.fix(prefix, "-" if prefix.endswith("-") else "")
            yield Finding(".metadata.generateName", f"{what} {quoted(prefix)}", SUBDOMAIN.words, fix)
    elif not SUBDOMAIN.holds(name):
        yield Finding(".metadata.name", f"{what} {quoted(name)}", SUBDOMAIN.words, SUBDOMAIN.fix(name))
    elif holder.kind == "CronJob" and len(name) > _LONGEST_CRON_JOB:
        seen, wanted = f"{what} of {len(name)} characters", f"at most {_LONGEST_CRON_JOB}: its Jobs are called after it"
        yield Finding(".metadata.name", seen, wanted, f"Rename it, as {name[:_LONGEST_CRON_JOB].rstrip('-.')}")
    elif holder.kind == "Job" and holder.spec.get("completionMode") == "Indexed":
        last = (_whole(holder.spec.get("completions")) or 0) - 1
        if last >= 0 and not LABEL.holds(f"{name}-{last}"):
            wanted = f"{LABEL.words} with -{last} after it: the host name of its last pod"
            fix = LABEL.fix(name[: LABEL.longest - len(f"-{last}")])
            yield Finding(".metadata.name", f"{what} {quoted(name)} of an Indexed Job", wanted, fix)


# --- selectors --------------------------------------------------------------------------------------------------------


def _selector(holder: Holder, labels: Mapping[str, str]) -> Iterator[Finding]:
    given, path = holder.spec.get("selector"), f".{holder.field}selector"
    old_form = holder.kind == "ReplicationController"  # a plain map, and by itself that of the template's labels
    if not given:
        if not old_form:
            own = f"{bare(key)}: {bare(labels[key])}" if (key := next(iter(sorted(labels)), None)) else "app: main"
            fix = f"Write selector.matchLabels with {own}{'' if labels else ', and the same under labels of the template'}"
            yield Finding(path, f"a {holder.kind} without selector", "the labels by which it knows its own pods", fix)
        return
    selector = _map(given)
    wanted = selector if old_form else _map(selector.get("matchLabels"))
    for key, value in sorted(wanted.items()):
        if isinstance(value, str) and (seen := labels.get(key)) != value:
            yield _differs(holder, key, value, seen)
    expressions = selector.get("matchExpressions")
    for index, each in enumerate(expressions if isinstance(expressions, list) and not old_form else ()):
        if not _takes(expression := _map(each), labels):
            key, values = str(expression.get("key")), listed(map(quoted, expression["values"]))
            mine = f"has {quoted(labels[key])}" if key in labels else "has no such label"
            seen = f"{bare(key)} {bare(expression['operator'])} {values}, while the template {mine}"
            fix = "Change the labels of the template, or the expression"
            yield Finding(f"{path}.matchExpressions[{index}]", seen, "a selector that takes the template's pods", fix)


def _differs(holder: Holder, key: str, value: str, seen: str | None) -> Finding:
    said = f"{holder.field}selector"
    fix = f"Write {bare(key)}: {bare(value)} there{'' if holder.new else ': a selector cannot be changed any more'}"
    return Finding(
        path=f"metadata.labels[{bare(key)}]",
        seen="no such label in the template" if seen is None else quoted(seen),
        wanted=f"{quoted(value)}, by which {said} looks for the pods",
        fix=f"{fix}, or change {said}" if holder.new else fix,
    )


def _takes(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Of an expression whose form is wrong the API server says so."""
    key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values") or []
    if not isinstance(key, str) or not isinstance(values, list) or operator not in ("In", "NotIn"):
        return True
    return (labels.get(key) in values) == (operator == "In") or not values


# --- Jobs, and what ends ----------------------------------------------------------------------------------------------


def _job(holder: Holder) -> Iterator[Finding]:
    spec, path = holder.spec, f".{holder.field}"
    if holder.kind == "CronJob":
        schedule = _map(holder.object.get("spec")).get("schedule") or ""
        if isinstance(schedule, str) and not schedule.startswith("@") and "TZ" not in schedule:
            fields, wanted = len(schedule.split()), "five fields: minute, hour, day, month, day of the week"
            fix = "Remove the one of the seconds" if fields == 6 else "Write it as 0 3 * * *, which is 3 in the morning"
            if fields != 5:
                seen = f"{quoted(schedule)}, which has {fields}" if schedule else "no schedule"
                yield Finding(".spec.schedule", seen, wanted, fix)
    elif holder.new and not spec.get("manualSelector"):
        others = sorted(_map(_map(spec.get("selector")).get("matchLabels")).keys() - _NAMES_ITSELF)
        if others:
            seen = f"a selector of {listed(map(bare, others))}"
            fix = "Remove it, and the labels controller-uid of its pods: they name another Job"
            fix = fix if any(key in _UIDS for key in others) else "Remove it"
            yield Finding(f"{path}selector", seen, "none: a Job gets one of its own", fix)
    parallel = _whole(spec.get("parallelism"))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None and parallel is not None:
        fix = f"Write completions: {max(parallel, 1)}, or as many indexes as there are"
        yield Finding(f"{path}completions", "completionMode Indexed without completions", "the number of indexes", fix)


def _restart(kind: str, spec: Mapping[str, Any]) -> Iterator[Finding]:
    policy = spec.get("restartPolicy") or "Always"
    if kind in _JOBS:
        if policy not in ("Never", "OnFailure"):
            fix = (
                nearest(policy.capitalize(), ("Never", "OnFailure"))
                or "Never, so that each attempt is a pod of its own"
            )
            seen = "Always, which is also what no restartPolicy means" if policy == "Always" else quoted(policy)
            wanted = "Never or OnFailure: the pods of a Job end"
            yield Finding("spec.restartPolicy", seen, wanted, f"Write restartPolicy: {fix}")
        return
    if policy != "Always":
        wanted, fix = f"Always: a {kind} keeps its pods running", "Remove the line; for work that ends, use a Job"
        yield Finding("spec.restartPolicy", quoted(policy), wanted, fix)
    if (seconds := spec.get("activeDeadlineSeconds")) is not None:
        wanted, fix = f"no deadline: a {kind} keeps its pods running", "Remove it; for work that ends, use a Job"
        yield Finding("spec.activeDeadlineSeconds", quoted(seconds), wanted, fix)
