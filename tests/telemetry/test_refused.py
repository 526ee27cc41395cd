"""Refused objects by namespace, with a bounded number of names."""

from webhook.kube.pod import PROFILE_LABEL
from webhook.nodes.rejections import OTHER
from webhook.telemetry.refused import MAX_NAMESPACES, Refused

IN = {PROFILE_LABEL: "default"}


def test_a_namespace_that_has_opted_in_is_counted_from_0_on() -> None:
    refused = Refused({"ours": IN, "plain": {}})
    assert refused.counts() == {OTHER: 0, "ours": 0}
    refused.add("ours")
    refused.add("ours")
    assert refused.counts() == {OTHER: 0, "ours": 2}


def test_names_that_are_none_and_those_that_have_not_opted_in_are_counted_together() -> None:
    refused = Refused({"ours": IN, "plain": {}})
    for name in ("plain", "forged", OTHER):
        refused.add(name)
    assert refused.counts() == {OTHER: 3, "ours": 0}


def test_there_are_no_more_than_50_names_and_one_that_is_gone_makes_room() -> None:
    namespaces = {f"team-{number:02}": IN for number in range(MAX_NAMESPACES + 2)}
    refused = Refused(namespaces)
    assert len(refused.counts()) == MAX_NAMESPACES + 1
    refused.add("team-51")
    assert refused.counts()[OTHER] == 1
    del namespaces["team-00"], namespaces["team-50"]
    assert refused.counts()["team-51"] == 0
    refused.add("team-51")
    assert (refused.counts()["team-51"], refused.counts()[OTHER]) == (1, 1)
