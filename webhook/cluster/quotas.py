"""ResourceQuotas that count pods by their PriorityClass. Of each, its namespace, name and scopes are kept.

Follows pkg/quota/v1/evaluator/core/pods.go (podMatchesScopeFunc, podMatchesSelector): a pod without a PriorityClass is outside
of `In` and `Exists`, and within `NotIn` and `DoesNotExist`. What a quota counts besides, and how much, does not matter here.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from webhook.cluster.grouped import Grouped, full_name

_SCOPE: Final = "PriorityClass"
_MAX_QUOTAS: Final = 100
"""Maximum number of quotas of one namespace that are searched. Tenants may be allowed to create them."""


class _Scope(NamedTuple):
    operator: str
    values: frozenset[str]

    def covers(self, priority_class: str) -> bool:
        match self.operator:
            case "Exists":
                return priority_class != ""
            case "DoesNotExist":
                return priority_class == ""
            case "In":
                return priority_class in self.values
        return priority_class not in self.values


class Quotas(Grouped[str, str, tuple[_Scope, ...]]):
    """The scopes by namespace and name, and by namespace."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A quota was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        spec = obj.get("spec") or {}
        expressions = [*((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]
        expressions += [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
        scopes = [
            _Scope(str(each["operator"]), frozenset(map(str, each.get("values") or ())))
            for each in expressions
            if each["scopeName"] == _SCOPE
        ]
        if scopes:
            self.put(full_name(obj), obj["metadata"]["namespace"], tuple(scopes))
        else:
            self.gone(full_name(obj))

    def covering(self, namespace: str, priority_class: str, *, but: str) -> str:
        """The name of a quota of the namespace that counts pods of one PriorityClass and none of another (`but`); "" is a pod
        without one. "" if there is no such quota."""
        for name, scopes in islice(self.groups.get(namespace, {}).items(), _MAX_QUOTAS):
            one, other = (all([scope.covers(each) for scope in scopes]) for each in (priority_class, but))
            if one and not other:
                return name.partition("/")[2]
        return ""
