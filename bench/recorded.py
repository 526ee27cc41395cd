"""The reviews that `bench.record` recorded in tests/data/reviews, and reviews of other replicas made from them.

A replica differs from the recorded pod as replicas do on a real API server: in uids, times, and the name of the volume with the
ServiceAccount's token; for the validating hook also in its name and in what the mutating hook wrote. Everything else stays the
same, byte for byte.
"""

import time
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch
import orjson

from webhook.feeds.file import fill
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.whatif.offline import load_policy, new_state

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "reviews"
NAMESPACE, NAME = "serving", "llama-0000"
"""The namespace, and how the name of each workload begins."""
VERSIONS = sorted(folder.name for folder in FOLDER.iterdir())
CREATORS = ("create", "apply", "replicaset", "job", "statefulset")
"""How the pod is created: kubectl create, kubectl apply --server-side, or by a controller."""
HARMLESS, THEFT = "HUGGINGFACE_HUB_CACHES", "NVIDIA_VISIBLE_DEVICES"
"""Environment variables with names of equal length. A pod with the first is admitted, one with the second is refused."""
_TOKEN = "kube-api-access-"
Object = dict[str, Any]


class Silent:
    """The shipped policy, and a recorder of decisions that does nothing."""

    def __init__(self) -> None:
        self.current = load_policy()

    def decided(self, *unused: object) -> None: ...

    def bad_review(self, hook: str, error: Exception) -> None:
        raise error


@cache  # each file is read once
def recorded(hook: str, creator: str, version: str = VERSIONS[-1]) -> bytes:
    return (FOLDER / version / f"{creator}-{hook}.json").read_bytes()


def replica(body: bytes, number: int, workload: int) -> bytes:
    """The same review for replica `number` of another workload. Its length stays the same."""
    for before, after in _differences(body, number, workload).items():
        body = body.replace(before.encode(), after.encode())
    return body


def _differences(body: bytes, number: int, workload: int) -> dict[str, str]:
    """The texts to replace in a review, and their replacements."""
    uid, pod, token, owner = _identity(body)
    at = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    changes = {uid: f"{number:08x}{uid[8:]}", token: f"{_TOKEN}{number:05d}"}
    if owner is not None:
        changes[owner] = f"{workload:08x}{owner[8:]}"
    for field in ("time", "creationTimestamp"):
        changes |= {f'"{field}":"{seen}"': f'"{field}":"{at}"' for seen in _times(body, field)}
    if own := pod.get("uid"):
        changes[own] = f"{number:08x}{own[8:]}"
        if len(pod["name"]) == len(pod.get("generateName") or pod["name"]) + 5:  # a generated name
            changes[f'"{pod["name"]}"'] = f'"{pod["generateName"]}{number:05d}"'
    return changes | {NAME: f"llama-{workload:04d}"}  # replaced last, because names of pods begin with it


@cache
def _identity(body: bytes) -> tuple[str, Object, str, str | None]:
    """The uid of the review, the metadata of its pod, the name of the token's volume, and the uid of the pod's owner."""
    request = orjson.loads(body)["request"]
    metadata, volumes = request["object"]["metadata"], request["object"]["spec"]["volumes"]
    token = next(volume["name"] for volume in volumes if volume["name"].startswith(_TOKEN))
    owners = metadata.get("ownerReferences") or [{"uid": None}]
    return request["uid"], metadata, token, owners[0]["uid"]


@cache
def _times(body: bytes, field: str) -> frozenset[str]:
    """The values of a field with a timestamp."""
    metadata = orjson.loads(body)["request"]["object"]["metadata"]
    each = metadata.get("managedFields", ()) if field == "time" else (metadata,)
    return frozenset(entry[field] for entry in each if field in entry)


def with_variable(body: bytes, name: str) -> bytes:
    """The same review with one more environment variable in the first container."""
    review = orjson.loads(body)
    review["request"]["object"]["spec"]["containers"][0]["env"].append({"name": name, "value": "all"})
    return orjson.dumps(review)


def decided(cluster_file: Path, mutate: list[bytes], validate: list[bytes]) -> list[bytes]:
    """The reviews `validate` with what the mutating hook writes into the pods of the reviews `mutate` in this cluster."""
    state, silent = new_state(), Silent()
    fill(state, cluster_file, 0.0)
    handlers = Handlers(silent, state, Placer(state), silent, time.monotonic)
    return [with_decision(*pair, handlers.mutate(pair[0])[1]) for pair in zip(mutate, validate, strict=True)]


def with_decision(mutate: bytes, validate: bytes, answer: bytes) -> bytes:
    """The review for the validating hook with the annotations and the affinity that the mutating hook's answer gives the pod."""
    pod, review = mutated(mutate, answer), orjson.loads(validate)
    obj = review["request"]["object"]
    obj["metadata"]["annotations"] = pod["metadata"]["annotations"]
    obj["spec"]["affinity"] = pod["spec"]["affinity"]
    return orjson.dumps(review)


def mutated(body: bytes, answer: bytes) -> Object:
    """The pod of a review with the patch of the answer applied."""
    patch = orjson.loads(answer)["response"].get("patch")
    obj: Object = orjson.loads(body)["request"]["object"]
    return jsonpatch.apply_patch(obj, orjson.loads(b64decode(patch))) if patch else obj


def of_workloads(count: int, workloads: int, hook: str = "mutate", start: int = 0) -> list[bytes]:
    """`count` replicas of `workloads` Deployments by turns, recorded from both versions of Kubernetes."""
    bodies = [recorded(hook, "replicaset", version) for version in VERSIONS]
    return [
        replica(bodies[(start + number) % workloads % len(VERSIONS)], start + number, number % workloads)
        for number in range(count)
    ]


def burst(creator: str, replicas: int, workload: int, hook: str = "mutate") -> list[bytes]:
    """The reviews of all pods of one workload."""
    return [replica(recorded(hook, creator), number, workload) for number in range(replicas)]


def unlike(count: int, start: int) -> list[bytes]:
    """Pods of different workloads, from all creators and both versions."""
    kinds = [recorded("mutate", creator, version) for creator in CREATORS for version in VERSIONS]
    return [replica(kinds[number % len(kinds)], number, number % 10_000) for number in range(start, start + count)]
