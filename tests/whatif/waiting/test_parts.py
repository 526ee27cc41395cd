"""Parts of GPUs by KAI: which GPU has room is what KAI decides, and `why` and `try` say so. All else is looked at."""

from pathlib import Path

import pytest
import yaml

from tests.cli.objects import Json, call, placed, snapshot, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod
from tests.devices.kai import KAI_SCHEDULER
from webhook.whatif.answers import answers
from webhook.whatif.offline import load_policy

HALF = {"gpu-fraction": "0.5"}
SEEN = placed(pod("seen", 0, **KAI_SCHEDULER), "a")
LOW = {"container": {"resources": {"requests": {"cpu": "200"}}}}


@pytest.mark.parametrize(
    ("more", "notes", "word", "text"),
    [
        pytest.param({}, HALF, "schedulerOther", "node a: whether a GPU has room for its part is what kai-scheduler decides", id="a part"),
        pytest.param({}, {"nvidia.com/container.main.gpu-memory.request": "8000Mi"}, "schedulerOther", "node a: whether", id="memory for one container"),
        pytest.param(LOW, HALF, "moreThanAnyNode", "asks for 200 cpu, and no node has more than 128", id="no node has the CPU"),
    ],
)  # fmt: skip
def test_why_a_part_waits(tmp_path: Path, more: Json, notes: dict[str, str], word: str, text: str) -> None:
    waits = placed(pod("waits", 0, annotations=notes, **KAI_SCHEDULER, **more), None)
    [answer] = answers(snapshot(tmp_path, SEEN, node("a", 2), node("cpu", 0), waits), load_policy(), None)
    assert (answer.causes[0].cause, answer.causes[0].text[: len(text)]) == (word, text)
    assert not any(cause.helps for cause in answer.causes)


def test_what_becomes_of_a_part_is_not_guessed(tmp_path: Path) -> None:
    manifest = tmp_path / "half.yaml"
    manifest.write_text(yaml.safe_dump(job("half", 2, 0, annotations=HALF, **KAI_SCHEDULER)))
    found = call("try", "-f", manifest, "-n", "team", "--from", write(tmp_path, SEEN, node("a", 2)))
    head = "team: job/half: 2 pods: changed; where they would start is not known"
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, head)
    assert "kai-scheduler gives parts of GPUs: whether it starts is what that decides" in found.stdout
