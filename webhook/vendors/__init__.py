"""All vendors, clouds and sharing systems that are known: one file and one line each.

A file has what GPUs look like there, and nothing else names a vendor. Of two facts about one thing the first counts. All of them
are read by `webhook.vendors.catalogue`.
"""

from webhook.vendors.model import Vendor
from webhook.vendors.nvidia import NVIDIA

VENDORS: tuple[Vendor, ...] = (NVIDIA,)
