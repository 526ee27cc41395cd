"""The tokens of expressions that select devices, within bounds."""

import re
from typing import Final

from webhook.errors import NotRead

MAX_EXPRESSION: Final = 10 << 10
"""Maximum length of an expression (CELSelectorExpressionMaxLength)."""
MAX_TOKENS: Final = 1024
MAX_TEXT: Final = 256
"""Maximum length of a text, of an expression or of a device: Kubernetes lets devices have 64 (DeviceAttributeMaxValueLength)."""
_READING: Final = 16
"""Steps that it takes to read one token, or one character of a pattern."""

_TOKEN: Final = re.compile(
    r"""(?:[\t\n\f\r ]++|//[^\n]*+)*+
    (?:(?P<raw>[rR](?:"[^"\n\r\ud800-\udfff]*+"|'[^'\n\r\ud800-\udfff]*+'))
    |(?P<text>"(?:[^"\\\n\r\ud800-\udfff]|\\.)*+"|'(?:[^'\\\n\r\ud800-\udfff]|\\.)*+')
    |(?P<number>[0-9]++)
    |(?P<name>[A-Za-z_][A-Za-z_0-9]*+)
    |(?P<sign>&&|\|\||[=!<>]=|[][(){}.,?:!<>+*/%-])
    |(?P<end>\Z))""",
    re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "r": "\r", "t": "\t"}

Token = tuple[str, str]
"""Its kind (`raw` or `text`, `number`, `name`, `sign`, `end`), and its text."""


def tokens(expression: str) -> list[Token]:
    """The kind and the text of each token. Raises NotRead."""
    if len(expression) > MAX_EXPRESSION:
        raise NotRead
    found, place = list[Token](), 0
    while len(found) <= MAX_TOKENS:
        match = _TOKEN.match(expression, place)
        if match is None:
            break
        place, kind = match.end(), match.lastgroup or ""
        found.append((kind, match[kind]))
        if kind == "end":
            return found
    raise NotRead


def reading(of: list[Token]) -> int:
    """The largest number of steps that it takes to read an expression of these tokens."""
    patterns = [text for kind, text in of if kind in ("raw", "text")] if ("name", "matches") in of else []
    return _READING * (len(of) + sum(map(len, patterns)))


def number_of(text: str) -> int:
    if len(text) > 19:
        raise NotRead
    return int(text)


def text_of(token: Token) -> str:
    """The text that a token stands for. Raises NotRead if it stands for none, or for a long one."""
    kind, text = token
    if kind == "raw":
        text = text[2:-1]
    elif kind != "text":
        raise NotRead
    elif "\\" in text:
        if {*_ESCAPED.findall(text)} - {*_ESCAPES}:
            raise NotRead
        text = _ESCAPED.sub(lambda match: _ESCAPES[match[1]], text[1:-1])
    else:
        text = text[1:-1]
    if len(text) > MAX_TEXT:
        raise NotRead
    return text
