"""Real files, damaged in every way that comes to mind: nothing breaks, no line is lost, other models stay as they are."""

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.exchange.importing import ImportedRows
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees, reconcile_lake
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_text
from tests.exchange.trees.trees import Imported, assert_every_line_is_somewhere
from tests.sizes import size

pytestmark = [pytest.mark.corpus, pytest.mark.acceptance, pytest.mark.long]

INTACT = ("unsloth__phi-4", "meta-llama__Llama-2-7b-chat-hf")
"""Models of the real tree, small enough to be imported often."""
MUTANTS = size(8, 24)
"""Models in a damaged tree."""
MOST_SOURCE_BYTES = 300_000
TABLES = ("answers", "judgements", "scores", "metrics", "runs", "questions", "legacy_quarantine", "legacy_repeats")
TIMES = ("created_at", "judged_at", "updated_at", "imported_at")
RUN_ROWS = ("answers", "judgements", "scores", "metrics", "legacy_repeats", "runs")

JUNK = (
    b"\0",
    b"\xff\xfe\x80",
    b"\xed\xa0\x80",
    "\u2028".encode(),
    "\u0085".encode(),
    b"\n",
    b"\n \t\r\n",
    b"\r",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\u0000",
    b'"',
    b"}{",
    b"<think>",
)
VALUES = (
    *(b"NaN", b"-Infinity", b"1e400", b"-1e-400", b"1" * 400, b"18446744073709551615", b"18446744073709551616"),
    *(b"7", b"7.5", b"-0.0", b"null", b"true", b'"7"', b'"NaN"', b"[]", b"[7]", b"{}", b'""', b'" "', b'"\\u0000"'),
    *(b'{"score": 1e308}', b'{"score": 18446744073709551615}', b'{"score": {"score": 1}}', b'{"score": true}'),
    *(b'{"judge_output": "4", "score": "4"}', b'{"a": 1, "a": 2}', b'{"judge_output": {"judge_output": []}}'),
    *(b'"0001-01-01T00:00:00+14:00"', b'"9999-12-31T23:59:59-14:00"', b'"</think>"', b'"PERMANENT_ERROR with model "'),
    *(b"[" * 300 + b"]" * 300, b'{"a":' * 2000 + b"1" + b"}" * 2000),
)
COLUMNS = ("score", "ModelAnswer", "Question", "judge_output", "category", "question_id", "UpdatedAt", "Criteria", "")
PLACES = (
    "data/model_answers/{model}.json",
    "data/model_answers/unheard__of/{model}.json",
    "data/model_answers/elyza__ELYZA-tasks-100/{model}.json",
    "data/model_answers/lightblue__tengu_bench/{model}.json",
    "data/model_answers/elyza__ELYZA-tasks-100/{model}.jsonl",
    "data/model_answers/elyza__ELYZA-tasks-100/deeper/{model}.json",
    "data/judgements/judge_/yuzuai__rakuda-questions/{model}.json",
    "data/judgements/gpt-4-turbo-preview/yuzuai__rakuda-questions/{model}.json",
    "data/judgements/judge_it's \u2028 \"; drop/yuzuai__rakuda-questions/{model}.json",
    "data/judgements/judge_gpt-5.1-2025-11-13/shisa-ai__ja-mt-bench-1shot/{model}.json",
    "judgements/judge_a/judgements/judge_b/yuzuai__rakuda-questions/{model}.json",
    "model_answers/model_answers/yuzuai__rakuda-questions/{model}.json/{model}.json",
)


def truncated(draw: Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def flipped(draw: Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(draw.choice((1, 30, 1000))):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def with_junk(draw: Random, content: bytes) -> bytes:
    for _ in range(draw.choice((1, 20))):
        place = draw.choice((0, len(content), draw.randrange(len(content) + 1)))
        content = content[:place] + draw.choice(JUNK) + content[place:]
    return content


def with_other_lines(draw: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    for _ in range(draw.choice((1, 8))):
        line, place = draw.choice(lines), draw.randrange(len(lines))
        match draw.choice(("delete", "repeat", "move", "join", "values")):
            case "delete" if len(lines) > 1:
                del lines[place]
            case "repeat":
                lines.insert(place, line)
            case "move":
                draw.shuffle(lines)
            case "join":
                lines[place] = lines[place].rstrip(b"\n") + line
            case _:
                lines.insert(place, draw.choice(VALUES) + b"\n")
    return b"".join(lines)


def with_other_columns(draw: Random, content: bytes) -> bytes:
    lines = content.splitlines()
    column = draw.choice(COLUMNS)
    for place in draw.sample(range(len(lines)), draw.choice((1, 10, len(lines)))):
        lines[place] = with_column(draw, lines[place], column)
    return b"\n".join(lines) + b"\n"


def with_column(draw: Random, line: bytes, column: str) -> bytes:
    """The line with this column changed in some way; the JSON is put together by hand since it may be none."""
    pairs = [[json.dumps(name).encode(), json.dumps(value).encode()] for name, value in json.loads(line).items()]
    own = [pair for pair in pairs if pair[0] == json.dumps(column).encode()]
    match draw.choice(("value", "value", "value", "drop", "repeat", "rename", "nest")):
        case "drop" if own:
            pairs.remove(own[0])
        case "repeat" if own:
            pairs.append([own[0][0], draw.choice(VALUES)])
        case "rename" if own:
            own[0][0] = draw.choice((b'"score"', b'"Question"', b'"\\u0000"', b"bare", b'"a\\"b"'))
        case "nest":
            return b'{"row": ' + line + b"}" if draw.random() < 0.5 else b"[" + line + b"]"
        case _ if own:
            own[0][1] = draw.choice(VALUES)
        case _:
            pairs.append([json.dumps(column).encode(), draw.choice(VALUES)])
    return b"{" + b", ".join(name + b": " + value for name, value in pairs) + b"}"


def with_a_huge_line(draw: Random, content: bytes) -> bytes:
    row = json.loads(content.split(b"\n", 1)[0]) | {draw.choice(COLUMNS): "長" * 1_700_000}
    return content + draw.choice((b"x" * 5_000_000, json.dumps(row, ensure_ascii=False).encode()))


def of_another_system(draw: Random, content: bytes) -> bytes:
    crlf = content.replace(b"\n", b"\r\n")
    text = content.decode(errors="replace")
    return draw.choice((crlf, b"\xef\xbb\xbf" + crlf, text.encode("utf-16"), content.rstrip(b"\n"), b"", b"\n" * 50))


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (
    truncated,
    flipped,
    with_junk,
    with_other_lines,
    with_other_columns,
    with_other_columns,
    with_other_columns,
    of_another_system,
)


@pytest.fixture(scope="module")
def real() -> Path:
    return Path(os.environ["SHABERI_CORPUS"]) / "legacy" / "mini" / "shisa"


@pytest.fixture(scope="module")
def sources(real) -> dict[str, bytes]:
    """The files of the intact models by their paths."""
    found = sorted(path for model in INTACT for path in real.rglob(f"{model}.json"))
    assert found
    return {
        path.relative_to(real).as_posix(): path.read_bytes()
        for path in found
        if path.stat().st_size < MOST_SOURCE_BYTES
    }


@pytest.fixture(scope="module")
def undisturbed(sources, tmp_path_factory) -> dict[str, pl.DataFrame]:
    """What the lake says of the intact models when there is nothing else."""
    folder = tmp_path_factory.mktemp("undisturbed")
    for path, content in sources.items():
        write(folder / "tree" / path, content)
    lake = imported(folder)
    return {name: of_intact_models(lake, name) for name in RUN_ROWS}


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def write_mutants(root: Path, sources: dict[str, bytes], draw: Random) -> None:
    """Models before and after the intact ones, each of a few files of an intact one with some of them damaged."""
    for number in range(MUTANTS):
        model = f"{draw.choice(('0', 'zz'))}-{number}"
        original = draw.choice(INTACT)
        own = [path for path in sources if path.endswith(f"/{original}.json")]
        for path in draw.sample(own, draw.randint(1, 3)):
            content = sources[path]
            for _ in range(draw.choice((0, 1, 1, 1, 2))):
                # Damage upon damage: only some of it can read what it damages.
                content = (
                    draw.choice(MUTATIONS)(draw, content)
                    if content is sources[path]
                    else damaged_further(draw, content)
                )
            place = draw.choice(PLACES) if draw.random() < 0.2 else path.replace(original, "{model}")
            write(root / place.replace("{model}", model), content)
    twice = next(path for path in sources if "/model_answers/yuzuai" in path)
    write(root / "copy" / twice, sources[twice])
    path = draw.choice(list(sources))
    write(root / Path(path).parent / "huge.json", with_a_huge_line(draw, sources[path]))


def damaged_further(draw: Random, content: bytes) -> bytes:
    return draw.choice((truncated, flipped, with_junk))(draw, content) if content else content


def write_traps(root: Path) -> None:
    """Things that are no files, where files are expected."""
    folder = root / "data/model_answers/yuzuai__rakuda-questions"
    folder.mkdir(parents=True, exist_ok=True)
    (root / "data" / "loop").symlink_to(root, target_is_directory=True)
    (root / "data/model_answers/shisa-ai__ja-mt-bench-1shot-loop").symlink_to("shisa-ai__ja-mt-bench-1shot-loop")
    (folder / "link.json").symlink_to(folder / "0-1.json")
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    write(Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.json")), b"{}\n")


def workspace_of(folder: Path) -> Workspace:
    return Workspace(Settings.from_environment({"SHABERI_WAREHOUSE": str(folder / "warehouse")}), environment={})


def imported(folder: Path) -> Lake:
    workspace = workspace_of(folder)
    import_trees(ImportRequest({"tree": folder / "tree"}), workspace)
    return workspace.lake


def rows_in(lake: Lake) -> Imported:
    names = ("answers", "judgements", "legacy_files", "legacy_quarantine", "legacy_repeats")
    answers, judgements, files, quarantine, repeats = (lake.read(name) for name in names)
    rows = ImportedRows(answers, judgements, repeats)
    quarantine = quarantine.join(files.select("source", "path", "judge"), on=["source", "path"], how="left")
    return Imported(answers, judgements, files, quarantine, repeats, reconcile_lake(lake), [], rows)


def scores_of(lake: Lake) -> pl.DataFrame:
    """The scores that count, whatever their runs are called."""
    with open_catalog(lake.folder) as catalog:
        return catalog.sql("select * exclude (run_tag, run_id) from scores_by_source").pl()


def of_intact_models(lake: Lake, table: str) -> pl.DataFrame:
    runs = lake.read("runs").filter(pl.col("model").is_in(INTACT))["run_id"]
    frame = lake.read(table).filter(pl.col("run_id").is_in(runs.implode())).drop(*TIMES, strict=False)
    return in_order(frame.drop("spec_hash", strict=False))


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Comparable: sums of floats depend on their order in the last digits."""
    return frame.with_columns(pl.col(pl.Float64).round(9)).sort(pl.all())


def lines_of(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, counted independently of the reader."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        if (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip(b" \t\r"):
            yield number, line


def assert_files_are_accounted_for(root: Path, rows: Imported) -> None:
    """Each regular file is listed once, with the number of its lines."""
    listed = {row["path"]: row for row in rows.files.iter_rows(named=True)}
    assert len(listed) == rows.files.height
    for path in root.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        row = listed[os.fsencode(path.relative_to(root)).decode(errors="backslashreplace")]
        if row["status"] != "imported":
            assert row["reason"] or row["duplicate_of"], row
            continue
        expected = len(list(lines_of(path.read_bytes())))
        assert row["imported"] + row["repeated"] + row["quarantined"] == row["lines"] - row["blank"] == expected, row


def assert_rows_say_what_their_lines_say(root: Path, rows: Imported) -> None:
    contents = {row["path"]: root / row["path"] for row in rows.files.filter(status="imported").iter_rows(named=True)}
    lines = {path: dict(lines_of(file.read_bytes())) for path, file in contents.items()}
    for row in rows.quarantine.iter_rows(named=True):
        raw = base64.b64decode(row["raw"]) if row["raw_encoding"] == "base64" else row["raw"].encode()
        line = lines[row["path"]][row["source_line"]]
        assert row["size"] == len(line)
        assert line.startswith(raw)
        assert len(raw) > min(len(line), 1 << 20) - 4  # a cut character at most
    by_sha256 = {
        row["sha256"]: lines[row["path"]] for row in rows.files.filter(status="imported").iter_rows(named=True)
    }
    for row in rows.judgements.iter_rows(named=True):
        said: dict[str, Any] = json.loads(
            by_sha256[row["source_sha256"]][row["source_line"]].removeprefix(b"\xef\xbb\xbf")
        )
        assert row["question_id"] == sha256_text(said["Question"])
        assert json.loads(row["recorded_score"]) == said["score"]
        assert row["answer_hash"] == (None if said["ModelAnswer"] is None else sha256_text(said["ModelAnswer"]))
    for row in rows.answers.filter(answer_origin="stored").iter_rows(named=True):
        said = json.loads(by_sha256[row["source_sha256"]][row["source_line"]].removeprefix(b"\xef\xbb\xbf"))
        assert row["question_id"] == sha256_text(said["Question"])
        assert said["ModelAnswer"] in (row["raw_answer"], row["answer"])


def assert_every_column_is_somewhere(lake: Lake, root: Path, rows: Imported) -> None:
    """What a line says beside its answer and score is a part of its stored question or stands in `legacy_fields`."""
    read = rows.files.filter(status="imported")
    lines = {row["sha256"]: (root / row["path"]).read_bytes().split(b"\n") for row in read.iter_rows(named=True)}
    questions = {
        (row["question_set"], row["question_id"]): {
            row["reference"],
            row["criteria"],
            row["category"],
            row["upstream_id"],
        }
        for row in lake.read("questions").iter_rows(named=True)
    }
    stored = rows.answers.filter(answer_origin="stored")
    for row in [*stored.iter_rows(named=True), *rows.judgements.iter_rows(named=True)]:
        said = json.loads(lines[row["source_sha256"]][row["source_line"] - 1].removeprefix(b"\xef\xbb\xbf"))
        kept = json.loads(row["legacy_fields"] or "{}")
        others = questions[row["question_set"], row["question_id"]]
        for name in said.keys() - kept.keys() - {"Question", "ModelAnswer", "score", "judge_output"}:
            assert isinstance(said[name], str | int), name
            assert str(said[name]) in others, (row["model"], name)


@pytest.mark.parametrize("seed", range(size(1, 3)))
def test_damaged_files_cost_only_their_own_lines(sources, undisturbed, tmp_path, seed):
    draw = Random(seed)
    root = tmp_path / "tree"
    for path, content in sources.items():
        write(root / path, content)
    write_mutants(root, sources, draw)
    write_traps(root)
    lake = imported(tmp_path)
    rows = rows_in(lake)
    assert rows.reconciliation.discrepancies() == []
    assert not rows.quarantine.is_empty()
    assert_every_line_is_somewhere(rows)
    assert_files_are_accounted_for(root, rows)
    assert_rows_say_what_their_lines_say(root, rows)
    assert_every_column_is_somewhere(lake, root, rows)
    for name, frame in undisturbed.items():
        assert of_intact_models(lake, name).equals(frame), name
    before = {name: in_order(lake.read(name)) for name in (*TABLES, "legacy_files")}
    again = import_trees(ImportRequest({"tree": root}), workspace_of(tmp_path))
    assert again.models_read == 0
    for name, frame in before.items():
        now = in_order(lake.read(name))
        assert now.drop(*TIMES, strict=False).equals(frame.drop(*TIMES, strict=False)), name


@pytest.mark.parametrize("seed", range(4, 5))
def test_a_tree_of_nothing_but_damaged_files_is_imported_or_refused_in_words(sources, tmp_path, seed):
    root = tmp_path / "tree"
    write_mutants(root, sources, Random(seed))
    lake = imported(tmp_path)
    rows = rows_in(lake)
    assert rows.reconciliation.discrepancies() == []
    assert_every_line_is_somewhere(rows)
    assert_files_are_accounted_for(root, rows)
    assert_rows_say_what_their_lines_say(root, rows)
    assert_every_column_is_somewhere(lake, root, rows)


@pytest.mark.parametrize("seed", range(6, 7))
def test_damage_after_an_import_leaves_what_damage_before_it_does(sources, tmp_path, seed):
    """Every file of some models comes again, damaged otherwise or whole: what counts is what an import of now has."""
    earlier, fresh = tmp_path / "earlier", tmp_path / "fresh"
    for path, content in sources.items():
        write(earlier / "tree" / path, content)
    write_mutants(earlier / "tree", sources, Random(seed))
    imported(earlier)
    draw = Random(-seed)
    for path in sorted((earlier / "tree").rglob("*.json")):
        if path.stem not in INTACT and draw.random() < 0.5:
            path.write_bytes(damaged_further(draw, path.read_bytes()))
    lake = imported(earlier)
    (fresh / "tree").parent.mkdir()
    (earlier / "tree").rename(fresh / "tree")
    expected = imported(fresh)
    assert rows_in(lake).reconciliation.discrepancies() == []
    assert in_order(scores_of(lake)).equals(in_order(scores_of(expected)))
    counted = ["source", "path", "source_line", "reason", "sha256"]
    now, then = (in_order(each.read("legacy_quarantine").select(counted)) for each in (lake, expected))
    assert now.equals(then)


def test_a_tree_of_things_that_are_no_files_is_refused_in_words(tmp_path):
    write_traps(tmp_path / "tree")
    (tmp_path / "tree/data/model_answers/yuzuai__rakuda-questions/empty.json").write_bytes(b"")
    imported(tmp_path)
    (tmp_path / "other" / "tree").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="no legacy files"):
        imported(tmp_path / "other")
