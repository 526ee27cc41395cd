"""A YAML document into a settings model, with errors that say where: path, line, and the nearest known key."""

from __future__ import annotations

from typing import Any, Final, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from webhook.errors import PolicyError
from webhook.kube.yaml import line_of, unsafe
from webhook.text import bare, kind, nearest, quoted

Model = TypeVar("Model", bound=BaseModel)
Key = str | int
KEY: Final = "policy.yaml"
"""Where a ConfigMap holds the policy."""
_LARGEST = 1 << 17
"""Bytes: five times the shipped policy with its comments."""
_MOST_VALUES = 20_000
"""Keys and values, as they are written: twenty times the shipped policy. Comments do not count."""
_MOST_FILLED = 100_000
"""The same where each profile has what it inherits: 100 profiles of the shipped one."""
_MOST_ENTRIES = 1024
"""Of one list or map: each decision may look at all of them."""
_LONGEST_SCALAR = 64
"""Of what is no text: a number to the base 60 takes quadratic time."""
_MOST_PROFILES = 100
_MOST_PROBLEMS = 100
_DEEPEST = 32
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(text: str | bytes, model: type[Model]) -> Model:
    """Parse, fill profiles up from `default`, validate. Raises PolicyError with one line per problem."""
    root = _compose(text)
    problems: list[str] = []
    data = _Plain(problems).of(root, "")
    if problems:
        raise PolicyError(problems)
    if not isinstance(data, dict):
        wanted = "wanted a map with gpus, classes and profiles ({} is all defaults)"
        raise PolicyError([f"line 1: saw {kind(data)}; {wanted}"])
    try:
        return model.model_validate(_filled(data), by_alias=True, by_name=False)
    except ValidationError as error:
        raise PolicyError(_problems(error, root, model)) from None


def _compose(text: str | bytes) -> yaml.Node | None:
    if len(text) > _LARGEST:
        raise PolicyError(
            [f"the policy has {len(text)} bytes; wanted at most {_LARGEST}: shorten it, comments included"]
        )
    try:
        if problem := unsafe(text, _DEEPEST, aliases=False, most=_MOST_VALUES):
            raise PolicyError([problem])
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PolicyError([f"line {line}: not YAML: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, ValueError) as error:
        raise PolicyError([f"not YAML: {' '.join(str(error).split())}"]) from None


class _Plain:
    """Nodes as plain data. YAML itself would take the last of two equal keys without a word."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._scalars: Any = yaml.SafeLoader("")

    def of(self, node: yaml.Node | None, path: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._map(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._count(node, path)
            return [self.of(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
        return None if node is None else self._scalar(node, path)

    def _map(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self._count(node, path)
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, path, "wanted a word as key, saw a list or a map")
                continue
            key = str(key_node.value)
            here = f"{path}.{bare(key)}" if path else bare(key)
            if key in found:
                self._problem(key_node, here, "the key stands here twice")
            found[key] = self.of(value_node, here)
        return found

    def _count(self, node: yaml.CollectionNode, path: str) -> None:
        if len(node.value) > _MOST_ENTRIES:
            self._problem(
                node, path, f"saw {len(node.value)} entries, wanted at most {_MOST_ENTRIES}: use patterns with *"
            )

    def _scalar(self, node: yaml.Node, path: str) -> Any:
        if not node.tag.endswith(":str") and len(node.value) > _LONGEST_SCALAR:
            self._problem(node, path, f"{quoted(node.value)} is too long for what is no text: put text in quotes")
            return None
        if node.tag.endswith(":bool") and node.value.lower() not in ("true", "false"):
            return node.value  # `off` is a word here, as in YAML 1.2; where true or false is wanted it is still taken
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):
            self._problem(node, path, f"{quoted(node.value)} is no {bare(node.tag.rpartition(':')[2])}")
            return None

    def _problem(self, node: yaml.Node, path: str, what: str) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(f"line {line_of(node)}: {path + ': ' if path else ''}{what}")


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    """Every profile states only what differs from `default`: maps are merged, anything else is replaced."""
    profiles = data.get("profiles")
    if not isinstance(profiles, dict):
        return data
    if len(profiles) > _MOST_PROFILES:
        raise PolicyError(
            [f"profiles: saw {len(profiles)}; wanted at most {_MOST_PROFILES}: share them between namespaces"]
        )
    base = profiles.get("default") or {}
    filled_up = _size(base) * (len(profiles) + 1)
    if filled_up > _MOST_FILLED:
        raise PolicyError(
            [
                f"profiles: saw {filled_up} values, those of `default` in each profile; wanted at most {_MOST_FILLED}: "
                "shorten `default`, or have fewer profiles"
            ]
        )
    filled = {name: _merged(base, profile) if name != "default" else base for name, profile in profiles.items()}
    return {**data, "profiles": {"default": base, **filled}}


def _size(value: Any) -> int:
    """How many keys and values there are."""
    if isinstance(value, dict):
        return len(value) + sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 1


def _merged(base: Any, over: Any) -> Any:
    """In the order of `base`, then of `over`: in some maps the first entry that matches decides.

    A section without a line in it is no change; a null in place of a value is one.
    """
    if isinstance(base, dict) and over is None:
        return base
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}


# --- what is wrong, and where -----------------------------------------------------------------------------------------


def _problems(error: ValidationError, root: yaml.Node | None, model: type[BaseModel]) -> list[str]:
    """One line each. A mistake in `default` is told there, not again for every profile that inherits it."""
    errors = error.errors(include_url=False, include_context=False)
    told = {(e["type"], e["loc"][2:]) for e in errors if e["loc"][:2] == ("profiles", "default")}
    return [
        _problem(e, root, model)
        for e in errors[:_MOST_PROBLEMS]
        if e["loc"][:1] != ("profiles",)
        or e["loc"][1:2] == ("default",)
        or (e["type"], e["loc"][2:]) not in told
        or not _inherited(root, e["loc"])
    ]


def _problem(error: Any, root: yaml.Node | None, model: type[BaseModel]) -> str:
    location: tuple[Key, ...] = tuple(error["loc"])
    where = f"line {_line(root, location)}: {_dotted(location)}"
    if error["type"] == "extra_forbidden":
        known = _known(model, location[:-1])
        near = nearest(str(location[-1]), known)
        hint = f"did you mean {quoted(near)}?" if near else f"known here: {', '.join(known)}"
        return f"{where}: unknown key; {hint}"
    if error["type"] == "missing":
        return f"{where}: this key is missing"
    wanted = _WANTED.get(error["type"])
    message = f"wanted {wanted}" if wanted else error["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "wanted", 1).replace("String should match", "wanted", 1)
    about_a_whole = error["type"] == "value_error" and isinstance(error["input"], (dict, list, BaseModel))
    return f"{where}: {message}" if about_a_whole else f"{where}: saw {quoted(error['input'])}; {message}"


_WANTED = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a map"),
    **dict.fromkeys(("tuple_type", "list_type", "set_type"), "a list"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    "string_type": "text: put it in quotes",
}
"""By the kind of mistake, in the words of YAML."""


def _dotted(location: tuple[Key, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{bare(part)}" for part in location).lstrip(".")


def _inherited(node: yaml.Node | None, location: tuple[Key, ...]) -> bool:
    """Whether more of a location in a profile is written in `default` than in the profile itself."""
    return _walk(node, ("profiles", "default", *location[2:]))[1] > _walk(node, location)[1]


def _line(node: yaml.Node | None, location: tuple[Key, ...]) -> int:
    """The line of the deepest part of `location` that is written; a profile that inherits a mistake points to `default`."""
    if location[:1] == ("profiles",) and len(location) > 1 and _inherited(node, location):
        location = ("profiles", "default", *location[2:])
    return _walk(node, location)[0]


def _walk(node: yaml.Node | None, location: tuple[Key, ...]) -> tuple[int, int]:
    line, depth = line_of(node), 0
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == part), None)
            if found is None:
                break
            line, node = line_of(found[0]), found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = line_of(node)
        else:
            break
        depth += 1
    return line, depth


def _known(model: type[BaseModel], location: tuple[Key, ...]) -> list[str]:
    """The keys that the model at `location` has."""
    here: Any = model
    for part in location:
        if isinstance(here, type) and issubclass(here, BaseModel):
            fields = {info.alias or name: info.annotation for name, info in here.model_fields.items()}
            here = fields.get(str(part))
        else:
            models = [a for a in get_args(here) if a is not ... and a is not str]
            here = models[0] if models else None
    models = [here, *get_args(here)]
    found = next((m for m in models if isinstance(m, type) and issubclass(m, BaseModel)), None)
    return [info.alias or name for name, info in found.model_fields.items()] if found else []
