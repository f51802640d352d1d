"""A run of the tests goes on to its end after one of its processes has died."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer

from tests.processes import run_pytest
from tests.running.crashes import scheduler

CONFTEST = "from tests.conftest import pytest_xdist_make_scheduler\n"
PASSES = "import time\ndef test_first():\n    time.sleep(0.2)\ndef test_last(): pass\n"
KILLS = "import os\ndef test_kills():\n    os.kill(os.getpid(), 9)\ndef test_after_it(): pass\n"


@pytest.mark.long
@pytest.mark.parametrize("dist", ["loadfile", "loadgroup"])
def test_each_test_runs_once_and_the_one_that_kills_its_process_fails(tmp_path: Path, dist: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(8):  # both processes have done some files when one dies
        (tmp_path / f"test_{number}.py").write_text(KILLS if number == 6 else PASSES)
    ran = run_pytest(tmp_path, "-n", "2", "--no-loadscope-reorder", "--dist", dist, variables={})
    assert "1 failed, 15 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "units waiting" not in ran.stdout + ran.stderr  # what pytest-xdist writes for its own developers
    assert ran.stdout.count("crashed while running 'test_6.py::test_kills'") == 1


@dataclass(eq=False)
class Process:
    """What the scheduler knows of a process: when one ends its work is a matter of milliseconds."""

    gateway: SimpleNamespace
    given: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_process_may_end_before_the_one_in_a_dead_one_s_place_has_collected() -> None:
    options = {"dist": "loadfile", "tx": ["popen"] * 2}
    config: Any = SimpleNamespace(getvalue=options.get, option=SimpleNamespace(loadscopereorder=False))
    dealt: Any = scheduler(config, Producer("test"))
    first, dies, instead, slow = (Process(SimpleNamespace(id=f"gw{number}")) for number in range(4))
    tests = ["test_0.py::test", "test_1.py::test", "test_1.py::test_last"]
    for each in (first, dies):
        dealt.add_node(each)
        dealt.add_node_collection(each, tests)
    dealt.schedule()
    assert (first.given, dies.given, first.shutting_down) == ([0], [1, 2], True)
    assert dealt.remove_node(dies) == "test_1.py::test"
    dealt.add_node(instead)
    dealt.add_node(slow)  # in the place of another one
    dealt.mark_test_complete(first, 0)
    assert dealt.remove_node(first) is None
    dealt.add_node_collection(instead, tests)
    dealt.schedule()
    assert (instead.given, slow.given) == ([2], [])
