"""Completion of `kubectl gpu-admission …`: kubectl asks the program `kubectl_complete-gpu_admission` for words, and ends with a
directive (kubectl pkg/cmd/plugin_completion.go). For `gpu-admission` itself: `gpu-admission --install-completion`.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress

from webhook.cli.main import app
from webhook.cli.terminal import out

_FILES_TOO = ":0"
"""cobra's ShellCompDirectiveDefault: where there is no word, the shell completes the names of files."""
_NAME = "gpu-admission"


def main() -> None:
    """Entry point of `kubectl_complete-gpu_admission`: typer is asked as a shell asks it."""
    arguments = sys.argv[1:]
    asked = {
        "_GPU_ADMISSION_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join([_NAME, *arguments]),
        "COMP_CWORD": str(len(arguments)),
    }
    os.environ.update(asked)
    sys.argv = [_NAME]
    with suppress(SystemExit):
        app(prog_name=_NAME)
    out(_FILES_TOO)
