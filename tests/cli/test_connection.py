"""`--as`, `--as-group`, `--token` and `--request-timeout`, as kubectl takes them."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.objects import CLUSTER, call, kubeconfig, write
from tests.feeds.fake_api import fake_api


async def test_each_request_is_of_whom_the_options_say(tmp_path: Path) -> None:
    given = ["--as", "mia", "--as-group", "team", "--as-group", "dev", "--token", "x", "--request-timeout", "20s"]
    of_mia = [("Impersonate-User", "mia"), ("Impersonate-Group", "team"), ("Impersonate-Group", "dev")]
    async with fake_api() as fake:
        file = kubeconfig(tmp_path, fake.url)
        result = await asyncio.to_thread(call, "why", "--kubeconfig", file, *given)
        assert result.exit_code == 0, result.output
        assert set(fake.tokens) == {"Bearer x"}
        assert all(each == of_mia for each in fake.impersonated)
        fake.tokens.clear(), fake.impersonated.clear()
        await asyncio.to_thread(call, "why", "--kubeconfig", file)
        assert set(fake.tokens) == {"Bearer abc"}
        assert not any(fake.impersonated)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--as-group", "team"], "saw --as-group without --as, wanted both", id="a group of nobody"),
        pytest.param(["--request-timeout", "soon"], '--request-timeout: saw "soon", wanted a time, for example 30s or 1m', id="no time"),
    ],
)  # fmt: skip
def test_wrong_options_say_what_is_wanted(tmp_path: Path, options: list[str], said: str) -> None:
    result = call("why", "--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"), *options)
    assert (result.exit_code, said in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        pytest.param(["why", "-n", "team"], ["pod/waits"], id="pods that wait"),
        pytest.param(["top"], ["node/gpu-a", "node/gpu-b", "node/gpu-c"], id="nodes"),
        pytest.param(["top", "namespaces"], ["namespace/team"], id="namespaces"),
        pytest.param(["top", "workloads"], ["pod/trainer"], id="workloads"),
    ],
)
def test_the_names_alone_are_as_kubectl_takes_them(tmp_path: Path, arguments: list[str], lines: list[str]) -> None:
    assert call(*arguments, "-o", "name", "--from", write(tmp_path, *CLUSTER)).stdout.splitlines() == lines


def test_a_table_without_its_titles(tmp_path: Path) -> None:
    file = write(tmp_path, *CLUSTER)
    title, *rows = call("why", "--from", file).stdout.splitlines()
    assert title.startswith("POD ")
    assert call("why", "--no-headers", "--from", file).stdout.splitlines() == rows
    assert call("why", "--from", file).stdout.splitlines() == [title, *rows], "it is of one command"


def test_what_has_no_names_says_so() -> None:
    result = call("doctor", "-o", "name", "--from", "-", stdin=b'{"kind": "List", "apiVersion": "v1", "items": []}')
    assert "-o name: this answer is not about objects with names" in result.stderr
