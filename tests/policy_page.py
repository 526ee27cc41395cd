"""The generated part of docs/policy.md: each key of the policy once, with its default and the first sentence about it.

manifests/policy.yaml has all that is said about a key. The keys of a rule are on the rule's page in docs/rules.md.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from tests.document import flow, plain
from webhook.cli.policy.explain import documentation
from webhook.framework.interface import Settings, Unit
from webhook.policy.model import PolicyFile, Profile, Rules

_LONGEST: Final = 60
"""Characters of a default; a longer one is in policy.yaml."""
_SENTENCE: Final = re.compile(r"(?<=[^.][.])\s+(?=[A-Z`\[({])|\n\n")
_LABEL: Final = re.compile(r"^--- (?:[^\n]*\n+)?")


def lines() -> Iterator[str]:
    """All of it."""
    policy = PolicyFile()
    for name, info in PolicyFile.model_fields.items():
        if (key := info.alias or name) != "profiles":
            yield from ("", f"## {key}", "")
            yield from _table(policy, [name])
    yield from ("", "## profiles", "", f"{_first(PolicyFile.model_fields['profiles'].description or '')}", "")
    profile = policy.profiles["default"]
    parts = [name for name, info in Profile.model_fields.items() if isinstance(getattr(profile, name), Settings)]
    yield from _table(profile, [name for name in Profile.model_fields if name not in parts])
    for name in parts:
        yield from ("", f"### {name}", "")
        if isinstance(getattr(profile, name), Rules):
            yield "Each rule has an `action`: `deny`, `warn` or `off`. [Rules](rules.md) has their other keys."
        else:
            yield from _table(getattr(profile, name), [*type(getattr(profile, name)).model_fields])
    yield ""


def _table(settings: Settings, names: list[str]) -> Iterator[str]:
    yield from ("| key | default | |", "|---|---|---|")
    yield from rows(settings, names)


def rows(settings: Settings, names: list[str], above: str = "") -> Iterator[str]:
    """A row for each of these keys, and for those in it."""
    for name in names:
        info, value = type(settings).model_fields[name], getattr(settings, name)
        key, text = f"{above}{info.alias or name}", _first(info.description or "")
        if isinstance(value, Settings):
            if said := text or _first(documentation(value) if isinstance(value, Unit) else type(value).__doc__ or ""):
                yield f"| `{key}` | | {said} |"
            yield from rows(value, [*type(value).model_fields], f"{key}.")
        else:
            yield f"| `{key}` | {default(value)} | {text} |"
            yield from _of_entries(info.annotation, key)


def _of_entries(annotation: Any, key: str) -> Iterator[str]:
    """The keys of an entry of a list."""
    for model in get_args(annotation):
        if isinstance(model, type) and issubclass(model, Settings):
            for name, info in model.model_fields.items():
                yield f"| `{key}[].{info.alias or name}` | | {_first(info.description or '')} |"


def default(value: Any) -> str:
    """As the page shows it: how many entries it has, if it is long."""
    written = flow(plain(value))
    if len(written) <= _LONGEST:
        return f"`{written}`".replace("|", "\\|")
    return f"{len(value)} {'keys' if isinstance(value, Mapping) else 'entries'}"


def _first(text: str) -> str:
    """The first sentence, on one line."""
    sentence = _SENTENCE.split(_LABEL.sub("", text).strip(), maxsplit=1)[0]
    return " ".join(sentence.split()).rstrip(":").replace("|", "\\|")
