"""Who reads what injectors add, by their docstrings: the generated part of docs/beside.md.

Under `Read by:` there is an indented line for each of READERS, with what that one does with the fields, by its source. A line
that is indented further goes on.
"""

import re
from collections.abc import Iterator
from typing import Final

from webhook.cli.policy.explain import documentation
from webhook.framework.interface import Injector
from webhook.policy.model import Injectors, named

READERS: Final = (
    "kube-scheduler",
    "cluster-autoscaler",
    "Karpenter",
    "Kueue, KAI, Volcano, YuniKorn",
    "descheduler",
    "quotas and others",
)
_LINE: Final = re.compile(rf"^    ({'|'.join(READERS)}): ((?:.*\n?)(?:      .*\n?)*)", re.MULTILINE)


def read_by(injector: Injector) -> dict[str, str]:
    """What each of READERS does with what it adds. Raises ValueError if one is missing."""
    _, begun, text = f"{documentation(injector)}\n".partition("Read by:\n")
    found = {name: " ".join(said.split()) for name, said in _LINE.findall(text.partition("\n\n")[0])}
    if missing := [each for each in READERS if not found.get(each)]:
        raise ValueError(
            f"{type(injector).__module__}: saw {'a' if begun else 'no'} part «Read by:» in the docstring, without {missing}; "
            "wanted a line for each of them: read in its source what it does with the fields, and write «nothing» if none"
        )
    return {each: found[each] for each in READERS}


def lines(injectors: Injectors = Injectors()) -> Iterator[str]:  # noqa: B008  it is immutable
    """A row for each injector: what each reader does with what it adds."""
    yield from ("", f"| injector | {' | '.join(READERS)} |", "|---" * (len(READERS) + 1) + "|")
    for name, injector in named(injectors):
        yield f"| `{name}`{'' if injector.enabled else ' (off by default)'} | {' | '.join(read_by(injector).values())} |"
    yield ""
