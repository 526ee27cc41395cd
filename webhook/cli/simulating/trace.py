"""Reads a trace: a CSV file of pods in the order of their creation. Each line is a number of equal pods and what they request."""

import csv
import io
from collections.abc import Iterator
from typing import Any, Final

import orjson

from webhook.cli.manifests import Planned
from webhook.cli.offline import documents
from webhook.cli.terminal import read
from webhook.errors import BadInput, QuantityError
from webhook.framework.cluster_view import Taint
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.quantity import whole
from webhook.placement.filters import PASSING
from webhook.text import listed, nearest, plural, quoted

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
_OPENB: Final = {"num_gpu": "gpus", "cpu_milli": "cpu", "memory_mib": "memory", "gpu_spec": "model"}
"""Column names of the Alibaba GPU trace 2023 (github.com/alibaba/clusterdata), and ours for the same."""
_UNITS: Final = {"cpu_milli": "m", "memory_mib": "Mi"}
"""Suffixes that make quantities of that trace's numbers, which are thousandths of a core and MiB."""
_SHARED: Final = "gpu_milli"
"""That trace's column for thousandths of a GPU."""
_IGNORED: Final = (_SHARED, "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
_GPU: Final = "nvidia.com/gpu"


class Trace:
    """Reads the pods of a trace. Raises BadInput, which names the line.

    `namespace`: of lines that name none. `taints`: the taints of GPU nodes, which pods with GPUs tolerate.
    """

    def __init__(self, file: str, namespace: str, taints: tuple[Taint, ...]) -> None:
        self.file, self.namespace = file, namespace
        self.left_out = 0
        """Number of lines left out because they request a part of a GPU, for which there is no resource."""
        tolerated = [taint for taint in taints if not taint.key.startswith(PASSING)]
        self._tolerations = [{"key": taint.key, "operator": "Exists"} for taint in tolerated]
        self.pods = list(self._pods())
        if not self.pods:
            raise BadInput(f"{file}: no pod in it: wanted CSV with a line for each, columns {', '.join(COLUMNS)}")

    def _pods(self) -> Iterator[Planned]:
        try:
            rows = csv.DictReader(io.StringIO(read(self.file).decode("utf-8-sig")), strict=True)
            self._columns(list(rows.fieldnames or ()))
            for row in rows:
                where = f"{self.file}: line {rows.line_num}"
                fields = {_OPENB.get(k, k): _value(k, v) for k, v in row.items() if k not in _IGNORED}
                if row.get(_SHARED) not in (None, "", "0", "1000") and fields.get("gpus") not in ("", "0", None):
                    self.left_out += 1
                    continue
                yield self._planned(fields, where)
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadInput(f"{self.file}: not CSV: {error}") from None

    def _columns(self, names: list[str]) -> None:
        for name in names:
            if name not in COLUMNS and name not in _OPENB and name not in _IGNORED:
                near = nearest(name, [*COLUMNS, *_OPENB])
                hint = f"; did you mean {near}?" if near else f": they are {listed(COLUMNS, 20)}"
                raise BadInput(f"{self.file}: line 1: no column is called {quoted(name)}{hint}")
        if not {"gpus", "num_gpu"} & set(names):
            raise BadInput(f"{self.file}: line 1: saw no column gpus, wanted one: {listed(COLUMNS, 20)}")

    def _planned(self, fields: dict[str, str], where: str) -> Planned:
        resource, gpus = fields.get("resource") or _GPU, _count(fields.get("gpus") or "0", "gpus", where)
        amounts = {name: fields[name] for name in ("cpu", "memory") if fields.get(name)}
        for name, amount in amounts.items():
            _quantity(amount, name, where)
        amounts |= {resource: str(gpus)} if gpus else {}
        spec: dict[str, Any] = {"containers": [{"name": "main", "image": "trace", "resources": {"requests": amounts}}]}
        if gpus:
            spec["containers"][0]["resources"]["limits"] = {resource: str(gpus)}
            spec["tolerations"] = self._tolerations
        if fields.get("model"):
            expression = {"key": MODEL_LABELS[0], "operator": "In", "values": fields["model"].split("|")}
            term = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
        namespace = fields.get("namespace") or self.namespace
        metadata = {"generateName": f"{fields.get('name') or 'trace'}-", "namespace": namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        (document,) = documents(orjson.dumps(pod), where)
        if isinstance(document, BadInput):
            raise document
        return Planned(document, f"trace of {plural(gpus, 'GPU')}", _count(fields.get("count") or "1", "count", where))


def _value(key: str, value: Any) -> str:
    """The value of a column, with a unit where the column needs one."""
    return f"{value}{_UNITS.get(key, '')}" if isinstance(value, str) and value else ""


def _count(text: str, name: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise BadInput(f"{where}: {name}: saw {quoted(text)}, wanted a whole number")
    return int(text)


def _quantity(text: str, name: str, where: str) -> None:
    """Raises BadInput if `text` is not a quantity."""
    try:
        whole(text)
    except QuantityError:
        raise BadInput(f"{where}: {name}: saw {quoted(text)}, wanted a quantity, as 500m, 4 or 16Gi") from None
