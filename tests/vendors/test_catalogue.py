"""The catalogue of vendors: every fact has a source, and stands once."""

from collections import Counter
from urllib.parse import urlsplit

import pytest

from webhook.vendors import VENDORS
from webhook.vendors.model import Vendor


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_every_fact_has_a_source(vendor: Vendor) -> None:
    for source, facts in vendor.facts.items():
        assert urlsplit(source)[:2] == ("https", urlsplit(source).hostname), source
        assert facts, f"nothing is from {source}"


def test_a_fact_stands_once() -> None:
    facts = Counter(fact for vendor in VENDORS for of_source in vendor.facts.values() for fact in of_source)
    assert [fact for fact, count in facts.items() if count > 1] == []
