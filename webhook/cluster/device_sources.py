"""All sources of devices that read nodes and pods. A new one is a file with its class, and one line here.

The devices of DRA come from objects of their own: see `slices` and `claims`.
"""

from typing import Final

from webhook.cluster.devices import DeviceSource
from webhook.cluster.source_aliyun import ALIYUN
from webhook.cluster.source_hami import HAMI
from webhook.cluster.source_volcano import VOLCANO

SOURCES: Final[tuple[DeviceSource, ...]] = (
    HAMI,
    VOLCANO,
    ALIYUN,
)
