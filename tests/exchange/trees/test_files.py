import gzip
import os
from hashlib import sha256

import pytest

from shaberi_dagster.exchange.trees.files import opened, scan
from shaberi_dagster.util.errors import ConfigurationError
from tests.exchange.trees.trees import FOLDERS

pytestmark = pytest.mark.unit


def write(root, path, content=b"{}\n"):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def only(root):
    (file,) = scan(root, "s")
    return file


def test_an_answer_file_is_known_by_its_place(tmp_path):
    write(tmp_path, f"data/model_answers/{FOLDERS['elyza']}/a__b.fp0.5.json", b"text")
    file = only(tmp_path)
    assert (file.source, file.kind, file.judge) == ("s", "answers", None)
    assert (file.dataset, file.model) == (FOLDERS["elyza"], "a__b.fp0.5")
    assert (file.size, file.sha256, file.reason) == (4, sha256(b"text").hexdigest(), None)


def test_a_judgement_file_is_known_by_its_place(tmp_path):
    write(tmp_path, "data/judgements/judge_gpt-4/any_folder/m.json")
    file = only(tmp_path)
    assert (file.kind, file.judge, file.dataset, file.model) == ("judgements", "gpt-4", "any_folder", "m")


def test_a_judge_folder_may_lack_its_prefix(tmp_path):
    write(tmp_path, "judgements/gpt-4/d/m.json")
    assert only(tmp_path).judge == "gpt-4"


def test_a_part_of_a_tree_can_be_scanned(tmp_path):
    write(tmp_path, "data/judgements/judge_x/d/m.json")
    file = only(tmp_path / "data" / "judgements" / "judge_x")
    assert (file.kind, file.judge, file.path) == ("judgements", "x", "d/m.json")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("README.md", "not at a place"),
        ("output.json", "not at a place"),
        ("model_answers/m.json", "not at a place"),
        ("model_answers/d/nested/m.json", "not at a place"),
        ("model_answers/d/m.json.bak", "not a .json or .json.gz file"),
        ("model_answers/d/.json", "model name"),
        ("judgements/judge_/d/m.json", "judge name"),
        ("model_answers/d/a\nb.json", "control characters"),
    ],
)
def test_other_files_are_listed_with_a_reason_and_not_read(tmp_path, path, reason):
    write(tmp_path, path)
    file = only(tmp_path)
    assert file.kind == "unknown"
    assert reason in file.reason
    assert file.sha256 is None


def test_links_are_listed_and_not_followed(tmp_path):
    folder = tmp_path / "tree" / "model_answers" / "d"
    write(folder, "real.json")
    write(tmp_path, "outside/secret.json")
    (folder / "loop").symlink_to(tmp_path / "tree")
    (folder / "self.json").symlink_to(folder / "self.json")
    (folder / "outside.json").symlink_to(tmp_path / "outside" / "secret.json")
    found = {file.path.rpartition("/")[2]: file for file in scan(tmp_path / "tree", "s")}
    assert set(found) == {"real.json", "loop", "self.json", "outside.json"}
    assert [name for name, file in found.items() if file.reason is None] == ["real.json"]
    assert "symbolic link" in found["loop"].reason


def test_a_pipe_is_not_opened(tmp_path):
    folder = tmp_path / "model_answers" / "d"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "m.json")
    assert only(tmp_path).reason == "not a regular file"


def test_a_name_that_is_not_utf8_is_shown_escaped(tmp_path):
    folder = os.fsencode(tmp_path) + b"/model_answers/d"
    os.makedirs(folder)  # noqa: PTH103 - bytes
    with open(folder + b"/\xff.json", "wb"):  # noqa: PTH123 - bytes
        pass
    file = only(tmp_path)
    assert file.path.endswith("\\xff.json")
    assert file.kind == "unknown"


def test_what_may_not_be_read_is_said(tmp_path, monkeypatch):
    write(tmp_path, "model_answers/d/m.json")
    monkeypatch.setattr("hashlib.file_digest", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no permission")))
    file = only(tmp_path)
    assert (file.kind, file.reason) == ("answers", "cannot be read: no permission")


def test_a_compressed_file_is_one_of_its_model(tmp_path):
    write(tmp_path, f"data/model_answers/{FOLDERS['elyza']}/a__b.fp0.5.json.gz", gzip.compress(b"text\n"))
    file = only(tmp_path)
    assert (file.kind, file.model, file.reason) == ("answers", "a__b.fp0.5", None)
    with opened(file) as stream:
        assert stream.read() == b"text\n"


def test_a_folder_that_cannot_be_listed_is_said(tmp_path, monkeypatch):
    write(tmp_path, "model_answers/d/m.json")
    scandir = os.scandir

    def refused(folder):
        if str(folder).endswith("/d"):
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
    file = only(tmp_path)
    assert (file.path, file.reason) == ("model_answers/d", "folder cannot be read: Permission denied")


def test_a_file_with_the_size_and_time_of_a_known_one_is_not_opened(tmp_path, monkeypatch):
    place = write(tmp_path, "model_answers/d/m.json", b"{}\n")
    first = only(tmp_path)
    known = {(first.path, first.size, first.modified_ns): first.sha256}
    with monkeypatch.context() as patch:
        patch.setattr("hashlib.file_digest", lambda *_: pytest.fail("opened"))
        assert list(scan(tmp_path, "s", known)) == [first]
    place.write_bytes(b"[]\n")
    os.utime(place, ns=(first.modified_ns + 1, first.modified_ns + 1))
    (changed,) = scan(tmp_path, "s", known)
    assert changed.sha256 == sha256(b"[]\n").hexdigest()


def test_version_control_is_one_entry(tmp_path):
    write(tmp_path, ".git/objects/aa/bb")
    assert (only(tmp_path).path, only(tmp_path).reason) == (".git", "version control, not read")


def test_files_come_in_the_order_of_their_paths(tmp_path):
    for name in ("b/x", "a/y", "a/b/z", "c"):
        write(tmp_path, name)
    assert [file.path for file in scan(tmp_path, "s")] == ["c", "a/y", "a/b/z", "b/x"]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="is not a folder"):
        list(scan(tmp_path / "none", "s"))


def test_a_folder_that_is_far_too_large_is_an_error(tmp_path):
    for number in range(4):
        write(tmp_path, f"{number}")
    with pytest.raises(ConfigurationError, match="more than 3 files"):
        list(scan(tmp_path, "s", most_entries=3))
