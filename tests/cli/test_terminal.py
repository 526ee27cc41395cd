"""Text that tenants wrote is printed safely, and tables stay aligned."""

import json
from pathlib import Path

import pytest
from rich.text import Text

from tests.cli import objects
from tests.cli.objects import CLUSTER, call, placed, unschedulable, write
from tests.controlplane.objects import pod
from webhook.cli.terminal import say, show, table
from webhook.cli.why import fix_line
from webhook.whatif.waiting.causes import Fix

RED, BACKWARDS, BELL = "\x1b[31m", "\u202e", "\x07"


@pytest.mark.parametrize("on_terminal", [False, True])
def test_escape_codes_are_not_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    for key, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb"}.items() if on_terminal else ():
        monkeypatch.setenv(key, value)
    evil = f"a{RED}b{BACKWARDS}c{BELL}d\x9b31m"
    table(["NAME", "WHAT"], [[evil, Text("fine")], ["two\nlines", 3]])
    show(Text(evil), Text("one\ntwo"))
    say(evil)
    printed = "".join(capsys.readouterr())
    assert not set(printed) & set("\x1b\u202e\x07\x9b")
    assert "two lines" in printed
    assert "one two" in printed


def test_columns_are_aligned_with_wide_and_combining_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME", "N"], [["模型", 1], ["cafe\u0301", 22]])
    assert capsys.readouterr().out == "NAME    N\n模型    1\ncafe\u0301   22\n"


def test_escape_codes_in_a_message_of_the_scheduler_are_not_printed(tmp_path: Path) -> None:
    waits = placed(pod("waits", 4), None, **unschedulable("0/4 nodes are available: \x1b[2J\x1b[1;1Hall is fine."))
    result = call("why", "--from", write(tmp_path, *CLUSTER[:4], waits))
    assert "\x1b" not in result.output


def test_a_long_message_of_the_scheduler_is_cut_off_in_the_table_only(tmp_path: Path) -> None:
    said = f"0/4 nodes are available: {'x' * 20_000}."
    cluster = write(tmp_path, *CLUSTER[:4], placed(pod("waits", 4), None, **unschedulable(said)))
    assert max(map(len, call("why", "--from", cluster).stdout.splitlines())) < 1100
    assert said in call("why", "--from", cluster, "-o", "json").stdout


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns without colours."""
    objects.terminal(monkeypatch, 40)


@pytest.mark.usefixtures("narrow")
def test_no_bold_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME"], [[Text("a", "bold green")]])
    show(Text("b", "bold"))
    assert capsys.readouterr().out == "NAME\na\nb\n"


@pytest.mark.parametrize("no_color", ["", "1"])
def test_messages_are_plain_without_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_color: str
) -> None:
    objects.terminal(monkeypatch, 40)
    monkeypatch.setenv("NO_COLOR", no_color)
    for style in ("dim", "red", "yellow"):
        say("all causes", style)
    assert ("\x1b" in capsys.readouterr().err) == (not no_color)


@pytest.mark.usefixtures("narrow")
def test_a_table_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table(["NAME", "BAR", "N", "WORD"], [["x" * 50, "y" * 9, 12, "z" * 9]], drop=["BAR", "WORD", "NONE"])
    assert capsys.readouterr().out.splitlines() == [f"NAME{' ' * 34} N".rstrip(), f"{'x' * 34}…   12"]


@pytest.mark.usefixtures("narrow")
def test_the_last_column_goes_below_and_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    table(["POD", "SINCE", "FIX"], [["x" * 12, "45s", "fix " * 12]], last_below=True, drop=["SINCE"])
    fixes = [f"    {'fix ' * 7}fix", "      fix fix fix fix"]
    assert capsys.readouterr().out.splitlines() == [f"POD{' ' * 12}SINCE", f"{'x' * 12}   45s", *fixes]


@pytest.mark.usefixtures("narrow")
def test_a_long_line_goes_on_indented(capsys: pytest.CaptureFixture[str]) -> None:
    show(Text("    → " + "word " * 20 + "end"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert [line[:7] for line in lines[:2]] == ["    → w", "      w"]
    assert " ".join(" ".join(lines).split()) == "→ " + "word " * 20 + "end"


def test_json_shows_no_character_that_turns_the_direction_of_writing(tmp_path: Path) -> None:
    turned = placed(pod("waits", 8), None, **unschedulable("0/1 nodes: \u202etxt\U000e0001"))
    printed = call("why", "--from", write(tmp_path, *CLUSTER[:1], turned), "-o", "json").stdout
    assert printed.isascii() or printed.replace("\n", "").isprintable()
    assert json.loads(printed)["items"][0]["schedulerSays"] == "0/1 nodes: \u202etxt\U000e0001"


def test_what_is_written_is_for_its_owner_only(tmp_path: Path) -> None:
    (page := tmp_path / "page.html").write_text("of somebody else")
    page.chmod(0o644)
    call("ui", "--html", page, "--from", write(tmp_path, *CLUSTER))
    assert page.stat().st_mode & 0o777 == 0o600


def test_a_kubeconfig_that_is_no_yaml_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a: [")
    result = call("why", "--kubeconfig", tmp_path / "config")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: --kubeconfig {tmp_path}/config: while parsing")


WORDS = "none of the nodes that the pod selects by nodeSelector example.com/a-label-with-a-long-name=value could take it now"


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("printed", ["show", "say"])
def test_no_word_is_broken(capsys: pytest.CaptureFixture[str], printed: str) -> None:
    if printed == "show":
        show(Text(f"  {WORDS}"))
    else:
        say(f"  {WORDS}", "dim")
    said = capsys.readouterr()
    lines = [line.strip() for line in (said.out + said.err).splitlines()]
    assert len(lines) > 3
    assert " ".join(lines) == WORDS
    assert {word for line in lines for word in line.split()} == {*WORDS.split()}


@pytest.mark.usefixtures("narrow")
def test_a_command_has_a_line_of_its_own_which_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("kubectl", "describe", "pod", "a-name-of-some-length", "-n", "team")
    show(fix_line("    → ", Fix("see what its kubelet says", command)))
    assert capsys.readouterr().out == (
        "    → see what its kubelet says:\n      kubectl describe pod a-name-of-some-length -n team\n"
    )
