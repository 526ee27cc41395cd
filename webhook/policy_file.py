"""A YAML document into a settings model, with errors that say where: path, line, and the nearest known key."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from webhook.errors import PolicyError
from webhook.text import nearest, quoted

Model = TypeVar("Model", bound=BaseModel)
Key = str | int
_LARGEST = 1 << 20
"""A ConfigMap holds at most 1 MiB (etcd's limit on a request)."""
_DEEPEST = 32


def read(text: str | bytes, model: type[Model]) -> Model:
    """Parse, fill profiles up from `default`, validate. Raises PolicyError with one line per problem."""
    root = _compose(text)
    problems: list[str] = []
    data = _plain(root, "", problems, set())
    if problems:
        raise PolicyError(problems)
    if not isinstance(data, dict):
        raise PolicyError([f"line 1: wanted a map with gpus, classes and profiles; saw {type(data).__name__}"])
    try:
        return model.model_validate(_filled(data))
    except ValidationError as error:
        raise PolicyError([_problem(e, root, model) for e in error.errors()]) from None


def _compose(text: str | bytes) -> yaml.Node | None:
    if len(text) > _LARGEST:
        raise PolicyError([f"the policy has {len(text)} bytes; a ConfigMap holds at most {_LARGEST}"])
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise PolicyError([f"line {line}: not YAML: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise PolicyError([f"not YAML: {error}"]) from None


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _plain(node: yaml.Node | None, path: str, problems: list[str], seen: set[int]) -> Any:
    """The node as plain data. YAML itself would take the last of two equal keys without a word.

    An alias would be the same node again: refused, since a few nested ones grow to any size.
    """
    if node is None:
        return None
    if id(node) in seen or path.count(".") > _DEEPEST:
        problems.append(f"line {node.start_mark.line + 1}: {path}: aliases and deep nesting are refused: write it out")
        return None
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            here = f"{path}.{key}" if path else key
            if key in found:
                problems.append(f"line {key_node.start_mark.line + 1}: {here}: the key stands here twice")
            found[key] = _plain(value_node, here, problems, seen)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, f"{path}[{i}]", problems, seen) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return yaml.SafeLoader("").construct_object(node)  # type: ignore[no-untyped-call]
    return None


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    """Every profile states only what differs from `default`: maps are merged, anything else is replaced."""
    profiles = data.get("profiles")
    if not isinstance(profiles, dict):
        return data
    base = profiles.get("default") or {}
    filled = {name: _merged(base, profile) if name != "default" else base for name, profile in profiles.items()}
    return {**data, "profiles": {"default": base, **filled}}


def _merged(base: Any, over: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(over, dict):
        return base if over is None else over
    return {key: _merged(base.get(key), over.get(key)) for key in base.keys() | over.keys()}


def _problem(error: Any, root: yaml.Node | None, model: type[BaseModel]) -> str:
    location: tuple[Key, ...] = tuple(error["loc"])
    where = f"line {_line(root, location)}: {_dotted(location)}"
    if error["type"] == "extra_forbidden":
        known = _known(model, location[:-1])
        near = nearest(str(location[-1]), known)
        hint = f"did you mean {quoted(near)}?" if near else f"known here: {', '.join(known)}"
        return f"{where}: unknown key; {hint}"
    seen = "" if isinstance(error["input"], (dict, list)) else f"saw {quoted(error['input'])}; "
    return f"{where}: {seen}{error['msg'].removeprefix('Value error, ')}"


def _dotted(location: tuple[Key, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _line(node: yaml.Node | None, location: tuple[Key, ...]) -> int:
    """The line of the deepest part of `location` that is written; a profile that inherits a mistake points to `default`."""
    line, depth = _walk(node, location)
    if location[:1] == ("profiles",) and depth < len(location) and len(location) > 1:
        inherited, deeper = _walk(node, ("profiles", "default", *location[2:]))
        return inherited if deeper > depth else line
    return line


def _walk(node: yaml.Node | None, location: tuple[Key, ...]) -> tuple[int, int]:
    line, depth = (node.start_mark.line + 1 if node else 1), 0
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == part), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
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
