"""Labels of real answers, and the answers they are of, from the corpus that `SHABERI_CORPUS` names."""

import hashlib
import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from shaberi_dagster.tasks.passes.base import Answer

Label = Mapping[str, Any]
Key = tuple[str, str]
"""sha256 of the question and of the answer."""


def labels_of(name: str) -> list[dict]:
    """The labels of that name in this folder."""
    return labels_in(Path(__file__).with_name(f"{name}_labels.jsonl"))


def labels_in(path: Path) -> list[dict]:
    """The labels of a file, one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def key_of(label: Label) -> Key:
    """Which answer a label is of."""
    return label["question_id"], label["answer_hash"]


def real_answers(labels: Iterable[Label]) -> dict[Key, Answer]:
    """The labelled answers as they stand in the trees, with what the published question sets know of their questions."""
    wanted = {key_of(label) for label in labels}
    sets = _published_questions()
    found = {}
    for row in _rows_of_the_trees():
        question, text = row["Question"], row["ModelAnswer"] or ""
        key = (_sha256(question), _sha256(text))
        if key in wanted:
            given = sets.get(key[0], {})
            known = [given.get(name) for name in ("category", "reference", "criteria")]
            found[key] = Answer("corpus", key[0], question, *known, text, None)
    assert found.keys() == wanted
    return found


def _published_questions() -> dict[str, dict]:
    paths = sorted((_corpus() / "questions").glob("*.jsonl"))
    rows = [json.loads(line) for path in paths for line in path.open(encoding="utf-8")]
    return {row["question_sha256"]: row for row in rows}


def _rows_of_the_trees() -> Iterator[dict]:
    stream = pa.CompressedInputStream(pa.OSFile(str(_corpus() / "legacy" / "subset.tar.zst")), "zstd")
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            if "/model_answers/" in member.name and (file := tar.extractfile(member)):
                yield from (json.loads(line) for line in file if line.strip())


def _corpus() -> Path:
    return Path(os.environ["SHABERI_CORPUS"])


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
