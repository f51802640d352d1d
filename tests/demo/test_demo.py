import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]


@pytest.mark.soak
def test_the_demo_ends_by_itself_with_both_sides_the_same():
    done = subprocess.run(
        [sys.executable, "-m", "demo"],
        cwd=REPO,
        env={**os.environ, "DEMO_ONCE": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Both sides compare as they should" in done.stdout
