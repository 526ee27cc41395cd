"""Some node that could take the pod has a driver that is new enough for the CUDA of its images.

A program for a newer CUDA ends with "driver version is insufficient", after its image was pulled. Labels of GPU Feature Discovery
say which CUDA a driver knows. Of an image only the major version counts, since drivers run newer minor versions too;
NVIDIA_REQUIRE_CUDA counts as it is written.

Fields read:   image of containers with NVIDIA GPUs: the tags of nvidia/cuda and pytorch/pytorch, whatever the registry; of their
               env NVIDIA_REQUIRE_CUDA, CUDA_VERSION and NVIDIA_DISABLE_REQUIRE; labels of the nodes that could take the pod
Allowed:       an image of the same or an older major version, or with cuda-compat, if the GPU is no GeForce and no TITAN;
               images whose tags do not tell their CUDA (those of nvcr.io/nvidia); nodes without these labels
Warned about:  an image or a requirement for a newer version than every node that could take the pod has
Not for DRA:   devices choose the node then, and no label tells their driver

Source: NVIDIA's CUDA Compatibility (minor version and forward compatibility), NVIDIA/nvidia-container-toolkit
internal/requirements and internal/config/image/cuda_image.go, k8s-device-plugin docs/gpu-feature-discovery.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, ClassVar, Final, NamedTuple

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import vendor
from webhook.kube.pod import Container
from webhook.text import quoted
from webhook.vendors.catalogue import every, labels
from webhook.vendors.model import CudaImage, DriverVariable, ForDesktops

_NAMES = {each.says: each.name for each in every(DriverVariable)}
_REQUIRE, _VERSION, _DISABLE = (_NAMES[says] for says in ("required", "cuda", "unchecked"))
_CUDA = [f"{key.removesuffix('*')}{part}" for key in labels("cuda") for part in ("major", "minor")]
_LABELS = (f"{labels('driver')[0].removesuffix('*')}full", labels("model")[0], *_CUDA)
_IMAGES = every(CudaImage)
_WITHOUT_COMPAT = tuple([each.model for each in every(ForDesktops)])
_MAX_IMAGE = 512
_MAX_REQUIREMENT = 4096
"""Characters of all requirements of a pod together. With more than that none is checked. That of an image has 1,500."""
_NO_MINOR_COMPATIBILITY = 10
"""The last major version without minor version compatibility. Nothing is said about these."""
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {"!=": ne, "<=": le, ">=": ge, "=": eq, "<": lt, ">": gt}
_FACTOR = re.compile(r"(cuda|driver)(!=|<=|>=|=|<|>)([0-9]{1,9}(?:\.[0-9]{1,9}){0,2})")
_FIX = "Take an image for an older CUDA, or ask those who run this cluster for a newer driver"

_Version = tuple[int, ...]


class _Driver(NamedTuple):
    """The driver of some nodes."""

    cuda: _Version
    """Major and minor version of the newest CUDA that it knows."""
    driver: _Version
    """() if it is not told."""
    text: str
    """Its version, as the label has it."""
    compatible: bool
    """Whether cuda-compat may work with it."""

    @property
    def words(self) -> str:
        return f"CUDA {_written(self.cuda)}" + (f" by driver {self.text}" if self.driver else "")


class CudaDriver(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs the state of the cluster"

    action: Action = "warn"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        asking = [each for each in pod.containers if any(map(_is_nvidia, each.gpu_counts(context.gpus)))]
        needs = [(each, need) for each in asking for need in _needs(each)]
        if not needs or context.nodes is None or pod.claims_devices:
            return
        if sum([len(need.written) for _, need in needs if need.terms]) > _MAX_REQUIREMENT:
            return
        drivers = {_driver(values) for values in context.nodes.labels(pod, _LABELS)}
        known = [each for each in drivers if each is not None]
        if not known or len(known) < len(drivers):
            return
        newest = max(known)
        for container, need in needs:
            if any(map(need.is_met, known)):
                continue
            yield Finding(
                path=f"{container.field}.{need.field}",
                seen=f"{need.seen} in container {quoted(container.name)}",
                wanted=f"a CUDA that the driver of a node for the pod knows: the newest is {newest.words}",
                fix=_FIX,
            )


_READ: Final = (_DISABLE, _REQUIRE, _VERSION)


class _Need(NamedTuple):
    """What a container needs of the driver."""

    field: str
    written: str
    cuda: int = 0
    """The major version of CUDA; 0 if `terms` say what is needed."""
    compat: bool = True
    """Whether it may bring cuda-compat."""
    terms: tuple[tuple[tuple[str, str, _Version], ...], ...] = ()
    """A requirement: of each of the terms, the property, the operator and the version that must all hold for it."""

    @property
    def seen(self) -> str:
        return f"CUDA {self.cuda} of {quoted(self.written)}" if self.cuda else quoted(self.written)

    def is_met(self, by: _Driver) -> bool:
        """Whether a driver may do. In doubt it does."""
        if self.cuda:
            return by.cuda[0] >= self.cuda or (self.compat and by.compatible)
        return any([all([_holds(by, *factor) for factor in term]) for term in self.terms])


def _needs(container: Container) -> Iterable[_Need]:
    """What a container needs for sure."""
    env = {
        e.get("name"): (index, e) for index, e in enumerate(container.spec.get("env") or ()) if e.get("name") in _READ
    }
    if _DISABLE in env:
        return
    if _REQUIRE in env:
        index, entry = env[_REQUIRE]
        written = _value(entry)
        if terms := _terms(written):
            yield _Need(f"env[{index}]", written, terms=terms)
    field, written = "image", str(container.spec.get("image") or "")
    cuda, compat = _built_with(written[:_MAX_IMAGE])
    if not cuda and _VERSION in env:
        index, entry = env[_VERSION]
        field, written, compat = f"env[{index}]", _value(entry), True
        cuda = _version(written)
    if cuda and cuda[0] > _NO_MINOR_COMPATIBILITY:
        yield _Need(field, written, cuda[0], compat)


def _built_with(image: str) -> tuple[_Version, bool]:
    """The version of CUDA that the tag of an image tells, () if it tells none; and whether it may bring cuda-compat."""
    name, _, tag = image.partition("@")[0].rpartition(":")
    for known in _IMAGES:
        if f"/{name}".endswith(f"/{known.name}"):
            parts = tag.split("-")
            text = next((part for part in parts if part.startswith(known.before)), "")
            return _version(text.removeprefix(known.before)), parts[-1] not in known.but
    return (), True


def _terms(requirement: str) -> tuple[tuple[tuple[str, str, _Version], ...], ...]:
    """The terms of a requirement, of which one must hold; () if one of them is not about CUDA or the driver, and so may hold.

    Spaces stand between terms, commas between what must hold for one. What is said of the model of the GPU counts as true.
    """
    if len(requirement) > _MAX_REQUIREMENT:
        return ()
    terms = []
    for term in requirement.split():
        found = [match for factor in term.split(",") if (match := _FACTOR.fullmatch(factor))]
        if not found:
            return ()
        terms.append(tuple([(match[1], match[2], _version(match[3])) for match in found]))
    return tuple(terms)


def _holds(by: _Driver, subject: str, operator: str, version: _Version) -> bool:
    has = by.cuda if subject == "cuda" else by.driver
    length = max(len(has), len(version))
    return not has or _OPERATORS[operator](_padded(has, length), _padded(version, length))


def _padded(version: _Version, length: int) -> _Version:
    return version + (0,) * (length - len(version))


def _driver(values: tuple[str, ...]) -> _Driver | None:
    """None if the labels of a node do not tell it."""
    driver, model, *cuda_of = values
    known = [pair for pair in zip(cuda_of[::2], cuda_of[1::2], strict=True) if all(pair)]
    cuda = _version(".".join(known[0])) if known else ()
    return _Driver(cuda, _version(driver), driver, not model.startswith(_WITHOUT_COMPAT)) if cuda else None


def _version(text: str) -> _Version:
    """Up to three numbers with dots between them; () if the text is something else."""
    return tuple(map(int, text.split("."))) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}", text) else ()


def _written(version: _Version) -> str:
    return ".".join(map(str, version))


def _value(entry: Mapping[str, Any]) -> str:
    """The value of a variable; "" if it comes from elsewhere."""
    value = entry.get("value")
    return value if isinstance(value, str) and not entry.get("valueFrom") else ""


def _is_nvidia(resource: str) -> bool:
    return vendor(resource) == vendor(_CUDA[0])
