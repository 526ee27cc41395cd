"""What was decided for one pod is told again for its likes, and for nobody else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU, container
from tests.cluster.objects import facts, node
from tests.served import GPU_TAINT, NODES, NOW, POLICY, PROFILES, Server, after, cluster, plain_pod, review
from tests.strategies import pods
from webhook import admission, form
from webhook.alike import _Memory
from webhook.cluster.snapshot import Snapshot
from webhook.cluster.state import ClusterState
from webhook.decision import Decision
from webhook.facts import Ranked
from webhook.placement import Placer
from webhook.plan import _MOST, Plan, _slot
from webhook.pod import DECISION, Pod
from webhook.policy import Policy
from webhook.review import Request

DATA = Path(__file__).parent / "data"
MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def replica(letters: str = "abcde", name: str | None = None, **tweaks: Any) -> Pod:
    """A pod of a ReplicaSet, as the API server hands it over: with the volume of its token. `name`: validated, not mutated."""
    made = plain_pod(**tweaks)
    managed = {"manager": "x", "time": f"2026-01-01T00:00:{ord(letters[0]) % 60:02d}Z", "fieldsType": "FieldsV1"}
    made["metadata"] |= {"generateName": "web-", "managedFields": [managed]}
    del made["metadata"]["name"]
    if name is not None:
        made["metadata"] |= {"name": f"web-{name}", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    volume = f"kube-api-access-{letters}"
    made["spec"]["volumes"] = [{"name": volume, "projected": {"sources": []}}]
    for one in made["spec"]["containers"]:
        one["volumeMounts"] = [{"name": volume, "mountPath": MOUNT}]
    return made


def completed(obj: Pod, letters: str) -> Pod:
    """The pod as the API server completes it between the hooks, with its fields in the order of ObjectMeta."""
    metadata = obj["metadata"]
    own = {"name": f"{metadata['generateName']}{letters}", "generateName": metadata["generateName"]}
    own |= {"namespace": "default", "uid": f"uid-{letters}", "generation": 1}
    return obj | {"metadata": own | {"creationTimestamp": "2026-01-01T00:00:00Z"} | metadata}


class Asked:
    """Counts what a server really decides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
        self.count = 0
        self._state = server.state
        for hook in ("mutate", "validate"):
            monkeypatch.setattr(admission, hook, self._counting(getattr(admission, hook)))

    def _counting(self, decide: Callable[..., Decision]) -> Callable[..., Decision]:
        def counted(request: Request, policy: Policy, snapshot: Snapshot, *more: Any) -> Decision:
            self.count += snapshot._state is self._state
            return decide(request, policy, snapshot, *more)

        return counted


def forgetful() -> Server:
    """Decides each pod by itself."""
    return Server(most=0)


# --- who is not alike -------------------------------------------------------------------------------------------------


def _changed(**fields: Any) -> Callable[[Pod], None]:
    return lambda obj: obj["spec"].update(fields)


def _labelled(obj: Pod) -> None:
    obj["metadata"]["labels"]["workload-type"] = "training"


def _annotated(obj: Pod) -> None:
    obj["metadata"]["annotations"] = {"cdi.k8s.io/all": "nvidia.com/gpu=all"}


def _disguised(obj: Pod) -> None:
    """Without the letters of the token this would read NVIDIA_VISIBLE_DEVICES."""
    obj["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLEkube-api-access-abcde_DEVICES", "value": "all"}]


DIFFERENT = [
    pytest.param(_labelled, id="another label"),
    pytest.param(_annotated, id="an annotation"),
    pytest.param(_disguised, id="the name of its volume elsewhere"),
    pytest.param(_changed(hostPID=True), id="another spec"),
    pytest.param(_changed(priorityClassName="gpu-training"), id="another class"),
    pytest.param(lambda obj: obj["metadata"].update(generateName="other-"), id="another workload"),
    pytest.param(lambda obj: obj["metadata"]["ownerReferences"][0].update(uid="u-2"), id="another owner"),
]


@pytest.mark.parametrize("hook", ["mutate", "validate"])
@pytest.mark.parametrize("change", DIFFERENT)
def test_another_pod_is_decided_by_itself(
    change: Callable[[Pod], None], hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, alone = Server(), forgetful()
    asked = Asked(monkeypatch, server)
    first, other = replica(), replica()
    change(other)
    for obj in (first, other):
        assert getattr(server, hook)(obj) == getattr(alone, hook)(obj)
    assert asked.count == 2


def test_a_disguised_theft_is_not_told_from_the_harmless_pod_before_it() -> None:
    server, harmless, theft = Server(), replica(), replica("fghij")
    _disguised(harmless)
    theft["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert server.validate(harmless)["allowed"]
    assert not server.validate(theft)["allowed"]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"namespace": "apart"}, id="another profile"),
        pytest.param({"userInfo": {"username": "john"}}, id="another user"),
        pytest.param({"userInfo": {"username": "jane", "groups": ["admins"]}}, id="another group"),
    ],
)
@pytest.mark.parametrize("hook", ["mutate", "validate"])
def test_who_asks_and_where_counts(hook: str, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    counted = Asked(monkeypatch, server)
    getattr(server, hook)(replica())
    getattr(server, hook)(replica(), **asked)
    assert counted.count == 2


def _namespace(server: Server) -> None:
    labels = {"gpu-admission.io/profile": "shadow"}
    server.state.namespaces.seen({"metadata": {"name": "default", "labels": labels}})


def _budget(server: Server) -> None:
    metadata = {"name": "web", "namespace": "default"}
    server.state.budgets.seen({"metadata": metadata, "spec": {"selector": {"matchLabels": {"app": "web"}}}})


def _autoscaler(server: Server) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"maxReplicas": 40, "scaleTargetRef": target}
    server.state.autoscalers.seen({"metadata": {"name": "web", "namespace": "default"}, "spec": spec})


FACTS: list[Any] = [
    pytest.param(lambda s: s.state.node_seen(node("gpu-c1", taints=[GPU_TAINT])), id="a node came"),
    pytest.param(lambda s: s.state.node_gone("gpu-a1"), id="a node went"),
    pytest.param(lambda s: s.state.node_seen(NODES[0] | {"spec": {}}), id="a node lost its taint"),
    pytest.param(
        lambda s: s.state.priority_classes.seen({"metadata": {"name": "gpu-inference"}, "value": 4}),
        id="a class changed",
    ),
    pytest.param(lambda s: s.state.priority_classes.gone("gpu-inference"), id="a class went"),
    pytest.param(_namespace, id="the namespace changed"),
    pytest.param(_budget, id="a budget came"),
    pytest.param(_autoscaler, id="an autoscaler came"),
    pytest.param(lambda s: s.state.heard("pods", -1000.0), id="the state became stale"),
    pytest.param(
        lambda s: s.state.slices.seen(
            {"metadata": {"name": "a"}, "spec": {"nodeName": "gpu-a1", "driver": "gpu.nvidia.com"}}
        ),
        id="a node has GPUs through DRA",
    ),
    pytest.param(lambda s: setattr(s, "current", Policy.load("{}")), id="another policy"),
]


def _body(hook: str, letters: str) -> bytes:
    """As the API server sends it to one of the hooks."""
    obj = replica(letters)
    return review(obj) if hook == "mutate" else review(completed(obj, letters), name=f"web-{letters}")


@pytest.mark.parametrize("hook", ["mutate", "validate"])
@pytest.mark.parametrize("change", FACTS)
def test_what_units_know_of_the_cluster_counts(
    change: Callable[[Server], Any], hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, alone = Server(), forgetful()
    bodies = [_body(hook, letters) for letters in ("abcde", "fghij", "k2345")]
    for one in (server, alone):
        for body in bodies[:2]:
            one.answered(*getattr(one.handlers, hook)(body))
        change(one)
    asked = Asked(monkeypatch, server)
    assert getattr(server.handlers, hook)(bodies[2]) == getattr(alone.handlers, hook)(bodies[2])
    assert asked.count == 1


def test_large_pods_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    asked = Asked(monkeypatch, server)
    for _ in range(2):
        server.mutate(replica(annotations={"notes": "x" * form.LARGEST}))
    assert asked.count == 2
    assert not server.handlers._alike._mutated.by_key
    assert not server.handlers._alike._mutated.by_head


TEXTS = [
    pytest.param(lambda body: body.replace(b'"jane"', b'"john"'), id="who asks"),
    pytest.param(lambda body: body.replace(b'"web"', b'"web2"'), id="a label"),
    pytest.param(lambda body: body.replace(b'{"uid":"u-1"', b'{"uid":"u/1"'), id="a uid of another form"),
    pytest.param(lambda body: body.replace(b"01-01T00", b"01-01 00"), id="a time of another form"),
    pytest.param(lambda body: body.replace(b"-abcde", b"-ab-de"), id="letters of another form"),
    pytest.param(lambda body: body.replace(b"-abcde", b"-fghij", 1), id="a mount of another volume"),
    pytest.param(lambda body: body.replace(b":", b": "), id="another hand"),
    pytest.param(lambda body: body.replace(b"kube-api-access-abcde", b"\0"), id="our own mark"),
]


@pytest.mark.parametrize("change", TEXTS)
def test_another_text_is_read(change: Callable[[bytes], bytes]) -> None:
    server, body = Server(), review(replica())
    again, snapshot = server.handlers._alike.again, server.state.snapshot(NOW)
    for _ in range(2):
        server.handlers.mutate(body)
    assert again(body, POLICY, snapshot)
    assert change(body) != body
    assert again(change(body), POLICY, snapshot) is None


def test_no_more_than_so_many_are_kept() -> None:
    server = Server(most=3)
    for number in range(5):
        server.mutate(replica(labels={"app": f"web-{number}"}))
        server.validate(replica(labels={"app": f"web-{number}"}))
    kept = server.handlers._alike
    assert len(kept._mutated.by_key) == len(kept._validated.by_key) == 3


# --- who is -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", ["default", "apart", "void"])
def test_replicas_are_decided_once_and_sent_to_a_node_each(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server, alone = Server(), forgetful()
    asked = Asked(monkeypatch, server)
    chosen: list[str] = []
    for letters in ("abcde", "fghij", "k2345", "xxxxx"):
        obj = replica(letters)
        response = server.mutate(obj, namespace=namespace)
        assert response == alone.mutate(obj, namespace=namespace)
        chosen.append(orjson.loads(after(response, obj)["metadata"]["annotations"][DECISION])["nodes"][0][0])
    assert asked.count == 1
    assert set(chosen) == {"gpu-a1", "gpu-a2", "gpu-b1"}
    assert facts(server.state) == facts(alone.state), "the same is promised"


def _named(length: int, count: int = 12) -> ClusterState:
    """A cluster of nodes with names of so many letters and up to two more."""
    made = cluster()
    for name in [n["metadata"]["name"] for n in NODES]:
        made.node_gone(name)
    for number in range(count):
        made.node_seen(node(f"gpu-{number:02d}-" + "x" * (length - 7 + number % 3), taints=[GPU_TAINT]))
    return made


@pytest.mark.parametrize("length", [7, 40, 130, 200, 250])
def test_names_of_any_length_are_told(length: int) -> None:
    """Of long ones the record does not hold all, and each pod is decided by itself."""
    server, alone = Server(_named(length)), Server(_named(length), most=0)
    for letters in ("abcde", "fghij", "k2345"):
        assert server.mutate(replica(letters)) == alone.mutate(replica(letters))


def test_a_record_that_grows_too_long_is_made_anew() -> None:
    short, long = _named(100), _named(160)
    server = Server(short)
    server.mutate(replica())
    plan = next(iter(server.handlers._alike._mutated.by_key.values()))
    assert isinstance(plan, Plan)
    assert plan.again(short.snapshot(NOW), Placer(short).answer, dry_run=True) is not None
    assert plan.again(long.snapshot(NOW), Placer(long).answer, dry_run=True) is None


def test_a_patch_that_names_the_token_is_made_anew() -> None:
    """A label that happens to be the name of the volume goes into the selector of the spread."""
    server, alone = Server(), forgetful()
    for letters in ("abcde", "fghij"):
        obj = replica(letters, labels={"app": f"kube-api-access-{letters}"}, controller=None)
        del obj["metadata"]["ownerReferences"]
        assert server.mutate(obj) == alone.mutate(obj)


def test_what_is_kept_of_nodes_is_bounded() -> None:
    slot = _slot(0, 100)
    for number in range(_MOST + 1):
        slot.piece(Ranked(f"gpu-{number}", 8, 0, 0.0))
    assert len(slot.known) <= _MOST
    assert len(slot._names) <= _MOST


def answered(server: Server, hook: str, bodies: list[bytes]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """What is answered, and which of the bodies had to be read for it."""
    answers, read = [], []
    for body in bodies:
        known = server.handlers._alike.again(body, POLICY, server.state.snapshot(NOW), stored=hook == "validate")
        read += [] if known else [body]
        answers.append(server.answered(*getattr(server.handlers, hook)(body)))
    return answers, read


def test_the_next_one_is_not_even_read() -> None:
    server, alone = Server(), forgetful()
    bodies = [review(replica(letters), uid=f"u-{letters}") for letters in ("abcde", "fghij", "k2345")]
    assert len({*bodies}) == 3
    answers = [alone.answered(*alone.handlers.mutate(body)) for body in bodies]
    assert answered(server, "mutate", bodies) == (answers, bodies[:2])
    assert server.recorder.rankings == ["apart"] * 4, (
        "each has its own place, and that took its time; one we only asked for"
    )
    assert facts(server.state) == facts(alone.state)
    assert server.recorder.told == alone.recorder.told


def as_stored(server: Server, obj: Pod, letters: str) -> bytes:
    """The review of `obj` in the validating hook, after the mutating one has seen it."""
    found = completed(after(server.mutate(obj), obj), letters)
    return review(found, uid=f"u-{letters}", name=found["metadata"]["name"])


def test_the_next_one_to_validate_is_not_even_read() -> None:
    server, alone = Server(), forgetful()
    thief = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    for theft in (False, True):
        bodies = []
        for letters in ("abcde", "fghij", "k2345"):
            obj = replica(letters)
            obj["spec"]["containers"][0]["env"] = thief if theft else []
            bodies.append(as_stored(server, obj, letters))
        answers = [alone.answered(*alone.handlers.validate(body)) for body in bodies]
        assert answered(server, "validate", bodies) == (answers, bodies[:2])
        assert [answer["allowed"] for answer in answers] == [not theft] * 3
    assert [told for told in server.recorder.asked if told[1]] == alone.recorder.asked


@pytest.mark.parametrize("twice", [b'"operation":"CREATE","uid":"other"', b'"operation":"CREATE","name":"web-other"'])
def test_a_key_that_comes_twice_has_the_last_word(twice: bytes) -> None:
    server, alone = Server(), forgetful()
    for letters in ("abcde", "fghij", "k2345"):
        body = _body("validate", letters).replace(b'"operation":"CREATE"', twice)
        assert server.handlers.validate(body) == alone.handlers.validate(body)
    assert server.recorder.asked == alone.recorder.asked


@pytest.mark.parametrize("hook", ["mutate", "validate"])
def test_of_what_a_real_api_server_sends_the_third_is_not_read(hook: str) -> None:
    bodies = [(DATA / f"{hook}-{number}.json").read_bytes() for number in (1, 2, 3)]
    answers, read = answered(Server(), hook, bodies)
    assert all(answer["allowed"] for answer in answers)
    assert read == bodies[:2]


def test_what_was_promised_to_a_pod_that_is_refused_is_given_back_though_it_is_not_read() -> None:
    server = Server()
    before = facts(server.state)
    for letters in ("abcde", "fghij", "k2345", "lmnop"):
        obj = replica(letters)
        obj["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        body = as_stored(server, obj, letters)
        assert facts(server.state) != before
        assert not server.answered(*server.handlers.validate(body))["allowed"]
        assert facts(server.state) == before
    assert server.handlers._alike._validated.by_head


def test_who_only_asked_gives_back_nothing_of_what_others_were_promised() -> None:
    for server in (Server(), forgetful()):
        asking, before = [], facts(server.state)
        for letters in ("abcde", "fghij", "k2345"):
            found = orjson.loads(as_stored(server, replica(letters, hostPID=True), letters))
            found["request"]["dryRun"] = True
            asking.append(orjson.dumps(found))
        promised = facts(server.state)
        assert promised != before
        for body in asking:
            assert not server.answered(*server.handlers.validate(body))["allowed"]
            assert facts(server.state) == promised


@pytest.mark.parametrize(
    ("nodes", "given_back"),
    [
        pytest.param(lambda nodes: nodes, True, id="as we wrote it"),
        pytest.param(lambda nodes: [name for name, *_ in nodes], True, id="a list of names alone"),
        pytest.param(lambda nodes: nodes[::-1], False, id="another first"),
        pytest.param(lambda nodes: [], False, id="none"),
    ],
)
def test_what_is_given_back_is_what_record_and_spec_say_whether_the_pod_is_read_or_not(
    nodes: Callable[[list[Any]], list[Any]], given_back: bool
) -> None:
    server, alone = Server(), forgetful()
    before = facts(server.state)
    for number, letters in enumerate(("abcde", "fghij", "k2345", "lmnop")):
        obj = replica(letters, hostPID=True)
        for each in (server, alone):
            found = orjson.loads(as_stored(each, obj, letters))
            notes = found["request"]["object"]["metadata"]["annotations"]
            record = orjson.loads(notes[DECISION])
            notes[DECISION] = orjson.dumps(record | {"nodes": nodes(record["nodes"])}).decode()
            body = orjson.dumps(found)
            known = each.handlers._alike.again(body, POLICY, each.state.snapshot(NOW), stored=True)
            assert bool(known) == (each is server and number > 1), "not read any more"
            assert not each.answered(*each.handlers.validate(body))["allowed"]
        assert facts(server.state) == facts(alone.state)
    assert (facts(server.state) == before) == given_back


def _own_node(node: str) -> dict[str, Any]:
    """A user's wish, which counts: it only looks like what we write."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _cloned(name: str) -> dict[str, Any]:
    claim = {"dataSourceRef": {"kind": "x", "name": name, "namespace": "other", "operation": "x"}}
    return {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]}


DECOYS = [
    pytest.param(lambda word: {"spec": _own_node(word)}, id="a node that the user named"),
    pytest.param(lambda word: {"spec": _cloned(word)}, id="a name with a namespace"),
    pytest.param(lambda word: {"metadata": {"labels": {DECISION: word}}}, id="a label like our record"),
    pytest.param(lambda word: {"spec": {"x": {"uid": word, "creationTimestamp": word}}}, id="a uid with a time"),
    pytest.param(lambda word: {"spec": {"x": {"time": word, "fieldsType": "x"}}}, id="a time with a type"),
    pytest.param(lambda word: {"spec": {"x": f"kube-api-access-{word}"}}, id="letters of a token"),
]


@pytest.mark.parametrize("hook", ["mutate", "validate"])
@pytest.mark.parametrize("decoy", DECOYS)
def test_what_only_looks_like_a_blank_counts(
    decoy: Callable[[str], dict[str, dict[str, Any]]], hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third pod says something else in it than the two before, of which the second one was learnt."""
    server, counts = Server(), []
    asked = Asked(monkeypatch, server)
    for word in ("abcde", "abcde", "fghij"):
        obj = completed(replica(), "k2345") if hook == "validate" else replica()
        for part, fields in decoy(word).items():
            obj[part] |= fields
        getattr(server.handlers, hook)(review(obj))
        counts.append(asked.count)
    assert counts[2] == counts[1] + 1


def test_what_is_mutated_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    stored = [after(server.mutate(replica(letters)), replica(letters, name=letters)) for letters in ("abcde", "fghij")]
    asked = Asked(monkeypatch, server)
    assert [server.validate(obj)["allowed"] for obj in stored] == [True, True]
    assert asked.count == 1


@pytest.mark.parametrize("asked_by_name", [True, False])
def test_a_refusal_names_what_a_generated_name_is_made_of_and_a_chosen_name_as_it_is(asked_by_name: bool) -> None:
    server, alone = Server(), forgetful()
    names, read = {"web-a": "", "web-b": "", "chosen": "chosen", "web-c": ""}, []
    for name, chosen in names.items():
        obj = replica(hostPID=True)
        own = {"uid": f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        obj["metadata"] = {"name": name, "generateName": "web-", "namespace": "default", **own}
        body = review(obj, uid=f"u-{name}", name=name if asked_by_name else "")
        read += [] if server.handlers._alike.again(body, POLICY, server.state.snapshot(NOW), stored=True) else [name]
        assert (answer := server.handlers.validate(body)) == alone.handlers.validate(body)
        subject = f'pod \\"{chosen}\\"' if chosen else 'pod generateName \\"web-\\"'
        assert f"{subject}: spec.hostPID".encode() in answer[1]
    assert read == ["web-a", "web-b"]


def test_decisions_that_only_say_the_same_stay_apart() -> None:
    memory = _Memory(3)
    of = {
        b"a": Decision("allowed", workload="a"),
        b"b": Decision("allowed", workload="b"),
        b"c": Decision("allowed", workload="b"),
    }
    for key, made in of.items():
        memory.decided(key, made)
    assert memory.by_key == of
    assert memory.by_key[b"b"] is memory.by_key[b"c"], "equal ones are one"


def test_an_early_refusal_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server, alone = Server(), forgetful()
    asked = Asked(monkeypatch, server)
    wrong = container(limits={GPU: "2"}, requests={GPU: "1"})
    for letters in ("abcde", "fghij"):
        obj = replica(letters)
        obj["spec"]["containers"] = [copy.deepcopy(wrong)]
        assert server.mutate(obj) == alone.mutate(obj)
    assert asked.count == 1


def test_a_dry_run_promises_nothing_whoever_came_before() -> None:
    server = Server()
    server.mutate(replica())
    before = facts(server.state)
    dry = server.mutate(replica("fghij"), dryRun=True)
    assert facts(server.state) == before
    assert server.mutate(replica("klmno")) == dry
    assert facts(server.state) != before


@pytest.mark.parametrize("namespace", ["default", "pinned", "pools"])
def test_pods_that_fit_nowhere_any_more_are_told_so(namespace: str) -> None:
    """20 GPUs are free at first; then a node comes back, and is filled again."""
    server, alone = Server(), forgetful()
    for number in range(50):
        obj = replica(f"{number:05d}")
        assert server.mutate(obj, namespace=namespace) == alone.mutate(obj, namespace=namespace)
        if number == 30:
            for each in (server, alone):
                each.state.node_seen(node("gpu-c1", taints=[GPU_TAINT]))


def _asking(number: int, gpus: int, cpu: str) -> Pod:
    obj = replica(f"{number:05d}", labels={"app": cpu})
    obj["spec"]["containers"][0]["resources"] = {"limits": {GPU: gpus}, "requests": {"cpu": cpu}}
    return obj


def test_pods_that_fit_nowhere_are_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes take a large one each. The third has too few GPUs for them; small ones take its CPU, and then that is why."""
    server, alone = Server(), forgetful()
    sizes = [(8, "60")] * 3 + [(1, "20"), (8, "60")] * 4
    pods_of_all = [_asking(number, *size) for number, size in enumerate(sizes)]
    wanted, asked = [alone.mutate(obj) for obj in pods_of_all], Asked(monkeypatch, server)
    assert [server.mutate(obj) for obj in pods_of_all] == wanted
    records = [orjson.loads(answer["auditAnnotations"]["decision"]) for answer in wanted]
    places = [(size, len(record.get("nodes", ()))) for size, record in zip(sizes, records, strict=True)]
    assert asked.count == len({*places}), places
    assert {str(record["rejected"]) for record in records if "rejected" in record} == {
        "[['too little CPU', 2], ['too few free GPUs', 1]]",
        "[['too little CPU', 3]]",
    }


@given(
    st.lists(pods(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.booleans()), min_size=2, max_size=8),
    st.booleans(),
    st.sampled_from(PROFILES),
)
def test_answers_are_those_that_each_pod_would_get_by_itself(
    templates: list[Pod], coming: list[tuple[int, str, bool]], tokens: bool, namespace: str
) -> None:
    server, alone = Server(cluster()), forgetful()
    for number, name, dry in coming:
        obj = copy.deepcopy(templates[number % len(templates)])
        obj["metadata"]["uid"] = name
        if "generateName" in obj["metadata"]:
            obj["metadata"]["name"] = obj["metadata"]["generateName"] + name
        if tokens:
            volumes = obj["spec"].get("volumes") or []
            obj["spec"]["volumes"] = [*volumes, {"name": f"kube-api-access-{name * 5}", "projected": {}}]
        body = review(obj, namespace=namespace, dryRun=dry, uid=f"uid-{name}")
        for hook in ("mutate", "validate"):
            assert server.answered(*getattr(server.handlers, hook)(body)) == alone.answered(
                *getattr(alone.handlers, hook)(body)
            )
    assert facts(server.state) == facts(alone.state)
    assert server.recorder.told == alone.recorder.told


@given(pods(), st.lists(st.tuples(st.sampled_from(["abcde", "fghij", "k23"]), st.booleans()), min_size=3, max_size=6))
def test_stored_pods_are_validated_as_each_would_be_by_itself(template: Pod, coming: list[tuple[str, bool]]) -> None:
    """One template; some are asked about as another user. What was promised to those that are refused is given back."""
    server, alone = Server(cluster()), forgetful()
    for letters, other in coming:
        obj = copy.deepcopy(template)
        obj["metadata"] = {"generateName": "web-"} | {k: v for k, v in obj["metadata"].items() if k != "name"}
        bodies = [as_stored(each, obj, letters) for each in (server, alone)]
        assert bodies[0] == bodies[1]
        body = bodies[0].replace(b'"jane"', b'"john"') if other else bodies[0]
        assert server.handlers.validate(body) == alone.handlers.validate(body)
        assert facts(server.state) == facts(alone.state)


def test_of_a_request_the_pod_is_not_kept() -> None:
    server = Server()
    server.mutate(replica())
    server.mutate(replica("fghij"))
    (text,) = server.handlers._alike._mutated.by_head.values()
    assert (text.request.object, text.request.generated) == (None, "web-")
