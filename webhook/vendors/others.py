"""Vendors of whose GPUs little more is known than names. Whoever knows more of one gives it a file of its own."""

from typing import Final

from webhook.vendors.model import Fact, Resource, RuntimeClass, Variable, Vendor

_HAMI: Final = "https://github.com/Project-HAMi/HAMi/blob/master/docs/config.md"


def _vendor(name: str, *facts: Fact, source: str = _HAMI) -> Vendor:
    unknown = ("labels, taints, conditions and metrics; what its device plugin says of parts",)
    return Vendor(name, {source: facts}, unknown)


MOORE_THREADS: Final = _vendor(
    "Moore Threads",
    Resource("mthreads.com/gpu"),
    Variable("MTHREADS_VISIBLE_DEVICES"),
    Variable("MUSA_VISIBLE_DEVICES", "nothing"),
    RuntimeClass("mthreads*"),
)
METAX: Final = _vendor(
    "MetaX",
    Resource("metax-tech.com/gpu"),
    Variable("METAX_VISIBLE_DEVICES"),
    Variable("MACA_VISIBLE_DEVICES", "nothing"),
    RuntimeClass("metax*"),
)
ILUVATAR: Final = _vendor(
    "Iluvatar",
    Resource("iluvatar.ai/gpu"),
    Variable("ILUVATAR_VISIBLE_DEVICES"),
    Variable("ILUVATAR_COREX_*"),
    RuntimeClass("iluvatar*"),
)
ENFLAME: Final = _vendor(
    "Enflame",
    Resource("enflame.com/gcu"),
    Resource("enflame.com/gcu-*", "part"),
    Resource("enflame.com/vgcu*", "part"),
    Resource("enflame.com/drs-gcu", "part"),
    Variable("ENFLAME_VISIBLE_DEVICES"),
    Variable("TOPS_VISIBLE_DEVICES", "nothing"),
    RuntimeClass("enflame*"),
)
HYGON: Final = _vendor(
    "Hygon",
    Resource("hygon.com/dcu"),
    Resource("hygon.com/dcunum", "part"),
    Resource("hygon.com/dcumem", "part"),
    Resource("hygon.com/dcucores", "part"),
    Variable("HYGON_VISIBLE_DEVICES"),
    Variable("DCU_VISIBLE_DEVICES"),
    RuntimeClass("hygon*"),
    RuntimeClass("dtk*"),
)
KUNLUNXIN: Final = _vendor(
    "Kunlunxin",
    Resource("kunlunxin.com/xpu"),
    Variable("CXPU_VISIBLE_DEVICES"),
    Variable("XPU_VISIBLE_DEVICES", "nothing"),
)
XDXCT: Final = _vendor(
    "XDXCT", Variable("XDXCT_VISIBLE_DEVICES"), source="https://github.com/XDXCT/xdxct-container-toolkit"
)

OTHERS: Final = (MOORE_THREADS, METAX, ILUVATAR, ENFLAME, HYGON, KUNLUNXIN, XDXCT)
