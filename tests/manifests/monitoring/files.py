"""The alerts, the dashboard, and all queries of both."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from tests.manifests.files import MANIFESTS, documents

Json = dict[str, Any]
COMPONENT = MANIFESTS / "components" / "monitoring"
_VARIABLES = {"$__rate_interval": "5m", "$__range": "1h"}


class Query(NamedTuple):
    """One query. `where`: the alert or panel that asks it. `expr`: without the variables of Grafana."""

    where: str
    expr: str


def rules() -> Json:
    """The content of a file of rules, as Prometheus reads it."""
    (found,) = documents(COMPONENT / "rules.yaml")
    spec: Json = found["spec"]
    return spec


def alerts() -> list[Json]:
    return [rule for group in rules()["groups"] for rule in group["rules"]]


def dashboard() -> Json:
    found: Json = orjson.loads((COMPONENT / "dashboard.json").read_bytes())
    return found


def panels() -> list[Json]:
    """Those with queries; rows have none."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> Iterator[Query]:
    for rule in alerts():
        yield Query(rule["alert"], rule["expr"])
    for panel in panels():
        for target in panel["targets"]:
            yield Query(panel["title"], without_variables(target["expr"]))


def without_variables(expr: str) -> str:
    for name, value in _VARIABLES.items():
        expr = expr.replace(name, value)
    return re.sub(r"\$\w+", ".*", expr)
