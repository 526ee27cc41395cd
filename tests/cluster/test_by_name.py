"""The runtime handler of a RuntimeClass."""

from __future__ import annotations

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
