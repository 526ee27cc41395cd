"""The match conditions of the webhooks for pods: about which pods the API server asks.

While no replica answers, a pod that it would have asked about is refused. So it asks about pods that ask for devices, and of all
others about those alone in which a rule that denies may find something. The conditions in `manifests/` are those of the shipped
policy. A match condition knows no namespace, so they are those of all profiles together.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from webhook.export.variables import ANNOTATIONS, FOLDERS, MADE, NEW, NOT_A_MIRROR_POD, TOLERATIONS
from webhook.kube.cel import FRACTION, Check, limits, requests
from webhook.kube.yaml import to_yaml
from webhook.policy.model import Policy

MUTATE: Final = "mutate.gpu-admission.io"
VALIDATE: Final = "validate.gpu-admission.io"
OTHERS: Final = "others.validate.gpu-admission.io"
UPDATES: Final = "updates.validate.gpu-admission.io"
NEEDED: Final = "gpu-admission policy export POLICY --conditions"
"""The command that prints the conditions that a policy needs."""
_WIDTH: Final = 118
_DEVICES: Final = f"""has(object.spec.resourceClaims) ||
{FRACTION} ||
({MADE}).exists(c,
  {limits("c")}.exists(k, k.contains("/")) ||
  {requests("c")}.exists(k, k.contains("/")))"""
"""Whether a pod asks for a device. `gpus` of the policy may change at any time, so every extended resource counts: those with a
domain before a slash (cpu, memory, ephemeral-storage and hugepages-* have none)."""
_BRINGS: Final = (
    "object.metadata.?annotations != oldObject.metadata.?annotations ||\n"
    "object.spec.?tolerations != oldObject.spec.?tolerations"
)
_VARIABLES: Final = {
    "all": f"{MADE} + object.spec.?ephemeralContainers.orValue([])",
    "containers": NEW.replace("\n", " "),
    "annotations": ANNOTATIONS,
    "tolerations": TOLERATIONS,
    "hostFolders": FOLDERS,
    "gpuContainers": "[]",
    "asksForGpu": "false",
}
"""What the checks of rules read, in a pod that asks for no device."""
_COMING: Final = {
    "container": "variables.containers.exists(c,",
    "annotation": "variables.annotations.exists(k,",
    "toleration": "variables.tolerations.exists(t,",
    "pod": 'request.operation == "CREATE" && (',
}
"""By what a check is about: in what it looks for it. Only annotations and tolerations are added to a pod that exists."""


def conditions_for(policy: Policy) -> dict[str, list[dict[str, Any]]]:
    """The match conditions by the name of the webhook."""
    checks = list(dict.fromkeys(check for _, check in _denials(policy)))
    added = _found([check for check in checks if check.subject in ("annotation", "toleration")])
    asks = ("asks-for-a-device", _DEVICES)
    return {
        MUTATE: [NOT_A_MIRROR_POD, *_named(asks)],
        VALIDATE: [NOT_A_MIRROR_POD, *_named(asks)],
        OTHERS: [
            NOT_A_MIRROR_POD,
            *_named(("asks-for-no-device", f"!({_DEVICES})"), ("may-break-a-rule", _found(checks))),
        ],
        UPDATES: list(_named(("brings-something", _BRINGS), ("may-break-a-rule", f"{_DEVICES} ||\n{added}"))),
    }


def conditions_yaml(policy: Policy) -> str:
    """A patch of the validating webhook configuration with the conditions for this policy, for `kubectl patch --patch-file`."""
    found = conditions_for(policy)
    hooks = [{"name": name, "matchConditions": found[name]} for name in (OTHERS, UPDATES)]
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return to_yaml({**kind, "metadata": {"name": "gpu-admission"}, "webhooks": hooks})


def lacking(policy: Policy, asked: Policy) -> list[str]:
    """The rules of a policy that look for something, in pods that ask for no device, about which the API server does not ask by
    the conditions of the policy `asked`."""
    known = {check for _, check in _denials(asked)}
    return list(dict.fromkeys(name for name, check in _denials(policy) if check not in known))


def _denials(policy: Policy) -> Iterator[tuple[str, Check]]:
    """What the rules that deny may refuse in pods that ask for no device, by rule, in any profile. Those in dry run count too."""
    for units in policy.units.values():
        for name, rule in units.rules:
            if rule.action == "deny":
                yield from ((name, check) for check in rule.matched(policy.gpus) if not check.only_warn)


def _found(checks: list[Check]) -> str:
    """Whether one of the checks finds something. The variables are those of a map, since a match condition has none."""
    groups = []
    for subject, begins in _COMING.items():
        if bad := [check.bad for check in checks if check.subject == subject]:
            inner = " ||\n".join(wrapped(text, 4) for text in bad)
            groups.append(f"  {begins}\n{inner})")
    body = " ||\n".join(groups) or "  false"
    read = set(re.findall(r"variables\.(\w+)", body))
    variables = ",\n".join(wrapped(f'"{name}": dyn({_VARIABLES[name]})', 2) for name in sorted(read))
    return f"[{{\n{variables}\n}}].exists(variables,\n{body})"


def wrapped(text: str, indent: int) -> str:
    """An expression in lines, broken at spaces that are in no literal."""
    lines = [" " * (indent - 1)]
    for word in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^" ])+', text):
        if len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(" " * (indent + 1))
        lines[-1] += f" {word}"
    return "\n".join(lines)


def _named(*conditions: tuple[str, str]) -> Iterable[dict[str, Any]]:
    return ({"name": name, "expression": expression} for name, expression in conditions)
