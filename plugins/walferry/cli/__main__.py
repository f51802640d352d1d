"""`python -m walferry.cli` is the command `walferry`."""

import sys

from walferry.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
