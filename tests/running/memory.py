"""Says when a process should end its clusters, for want of memory.

Fixtures of the session live to its end. So a process that runs many files starts one kind of cluster after the other: in a long
run 75 JVMs had 21 of 24 GB, and the kernel killed a process of the tests. A kind that is needed again starts again, in seconds.
"""

from __future__ import annotations

import psutil
import pytest

LEAST_SHARE = 0.3  # of the machine's memory, for what two files may start beside what is there


def clusters_should_end(item: pytest.Item) -> bool:
    """Return whether memory is short and `item`, which is about to begin, is the first test of its file."""
    if any(isinstance(node, pytest.Module) for node in item.session._setupstate.stack):
        return False
    memory = psutil.virtual_memory()
    return memory.available < LEAST_SHARE * memory.total
