"""A lake of two models that answered more questions than a page has, with texts that would break a terminal."""

import json
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import polars as pl

from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.store import Lake

HOSTILE = "[/INST] [red]赤[/] \x1b[2J\x07\u202e[@click=app.quit]x[/]\n二行目"
N_QUESTIONS = 230
MODELS = ("alpha", "beta")
_NOW = datetime(2026, 7, 1, tzinfo=UTC)


def made(folder: Path) -> Lake:
    """The lake: question 7 has a hostile answer, beta's answer 3 failed, judge b gave no score to alpha's 5, and beta's
    one point less than a."""
    lake = Lake(folder)
    answers, judgements, scores, metrics, runs = [], [], [], [], []
    questions = [
        {"benchmark": "tengu", "question_set": "tengu@230", "question_set_sha256": "s", "question_id": f"q{number:03}"}
        | {"position": number, "category": "敬語" if number % 10 == 0 else "表", "question": f"質問{number}：犬は何匹いますか？"}
        | {"reference": f"{number}匹", "criteria": None, "created_at": _NOW}
        for number in range(1, N_QUESTIONS + 1)
    ]  # fmt: skip
    for model in MODELS:
        run = {"run_id": f"{model}@@july", "model": model, "run_tag": "july", "created_at": _NOW}
        own = run | {"benchmark": "tengu", "question_set": "tengu@230"}
        runs.append(
            run
            | {"base_tag": "july", "spec": json.dumps({}), "spec_hash": "", "status": "complete", "updated_at": _NOW}
        )
        for number in range(1, N_QUESTIONS + 1):
            item = own | {"question_id": f"q{number:03}", "sample_index": 0, "answer_hash": f"{model}{number}"}
            failed = (model, number) == ("beta", 3)
            text = HOSTILE if number == 7 else f"{model}の答え{number}"
            error = {"status": "error", "error_class": "transient"} if failed else {"status": "ok", "error_class": None}
            answers.append(item | error | {"answer": None if failed else text, "finish_reason": "stop"})
            for judge in () if failed else "ab":
                none = (model, number, judge) == ("alpha", 5, "b")
                lower = (number, judge) == (5, "b")
                score = None if none else 9.0 if model == "alpha" else float(number % 9 - lower)
                error = (
                    {"status": "error", "error_class": "no_score"} if none else {"status": "ok", "error_class": None}
                )
                judged = item | error | {"judge": judge, "score": score}
                judgements.append(judged | {"judge_output": f"[b]評価[/b] {HOSTILE}", "superseded": False})
                scores.append(judged | {"pipeline": "baseline"})
        metrics += [
            own | {"judge": judge, "pipeline": "baseline", "null_policy": "legacy", "base_tag": "july", "score": fmean(given)}
            | {"n_planned": 230, "n_scored": len(given), "n_failed": 230 - len(given), "n_excluded": 0, "reported_multiplier": 1.0}
            | {"scale_minimum": 0.0}
            for judge in "ab"
            for given in [[one["score"] for one in judgements if (one["model"], one["judge"]) == (model, judge) and one["score"] is not None]]
        ]  # fmt: skip
    tables = {"questions": questions, "answers": answers, "judgements": judgements, "scores": scores}
    for table, rows in (tables | {"metrics": metrics, "runs": runs}).items():
        lake.append(table, pl.DataFrame(rows, infer_schema_length=None))
    write_catalog(lake)
    return lake
