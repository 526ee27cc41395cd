"""Runs commands with one vendor more, the toy, all in one process. Each line that it reads is the words of a command, as a JSON
list; it answers with a line, `[status, stdout, stderr]`. `page` is for docs/vendors.md.
"""

import json
import sys

from tests.toys.acme_gpus import ACME
from webhook import vendors

vendors.VENDORS = (*vendors.VENDORS, ACME)  # before anything reads them

if __name__ == "__main__":
    from tests.cli.objects import call
    from tests.vendors.page import lines

    for asked in map(json.loads, sys.stdin):
        if asked == ["page"]:
            print(json.dumps([0, "\n".join(lines()), ""]), flush=True)
        else:
            done = call(*asked)
            print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)
