"""Shell completion through kubectl."""

import sys

import pytest

from webhook.cli.completion import main


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(["wh"], ["why", ":0"], id="a command"),
        pytest.param(["top", "--wat"], ["--watch", ":0"], id="an option"),
        pytest.param(["top", "-o", ""], ["table", "wide", "json", "yaml", "name", "jsonpath=", ":0"], id="a choice"),
        pytest.param(["policy", "lint", ""], [":0"], id="a file, which the shell completes"),
    ],
)
def test_completions(
    given: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-gpu", *given])
    for name in ("_GPU_ADMISSION_COMPLETE", "COMP_WORDS", "COMP_CWORD"):
        monkeypatch.setenv(name, "")
    main()
    assert capsys.readouterr().out.split() == words
