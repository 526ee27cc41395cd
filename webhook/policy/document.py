"""A policy as the document that explains itself: every key with its value, the docstrings of the models as comments.

`manifests/policy.yaml` is this for the defaults. A comment is the docstring of the field, or that of the class of its value.
In a docstring a blank line ends a comment line, a line that begins with `---` is a heading, and what is indented stays as it
is. The entries of a list are explained above the list, by the docstrings of their fields.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Any, get_args

import yaml

from webhook.framework.interface import Settings
from webhook.policy.model import Injectors, PolicyFile, Profile

_WIDTH = 128
_HEADING = "--- "
_SPACED = (PolicyFile, Profile, Injectors)
"""Sections with a blank line between their entries."""


def document(policy: PolicyFile) -> str:
    """The whole policy, with comments."""
    return "\n".join([*_comment(type(policy).__doc__ or "", 0), "", *_section(policy, 0)]) + "\n"


def _section(settings: Settings, indent: int) -> Iterator[str]:
    for number, (name, info) in enumerate(type(settings).model_fields.items()):
        value = getattr(settings, name)
        comment = [*_explained(info.description or "", info.annotation, value, indent)]
        if number and (
            isinstance(settings, _SPACED) or any(line.lstrip().startswith(f"# {_HEADING}") for line in comment)
        ):
            yield ""
        yield from comment
        yield from _entry(info.alias or name, value, indent)


def _entry(key: str, value: Any, indent: int) -> Iterator[str]:
    """A key with its value: on one line where it fits and is no section."""
    pad, plain = " " * indent, _plain(value)
    if isinstance(value, Settings):
        yield f"{pad}{key}:"
        yield from _section(value, indent + 2)
    elif isinstance(value, Mapping) and value:
        yield f"{pad}{key}:"
        for name, one in value.items():
            if isinstance(one, Profile):
                yield from _entry(name, one, indent + 2)
            else:
                yield from _lines(_flow(name), _plain(one), indent + 2)
    elif isinstance(plain, list) and any(isinstance(one, dict) for one in plain):
        yield f"{pad}{key}:"
        for one in plain:
            yield from _item(one, indent + 2)
    else:
        yield from _lines(key, plain, indent)


def _lines(key: str, plain: Any, indent: int) -> Iterator[str]:
    line = f"{' ' * indent}{key}: {_flow(plain)}"
    if len(line) <= _WIDTH or not isinstance(plain, (list, dict)):
        yield line
        return
    yield f"{' ' * indent}{key}:"
    if isinstance(plain, list):
        yield from (f"{' ' * indent}  - {_flow(one)}" for one in plain)
    else:
        for name, one in plain.items():
            yield from _lines(_flow(name), one, indent + 2)


def _item(entry: dict[str, Any], indent: int) -> Iterator[str]:
    """An entry of a list of maps: what has no lists in it stands on one line."""
    if not any(isinstance(one, (list, dict)) for one in entry.values()):
        yield f"{' ' * indent}- {_flow(entry)}"
        return
    lines: list[str] = []
    for key, one in entry.items():
        lines += _entry(key, one, indent + 2)
    yield f"{' ' * indent}- {lines[0].lstrip()}"
    yield from lines[1:]


def _plain(value: Any) -> Any:
    """As it is written. Of an entry of a list or map what is not set, or empty, is left out."""
    if isinstance(value, Settings):
        fields = {info.alias or name: getattr(value, name) for name, info in type(value).model_fields.items()}
        return {key: _plain(one) for key, one in fields.items() if one is not None and one not in ((), {})}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float):  # every number with a fraction is a time
        return f"{value / 60:g}m" if value >= 60 and value % 60 == 0 else f"{value:g}s"
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _is_plain(value) else json.dumps(value, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    """Whether text may stand without quotes, in a list too."""
    if text in ("off", "on"):  # words in a policy, as in YAML 1.2
        return True
    try:
        return bool(yaml.safe_load(f"[{text}]") == [text]) and ":" not in text
    except yaml.YAMLError:
        return False


# --- comments ---------------------------------------------------------------------------------------------------------


def _explained(description: str, annotation: Any, value: Any, indent: int) -> Iterator[str]:
    """The comment above a field: its own docstring, then that of the class of its value, where it has none."""
    heading, _, text = description.partition("\n\n") if description.startswith(_HEADING) else ("", "", description)
    if heading:
        yield " " * indent + "# " + (f"{heading} ".ljust(_WIDTH - 10, "-") if not indent else heading)
    if not text and isinstance(value, Settings):
        text = type(value).__doc__ or ""
    first, *rest = text.split("\n\n") if text else [""]
    yield from _comment(first, indent)
    yield from _entries(annotation, indent)
    yield from _comment("\n\n".join(rest), indent)


def _entries(annotation: Any, indent: int) -> Iterator[str]:
    """What the fields of the entries of a list mean, one below the other."""
    models = [one for one in get_args(annotation) if isinstance(one, type) and issubclass(one, Settings)]
    fields = models[0].model_fields.items() if models and Ellipsis in get_args(annotation) else ()
    told = {info.alias or name: info.description for name, info in fields if info.description}
    column = max(map(len, told), default=0) + 2
    for key, text in told.items():
        yield from _wrapped(f"{key}:".ljust(column) + " ".join(text.split()), indent, hanging=column)


def _comment(docstring: str, indent: int) -> Iterator[str]:
    for paragraph in cleandoc(docstring).split("\n\n"):
        if "\n " in paragraph:
            yield from (f"{' ' * indent}# {line}" for line in paragraph.splitlines())
        elif paragraph:
            yield from _wrapped(" ".join(paragraph.split()), indent)


def _wrapped(text: str, indent: int, hanging: int = 0) -> list[str]:
    begin = f"{' ' * indent}# "
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=begin,
        subsequent_indent=begin + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
