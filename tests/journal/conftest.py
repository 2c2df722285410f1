"""The fixtures of the call engine, whose finished calls journals keep."""

from tests.llm.conftest import ask, finished  # noqa: F401  (fixtures)
