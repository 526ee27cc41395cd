"""`--as`, `--as-group`, `--token` and `--request-timeout`, as kubectl takes them."""

import asyncio
from pathlib import Path

import pytest

from tests.cli.objects import call, kubeconfig
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
