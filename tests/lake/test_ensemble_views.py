"""The views of ensembles over a lake small enough to count by hand."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl
import pytest

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.tasks.judges.rules.plurality import plurality

pytestmark = pytest.mark.integration

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]
RUN = {"run_id": "m@@t", "model": "m", "run_tag": "t"}
RULE, JUDGE = "rule:numeric", "rule:numeric+j"
CREATED = {"created_at": datetime(2026, 3, 5, tzinfo=UTC)}
NOT_LOOKED_AT = dict.fromkeys(("n_scored", "n_failed", "n_excluded"), 0)
TRUTH = "7"
# What each question's samples say: the single answer, then the three shared ones. None: nothing can be read; "!": the
# call failed.
SAID: dict[str, tuple[str | None, ...]] = {
    "all": ("7", "7", "7", "7"),
    "most": ("1", "7", "1", "7"),
    "one": ("7", "1", "1", "7"),
    "tied": ("7", "7", "1", None),
    "none": (None, None, None, None),
    "failed": ("!", "!", "1", "2"),
}
RIGHT = {"all": (1, 3), "most": (0, 2), "one": (1, 1), "tied": (1, 1), "none": (0, 0), "failed": (0, 0)}


@pytest.fixture
def lake(lake: Lake) -> Lake:
    write(lake)
    return lake


def write(lake: Lake, *, single: str = "own", run: Row = RUN, models: tuple[str, ...] = ("m",)) -> None:
    """One run over six questions with the strategies single and plurality, graded by a rule and by a judge."""
    settings = {"samples": 4, "single": single, "strategies": ["single", "plurality", "standard"]}
    spec = {"version": 2, "benchmarks": {"gsm8k": settings | {"judges": [RULE, JUDGE]}}}
    runs = run | {
        "spec": orjson.dumps(spec).decode(),
        "spec_hash": "x",
        "status": "complete",
        "updated_at": CREATED["created_at"],
    }
    lake.append("runs", pl.DataFrame([runs | CREATED]))
    answers, verdicts, consensus, calls = [], [], [], []
    for question, said in SAID.items():
        asked = run | {"benchmark": "gsm8k", "question_set": "gsm8k@6", "question_id": question}
        for index, text in enumerate(said):
            failed = text == "!"
            one = asked | {"sample_index": index, "answer_hash": None if failed else f"{question}{index}"}
            answers.append(
                one
                | {"status": "error" if failed else "ok", "answer": text, "answer_model": models[index % len(models)]}
                | {"request_hash": f"{run['run_id']}{question}{index}", "answer_prompt_tokens": 10}
                | {"answer_completion_tokens": 1, "latency_seconds": 0.5}
            )
            calls.append(call(run, question, "answer", str(index), 0.01))
            verdicts += verdicts_of(one, None, text)
        shared = said[1:] if single == "own" else said
        elected = plurality([None if text == "!" else text for text in shared]).winner
        for strategy, text in (("single", said[0]), ("plurality", shared[elected]), ("standard", TRUTH)):
            one = asked | {"sample_index": 0, "answer_hash": f"{question}{strategy}"}
            verdicts += verdicts_of(one, strategy, text)
            made = strategy == "standard"
            consensus.append(
                asked
                | {"strategy": strategy, "status": "ok", "calls": int(made), "latency_seconds": 2.0 if made else None}
                | {"consensus_prompt_tokens": 100 * made, "consensus_completion_tokens": 5 * made}
            )
        calls.append(call(run, question, "standard:summary", "s", 0.1))
    calls[-1] |= {"cost_usd": None}  # no price is known
    frames = {"answers": answers, "consensus": consensus, "calls": calls, "judgements": verdicts, "scores": verdicts}
    for table, rows in frames.items():
        kept = [
            {k: v for k, v in row.items() if table != "scores" or k not in {"extracted", "superseded"}} for row in rows
        ]
        scored = {"pipeline": "baseline"} if table == "scores" else {}
        lake.append(table, pl.DataFrame([row | CREATED | scored for row in kept], infer_schema_length=None))
    metrics = run | {"benchmark": "gsm8k", "question_set": "gsm8k@6", "null_policy": "zero", "pipeline": "baseline"}
    lake.append(
        "metrics",
        pl.DataFrame(
            [
                metrics | {"judge": judge, "strategy": strategy, "n_planned": len(SAID)} | NOT_LOOKED_AT | CREATED
                for judge in (RULE, JUDGE)
                for strategy in ("single", "plurality", "standard")
            ]
        ),
    )


def call(run: Row, question: str, purpose: str, number: str, cost: float) -> Row:
    return {
        "request_hash": f"{run['run_id']}{question}{number}",
        "run_id": run["run_id"],
        "stage": "answers" if purpose == "answer" else "consensus",
        "benchmark": "gsm8k",
        "question_id": question,
        "purpose": purpose,
        "model": "m",
        "base_url": "http://localhost/v1",
        "status": "ok",
        "cost_usd": cost,
    }


def verdicts_of(one: Row, strategy: str | None, text: str | None) -> list[Row]:
    """By the rule, and by the judge, who says the same in words of its own, on which votes must not rest."""
    row: Row = one | {"strategy": strategy, "extracted": None, "superseded": False, "score": None}
    if text == "!":
        row |= {"status": "skipped", "error_class": "no_answer"}
    elif text is None:
        row |= {"status": "excluded", "error_class": "abstained"}
    else:
        row |= {"status": "ok", "error_class": None, "score": float(text == TRUTH), "extracted": text}
    by_judge = row | {"judge": JUDGE, "extracted": "seven" if text else None}
    return [row | {"judge": RULE}, by_judge]


def test_each_question_tells_how_many_samples_are_right_and_how_many_agree(ask: Ask) -> None:
    rows = {row["question_id"]: row for row in ask("from ensemble_questions")}

    assert {name: (row["n_samples"], row["n_correct"]) for name, row in rows.items()} == {
        name: (3, right) for name, (_, right) in RIGHT.items()
    }
    assert {name: (row["most_votes"], row["plurality_correct"]) for name, row in rows.items()} == {
        "all": (3, True),
        "most": (2, True),
        "one": (2, False),
        "tied": (1, True),  # of equals the first
        "none": (0, False),
        "failed": (1, False),
    }
    assert {row["judge"] for row in rows.values()} == {JUDGE}


def test_what_most_samples_say_is_right_as_often_as_the_strategy_plurality(ask: Ask) -> None:
    unlike = """
    select question_id from ensemble_questions join ensemble_verdicts using (run_id, benchmark, question_id)
    where strategy = 'plurality' and correct <> plurality_correct
    """
    assert ask(unlike) == []


def test_results_have_all_denominators_and_the_difference_to_single(ask: Ask) -> None:
    rows = {row["strategy"]: row for row in ask("from ensemble_results")}

    counts = {
        name: tuple(row[k] for k in ("n_planned", "n_scored", "n_failed", "n_undecided", "n_correct"))
        for name, row in rows.items()
    }
    assert counts == {
        "single": (6, 4, 1, 1, 3),
        "plurality": (6, 5, 0, 1, 3),
        "standard": (6, 6, 0, 0, 6),
        "samples": (18, 13, 1, 4, 7),
    }
    assert {row["n_excluded"] for row in rows.values()} == {0}
    assert rows["single"]["accuracy"] == pytest.approx(3 / 5)
    assert rows["single"]["accuracy_scored"] == rows["single"]["score_upper"] == pytest.approx(3 / 4)
    assert rows["samples"]["accuracy"] == pytest.approx(7 / 17)
    # The question to which the single answer failed is no gain.
    assert rows["standard"]["delta"] == pytest.approx(2 / 5)
    assert [rows["standard"][name] for name in ("n_against_single", "n_gained", "n_lost")] == [5, 2, 0]
    # Of a question in which a sample failed the others count.
    assert rows["standard"]["difference"] == pytest.approx((0 + 1 / 3 + 2 / 3 + 2 / 3 + 1 + 1) / 6)
    assert rows["standard"]["n_against_samples"] == 6
    assert rows["standard"]["score"] == rows["standard"]["accuracy"]
    assert [rows["plurality"][name] for name in ("n_gained", "n_lost")] == [1, 1]
    assert [rows["samples"][name] for name in ("n_gained", "n_lost")] == [None, None]


def test_results_have_the_calls_tokens_cost_and_time_of_each_strategy_alone(ask: Ask) -> None:
    rows = {row["strategy"]: row for row in ask("from ensemble_results")}
    names = ("calls", "prompt_tokens", "completion_tokens", "calls_without_cost", "seconds")

    assert [rows["single"][name] for name in names] == [6, 60, 6, 0, 3.0]
    assert [rows["samples"][name] for name in names] == [18, 180, 18, 0, 9.0]
    assert [rows["standard"][name] for name in names] == [6, 600, 30, 1, 12.0]
    assert [rows["plurality"][name] for name in names] == [0, 0, 0, 0, None]
    assert rows["samples"]["cost_usd"] == pytest.approx(0.18)
    assert rows["standard"]["cost_usd"] == pytest.approx(0.5)
    assert rows["plurality"]["cost_usd"] is None


def test_samples_that_agree_are_classed_by_their_largest_share(ask: Ask) -> None:
    rows = ask("select agreement, n_questions, n_correct, plurality_accuracy from ensemble_agreement order by 1")

    assert [tuple(row.values()) for row in rows] == [
        (0.0, 1, 0, 0.0),
        (0.4, 2, 1, 0.5),  # one of three
        (0.8, 2, 1, 0.5),  # two of three
        (1.0, 1, 1, 1.0),
    ]


def test_the_oracle_is_right_where_any_sample_is(ask: Ask) -> None:
    (row,) = ask("from ensemble_oracle")

    assert (row["n_questions"], row["n_samples"], row["n_any_correct"], row["n_all_correct"]) == (6, 3, 4, 1)
    assert row["oracle_accuracy"] == pytest.approx(4 / 6)
    assert row["unanimous_accuracy"] == pytest.approx(1 / 6)
    assert row["mean_sample_accuracy"] == pytest.approx(7 / 18)


def test_pairs_of_strategies_split_all_questions_in_four(ask: Ask) -> None:
    rows = {(row["a"], row["b"]): row for row in ask("from ensemble_complementarity where kind = 'strategy'")}

    assert set(rows) == {("plurality", "single"), ("plurality", "standard"), ("single", "standard")}
    names = ("n_both", "n_only_a", "n_only_b", "n_neither")
    assert [rows["plurality", "single"][name] for name in names] == [2, 1, 1, 2]
    assert [rows["single", "standard"][name] for name in names] == [3, 0, 3, 0]
    for row in rows.values():
        assert sum(row[name] for name in names) == row["n_questions"] == 6


def test_members_are_compared_by_the_first_sample_of_each_model(lake: Lake, ask: Ask) -> None:
    other = {"run_id": "m@@members", "model": "m", "run_tag": "members"}
    write(lake, run=other, models=("m", "x", "y", "x"))

    (row,) = ask("from ensemble_complementarity where kind = 'member' and run_tag = 'members'")
    assert (row["a"], row["b"]) == ("x", "y")  # samples 1 and 2; the single answer is no member
    assert [row[name] for name in ("n_both", "n_only_a", "n_only_b", "n_neither")] == [1, 2, 0, 3]
    assert ask("from ensemble_complementarity where kind = 'member' and run_tag = 't'") == []


def test_the_single_answer_is_one_of_the_shared_samples_where_it_is_the_first(lake: Lake, ask: Ask) -> None:
    first = {"run_id": "m@@first", "model": "m", "run_tag": "first"}
    write(lake, single="first", run=first)

    (oracle,) = ask("from ensemble_oracle where run_tag = 'first'")
    assert oracle["n_samples"] == 4
    used = {row["strategy"]: row["calls"] for row in ask("from ensemble_results where run_tag = 'first'")}
    assert (used["single"], used["samples"]) == (6, 24)


def test_runs_that_are_judged_on_a_scale_are_in_none_of_them(lake: Lake, ask: Ask) -> None:
    row = {"run_id": "s@@t", "model": "s", "run_tag": "t", "benchmark": "tengu", "question_id": "q"} | CREATED
    scored = row | {"sample_index": 0, "judge": "gpt", "status": "ok", "score": 1.0, "pipeline": "baseline"}
    lake.append("scores", pl.DataFrame([scored]))

    for view in ("verdicts", "questions", "results", "agreement", "oracle", "complementarity"):
        assert ask(f"from ensemble_{view} where model = 's'") == []
