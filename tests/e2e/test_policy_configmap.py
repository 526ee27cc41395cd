"""Which policy is in force when one is applied, refused, written while no hook is asked, deleted, and put back."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.kinds import path
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.installed import NAMESPACE, SHIPPED, Installed, decision, settle
from tests.manifests.files import HOOKS

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
NAME = "gpu-admission-policy"
OTHER = "profiles: {default: {shadow: true}}\n"
BAD = SHIPPED.replace("\n    shadow: false\n", "\n    shadow: maybe\n").replace(
    "\n    placement:\n", "\n    placment:\n"
)
SHADOW = next(number for number, line in enumerate(BAD.splitlines(), 1) if line == "    shadow: maybe")
PLACEMENT = next(number for number, line in enumerate(BAD.splitlines(), 1) if line == "    placment:")
PROBLEMS = [
    f'line {SHADOW}: profiles.default.shadow: saw "maybe"; wanted true or false',
    f'line {PLACEMENT}: profiles.default.placment: unknown key; did you mean "placement"?',
]


def config_map(text: str, **more: str) -> str:
    found = made("ConfigMap", NAME, data={"policy.yaml": text, **more})
    return yaml.safe_dump(found | {"metadata": {"name": NAME, "namespace": NAMESPACE}})


class Guarded:
    """The policy of a running webhook, as its author sees it and as it decides."""

    def __init__(self, plane: ControlPlane, webhook: Installed) -> None:
        self.plane, self.webhook = plane, webhook

    def apply(self, text: str, *flags: str, **more: str) -> tuple[int, str]:
        """Exit status and stderr of `kubectl apply`."""
        answer = self.plane.kubectl("apply", *flags, "-f", "-", input=config_map(text, **more), check=False)
        return answer.returncode, answer.stderr

    def in_force(self) -> str:
        """The hash of the policy in force."""
        (name,) = [name for name in self.webhook.metrics() if name.startswith("gpu_admission_policy_info")]
        return name.split('"')[1]

    def is_valid(self) -> bool:
        return self.webhook.metrics()["gpu_admission_policy_valid"] == 1

    def errors(self) -> float:
        return self.webhook.metrics()["gpu_admission_policy_errors_total"]

    def events(self) -> list[Json]:
        events = json.loads(self.plane.request("GET", path("Event", NAMESPACE)))
        return [event for event in events["items"] if event["reason"] == "PolicyRefused"]


@pytest.fixture
def guarded(control_plane: ControlPlane, installed: Installed) -> Iterator[Guarded]:
    """The shipped policy is in force before and after."""
    found = Guarded(control_plane, installed)
    yield found
    installed.set_policy(SHIPPED)
    settle(found.is_valid, 120, "the shipped policy to be in force again")


@pytest.fixture
def unguarded(control_plane: ControlPlane, guarded: Guarded) -> Iterator[Guarded]:
    """During a test the API server does not ask about policies."""
    found = json.loads(control_plane.request("GET", path(HOOKS[1], name="gpu-admission")))
    (number,) = [i for i, hook in enumerate(found["webhooks"]) if hook["name"] == "policy.gpu-admission.io"]
    where = f"/webhooks/{number}/matchConditions/0/expression"

    def asks(expression: str) -> None:
        change = [{"op": "replace", "path": where, "value": expression}]
        control_plane.request("PATCH", path(HOOKS[1], name="gpu-admission"), change, "application/json-patch+json")

    asks("false")
    settle(lambda: guarded.apply(BAD, "--dry-run=server")[0] == 0, 120, "the guard to be away")
    yield guarded
    asks(found["webhooks"][number]["matchConditions"][0]["expression"])
    settle(lambda: guarded.apply(BAD, "--dry-run=server")[0] != 0, 120, "the guard to be back")


async def decided_by(api: Api, namespace: str) -> str:
    """The hash of the policy that decides about a pod now."""
    try:
        answer = await api.create(pod("probe"), namespace, dryRun="All")
    except ApiError as error:
        return error.message.partition("(policy ")[2][:12]
    return str(decision(answer)["policy"])


# --- At kubectl apply -------------------------------------------------------------------------------------------------


def test_a_bad_policy_is_refused_with_path_and_line_and_the_old_one_stays(guarded: Guarded) -> None:
    before = guarded.in_force()
    status, said = guarded.apply(BAD)
    assert status == 1
    assert said.strip().endswith(
        'admission webhook "policy.gpu-admission.io" denied the request: ConfigMap "gpu-admission-policy": '
        f"2 problems in policy.yaml; the policy in force stays:\n- {PROBLEMS[0]}\n- {PROBLEMS[1]}"
    )
    stored = guarded.plane.request("GET", path("ConfigMap", NAMESPACE, NAME))
    assert json.loads(stored)["data"]["policy.yaml"] == SHIPPED
    assert (guarded.in_force(), guarded.is_valid()) == (before, True)


def test_a_config_map_without_its_key_is_refused(guarded: Guarded) -> None:
    change = '{"data": {"policy.yaml": null, "policy.yml": "{}"}}'
    answer = guarded.plane.kubectl(
        "patch", "configmap", NAME, "-n", NAMESPACE, "--type=merge", f"--patch={change}", check=False
    )
    assert 'saw "policy.yml", wanted the key "policy.yaml" with the policy as text' in answer.stderr


def test_other_config_maps_are_nobodys_business(guarded: Guarded) -> None:
    guarded.plane.kubectl(
        "create", "configmap", "notes", "-n", NAMESPACE, "--from-literal=policy.yaml=[", "--dry-run=server"
    )


def test_a_good_policy_is_taken_and_its_author_told_what_the_cluster_lacks(guarded: Guarded) -> None:
    lacking = SHIPPED.replace("inference: gpu-inference\n", "inference: gpu-inferense\n")
    status, said = guarded.apply(lacking, "--dry-run=server")
    assert status == 0
    assert said.strip() == 'Warning: the cluster has no PriorityClass "gpu-inferense"; did you mean "gpu-inference"?'


def test_the_shipped_policy_is_taken_without_a_word(guarded: Guarded) -> None:
    assert guarded.apply(SHIPPED, "--dry-run=server") == (0, "")


def test_a_config_map_of_a_mebibyte_is_taken_if_the_policy_in_it_is_not_that_large(guarded: Guarded) -> None:
    rest = (1 << 20) - len(SHIPPED) - len("policy.yaml") - len("notes")
    assert guarded.apply(SHIPPED, "--server-side", "--force-conflicts", "--dry-run=server", notes="x" * rest) == (0, "")
    status, said = guarded.apply("#" * (1 << 19), "--server-side", "--force-conflicts", "--dry-run=server")
    assert status == 1
    assert "the policy has 524288 bytes; wanted at most 131072" in said


# --- Past the guard ---------------------------------------------------------------------------------------------------


async def test_a_bad_policy_that_got_in_is_told_of_and_not_used_and_the_next_good_one_is(
    unguarded: Guarded, api: Api, team: str
) -> None:
    before, errors, told = unguarded.in_force(), unguarded.errors(), len(unguarded.events())
    assert unguarded.apply(BAD)[0] == 0
    settle(lambda: unguarded.errors() > errors, 120, "the metric to rise")
    assert (unguarded.is_valid(), unguarded.in_force()) == (False, before)
    assert await decided_by(api, team) == before

    def newest() -> list[Json]:
        return unguarded.events()[told:]

    settle(lambda: len(newest()) == 1, 120, "the Event")
    (event,) = newest()
    assert event["involvedObject"]["name"] == NAME
    assert event["message"] == "the policy does not take effect; the last good one stays: " + "; ".join(PROBLEMS)

    assert unguarded.apply(OTHER)[0] == 0
    settle(unguarded.is_valid, 120, "the good policy to be in force")
    after = unguarded.in_force()
    assert after != before

    async def by_the_new_one() -> bool:  # under a profile in shadow nothing is written into a pod
        answer = await api.create(pod("probe"), team, dryRun="All")
        return not decision(answer)

    await wait_until(by_the_new_one, 120, "pods to be decided by the new policy")


# --- Gone -------------------------------------------------------------------------------------------------------------


async def test_when_the_config_map_is_gone_the_last_good_policy_stays(guarded: Guarded, api: Api, team: str) -> None:
    before = guarded.in_force()
    guarded.plane.request("DELETE", path("ConfigMap", NAMESPACE, NAME))
    settle(lambda: not guarded.is_valid(), 120, "the webhook to know")
    assert guarded.in_force() == before
    assert await decided_by(api, team) == before
