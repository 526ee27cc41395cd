"""Runs the command line: `python -m webhook` is the same as `gpu-admission`."""

from webhook.cli.main import main

if __name__ == "__main__":
    main()
