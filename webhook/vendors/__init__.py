"""All vendors, clouds and sharing systems that are known: one file and one line each.

To add one: a file with facts by the page or source where they were read (`model.py` has their kinds, `tests/toys/` has
an example), a line here, and `make manifests`. A fact that nobody has read anywhere stays out; `unknown` says what is not known.
No other file names a vendor. Of two facts about one thing the first counts. All of them are read by `webhook.vendors.catalogue`.
"""

from webhook.vendors.aks import AKS
from webhook.vendors.aliyun import ALIYUN, TENCENT
from webhook.vendors.amd import AMD
from webhook.vendors.ascend import ASCEND
from webhook.vendors.cambricon import CAMBRICON
from webhook.vendors.coreweave import COREWEAVE
from webhook.vendors.eks import EKS
from webhook.vendors.gke import GKE
from webhook.vendors.habana import HABANA
from webhook.vendors.hami import HAMI
from webhook.vendors.hygon import HYGON
from webhook.vendors.iluvatar import ILUVATAR
from webhook.vendors.intel import INTEL
from webhook.vendors.kai import KAI
from webhook.vendors.karpenter import KARPENTER
from webhook.vendors.koordinator import KOORDINATOR
from webhook.vendors.kunlunxin import KUNLUNXIN
from webhook.vendors.model import Vendor
from webhook.vendors.neuron import NEURON
from webhook.vendors.nvidia import NVIDIA
from webhook.vendors.nvsentinel import NVSENTINEL
from webhook.vendors.others import OTHERS
from webhook.vendors.tpu import TPU
from webhook.vendors.volcano import VOLCANO
from webhook.vendors.yunikorn import YUNIKORN

VENDORS: tuple[Vendor, ...] = (
    NVIDIA,
    AMD,
    INTEL,
    HABANA,
    ASCEND,
    CAMBRICON,
    HYGON,
    ILUVATAR,
    KUNLUNXIN,
    NEURON,
    TPU,
    *OTHERS,
    GKE,
    AKS,
    EKS,
    COREWEAVE,
    KARPENTER,
    NVSENTINEL,
    KAI,
    HAMI,
    VOLCANO,
    ALIYUN,
    TENCENT,
    KOORDINATOR,
    YUNIKORN,
)
