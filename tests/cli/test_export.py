"""What `shaberi export` says about what it wrote."""

import pytest

from shaberi_dagster.cli.export import summary
from shaberi_dagster.export.shaberi_v1 import Export, Note

pytestmark = pytest.mark.unit


def test_a_plain_export_is_one_line() -> None:
    done = Export("there", {"answers": 1, "judgements": 2}, {"answers": 1000, "judgements": 2000}, 3_000_000)

    assert summary(done) == ["1 files with 1,000 answers and 2 with 2,000 judgements (3.0 MB) in there"]


def test_what_is_odd_is_counted_with_an_example() -> None:
    done = Export("there", same=2)
    done.oddities = [Note("a.json", "blank line not written", 1), Note("b.json", "blank line not written", 2)]
    done.elsewhere = [Note("sources/x/a.json", "another file has its place", 60)]
    done.not_written = [Note("c", "has no rows")]

    assert summary(done)[1:] == [
        "2 imported files are not there twice: another tree has the same rows",
        "elsewhere, below sources/ or tags/: another file has its place: 60 rows in 1 places, e.g. sources/x/a.json",
        "as imported, but odd: blank line not written: 3 rows in 2 places, e.g. a.json",
        "not written: has no rows: 0 rows in 1 places, e.g. c",
        "export.json in that folder lists them one by one",
    ]
