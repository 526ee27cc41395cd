"""docs/first-hour.md, from the label to the first pod that waits: what the page says is typed as it stands."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.nodes import Nodes
from tests.installed import ROOT, Installed

pytestmark = pytest.mark.controlplane

PAGE = (ROOT / "docs" / "first-hour.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"```console\n(.+?)```", PAGE, re.DOTALL)
    for command in re.split(r"(?<!\|)\n(?=\S)", block.strip())
    if re.match(r"[a-z-]+ .*\bmy-team\b", command)
]
