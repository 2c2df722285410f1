"""The named queries about judges' prompts: on the same answers only, versions never mixed."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.statements import default_parameters
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.settings import Settings

pytestmark = pytest.mark.integration

Row = dict[str, Any]
Ask = Callable[..., list[Row]]
_START = datetime(2026, 7, 1, tzinfo=UTC)
_OLD, _NEW, _STRICT = ("0" * 64, "1" * 64, "2" * 64)


@pytest.fixture
def lake(settings: Settings) -> Lake:
    return Lake(settings.warehouse)


@pytest.fixture
def ask(settings: Settings, lake: Lake) -> Iterator[Ask]:
    def asked(query: str, **values: Any) -> list[Row]:
        path = settings.sql / "queries" / f"{query}.sql"
        sql, bound = path.read_text(encoding="utf-8"), default_parameters(path) | values
        with connect(lake) as connection:
            return pl.DataFrame(connection.sql(sql, params=bound).to_arrow_table()).to_dicts()

    return asked


def judged(question: str, judge: str, score: float | None, version: str, **others: Any) -> Row:
    row = {
        "run_id": "m@@t",
        "model": "m",
        "run_tag": "t",
        "benchmark": "tengu",
        "question_set": "tengu@9",
        "question_id": question,
        "sample_index": 0,
        "answer_hash": f"answer to {question}",
        "judge": judge,
        "judge_model": "j" if judge.startswith("j+") else None,
        "judge_prompt_hash": version,
        "request_hash": f"{judge} asked about {question}",
        "score": score,
        "status": "error" if score is None else "ok",
        "superseded": False,
        "created_at": _START + timedelta(days=int(version[0])),
    }
    return row | others


def store(lake: Lake, rows: list[Row]) -> None:
    frame = pl.DataFrame(rows, infer_schema_length=None)
    lake.append("judgements", frame)
    scores = frame.filter(~pl.col("superseded")).with_columns(pipeline=pl.lit("baseline"))
    lake.append("scores", scores.select(name for name in scores.columns if name in TABLES["scores"].schema))
    metrics = frame.unique(["run_id", "benchmark", "judge"]).select("run_id", "model", "run_tag", "benchmark", "judge")
    lake.append(
        "metrics",
        metrics.with_columns(
            question_set=pl.lit("x@9"),
            base_tag=pl.lit("t"),
            pipeline=pl.lit("baseline"),
            null_policy=pl.lit("legacy"),
            n_planned=9,
            n_scored=9,
            n_failed=0,
            n_excluded=0,
            reported_multiplier=pl.when(pl.col("benchmark") == "elyza").then(2.0).otherwise(1.0),
            created_at=pl.lit(_START),
        ),
    )


def test_two_prompts_are_compared_on_the_answers_that_both_judged(lake: Lake, ask: Ask) -> None:
    random = Random(7)
    pairs = [(random.randint(1, 10), random.randint(1, 10)) for _ in range(60)]
    rows = [
        judged(f"q{number}", judge, float(score), version)
        for number, pair in enumerate(pairs)
        for judge, score, version in zip(("j", "j+strict"), pair, (_OLD, _STRICT), strict=True)
    ]
    rows += [
        judged("only j", "j", 10.0, _OLD),
        judged("only strict", "j+strict", 1.0, _STRICT),
        judged("failed", "j", 9.0, _OLD),
        judged("failed", "j+strict", None, _STRICT),
        judged("other text", "j", 9.0, _OLD),
        judged("other text", "j+strict", 2.0, _STRICT, answer_hash="another"),
        judged("q0", "k", 10.0, _OLD),
    ]
    store(lake, rows)

    tengu, overall = ask("prompt_ab", judge_a="j", judge_b="j+strict")

    a, b = (pl.Series(side, dtype=pl.Float64) for side in zip(*pairs, strict=True))
    assert tengu == {
        "benchmark": "tengu",
        "n": 60,
        "mean_a": pytest.approx(a.mean()),
        "mean_b": pytest.approx(b.mean()),
        "change": pytest.approx((b - a).mean()),
        "sd_change": pytest.approx((b - a).std()),
        "exact_share": pytest.approx((a == b).mean()),
        "pearson": pytest.approx(pearsonr(a, b).statistic),
        "spearman": pytest.approx(spearmanr(a, b).statistic),
    }
    assert {name: overall[name] for name in ("benchmark", "n", "exact_share")} == {
        "benchmark": "overall",
        "n": 60,
        "exact_share": tengu["exact_share"],
    }
    (turned, _) = ask("prompt_ab", judge_a="j+strict", judge_b="j")
    assert (turned["mean_a"], turned["change"]) == (tengu["mean_b"], -tengu["change"])


def test_means_are_on_the_reported_scale_and_a_constant_judge_has_no_correlation(lake: Lake, ask: Ask) -> None:
    rows = [
        judged(f"q{n}", judge, score, _OLD) for n in (1, 2) for judge, score in (("j", float(n)), ("j+strict", 3.0))
    ]
    rows += [row | {"benchmark": "elyza"} for row in rows]
    store(lake, rows)

    found = {row["benchmark"]: row for row in ask("prompt_ab", judge_a="j", judge_b="j+strict")}

    assert {name: (row["mean_a"], row["mean_b"]) for name, row in found.items()} == {
        "elyza": (3.0, 6.0),
        "tengu": (1.5, 3.0),
        "overall": (2.25, 4.5),
    }
    assert (found["tengu"]["pearson"], found["tengu"]["spearman"]) == (None, None)
    assert [row["benchmark"] for row in ask("prompt_ab", judge_a="j", judge_b="j+strict", benchmark="elyza")] == [
        "elyza"
    ]


def test_each_version_of_a_prompt_is_a_row_beside_what_it_changes(lake: Lake, ask: Ask) -> None:
    questions = [f"q{number}" for number in range(4)]
    rows = [judged(one, "j", 5.0, _OLD, superseded=True) for one in questions]
    rows += [judged(one, "j", 6.0, _NEW) for one in questions]
    rows += [
        judged(one, "j", 6.0, _NEW, run_id="m@@u", run_tag="u", answer_hash="text of another run") for one in questions
    ]
    rows += [judged(one, "j+strict", 3.0, _STRICT) for one in questions[:2]]
    rows += [judged(one, "k", 9.0, _OLD) for one in questions]
    rows += [judged("q1", "rule:mcq", 1.0, _OLD, score_source="rule")]
    store(lake, rows)

    found = ask("prompt_versions")

    names = ("judge_model", "judge", "prompt_version", "n_runs", "n_answers", "n_in_force", "mean_score", "n_common")
    assert [tuple(row[name] for name in (*names, "change")) for row in found] == [
        ("j", "j", "0" * 12, 1, 4, 0, 5.0, 4, 0.0),
        ("j", "j", "1" * 12, 2, 8, 8, 6.0, 4, 1.0),
        ("j", "j+strict", "2" * 12, 1, 2, 2, 3.0, 2, -2.0),
        ("k", "k", "0" * 12, 1, 4, 4, 9.0, 4, 0.0),
    ]
    assert {row["benchmark"] for row in found} == {"tengu"}
    assert [row["judge"] for row in ask("prompt_versions", judge_model="k")] == ["k"]
    assert ask("prompt_versions", benchmark="elyza") == []


def test_the_judge_without_a_variant_comes_first_even_if_it_judged_last(lake: Lake, ask: Ask) -> None:
    store(lake, [judged("q", "j+strict", 3.0, _OLD), judged("q", "j", 5.0, _NEW)])

    assert [(row["judge"], row["change"]) for row in ask("prompt_versions")] == [("j", 0.0), ("j+strict", -2.0)]


def test_imported_versions_are_told_apart_by_their_epoch(lake: Lake, ask: Ask) -> None:
    imported = {"judge_prompt_hash": None, "request_hash": None}
    rows = [
        judged("q", "j", 5.0, _OLD, **imported, judge_model="j", judge_prompt_version="P3"),
        judged("q", "j-before", 4.0, _OLD, **imported, judge_model="j", judge_prompt_version="P2"),
        judged("q", "k", 4.0, _OLD, **imported, judge_prompt_version=None),
    ]
    store(lake, rows)

    found = [(row["judge"], row["prompt_version"], row["change"]) for row in ask("prompt_versions")]
    assert found == [("j", "P3", 0.0), ("j-before", "P2", -1.0), ("k", "unknown", 0.0)]


def test_imported_judgements_have_no_time_and_come_before_those_that_have_one(lake: Lake, ask: Ask) -> None:
    imported = {"judge_prompt_hash": None, "request_hash": None, "judge_prompt_version": "P3"}
    imported["created_at"] = _START + timedelta(days=300)
    store(lake, [judged("q", "j", 5.0, _OLD), judged("q", "j", 4.0, _OLD, superseded=True, **imported)])

    found = [
        (row["prompt_version"], row["change"], row["first_judged_at"], row["last_judged_at"])
        for row in ask("prompt_versions")
    ]
    assert found == [("P3", 0.0, None, None), ("0" * 12, 1.0, _START, _START)]
