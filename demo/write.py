"""Writes some rows to the running demo's source, which wait until they are shipped."""

import sys

from demo.control import tell

if __name__ == "__main__":
    sys.exit(tell("write"))
