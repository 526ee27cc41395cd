"""What the server has seen before never changes an answer, but for the nodes: one that has seen everything against a fresh one
for each body.
"""

import random
from base64 import b64decode
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU, container
from tests.controlplane.objects import pod
from tests.served import NODES, NOW, PROFILES, Server, review
from tests.strategies import WRONG, damaged, pods
from webhook.kube.pod import DECISION

TOKEN = {"name": "kube-api-access-x7k2p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def replica(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A pod of one template, as the API server sends it: with what differs between replicas."""
    name = f"kube-api-access-{number:05d}"
    mounted = container() | {"volumeMounts": [{"name": name, "mountPath": "/var/run/secrets"}]}
    made = pod(
        containers=[mounted], labels={"app": "web"}, owned_by="ReplicaSet", volumes=[TOKEN | {"name": name}], **changes
    )
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
    named, unnamed = (pod(containers=[conflict], owned_by="ReplicaSet") for _ in range(2))
    named["metadata"] |= {"name": "Bad_Name", "generateName": "web-"}
    unnamed["metadata"] |= {"generateName": "web-"}
    del unnamed["metadata"]["name"]
    server = Server()
    for obj, called in ((named, 'pod "Bad_Name"'), (unnamed, 'pod generateName "web-"'), (named, 'pod "Bad_Name"')):
        assert server.mutate(obj)["status"]["message"].startswith(called)


def test_the_validating_hook_remembers_nothing() -> None:
    """Seen: a privileged pod with itself as the old object was allowed, and from then on without one."""
    thief = pod(containers=[container() | {"securityContext": {"privileged": True}}])
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


# --- differential: one server that has seen all the others, and a fresh one for each body --------------------------------

ROOMY = [n | {"status": n["status"] | {"allocatable": n["status"]["allocatable"] | {GPU: "1000"}}} for n in NODES]
"""Room for all: where a pod fits does not depend on who came before."""
DAMAGE = st.tuples(pods(), st.sampled_from((*PROFILES, "dry-run")), WRONG)


def _roomy() -> Server:
    made = Server()
    for each in ROOMY:
        made.state.node_seen(each)
    return made


@given(st.lists(DAMAGE, min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_a_server_that_has_seen_all_others_and_a_fresh_one_answer_alike(drawn: list[Any], rng: random.Random) -> None:
    """Each pod comes twice, and in between with one wrong value."""
    seen_all = _roomy()
    for obj, namespace, wrong in drawn:
        for each in (obj, damaged(obj, wrong, rng), obj):
            body = review(each, namespace=namespace)
            for hook in ("mutate", "validate"):
                answers = [_answer(getattr(server.handlers, hook), body) for server in (seen_all, _roomy())]
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
