"""The statistics in sql/views against scipy, numpy and cases small enough to do by hand."""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr, spearmanr

from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.store import Lake

pytestmark = pytest.mark.integration

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]
_CREATED = datetime(2026, 3, 5, tzinfo=UTC)
_MULTIPLIERS = {"elyza": 2.0, "tengu": 1.0, "mt_bench": 1.0}


def run(model: str = "m", tag: str = "t") -> Row:
    return {"run_id": f"{model}@@{tag}", "model": model, "run_tag": tag}


def sample(benchmark: str = "tengu", question: str = "q", index: int = 0) -> Row:
    return {
        "benchmark": benchmark,
        "question_set": f"{benchmark}@9",
        "question_id": question,
        "sample_index": index,
    }


def judged(judge: str = "j", score: float | None = 5.0, text: str = "a", **others: Any) -> Row:
    """What judgements and scores have in common."""
    status = {"status": "ok"} if score is not None else {"status": "error", "error_class": "no_score"}
    return {"judge": judge, "score": score, "answer_hash": text, **status, **others}


def metric(judge: str, score: float | None, benchmark: str = "tengu", **others: Any) -> Row:
    counts = {"n_planned": 9, "n_scored": 8, "n_failed": 1, "n_excluded": 0}
    return {
        "judge": judge,
        "score": score,
        "benchmark": benchmark,
        "question_set": f"{benchmark}@9",
        "pipeline": "baseline",
        "null_policy": "legacy",
        "base_tag": "t",
        "reported_multiplier": _MULTIPLIERS[benchmark],
        **counts,
        **others,
    }


def store(lake: Lake, table: str, rows: list[Row]) -> None:
    defaults = {"created_at": _CREATED}
    if table == "scores":
        defaults |= {"pipeline": "baseline"}
        # The reported scale is known from the metrics.
        store(
            lake, "metrics", [run("scale") | metric("scale", None, name) for name in {row["benchmark"] for row in rows}]
        )
    if table == "judgements":
        defaults |= {"superseded": False}
    if table == "runs":
        defaults |= {"spec_hash": "", "status": "complete", "updated_at": _CREATED}
    if table == "questions":
        defaults |= {"question": "?", "question_set_sha256": ""}
    frame = pl.DataFrame([defaults | row for row in rows], schema=TABLES[table].schema)
    lake.append(table, frame)


def random_scores(seed: int, *, models: int = 5, questions: int = 8, judges: str = "abc") -> list[Row]:
    """Scores with ties and holes; every answer has a text of its own."""
    random = np.random.default_rng(seed)
    return [
        run(f"m{model}")
        | sample(benchmark, f"{benchmark}-{question}")
        | judged(
            judge, float(random.integers(1, 6)) if random.random() < 0.8 else None, f"{model}{benchmark}{question}"
        )
        for model in range(models)
        for benchmark in ("elyza", "tengu")
        for question in range(questions)
        for judge in judges
    ]


def reported(row: Row) -> float:
    return float(row["score"] * _MULTIPLIERS[row["benchmark"]])


def by_answer(rows: list[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """Reported scores by judge of each answer, which is a benchmark and a text."""
    answers: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["score"] is not None:
            answers[row["benchmark"], row["answer_hash"]][row["judge"]] = reported(row)
    return answers


def test_alpha_is_that_of_the_published_example(lake: Lake, ask: Ask) -> None:
    """Four observers and twelve units in Krippendorff's "Computing Krippendorff's Alpha-Reliability" (2011)."""
    observed = {
        "a": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        "b": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        "c": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        "d": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    }
    rows = [
        run() | sample(question=str(unit)) | judged(judge, score, str(unit))
        for judge, scores in observed.items()
        for unit, score in enumerate(scores)
    ]
    store(lake, "scores", rows)

    tengu, overall = ask("select * from judge_alpha order by benchmark desc")

    assert round(tengu["alpha"], 3) == 0.849
    assert (tengu["n_answers"], tengu["n_scores"]) == (11, 40)
    assert overall == tengu | {"benchmark": "overall"}


def test_alpha_is_the_same_to_the_last_bit_each_time(lake: Lake, ask: Ask) -> None:
    for seed in range(6):
        rows = [
            row | {"run_id": f"{seed}", "score": (row["score"] or 0) / 3} for row in random_scores(seed, questions=60)
        ]
        store(lake, "scores", [row | {"answer_hash": f"{seed}{row['answer_hash']}"} for row in rows])

    assert len({ask("from judge_alpha order by benchmark")[0]["alpha"] for _ in range(12)}) == 1


@pytest.mark.parametrize("seed", range(2))
def test_alpha_is_one_minus_observed_over_expected_difference(seed: int, lake: Lake, ask: Ask) -> None:
    rows = random_scores(seed)
    store(lake, "scores", rows)
    units = {key: list(scores.values()) for key, scores in by_answer(rows).items() if len(scores) > 1}

    for found in ask("from judge_alpha"):
        own = [unit for (name, _), unit in units.items() if found["benchmark"] in {name, "overall"}]
        values = np.array([score for unit in own for score in unit])
        within = sum(sum((x - y) ** 2 for x in unit for y in unit) / (len(unit) - 1) for unit in own) / len(values)
        between = sum(((value - values) ** 2).sum() for value in values) / (len(values) * (len(values) - 1))
        assert found["alpha"] == pytest.approx(1 - within / between, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_agreement_is_that_of_scipy_with_ties_and_holes(seed: int, lake: Lake, ask: Ask) -> None:
    rows = random_scores(seed)
    store(lake, "scores", rows)

    found = {(row["judge_a"], row["judge_b"], row["benchmark"]): row for row in ask("from judge_agreement")}

    assert len(found) == 3 * 3
    for a, b in itertools.combinations("abc", 2):
        for benchmark in ("elyza", "tengu", "overall"):
            both = [
                (scores[a], scores[b])
                for (name, _), scores in by_answer(rows).items()
                if benchmark in {name, "overall"} and {a, b} <= scores.keys()
            ]
            first, second = np.array(both).T
            row = found[a, b, benchmark]
            assert row["n"] == len(both)
            assert row["pearson"] == pytest.approx(pearsonr(first, second).statistic, abs=1e-12)
            assert row["spearman"] == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)
            assert row["exact_share"] == pytest.approx(np.mean(first == second))
            assert row["mean_difference"] == pytest.approx(np.mean(first - second), abs=1e-12)


def test_judges_are_compared_on_the_same_text_of_the_same_model_only(lake: Lake, ask: Ask) -> None:
    rows = [
        run("m", "old") | sample() | judged("a", 3, "same text"),
        run("m", "new") | sample() | judged("b", 4, "same text"),
        run("m", "new") | sample(question="q2") | judged("a", 1, "one text"),
        run("m", "new") | sample(question="q2", index=1) | judged("b", 9, "another text"),
        run("other") | sample() | judged("b", 9, "same text"),
    ]
    store(lake, "scores", rows)

    found = ask("from judge_agreement where benchmark = 'tengu'")

    assert [(row["n"], row["mean_difference"], row["exact_share"]) for row in found] == [(1, -1.0, 0.0)]
    assert found[0]["pearson"] is None
    assert found[0]["spearman"] is None


def test_a_text_that_a_judge_saw_twice_counts_once_with_the_mean(lake: Lake, ask: Ask) -> None:
    rows = [run() | sample(index=index) | judged(judge, score) for index, judge, score in [(0, "a", 8), (1, "a", 9)]]
    store(lake, "scores", [*rows, run() | sample() | judged("b", 8)])

    (row,) = ask("from judge_agreement where benchmark = 'tengu'")
    assert (row["n"], row["mean_difference"]) == (1, 0.5)


def test_a_pass_pipeline_does_not_count_as_another_judgement(lake: Lake, ask: Ask) -> None:
    rows = [run() | sample() | judged(judge, 8) for judge in "ab"]
    store(lake, "scores", [*rows, rows[0] | {"pipeline": "language", "score": 2.0}])

    (row,) = ask("from judge_agreement where benchmark = 'tengu'")
    assert (row["n"], row["mean_difference"]) == (1, 0.0)


@pytest.mark.parametrize("seed", range(3))
def test_leniency_is_the_mean_difference_from_the_mean_of_all_judges(seed: int, lake: Lake, ask: Ask) -> None:
    rows = random_scores(seed)
    store(lake, "scores", rows)

    found = {(row["judge"], row["benchmark"]): row for row in ask("from judge_leniency")}

    assert len(found) == 3 * 3
    for (judge, benchmark), row in found.items():
        shared = [
            scores
            for (name, _), scores in by_answer(rows).items()
            if benchmark in {name, "overall"} and judge in scores and len(scores) > 1
        ]
        differences = [scores[judge] - np.mean(list(scores.values())) for scores in shared]
        assert row["n_answers"] == len(shared)
        assert row["mean_difference"] == pytest.approx(np.mean(differences), abs=1e-12)
        assert row["sd"] == pytest.approx(np.std(differences, ddof=1))
        assert row["mean_judges"] == pytest.approx(np.mean([len(scores) for scores in shared]))


@pytest.mark.parametrize("seed", range(3))
def test_difficulty_and_discrimination_are_those_of_numpy(seed: int, lake: Lake, ask: Ask) -> None:
    rows = random_scores(seed, models=7)
    store(lake, "scores", rows)
    positions = [
        sample("tengu", f"tengu-{n}") | {"position": n, "category": f"c{n % 2}", "question": "?"} for n in range(8)
    ]
    store(lake, "questions", [{**row, "question_set_sha256": "x"} for row in drop(positions, "sample_index")])

    found = {(row["judge"], row["question_id"]): row for row in ask("from question_statistics")}

    scores: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["score"] is not None:
            scores[row["judge"], row["benchmark"]][row["run_id"]][row["question_id"]] = reported(row)
    assert len(found) == 3 * 16
    for (judge, question), row in found.items():
        own, rest = [], []
        for of_run in scores[judge, row["benchmark"]].values():
            if question in of_run:
                own.append(of_run[question])
                rest.append(np.mean([score for name, score in of_run.items() if name != question]))
        assert row["n_runs"] == len(own)
        assert row["difficulty"] == pytest.approx(np.mean(own))
        assert row["sd"] == pytest.approx(np.std(own, ddof=1))
        assert row["discrimination"] == pytest.approx(np.corrcoef(own, rest)[0, 1], abs=1e-12)
        assert row["position"] == (int(question[-1]) if row["benchmark"] == "tengu" else None)


def drop(rows: list[Row], *names: str) -> list[Row]:
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def test_without_variance_or_other_questions_there_is_no_discrimination(lake: Lake, ask: Ask) -> None:
    rows = [
        run(f"m{n}") | sample(question=question) | judged(score=n * factor)
        for n in range(3)
        for question, factor in [("varies", 1), ("same", 0)]
    ]
    store(lake, "scores", [*rows, *(run(f"m{n}") | sample("elyza") | judged(score=n) for n in range(1, 4))])

    found = {row["question_id"]: row for row in ask("from question_statistics")}

    assert {name: row["discrimination"] for name, row in found.items()} == {"varies": None, "same": None, "q": None}
    assert (found["q"]["difficulty"], found["q"]["n_runs"]) == (4.0, 3)


def test_category_scores_are_means_with_their_denominators(lake: Lake, ask: Ask) -> None:
    categories = {"q1": "x", "q2": "x", "q3": "y", "q4": None}
    questions = [
        sample("elyza", question)
        | {"category": category, "position": 1, "question": question, "question_set_sha256": "x"}
        for question, category in categories.items()
    ]
    store(lake, "questions", drop(questions, "sample_index"))
    excluded = {"status": "excluded", "error_class": "empty_answer"}
    rows = [
        run() | sample("elyza", "q1") | judged(score=3),
        run() | sample("elyza", "q2") | judged(score=4),
        run() | sample("elyza", "q2", 1) | judged(score=None),
        run() | sample("elyza", "q3") | judged(score=None) | excluded,
        run() | sample("elyza", "q4") | judged(score=5),
    ]
    store(lake, "scores", rows)

    columns = "category, score, n_samples, n_scored, n_failed, n_excluded"
    assert [tuple(row.values()) for row in ask(f"select {columns} from category_scores order by 1 nulls last")] == [
        ("x", 7.0, 3, 2, 1, 0),
        ("y", None, 1, 0, 0, 1),
        (None, 10.0, 1, 1, 0, 0),
    ]


def test_duplicates_are_told_apart_by_kind(lake: Lake, ask: Ask) -> None:
    store(
        lake,
        "judgements",
        [
            run() | sample(question="twice") | judged(),
            run() | sample(question="twice") | judged(),
            run() | sample(question="replaced") | judged() | {"superseded": True},
            run() | sample(question="replaced") | judged(),
            run() | sample(question="two samples") | judged(),
            run() | sample(question="two samples", index=1) | judged(),
            run() | sample(question="two samples") | judged("another judge"),
        ],
    )
    text = {"status": "ok", "answer_state": "text"}
    answers = [
        run(model) | sample(question=question) | text | {"answer_hash": answer}
        for model, question, answer in [("m", "q", "x"), ("n", "q", "x"), ("n", "other", "x"), ("o", "q", "y")]
    ]
    empty = [
        run(model) | sample(question="empty") | text | {"answer_hash": "", "answer_state": "empty"} for model in "mn"
    ]
    store(lake, "answers", [*answers, *empty, answers[0] | run("m", "again")])

    columns = "kind, question_id, judge, sample_index, answer_hash, n, models"
    assert [tuple(row.values()) for row in ask(f"select {columns} from duplicates order by kind")] == [
        ("answer", "q", None, None, "x", 3, ["m", "n"]),
        ("judgement", "twice", "j", 0, None, 2, ["m"]),
        ("question", "two samples", "j", None, None, 2, ["m"]),
    ]


def test_a_multi_judge_score_is_the_mean_of_the_judges_that_all_share(lake: Lake, ask: Ask) -> None:
    store(
        lake,
        "metrics",
        [
            *(run("m") | metric(judge, score) for judge, score in [("a", 6.0), ("b", 8.0), ("c", 1.0)]),
            *(run("n") | metric(judge, score) for judge, score in [("a", 5.0), ("b", 10.0)]),
            *(run(model) | metric(judge, 4.0, "elyza") for model in "mn" for judge in "ab"),
            run("n") | metric("a", 1.0, "mt_bench"),
            run("m", "old") | metric("d", 9.0),
            run("unasked") | metric("e", 9.0),
            run("m") | metric("a", 0.0) | {"null_policy": "zero"},
        ],
    )

    columns = "benchmark, model, run_tag, score, judges, question_sets, n_planned, n_scored, n_failed, n_runs"
    found = ask(f"select {columns} from multi_judge_leaderboard_of(['m', 'n'])")

    tengu, elyza = ["tengu@9"], ["elyza@9"]
    assert [tuple(row.values()) for row in found] == [
        ("overall", "n", "t", 5.75, ["a", "b"], elyza + tengu, 36, 32, 4, 2),
        ("overall", "m", "t", 5.5, ["a", "b"], elyza + tengu, 36, 32, 4, 2),
        ("elyza", "m", "t", 4.0, ["a", "b"], elyza, 18, 16, 2, 2),
        ("elyza", "n", "t", 4.0, ["a", "b"], elyza, 18, 16, 2, 2),
        ("tengu", "n", "t", 7.5, ["a", "b"], tengu, 18, 16, 2, 2),
        ("tengu", "m", "t", 7.0, ["a", "b"], tengu, 18, 16, 2, 2),
    ]
    old = ask("select score from multi_judge_leaderboard_of(['m'], tags := ['old']) where benchmark = 'tengu'")
    zero = ask("select score from multi_judge_leaderboard_of(['m'], policy := 'zero') where benchmark = 'tengu'")
    assert (old, zero) == ([{"score": 9.0}], [{"score": 0.0}])
    assert ask("from multi_judge_leaderboard_of(['m', 'unasked'])") == []


def test_the_multi_judge_leaderboard_has_each_set_of_judges(lake: Lake, ask: Ask) -> None:
    store(
        lake,
        "metrics",
        [
            *(run("m") | metric(judge, score) for judge, score in [("a", 6.0), ("b", 8.0), ("c", 1.0)]),
            *(run("n") | metric(judge, score) for judge, score in [("a", 5.0), ("b", 10.0)]),
            *(run("n") | metric(judge, 4.5, "elyza") for judge in "ab"),
            run("alone") | metric("a", 9.0),
        ],
    )

    columns = "judges, benchmark, rank, model, score, n_planned, n_scored, n_failed, n_excluded, n_runs"
    found = [tuple(row.values()) for row in ask(f"select {columns} from multi_judge_leaderboard order by all")]

    assert found == [
        (["a", "b"], "elyza", 1, "n", 4.5, 18, 16, 2, 0, 1),
        # Not in one table: their overall means are over different question sets.
        (["a", "b"], "overall", 1, "m", 7.0, 18, 16, 2, 0, 1),
        (["a", "b"], "overall", 1, "n", 6.0, 36, 32, 4, 0, 1),
        (["a", "b"], "tengu", 1, "n", 7.5, 18, 16, 2, 0, 2),
        (["a", "b"], "tengu", 2, "m", 7.0, 18, 16, 2, 0, 2),
        (["a", "b", "c"], "overall", 1, "m", 5.0, 27, 24, 3, 0, 1),
        (["a", "b", "c"], "tengu", 1, "m", 5.0, 27, 24, 3, 0, 1),
    ]


def limited(number: int) -> dict[str, object]:
    return {"origin": "own", "benchmarks": {"tengu": {"question_set": "tengu@9", "limit": number}}}


def test_a_limited_run_is_never_ranked_with_full_ones(lake: Lake, ask: Ask) -> None:
    asked = {"origin": "own", "benchmarks": {"tengu": {"question_set": "tengu@9"}}}
    specs = {"m": asked, "n": asked, "few": limited(2), "all of them": limited(9)}
    store(lake, "runs", [run(model) | {"spec": json.dumps(spec)} for model, spec in specs.items()])
    store(lake, "questions", [sample(question=f"q{k}") | {"position": k} for k in range(9)])
    scores = {"m": 6.0, "n": 7.0, "few": 10.0, "all of them": 5.0}
    store(lake, "metrics", [run(model) | metric(judge, score) for model, score in scores.items() for judge in "ab"])

    columns = "asked, rank, model, n_runs"
    found = ask(f"select {columns} from multi_judge_leaderboard where benchmark = 'overall' order by all")
    assert [tuple(row.values()) for row in found] == [
        (["tengu@9"], 1, "n", 3),
        (["tengu@9"], 2, "m", 3),
        (["tengu@9"], 3, "all of them", 3),
        (["tengu@9, 2 asked"], 1, "few", 1),
    ]
    assert ask("from multi_judge_leaderboard_of(['m', 'few'])") == []
    assert len(ask("from multi_judge_leaderboard_of(['m', 'all of them']) where benchmark = 'tengu'")) == 2


def test_of_a_models_runs_a_limited_one_does_not_keep_the_full_one_from_being_compared(lake: Lake, ask: Ask) -> None:
    asked = {"origin": "own", "benchmarks": {"tengu": {"question_set": "tengu@9"}}}
    runs = [run("m") | {"spec": json.dumps(asked)}, run("m", "few") | {"spec": json.dumps(limited(2))}]
    store(lake, "runs", [*runs, run("n") | {"spec": json.dumps(asked)}])
    store(lake, "questions", [sample(question=f"q{k}") | {"position": k} for k in range(9)])
    store(lake, "metrics", [own | metric("a", 5.0) for own in (run("m"), run("m", "few"), run("n"))])

    found = ask("select model, run_tag from multi_judge_leaderboard_of(['m', 'n']) where benchmark = 'tengu'")
    assert [tuple(row.values()) for row in found] == [("m", "t"), ("n", "t")]


def test_an_overall_score_is_never_over_a_part_of_the_runs_benchmarks(lake: Lake, ask: Ask) -> None:
    rows = [run() | metric(judge, 5.0) for judge in "ab"] + [run() | metric("a", 5.0, "elyza")]
    store(lake, "metrics", rows)

    assert {row["benchmark"] for row in ask("from multi_judge_leaderboard")} == {"tengu"}


def test_null_rates_count_every_way_to_be_without_a_score(lake: Lake, ask: Ask) -> None:
    own = run() | sample()
    store(
        lake,
        "judgements",
        [
            own | judged(score=5, score_source="final_score", finish_reason="stop"),
            own | judged(score=12, score_source="fallback", finish_reason="length", out_of_scale=True),
            own | judged(score=None, finish_reason="length"),
            own | judged(score=None, error_class="timeout"),
            own | judged(score=None, status="excluded", error_class="empty_answer"),
            own | judged(score=None, status="skipped", error_class="no_answer"),
            own | judged(score=None, superseded=True),
        ],
    )

    (row,) = ask("from null_rates")

    counts = {name: value for name, value in row.items() if name.startswith("n_")}
    assert counts == {
        "n_judgements": 6, "n_scored": 2, "n_without_score": 2, "n_excluded": 1, "n_skipped": 1, "n_out_of_scale": 1,
        "n_truncated": 2, "n_finish_reason_known": 3,
    }  # fmt: skip
    assert row["null_rate"] == 0.5
    assert ask(
        "select error_classes['no_score'] as a, error_classes['timeout'] as b, cardinality(score_sources) as c from null_rates"
    ) == [{"a": 1, "b": 1, "c": 2}]


def test_drift_is_by_month_and_imported_judgements_have_no_month(lake: Lake, ask: Ask) -> None:
    store(lake, "metrics", [run() | metric("j", 5.0, "elyza")])
    own = run() | sample("elyza")
    march, april = (datetime(2026, month, 31 - (month == 4), 23, tzinfo=UTC) for month in (3, 4))
    made = {"judge_config_hash": "c"}
    store(
        lake,
        "judgements",
        [
            own | judged(score=2, created_at=march, superseded=True) | made | {"request_hash": "q"},
            own | judged(score=3, created_at=april, superseded=True) | made | {"request_hash": "r"},
            own | judged(score=4, created_at=april) | made | {"request_hash": "s"},
            own | judged(score=5, created_at=april) | {"request_hash": "s", "judge_config_hash": "other"},
            own | judged(score=None, created_at=april) | made | {"request_hash": "t"},
            own | judged(score=1, created_at=april),
            own | judged(score=None, created_at=april, status="excluded"),
        ],
    )

    columns = "month, score, n_judgements, n_scored, n_superseded, n_runs, n_judge_configs"
    assert [tuple(row.values()) for row in ask(f"select {columns} from drift order by month nulls first")] == [
        (None, 2.0, 1, 1, 0, 1, 0),
        (date(2026, 4, 1), 9.0, 3, 2, 1, 1, 2),
    ]


def test_drift_leaves_out_what_decisions_asked(lake: Lake, ask: Ask) -> None:
    store(lake, "metrics", [run() | metric("j", 5.0, "elyza")])
    part = run("m", "decide-t")
    asked = {"spec": '{"benchmarks": {"elyza": {"asked": ["q"]}}}', "spec_hash": "x", "status": "decision"}
    store(lake, "runs", [part | asked | {"updated_at": _CREATED}])
    store(lake, "judgements", [one | sample("elyza") | judged(score=4) for one in (run(), part)])

    assert [row["n_judgements"] for row in ask("select n_judgements from drift")] == [1]


def test_a_judgement_is_stale_by_its_answer_or_by_its_judge(lake: Lake, ask: Ask) -> None:
    names = ["fresh", "answer", "settings", "prompt", "replaced"]
    answers = [run() | sample(question=name) | {"status": "ok", "answer_hash": "now"} for name in names]
    store(lake, "answers", answers)
    current = {"judge_config_hash": "c2", "judge_prompt_hash": "p2"}
    earlier = {"created_at": datetime(2026, 1, 1, tzinfo=UTC)}
    store(
        lake,
        "judgements",
        [
            run() | sample(question="fresh") | judged(text="now") | current,
            run() | sample(question="answer") | judged(text="before") | current,
            run() | sample(question="settings") | judged(text="now") | current | earlier | {"judge_config_hash": "c1"},
            run() | sample(question="prompt") | judged(text="now") | current | earlier | {"judge_prompt_hash": "p1"},
            run() | sample(question="replaced") | judged(text="now", superseded=True) | {"judge_config_hash": "c1"},
            # Another run and another judge have settings of their own.
            run("other") | sample(question="fresh") | judged(text="now") | {"judge_config_hash": "c1"},
            run() | sample(question="fresh") | judged("k", text="now") | {"judge_config_hash": "c1"},
        ],
    )

    columns = "question_id, reason, current_answer_hash, current_judge_config_hash, current_judge_prompt_hash"
    assert [tuple(row.values()) for row in ask(f"select {columns} from stale order by 1")] == [
        ("answer", "answer", "now", "c2", "p2"),
        ("prompt", "judge", "now", "c2", "p2"),
        ("settings", "judge", "now", "c2", "p2"),
    ]
