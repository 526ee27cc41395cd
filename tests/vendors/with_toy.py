"""Runs the commands with one vendor more, the toy: `python -m tests.vendors.with_toy top …`, and `page` for docs/vendors.md."""

import sys

from tests.toys.acme_gpus import ACME
from webhook import vendors

vendors.VENDORS = (*vendors.VENDORS, ACME)  # before anything reads them

if __name__ == "__main__":
    if sys.argv[1:] == ["page"]:
        from tests.vendors.page import lines

        sys.stdout.write("\n".join(lines()))
    else:
        from webhook.cli.main import main

        main()
