"""`python -m embedded.hold COMMAND …` runs a command, and ends it with all its descendants when standard input ends.

It is for Airflow, whose many processes, unlike our JVMs, do not watch their parent. The process that starts this program keeps
the other end of the pipe. When that process is gone, however it ended, the pipe ends. On Linux, this also finds descendants that
leave their process group or lose their parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
KILL_TIMEOUT_SECONDS = 20
ENDED = 1  # exit code if the holder of the pipe ended before the command


def main(command: list[str]) -> int:
    if sys.platform == "linux":
        # Orphans among the descendants become our children instead of children of process 1.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Ctrl-C and the like are for the process that holds the pipe.
    os.setsid()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: _end(ending))
    threading.Thread(target=_end_with_input, args=[ending], daemon=True).start()
    code = child.wait()
    kill_descendants()
    if ending.is_set():
        # `_end` in the other thread has killed the child and perhaps reaped it: Popen takes that for a 0.
        return ENDED
    return code if code >= 0 else 128 - code  # a shell reports an end by a signal in this way


def kill_descendants() -> None:
    """Kill (-9) every descendant of this process, until none is left."""
    deadline = time.monotonic() + KILL_TIMEOUT_SECONDS
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
