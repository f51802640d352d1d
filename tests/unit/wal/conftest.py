"""The first call of a kernel compiles it, which may take seconds: no deadlines."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
