"""Pods one of whose values is long, or odd."""

from functools import partial
from typing import Any

import orjson

from bench.bodies.parts import (
    GPU,
    PREFERRED,
    Json,
    add,
    add_pod,
    affinity,
    container,
    pod,
    review,
)


def _asking(quantity: Any) -> Json:
    return pod([container(resources={"limits": {GPU: quantity, "cpu": quantity}})])


def _deep(levels: int, start: bytes = b'{"a":', end: bytes = b"}") -> bytes:
    return review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', start * levels + b"1" + end * levels)


add_pod("a quantity of 100,000 digits", lambda: _asking("9" * 100_000))
add_pod("a quantity of 10^999999999", lambda: _asking("1e999999999"))
add("a number of 100,000 digits", lambda: review(_asking("HERE")).replace(b'"HERE"', b"9" * 100_000))
add("a number of 3,000,000 digits", lambda: review(_asking("HERE")).replace(b'"HERE"', b"0." + b"9" * 3_000_000))
add("nested 1,000 levels deep", partial(_deep, 1_000))
add("nested 2,000,000 levels deep", partial(_deep, 2_000_000, b"[", b"]"))
add(
    "a million equal keys",
    lambda: review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', b"{" + b'"a":1,' * 1_000_000 + b'"a":1}'),
)
add(
    "1,100,000 nested maps in a field that nobody reads",
    lambda: review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', b"[" + b'{"":0},' * 1_100_000 + b"{}]"),
)
add(
    "300,000 nested maps in a field that nobody reads",
    lambda: review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', b"[" + b'{"":0},' * 300_000 + b"{}]"),
)
add(
    "480,000 nested maps and 900,000 words in a field that nobody reads",
    lambda: review(pod(metadata={"x": "HERE"})).replace(
        b'"HERE"', b"[" + b'{"":0},' * 480_000 + b'"ab",' * 900_000 + b"{}]"
    ),
)
add_pod("700,000 keys in a field that nobody reads", lambda: pod(metadata={"x": {f"{n:x}": 1 for n in range(700_000)}}))
add_pod("2,700,000 lists in a field that nobody reads", lambda: pod(metadata={"x": [[]] * 2_700_000}))
add_pod("1,600,000 short words in a field that nobody reads", lambda: pod(metadata={"x": ["ab"] * 1_600_000}))
add_pod("8 MB of emoji", lambda: pod(metadata={"annotations": {"a": "😀" * 2_000_000}}))
add_pod("a name of 3 MB", lambda: pod(metadata={"name": "A" * 3_000_000}))
add_pod("a generateName of 3 MB", lambda: pod(metadata={"name": "", "generateName": "A-" * 1_500_000}))
add_pod("a namespace of 3 MB", lambda: pod(metadata={"namespace": "A" * 3_000_000}))
add("a namespace of 3 MB in the request", lambda: review(pod(), namespace="a" * 3_000_000))
add("a user of 3 MB", lambda: review(pod(), userInfo={"username": "a" * 3_000_000}))
add("500,000 groups", lambda: review(pod(), userInfo={"username": "a", "groups": [f"g{n}" for n in range(500_000)]}))
add_pod("a host path of 3 MB", lambda: pod(volumes=[{"name": "a", "hostPath": {"path": "/a/.." * 500_000}}]))
add_pod(
    "1,000 mounts with paths of 3 kB",
    lambda: pod(
        [container(volumeMounts=[{"name": "a", "mountPath": "/nvidia-container-devices" + "/a/.." * 500}] * 1_000)]
    ),
)
add_pod("our record, 2 MB of it", lambda: pod(metadata={"annotations": {"gpu-admission.io/decision": "[" * 2_000_000}}))
add_pod(
    "our record with 300 nodes, and 600 terms that name them",
    lambda: pod(
        metadata={
            "annotations": {
                "gpu-admission.io/decision": orjson.dumps(
                    {"nodes": [[f"gpu-{n:05d}", 1, 1, 1] for n in range(300)]}
                ).decode()
            }
        },
        affinity=affinity(
            [
                {
                    "weight": 1,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                }
            ]
            * 600,
            when=PREFERRED,
        ),
    ),
)
add_pod(
    "wishes for 1,000 nodes",
    lambda: pod(metadata={"annotations": {"gpu-admission.io/preferred-nodes": ",".join(map(str, range(1_000)))}}),
)
add_pod("an image of 3 MB", lambda: pod([container(image="a" * 3_000_000)]))
add_pod("a priority class of 3 MB", lambda: pod(priorityClassName="a" * 3_000_000))
add("8 MB that are not JSON", lambda: b"[" + b"1," * 4_000_000)
add("8 MB of spaces", lambda: b" " * 8_000_000)
