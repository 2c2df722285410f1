"""Judges' leniency, and what is kept apart because of prompts and settings of passes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake

pytestmark = pytest.mark.integration

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]
_MULTIPLIERS = {"elyza": 2.0, "tengu": 1.0}


def run(model: str = "m", tag: str = "t") -> Row:
    return {"run_id": f"{model}@@{tag}", "model": model, "run_tag": tag, "created_at": datetime(2026, 3, 5, tzinfo=UTC)}


def score(model: str, question: int, judge: str, value: float | None, benchmark: str = "tengu", **others: Any) -> Row:
    own = {"benchmark": benchmark, "question_set": f"{benchmark}@9", "question_id": f"q{question}", "sample_index": 0}
    text = {"answer_hash": f"{model}{benchmark}{question}", "status": "ok", "pipeline": "baseline"}
    return run(model) | own | text | {"judge": judge, "score": value} | others


def metric(model: str, judge: str, value: float | None, benchmark: str = "tengu", **others: Any) -> Row:
    counts = {"n_planned": 9, "n_scored": 8, "n_failed": 1, "n_excluded": 0}
    names = {"judge": judge, "score": value, "benchmark": benchmark, "question_set": f"{benchmark}@9"}
    kind = {"pipeline": "baseline", "null_policy": "legacy", "base_tag": "t"}
    return run(model) | names | kind | counts | {"reported_multiplier": _MULTIPLIERS[benchmark]} | others


def store(lake: Lake, scores: list[Row], metrics: list[Row]) -> None:
    for table, rows in (("scores", scores), ("metrics", metrics)):
        if rows:
            lake.append(table, pl.DataFrame(rows, schema=TABLES[table].schema))


def rows_of_runs(scores: list[Row]) -> list[Row]:
    """One metrics row, of whatever score, for each run, judge and benchmark."""
    keys = dict.fromkeys((row["model"], row["judge"], row["benchmark"]) for row in scores)
    return [metric(model, judge, 5.0, benchmark) for model, judge, benchmark in keys]


def least_squares(scores: list[Row], benchmark: str) -> dict[str, tuple[float, int]]:
    """Each judge's effect and its shared answers by numpy, with the effects' mean weighted by these at 0."""
    answers: dict[str, dict[str, float]] = {}
    for row in scores:
        if row["benchmark"] == benchmark and row["score"] is not None:
            answers.setdefault(row["answer_hash"], {})[row["judge"]] = row["score"] * _MULTIPLIERS[benchmark]
    shared = [own for own in answers.values() if len(own) > 1]
    judges = sorted({judge for own in shared for judge in own})
    equations, values = [], []
    for number, own in enumerate(shared):
        for judge, value in own.items():
            line = np.zeros(len(shared) + len(judges))
            line[number] = line[len(shared) + judges.index(judge)] = 1
            equations.append(line)
            values.append(value)
    solution = np.linalg.lstsq(np.array(equations), np.array(values), rcond=None)[0][len(shared) :]
    n = np.array([sum(judge in own for own in shared) for judge in judges])
    centred = solution - (solution * n).sum() / n.sum()
    return {judge: (float(value), int(count)) for judge, value, count in zip(judges, centred, n, strict=True)}


@pytest.mark.parametrize("seed", range(4))
def test_leniency_is_that_of_least_squares_with_other_judges_for_each_model(seed: int, lake: Lake, ask: Ask) -> None:
    random = np.random.default_rng(seed)
    chain = {"m0": "ab", "m1": "bc", "m2": "cd", "m3": "ad" if seed else "cd", "m4": "abcd", "m5": "e"}
    scores = [
        score(model, question, judge, float(random.integers(1, 6)) if random.random() < 0.9 else None, benchmark)
        for model, judges in chain.items()
        for benchmark in _MULTIPLIERS
        for question in range(12)
        for judge in judges
    ]
    store(lake, scores, rows_of_runs(scores))

    found = ask("from leniency_adjusted")

    assert len(found) == 2 * sum(map(len, chain.values()))
    for benchmark in _MULTIPLIERS:
        expected = least_squares(scores, benchmark)
        for row in (one for one in found if one["benchmark"] == benchmark):
            if row["judge"] == "e":
                assert (row["leniency"], row["adjusted_score"], row["connected_judges"]) == (None, None, None)
                continue
            assert (row["leniency"], row["n_shared_answers"]) == (
                pytest.approx(expected[row["judge"]][0], abs=1e-6),
                expected[row["judge"]][1],
            )
            assert row["adjusted_score"] == row["score"] - row["leniency"]
            assert row["connected_judges"] == ["a", "b", "c", "d"]


def test_with_the_same_judges_everywhere_it_is_the_mean_difference_from_their_mean(lake: Lake, ask: Ask) -> None:
    random = np.random.default_rng(7)
    scores = [score("m", q, judge, float(random.integers(1, 9))) for q in range(9) for judge in "abc"]
    store(lake, scores, rows_of_runs(scores))

    found = dict.fromkeys("abc", 0.0) | {
        row["judge"]: row["mean_difference"] for row in ask("from judge_leniency where benchmark = 'tengu'")
    }
    assert {row["judge"]: row["leniency"] for row in ask("from leniency_adjusted")} == pytest.approx(found)


def test_a_long_chain_of_judges_converges(lake: Lake, ask: Ask) -> None:
    """Each judge gives one more than the one before; only neighbours share answers."""
    scores = [score(f"m{n}", q, f"j{n + more}", 1.0 + n + more) for n in range(9) for q in range(3) for more in (0, 1)]
    store(lake, scores, rows_of_runs(scores))

    leniency = {row["judge"]: row["leniency"] for row in ask("from leniency_adjusted")}

    assert [leniency[f"j{n}"] - leniency["j0"] for n in range(10)] == pytest.approx(list(range(10)), abs=1e-6)


def test_judges_that_share_no_answers_are_apart(lake: Lake, ask: Ask) -> None:
    scores = [
        score(model, 1, judge, value)
        for model, judge, value in [("m", "a", 2.0), ("m", "b", 4.0), ("n", "c", 9.0), ("n", "d", 3.0)]
    ]
    store(lake, scores, rows_of_runs(scores))

    found = {row["judge"]: (row["leniency"], row["connected_judges"]) for row in ask("from leniency_adjusted")}

    assert found == {
        "a": (-1.0, ["a", "b"]),
        "b": (1.0, ["a", "b"]),
        "c": (3.0, ["c", "d"]),
        "d": (-3.0, ["c", "d"]),
    }


def test_a_judge_with_another_prompt_is_another_judge_and_passes_do_not_count(lake: Lake, ask: Ask) -> None:
    scores = [
        *(score("m", 1, judge, value, judge_prompt_hash="p") for judge, value in [("a", 4.0), ("b", 6.0)]),
        *(score("n", 1, judge, value, judge_prompt_hash="q") for judge, value in [("a", 9.0), ("b", 1.0)]),
        score("m", 1, "a", 0.0, judge_prompt_hash="p", pipeline="repetition"),
        score("m", 1, "a", 0.0, judge_prompt_hash="p", strategy="majority"),
    ]
    metrics = [
        *(metric("m", "a", 4.0, judge_prompt_hash=prompt, null_policy=policy) for prompt, policy in [("p", "legacy"), ("q", "zero")]),
        metric("m", "a", 3.0, judge_prompt_hash="p", pipeline="repetition"),
        metric("m", "a", 9.0, judge_prompt_hash="p", strategy="majority"),
    ]  # fmt: skip
    store(lake, scores, metrics)

    columns = "judge_prompt_hash, pipeline, leniency, adjusted_score"
    assert [tuple(row.values()) for row in ask(f"select {columns} from leniency_adjusted order by all")] == [
        ("p", "baseline", -1.0, 5.0),
        ("p", "repetition", -1.0, 4.0),
        ("q", "baseline", 4.0, 0.0),
    ]


def test_without_shared_answers_there_is_no_leniency(lake: Lake, ask: Ask) -> None:
    store(lake, [score("m", 1, "a", 5.0)], [metric("m", "a", 5.0)])

    (row,) = ask("select score, leniency, adjusted_score from leniency_adjusted")
    assert row == {"score": 5.0, "leniency": None, "adjusted_score": None}


_VERSIONS = [{"judge_prompt_hash": "q"}, {"pipeline_hash": "h"}]


@pytest.mark.parametrize("other", _VERSIONS)
def test_only_the_same_prompt_and_passes_are_shared_by_models(other: Row, lake: Lake, ask: Ask) -> None:
    metrics = [metric(model, judge, 6.0) for model in "mn" for judge in "ab"]
    store(lake, [], [*metrics[:3], metrics[3] | other])

    found = ask("select judges, n_runs from multi_judge_leaderboard_of(['m', 'n']) where benchmark = 'tengu'")
    alone = ask("select judges from multi_judge_leaderboard_of(['m', 'n'], only_judges := ['b'])")

    assert found == [{"judges": ["a"], "n_runs": 2}] * 2
    assert alone == []


@pytest.mark.parametrize("other", _VERSIONS)
def test_the_multi_judge_leaderboard_ranks_only_within_the_same_prompts_and_passes(
    other: Row, lake: Lake, ask: Ask
) -> None:
    metrics = [metric(model, judge, 6.0) for model in "mno" for judge in "ab"]
    store(lake, [], [*metrics[:4], *(row | other for row in metrics[4:])])

    columns = "model, n_runs, judge_prompt_hashes, pipeline_hash"
    found = ask(f"select {columns} from multi_judge_leaderboard where benchmark = 'overall' order by model")

    prompt = other.get("judge_prompt_hash")
    assert [tuple(row.values()) for row in found] == [
        ("m", 2, [None, None], None),
        ("n", 2, [None, None], None),
        ("o", 1, [prompt, prompt], other.get("pipeline_hash")),
    ]


@pytest.mark.parametrize("other", [*_VERSIONS, {"judge_config_hash": "c"}])
def test_statistics_over_runs_never_mix_judges_and_passes_of_other_versions(other: Row, lake: Lake, ask: Ask) -> None:
    metrics = [
        metric("m", "a", float(number), run_id=f"m@@t-run{number}", run_tag=f"t-run{number}", run_number=number)
        for number in (1, 2, 3)
    ]
    store(lake, [], [*metrics[:2], metrics[2] | other])

    columns = "benchmark, n_runs, mean, judge_prompt_hash, judge_config_hash, pipeline_hash"
    hashes = tuple(other.get(name) for name in ("judge_prompt_hash", "judge_config_hash", "pipeline_hash"))
    assert [tuple(row.values()) for row in ask(f"select {columns} from run_statistics order by mean")] == [
        ("tengu", 2, 1.5, None, None, None),
        ("tengu", 1, 3.0, *hashes),
    ]


@pytest.mark.parametrize(("sources", "n_compared"), [(("one", "one"), 2), (("one", "other"), 1), (("one", None), 1)])
def test_prompts_that_nobody_recorded_are_the_same_in_one_tree_only(
    sources: tuple[str, str | None], n_compared: int, lake: Lake, ask: Ask
) -> None:
    metrics = [metric(model, judge, 6.0) for model in "mn" for judge in ("a", "b", "rule:match")]
    stored = {"spec": "{}", "spec_hash": "x", "status": "complete", "updated_at": metrics[0]["created_at"]}
    runs = [run(model) | stored | {"source": source} for model, source in zip("mn", sources, strict=True)]
    store(lake, [], metrics)
    lake.append("runs", pl.DataFrame(runs, schema_overrides={"source": pl.String}))

    shared = ask("select judges from multi_judge_leaderboard_of(['m', 'n']) where benchmark = 'tengu'")
    ranked = ask("select rank, n_runs from multi_judge_leaderboard where benchmark = 'tengu'")

    together = n_compared == 2
    assert shared == [{"judges": ["a", "b", "rule:match"] if together else ["rule:match"]}] * 2
    assert [row["n_runs"] for row in ranked] == [n_compared] * 2
    assert len(ask("select distinct judge_prompt from leaderboard where judge = 'a'")) == 3 - n_compared
