"""The file in which a running demo says where it is, for the scripts that act on it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
VARIABLE = "WALFERRY_DEMO_STATE"  # names another file


class NoDemoError(RuntimeError):
    """No demo runs, or it cannot be reached."""


@dataclass(frozen=True)
class State:
    """Where a demo is. `environment` is what commands need besides their own, with a token: the file is for its owner only."""

    pid: int
    socket: str
    airflow: str
    page: str
    peer: str
    processes: Mapping[str, int]
    environment: Mapping[str, str]

    def write(self) -> None:
        """Write the file for its owner's eyes only. It is there as a whole or not at all."""
        path = state_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{self.pid}")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(asdict(self), out, indent=2)
        new.replace(path)

    def remove(self) -> None:
        """Remove the file, unless another demo has written it meanwhile."""
        try:
            if read_state().pid == self.pid:
                state_path().unlink()
        except (NoDemoError, FileNotFoundError):
            return


def state_path() -> Path:
    """Where the file is."""
    return Path(os.environ.get(VARIABLE) or REPO / ".cache" / "demo.json")


def read_state(path: Path | None = None) -> State:
    """Read where the running demo is. Raises NoDemoError."""
    path = path or state_path()
    try:
        return State(**json.loads(path.read_text()))
    except FileNotFoundError:
        raise NoDemoError(f"no demo runs (there is no {path}): start one with `make demo`") from None
    except (OSError, ValueError, TypeError) as error:
        raise NoDemoError(f"{path} does not say where a demo is: {error}") from None
