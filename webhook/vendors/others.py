"""Vendors of whose GPUs little more is known than names. Whoever knows more of one gives it a file of its own."""

from collections.abc import Mapping
from typing import Final

from webhook.vendors.model import Fact, Resource, RuntimeClass, Variable, Vendor

_HAMI: Final = "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/templates/scheduler/device-configmap.yaml"
_HAMI_NAMES: Final = "https://github.com/Project-HAMi/HAMi/blob/master/charts/hami/values.yaml"
_GPUSTACK: Final = "https://github.com/gpustack/runtime/blob/main/gpustack_runtime/envs.py"
_FLAGOS: Final = "https://github.com/flagos-ai/FlagGems"


def _vendor(name: str, facts: Mapping[str, tuple[Fact, ...]], *unknown: str) -> Vendor:
    return Vendor(name, facts, (*unknown, "what its device plugin says of parts"))


MOORE_THREADS: Final = _vendor(
    "Moore Threads",
    {
        _HAMI: (Resource("mthreads.com/vgpu", "part"), Resource("mthreads.com/sgpu-*", "part")),
        _GPUSTACK: (Resource("mthreads.com/gpu"), Variable("MUSA_VISIBLE_DEVICES", "nothing")),
        "https://github.com/gpustack/runtime/blob/main/pack/Dockerfile": (
            Variable("MTHREADS_VISIBLE_DEVICES"),
            RuntimeClass("mthreads*"),
        ),
    },
)
METAX: Final = _vendor(
    "MetaX",
    {
        _HAMI: (Resource("metax-tech.com/gpu"),),
        _HAMI_NAMES: (
            Resource("metax-tech.com/sgpu", "part"),
            Resource("metax-tech.com/vcore", "part"),
            Resource("metax-tech.com/vmemory", "part"),
        ),
        _FLAGOS: (
            Variable("METAX_VISIBLE_DEVICES"),
            Variable("MACA_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("metax*"),
        ),
    },
    "whether a runtime of its own reads METAX_VISIBLE_DEVICES",
)
ENFLAME: Final = _vendor(
    "Enflame",
    {
        "https://github.com/EnflameTechnology/gcushare/blob/main/gcushare-device-plugin/pkg/consts/const.go": (
            Resource("enflame.com/gcu-count", "none"),
            Resource("enflame.com/gcu"),
            Resource("enflame.com/gcu-*", "part"),
            Resource("enflame.com/vgcu*", "part"),
            Resource("enflame.com/drs-gcu", "part"),
            Resource("enflame.com/shared-gcu", "part"),
            Variable("ENFLAME_VISIBLE_DEVICES"),
            Variable("TOPS_VISIBLE_DEVICES", "nothing"),
            RuntimeClass("enflame*"),
        ),
    },
    "whether its runtime reads TOPS_VISIBLE_DEVICES too, which its device plugin sets for slices",
)
XDXCT: Final = _vendor(
    "XDXCT", {"https://github.com/XDXCT/xdxct-container-toolkit": (Variable("XDXCT_VISIBLE_DEVICES"),)}
)
T_HEAD: Final = _vendor("Alibaba T-Head", {_GPUSTACK: (Resource("alibabacloud.com/ppu"),)})
BIREN: Final = _vendor("Biren", {_HAMI_NAMES: (Resource("birentech.com/gpu"),)})
VASTAI: Final = _vendor("Vastai", {_HAMI_NAMES: (Resource("vastaitech.com/va"),)})
REBELLIONS: Final = _vendor(
    "Rebellions", {"https://github.com/RBLN-SW/rbln-container-toolkit": (Resource("rebellions.ai/npu"),)}
)
QUALCOMM: Final = _vendor(
    "Qualcomm", {"https://nrp.ai/documentation/userdocs/ai/qaic": (Resource("qualcomm.com/qaic"),)}
)
WINDOWS: Final = _vendor(
    "GPUs of Windows nodes",
    {
        "https://learn.microsoft.com/en-us/azure/aks/use-windows-gpu": (Resource("microsoft.com/directx"),),
        "https://github.com/TensorWorks/DirectX-Device-Plugins": (
            Resource("directx.microsoft.com/display"),
            Resource("directx.microsoft.com/compute"),
        ),
    },
)

OTHERS: Final = (MOORE_THREADS, METAX, ENFLAME, XDXCT, T_HEAD, BIREN, VASTAI, REBELLIONS, QUALCOMM, WINDOWS)
