"""Puts the page together: one HTML file with its style and its script, and the content policy that allows no other."""

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import orjson

_NEVER: Final = {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "img-src": "data:"}


@cache
def _static(name: str) -> str:
    return files("webhook.cli.ui").joinpath("static", name).read_text(encoding="utf-8")


def _allowed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def content_policy(**more: str) -> str:
    """The value of Content-Security-Policy. `more`: further directives, with `_` for `-`."""
    own = {"script-src": _allowed(_static("script.js")), "style-src": _allowed(_static("style.css"))}
    directives = {**_NEVER, **own, **{name.replace("_", "-"): value for name, value in more.items()}}
    return "; ".join([f"{name} {value}" for name, value in directives.items()])


def page(state: Mapping[str, Any] | None = None) -> str:
    """The page. `state`: what it shows; None: it asks the server that it came from.

    In a file the policy stands in the page, and lets it load nothing at all. No text of `state` can end the element it stands in.
    """
    policy, data = "", ""
    if state is not None:
        policy = f'<meta http-equiv="Content-Security-Policy" content="{content_policy()}">'
        text = orjson.dumps(state).decode().replace("<", "\\u003c")
        data = f'<script type="application/json" id="state">{text}</script>'
    parts = {"policy": policy, "style": f"<style>{_static('style.css')}</style>", "data": data}
    html = _static("index.html")
    for name, part in {**parts, "script": f'<script type="module">{_static("script.js")}</script>'}.items():
        html = html.replace(f"<!-- {name} -->", part, 1)
    return html
