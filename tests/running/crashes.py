"""Lets a run of the tests go on to its end after one of its processes has died.

pytest-xdist 3.8 gives all files that the dead process had begun to the others, also those that are done. A process that is
given nothing but finished tests waits for ever, as it runs its last test only when it knows of the next one. And it runs the
test once more that the process has died of, which ends another one.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling, LoadGroupScheduling
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController


class _GoesOn(LoadScopeScheduling):
    def remove_node(self, node: WorkerController) -> str | None:
        """Give the tests that the dead process has not run to the others. Returns the one that it died of."""
        work = self.assigned_work.pop(node)
        died_of = next((test for tests in work.values() for test, done in tests.items() if not done), None)
        for scope, tests in work.items():
            if died_of in tests:
                tests[died_of] = True
            if not all(tests.values()):
                self.workqueue[scope] = tests
        for other in self.assigned_work:
            self._reschedule(other)
        return died_of

    def _reschedule(self, node: WorkerController) -> None:
        if node in self.registered_collections:  # a process in a dead one's place may not have collected its tests yet
            super()._reschedule(node)


class _ByFile(_GoesOn, LoadFileScheduling):
    """For `--dist loadfile`."""


class _ByGroup(_GoesOn, LoadGroupScheduling):
    """For `--dist loadgroup`."""


def scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Return what deals the tests out to processes; None for pytest-xdist's own for the run's `--dist`."""
    kind = {"loadfile": _ByFile, "loadgroup": _ByGroup}.get(config.getvalue("dist"))
    return kind(config, log) if kind else None
