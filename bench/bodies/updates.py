"""Updates: the old object is as large as the new one."""

from collections.abc import Callable

from bench.bodies.parts import (
    Json,
    add,
    add_update,
    container,
    everything,
    mounts,
    pod,
    resources,
    review,
)


def _changed(make: Callable[[], Json], word: str) -> Json:
    body = make()
    body["metadata"]["annotations"] = {"a": word}
    return body


add_update(
    "UPDATE: 1,000 volumes, 2,000 unknown mounts", lambda word: _changed(lambda: mounts(1_000, 2_000, word), word)
)
add_update("UPDATE: 1,000 volumes, 500 unknown mounts", lambda word: _changed(lambda: mounts(1_000, 500), word))
add_update("UPDATE: 30,000 containers", lambda word: _changed(lambda: pod([container()] * 30_000), word))
add_update(
    "UPDATE: the finalizers of 30,000 containers", lambda word: pod([container()] * 30_000, {"finalizers": [word]})
)
add_update(
    "UPDATE: 1,000 slices",
    lambda word: _changed(
        lambda: pod([container(resources=resources([f"nvidia.com/mig-{word}{n}" for n in range(1_000)]))]), word
    ),
)
add(
    "UPDATE: what was large is small",
    lambda: review(pod(metadata={"labels": {"a": "b"}}), oldObject=mounts(20_000, 20_000)),
    "validate",
)
add_update("UPDATE: everything at its bound", lambda word: _changed(everything, word))
add_update(
    "UPDATE: 30,000 ephemeral containers",
    lambda word: pod(ephemeralContainers=[container(name=word)] * 30_000),
    subResource="ephemeralcontainers",
)
