"""The environment variables by which container runtimes hand out devices.

Sources: docs/vendors.md; NVIDIA/nvidia-container-toolkit internal/modifier/cdi.go (gatedDevices, imexDevices); the order of
variables: kubelet GenerateRunContainerOptions.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.kube import cel
from webhook.kube.other_gpus import PART_CONFIGMAP
from webhook.kube.pod import Pod, annotations_of
from webhook.text import bare, matches, quoted
from webhook.vendors.catalogue import every, variables
from webhook.vendors.model import Variable

DEVICES: Final = variables("devices")
"""Variables that container runtimes read (name patterns)."""
PROGRAMS: Final = (*variables("own", "nothing"), "JAX_*", "RAY_*", "VLLM_*")
"""Variables with similar names that only programs in the container read (name patterns)."""
NVIDIA, VOID = next((each.name, each.none[0]) for each in every(Variable) if each.none)
"""The variable with which an image may ask for all GPUs, and its value for none."""
LEGACY: Final = variables("legacy")
"""Variables that stand for all devices, where no other does."""
_NOTHING = ("", "void", "none")
_OTHERWISE = {
    each.name: each.none for each in every(Variable) if each.none is not None and not {*_NOTHING} <= {*each.none}
}
"""Variables with which one of these does give devices, exact names before patterns, and their values for none."""
_ODD = tuple([name.removesuffix("*") for name in _OTHERWISE])


def _no_device() -> str:
    value = 'e.?value.orValue("")'
    expression = f"{value} in {cel.literal(_NOTHING)}"
    for name, none in reversed(_OTHERWISE.items()):
        takes_none = f"{value} in {cel.literal(none)}" if none else "false"
        expression = f"({cel.matches('e.name', [name])} ? {takes_none} : {expression})"
    return f"(!has(e.valueFrom) && {expression})"


NO_DEVICE = _no_device()
"""`takes_no_device` in CEL, for variable `e`."""
_PREFIX = f'{cel.ANNOTATIONS}[?"{PART_CONFIGMAP}"].orValue("")'
_NAMED = f"e.name == {cel.literal(NVIDIA)}"
PART = cel.all_of(
    [
        *(cel.PART_BY_KAI, cel.GETS_FRACTION, _NAMED, f'{_PREFIX} != ""'),
        f'e.?valueFrom.?configMapKeyRef.?name.orValue("").startsWith({_PREFIX} + "-")',
    ]
)
"""`is_part_of_gpu` in CEL, for variable `e` of the container `part_container`."""
HIDDEN = cel.all_of([cel.env(_NAMED), f"!{cel.env(f'{_NAMED} && !{NO_DEVICE}')}"])
"""`hides_devices` in CEL, for container `c`."""


def takes_no_device(entry: Mapping[str, Any]) -> bool:
    """Whether the value of a variable asks for no device. The value of a reference is not known and counts as asking."""
    value = entry.get("value") or ""
    if value not in _NOTHING or entry.get("valueFrom"):
        return False
    name = entry.get("name") or ""
    if not name.startswith(_ODD):
        return True
    return value in next(none for pattern, none in _OTHERWISE.items() if matches(pattern, name))


def is_part_of_gpu(entry: Mapping[str, Any], pod: Pod) -> bool:
    """Whether a variable has the part of a GPU that KAI or Run:ai gives to the container: its webhook writes it so."""
    source = (entry.get("valueFrom") or {}).get("configMapKeyRef") or {}
    prefix = annotations_of(pod).get(PART_CONFIGMAP)
    return entry.get("name") == NVIDIA and bool(prefix) and (source.get("name") or "").startswith(f"{prefix}-")


def hides_devices(container: Mapping[str, Any]) -> bool:
    """Whether the container sets NVIDIA_VISIBLE_DEVICES, and never so that it gets a device."""
    values = [takes_no_device(entry) for entry in container.get("env") or () if entry.get("name") == NVIDIA]
    return bool(values) and all(values)


def value_of(entry: Mapping[str, Any]) -> str:
    """The value as a phrase. Of a reference only its kind is said, since the value behind it may be secret."""
    source = entry.get("valueFrom")
    if source:
        return f"(from a {bare(next(iter(source), 'reference'))})" if isinstance(source, dict) else "(a reference)"
    return quoted(entry.get("value") or "")
