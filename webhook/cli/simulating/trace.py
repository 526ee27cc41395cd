"""Reads a trace: a CSV file of pods in the order of their creation. Each line is a number of equal pods and what they request."""

import csv
import io
from typing import Any, Final

import orjson

from webhook.cli.manifests import Planned
from webhook.cli.offline import documents
from webhook.cli.terminal import read
from webhook.errors import BadInput, QuantityError
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.quantity import parse_quantity
from webhook.kube.taints import Taint, passes
from webhook.text import listed, number_of, plural, quoted, suggestion

COLUMNS: Final = {
    "gpus": "whole GPUs, 0 if empty",
    "cpu": "a quantity",
    "memory": "a quantity",
    "model": "GPU models, `A|B`",
    "count": "equal pods, 1 if empty",
    "name": "the beginning of the pods' names, trace if empty",
    "namespace": "the namespace of the pods",
    "resource": "the GPU resource, nvidia.com/gpu if empty",
}
"""Column names and what they mean."""
_GPU: Final = "nvidia.com/gpu"


def read_trace(file: str, namespace: str, taints: tuple[Taint, ...]) -> list[Planned]:
    """The pods of a trace. Raises BadInput, which names the line.

    `namespace`: of lines that name none. `taints`: the taints of GPU nodes, which pods with GPUs tolerate.
    """
    tolerated = [taint for taint in taints if not passes(taint)]
    tolerations = [{"key": taint.key, "operator": "Exists"} for taint in tolerated]
    try:
        rows = csv.DictReader(io.StringIO(read(file).decode("utf-8-sig")), strict=True)
        _check_columns(list(rows.fieldnames or ()), file)
        pods = [
            _planned(
                {"namespace": namespace} | {k: v for k, v in row.items() if v},
                tolerations,
                f"{file}: line {rows.line_num}",
            )
            for row in rows
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{file}: not CSV: {error}") from None
    if not pods:
        raise BadInput(f"{file}: no pod in it: wanted CSV with a line for each, columns {', '.join(COLUMNS)}")
    return pods


def _check_columns(names: list[str], file: str) -> None:
    for name in names:
        if name not in COLUMNS:
            hint = suggestion(name, list(COLUMNS), otherwise=f": they are {listed(COLUMNS, 20)}")
            raise BadInput(f"{file}: line 1: no column is called {quoted(name)}{hint}")
    if "gpus" not in names:
        raise BadInput(f"{file}: line 1: saw no column gpus, wanted one: {listed(COLUMNS, 20)}")


def _planned(fields: dict[str, str], tolerations: list[dict[str, str]], where: str) -> Planned:
    if None in fields:  # DictReader keeps there what has no column
        raise BadInput(f"{where}: saw more values than line 1 has columns, wanted one for each")
    resource, gpus = fields.get("resource", _GPU), _count(fields.get("gpus", "0"), "gpus", where)
    amounts: dict[str, str] = {name: fields[name] for name in ("cpu", "memory") if name in fields}
    for name, amount in amounts.items():
        _quantity(amount, name, where)
    amounts |= {resource: str(gpus)} if gpus else {}
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "trace", "resources": {"requests": amounts}}]}
    if gpus:
        spec["containers"][0]["resources"]["limits"] = {resource: str(gpus)}
        spec["tolerations"] = tolerations
    if "model" in fields:
        expression = {"key": MODEL_LABELS[0], "operator": "In", "values": fields["model"].split("|")}
        term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    metadata = {"generateName": f"{fields.get('name', 'trace')}-", "namespace": fields["namespace"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    (document,) = documents(orjson.dumps(pod), where)
    if isinstance(document, BadInput):
        raise document
    return Planned(document, f"trace of {plural(gpus, 'GPU')}", _count(fields.get("count", "1"), "count", where))


def _count(text: str, name: str, where: str) -> int:
    if (number := number_of(text)) is None:
        raise BadInput(f"{where}: {name}: saw {quoted(text)}, wanted a whole number")
    return number


def _quantity(text: str, name: str, where: str) -> None:
    """Raises BadInput if `text` is not a quantity."""
    try:
        good = parse_quantity(text) >= 0
    except QuantityError:
        good = False
    if not good:
        raise BadInput(f"{where}: {name}: saw {quoted(text)}, wanted a quantity, as 500m, 4 or 16Gi")
