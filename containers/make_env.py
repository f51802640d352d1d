"""Writes .env from .env.example, with a random value for each secret: python3 containers/make_env.py

Nobody but you can read the file (mode 0600). One that is there is left as it is.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
FERNET = "AIRFLOW_FERNET_KEY"  # of a form of its own


def filled(example: str) -> str:
    """The example, in which each empty value that is to be made has one."""
    lines = example.splitlines()
    for number, line in enumerate(lines):
        if found := re.fullmatch(r"(\w+)=", line):
            lines[number] = f"{line}{_secret(found[1])}"
    return "\n".join(lines) + "\n"


def main() -> int:
    target = REPO / ".env"
    text = filled((REPO / ".env.example").read_text(encoding="utf-8"))
    try:
        # Made with this mode, so that it can be read by others at no moment.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        print(f"{target} is there already: its secrets may be in use. Delete it to have new ones made", file=sys.stderr)
        return 1
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{target} is written: look through it, then docker compose up --build")
    return 0


def _secret(name: str) -> str:
    """64 letters and digits, as Airflow wants for its tokens, which are safe in a URL, too; but for the key of Fernet."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() if name == FERNET else secrets.token_hex(32)


if __name__ == "__main__":
    sys.exit(main())
