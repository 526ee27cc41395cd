"""Finds the PriorityClasses that pods do not get by a guess, and the ResourceQuotas that they leave by a label."""

from collections.abc import Iterator, Mapping

from webhook.cli.checks.result import All, opted_in, warn
from webhook.framework.cluster_view import PriorityClass
from webhook.injectors.priority_class import PriorityClassName, loss, unchosen
from webhook.kube.pod import PROFILE_LABEL
from webhook.policy.model import Policy
from webhook.state.objects import Quotas, priority_class
from webhook.text import bare, listed
from webhook.whatif.cluster.snapshot import Snapshot

_Given = Mapping[str, bool]
"""PriorityClasses that an injector gives; whether by a guess."""


def guessed_classes(snapshot: Snapshot, policy: Policy) -> All:
    """A class of workload that no label asks for gives pods its PriorityClass, since they can do as much with it as without."""
    known = {name: priority_class(each) for (_, name), each in snapshot.named("PriorityClass").items()}
    without, quotas = unchosen(known.values()), Quotas()
    for quota in snapshot.of("ResourceQuota"):
        quotas.seen(quota)
    lost, texts = dict[str, str](), list[str]()
    for namespace, labels in sorted(opted_in(snapshot).items()):
        _, settings = policy.profile(labels[PROFILE_LABEL])
        injector = settings.injectors.priority_class
        if settings.dry_run or not injector.enabled or (without.name and not injector.override_global_default):
            continue
        given = _given(policy, injector)
        lost |= _lost(given, known, without)
        texts += _moved(namespace, given, lost, without, quotas)
    for why in reversed(dict.fromkeys(lost.values())):
        names = listed([bare(name) for name in lost if lost[name] == why], 10)
        texts.insert(0, f"pods without a label for their class do not get {names}: {why}")
    step = 'if that is meant, set the class to "" in priorityClass.classes'
    return [
        warn(text, step, snapshot.release.edit_policy) for text in texts
    ] or "pods can do as much with those that are guessed as without"


def _given(policy: Policy, injector: PriorityClassName) -> dict[str, bool]:
    given: dict[str, bool] = {}
    for rule in policy.file.classes:
        if name := injector.classes.get(rule.name):
            given[name] = given.get(name, False) or (not rule.labels and "*" in rule.namespaces)
    return given


def _lost(given: _Given, known: Mapping[str, PriorityClass], without: PriorityClass) -> Iterator[tuple[str, str]]:
    """The PriorityClasses that no pod gets by a guess, and why."""
    for name, guessed in given.items():
        if guessed and name in known and name != without.name and (less := loss(known[name], without, known.values())):
            yield name, less[1]


def _moved(
    namespace: str, given: _Given, lost: Mapping[str, str], without: PriorityClass, quotas: Quotas
) -> Iterator[str]:
    """What a quota of the namespace means for these PriorityClasses, in words."""
    otherwise: dict[str, list[str]] = {}
    for name in given:
        into = quotas.covering(namespace, name, but=without.name)
        out_of = quotas.covering(namespace, without.name, but=name)
        if given[name] and name not in lost and (into or out_of):
            quota = into or out_of
            text = f"ResourceQuota {bare(quota)} counts pods by it, so pods without a label for their class do not get"
            otherwise.setdefault(text, []).append(bare(name))
        if out_of:
            text = f"pods with a label for their class leave ResourceQuota {bare(out_of)}, as they get"
            otherwise.setdefault(text, []).append(bare(name))
    for text, names in otherwise.items():
        yield f"namespace {namespace}: {text} {listed(names, 10)}"
