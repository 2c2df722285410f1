"""The patterns of the rules: each finds what its example shows."""

import pytest

from shaberi_dagster.tasks.judges.rules.patterns import patterns, tables

pytestmark = pytest.mark.unit

NAMES = [(module, name) for module, table in tables().items() if module != "vocabulary" for name in table]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_pattern_finds_something_in_its_example(module, name):
    assert getattr(patterns(module), name).search(tables()[module][name]["like"])


def test_an_unknown_pattern_is_an_error():
    with pytest.raises(AttributeError, match="nothing"):
        patterns("words").nothing  # noqa: B018  (the attribute is what is asked for)
