"""How the kept lake was made: real commands against a scripted endpoint, some of them killed.

    python -m tests.kept_lake.make FOLDER

It is run again only for a lake of a new format: a lake that later code made would say nothing about the lakes that users
have. `FOLDER` must not exist; its path stands in some rows (where
questions and imported files came from), on which nothing depends.

The commit whose code made it stands in its table `runs`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import orjson

from shaberi_dagster.lake.journal.files import JOURNAL_FOLDER
from shaberi_dagster.lake.writer import RowWriter
from shaberi_dagster.util.folders import project_folder
from tests.exchange.trees.trees import LegacyTree
from tests.exchange.trees.trees import rows_of as legacy_rows
from tests.kept_lake.commands import RUNS, Command, KeptRun, Kill, run
from tests.kept_lake.contents import (
    ARCHIVE,
    COLUMNS,
    GOLDEN,
    as_json,
    as_lines,
    asked,
    calls_by_stage,
    plans_of,
    rows_of,
    run_ids_of,
    workspace_of,
)
from tests.kept_lake.endpoint import kept_endpoint, reply_to
from tests.mock_endpoint import MockEndpoint, Scripted

_ROOT = Path(__file__).resolve().parents[2]
_KEPT_FOLDERS = ("warehouse", "dagster", "prompts", "questions", "tree")
_PATIENCE_SECONDS = 120

_QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "elyza": [
        {
            "question": "よく考えて、橋が三つある町の名前を一つ作ってください。",
            "reference": "三橋町",
            "criteria": "- 町の名前でない: 2点減点",
        },
        {"question": "雨の日の遊びを一つ挙げてください。", "reference": "折り紙", "criteria": "- 屋外の遊び: 1点減点"},
    ],
    "tengu": [
        {
            "category": "地理",
            "question": "湖のある町を一つ挙げてください。",
            "reference": None,
            "criteria": "- 湖がある: 10点",
        },
        {
            "category": "算数",
            "question": "りんご三つと梨二つで果物はいくつですか。",
            "reference": "五つ",
            "criteria": "- 五つ: 10点",
        },
    ],
    "rakuda": [
        {"category": "地理", "question": "北の港町の名物を、外来の言葉を使わずに教えてください。"},
        {"category": "社会", "question": "南の浜辺のよさを繰り返し述べてください。"},
        {"category": "歴史", "question": "古い山の名前を表にまとめてください。"},
    ],
    "gsm8k": [
        {"question": "Aya has 40 stamps and gets 2 more. How many stamps has she now?", "reference": "42"},
        {"question": "A box holds 11 pens. How many pens are in 4 boxes?", "reference": "44"},
    ],
    "arc": [
        {
            "question": "Which of these is a liquid at room temperature?",
            "options": ["Iron", "Water", "Salt", "Wood"],
            "reference": "B",
        },
        {
            "question": "Which animal lays eggs?",
            "options": ["Dog", "Cow", "Cat", "Hen"],
            "reference": "D",
        },
    ],
    "faulty/rakuda": [
        {"category": "地理", "question": "故障した時計の直し方を教えてください。"},
        {"category": "地理", "question": "採点不能な詩を一つ書いてください。"},
        {"category": "地理", "question": "無判定の試合を説明してください。"},
        {"category": "地理", "question": "無言で答えてください。"},
        {"category": "地理", "question": "東の島への行き方を教えてください。"},
    ],
    "faulty/gsm8k": [
        {"question": "SILENCE: how many sides has a square, times 11?", "reference": "44"},
        {"question": "UNDECIDABLE: how many months have two years and a half, plus 12?", "reference": "42"},
    ],
}


def make(folder: Path) -> None:
    """Make the lake, what is known of it, and the archive of both."""
    if ARCHIVE.exists():
        sys.exit(f"{ARCHIVE} is there: it was made by the code of its day and is kept as it is")
    folder.mkdir(parents=True)
    _write_inputs(folder)
    trigger = _Trigger()
    with kept_endpoint(trigger.reply_to) as mock:
        for kept in RUNS:
            _make_run(kept, folder, trigger)
        workspace = workspace_of(folder)
        golden = {
            "rows": {table: rows_of(workspace, table, columns) for table, columns in COLUMNS.items()},
            "calls_by_stage": calls_by_stage(workspace),
            "plans": as_json(plans_of(workspace)),
        }
        _pack(folder)
        golden["caught_up"] = {kept.model: _caught_up(kept, folder, mock) for kept in RUNS if not kept.complete}
    GOLDEN.write_text(as_lines({"columns": COLUMNS} | golden, 4) + "\n", encoding="utf-8")


def _write_inputs(folder: Path) -> None:
    prompts = shutil.copytree(project_folder("prompts"), folder / "prompts")
    strict = prompts / "variants" / "strict" / "judging" / "answer_rule.jinja"
    strict.parent.mkdir(parents=True)
    rule = (prompts / "judging" / "answer_rule.jinja").read_text(encoding="utf-8")
    strict.write_text(f"迷ったときは低い点数をつけてください。\n{rule}", encoding="utf-8")
    for name, rows in _QUESTIONS.items():
        file = folder / "questions" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    tree = LegacyTree(folder / "tree")
    answers = ["とてもよい場所です。" * 30, "<think>昔のこと。</think>二つ目の答えです。", "", "四つ目の答えです。"]
    tree.answers("rakuda", legacy_rows("rakuda", answers), model="org__old")
    tree.judgements("rakuda", legacy_rows("rakuda", answers, [7, 8.5, None, {"score": 4}]), "old-judge", "org__old")
    tree.answers("elyza", legacy_rows("elyza", ["一", "二"]), model="org__old")


class _Trigger:
    """The script of the endpoint, which kills a process when a certain request comes."""

    def __init__(self) -> None:
        self._kill: Kill | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = 0

    def arm(self, kill: Kill, process: subprocess.Popen[bytes]) -> None:
        self._kill, self._process, self._requests = kill, process, 0

    def reply_to(self, body: dict[str, Any], number: int) -> Scripted:
        if self._kill and self._process and body["model"] == self._kill.model:
            self._requests += 1
            if self._requests == self._kill.request:
                self._process.kill()
                self._process.wait(_PATIENCE_SECONDS)
        return reply_to(body, number)


def _make_run(kept: KeptRun, folder: Path, trigger: _Trigger) -> None:
    to_the_end = kept.made_by[:-1] if kept.killed else kept.made_by
    codes = [run(command, folder) for command in to_the_end]
    assert all(code == (0 if kept.complete or kept.killed else 3) for code in codes), (kept.model, codes)
    if kept.killed:
        at_rows = ["--killed-at-rows"] if kept.killed.model is None else []
        command = [sys.executable, "-m", "tests.kept_lake.make", *at_rows, folder, json.dumps(kept.made_by[-1])]
        process = subprocess.Popen(command, cwd=_ROOT)
        trigger.arm(kept.killed, process)
        code = process.wait(_PATIENCE_SECONDS)
        assert code == -signal.SIGKILL, (kept.model, code)
        if kept.killed.torn:
            _tear(next((folder / "warehouse" / JOURNAL_FOLDER).glob(f"{kept.model}@@*.jsonl")))


def _tear(journal: Path) -> None:
    """End the journal in half a record, as a machine does that stops while it writes."""
    last = journal.read_bytes().splitlines()[-1]
    with journal.open("ab") as file:
        file.write(last[: len(last) // 2])


def _command(folder: Path, command: Command, *, killed_at_rows: bool) -> None:
    """Run one command, to be killed: between the commit of its calls and that of its rows, if not from outside."""
    commit = RowWriter.commit

    def killed(writer: RowWriter, *arguments: Any, **options: Any) -> Any:
        if writer._table.name == "answers":
            os.kill(os.getpid(), signal.SIGKILL)
        return commit(writer, *arguments, **options)

    if killed_at_rows:
        RowWriter.commit = killed  # type: ignore[method-assign]
    run(command, folder)


def _caught_up(kept: KeptRun, folder: Path, mock: MockEndpoint) -> dict[str, Any]:
    """What is asked when the run's command is given again, and what the run is then."""
    mock.bodies.clear()
    codes = [run(command, folder) for command in kept.again]
    workspace = workspace_of(folder)
    keys = {"run_id": run_ids_of(workspace, kept.model)}
    rows = {table: rows_of(workspace, table, COLUMNS[table], keys) for table in ("calls", "metrics")}
    return {"exit_codes": codes, "asked": asked(mock), "rows": rows}


def _pack(folder: Path) -> None:
    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for name in _KEPT_FOLDERS:
            archive.add(folder / name, name, filter=anonymous)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [place]:
            make(Path(place))
        case [*at_rows, place, words]:
            _command(Path(place), json.loads(words), killed_at_rows=bool(at_rows))
