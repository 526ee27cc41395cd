"""Which policy is in force when one is applied, refused, written while no hook is asked, deleted, and put back."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, ApiError
from tests.controlplane.kinds import path
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import wait_for
from tests.installed import NAMESPACE, SHIPPED, Installed, decision
from webhook.policy.model import Policy
from webhook.policy.written_for import LINE as VERSION_LINE

pytestmark = pytest.mark.controlplane

NAME = "gpu-admission-policy"
BAD = SHIPPED.replace("\n    dryRun: false\n", "\n    dryRun: maybe\n").replace(
    "\n    placement:\n", "\n    placment:\n"
)
DRY_RUN = next(number for number, line in enumerate(BAD.splitlines(), 1) if line == "    dryRun: maybe")
PLACEMENT = next(number for number, line in enumerate(BAD.splitlines(), 1) if line == "    placment:")
PROBLEMS = [
    f'line {DRY_RUN}: profiles.default.dryRun: saw "maybe"; wanted true or false',
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


@pytest.fixture
def guarded(control_plane: ControlPlane, installed: Installed) -> Iterator[Guarded]:
    """The shipped policy is in force before and after."""
    found = Guarded(control_plane, installed)
    yield found
    installed.set_policy(SHIPPED)
    wait_for(found.is_valid, "the shipped policy to be in force again")


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


def test_a_config_map_of_a_mebibyte_is_taken_if_the_policy_in_it_is_not_that_large(guarded: Guarded) -> None:
    rest = (1 << 20) - len(SHIPPED) - len("policy.yaml") - len("notes")
    assert guarded.apply(SHIPPED, "--server-side", "--force-conflicts", "--dry-run=server", notes="x" * rest) == (0, "")
    status, said = guarded.apply("#" * (1 << 19), "--server-side", "--force-conflicts", "--dry-run=server")
    assert status == 1
    assert "the policy has 524288 bytes; wanted at most 131072" in said


# --- While pods are created -------------------------------------------------------------------------------------------


async def test_each_pod_is_decided_by_a_good_policy_while_others_come_and_go(
    guarded: Guarded, api: Api, team: str
) -> None:
    """Bad ones, also one that is stored since it may be for a later version, and one of nearly the largest size with nearly as
    many profiles as there may be. With `strict` two GPUs are too many."""
    strict = SHIPPED.replace("perContainer: 16", "perContainer: 1").replace("perPod: 16", "perPod: 1")
    folders = json.dumps([f"/data-{number}" for number in range(200)])
    large = SHIPPED + "".join(f"  p{n}: {{rules: {{hostDevices: {{allowed: {folders}}}}}}}\n" for n in range(30))
    of_later = BAD.replace(VERSION_LINE, "# For gpu-admission 99.0.0.")
    shipped, refuses, other = [Policy.load(text).hash for text in (SHIPPED, strict, large)]
    edits = asyncio.create_task(asyncio.to_thread(edited, guarded, [strict, BAD, large, of_later, SHIPPED] * 2))
    seen = set[tuple[str, bool]]()
    while not edits.done():
        seen.update(await asyncio.gather(*[created(api, pod("probe", 2), team) for _ in range(10)]))
    await edits
    assert seen <= {(shipped, True), (refuses, True), (other, True), (refuses, False)}, (
        "mutated by one, checked by the next"
    )
    wait_for(lambda: guarded.in_force() == shipped, "the last policy to be in force")
    assert guarded.is_valid()


def edited(guarded: Guarded, policies: list[str]) -> None:
    for text in policies:
        status, said = guarded.apply(text, "--server-side", "--force-conflicts")
        assert (status == 0) is (text != BAD), said


async def created(api: Api, made: dict[str, Any], namespace: str) -> tuple[str, bool]:
    """The hash of the policy that decided, and whether it allowed the pod."""
    try:
        return str(decision(await api.create(made, namespace, dryRun="All"))["policy"]), True
    except ApiError as error:
        return error.message.partition("(policy ")[2][:12], False


# --- Gone -------------------------------------------------------------------------------------------------------------


async def test_when_the_config_map_is_gone_the_last_good_policy_stays(guarded: Guarded, api: Api, team: str) -> None:
    before = guarded.in_force()
    guarded.plane.request("DELETE", path("ConfigMap", NAMESPACE, NAME))
    wait_for(lambda: not guarded.is_valid(), "the webhook to know")
    assert guarded.in_force() == before
    assert (await created(api, pod("probe"), team))[0] == before
