"""The log: one JSON line for each event, whatever a tenant writes, and no secrets of tenants."""

import io
import logging
from functools import partial
from typing import Any

import orjson
import pytest

from tests.builders import request
from webhook.admission.decision import Decision
from webhook.errors import BadReview
from webhook.server.process import Recorder
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

SECRET = "canary-4b1d"
POD: dict[str, Any] = {
    "metadata": {"generateName": "web-", "annotations": {"note": SECRET}},
    "spec": {"containers": [{"name": "c", "env": [{"name": "PASSWORD", "value": SECRET}]}]},
}


def line(decision: Decision, **changes: Any) -> Any:
    (text,) = lines(decision, **changes)
    return orjson.loads(text)


def lines(decision: Decision, **changes: Any) -> list[bytes]:
    out = io.BytesIO()
    Recorder(Metrics(), logs.configure(out)).decided(
        "mutate", request(POD, **{"namespace": "team", "generated": "web-", **changes}), decision, 0.000123
    )
    return out.getvalue().splitlines()


def test_a_decision_is_one_line_with_the_fields_to_find_it() -> None:
    record = '{"policy":"1f0c","units":{}}'
    logged = line(Decision("patched", "default", "inference", "1f0c", record=record))
    assert logged.pop("time").endswith("Z")
    assert logged == {
        "level": "info",
        "event": "patched",
        "hook": "mutate",
        "uid": "u-1",
        "namespace": "team",
        "pod": "web-*",
        "profile": "default",
        "class": "inference",
        "policy": "1f0c",
        "us": 123,
        "record": {"policy": "1f0c", "units": {}},
    }


def test_the_record_is_left_out_if_the_pod_gets_it() -> None:
    assert "record" not in line(Decision("patched", patch=b"[]", record="{}"))
    assert line(Decision("dryRun", record="{}"))["record"] == {}


def test_an_ignored_request_is_not_logged() -> None:
    assert lines(Decision("ignored")) == []


def test_a_dry_run_is_marked() -> None:
    assert line(Decision("patched"), dry_run=True)["dryRun"] is True
    assert "dryRun" not in line(Decision("patched"))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a\nb", id="newline"),
        pytest.param('a"}\n{"level":"error"', id="forged"),
        pytest.param("a\x1b[31m", id="escape"),
        pytest.param("\u2028", id="separator"),
        pytest.param("ä" * 300, id="long"),
    ],
)
def test_a_name_cannot_end_a_line_or_forge_one(name: str) -> None:
    logged = line(Decision("patched"), name=name, namespace=name)
    assert (logged["pod"], logged["namespace"]) == (name, name)


def test_of_the_pod_only_its_name_is_in_the_log() -> None:
    assert SECRET not in str(line(Decision("patched", message=SECRET, patch=SECRET.encode(), warnings=(SECRET,))))


def test_an_exception_is_logged_by_type_and_place_without_its_text() -> None:
    out = io.BytesIO()
    log = logs.configure(out)
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        log.error("task crashed", **logs.cause(error))
    logged = orjson.loads(out.getvalue())
    assert logged["error"] == "ValueError"
    assert logged["trace"][-1].startswith("test_logs.py:") or "test_logs.py:" in logged["trace"][-1]
    assert SECRET not in out.getvalue().decode()


def test_other_libraries_log_the_same_json_with_bounded_messages() -> None:
    out = io.BytesIO()
    logs.configure(out)
    logging.getLogger("asyncio").error("task %s\nfailed", "x" * 10_000)
    try:
        raise KeyError(SECRET)
    except KeyError:
        logging.getLogger("aiohttp.server").exception("Unhandled")
    logging.getLogger("aiohttp.access").info("not worth a line")
    first, second = (orjson.loads(one) for one in out.getvalue().splitlines())
    assert (first["level"], first["source"], len(first["event"])) == ("error", "asyncio", 500)
    assert (second["event"], second["error"]) == ("Unhandled", "KeyError")
    assert SECRET not in out.getvalue().decode()


def test_a_very_long_name_is_cut() -> None:
    logged = line(Decision("allowed"), name="x" * 1_000_000, namespace="y" * 1_000_000)
    assert len(logged["pod"]) + len(logged["namespace"]) <= 1000


def test_the_lines_per_second_are_limited_and_the_others_are_counted() -> None:
    out, now = io.BytesIO(), [5.0]
    limit = logs.LineLimit(logs.configure(out), "bad reviews", 10, lambda: now[0])
    assert [limit.allowed() for _ in range(12)] == [True] * 10 + [False] * 2
    now[0] = 6.2
    assert limit.allowed()
    (logged,) = (orjson.loads(one) for one in out.getvalue().splitlines())
    assert (logged["event"], logged["what"], logged["count"]) == ("lines left out", "bad reviews", 2)


def test_a_stranger_cannot_fill_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """All within one second."""
    monkeypatch.setattr(logs, "LineLimit", partial(logs.LineLimit, clock=lambda: 5.0))
    out = io.BytesIO()
    recorder = Recorder(Metrics(), logs.configure(out))
    for _ in range(5000):
        recorder.bad_review("mutate", BadReview("request: wanted an object"))
        recorder.decided("mutate", request(POD), Decision("allowed"), 0.1)
    assert out.getvalue().count(b"\n") == 2000 + 10
