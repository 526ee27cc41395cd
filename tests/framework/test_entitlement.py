"""Which namespaces a list of name patterns and labels is for. In CEL: `tests/export/`."""

import pytest

from webhook.framework.entitlement import covers, described

ROWS = [
    ((), False, "no namespace of a tenant"),
    (("prod",), False, "namespaces prod"),
    (("team-*", "prod"), True, "namespaces team-*, prod"),
    (("a.b/c",), True, "namespaces with the label a.b/c"),
    (("a.b/d",), False, "namespaces with the label a.b/d"),
    (("prod", "a.b/d", "a.b/c"), True, "namespaces prod, or those with the label a.b/d, a.b/c"),
]


@pytest.mark.parametrize(("entries", "covered", "words"), ROWS)
def test_the_entries_are_for(entries: tuple[str, ...], covered: bool, words: str) -> None:
    assert covers(entries, "team-a", {"a.b/c": ""}) is covered
    assert described(entries) == words
