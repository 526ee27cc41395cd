"""Writes a policy as YAML: every key with its value, and the docstrings of the models as comments.

`manifests/policy.yaml` is the default policy written in this way. The comment on a key is the docstring of the field, or else
that of the class of its value; of a unit without one, the first paragraph of its page. In a docstring a blank line ends a
paragraph, a line that begins with `---` is a heading, and a paragraph with indented lines is copied as it is. The fields of list
entries are explained above the list.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from inspect import cleandoc
from typing import Any, get_args

import yaml

from webhook.cli.policy.explain import documentation
from webhook.framework.interface import Settings, Unit
from webhook.policy.model import Injectors, PolicyFile, Profile
from webhook.policy.written_for import LINE

_WIDTH = 128
_COMMENT, _ONE_LINE = 118, 110
"""The width of a comment, and of a list or map on one line, without indentation."""
_HEADING = "--- "
_SPACED = (PolicyFile, Profile, Injectors)
"""Sections with a blank line between their entries."""


def document(policy: PolicyFile) -> str:
    """The policy as YAML with comments."""
    return "\n".join([LINE, *_comment(type(policy).__doc__ or ""), "", *_section(policy)]) + "\n"


def _section(settings: Settings) -> Iterator[str]:
    for number, (name, info) in enumerate(type(settings).model_fields.items()):
        key, value = info.alias or name, getattr(settings, name)
        comment = [*_explained(info.description or "", info.annotation, value, isinstance(settings, PolicyFile))]
        if number and (isinstance(settings, _SPACED) or any(line.startswith(f"# {_HEADING}") for line in comment)):
            yield ""
        yield from comment
        if isinstance(value, Settings):
            yield from (f"{key}:", *_indented(_section(value)))
        elif isinstance(value, Mapping) and any(isinstance(item, Profile) for item in value.values()):
            yield f"{key}:"
            for profile, item in value.items():
                yield from _indented([f"{profile}:", *_indented(_section(item))])
        else:
            yield from _entry(key, plain(value), block=isinstance(value, Mapping))


def _entry(key: str, plain: Any, *, block: bool = False) -> Iterator[str]:
    """A key with its value, on one line if it fits. A list of maps is never on one line, nor is any value with `block`."""
    block = block or (isinstance(plain, list) and any(isinstance(item, dict) for item in plain))
    if not plain or not isinstance(plain, (dict, list)) or (len(flow(plain)) <= _ONE_LINE and not block):
        yield f"{key}: {flow(plain)}"
        return
    yield f"{key}:"
    if isinstance(plain, dict):
        for name, item in plain.items():
            yield from _indented(_entry(flow(name), item))
        return
    for item in plain:
        short = not isinstance(item, dict) or len(flow(item)) <= _ONE_LINE
        first, *rest = [flow(item)] if short else [line for name in item for line in _entry(name, item[name])]
        yield from (f"  - {first}", *[f"    {line}" for line in rest])


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def plain(value: Any) -> Any:
    """The value as plain data. In an entry of a list or map, empty fields are left out if that is their default."""
    if isinstance(value, Settings):
        fields = {info.alias or name: (getattr(value, name), info) for name, info in type(value).model_fields.items()}
        return {
            k: plain(item) for k, (item, info) in fields.items() if item != info.default or item not in (None, (), {})
        }
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, float):  # every float in a policy is a duration in seconds
        return f"{value / 60:g}m" if value >= 60 and value % 60 == 0 else f"{value:g}s"
    return [plain(item) for item in value] if isinstance(value, tuple) else value


class _Writer(yaml.SafeDumper):
    """Writes `off` without quotes, as in YAML 1.2."""

    yaml_implicit_resolvers = {
        first: [] if first in "oO" else known for first, known in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }


def flow(plain: Any) -> str:
    """The value as YAML on one line."""
    text: str = yaml.dump([plain], Dumper=_Writer, default_flow_style=True, sort_keys=False, width=10_000)
    return text.strip()[1:-1]


# --- comments ---------------------------------------------------------------------------------------------------------


def _explained(description: str, annotation: Any, value: Any, top: bool) -> Iterator[str]:
    """The comment above a field: its docstring, or else that of the class of its value."""
    heading, _, text = description.partition("\n\n") if description.startswith(_HEADING) else ("", "", description)
    if heading:
        yield "# " + (f"{heading} ".ljust(_WIDTH - 10, "-") if top else heading)
    if not text and isinstance(value, Unit):
        text = type(value).__doc__ or documentation(value).partition("\n\n")[0]
    elif not text and isinstance(value, Settings):
        text = type(value).__doc__ or ""
    first, *rest = text.split("\n\n") if text else [""]
    yield from _comment(first)
    yield from _entries(annotation)
    yield from _comment("\n\n".join(rest))


def _entries(annotation: Any) -> Iterator[str]:
    """The docstrings of the fields of list entries, one below the other."""
    models = [model for model in get_args(annotation) if isinstance(model, type) and issubclass(model, Settings)]
    fields = models[0].model_fields.items() if models and Ellipsis in get_args(annotation) else ()
    texts = {info.alias or name: info.description for name, info in fields if info.description}
    column = max(map(len, texts), default=0) + 2
    for key, text in texts.items():
        yield from _wrapped(f"{key}:".ljust(column) + " ".join(text.split()), hanging=column)


def _comment(docstring: str) -> Iterator[str]:
    for paragraph in cleandoc(docstring).split("\n\n"):
        if "\n " in paragraph:
            yield from (f"# {line}" for line in paragraph.splitlines())
        elif paragraph:
            yield from _wrapped(" ".join(paragraph.split()))


def _wrapped(text: str, hanging: int = 0) -> list[str]:
    following = "# " + " " * hanging
    return textwrap.wrap(
        text, _COMMENT, initial_indent="# ", subsequent_indent=following, break_long_words=False, break_on_hyphens=False
    )
