"""Builds CEL expressions for the exported admission policies. Everything from a policy goes through `literal`.

Parameters and results of type `str` are CEL expressions where nothing else is said.
"""

import json
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Literal, NamedTuple

from webhook.kube.gpus import GpuKind, Gpus
from webhook.kube.other_gpus import CONTAINER_PARTS, FRACTION_CONTAINER, FRACTIONS, KAI, RESOURCES
from webhook.kube.pod import GPU_WORDS, INJECTION, OFF


class Check(NamedTuple):
    """A condition of a rule in CEL."""

    subject: Literal["pod", "container", "annotation", "toleration"]
    """What is checked: a new pod; or each of these that comes with a pod or is added to it later, as the variable `c`, `k` (the
    key of the annotation) or `t`."""
    bad: str
    """The expression that is true where the rule is violated."""
    wanted: str
    """The text of the message after "wanted"."""
    only_warn: bool = False
    only_new: bool = False
    """It is about annotations of a new pod alone. `bad` says so too."""


def literal(value: str | int | Iterable[str | int]) -> str:
    """A string, a number or a list of them. CEL reads the escapes of JSON."""
    if isinstance(value, (str, int)):
        return json.dumps(value, ensure_ascii=False)
    return f"[{', '.join(map(literal, value))}]"


def matches(text: str, patterns: Iterable[str]) -> str:
    """Whether the value of `text` matches one of the name patterns: exact names, or prefixes with a trailing `*`."""
    patterns = list(patterns)
    if "*" in patterns:
        return "true"
    exact = [p for p in patterns if not p.endswith("*")]
    terms = [f"{text} in {literal(exact)}"] if exact else []
    if prefixes := [p[:-1] for p in patterns if p.endswith("*")]:
        terms.append(one_of(prefixes, lambda prefix: f"{text}.startsWith({prefix})"))
    return f"({' || '.join(terms)})" if terms else "false"


def one_of(texts: Iterable[str], condition: Callable[[str], str]) -> str:
    """Whether a condition holds for one of these texts. `condition`: its expression, for that of a text."""
    texts = list(texts)
    if len(texts) > 2:
        return f"{literal(texts)}.exists(one, {condition('one')})"
    return any_of(condition(literal(text)) for text in texts)


def any_of(terms: Iterable[str]) -> str:
    terms = list(terms)
    return f"({' || '.join(terms)})" if len(terms) > 1 else (terms or ["false"])[0]


def all_of(terms: Iterable[str]) -> str:
    terms = list(terms)
    return f"({' && '.join(terms)})" if len(terms) > 1 else (terms or ["true"])[0]


def field(container: str, name: str) -> str:
    """A list field of a container; empty if it is missing."""
    return f"{container}.?{name}.orValue([])"


def limits(container: str) -> str:
    return f"{container}.?resources.?limits.orValue({{}})"


def requests(container: str) -> str:
    return f"{container}.?resources.?requests.orValue({{}})"


def is_gpu(name: str, gpus: Gpus) -> str:
    return matches(name, [gpu.name for gpu in gpus.names])


def of_kinds(name: str, gpus: Gpus, kinds: tuple[GpuKind, ...]) -> str:
    """Whether a resource name is that of a GPU of one of these kinds. The first name in `gpus` that matches decides."""
    expression = "false"
    for wanted, group in groupby(reversed(gpus.names), lambda gpu: gpu.kind in kinds):
        matched = matches(name, [gpu.name for gpu in group])
        if wanted:
            expression = matched if expression == "false" else any_of([matched, expression])
        elif expression != "false":
            expression = all_of([f"!{matched}", expression])
    return expression


def counts(container: str, gpus: Gpus) -> str:
    """The GPU resources in the limits of a container that are not zero. The API server writes every zero as "0"."""
    return f'{limits(container)}.filter(k, {is_gpu("k", gpus)} && {container}.resources.limits[k] != "0")'


def gpu_containers(containers: str, gpus: Gpus) -> str:
    """The names of the containers that ask for a GPU (`Container.has_gpu`). The value of variable `gpuContainers`."""
    return f"{containers}.filter(c, {counts('c', gpus)}.size() > 0).map(c, c.name)"


ASKS = "(c.name in variables.gpuContainers)"
"""Whether container `c` asks for a GPU. Container names are unique in a pod."""


def asks_for_gpu(gpus: Gpus) -> str:
    """Whether the pod asks for a GPU (`Context.asks_for_gpu`). The value of variable `asksForGpu`."""
    words = any_of([f"k.lowerAscii().contains({literal(word)})" for word in GPU_WORDS])
    unknown = f'{words} && !{is_gpu("k", gpus)} && c.resources.requests[k] != "0"'
    return any_of(
        [
            "variables.gpuContainers.size() > 0",
            f"variables.all.exists(c, {requests('c')}.exists(k, {unknown}))",
            PART_BY_KAI,
        ]
    )


CLAIMS = "object.spec.?resourceClaims.orValue([]).size() > 0"
"""Whether the pod claims devices through DRA."""
ANNOTATIONS = "object.metadata.?annotations.orValue({})"


def _of_container(*, asking: bool) -> str:
    """Whether annotation `a` is about the part of a GPU of one container, or asks for it (`other_gpus.part_key`)."""
    return any_of(
        f"a.startsWith({literal(part.prefix)}) && "
        + one_of(
            [f".{word}" for word in (part.asks if asking else (*part.asks, *part.harmless))],
            lambda end: f"a.endsWith({end})",
        )
        for part in CONTAINER_PARTS
    )


FRACTION = f"{ANNOTATIONS}.exists(a, a in {literal(sorted(FRACTIONS))} || {_of_container(asking=True)})"
"""Whether the pod asks for a part of a GPU by annotation (`other_gpus.asks_for_part`)."""
BY_KAI = f'object.spec.?schedulerName.orValue("") in {literal(KAI)}'
"""Whether KAI or Run:ai schedules the pod."""
PART_BY_KAI = all_of([BY_KAI, 'object.spec.?nodeName.orValue("") == ""', FRACTION])
"""Whether `other_gpus.part_container` is there."""
IN_POD_GROUP = any_of([f"has(dyn(object.spec).{name})" for name in ("schedulingGroup", "workloadRef")])
"""`pod.in_pod_group`. Not every version of Kubernetes has both fields."""
_OF_CONTAINERS = f"{ANNOTATIONS}.filter(a, {_of_container(asking=False)})"
_OF_THIS = any_of(
    f"{literal([f'.{word}' for word in (*part.asks, *part.harmless)])}.exists(end, a == {literal(part.prefix)} + c.name + end)"
    for part in CONTAINER_PARTS
)
_BY_NAME = f'c.name == {ANNOTATIONS}[?"{FRACTION_CONTAINER}"].orValue(object.spec.containers[0].name)'
GETS_FRACTION = f"({_OF_CONTAINERS}.size() > 0 ? {_OF_CONTAINERS}.all(a, {_OF_THIS}) : {_BY_NAME})"
"""Whether container `c` is `other_gpus.fraction_container`."""
LEFT_ALONE = f"{ANNOTATIONS}.exists(a, a == {literal(INJECTION)} && {ANNOTATIONS}[a] == {literal(OFF)})"
"""Whether the author switched injection off."""


def has_other_gpu(container: str) -> str:
    """Whether a container requests a GPU by another resource (`other_gpus.has_other_gpu`)."""
    return f'{requests(container)}.exists(k, {matches("k", RESOURCES)} && {container}.resources.requests[k] != "0")'


def other_gpus(containers: str) -> str:
    """Whether the pod has GPUs without a GPU resource of the policy (`Context.other_gpus`)."""
    return any_of([CLAIMS, FRACTION, f"{containers}.exists(o, {has_other_gpu('o')})"])


def names_gpu(containers: str, gpus: Gpus, *, zero: bool = False) -> str:
    """Whether any of the containers names a GPU resource, in any quantity but zero; with `zero` in that too."""
    named = []
    for names, part in ((limits("c"), "limits"), (requests("c"), "requests")):
        more = "" if zero else f' && c.resources.{part}[k] != "0"'
        named.append(f"{names}.exists(k, {is_gpu('k', gpus)}{more})")
    return f"{containers}.exists(c, {' || '.join(named)})"


def env(condition: str) -> str:
    """Whether container `c` has an environment variable `e` that meets the condition."""
    return f"{field('c', 'env')}.exists(e, {condition})"


LISTS = ("containers", "initContainers")
"""The container lists that a pod may have at its creation."""


def for_each(kind: str, condition: str, patch: str) -> str:
    """The operations of `patch`, a list, for each container `c` at index `i` of list `kind` that meets the condition."""
    return f"object.spec.?{kind}.orValue([]).transformList(i, c, {condition}, {patch}).flatten()"
