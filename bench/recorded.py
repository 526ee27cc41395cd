"""The reviews in tests/data/reviews, and replicas made from them.

`bench.record` has recorded them. What differs between replicas of a workload is changed as the API server does: uids, times, the
volume of the ServiceAccount's token; for the validating hook also the name and what the mutating hook wrote. All else stays,
byte for byte.
"""

from __future__ import annotations

import time
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from webhook.cli.offline import load_policy, load_state
from webhook.kube.json_patch import apply
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "reviews"
NAMESPACE, NAME = "serving", "llama-0000"
"""The namespace, and how the name of each workload begins."""
VERSIONS = sorted(folder.name for folder in FOLDER.iterdir())
CREATORS = ("create", "apply", "replicaset", "job", "statefulset")
"""Who creates the pod: kubectl create, kubectl apply --server-side, or a controller."""
HARMLESS, THEFT = "HUGGINGFACE_HUB_CACHES", "NVIDIA_VISIBLE_DEVICES"
"""Variables of one length: a pod is admitted with the first, and refused with the second."""
_TOKEN = "kube-api-access-"
Object = dict[str, Any]


class Silent:
    """The shipped policy, and nobody who logs or counts."""

    def __init__(self) -> None:
        self.current = load_policy()

    def decided(self, *unused: object) -> None: ...

    def bad_review(self, hook: str, error: Exception) -> None:
        raise error


@cache
def recorded(hook: str, creator: str, version: str = VERSIONS[-1]) -> bytes:
    return (FOLDER / version / f"{creator}-{hook}.json").read_bytes()


def replica(body: bytes, number: int, workload: int) -> bytes:
    """The same review for another replica, of another workload: names and numbers are as long as they were."""
    for before, after in _differences(body, number, workload).items():
        body = body.replace(before.encode(), after.encode())
    return body


def _differences(body: bytes, number: int, workload: int) -> dict[str, str]:
    uid, pod, token, owner = _identity(body)
    at = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    changes = {uid: f"{number:08x}{uid[8:]}", token: f"{_TOKEN}{number:05d}"}
    if owner is not None:
        changes[owner] = f"{workload:08x}{owner[8:]}"
    for field in ("time", "creationTimestamp"):
        changes |= {f'"{field}":"{seen}"': f'"{field}":"{at}"' for seen in _times(body, field)}
    if own := pod.get("uid"):
        changes[own] = f"{number:08x}{own[8:]}"
        if len(pod["name"]) == len(pod.get("generateName") or pod["name"]) + 5:  # others have names of their own
            changes[f'"{pod["name"]}"'] = f'"{pod["generateName"]}{number:05d}"'
    return changes | {NAME: f"llama-{workload:04d}"}  # last: names of pods begin with it


@cache
def _identity(body: bytes) -> tuple[str, Object, str, str | None]:
    """Its uid, the metadata of its pod, the volume of the token, and the uid of the owner."""
    request = orjson.loads(body)["request"]
    metadata, volumes = request["object"]["metadata"], request["object"]["spec"]["volumes"]
    token = next(volume["name"] for volume in volumes if volume["name"].startswith(_TOKEN))
    owners = metadata.get("ownerReferences") or [{"uid": None}]
    return request["uid"], metadata, token, owners[0]["uid"]


@cache
def _times(body: bytes, field: str) -> frozenset[str]:
    metadata = orjson.loads(body)["request"]["object"]["metadata"]
    each = metadata.get("managedFields", ()) if field == "time" else (metadata,)
    return frozenset(entry[field] for entry in each if field in entry)


def with_variable(body: bytes, name: str) -> bytes:
    """The same with one more variable in the first container."""
    review = orjson.loads(body)
    review["request"]["object"]["spec"]["containers"][0]["env"].append({"name": name, "value": "all"})
    return orjson.dumps(review)


def decided(cluster_file: Path, mutate: list[bytes], validate: list[bytes]) -> list[bytes]:
    """What the validating hook is asked of pods of which the mutating hook was asked `mutate`, in this cluster."""
    state, silent = load_state(cluster_file), Silent()
    handlers = Handlers(silent, state, Placer(state), silent, time.monotonic)
    return [with_decision(*pair, handlers.mutate(pair[0])[1]) for pair in zip(mutate, validate, strict=True)]


def with_decision(mutate: bytes, validate: bytes, answer: bytes) -> bytes:
    """The second review, with what the answer to the first one wrote into the pod."""
    pod, review = mutated(mutate, answer), orjson.loads(validate)
    obj = review["request"]["object"]
    obj["metadata"]["annotations"] = pod["metadata"]["annotations"]
    obj["spec"]["affinity"] = pod["spec"]["affinity"]
    return orjson.dumps(review)


def mutated(body: bytes, answer: bytes) -> Object:
    """The pod of a review, with the patch of its answer."""
    patch = orjson.loads(answer)["response"].get("patch")
    obj: Object = orjson.loads(body)["request"]["object"]
    return apply(orjson.loads(b64decode(patch)), obj) if patch else obj


def of_workloads(count: int, workloads: int, hook: str = "mutate", start: int = 0) -> list[bytes]:
    """Replicas of so many Deployments in turns, of both versions."""
    return [
        replica(
            recorded(hook, "replicaset", VERSIONS[(start + number) % workloads % len(VERSIONS)]),
            start + number,
            number % workloads,
        )
        for number in range(count)
    ]


def burst(creator: str, replicas: int, workload: int, hook: str = "mutate") -> list[bytes]:
    """All pods of one workload."""
    return [replica(recorded(hook, creator), number, workload) for number in range(replicas)]


def unlike(count: int, start: int) -> list[bytes]:
    """Pods of which no two are of one workload, from all creators and both versions."""
    kinds = [recorded("mutate", creator, version) for creator in CREATORS for version in VERSIONS]
    return [replica(kinds[number % len(kinds)], number, number % 10_000) for number in range(start, start + count)]
