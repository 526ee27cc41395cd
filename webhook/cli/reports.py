"""What was tried as documents that CI systems read: JUnit XML, and SARIF 2.1.0."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import orjson

from webhook.admission.words import finding_line
from webhook.whatif.tried import Outcome, Tried

_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"deny": "error", "warn": "warning"}


def junit_xml(suites: Mapping[str, Iterable[tuple[str, str, str]]]) -> str:
    """A JUnit report. `suites`: by file, of each case its name, why it failed, and why it could not be tried; "" if not."""
    root = Element("testsuites")
    for file, cases in suites.items():
        suite, failures, errors, number = SubElement(root, "testsuite", {"name": _plain(file)}), 0, 0, 0
        for name, failure, error in cases:
            case = SubElement(suite, "testcase", {"classname": _plain(file), "name": _plain(name)})
            number, failures, errors = number + 1, failures + bool(failure), errors + bool(error)
            for tag, text in (("failure", failure), ("error", error)):
                if text:
                    SubElement(case, tag, {"message": _plain(text).partition("\n")[0]}).text = _plain(text)
        for key, count in (("tests", number), ("failures", failures), ("errors", errors)):
            suite.set(key, str(count))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}'


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


def _failure(tried: Tried) -> str:
    if tried.refused:
        return tried.verdict.message
    return (
        f"{len(tried.waiting)} would wait: {'; '.join(cause.text for cause in tried.causes[:3])}"
        if tried.waiting
        else ""
    )


def _file(where: str) -> str:
    return where.rpartition(": document ")[0] or where


def junit(outcome: Outcome) -> str:
    suites: dict[str, list[tuple[str, str, str]]] = {}
    for each in outcome.tried:
        suites.setdefault(_file(each.plan.document.where), []).append((each.plan.title, _failure(each), ""))
    for error in outcome.errors:
        where, _, why = str(error).partition(": document ")
        suites.setdefault(where, []).append((f"document {why.partition(':')[0]}", "", str(error)))
    return junit_xml(suites)


def sarif(outcome: Outcome) -> str:
    results: list[dict[str, Any]] = []
    for each in outcome.tried:
        findings = each.verdict.validated.findings or ()
        for unit, action, finding in findings:
            results.append(_result(unit, _LEVELS.get(action, "note"), finding_line(unit, finding), each))
        if each.waiting:
            results.append(_result("wouldWait", "error", _failure(each), each))
    rules = [{"id": name} for name in sorted({each["ruleId"] for each in results})]
    run = {"tool": {"driver": {"name": "gpu-admission", "rules": rules}}, "results": results}
    return orjson.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, option=orjson.OPT_INDENT_2).decode()


def _result(rule: str, level: str, text: str, tried: Tried) -> dict[str, Any]:
    where = {"physicalLocation": {"artifactLocation": {"uri": _file(tried.plan.document.where)}}}
    message = {"text": f"{tried.plan.title}: {text}"}
    return {"ruleId": rule, "level": level, "message": message, "locations": [where]}


REPORTS: Final[Mapping[str, Callable[[Outcome], str]]] = {"junit": junit, "sarif": sarif}
"""What `try -o` takes besides documents of its own."""
