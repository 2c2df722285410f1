"""A whole results/ tree against the schemas in docs/schemas, for every test that makes one."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).resolve().parent.parent / "docs" / "schemas"
_PLACES = {
    r"[^/]+\.summary\.json": "summary",
    r"[^/]+/manifest\.json": "manifest",
    r"[^/]+/artifacts/(shaberi|ensemble)/metrics\.json": "metrics",
    r"[^/]+/artifacts/(shaberi/answers|ensemble/responses)/[^/]+\.jsonl": "answer",
    r"[^/]+/artifacts/ensemble/consensus/[^/]+/[^/]+\.jsonl": "consensus",
    r"[^/]+/artifacts/(shaberi/judgements/judge_[^/]+|ensemble/evaluations)/[^/]+\.jsonl": "judgement",
    r"[^/]+/artifacts/(shaberi|ensemble)/passes/[^/]+/[^/]+\.jsonl": "pass",
    r"[^/]+/artifacts/(shaberi|ensemble)/normalized/answers\.jsonl": "normalized_answer",
    r"[^/]+/artifacts/(shaberi|ensemble)/normalized/judgements\.jsonl": "normalized_judgement",
    r"[^/]+/artifacts/(shaberi|ensemble)/normalized/scores\.jsonl": "normalized_score",
}


def assert_valid_tree(root: Path) -> Counter[str]:
    """Check every file of a tree: it has a known place, is what its schema says, and agrees with its folder's name.

    Returns:
        How many documents (files, or lines of JSON Lines) there are of each schema.
    """
    counts: Counter[str] = Counter()
    for path in sorted(path for path in root.rglob("*") if not path.is_dir()):
        place = path.relative_to(root).as_posix()
        schema = _schema_of(place)
        for number, document in documents(path):
            errors = [
                f"{place}:{number}: {error.json_path}: {error.message[:300]}" for error in problems(schema, document)
            ]
            assert not errors, "\n".join(errors[:5])
            counts[schema] += 1
            _assert_belongs(place, number, document)
    for manifest in root.glob("*/*/manifest.json"):
        _assert_complete(manifest)
    return counts


def problems(schema: str, document: Any) -> list[Any]:
    """What is wrong with a document."""
    return list(validator(schema).iter_errors(document))


@cache
def validator(schema: str) -> Draft202012Validator:
    """The validator of one of the schemas, which itself is valid."""
    content = json.loads((SCHEMAS / f"{schema}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)


def documents(path: Path) -> Iterator[tuple[int, Any]]:
    """The document of a JSON file, or those of a JSON Lines file, with their lines."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n") or not text, f"{path} ends in the middle of a line"
    if path.suffix == ".json":
        yield 1, json.loads(text)
    else:
        yield from ((number, json.loads(line)) for number, line in enumerate(text.split("\n")[:-1], start=1))


def _schema_of(place: str) -> str:
    below_model = place.partition("/")[2]
    found = [schema for pattern, schema in _PLACES.items() if re.fullmatch(pattern, below_model)]
    assert len(found) == 1, f"{place} is no place of the tree"
    return found[0]


def _assert_belongs(place: str, number: int, document: dict[str, Any]) -> None:
    """The names in a document are those of its folder."""
    model_safe, folder, *_ = place.split("/")
    if "run_id" in document:
        assert document["run_id"] == f"{model_safe}@@{folder}", f"{place}:{number} is of another run"
    if place.endswith(".summary.json"):
        assert folder == f"{document['base_tag']}.summary.json"
        assert {run["run_id"] for run in document["runs"]} <= {
            f"{model_safe}@@{run['run_tag']}" for run in document["runs"]
        }


def _assert_complete(manifest: Path) -> None:
    """What the manifest counts is in the files, and pointers point to what they say."""
    content = json.loads(manifest.read_text(encoding="utf-8"))
    for folder in {one["artifacts"] for one in content["benchmarks"].values()}:
        own = {name: one for name, one in content["benchmarks"].items() if one["artifacts"] == folder}
        _assert_folder(manifest.parent / folder, own)


def _assert_folder(root: Path, benchmarks: dict[str, Any]) -> None:
    normalized = {
        name: [row for _, row in documents(root / "normalized" / f"{name}.jsonl")] for name in ("answers", "judgements")
    }
    for name, benchmark in benchmarks.items():
        counts = benchmark["answers"]
        rows = [row for row in normalized["answers"] if row["benchmark"] == name]
        assert len(rows) == counts["ok"] + counts["excluded"] + counts["failed"], f"{root}: answers of {name}"
        for judge, judged in benchmark["judgements"].items():
            own = [row for row in normalized["judgements"] if (row["benchmark"], row["judge"]) == (name, judge)]
            assert len(own) == judged["ok"] + judged["excluded"] + judged["failed"], f"{root}: {judge} of {name}"
    files = {row["judge_output_pointer"].partition("#")[0] for row in normalized["judgements"]}
    lines = {file: dict(documents(root / file)) for file in files}
    for row in normalized["judgements"]:
        file, _, line = row["judge_output_pointer"].partition("#")
        there = lines[file][int(line)]
        same = ("question_id", "sample_index", "judge", "reasoning")
        assert [there[key] for key in same] == [row[key] for key in same], f"{root}: {row['judge_output_pointer']}"
        assert row["judge_output"] in (None, there["judge_output"])
