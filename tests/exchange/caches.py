"""Caches of the ensemble evaluation made for tests."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

MODEL = "google:small"
TIMEOUT = "Streaming timeout for google after 120s."


def response(content: str = "4", **more: Any) -> dict[str, Any]:
    return {"provider": "google", "model": "small", "content": content, "responseTimeMs": 1500, "tokenCount": 42} | more


def failed(content: str = "") -> dict[str, Any]:
    return {"provider": "google", "model": "small", "content": content, "responseTimeMs": 0, "error": TIMEOUT}


def ensemble(entries: Mapping[str, Sequence[Any]], /, dataset: str = "gsm8k", **more: Any) -> dict[str, Any]:
    """An ensemble cache: responses by the cache's question id."""
    return {
        "model": MODEL,
        "dataset": dataset,
        "ensembleSize": max(len(responses) for responses in entries.values()),
        "temperature": 0.7,
        "createdAt": "2026-02-19T18:29:40.896Z",
        "updatedAt": "2026-02-19T18:29:40.896Z",
        "entries": [{"questionId": name, "responses": responses} for name, responses in entries.items()],
    } | more


def result(name: str, answer: dict[str, Any], correct: Any = True, **more: Any) -> dict[str, Any]:
    """A judged response, as in a baseline cache; `correct` None: it was not judged."""
    said = {} if correct is None else {MODEL: {"correct": correct, "expected": "4", "predicted": answer["content"]}}
    return {
        "questionId": name,
        "prompt": f"What is {name}?",
        "groundTruth": "4",
        "responses": [answer],
        "consensus": {},
        "evaluation": {"evaluator": "numeric", "groundTruth": "4", "accuracy": 1, "results": said},
    } | more


def baseline(*results: dict[str, Any], dataset: str = "gsm8k", **more: Any) -> dict[str, Any]:
    entries = [{"questionId": each["questionId"], "result": each} for each in results]
    return {"model": MODEL, "dataset": dataset, "createdAt": "2026-02-19T19:46:50Z", "entries": entries} | more


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return path
