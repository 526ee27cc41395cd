"""Expressions of claims that were made to cost much: rows of `bench.hostile`, seeds of `bench.claims_fuzz`, and a test.

Each is bounded on its own, by the grammar of `webhook.kube.device_expressions`.
"""

from typing import Final

_MODEL: Final = 'device.attributes["gpu.nvidia.com"].productName'
_TEN: Final = f"[{', '.join('0123456789')}]"
_FORTY: Final = f"[{'0,' * 39}0]"
_MANY: Final = f"[{'0,' * 400}0]"


def _optionals(start: str, levels: int, times: int) -> str:
    """Each level copies the one before, as `optMap` is a macro that names its target twice, and adds its value to itself."""
    text = f"optional.of({start})"
    for _ in range(levels):
        text += f".optMap(a, {'+'.join(['a'] * times)})"
    return f"{text}.hasValue()"


EXPRESSIONS: Final[dict[str, str]] = {
    # What takes a regular expression long, or much memory.
    "a class of Unicode, counted": f'{_MODEL}.matches("^(\\\\pL{{150}})a")',
    "classes of Unicode, in rows": " || ".join([f'{_MODEL}.matches("^(\\\\pL{{150}}){n}")' for n in range(20)]),
    "counts in counts": '"aaaaaaaaaaaaaaaaaaaa".matches("((a{100}){100}){100}")',
    "a star in a plus": '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".matches("^(a+)+$") == ("a" == "b")',
    "stars in stars": f'{_MODEL}.matches("{"(" * 8}a*{")*" * 8}$")',
    "every place is reached": f'"{"a" * 250}".matches("{".*a?" * 30}b")',
    "alternatives": f'{_MODEL}.matches("{"|".join("abcdefgh" * 30)}")',
    "many patterns": " || ".join([f'{_MODEL}.matches("{"a?" * 30}b")' for _ in range(60)]),
    "a long pattern": f'{_MODEL}.matches("{"(a|b)*" * 1000}")',
    "a pattern that is put together": f"{_MODEL}.matches({' + '.join([_MODEL] * 100)})",
    # What copies.
    "optMap of optMap": _optionals("1", 18, 2),
    "optMap of text": _optionals('"aaaaaaaa"', 7, 16),
    "optMap of lists": _optionals("[0, 0, 0, 0]", 7, 16),
    "optFlatMap of optFlatMap": "optional.of(1)" + ".optFlatMap(a, optional.of(a + a))" * 60 + ".hasValue()",
    "bind of bind": "".join([f"cel.bind(a{n}, [a{n - 1}, a{n - 1}], " for n in range(1, 9)]) + "true" + ")" * 8,
    "bind of a group": "".join([f"cel.bind(a{n}, device.attributes, " for n in range(20)]) + "true" + ")" * 20,
    "a list of lists": "cel.bind(a, [1, 1], cel.bind(b, [a, a], cel.bind(c, [b, b], cel.bind(d, [c, c], d == d))))",
    "text that grows": '"a".replace("a", "bbbbbbbbbb").replace("b", "cccccccccc") == "a"',
    "a long text, replaced": f'"{"a" * 4000}".replace("a", "{"b" * 4000}") == ""',
    "joined and split": f'"{"a," * 2000}".split(",").join("{"b" * 2000}").size() > 0',
    "formatted": f'"%{"9" * 9}s".format([1]) == ""',
    "text added to text": f"({' + '.join([_MODEL] * 400)}).size() > 0",
    "text doubled": "cel.bind(a, 'aaaaaaaa', "
    + "".join([f"cel.bind(a{n}, a + a, " for n in range(9)])
    + "true"
    + ")" * 10,
    "lists added": f"({' + '.join([_FORTY] * 90)}).size() > 0",
    "bytes": f"b'{'a' * 9000}' + b'a' == b'a'",
    # Loops.
    "loops in loops": f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, true))))",
    "loops of loops": f"{_FORTY}.all(a, {_FORTY}.all(b, {_FORTY}.all(c, true)))",
    "two loops over many": f"{_MANY}.all(a, {_MANY}.all(b, true))",
    "mapped": f"{_TEN}.map(a, {_TEN}.map(b, {_TEN}.map(c, {_TEN}))).size() > 0",
    "filtered": "[1, 2, 3]" + ".filter(a, a > 0)" * 300 + ".size() > 0",
    "a loop over a loop": f"{_TEN}.exists(a, a > 9) == {_TEN}.all(a, a < 9)",
    "a loop with much in it": f"{_FORTY}.all(a, {' && '.join(['a + 1 > 0'] * 150)})",
    "loops after a comment": f"{_TEN}.all// (\n(a, {_TEN}.all //\n (b, {_TEN}.all// \n(c, {_TEN}.all //\n(d, true))))",
    "a loop over attributes": "device.attributes.all(a, device.attributes[a].all(b, device.attributes.all(c, true)))",
    "a loop over the keys of a map": f"{{{', '.join([f'{n}: {n}' for n in range(900)])}}}.all(a, true)",
    # Numbers.
    "a quantity of three million digits": '{"quantity": "1e3000000"}.compareTo({"quantity": "1"}) > 0',
    "a quantity with a large exponent": 'quantity("1e3000000").isGreaterThan(quantity("1e-3000000"))',
    "quantities with large exponents": " || ".join(
        [f'quantity("1e{n}00000000").sign() < 0' for n in range(1, 10)] * 30
    ),
    "a quantity of many digits": f'quantity("{"9" * 9000}").sign() > 0',
    "a version of many digits": f'semver("1.0.{"9" * 9000}") == semver("1.0.0")',
    "a version of many parts": f'semver("1.0.0-{"a." * 120}a").isLessThan(semver("1.0.0-{"a." * 120}b"))',
    "sums of quantities": 'quantity("1n")' + '.add(quantity("1n"))' * 200 + ".sign() > 0",
    "a huge number": f"{'9' * 9000} > 0",
    "a huge hexadecimal number": f"0x{'f' * 9000} > 0",
    "a number with an exponent": "1e999999999 > 0.0",
    "times": 'timestamp("9999-12-31T23:59:59Z") + duration("999999999h") > timestamp("0001-01-01T00:00:00Z")',
    # The form of the text.
    "spaces": f"{' ' * 5000}true{' ' * 5000}",
    "spaces in a path": f"{_MODEL}.{' ' * 4000}exists{' ' * 4000}(k, true)",
    "comments": "//\n" * 3000 + "true",
    "longer than may be": f"true{' ' * 20_000}",
    "brackets": f"{'(' * 3000}true{')' * 3000}",
    "lists in lists": f"{'[' * 1000}{']' * 1000} == []",
    "maps in maps": f"{'{1:' * 1000}1{'}' * 1000} == {{}}",
    "sums": f"{'1+' * 3000}1 > 0",
    "negations": f"{'!' * 1000}true",
    "minuses": f"{'-' * 9999}1 < 0",
    "conditions": "true ? " * 800 + "true" + " : false" * 800,
    "conditions in rows": "false ? true : " * 600 + "true",
    "calls of calls": f'"a"{".lowerAscii()" * 700} == "a"',
    "members of members": f"device{'.a' * 4000}",
    "many ors": " || ".join([f'{_MODEL} == "{n}"' for n in range(80)]),
    "many attributes": " || ".join([f'device.attributes["d{n}"].?a.orValue(false)' for n in range(150)]),
    "many domains": " || ".join([f'"d{n}" in device.attributes' for n in range(120)]),
    "a long list": f"{_MODEL} in [{', '.join([f'{chr(34)}{n}{chr(34)}' for n in range(1400)])}]",
    "a long text": f'{_MODEL} == "{"x" * 9000}"',
    "escapes": f'{_MODEL} == "{chr(92) * 9000}"',
    "a text without its end": '"' + "\\a" * 4500,
    "Unicode": f'{_MODEL} == "{chr(0x1F600) * 2000}" || {_MODEL}.contains("{"é" * 200}")',
    "other letters": f"{'é' * 9000} == 1",
    "a NUL": '"\0" == device.driver',
    "nothing": "",
}
"""By what they are made of."""
