"""Compares both sides of the running demo now, cell by cell, with HBase's own Java client. It ends with 1 if they differ."""

import sys

from demo.control import tell

if __name__ == "__main__":
    sys.exit(tell("compare"))
