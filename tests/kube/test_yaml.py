"""Documents as kubectl reads them. The values were taken from sigs.k8s.io/yaml, the library of kubectl."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.yaml import parse_documents, to_yaml, why_unsafe


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"\n\n# a comment\n---\n---\n", [], id="empty documents"),
        pytest.param(b"a: 1", [{"a": 1}], id="YAML"),
        pytest.param(b"a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}], id="two YAML documents"),
        pytest.param(b"{a: 1}", [{"a": 1}], id="YAML that looks like JSON"),
        pytest.param(b"a: &x [1]\nb: *x", [{"a": [1], "b": [1]}], id="an alias"),
        pytest.param(b'{"a": 1}', [{"a": 1}], id="JSON"),
        pytest.param(b'\t{\n\t"a":\t1\n}\n', [{"a": 1}], id="JSON with tabs"),
        pytest.param(rb'{"a": "\/\ud83d\ude00"}', [{"a": "/😀"}], id="JSON escapes that YAML does not know"),
        pytest.param(b'{"a": 1}{"b": 2}\n[3]\n', [{"a": 1}, {"b": 2}, [3]], id="JSON documents one after another"),
    ],
)
def test_documents(text: bytes, want: list[Any]) -> None:
    assert list(parse_documents(text)) == want


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("12:30", "12:30"),
        ("190:20:30", "190:20:30"),
        ("yes", True),
        ("off", False),
        ("0777", 511),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1.5e3", 1500.0),
        ("-.5", -0.5),
        ("1.2.3", "1.2.3"),
        ("4Gi", "4Gi"),
        ("500m", "500m"),
        ("~", None),
    ],
)
def test_plain_words_are_read_as_kubectl_reads_them(value: str, want: object) -> None:
    (document,) = parse_documents(f"a: {value}\n".encode())
    assert document == {"a": want}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(b"a: [", "did not find expected node content", id="broken YAML"),
        pytest.param(b"\x00", "control characters are not allowed", id="a null byte"),
        pytest.param(b"\xff\xfe\xfd", "", id="another encoding"),
        pytest.param(b"a: !!python/object:os.system x", "could not determine a constructor", id="a tag that runs code"),
        pytest.param(b"? [a]\n: 1", "found unhashable key", id="a key that is a list"),
        pytest.param(b"a: " + b"1" * 5000, "Exceeds the limit", id="a number of 5000 digits"),
        pytest.param(b"[" * 400_000, "line 1: more than 200 levels are refused", id="nesting that crashes a parser"),
    ],
)
def test_other_text_is_an_error_of_one_line(text: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        list(parse_documents(text))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "bounds", "why"),
    [
        ("a: 1\nb: [[1]]", (3,), None),
        ("a: 1\nb: [[1]]", (2,), "line 2: more than 2 levels are refused"),
        ("a: 1\nb: 2", (9, 4), "line 2: more than 4 keys and values are refused"),
        ("a: &x 1\n\nb: *x", (9, 99), "line 3: an alias is refused: write it out"),
        ("a: &x 1\n\nb: *x", (9,), None),
    ],
)
def test_why_unsafe_names_the_line(text: str, bounds: tuple[int, ...], why: str | None) -> None:
    assert why_unsafe(text, *bounds) == why


def test_aliases_may_stand_for_a_bounded_number_of_values() -> None:
    long = f"a: &a [{', '.join(['1'] * 999)}]\nb: &b [{', '.join(['*a'] * 99)}]\n".encode()  # 99,000 values
    assert len(list(parse_documents(b"c: 1\n---\n" + long))) == 2
    with pytest.raises(ValueError, match="line 1: aliases for more than 100000 values are refused"):
        list(parse_documents(long + b"c: *b"))


LOOKS_LIKE_SOMETHING_ELSE = [
    *("y", "Y", "n", "N", "yes", "no", "on", "off", "true", "null", "~", "", " ", "=", "<<", ".inf", ".nan"),
    *("1", "-1", "1.5", "1e3", "1E5", "1e+3", "-.5e1", "0777", "0o17", "08", "0x1F", "0X1f", "0b11", "1_000"),
    *("12:30", "2024-01-01", "123e4567", "1.", "+1", "1e+_3"),
]


@pytest.mark.parametrize("text", LOOKS_LIKE_SOMETHING_ELSE, ids=repr)
def test_text_that_looks_like_another_type_is_quoted(text: str) -> None:
    written = to_yaml({"a": text})
    assert written[len("a: ")] in "'\"|"
    assert list(parse_documents(written.encode())) == [{"a": text}]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("nvidia.com/gpu", "a: nvidia.com/gpu\n", id="a name"),
        pytest.param("10.0.0.1", "a: 10.0.0.1\n", id="an address"),
        pytest.param("500m", "a: 500m\n", id="a quantity"),
        pytest.param("größe", "a: größe\n", id="letters of any language"),
        pytest.param("chat\u202eü", 'a: "chat\\u202E\\xFC"\n', id="what turns the text around is escaped"),
        pytest.param("one\ntwo\n", "a: |\n  one\n  two\n", id="lines stay lines"),
        pytest.param("word " * 40, f"a: '{'word ' * 40}'\n", id="a long line is not folded"),
    ],
)
def test_other_text_is_written_as_it_is(text: str, want: str) -> None:
    assert to_yaml({"a": text}) == want


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.sampled_from(LOOKS_LIKE_SOMETHING_ELSE) | TEXT,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXT, inside, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=3))
def test_what_is_written_is_read_again(value: dict[str, Any]) -> None:
    assert list(parse_documents(to_yaml(value).encode())) == [value]


@given(
    st.lists(st.dictionaries(TEXT, VALUES, max_size=3), min_size=1, max_size=4), st.sampled_from([b"", b"\n", b" \t\n"])
)
def test_json_documents_one_after_another_are_read(values: list[dict[str, Any]], between: bytes) -> None:
    assert list(parse_documents(between.join(map(orjson.dumps, values)))) == values


@given(st.binary(max_size=60))
def test_any_bytes_are_documents_or_a_value_error(text: bytes) -> None:
    try:
        list(parse_documents(text))
    except ValueError as error:
        line = str(error)
    else:
        line = ""
    assert "\n" not in line
