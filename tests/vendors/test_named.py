"""No file but those in `webhook/vendors/` names a vendor."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from webhook.vendors import VENDORS
from webhook.vendors.model import (
    Annotation,
    DeviceClass,
    Fact,
    Label,
    MeasuringPods,
    Part,
    Resource,
    RuntimeClass,
    SharedCards,
    SharedGroups,
    SharedMemory,
    Taint,
    Variable,
)

ROOT = Path(__file__).resolve().parents[2] / "webhook"
COMMON = {"agentpool", "karpenter.sh/", "gpu-fraction", "gpu-memory", "gpu-operator", "sku"}
"""Words that are not the vendor's own."""
NO_NAMES = {
    *re.findall(
        "[a-z]+", "and cloud engine gpu gpus head karpenter kubernetes manager nodes run service threads windows"
    )
}
"""Nor are these, of those in the names of vendors."""


def own_words() -> Iterator[str]:
    """What only the vendors' files may say: names of facts, and the domains that they are in."""
    for vendor in VENDORS:
        for facts in vendor.facts.values():
            for fact in facts:
                if isinstance(
                    fact, Resource | Label | Taint | Variable | Annotation | Part | RuntimeClass | DeviceClass
                ):
                    name = getattr(fact, "name", "") or getattr(fact, "key", "")
                    domain, slash, _ = name.partition("/")
                    yield f"{domain}/" if slash and "kubernetes.io" not in domain else name.removesuffix("*")
                for name in told(fact):
                    domain, slash, _ = name.partition("/")
                    yield f"{domain}/" if slash else name


def told(fact: Fact) -> tuple[str, ...]:
    """The annotations and labels by which a scheduler of parts writes what nodes and pods have; and who measures."""
    match fact:
        case SharedCards():
            return (fact.registered, *fact.assigned, *fact.choosing)
        case MeasuringPods():
            return (fact.app, fact.source)
        case SharedMemory():
            return (fact.index,)
        case SharedGroups():
            return (fact.namespace, fact.group, fact.received)
    return ()


WORDS = sorted({word for word in own_words() if len(word) > 3} - COMMON)
NAMES = {word.lower() for vendor in VENDORS for word in re.findall("[A-Za-z]{3,}", vendor.name)} - NO_NAMES | {"dcgm"}
NAMED = re.compile(
    "|".join([*map(re.escape, WORDS), *[rf"(?<![a-z.])(?i:{name})(?![A-Za-z])" for name in sorted(NAMES)]])
)


def strings(path: Path) -> Iterator[str]:
    """The text in a module, but for docstrings."""
    tree, docs = ast.parse(path.read_text()), set[int]()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        docs.update([id(each.value) for each in body if isinstance(each, ast.Expr)] if isinstance(body, list) else [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_no_other_file_names_a_vendor() -> None:
    modules = sorted(path for path in ROOT.rglob("*.py") if path.parent.name != "vendors")
    found = {
        path.relative_to(ROOT).as_posix(): texts
        for path in modules
        if (texts := [text for text in strings(path) if NAMED.search(text)])
    }
    assert found == {}
