"""How hypothesis looks for examples.

The first call of a kernel compiles it, which may take seconds: no deadlines. Who leaves out the slow tests gets fewer examples.
"""

import pytest
from hypothesis import settings

EXAMPLES, QUICK_EXAMPLES = 100, 20


def pytest_configure(config: pytest.Config) -> None:
    quick = "not slow" in config.option.markexpr
    settings.register_profile("unit", deadline=None, max_examples=QUICK_EXAMPLES if quick else EXAMPLES)
    settings.load_profile("unit")
