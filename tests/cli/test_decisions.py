"""What `mutate` and `validate` print on stdout and stderr."""

import json
from typing import Any

import yaml

from tests.builders import GPU, admission_review, container
from tests.cli.given import BAD, CONFLICT, GOOD, PLAIN, SERVICE, TRAINING
from tests.cli.objects import call
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, pod
from webhook.kube.pod import DECISION

# --- what is printed --------------------------------------------------------------------------------------------------


def test_objects_that_create_no_pods_are_printed_unchanged_and_named_once(file: Any) -> None:
    result = call("mutate", file(SERVICE, GOOD, SERVICE))
    printed = list(yaml.safe_load_all(result.stdout))
    assert [p["kind"] for p in printed] == ["Service", "Pod", "Service"]
    assert printed[0] == printed[2] == SERVICE
    assert result.stderr.splitlines()[-1].endswith(
        'pods.yaml: left as they are, being neither pods nor workloads that the policy knows: "Service"'
    )


def test_of_a_workload_it_says_what_its_pods_will_get(file: Any) -> None:
    result = call("mutate", file(deployment("chat")))
    assert yaml.safe_load(result.stdout) == deployment("chat")
    assert result.stderr.endswith(
        "document 1: its pods get tolerations when they are created, not the deployment/chat\n"
    )


def test_a_workload_that_the_policy_names_is_one(file: Any) -> None:
    said = call("mutate", file(TRAINING)).stderr
    assert "left as they are" not in said
    assert said.endswith("document 1: its pods get tolerations when they are created, not the pytorchjob/t\n")


def test_of_a_workload_that_is_refused_it_says_nothing_of_pods(file: Any) -> None:
    assert (
        "its pods" not in call("mutate", file(deployment("chat", container=CONFLICT["spec"]["containers"][0]))).stderr
    )


def test_a_malformed_template_hides_no_other_document(file: Any) -> None:
    bad = deployment("bad", container={"resources": []})
    cluster = file({"kind": "Namespace", "metadata": {"name": "default"}}, name="cluster.yaml")
    for command in ("mutate", "validate"):
        result = call(command, file(bad, GOOD), "--cluster", cluster, "-o", "yaml")
        assert (result.exit_code, yaml.safe_load(result.stdout)["metadata"]["name"]) == (2, "trainer")
        assert "document 1: spec.containers[0].resources: wanted a map, saw a list" in result.stderr


def test_printed_yaml_can_be_read_again(file: Any) -> None:
    result = call("mutate", file(GOOD, PLAIN, CONFLICT, GOOD))
    printed = list(yaml.safe_load_all(result.stdout))
    assert [p["metadata"]["name"] for p in printed] == ["trainer", "plain", "trainer"], "a refused pod is not printed"
    assert printed[1] == PLAIN
    assert printed[0]["spec"]["containers"][0]["resources"] == {"limits": {GPU: 1}, "requests": {GPU: 1}}
    assert list(printed[0]) == ["apiVersion", "kind", "metadata", "spec"], "fields keep their order"
    assert call("mutate", "-", stdin=result.stdout).stdout == result.stdout, "a mutated pod is not changed again"


def test_json_is_one_pod_a_line_and_can_be_read_again(file: Any) -> None:
    result = call("mutate", file(GOOD, PLAIN), "-o", "json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert (first["metadata"]["name"], second) == ("trainer", PLAIN)
    assert call("validate", "-", stdin=result.stdout).exit_code == 0


def test_patches_are_one_a_line(file: Any) -> None:
    result = call("mutate", file(GOOD, PLAIN), "-o", "patch")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first[0]["path"] == "/spec/tolerations", "the API server fills in the request by itself"
    assert second == []


def test_reviews_are_one_a_line_including_refused_ones(file: Any) -> None:
    result = call("mutate", file(admission_review(GOOD), CONFLICT), "-o", "review")
    first, second = (json.loads(line)["response"] for line in result.stdout.splitlines())
    assert (first["uid"], first["allowed"], first["patchType"]) == ("u-1", True, "JSONPatch")
    assert (second["allowed"], second["status"]["code"]) == (False, 403)
    assert result.exit_code == 1


def test_validation_prints_nothing_unless_it_is_asked_to(file: Any) -> None:
    path = file(GOOD, BAD)
    assert call("validate", path).stdout == ""
    printed = call("validate", path, "-o", "yaml").stdout
    (shown,) = yaml.safe_load_all(printed)
    assert shown["spec"]["containers"][0].pop("resources") == {"limits": {GPU: 1}, "requests": {GPU: 1}}
    assert shown["spec"]["containers"][0].keys() == {"name", "image"}
    answers = [
        json.loads(line)["response"]["allowed"] for line in call("validate", path, "-o", "review").stdout.splitlines()
    ]
    assert answers == [True, False]


def test_findings_go_to_stderr_with_the_place_of_the_pod(file: Any) -> None:
    path = file(GOOD, BAD, CONFLICT)
    result = call("validate", path)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if "refused: " in line]
    assert lines[0].startswith(f'{path}: document 2: refused: pod "greedy": ')
    assert lines[1].startswith(f'{path}: document 3: refused: pod "two": ')


def test_markup_and_emoji_codes_in_text_are_printed_unchanged(file: Any) -> None:
    odd = pod(containers=[container("a", gpu=64)], name="[red]x[/red]:smile:")
    result = call("validate", file(odd))
    assert 'pod "[red]x[/red]:smile:"' in result.stderr


def test_a_long_finding_stays_one_line(file: Any) -> None:
    result = call("validate", file(pod(containers=[container("x" * 300, gpu=64)], name="y" * 300)))
    assert max(map(len, result.stderr.splitlines())) > 200


# --- cluster and policy -----------------------------------------------------------------------------------------------


def test_with_a_cluster_a_node_is_chosen(file: Any) -> None:
    made = {"kind": "List", "items": [{"kind": "Node", "apiVersion": "v1", **node("gpu-a1")}]}
    for form in ("yaml", "json"):
        cluster = file(made, name=f"cluster.{form}", form=form)
        result = call("mutate", file(GOOD), "--cluster", cluster, "-o", "json")
        record = json.loads(json.loads(result.stdout)["metadata"]["annotations"][DECISION])
        assert record["nodes"][0][:3] == ["gpu-a1", 8, 0]


def test_a_policy_in_the_file_of_the_cluster_decides_as_for_other_commands(file: Any) -> None:
    metadata = {"name": "gpu-admission-policy", "namespace": "gpu-admission"}
    data = {"policy.yaml": "profiles: {default: {rules: {gpuLimit: {perContainer: 1}}}}"}
    items = [{"kind": "Node", **node("gpu-a1")}, {"kind": "ConfigMap", "metadata": metadata, "data": data}]
    arguments = [file(pod(gpus=2)), "--cluster", file({"kind": "List", "items": items}, name="cluster.yaml")]
    assert "[gpuLimit]" in call("validate", *arguments).stderr
    assert call("validate", *arguments, "--policy", "default").exit_code == 0


def test_in_shadow_mode_a_message_says_what_would_be_refused(file: Any) -> None:
    shadow = file({"profiles": {"default": {"shadow": True}}}, name="policy.yaml")
    result = call("validate", file(BAD), "--policy", shadow)
    assert result.exit_code == 0
    assert ": would be refused (shadow): " in result.stderr


def test_a_bad_policy_is_status_2_with_every_problem_on_its_line(file: Any) -> None:
    bad = file({"gpu": [], "profiles": {"default": {"shadow": "maybe"}}}, name="policy.yaml")
    result = call("mutate", file(GOOD), "--policy", bad)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert sorted(result.stderr.splitlines()) == [
        f'{bad}: line 1: gpu: unknown key; did you mean "gpus"?',
        f'{bad}: line 4: profiles.default.shadow: saw "maybe"; wanted true or false',
    ]


def test_a_workload_with_pods_that_would_be_refused_has_status_1_and_an_invalid_workload_is_refused(file: Any) -> None:
    result = call("validate", file(deployment("a", hostPID=True)))
    assert result.exit_code == 1
    assert "its pods will be refused: spec.template.spec.hostPID" in result.stderr
    half = deployment("a", container={"resources": {"limits": {GPU: "500m"}}}, hostPID=True)
    result = call("validate", file(half))
    assert result.exit_code == 1
    assert 'document 1: refused: Deployment "a": 2 problems' in result.stderr
