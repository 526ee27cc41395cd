"""Which policy is in force when one is applied, refused, written while no hook is asked, deleted, and put back."""

import json
from collections.abc import Iterator

import pytest
import yaml

from tests.controlplane.api import Api, ApiError
from tests.controlplane.kinds import path
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import wait_for
from tests.installed import NAMESPACE, SHIPPED, Installed, decision

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


def test_a_config_map_of_a_mebibyte_is_taken_if_the_policy_in_it_is_not_that_large(guarded: Guarded) -> None:
    rest = (1 << 20) - len(SHIPPED) - len("policy.yaml") - len("notes")
    assert guarded.apply(SHIPPED, "--server-side", "--force-conflicts", "--dry-run=server", notes="x" * rest) == (0, "")
    status, said = guarded.apply("#" * (1 << 19), "--server-side", "--force-conflicts", "--dry-run=server")
    assert status == 1
    assert "the policy has 524288 bytes; wanted at most 131072" in said


# --- Gone -------------------------------------------------------------------------------------------------------------


async def test_when_the_config_map_is_gone_the_last_good_policy_stays(guarded: Guarded, api: Api, team: str) -> None:
    before = guarded.in_force()
    guarded.plane.request("DELETE", path("ConfigMap", NAMESPACE, NAME))
    wait_for(lambda: not guarded.is_valid(), "the webhook to know")
    assert guarded.in_force() == before
    assert await decided_by(api, team) == before
