"""The form of a workload: what the API server takes, and what its author reads where it would not.

tests/e2e/test_workload_form.py shows both tables, and many workloads besides, to a real API server: it agrees with each.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import EMPTY
from webhook import workloads
from webhook.policy import Policy, PolicyFile
from webhook.review import Request

Json = dict[str, Any]
POLICY = Policy.of(PolicyFile())
GROUPS = {"Job": "batch", "CronJob": "batch", "ReplicationController": ""}
GPUS: Json = {"limits": {"nvidia.com/gpu": "1"}}
LABELS = {"app": "main"}
UID = {"batch.kubernetes.io/controller-uid": "1"}
MOST = 63


def kept(kind: str = "Deployment", /, *, labels: Json | None = LABELS, pod: Json | None = None, **spec: Any) -> Json:
    """A workload that keeps its pods running. `spec`: other fields; None takes one away. `pod`: of its pods."""
    selector: Json = {"selector": LABELS if kind == "ReplicationController" else {"matchLabels": LABELS}}
    return _made(kind, selector | spec, _template(labels, pod or {}))


def job(*, labels: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    return _made("Job", spec, _template(labels, {"restartPolicy": "Never"} | (pod or {})))


def cron(schedule: str | None = "0 3 * * *", **spec: Any) -> Json:
    return _made("CronJob", {"jobTemplate": {"spec": job(**spec)["spec"]}, "schedule": schedule}, None)


def _template(labels: Json | None, pod: Json) -> Json:
    main = {"name": "main", "image": "registry.example/app:1", "resources": deepcopy(GPUS)}
    spec = {key: value for key, value in ({"containers": [main]} | pod).items() if value is not None}
    return {"metadata": {"labels": dict(labels)}, "spec": spec} if labels else {"spec": spec}


def _made(kind: str, spec: Json, template: Json | None) -> Json:
    group = GROUPS.get(kind, "apps")
    body = deepcopy({key: value for key, value in spec.items() if value is not None})
    return {
        "apiVersion": f"{group}/v1".lstrip("/"),
        "kind": kind,
        "metadata": {"name": "main"},
        "spec": body | ({"template": template} if template else {}),
    }


def called(made: Json, **metadata: Any) -> Json:
    return made | {"metadata": {k: v for k, v in ({"name": "main"} | metadata).items() if v is not None}}


def driver(**more: Any) -> Json:
    """Of a device plugin, which asks for no GPU: it mounts a folder of the node. `more`: as of `kept`."""
    main = {"name": "main", "image": "registry.example/plugin:1"}
    volumes = [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
    return kept("DaemonSet", **{"pod": {"containers": [main], "volumes": volumes}} | more)


def expression(operator: str, *values: str, key: str = "app") -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def told(made: Json, old: Json | None = None, rule: str = "workloadForm") -> list[str]:
    """What the rule says of it, without its own name."""
    operation = "CREATE" if old is None else "UPDATE"
    group = GROUPS.get(made["kind"], "apps")
    request = Request(
        "u", made["kind"], group, "x", "", operation, "team-a", "", "jane", (), False, deepcopy(made), old
    )
    decision = workloads.mutate(request, POLICY, EMPTY)
    said = [finding.message for unit, _, finding in decision.findings if unit == rule]
    assert (decision.result == "denied") or not said
    return said


ALLOWED: dict[str, Json] = {
    **{kind: kept(kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController")},
    "Job": job(),
    "CronJob": cron(),
    "a device plugin, which asks for no GPU": driver(),
    "names with dots": called(kept(), name="llama.v2.team-a"),
    "a name as long as may be": called(kept("DaemonSet"), name="a" * 253),
    "a generated name": called(job(), name=None, generateName="train-"),
    "a generated name without a dash": called(job(), name=None, generateName="train"),
    "no replicas": kept(replicas=0),
    "a template with more labels than the selector asks for": kept(labels={**LABELS, "team": "a"}),
    "a selector that takes one of several values": kept(selector=expression("In", "main", "other")),
    "a selector that rules out another value": kept(selector=expression("NotIn", "other")),
    "a selector that rules out a label that is not there": kept(
        selector={"matchLabels": LABELS, **expression("NotIn", "x", key="track")}
    ),
    "a selector by a label that is there": kept(selector=expression("Exists")),
    "an empty label": kept(labels={**LABELS, "empty": ""}),
    "a label of 63 characters": called(kept(labels={**LABELS, "long": "x" * MOST}), labels={"long": "x" * MOST}),
    "a replication controller without selector, which gets the labels": kept("ReplicationController", selector=None),
    "restart policy said where it is the only one": kept(pod={"restartPolicy": "Always"}),
    "a Job that starts failed containers again": job(pod={"restartPolicy": "OnFailure"}),
    "a Job with a deadline of its own and of its pods": job(
        activeDeadlineSeconds=60, pod={"activeDeadlineSeconds": 30}
    ),
    "a Job that does nothing yet": job(parallelism=0, completions=0, backoffLimit=0, ttlSecondsAfterFinished=0),
    "an Indexed Job": job(completionMode="Indexed", completions=4, parallelism=2),
    "an Indexed Job of one pod, which is what no numbers mean": job(completionMode="Indexed"),
    "an Indexed Job whose longest host name just fits": called(
        job(completionMode="Indexed", completions=10), name="a" * 61
    ),
    "a Job with a selector of its own that says so": job(
        manualSelector=True, selector={"matchLabels": LABELS}, labels=LABELS
    ),
    "a Job that selects by its own name": job(selector={"matchLabels": {"job-name": "main"}}),
    "a CronJob by a word": cron("@daily"),
    "a CronJob of 52 characters": called(cron(), name="a" * 52),
}
"""Workloads that the API server takes."""

_NAME = "lower case letters, digits, - and ., with a letter or digit at both ends, at most 253"
_VALUE = "letters, digits, -, _ and ., with a letter or digit at both ends, at most 63; or nothing"
_OWN = "the labels by which it knows its own pods"
_APP = "spec.template.metadata.labels[app]"
REFUSED: dict[str, tuple[Json, str]] = {
    "a device plugin without a selector": (
        driver(selector=None),
        "spec.selector: saw a DaemonSet without selector, wanted the labels by which it knows its own pods. Write "
        "selector.matchLabels with app: main.",
    ),
    "a selector for pods with a label that the template does not have": (
        kept(labels=None),
        f'{_APP}: saw no such label in the template, wanted "main", by which spec.selector looks for the pods. Write app: main '
        "there, or change spec.selector.",
    ),
    "a selector for pods with another label": (
        kept("DaemonSet", labels={"app": "Main"}),
        f'{_APP}: saw "Main", wanted "main", by which spec.selector looks for the pods. Write app: main there, or change '
        "spec.selector.",
    ),
    "a selector of a replication controller for other pods": (
        kept("ReplicationController", labels={"app": "b"}),
        f'{_APP}: saw "b", wanted "main", by which spec.selector looks for the pods. Write app: main there, or change '
        "spec.selector.",
    ),
    "an expression that does not take the template": (
        kept("StatefulSet", selector=expression("In", "a", "b")),
        'spec.selector.matchExpressions[0]: saw app In "a", "b", while the template has "main", wanted a selector that takes '
        "the template's pods. Change the labels of the template, or the expression.",
    ),
    "an expression that rules the template out": (
        kept("ReplicaSet", selector=expression("NotIn", "main")),
        'spec.selector.matchExpressions[0]: saw app NotIn "main", while the template has "main", wanted a selector that takes '
        "the template's pods. Change the labels of the template, or the expression.",
    ),
    "no selector": (
        kept(selector=None),
        f"spec.selector: saw a Deployment without selector, wanted {_OWN}. Write selector.matchLabels with app: main.",
    ),
    "an empty selector": (
        kept("StatefulSet", selector={}),
        f"spec.selector: saw a StatefulSet without selector, wanted {_OWN}. Write selector.matchLabels with app: main.",
    ),
    "neither selector nor labels": (
        kept("DaemonSet", selector=None, labels=None),
        f"spec.selector: saw a DaemonSet without selector, wanted {_OWN}. Write selector.matchLabels with app: main, and the "
        "same under labels of the template.",
    ),
    "a placeholder that nobody filled in": (
        called(job(), name="<job-name>"),
        f'metadata.name: saw Job name "<job-name>", wanted {_NAME}. Fill in the placeholder.',
    ),
    "a name in capitals and underscores": (
        called(kept(), name="Llama_Server"),
        f'metadata.name: saw Deployment name "Llama_Server", wanted {_NAME}. Rename it, as llama-server.',
    ),
    "a generated name in capitals": (
        called(job(), name=None, generateName="Train_"),
        f'metadata.generateName: saw Job name "Train_", wanted {_NAME}. Rename it, as train.',
    ),
    "a CronJob whose Jobs would have too long a name": (
        called(cron(), name="a" * 53),
        "metadata.name: saw CronJob name of 53 characters, wanted at most 52: its Jobs are called after it. Rename it, as "
        f"{'a' * 52}.",
    ),
    "an Indexed Job whose pods would have host names with dots": (
        called(job(completionMode="Indexed", completions=4), name="train.v2"),
        'metadata.name: saw Job name "train.v2" of an Indexed Job, wanted lower case letters, digits and -, with a letter or '
        "digit at both ends, at most 63 with -3 after it: the host name of its last pod. Rename it, as train-v2.",
    ),
    "a label of the workload that nobody filled in": (
        called(kept(), labels={"version": "${VERSION}"}),
        f'metadata.labels[version]: saw "${{VERSION}}", wanted {_VALUE}. Fill in the placeholder.',
    ),
    "fewer replicas than none": (
        kept(replicas=-1),
        'spec.replicas: saw replicas "-1", wanted 0 or more. Write 0 to run none.',
    ),
    "less than no parallelism": (
        job(parallelism=-2),
        'spec.parallelism: saw parallelism "-2", wanted 0 or more. Write 0 to run none.',
    ),
    "no end of attempts": (
        cron(backoffLimit=-1),
        'spec.jobTemplate.spec.backoffLimit: saw backoffLimit "-1", wanted 0 or more. Write 0 for no second attempt, or as many '
        "as may fail.",
    ),
    "an Indexed Job that does not say how many": (
        job(completionMode="Indexed", parallelism=4),
        "spec.completions: saw completionMode Indexed without completions, wanted the number of indexes. Write completions: 4, "
        "or as many indexes as there are.",
    ),
    "a Job that does not say what happens at its end": (
        job(pod={"restartPolicy": None}),
        "spec.template.spec.restartPolicy: saw Always, which is also what no restartPolicy means, wanted Never or OnFailure: the "
        "pods of a Job end. Write restartPolicy: Never, so that each attempt is a pod of its own.",
    ),
    "a restart policy that is misspelt": (
        cron(pod={"restartPolicy": "never"}),
        'spec.jobTemplate.spec.template.spec.restartPolicy: saw "never", wanted Never or OnFailure: the pods of a Job end. Write '
        "restartPolicy: Never.",
    ),
    "a Deployment whose pods end": (
        kept(pod={"restartPolicy": "OnFailure"}),
        'spec.template.spec.restartPolicy: saw "OnFailure", wanted Always: a Deployment keeps its pods running. Remove the '
        "line; for work that ends, use a Job.",
    ),
    "a Deployment with a deadline": (
        kept(pod={"activeDeadlineSeconds": 60}),
        'spec.template.spec.activeDeadlineSeconds: saw "60", wanted no deadline: a Deployment keeps its pods running. Remove '
        "it; for work that ends, use a Job.",
    ),
    "a Job with the selector of a Deployment": (
        job(selector={"matchLabels": LABELS}, labels=LABELS),
        "spec.selector: saw a selector of app, wanted none: a Job gets one of its own. Remove it.",
    ),
    "a Job as it was exported": (
        job(selector={"matchLabels": UID}, labels=UID),
        "spec.selector: saw a selector of batch.kubernetes.io/controller-uid, wanted none: a Job gets one of its own. Remove it, "
        "and the labels controller-uid of its pods: they name another Job.",
    ),
    "a schedule with seconds": (
        cron("0 0 3 * * *"),
        'spec.schedule: saw "0 0 3 * * *", which has 6, wanted five fields: minute, hour, day, month, day of the week. Remove '
        "the one of the seconds.",
    ),
    "a schedule in words": (
        cron("daily"),
        'spec.schedule: saw "daily", which has 1, wanted five fields: minute, hour, day, month, day of the week. Write it as 0 3 '
        "* * *, which is 3 in the morning.",
    ),
    "no schedule": (
        cron(""),
        "spec.schedule: saw no schedule, wanted five fields: minute, hour, day, month, day of the week. Write it as 0 3 * * *, "
        "which is 3 in the morning.",
    ),
}
"""Workloads that the API server refuses, and what we say."""


@pytest.mark.parametrize("made", ALLOWED.values(), ids=ALLOWED)
def test_nothing_is_said_of(made: Json) -> None:
    assert told(made) == []


def without_gpus(made: Json) -> Json:
    made = deepcopy(made)
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    return made


def test_a_workload_without_gpus_is_left_to_the_api_server() -> None:
    assert told(without_gpus(kept(labels=None))) == []


def test_a_driver_that_asks_for_no_gpu_is_told_which_of_its_volumes_is_missing() -> None:
    main = {
        "name": "main",
        "image": "registry.example/driver:1",
        "volumeMounts": [{"name": "toolkit", "mountPath": "/t"}],
    }
    volumes = [{"name": "host", "hostPath": {"path": "/"}}]
    assert told(driver(pod={"containers": [main], "volumes": volumes}), rule="podForm") == [
        'spec.template.spec.containers[0].volumeMounts[0].name: saw a mount of volume "toolkit" in container "main", wanted a '
        "volume of the pod: host. Add it to spec.volumes, or remove the mount."
    ]
    plain = [{"name": "scratch", "emptyDir": {}}]
    assert told(driver(pod={"containers": [main], "volumes": plain}), rule="podForm") == []


def test_a_custom_resource_is_left_to_its_own_controller() -> None:
    spec = {"selector": {}, "workerGroupSpecs": [{"replicas": -1, "template": kept()["spec"]["template"]}]}
    ray = {"kind": "RayCluster", "metadata": {"name": "A_B"}, "spec": spec}
    request = Request("u", "RayCluster", "ray.io", "x", "", "CREATE", "team-a", "", "jane", (), False, ray, None)
    assert workloads.mutate(request, POLICY, EMPTY).result == "ignored"
    assert "workloadForm" not in [unit for unit, _, _ in workloads.validate(request, POLICY, EMPTY).findings]


def test_what_the_api_server_has_taken_and_completed_is_not_looked_at_again() -> None:
    """The selector of a Job is its own by then."""
    made = job(selector={"matchLabels": UID}, labels=UID)
    request = Request("u", "Job", "batch", "x", "", "CREATE", "team-a", "", "jane", (), False, made, None)
    assert "workloadForm" not in [unit for unit, _, _ in workloads.validate(request, POLICY, EMPTY).findings]


def test_a_name_that_is_there_already_is_not_the_fault_of_a_change() -> None:
    bad = called(kept(), name="A_B", labels={"version": "a b"})
    changed = deepcopy(bad)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/app:2"
    assert told(bad) != []
    assert told(changed, bad) == []


@pytest.mark.parametrize(("made", "message"), REFUSED.values(), ids=REFUSED)
def test_it_is_said_of(made: Json, message: str) -> None:
    assert told(made) == [message]


def test_every_label_that_differs_is_told_with_what_is_wrong_with_the_pods() -> None:
    made = kept(labels={"app": "a"}, selector={"matchLabels": {"app": "b", "tier": "x"}}, replicas=-1)
    assert [message.partition(": ")[0] for message in told(made)] == [
        "spec.template.metadata.labels[app]",
        "spec.template.metadata.labels[tier]",
        "spec.replicas",
    ]


def test_who_changes_the_labels_of_a_template_reads_that_the_selector_stays() -> None:
    (message,) = told(kept(labels={"app": "new"}), kept())
    assert message.endswith("Write app: main there: a selector cannot be changed any more.")


ODD = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(["matchLabels", "matchExpressions", "key", "operator", "values", "app"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "selector",
        "replicas",
        "parallelism",
        "completions",
        "completionMode",
        "backoffLimit",
        "manualSelector",
        "schedule",
    ]
)


@given(
    st.sampled_from([kept(), kept("ReplicationController"), job(), cron()]),
    st.dictionaries(FIELDS, st.one_of(ODD, st.just("Indexed")), max_size=4),
    st.dictionaries(
        st.sampled_from(["name", "generateName", "labels"]), st.one_of(ODD, st.just("\n" * 300)), max_size=3
    ),
)
def test_nothing_that_a_stranger_sends_makes_it_fail_or_say_what_cannot_be_printed(
    base: Json, fields: Json, metadata: Json
) -> None:
    made = deepcopy(base) | {"metadata": metadata}
    made["spec"] |= fields
    if isinstance(inner := made["spec"].get("jobTemplate"), dict):
        inner["spec"] |= fields
    for message in told(made):
        assert message.isprintable()
