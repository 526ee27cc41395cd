"""Options of kubectl that each command takes which reads a cluster: whose rights it has, how long it waits; no headers."""

import re
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from webhook.cli.options import CLUSTER
from webhook.cli.terminal import headers
from webhook.errors import BadInput
from webhook.feeds.access import Access
from webhook.text import quoted

_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "ms": 0.001}
_given: dict[str, Any] = {}
"""What the command was given, by the name of the option: a process runs one command."""


def _keep(option: typer.CallbackParam, value: Any) -> None:
    _given[str(option.name)] = value


def _headers(left_out: bool) -> None:
    headers["shown"] = not left_out


_panel: Final[dict[str, Any]] = {"expose_value": False, "rich_help_panel": CLUSTER}
_kept: Final[dict[str, Any]] = {"callback": _keep, "show_default": False, **_panel}


def _options(
    user: Annotated[
        str | None,
        typer.Option("--as", metavar="USER", help="Ask with the rights of this user, if you may impersonate.", **_kept),
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--as-group", metavar="GROUP", help="And of this group; may be repeated.", **_kept),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="A bearer token in place of the kubeconfig's credentials.", **_kept),
    ] = None,
    request_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long an answer may take, for example 30s.", **_kept)
    ] = None,
    no_headers: Annotated[
        bool, typer.Option("--no-headers", help="Tables without their titles.", callback=_headers, **_panel)
    ] = False,
) -> None:
    """Never called: typer makes the options of it."""


_of = typer.Typer(add_completion=False)
_of.command()(_options)
OPTIONS: Final = [each for each in get_command(_of).params if each.name != "help"]


def given(access: Access) -> Access:
    """The access with what these options change. Raises BadInput."""
    user, groups, token = (_given.get(name) for name in ("user", "groups", "token"))
    if groups and not user:
        raise BadInput("saw --as-group without --as, wanted both: the API server takes groups of a user only")
    more = [*([("Impersonate-User", user)] if user else []), *[("Impersonate-Group", group) for group in groups or ()]]
    authorization = f"Bearer {token}" if token else access.authorization
    return access._replace(
        authorization=authorization, more=tuple(more), timeout=_seconds(_given.get("request_timeout"))
    )


def _seconds(text: str | None) -> float | None:
    match = re.fullmatch(r"(\d+)(ms|[smh]?)", text or "0")
    if match is None:
        raise BadInput(f"--request-timeout: saw {quoted(text)}, wanted a time, for example 30s or 1m")
    return float(match[1]) * _UNITS[match[2]] or None
