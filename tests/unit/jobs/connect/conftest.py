from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.jobs.connect.fake_connect import Fake, serving


@pytest.fixture
def fake() -> Iterator[Fake]:
    """A server that has nothing to say yet."""
    with serving(Fake()) as listening:
        yield listening
