"""`gpu-admission doctor`: what is printed, and what is the same for all checks. Each check: tests/cli/checks/test_problems.py."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.checks.installation import Spoil, called_by_url, checked, healthy, installed, of
from tests.cli.objects import CLUSTER, call, document, write
from tests.controlplane.programs import KUBERNETES
from tests.manifests.files import MANIFESTS
from webhook.cli.checks import CHECKS
from webhook.cli.checks.replicas import TESTED
from webhook.cli.cluster.answers import QUESTIONS
from webhook.kube.kinds import KINDS
from webhook.tls import issue


def test_without_problems_every_check_is_ok(tmp_path: Path) -> None:
    result = call("doctor", "--from", write(tmp_path, *healthy(), kinds=[*KINDS, *QUESTIONS]))
    assert [line for line in result.stdout.splitlines() if not line.startswith("ok ")] == []
    assert result.exit_code == 0
    answered = "nothing is broken, and every call was answered (of 7 calls since the API server started)"
    assert result.stderr == f"the webhook: {answered}; {len(result.stdout.splitlines()) - 4} ok\nthe nodes: 4 ok\n"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(
            called_by_url,
            ["and every call was answered (of 7 calls since the API server started); ", "\nnot known, as it is called by URL: endpoints, replicas, policyLoaded\n"],
            id="called by URL",
        ),
        pytest.param(
            lambda o: of(o, "Node")["status"].update(conditions=[{"type": "Ready", "status": "False"}]),
            ["the webhook: nothing is broken, ", "\nthe nodes: 1 broken, 1 warn, "],
            id="a node is no part of the webhook",
        ),
        pytest.param(
            lambda o: o.remove(of(o, "MutatingWebhookConfiguration")), ["the webhook: 1 broken, "], id="something is broken",
        ),
    ],
)  # fmt: skip
def test_the_last_lines_say_whether_the_webhook_is_healthy(tmp_path: Path, spoil: Spoil, said: list[str]) -> None:
    objects = healthy()
    spoil(objects)
    result = call("doctor", "--from", write(tmp_path, *objects, kinds=[*KINDS, *QUESTIONS]))
    for each in said:
        assert each in result.stderr


def test_checks_that_could_not_be_made_are_not_called_healthy(tmp_path: Path) -> None:
    kinds = [each for each in (*KINDS, *QUESTIONS) if each != "MutatingWebhookConfiguration"]
    objects = [each for each in healthy() if each["kind"] != "MutatingWebhookConfiguration"]
    said = call("doctor", "--from", write(tmp_path, *objects, kinds=kinds)).stderr
    assert re.match(r"the webhook: \d+ of \d+ checks could not be made, and every call was answered ", said), said
    assert "nothing is broken" not in said


def test_a_field_that_is_not_as_shipped_is_given_with_both_values(tmp_path: Path) -> None:
    objects = healthy()
    of(objects, "MutatingWebhookConfiguration")["webhooks"][0] |= {"timeoutSeconds": 30, "rules": []}
    (found,) = [each["text"] for each in checked(tmp_path, objects) if each["check"] == "webhooks"]
    assert found.endswith("rules, timeoutSeconds (30, shipped is 3) not as shipped")


def test_next_steps_are_those_of_the_release_in_its_namespace(tmp_path: Path) -> None:
    objects = json.loads(json.dumps(healthy()).replace('"namespace": "gpu-admission"', '"namespace": "gpu"'))
    objects = json.loads(json.dumps(objects).replace('["gpu-admission", "kube-system"]', '["gpu", "kube-system"]'))
    objects = json.loads(json.dumps(objects).replace("serviceaccount:gpu-admission:", "serviceaccount:gpu:"))
    objects = [each for each in objects if each["kind"] != "ServingCertificate"]
    configuration = of(objects, "MutatingWebhookConfiguration")
    configuration["metadata"]["labels"] = dict.fromkeys(("app.kubernetes.io/part-of",), "gpu-admission") | {
        "app.kubernetes.io/managed-by": "Helm"
    }
    configuration["metadata"]["annotations"] = {"meta.helm.sh/release-name": "mine"}
    configuration["webhooks"][0]["timeoutSeconds"] = 30
    of(objects, "EndpointSlice")["endpoints"].pop()
    found = {each["check"]: each for each in checked(tmp_path, objects)}
    upgrade = "helm upgrade mine manifests/chart -n gpu --reset-then-reuse-values"
    assert found["webhooks"]["next"] == f"{upgrade}, if nobody meant it"
    assert found["endpoints"]["next"] == "run two at least: kubectl -n gpu get pods"
    assert found["certificate"]["next"] == "see certs/README.md, and kubectl -n gpu logs deployment/gpu-admission"
    assert {check for check, each in found.items() if each["state"] != "ok"} == {"webhooks", "endpoints", "certificate"}


def test_a_namespace_may_look_like_a_number(tmp_path: Path) -> None:
    text = json.dumps(healthy()).replace('"namespace": "gpu-admission"', '"namespace": "123"')
    objects = json.loads(text.replace('"values": ["gpu-admission"', '"values": ["123"'))
    assert {each["state"] for each in checked(tmp_path, objects) if each["check"] == "webhooks"} == {"ok"}


def test_an_anonymous_snapshot_has_the_same_results_but_for_what_it_leaves_out(tmp_path: Path) -> None:
    file, hidden = write(tmp_path, *healthy(), kinds=(*KINDS, *QUESTIONS)), tmp_path / "hidden.json"
    assert call("snapshot", "--anonymous", hidden, "--from", file).exit_code == 0
    found = document("doctor", "--from", hidden)
    states = {each["check"]: each["state"] for each in found if each["state"] != "ok"}
    assert states == dict.fromkeys(("policy", "certificate", "descheduler"), "unknown"), found


def test_a_certificate_of_three_days_is_fine_on_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issue, "LEAF_LIFE", timedelta(days=3))
    assert {each["state"] for each in checked(tmp_path, installed())} == {"ok"}


def test_docs_and_readme_agree_with_the_checks() -> None:
    names = {"policy", *(check.name for check in CHECKS)}
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ", section("doctor"), re.MULTILINE)
    assert sorted(names) == sorted(re.findall(r"\w+", " ".join(rows)))
    oldest, newest = [f"{major}.{minor}" for major, minor in TESTED]
    assert f"{newest} and {oldest} (`make test`" in (MANIFESTS.parent / "README.md").read_text()
    assert {oldest, newest} == set(KUBERNETES)


def section(title: str) -> str:
    """A section of docs/documents.md."""
    return (MANIFESTS.parent / "docs" / "documents.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_what_is_unknown_for_one_reason_is_one_line(tmp_path: Path) -> None:
    """A tenant may list next to nothing."""
    file = write(tmp_path, kinds=["Pod"])
    states = [(each["state"], each["text"]) for each in document("doctor", "--from", file)]
    unknown = [text for state, text in states if state == "unknown"]
    printed = [line for line in call("doctor", "--from", file).stdout.splitlines() if line.startswith("unknown ")]
    assert len(printed) == len({*unknown}) < len(unknown)


def test_classes_are_not_compared_with_unknown_namespaces(tmp_path: Path) -> None:
    result = call("doctor", "--from", write(tmp_path, *CLUSTER, kinds=["Node", "Pod"]))
    assert "fits no pod" not in result.stdout
