"""`gpu-admission doctor`: every check, as it should be and as it should not.

Covers cli.checks.
"""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.objects import call, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli.doctor import READ
from webhook.kube.pod import DECISION
from webhook.tls.issue import make_ca

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
PROFILE = "gpu-admission.io/profile"
Objects = list[dict[str, Any]]


def bundle(since: timedelta = timedelta()) -> str:
    return b64encode(make_ca(datetime.now(UTC) - since).certificate).decode()


def shipped(*files: str) -> Objects:
    return [found for file in files for found in yaml.safe_load_all((MANIFESTS / file).read_text()) if found]


def sound() -> Objects:
    """An installation and a cluster with which all is well."""
    installed = shipped("50-priority-classes.yaml", "70-guards.yaml", "80-mutating.yaml", "90-validating.yaml")
    found = [obj for obj in installed if obj["kind"] in READ]
    for configuration in (obj for obj in found if "webhooks" in obj):
        for hook in configuration["webhooks"]:
            hook["clientConfig"]["caBundle"] = bundle()
    policy = {"policy.yaml": (MANIFESTS / "policy.yaml").read_text()}
    labels = {"kubernetes.io/service-name": "gpu-admission"}
    ours = {"namespace": "gpu-admission"}
    decided = placed(pod("trainer", 2), "gpu-a")
    decided["metadata"]["annotations"] = {DECISION: '{"class":"training"}'}
    return [
        *found,
        {"kind": "ConfigMap", "metadata": {"name": "gpu-admission-policy", **ours}, "data": policy},
        {
            "kind": "EndpointSlice",
            "metadata": {"name": "s", "labels": labels, **ours},
            "endpoints": [{"conditions": {"ready": True}}] * 2,
        },
        {"kind": "NetworkPolicy", "metadata": {"name": "gpu-admission", **ours}},
        {"kind": "Namespace", "metadata": {"name": "team", "labels": {PROFILE: "default"}}},
        node("gpu-a", taints=["nvidia.com/gpu=present:NoSchedule"]),
        decided,
    ]


def of(objects: Objects, kind: str, name: str | None = None) -> dict[str, Any]:
    return next(obj for obj in objects if obj["kind"] == kind and name in (None, obj["metadata"]["name"]))


def checked(folder: Path, objects: Objects) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(call("doctor", "--cluster", write(folder, *objects), "-o", "json").stdout)
    return found


def test_all_is_well(tmp_path: Path) -> None:
    result = call("doctor", "--cluster", write(tmp_path, *sound()))
    assert [line for line in result.stdout.splitlines() if not line.startswith("ok ")] == []
    assert result.exit_code == 0


Spoil = Callable[[Objects], Any]
CASES = [
    pytest.param("policy", "warn", lambda o: o.remove(of(o, "ConfigMap")), id="no policy"),
    pytest.param("policy", "broken", lambda o: of(o, "ConfigMap")["data"].update({"policy.yaml": "gpu: []"}), id="a bad policy"),
    pytest.param("MutatingWebhookConfiguration", "broken", lambda o: o.remove(of(o, "MutatingWebhookConfiguration")), id="no configuration"),
    pytest.param("ValidatingWebhookConfiguration", "broken", lambda o: _hook(o, "Validating")["clientConfig"].pop("caBundle"), id="no caBundle"),
    pytest.param("MutatingWebhookConfiguration", "broken", lambda o: _hooks(o, "Mutating", caBundle="AAAA"), id="a caBundle that is none"),
    pytest.param("MutatingWebhookConfiguration", "broken", lambda o: _hooks(o, "Mutating", caBundle=bundle(timedelta(days=9999))), id="an authority that ended"),
    pytest.param("ValidatingWebhookConfiguration", "warn", lambda o: _hook(o, "Validating").update(failurePolicy="Ignore"), id="another failure policy"),
    pytest.param("endpoints", "broken", lambda o: of(o, "EndpointSlice").update(endpoints=[]), id="no replica"),
    pytest.param("endpoints", "warn", lambda o: of(o, "EndpointSlice")["endpoints"].pop(), id="one replica"),
    pytest.param("guards", "warn", lambda o: [o.remove(each) for each in o[:] if each["kind"] == "ValidatingAdmissionPolicyBinding"], id="no guard"),
    pytest.param("networkPolicy", "warn", lambda o: o.remove(of(o, "NetworkPolicy")), id="no network policy"),
    pytest.param("namespaces", "warn", lambda o: of(o, "Namespace")["metadata"]["labels"].update({PROFILE: "defalt"}), id="a misspelt profile"),
    pytest.param("namespaces", "warn", lambda o: of(o, "Namespace")["metadata"]["labels"].clear(), id="nobody opted in"),
    pytest.param("priorityClasses", "broken", lambda o: o.remove(of(o, "PriorityClass")), id="a priority class that is not there"),
    pytest.param("nodes", "warn", lambda o: o.append(node("gpu-b", resources={"nvidia.com/gpu": "0"})), id="a node that offers nothing"),
    pytest.param("nodes", "broken", lambda o: of(o, "Node")["status"]["conditions"][0].update(status="False"), id="no node that is well"),
    pytest.param("taints", "warn", lambda o: o.extend([node("gpu-b"), placed(pod("guest", 0), "gpu-b")]), id="a guest on GPU nodes"),
    pytest.param("timeSlicing", "warn", lambda o: o.append(node("gpu-b", 2, "Tesla-T4", replicas=4)), id="shares beside whole GPUs"),
    pytest.param("decisions", "warn", lambda o: of(o, "Pod")["metadata"].pop("annotations"), id="a pod without a decision"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "state", "spoil"), CASES)
def test_what_is_wrong_is_said_with_the_next_step(tmp_path: Path, check: str, state: str, spoil: Spoil) -> None:
    objects = copy.deepcopy(sound())
    spoil(objects)
    found = [each for each in checked(tmp_path, objects) if each["state"] != "ok"]
    assert (check, state) in [(each["check"], each["state"]) for each in found]
    assert all(each["next"] for each in found if each["check"] == check)
    assert call("doctor", "--cluster", tmp_path / "cluster.json").exit_code == int(
        any(each["state"] == "broken" for each in found)
    )


def test_what_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    objects = [each for each in sound() if each["kind"] != "NetworkPolicy"]
    file = tmp_path / "plain.json"
    file.write_text(json.dumps({"kind": "List", "items": objects}))
    found = {each["check"]: each for each in json.loads(call("doctor", "--cluster", file, "-o", "json").stdout)}
    assert found["networkPolicy"]["state"] == "unknown"
    assert found["networkPolicy"]["text"] == f"{file} has no networkpolicies"


def _hook(objects: Objects, kind: str) -> dict[str, Any]:
    hook: dict[str, Any] = of(objects, f"{kind}WebhookConfiguration")["webhooks"][0]
    return hook


def _hooks(objects: Objects, kind: str, **change: str) -> None:
    for hook in of(objects, f"{kind}WebhookConfiguration")["webhooks"]:
        hook["clientConfig"].update(change)
