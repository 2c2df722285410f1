"""The real trees, imported and exported again: every row of every file, field by field."""

import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from shaberi_dagster.exchange.shaberi_v1 import export
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.reports.requests import RunSelection
from tests.archives import extract
from tests.exchange.results.comparing import assert_same_trees
from tests.sizes import FULL

pytestmark = pytest.mark.corpus


@pytest.fixture
def output(tmp_path):
    return tmp_path / "export"


def total_of(notes):
    return {what: sum(note.rows for note in notes if note.what == what) for what in {note.what for note in notes}}


TREES = ("shisa", "umiyuki", "lightblue")


def assert_comes_out_as_it_was(workspace, folder, output):
    import_trees(ImportRequest({name: folder / name for name in TREES}), workspace)
    oddities = []
    for name in TREES:
        done = export(workspace.lake, output / name, RunSelection(sources=[name]))
        assert_same_trees(folder / name, output / name)
        assert (done.elsewhere, done.not_written, done.same) == ([], [], 0)
        oddities += done.oddities
    return oddities


@pytest.mark.long
def test_real_trees_come_out_as_they_were(workspace, corpus, output):
    oddities = assert_comes_out_as_it_was(workspace, corpus / "legacy" / "mini", output)

    assert total_of(oddities) == {"object in place of a score, written as recorded": 6, "blank line not written": 1}


@pytest.mark.acceptance
@pytest.mark.skipif(not FULL, reason="the small sample has the same kinds of rows and oddities")
def test_the_larger_sample_comes_out_as_it_was(workspace, corpus, output):
    archive = pa.CompressedInputStream(pa.OSFile(str(corpus / "legacy" / "subset.tar.zst")), "zstd")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=archive, mode="r|") as tar:
        extract(tar, folder)
        oddities = assert_comes_out_as_it_was(workspace, Path(folder), output)

    assert total_of(oddities) == {"object in place of a score, written as recorded": 10, "blank line not written": 1}
