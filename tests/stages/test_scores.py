import math
import random
import statistics
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl
import pytest

from shaberi_dagster.lake.catalog import connect, open_catalog, run_query
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import PassSpec, RunRequest, RunSpec
from shaberi_dagster.runs.stages.metrics import Metrics, set_status
from shaberi_dagster.runs.stages.scores import Scores
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.passes.registry import make_pipeline
from tests.example_runs import checks
from tests.sizes import size

pytestmark = pytest.mark.integration

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_URL = "http://127.0.0.1:9/v1"


def _spec(workspace: Workspace, *, samples: int = 1, **values: Any) -> RunSpec:
    """A stored run of `m` on elyza with judges j and k."""
    settings = {"model": "m", "base_url": _URL, "judge_models": ["j", "k"], "judge_base_url": _URL}
    spec = plan_run(RunRequest.model_validate(settings | {"benchmarks": ["elyza"]} | values), workspace)
    widened = {name: each.model_copy(update={"samples": samples}) for name, each in spec.benchmarks.items()}
    spec = spec.model_copy(update={"benchmarks": widened})
    store_run(spec, workspace)
    return spec


def _answer(spec: RunSpec, benchmark: str, question: int, sample: int = 0, **values: Any) -> dict[str, Any]:
    return {
        "run_id": spec.run_id,
        "model": spec.model,
        "run_tag": spec.run_tag,
        "benchmark": benchmark,
        "question_set": spec.benchmarks[benchmark].question_set,
        "question_id": f"q{question}",
        "sample_index": sample,
        "answer": "答え",
        "answer_hash": f"h{question}-{sample}",
        "status": "ok",
        "created_at": _NOW,
    } | values


def _judgement(answer: dict[str, Any], judge: str, given: float | None, **values: Any) -> dict[str, Any]:
    own = {name: answer[name] for name in answer if name not in {"answer", "status"}}
    status = {"status": "ok"} if given is not None else {"status": "error", "error_class": "no_score"}
    return own | {"judge": judge, "score": given, "superseded": False, "judge_config_hash": "c"} | status | values


def _store(workspace: Workspace, answers: list[dict[str, Any]], judgements: list[dict[str, Any]]) -> None:
    workspace.lake.append("answers", pl.DataFrame(answers, infer_schema_length=None))
    if judgements:
        workspace.lake.append("judgements", pl.DataFrame(judgements, infer_schema_length=None))


def _scored(workspace: Workspace, spec: RunSpec, given: dict[str, list[float | None]]) -> None:
    """Answers with these scores by each judge, rolled up."""
    names = list(spec.benchmarks)
    count = len(next(iter(given.values())))
    answers = [_answer(spec, name, question) for name in names for question in range(count)]
    judgements = [
        _judgement(answer, judge, given[judge][index % count])
        for judge in given
        for index, answer in enumerate(answers)
    ]
    _store(workspace, answers, judgements)
    Scores(RunPlan(spec, names, workspace)).materialize()
    Metrics(RunPlan(spec, names, workspace)).materialize()


def _random_rows(
    spec: RunSpec, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, dict[str, list[tuple[str, float | None]]]]]:
    """Answers, judgements, and what they mean: judge to question to (status, score) of each sample."""
    draw = random.Random(seed)
    settings = spec.benchmarks["elyza"]
    answers, judgements = [], []
    meaning: dict[str, dict[str, list[tuple[str, float | None]]]] = {"j": {}, "k": {}}
    faults = draw.choice([0.0, 0.3])
    for question in range(settings.n_questions):
        for sample in range(settings.samples):
            answer = _answer(spec, "elyza", question, sample)
            answers.append(answer)
            for judge, by_question in meaning.items():
                outcomes = by_question.setdefault(answer["question_id"], [])
                kind = draw.choice(["error", "excluded", "missing", "stale"]) if draw.random() < faults else "ok"
                given = draw.choice([1.0, 2.5, 3.0, 4.0, 5.0, 7.0])
                old = _judgement(answer, judge, 5.0, superseded=True, answer_hash="old")
                if draw.random() < 0.3:
                    judgements.append(old)
                if kind == "ok":
                    judgements.append(_judgement(answer, judge, given))
                elif kind == "error":
                    judgements.append(_judgement(answer, judge, None))
                elif kind == "excluded":
                    judgements.append(_judgement(answer, judge, None, status="excluded", error_class="empty_answer"))
                elif kind == "stale":
                    judgements.append(_judgement(answer, judge, given, answer_hash="another text"))
                outcomes.append((kind, given if kind == "ok" else None))
    return answers, judgements, meaning


def _expected(by_question: dict[str, list[tuple[str, float | None]]], policy: str) -> dict[str, Any]:
    """The metrics by plain Python, on the scale of 1 to 5 that is reported twice as large."""
    samples = [sample for each in by_question.values() for sample in each]
    scored = [given for _, given in samples if given is not None]
    counted = {
        question: [
            1.0 if given is None and policy == "zero" else given
            for _, given in each
            if given is not None or policy == "zero"
        ]
        for question, each in by_question.items()
    }
    values = [value for each in counted.values() for value in each]
    means = [statistics.mean(each) for each in counted.values() if each]
    refused = policy == "strict" and len(scored) < len(samples)
    excluded = sum(kind == "excluded" for kind, _ in samples)
    return {
        "score": None if refused or not values else 2 * statistics.mean(values),
        "sd_questions": None if refused or len(means) < 2 else 2 * statistics.stdev(means),
        "n_planned": len(samples),
        "n_scored": len(scored),
        "n_failed": len(samples) - len(scored) - excluded,
        "n_excluded": excluded,
        "n_out_of_scale": sum(given > 5 for given in scored),
    }


@pytest.mark.acceptance
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("seed", range(size(2, 6)))
def test_metrics_are_what_plain_arithmetic_gives(seed: int, samples: int, workspace: Workspace) -> None:
    spec = _spec(workspace, samples=samples)
    answers, judgements, meaning = _random_rows(spec, seed)
    _store(workspace, answers, judgements)
    Scores(RunPlan(spec, ["elyza"], workspace)).materialize()
    Metrics(RunPlan(spec, ["elyza"], workspace)).materialize()
    metrics = workspace.lake.read("metrics")
    assert metrics.height == 6
    for row in metrics.iter_rows(named=True):
        expected = _expected(meaning[row["judge"]], row["null_policy"])
        for name, value in expected.items():
            assert row[name] == (value if value is None else pytest.approx(value)), (row["null_policy"], name)
        assert (row["reported_multiplier"], row["pipeline"]) == (2.0, "baseline")


def test_scores_have_a_row_for_each_answer_and_judge_with_the_reason_for_a_missing_score(workspace: Workspace) -> None:
    spec = _spec(workspace)
    answers = [_answer(spec, "elyza", question) for question in range(5)]
    answers[4] |= {"status": "error", "error_class": "permanent", "answer": None, "answer_hash": None}
    judgements = [
        _judgement(answers[0], "j", 4.0),
        _judgement(answers[0], "j", 1.0, superseded=True),
        _judgement(answers[1], "j", None),
        _judgement(answers[2], "j", None, status="excluded", error_class="empty_answer"),
        _judgement(answers[3], "j", 4.0, answer_hash="another text"),
        _judgement(answers[4], "j", None, status="skipped", error_class="no_answer"),
        _judgement(answers[0], "a judge of another time", 4.0),
    ]
    _store(workspace, answers, judgements)
    outcome = Scores(RunPlan(spec, ["elyza"], workspace)).materialize()[0]
    rows = workspace.lake.read("scores")
    own = rows.filter(judge="j").sort("question_id").select("status", "error_class", "baseline_score", "score").rows()
    assert own == [
        ("ok", None, 4.0, 4.0),
        ("error", "no_score", None, None),
        ("excluded", "empty_answer", None, None),
        ("skipped", "not_judged", None, None),
        ("skipped", "no_answer", None, None),
    ]
    assert rows.filter(judge="k").select("status", "error_class").unique().rows() == [("skipped", "not_judged")]
    assert rows.height == 10
    assert checks(outcome) == {"complete": True}
    assert outcome.facts["scored"] == 1


def test_scores_and_metrics_of_other_runs_stay_as_they_are(workspace: Workspace) -> None:
    first = _spec(workspace, tag="a")
    _scored(workspace, first, {"j": [3.0] * 5, "k": [3.0] * 5})
    before = workspace.lake.read("metrics").sort("judge", "null_policy")
    _scored(workspace, _spec(workspace, tag="b"), {"j": [5.0] * 5, "k": [5.0] * 5})
    after = workspace.lake.read("metrics", {"run_id": first.run_id}).sort("judge", "null_policy")
    assert after.equals(before)
    assert workspace.lake.read("metrics").height == 12
    Metrics(RunPlan(first, ["elyza"], workspace)).materialize()
    assert workspace.lake.read("metrics").height == 12, "measuring again replaces"


def test_stale_and_orphaned_judgements_are_listed_and_others_not(workspace: Workspace) -> None:
    spec = _spec(workspace)
    answers = [_answer(spec, "elyza", question) for question in range(3)]
    gone = _answer(spec, "elyza", 9)
    judgements = [
        _judgement(answers[0], "j", 1.0),
        _judgement(answers[1], "j", 2.0, answer_hash="another text"),
        _judgement(answers[2], "j", 2.0, answer_hash="another text", superseded=True),
        _judgement(gone, "j", 3.0),
        _judgement(gone, "k", 3.0, superseded=True),
    ]
    _store(workspace, answers, judgements)
    with connect(workspace.lake) as connection:
        stale = connection.execute("select question_id, judge, current_answer_hash from stale").fetchall()
        orphans = connection.execute("select question_id, judge from orphan").fetchall()
    assert stale == [("q1", "j", "h1-0")]
    assert orphans == [("q9", "j")]


def _run_row(workspace: Workspace) -> dict[str, Any]:
    return workspace.lake.read("runs").row(0, named=True)


def test_a_run_is_complete_only_when_every_judge_scored_every_benchmark(workspace: Workspace) -> None:
    spec = _spec(workspace, benchmarks=["elyza", "rakuda"])
    assert _run_row(workspace)["status"] == "running"
    assert set_status(spec, workspace) == "partial"
    elyza = spec.model_copy(update={"benchmarks": {"elyza": spec.benchmarks["elyza"]}})
    _scored(workspace, elyza, {"j": [3.0] * 5, "k": [3.0] * 5})
    assert set_status(spec, workspace) == "partial"
    row = _run_row(workspace)
    assert orjson.loads(row["status_by_benchmark"]) == {"elyza": "complete", "rakuda": "partial"}
    assert row["finished_at"] is None
    assert set_status(spec, workspace, error="the endpoint is gone") == "error"
    assert orjson.loads(_run_row(workspace)["status_by_benchmark"]) == {
        "elyza": "complete",
        "rakuda": "error: the endpoint is gone",
    }
    rakuda = spec.model_copy(update={"benchmarks": {"rakuda": spec.benchmarks["rakuda"]}})
    _scored(workspace, rakuda, {"j": [3.0] * 5, "k": [3.0] * 4 + [None]})
    assert set_status(spec, workspace) == "partial"


def test_a_complete_run_stays_complete_and_keeps_the_time_of_its_end(workspace: Workspace) -> None:
    spec = _spec(workspace)
    _scored(workspace, spec, {"j": [3.0] * 5, "k": [3.0] * 5})
    row = _run_row(workspace)
    assert (row["status"], row["spec_hash"]) == ("complete", spec.spec_hash)
    assert row["finished_at"] is not None
    assert set_status(spec, workspace, error="too late") == "complete"
    assert _run_row(workspace) == row
    assert set_status(spec, workspace, changed=True) == "complete"
    again = _run_row(workspace)
    assert again["finished_at"] == row["finished_at"]
    assert again["updated_at"] > row["updated_at"]
    ((name, settings),) = spec.benchmarks.items()
    wider = {name: settings.model_copy(update={"judges": (*settings.judges, "l")})}
    assert set_status(spec.model_copy(update={"benchmarks": wider}), workspace) == "partial"
    assert _run_row(workspace)["finished_at"] is None


def test_scoring_again_writes_nothing_until_a_judgement_is_another(workspace: Workspace) -> None:
    spec = _spec(workspace, benchmarks=["elyza", "rakuda"])
    _scored(workspace, spec, {"j": [3.0] * 5, "k": [3.0] * 5})
    before = workspace.lake.versions()
    outcomes = [
        Scores(RunPlan(spec, ["elyza", "rakuda"], workspace)).materialize(),
        Metrics(RunPlan(spec, ["elyza", "rakuda"], workspace)).materialize(),
    ]
    assert workspace.lake.versions() == before
    assert [outcome.facts["rows"] for made in outcomes for outcome in made] == [10, 10, 6, 6]

    judgements = workspace.lake.read("judgements").with_columns(score=pl.lit(4.0))
    workspace.lake.replace("judgements", judgements, {"run_id": spec.run_id})
    Scores(RunPlan(spec, ["elyza"], workspace)).materialize()
    Metrics(RunPlan(spec, ["elyza"], workspace)).materialize()
    changed = workspace.lake.versions()
    assert {name for name in before if changed[name] > before[name]} == {"judgements", "scores", "metrics", "runs"}
    metrics = workspace.lake.read("metrics", {"null_policy": "legacy"})
    assert dict(metrics.select("benchmark", "score").unique().iter_rows()) == {"elyza": 8.0, "rakuda": 3.0}
    with open_catalog(workspace.settings.warehouse) as catalog:
        assert run_query(catalog, "select distinct score from scores where benchmark = 'elyza'").fetchall() == [(4.0,)]


def test_an_excluded_answer_does_not_keep_a_run_from_being_complete(workspace: Workspace) -> None:
    spec = _spec(workspace, judge_models=["j"])
    answers = [_answer(spec, "elyza", question) for question in range(5)]
    judgements = [_judgement(answer, "j", 3.0) for answer in answers[:4]]
    judgements.append(_judgement(answers[4], "j", None, status="excluded", error_class="empty_answer"))
    _store(workspace, answers, judgements)
    Scores(RunPlan(spec, ["elyza"], workspace)).materialize()
    outcome = Metrics(RunPlan(spec, ["elyza"], workspace)).materialize()[0]
    assert _run_row(workspace)["status"] == "complete"
    assert checks(outcome) == {"all_scored": True}
    assert (outcome.facts["n_excluded"], outcome.facts["n_failed"], outcome.facts["scores"]) == (1, 0, {"j": 6.0})


def _metric(tag: str, benchmark: str, value: float | None, **values: Any) -> dict[str, Any]:
    base, _, number = tag.partition("-run")
    return {
        "run_id": f"m@@{tag}",
        "model": "m",
        "run_tag": tag,
        "base_tag": base,
        "run_number": int(number) if number else None,
        "benchmark": benchmark,
        "question_set": f"{benchmark}@5",
        "judge": "j",
        "pipeline": "baseline",
        "null_policy": "legacy",
        "score": value,
        "n_planned": 5,
        "n_scored": 5,
        "n_failed": 0,
        "n_excluded": 0,
        "created_at": _NOW,
    } | values


def _statistics(workspace: Workspace, metrics: list[dict[str, Any]], source: str = "run_statistics") -> dict[str, Any]:
    workspace.lake.append("metrics", pl.DataFrame(metrics, infer_schema_length=None))
    with connect(workspace.lake) as connection:
        rows = connection.sql(
            f"select benchmark, n_runs, mean, sd, minimum, maximum, values_by_run from {source} where base_tag = 't'"
        ).fetchall()
    assert len({row[0] for row in rows}) == len(rows), "one row for each benchmark"
    return {row[0]: row[1:] for row in rows}


_TENGU, _RAKUDA = [6.0, 7.5, 6.25], [8.0, 8.5, 9.0]


def _three_runs() -> list[dict[str, Any]]:
    return [
        _metric(f"t-run{number}", name, values[number - 1])
        for number in (3, 1, 2)
        for name, values in (("tengu", _TENGU), ("rakuda", _RAKUDA))
    ]


def test_statistics_of_a_multi_run_are_those_of_a_sample(workspace: Workspace) -> None:
    found = _statistics(workspace, _three_runs())
    overall = [statistics.mean(pair) for pair in zip(_TENGU, _RAKUDA, strict=True)]
    for name, values in {"tengu": _TENGU, "rakuda": _RAKUDA, "overall": overall}.items():
        count, mean, sd, low, high, by_run = found[name]
        assert (count, low, high, by_run) == (3, min(values), max(values), values)
        assert math.isclose(mean, statistics.mean(values))
        assert math.isclose(sd, statistics.stdev(values))


def test_there_is_no_overall_when_a_run_lacks_a_benchmark(workspace: Workspace) -> None:
    found = _statistics(workspace, _three_runs()[:-1])
    assert set(found) == {"tengu", "rakuda"}
    assert found["rakuda"][0] == 2


def test_there_is_no_overall_when_the_runs_answered_other_questions(workspace: Workspace) -> None:
    rows = _three_runs()
    rows[0]["question_set"] = "tengu@120"
    workspace.lake.append("metrics", pl.DataFrame(rows, infer_schema_length=None))
    with connect(workspace.lake) as connection:
        found = connection.sql("select benchmark, question_set, n_runs from run_statistics order by all").fetchall()
    assert found == [("rakuda", "rakuda@5", 3), ("tengu", "tengu@120", 1), ("tengu", "tengu@5", 2)]


def test_a_refused_mean_is_no_value(workspace: Workspace) -> None:
    rows = [_metric("t-run1", "tengu", 6.0), _metric("t-run2", "tengu", None), _metric("t-run3", "tengu", 8.0)]
    assert _statistics(workspace, rows)["tengu"] == (2, 7.0, pytest.approx(math.sqrt(2)), 6.0, 8.0, [6.0, 8.0])


def test_a_single_run_is_no_part_of_the_multi_run_of_the_same_tag(workspace: Workspace) -> None:
    found = _statistics(workspace, [*_three_runs(), _metric("t", "tengu", 1.0), _metric("t", "rakuda", 1.0)])
    assert (found["tengu"][0], found["tengu"][-1], found["overall"][0]) == (3, _TENGU, 3)


def test_judges_and_policies_are_never_mixed(workspace: Workspace) -> None:
    rows = [
        _metric("t-run1", "tengu", value, judge=judge, null_policy=policy)
        for judge, policy, value in [("j", "legacy", 5.0), ("j", "zero", 4.0), ("k", "legacy", 3.0)]
    ]
    workspace.lake.append("metrics", pl.DataFrame(rows, infer_schema_length=None))
    with connect(workspace.lake) as connection:
        found = connection.sql(
            "select judge, null_policy, n_runs, mean from run_statistics where benchmark = 'overall'"
        )
        assert sorted(found.fetchall()) == [("j", "legacy", 1, 5.0), ("j", "zero", 1, 4.0), ("k", "legacy", 1, 3.0)]


def _with_passes(spec: RunSpec, workspace: Workspace, findings: list[dict[str, Any]]) -> RunSpec:
    """The run with the pipeline repetition, and what that pass found."""
    (one,) = make_pipeline(["repetition"])
    rows = [
        {
            "sample_index": 0,
            "pass": one.name,
            "pass_version": one.version,
            "pass_config": one.config.model_dump_json(),
            "pass_config_hash": one.config_hash,
            "status": "ok",
            "reason": "",
            "created_at": _NOW,
        }
        | finding
        for finding in findings
    ]
    workspace.lake.append("pass_outputs", pl.DataFrame(rows, infer_schema_length=None))
    wider = spec.model_copy(update={"passes": ((PassSpec(name=one.name, config=one.config.model_dump(mode="json")),),)})
    store_run(wider, workspace)
    return wider


def test_a_score_without_a_finding_of_its_text_is_a_failure_under_the_pipeline_only(workspace: Workspace) -> None:
    spec = _spec(workspace, judge_models=["j"])
    answers = [_answer(spec, "elyza", question) for question in range(4)]
    _store(workspace, answers, [_judgement(answer, "j", 5.0) for answer in answers])
    common = ("run_id", "model", "run_tag", "benchmark", "question_set", "question_id", "answer_hash")
    of = [{name: answer[name] for name in common} for answer in answers]
    spec = _with_passes(
        spec,
        workspace,
        [
            of[0] | {"severity": 0.5, "reason": "said twice"},
            of[1] | {"severity": 0.0},
            of[2] | {"severity": 0.5, "answer_hash": "of another text"},
            of[3] | {"status": "error", "error_class": "transient"},
        ],
    )
    Scores(RunPlan(spec, ["elyza"], workspace)).materialize()
    (outcome,) = Metrics(RunPlan(spec, ["elyza"], workspace)).materialize()
    rows = workspace.lake.read("scores").sort("pipeline", "question_id")
    assert rows.select("pipeline", "status", "error_class", "baseline_score", "score").rows() == [
        *[("baseline", "ok", None, 5.0, 5.0)] * 4,
        ("repetition", "ok", None, 5.0, 3.0),
        ("repetition", "ok", None, 5.0, 5.0),
        ("repetition", "error", "pass_failed", 5.0, None),
        ("repetition", "error", "pass_failed", 5.0, None),
    ]
    metrics = workspace.lake.read("metrics").filter(null_policy="legacy").sort("pipeline")
    assert metrics.select("pipeline", "score", "n_planned", "n_scored", "n_failed").rows() == [
        ("baseline", 10.0, 5, 4, 1),
        ("repetition", 8.0, 5, 2, 3),
    ]
    # The outcome, like the run's state, is that of the scores without passes.
    assert outcome.facts["n_failed"] == 1
