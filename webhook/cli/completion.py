"""Shell completion for `kubectl gpu …`.

kubectl runs the program `kubectl_complete-gpu` with the words typed so far. The program prints one completion a line
and a directive on the last line (kubectl pkg/cmd/plugin_completion.go). Completion for `gpu-admission` itself comes from
`gpu-admission --install-completion`.
"""

import os
import shlex
import sys
from contextlib import suppress

from webhook.cli.main import app
from webhook.cli.terminal import out

_DIRECTIVE = ":0"
"""cobra's ShellCompDirectiveDefault: if there is no completion, the shell completes file names."""
_NAME = "gpu-admission"


def main() -> None:
    """Entry point of `kubectl_complete-gpu`: asks typer for completions as bash does, by environment variables."""
    arguments = sys.argv[1:]
    os.environ["_GPU_ADMISSION_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join([_NAME, *arguments])
    os.environ["COMP_CWORD"] = str(len(arguments))
    sys.argv = [_NAME]
    with suppress(SystemExit):
        app(prog_name=_NAME)
    out(_DIRECTIVE)
