"""What of CEL is told, that it is what Google's CEL says, and that nothing costs more than is known before.

Covers kube.device_expressions, kube.device_tokens, kube.device_tree.
"""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.hostile_cel import EXPRESSIONS
from tests.effort import counted
from tests.kube import google_cel
from webhook.kube.device_functions import Version
from webhook.kube.device_selectors import Selector, Work
from webhook.kube.device_tokens import tokens
from webhook.kube.device_tree import MAX_LIST, Facts

DOMAINS = ("gpu.x", "y")
FULL = Facts(
    "gpu.nvidia.com",
    {
        "gpu.nvidia.com/productName": "a" * 250,
        "gpu.nvidia.com/links": tuple(["a" * 250] * MAX_LIST),
        "gpu.nvidia.com/version": Version("1.0.0"),
    },
    {"gpu.nvidia.com/memory": 80 << 30},
)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_expression_costs_much(name: str) -> None:
    """Reading one and deciding about one device takes 40,000 calls of functions at most, some 5 ms, and 2 MiB."""
    tracemalloc.start()
    try:
        with counted() as calls:
            Selector(EXPRESSIONS[name]).matches(FULL, Work(20_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert calls.count < 40_000
    assert peak < 2 << 20


PUBLISHED = {
    "a star in a plus", "stars in stars", "every place is reached", "a loop over a loop", "a loop with much in it", "many ors",
    "many domains", "spaces", "a quantity with a large exponent", "a version of many parts", "negations", "a NUL",
}  # fmt: skip


def test_what_copies_or_grows_is_not_told() -> None:
    told = {name for name, text in EXPRESSIONS.items() if Selector(text).read() is not None}
    assert told >= PUBLISHED
    assert told.isdisjoint(list(EXPRESSIONS)[:1])
    for word in (
        "optMap",
        "optFlatMap",
        "replace",
        "join",
        "format",
        "split",
        "map(",
        "filter",
        "b'",
        "{1",
        '{"',
        "timestamp",
    ):
        among = [name for name, text in EXPRESSIONS.items() if word in text]
        assert among, word
        assert told.isdisjoint(among), word
    assert told.isdisjoint([name for name in EXPRESSIONS if "loops" in name])


# --- random expressions and devices -----------------------------------------------------------------------------------

NAMES: dict[str, list[str]] = {"str": ["s", "t"], "int": ["i", "j"], "bool": ["b"], "version": ["v"], "list": ["l"]}
TEXTS = st.sampled_from(["", "a", "A", "ab", "gpu", "é", "h100", "1Gi", "1.0.0", "v1"])
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))
VERSIONS = st.sampled_from(["1.0.0", "1.0.0-rc.1", "1.0.0-rc.10", "2.1.0+b", "1.10.0"])
BODIES = ["x == 'a'", "x > 'a'", "x.size() / 0 == 1 || x == 'a'"]
QUANTITIES = st.sampled_from(["1", "1500m", "1Gi", "80Gi", "-1", "1e3", "0.5"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXTS,
    "int": NUMBERS,
    "bool": st.booleans(),
    "version": VERSIONS.map(Version),
    "list": st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
}


def devices(mixed: bool) -> st.SearchStrategy[Facts]:
    """`mixed`: an attribute may be of any type."""
    anything = st.one_of(*VALUES.values())
    attributes = {
        f"{domain}/{name}": anything if mixed else VALUES[kind]
        for kind, names in NAMES.items()
        for name in names
        for domain in DOMAINS
    }
    capacity = {f"{domain}/{name}": st.sampled_from([0, 1, 1 << 30, 80 << 30]) for name in "mn" for domain in DOMAINS}
    return st.builds(
        Facts,
        st.sampled_from(DOMAINS),
        st.fixed_dictionaries({}, optional=attributes),
        st.fixed_dictionaries({}, optional=capacity),
        st.booleans(),
    )


def formatted(pattern: str, *of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*of).map(lambda found: pattern.format(*found))


def attribute(kind: str) -> st.SearchStrategy[str]:
    where = st.sampled_from([f'device.attributes["{domain}"]' for domain in DOMAINS])
    name = st.sampled_from(NAMES[kind])
    return st.one_of(formatted("{}.{}", where, name), formatted('{}["{}"]', where, name))


def quoted(of: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return of.flatmap(lambda text: st.sampled_from([f'"{text}"', f"'{text}'"]))


@st.composite
def expressions(draw: st.DrawFn, kind: str = "bool", depth: int = 3) -> str:
    """A random expression of a type."""

    def of(kind: str) -> st.SearchStrategy[str]:
        return expressions(kind, depth - 1)

    leaves: dict[str, list[st.SearchStrategy[str]]] = {
        "str": [attribute("str"), quoted(TEXTS), st.just("device.driver")],
        "int": [attribute("int"), NUMBERS.map(str)],
        "bool": [attribute("bool"), st.sampled_from(["true", "false", "device.allowMultipleAllocations"])],
        "version": [
            attribute("version"),
            formatted("semver({})", quoted(VERSIONS)),
            formatted("semver({}, true)", quoted(TEXTS)),
        ],
        "list": [attribute("list"), formatted("[{}, {}]", quoted(TEXTS), quoted(TEXTS))],
        "quantity": [
            formatted("quantity({})", quoted(QUANTITIES)),
            formatted("device.capacity[{}].{}", st.sampled_from(['"gpu.x"', "'y'"]), st.sampled_from("mn")),
        ],
    }
    if depth <= 0:
        return draw(st.one_of(*leaves[kind]))
    same = st.sampled_from(["str", "int", "bool", "version", "list"])
    optional = formatted(
        "device.attributes[{}{}].?{}", st.sampled_from(["", "?"]), st.sampled_from(['"y"', '"gpu.x"']), st.just("s")
    )
    inner: dict[str, list[st.SearchStrategy[str]]] = {
        "str": [
            formatted("{}.{}Ascii()", of("str"), st.sampled_from(["lower", "upper"])),
            formatted("{}.orValue({})", optional, of("str")),
        ],
        "int": [
            formatted("({} {} {})", of("int"), st.sampled_from("+-*/%"), of("int")),
            formatted("size({})", of("str")), formatted("{}.size()", of("list")), formatted("-{}", attribute("int")),
            formatted("{}.compareTo({})", of("quantity"), of("quantity")),
            formatted("{}.{}()", of("version"), st.sampled_from(["major", "minor", "patch"])),
            formatted("{}.{}()", of("quantity"), st.sampled_from(["sign", "asInteger"])),
        ],
        "bool": [
            formatted("({} && {})", of("bool"), of("bool")), formatted("({} || {} || {})", of("bool"), of("bool"), of("bool")),
            formatted("!{}", of("bool")), formatted("({} ? {} : {})", of("bool"), of("bool"), of("bool")),
            same.flatmap(lambda kind: formatted("({} {} {})", of(kind), st.sampled_from(["==", "!="]), of(kind))),
            formatted("({} == {})", *[expressions("quantity", 0)] * 2),
            formatted("({} {} {})", of("int"), st.sampled_from(["<", "<=", ">", ">="]), of("int")),
            formatted("({} {} {})", of("str"), st.sampled_from(["<", "<=", ">", ">="]), of("str")),
            formatted("{}.{}({})", of("str"), st.sampled_from(["startsWith", "endsWith", "contains"]), of("str")),
            formatted("{}.matches({})", of("str"), st.sampled_from(['"^a"', '"b$"', '"h1|g"', '"[a-f]+$"'])),
            formatted("({} in {})", of("str"), of("list")), formatted("{}.hasValue()", optional),
            formatted("{}.{}(x, {})", of("list"), st.sampled_from(["all", "exists"]), st.sampled_from(BODIES)),
            formatted("has(device.attributes['y'].{})", st.sampled_from("stijbvl")),
            formatted("{}.{}({})", of("version"), st.sampled_from(["isLessThan", "isGreaterThan"]), of("version")),
            formatted("{}.{}({})", of("quantity"), st.sampled_from(["isLessThan", "isGreaterThan"]), of("quantity")),
            formatted("is{}({})", st.sampled_from(["Quantity", "Semver"]), of("str")),
            formatted("cel.bind(g, device.attributes['y'], {} || g.s == 'a' || g.b)", of("bool")),
        ],
        "version": [], "list": [],
        "quantity": [
            formatted("{}.{}({})", of("quantity"), st.sampled_from(["add", "sub"]), of("quantity")),
            formatted("{}.add({})", of("quantity"), st.just("1")),
        ],
    }  # fmt: skip
    return draw(st.one_of(*leaves[kind], *inner[kind], *inner[kind]))


@given(expressions(), devices(mixed=False))
def test_what_is_told_is_what_googles_cel_says(expression: str, facts: Facts) -> None:
    """Also that there is no answer: an attribute is missing, or a number is too large."""
    assert Selector(expression).read() is not None
    assert Selector(expression).matches(facts) is google_cel.decided(expression, facts, DOMAINS)


@given(expressions(), devices(mixed=True))
def test_an_answer_is_googles_whatever_types_attributes_have(expression: str, facts: Facts) -> None:
    """Whether a version equals a number depends on the side in Kubernetes: that is not told."""
    if (found := Selector(expression).matches(facts)) is not None:
        assert found is google_cel.decided(expression, facts, DOMAINS)


@given(expressions(depth=4), devices(mixed=True))
def test_no_evaluation_costs_more_than_was_said_before(expression: str, facts: Facts) -> None:
    """A part of the tree makes a few calls: its own, those of its function, and the parts' below it."""
    told = Selector(expression).read()
    if told is not None:
        work = Work(1 << 30)
        with counted() as calls:
            Selector(expression).matches(facts, work)
        assert calls.count <= 6 * ((1 << 30) - work.left) + 100


@given(st.text(alphabet="device.attributes[\"']capacity()!&|=<>?:,+-*/% \n1a\\", max_size=80))
def test_any_text_is_read_or_not_told(text: str) -> None:
    assert Selector(text).matches(FULL, Work(5_000)) in (True, False, None)


@given(st.lists(st.sampled_from([
    "device", ".", "driver", "attributes", "[", "]", '"a"', "(", ")", "&&", "||", "!", "?", ":", ",", "in", "==", "<", "+", "-",
    "1", "true", "has", "cel", "bind", "all", "exists", "matches", "x", "size", "orValue", "quantity",
]), max_size=40).map(" ".join))  # fmt: skip
def test_any_tokens_are_read_or_not_told(text: str) -> None:
    """Where both decide, they agree."""
    found = Selector(text).matches(FULL, Work(5_000))
    if found is not None:
        assert google_cel.decided(text, FULL, ["a"]) in (found, None)


def test_tokens_are_as_many_as_may_be() -> None:
    assert len(tokens("1 " * 1023)) == 1024
    assert Selector("1+" * 500 + "1 > 0").read() is None
    assert Selector("[" + "1," * 500 + "1].size() > 0").read() is not None
