"""What the server has seen before never changes an answer, but for the nodes: one that has seen everything against a fresh one
for each body.
"""

from __future__ import annotations

import random
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.builders import GPU, container, pod
from tests.served import NODES, NOW, PROFILES, Server, plain_pod, review
from webhook.kube.pod import DECISION

RECORDED = [path.read_bytes() for path in sorted(Path(__file__).parent.joinpath("data", "reviews").glob("*/*.json"))]
TOKEN = {"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def replica(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A pod of one template, as the API server sends it: with what differs between replicas."""
    name = f"kube-api-access-{number:05d}"
    mounted = container() | {"volumeMounts": [{"name": name, "mountPath": "/var/run/secrets"}]}
    made = pod(mounted, labels={"app": "web"}, owned_by="ReplicaSet", volumes=[TOKEN | {"name": name}], **changes)
    del made["metadata"]["name"]
    made["metadata"] |= {
        "generateName": "web-",
        "uid": f"uid-{number}",
        "creationTimestamp": f"2026-01-01T00:00:{number:02d}Z",
    }
    return made


def test_a_refusal_of_one_name_is_not_given_to_another() -> None:
    """Seen: a bad name beside a generateName made every later replica refused, and the other way round."""
    conflict = {"name": "main", "image": "a", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "1"}}}
    named, unnamed = (pod(conflict, owned_by="ReplicaSet") for _ in range(2))
    named["metadata"] |= {"name": "Bad_Name", "generateName": "web-"}
    unnamed["metadata"] |= {"generateName": "web-"}
    del unnamed["metadata"]["name"]
    server = Server()
    for obj, called in ((named, 'pod "Bad_Name"'), (unnamed, 'pod generateName "web-"'), (named, 'pod "Bad_Name"')):
        assert server.mutate(obj)["status"]["message"].startswith(called)


def test_the_validating_hook_remembers_nothing() -> None:
    """Seen: a privileged pod with itself as the old object was allowed, and from then on without one."""
    thief = pod(container() | {"securityContext": {"privileged": True}})
    server = Server()
    for extra in ({"oldObject": thief}, {}, {"operation": "UPDATE", "oldObject": thief}, {}, {"oldObject": thief}):
        assert server.validate(thief, **extra)["allowed"] is ("operation" in extra)


def test_replicas_are_placed_each_by_itself() -> None:
    server = Server()
    nodes = [_nodes(server.mutate(replica(number)))[0] for number in range(6)]
    assert len(set(nodes)) == 3, "replicas are kept apart: each sees where the others went"


def test_a_change_of_policy_or_of_what_units_read_is_seen_at_once() -> None:
    server = Server()
    assert _toleration(server.mutate(replica(1)))
    for n in NODES:  # no node has a taint any more
        server.state.node_seen(n | {"spec": {}})
    server.state.priority_classes.gone("gpu-service")
    assert any("does not exist" in text for text in server.mutate(replica(2))["warnings"])
    server.state.namespaces.seen({"metadata": {"name": "default"}})
    assert server.mutate(replica(3))["allowed"], (
        "the API server says that it has opted in: it is judged by the profile `default`"
    )


def _nodes(response: dict[str, Any]) -> list[str]:
    return [entry[0] for entry in orjson.loads(response["auditAnnotations"]["decision"])["nodes"]]


def _toleration(response: dict[str, Any]) -> bool:
    return any("tolerations" in operation["path"] for operation in orjson.loads(b64decode(response["patch"])))


# --- differential: all bodies against one server that has seen all the others -----------------------------------------

MANY = 1_000
ROOMY = [n | {"status": n["status"] | {"allocatable": n["status"]["allocatable"] | {GPU: "1000"}}} for n in NODES]
"""Room for all: where a pod fits does not depend on who came before."""


def _roomy() -> Server:
    made = Server()
    for each in ROOMY:
        made.state.node_seen(each)
    return made


def test_a_server_that_has_seen_all_others_and_a_fresh_one_answer_alike() -> None:
    seen_all = _roomy()
    for hook, body in _bodies(random.Random(13), MANY):
        answers = [_answer(getattr(each.handlers, hook), body) for each in (seen_all, _roomy())]
        assert answers[0] == answers[1], body
        seen_all.state.expire(NOW + 1e6)  # only reservations may make a difference


def _answer(decide: Any, body: bytes) -> Any:
    """Status and answer, without the nodes and their numbers."""
    try:
        status, answer = decide(body)
    except Exception as error:
        return type(error).__name__
    if status != 200:
        return status, answer
    response = orjson.loads(answer)["response"]
    if record := response.get("auditAnnotations", {}).get("decision"):
        response["auditAnnotations"] = _without_nodes(orjson.loads(record))
    if patch := response.get("patch"):
        response["patch"] = _blank(orjson.loads(b64decode(patch)))
    return response


def _without_nodes(record: dict[str, Any]) -> dict[str, Any]:
    return {key: len(value) if key == "nodes" else value for key, value in record.items()}


def _blank(value: Any) -> Any:
    """A patch without the names of nodes; in our record without their numbers too."""
    if isinstance(value, dict):
        return (
            {
                key: _without_nodes(orjson.loads(item)) if key == DECISION else _blank(item)
                for key, item in value.items()
            }
            if value.get("key") != "metadata.name"
            else "a node"
        )
    if isinstance(value, list):
        return [_blank(item) for item in value]
    if isinstance(value, str) and value.startswith('{"policy"'):
        return _without_nodes(orjson.loads(value))
    return value


def _bodies(rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Recorded and built reviews, mutated by structure and by byte; the same one often comes again, changed a little."""
    bases = [orjson.loads(body) for body in RECORDED]
    bases += [orjson.loads(review(obj, namespace=where)) for where in (*PROFILES, "shadow") for obj in _pods()]
    values = _values(bases)
    for _ in range(count):
        changed = orjson.loads(orjson.dumps(rng.choice(bases)))
        for _ in range(rng.randrange(3)):
            _mutate(rng, changed, values)
        body = orjson.dumps(changed)
        if rng.random() < 0.2:
            at = rng.randrange(len(body))
            body = body[:at] + bytes([rng.randrange(256)]) * rng.randrange(2) + body[at + rng.randrange(2) :]
        yield rng.choice(("mutate", "validate")), body


def _pods() -> list[dict[str, Any]]:
    conflict = {"name": "main", "image": "a", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "1"}}}
    return [
        plain_pod(),
        replica(1),
        replica(2),
        pod(conflict, owned_by="Job"),
        pod(container(gpu=None)),
        pod(container() | {"securityContext": {"privileged": True}}),
        pod(container(), volumes=[{"name": "d", "hostPath": {"path": "/dev"}}], hostPID=True),
    ]


def _values(bases: list[Any]) -> list[Any]:
    """All that stands anywhere in the bases, and some that stands nowhere: mutations put one in the place of another."""
    found: list[Any] = [
        None,
        True,
        0,
        -1,
        "",
        "Bad_Name",
        "0",
        "kube-api-access-x7k2p",
        "gpu-a1",
        {},
        [],
        "UPDATE",
        2**63,
    ]

    def walk(value: Any) -> None:
        found.append(value)
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(inner)

    for base in bases[:6]:
        walk(base)
    return found


def _mutate(rng: random.Random, value: Any, values: list[Any]) -> None:
    """One change somewhere below: another value, one less, one twice, or a neighbour's."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.85:
            value = inner
            continue
        match rng.randrange(4):
            case 0:
                value[key] = rng.choice(values)
            case 1:
                del value[key]
            case 2 if isinstance(value, list):
                value.append(inner)
            case 3 if isinstance(value, dict):
                value[rng.choice(keys)] = inner
        return
