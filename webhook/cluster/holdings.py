"""What bound pods have of extended resources, such as GPUs: by namespace, resource and node."""

from collections.abc import Mapping
from typing import Final

from webhook.cluster.usage import PodKind


class Holdings:
    """Amounts above zero, by namespace and resource, then by row of the node table. Pods that only reserve GPUs for others have
    none: their kind is nobody's."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str], dict[int, int]] = {}
        self.amounts: Final[Mapping[tuple[str, str], Mapping[int, int]]] = self._amounts

    def add(self, row: int, kind: PodKind) -> None:
        """A pod of this kind is bound to the node of this row."""
        for resource, amount in kind.gpus if kind.namespace else ():
            by_row = self._amounts.setdefault((kind.namespace, resource), {})
            by_row[row] = by_row.get(row, 0) + amount

    def remove(self, row: int, kind: PodKind) -> None:
        """Such a pod is gone."""
        for resource, amount in kind.gpus if kind.namespace else ():
            by_row = self._amounts[kind.namespace, resource]
            by_row[row] -= amount
            if not by_row[row]:
                del by_row[row]
                if not by_row:
                    del self._amounts[kind.namespace, resource]
