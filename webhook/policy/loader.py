"""Reads a YAML document into a settings model. Errors say the path, the line and the nearest known key."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from webhook.errors import PolicyError
from webhook.kube.yaml import line_of, mistake_in, why_unsafe
from webhook.text import bare, dotted, json_type, quoted, suggestion

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[str | int, ...]
KEY: Final = "policy.yaml"
"""The key of the ConfigMap under which the policy is."""
REST: Final = "..."
"""As the last entry of a list: those that it has without it."""
_MAX_BYTES = 1 << 17
"""Size of the document. Five times the shipped policy with its comments."""
_MAX_VALUES = 20_000
"""Number of keys and values in the document. Twenty times the shipped policy."""
_MAX_FILLED = 100_000
"""Number of keys and values after inheritance. It allows 100 profiles like the shipped one."""
_MAX_ENTRIES = 1024
"""Entries of one list or map. A decision may look at all of them."""
_MAX_SCALAR = 64
"""Characters of a scalar that is not text. A number in base 60 takes quadratic time."""
_MAX_PROFILES = 100
_MAX_PROBLEMS = 100
_MAX_DEPTH = 32
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(
    text: str | bytes,
    model: type[Model],
    check: Callable[[Model], Iterable[tuple[Location, str]]] = lambda _: (),
) -> Model:
    """Parse the document, complete its profiles from `default`, and validate it. Raises PolicyError with a line per problem.

    `check` yields further problems of a valid model, each with its location.
    """
    root, lines = _compose(text), dict[Location, int]()
    problems: list[str] = []
    data = _plain(root, (), lines, problems)
    if problems:
        raise PolicyError(problems[:_MAX_PROBLEMS])
    if not isinstance(data, dict):
        required = any(field.is_required() for field in model.model_fields.values())
        wanted = f"wanted a map with {', '.join(_known_keys(model, ()))}{'' if required else ' ({} is all defaults)'}"
        raise PolicyError([f"line 1: saw {json_type(data)}; {wanted}"])
    try:
        parsed = model.model_validate(_filled(data, model, lines), by_alias=True, by_name=False)
    except ValidationError as error:
        raise PolicyError(_problems(error, lines, model)) from None
    for location, problem in islice(check(parsed), _MAX_PROBLEMS):
        line, place = _place(lines, location)
        problems.append(f"line {line}: {dotted(place)}: {problem}")
    if problems:
        raise PolicyError(list(dict.fromkeys(problems)))
    return parsed


def _compose(text: str | bytes) -> yaml.Node | None:
    if len(text) > _MAX_BYTES:
        raise PolicyError(
            [f"the policy has {len(text)} bytes; wanted at most {_MAX_BYTES}: shorten it, comments included"]
        )
    try:
        if problem := why_unsafe(text, _MAX_DEPTH, _MAX_VALUES):
            raise PolicyError([problem])
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line, problem = mistake_in(error)
        raise PolicyError([f"line {line}: not YAML: {problem}"]) from None
    except (yaml.YAMLError, ValueError) as error:
        raise PolicyError([f"not YAML: {' '.join(str(error).split())}"]) from None


def _plain(node: yaml.Node | None, path: Location, lines: dict[Location, int], problems: list[str]) -> Any:
    """A node as plain data. `lines` gets the line of each path. PyYAML itself would silently take the last of two equal keys."""
    lines.setdefault(path, line_of(node))
    where = f"line {line_of(node)}: {dotted(path)}: "
    if isinstance(node, yaml.CollectionNode) and len(node.value) > _MAX_ENTRIES:
        problems.append(f"{where}saw {len(node.value)} entries, wanted at most {_MAX_ENTRIES}: use patterns with *")
    elif isinstance(node, yaml.SequenceNode):
        items = [_plain(item, (*path, number), lines, problems) for number, item in enumerate(node.value)]
        if REST in items[:-1]:
            problems.append(f"{where}saw ... before other entries, wanted it as the last one")
        return items
    elif isinstance(node, yaml.MappingNode):
        entries: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = line_of(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                prefix = f"{dotted(path)}: " if path else ""
                problems.append(f"line {line}: {prefix}wanted a word as key, saw a list or a map")
                continue
            key = str(key_node.value)
            key_path = (*path, key)
            if key in entries:
                problems.append(f"line {line}: {dotted(key_path)}: the key stands here twice")
            lines[key_path] = line
            entries[key] = _plain(value_node, key_path, lines, problems)
        return entries
    elif isinstance(node, yaml.ScalarNode):
        try:
            return _scalar(node)
        except ValueError as error:
            problems.append(f"{where}{quoted(node.value)} {error}")
    return None


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    if node.tag.endswith(":str") or (node.tag.endswith(":bool") and text.lower() not in ("true", "false")):
        return text  # `off` is text, as in YAML 1.2; pydantic still accepts it for a boolean
    if len(text) > _MAX_SCALAR:
        raise ValueError("is too long for what is no text: put text in quotes")
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):
        raise ValueError(f"is no {bare(node.tag.rpartition(':')[2])}") from None


def _filled(data: dict[str, Any], model: type[BaseModel], lines: Mapping[Location, int]) -> dict[str, Any]:
    """The policy with complete profiles: each one is merged into `default`, with all that this leaves out. Maps are merged, other
    values are replaced, but for a list that ends with `...`."""
    shipped: dict[str, Any] = {}
    with suppress(ValidationError):  # a model without defaults
        shipped = model().model_dump(mode="json", by_alias=True)
    profiles = data.get("profiles")
    data = {k: v if k == "profiles" else _rested(v, shipped.get(k), (k,), lines) for k, v in data.items()}
    if not isinstance(profiles, dict):
        return data
    if len(profiles) > _MAX_PROFILES:
        seen = f"saw {len(profiles)}; wanted at most {_MAX_PROFILES}: share them between namespaces"
        raise PolicyError([f"profiles: {seen}"])
    first = shipped.get("profiles", {}).get("default")
    base = _rested(profiles.get("default") or {}, first, ("profiles", "default"), lines)
    filled_up = _size(base) * (len(profiles) + 1)
    if filled_up > _MAX_FILLED:
        seen = f"saw {filled_up} values, those of `default` in each profile"
        wanted = f"wanted at most {_MAX_FILLED}: shorten `default`, or have fewer profiles"
        raise PolicyError([f"profiles: {seen}; {wanted}"])
    whole = _merged(first, base)
    with suppress(ValidationError):  # a mistake in `default` is reported with all others
        alone = model.model_validate({"profiles": {"default": base}}, by_alias=True, by_name=False)
        whole = alone.model_dump(mode="json", by_alias=True)["profiles"]["default"]
    filled = {
        name: _merged(whole, _rested(profile, whole, ("profiles", name), lines))
        for name, profile in profiles.items()
        if name != "default"
    }
    return {**data, "profiles": {"default": base, **filled}}


def _rested(value: Any, base: Any, path: Location, lines: Mapping[Location, int]) -> Any:
    """`value` with the entries of `base` in place of each last entry `...`. Raises PolicyError where there are none."""
    if isinstance(value, dict):
        below = base if isinstance(base, dict) else {}
        return {key: _rested(each, below.get(key), (*path, key), lines) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    entries = [_rested(each, None, (*path, number), lines) for number, each in enumerate(value)]
    if entries[-1:] != [REST]:
        return entries
    if not isinstance(base, list):
        seen = "saw ..., and no entries that it could stand for: remove it"
        raise PolicyError([f"line {lines[path]}: {dotted(path)}: {seen}"])
    return [*entries[:-1], *base]


def _size(value: Any) -> int:
    """The number of keys and values."""
    if isinstance(value, dict):
        return len(value) + sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list) else 1


def _merged(base: Any, over: Any) -> Any:
    """`base` with the changes in `over`. A section without any line changes nothing; a null in place of a value is a change.

    The keys are in the order of `base`, then of `over`: in some maps the first entry that matches decides.
    """
    if isinstance(base, dict) and over is None:
        return base
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}


# --- what is wrong, and where -----------------------------------------------------------------------------------------


def _problems(error: ValidationError, lines_of: Mapping[Location, int], model: type[BaseModel]) -> list[str]:
    """One line per problem. A problem in `default` is reported once, not for every profile that inherits it."""
    lines: dict[str, None] = {}
    for mistake in error.errors(include_url=False, include_context=False)[:_MAX_PROBLEMS]:
        line, location = _place(lines_of, tuple(mistake["loc"]))
        lines[f"line {line}: {dotted(location)}: {_in_words(mistake, location, model)}"] = None
    return list(lines)


def _in_words(error: Any, location: Location, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        keys = _known_keys(model, location[:-1])
        if (now := _FORMER.get(str(location[-1]))) is not None:
            return f"unknown key; {now}"
        known = f"unknown key; known here: {', '.join(keys)}"
        return suggestion(str(location[-1]), keys, 'unknown key; did you mean "{}"?', known)
    if error["type"] == "missing":
        return "this key is missing"
    wanted = _WANTED.get(error["type"])
    message = f"wanted {wanted}" if wanted else error["msg"].removeprefix("Value error, ")
    message = message.replace("Input should be", "wanted", 1).replace("String should match", "wanted", 1)
    about_section = error["type"] == "value_error" and isinstance(error["input"], (dict, list, BaseModel))
    return str(message) if about_section else f"saw {quoted(error['input'])}; {message}"


_FORMER = {
    "shadow": 'it is called "dryRun" now',
    "pdbMissing": "remove it: doctor, policy diff and try name missing PodDisruptionBudgets now",
}
"""Keys of policies from before the first release."""
_WANTED = {
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a map"),
    **dict.fromkeys(("tuple_type", "list_type", "set_type"), "a list"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    "string_type": "text: put it in quotes",
}
"""What is wanted, in the words of YAML, by pydantic's type of error."""


def _place(lines: Mapping[Location, int], location: Location) -> tuple[int, Location]:
    """The line and the location of a problem. They are in `default` if the profile inherits the value."""
    depth = _depth(lines, location)
    if location[:1] == ("profiles",) and len(location) > 1:
        above = ("profiles", "default", *location[2:])
        if (deeper := _depth(lines, above)) > depth:
            return lines[above[:deeper]], above
    return lines[location[:depth]], location


def _depth(lines: Mapping[Location, int], location: Location) -> int:
    """How many parts of `location` the document contains."""
    return next(depth for depth in range(len(location), -1, -1) if location[:depth] in lines)


def _known_keys(model: type[BaseModel], location: Location) -> list[str]:
    fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
    if not location:
        return list(fields)
    inner = fields[str(location[0])]  # a model, or a list or a map of models, whose index or key comes next
    models = [t for t in (inner, *get_args(inner)) if isinstance(t, type) and issubclass(t, BaseModel)]
    return _known_keys(models[0], location[1 if models[0] is inner else 2 :])
