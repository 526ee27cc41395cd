"""docs/SKILL.md, which tells agents what to ask: each command in it runs, each word in it is in an answer."""

import re
from pathlib import Path

import orjson
import pytest

from tests.cli.objects import CLUSTER, OPTED_IN, call, write
from tests.controlplane.objects import pod

ROOT = Path(__file__).resolve().parent.parent
SKILL = (ROOT / "docs" / "SKILL.md").read_text()
ROWS = re.findall(r"^\| .+? \| `gpu-admission ([^`]+)` \| (.+?) \|$", SKILL, re.MULTILINE)


@pytest.mark.parametrize(("command", "reads"), ROWS, ids=[command for command, _ in ROWS])
def test_each_command_runs_and_its_answer_has_what_is_said(tmp_path: Path, command: str, reads: str) -> None:
    (tmp_path / "job.json").write_bytes(orjson.dumps(pod("new", 64)))
    line = command.replace("NAMESPACE", "team").replace("NAME", "waits").replace("FILE", str(tmp_path / "job.json"))
    file = [] if "--offline" in line else ["--from", write(tmp_path, *CLUSTER, OPTED_IN)]
    result = call(*line.split(), *file)
    assert result.exit_code < 2, result.output
    answer = result.stdout
    orjson.loads(answer)
    words = {word for name in re.findall(r"`([\w.\[\]]+)`", reads) for word in re.findall(r"[a-z]\w+", name)}
    assert [word for word in words - {"idle", "units", "nodes"} if f'"{word}"' not in answer] == []


def test_the_table_was_read() -> None:
    assert len(ROWS) == 7


def test_files_that_the_index_for_agents_names_exist() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "llms.txt").read_text())
    assert len(links) > 10
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []
