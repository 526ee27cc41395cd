"""The runtime handler of a RuntimeClass, and the access modes of a PersistentVolumeClaim."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import state


def test_the_handler_of_a_runtime_class_is_known_until_the_class_is_deleted() -> None:
    of = state([])
    of.replace("runtimeclasses", [{"metadata": {"name": "fast"}, "handler": "nvidia"}], 0)
    seen = of.view(0)
    assert (seen.runtime_handler("fast"), seen.runtime_handler("slow")) == ("nvidia", None)
    of.runtime_classes.seen({"metadata": {"name": "fast"}, "handler": "nvidia"})
    of.runtime_classes.seen({"metadata": {"name": "fast"}, "handler": "runc"})
    assert of.view(0).runtime_handler("fast") == "runc"
    of.runtime_classes.gone("fast")
    of.runtime_classes.gone("never seen")
    assert of.view(0).runtime_handler("fast") is None


def claim(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "data", "namespace": "team-a"}, "spec": spec, "status": status or {}}


ONCE, POD, MANY, READ = "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"
ACCESS: dict[str, tuple[dict[str, Any], str]] = {
    "none stated": (claim({}), ""),
    "many nodes": (claim({"accessModes": [MANY]}), ""),
    "one node to write, many to read": (claim({"accessModes": [ONCE, READ]}), ""),
    "its volume can do more": (claim({"accessModes": [ONCE]}, {"accessModes": [ONCE, MANY]}), ""),
    "one node": (claim({"accessModes": [ONCE]}), ONCE),
    "one pod": (claim({"accessModes": [POD]}), POD),
    "one node, bound to a volume for one node": (claim({"accessModes": [MANY]}, {"accessModes": [ONCE]}), ONCE),
}


@pytest.mark.parametrize(("obj", "wanted"), ACCESS.values(), ids=ACCESS)
def test_whether_several_nodes_can_use_a_claim(obj: dict[str, Any], wanted: str) -> None:
    of = state([])
    of.seen("persistentvolumeclaims", obj, 0)
    assert of.view(0).narrow_access("team-a", "data") == wanted
    assert of.view(0).narrow_access("team-b", "data") == ""
