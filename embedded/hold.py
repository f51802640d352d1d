"""`python -m embedded.hold COMMAND …` runs a command, and ends it with all its descendants when standard input ends.

For programs of many processes that, unlike a JVM of ours, do not watch their parent: Airflow. Whoever starts this keeps the
other end of the pipe; when that process is gone, however it went, the pipe ends. Linux: descendants that leave their process
group or lose their parent are found too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import psutil  # type: ignore[import-untyped]

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
KILL_TIMEOUT_S = 20
ENDED = 1  # exit code, when not the command came to its end but its holder


def main(command: list[str]) -> int:
    if sys.platform == "linux":
        # Orphans among the descendants become our children instead of those of process 1.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Ctrl-C and the like are for the one who holds the pipe.
    os.setsid()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: _end(ending))
    threading.Thread(target=_end_with_input, args=[ending], daemon=True).start()
    code = child.wait()
    kill_descendants()
    if ending.is_set():
        # The child was killed, and perhaps reaped, by `_end` in the other thread: Popen takes that for a 0.
        return ENDED
    return code if code >= 0 else 128 - code  # as a shell tells that a signal ended it


def kill_descendants() -> None:
    """kill -9 of everything below this process, until nothing is left."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (left := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
        for process in left:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(left, timeout=1)


def _end_with_input(ending: threading.Event) -> None:
    while os.read(0, 1024):
        pass
    _end(ending)


def _end(ending: threading.Event) -> None:
    ending.set()
    kill_descendants()
    os._exit(ENDED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
