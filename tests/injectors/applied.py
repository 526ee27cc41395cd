"""Checks for every injector: the patch applies, a second application changes nothing, only its own paths are touched."""

import copy
import re
from typing import Any

import jsonpatch
import orjson

from tests.builders import Case
from webhook.framework.interface import Injector, Outcome
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import Edit
from webhook.kube.pod import Pod


def applied(injector: Injector, case: Case, own: str) -> tuple[Pod, Outcome]:
    """The pod after an injector, and its outcome. `own`: a regular expression for the JSON pointers that it may change."""
    edit = Edit(copy.deepcopy(case.pod))
    outcome = injector.inject(edit, case.context)
    operations: list[dict[str, Any]] = orjson.loads(edit.patch())
    assert {o["op"] for o in operations} <= {"add", "replace", "remove"}
    assert [o["path"] for o in operations if not re.fullmatch(own, o["path"])] == []
    assert jsonpatch.apply_patch(case.pod, operations) == edit.object, "the patch describes the edits"
    again = Edit(copy.deepcopy(edit.object))
    injector.inject(again, case.context._replace(pod=AskedPod(again.object, case.context.gpus)))
    assert again.patch() == b"[]", "a second application changes nothing"
    return edit.object, outcome._replace(placement=None)


def unchanged(injector: Injector, case: Case) -> Outcome:
    """The outcome of an injector that must not change the pod."""
    pod, outcome = applied(injector, case, own="")
    assert pod == case.pod
    return outcome
