import io
import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy import stats

from shaberi_dagster.cli.view_scores import show_scores
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.compaction import compact_lake
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.ranking import lines_at, remarks_on
from shaberi_dagster.reports.requests import POLICIES as POLICY_MEANINGS
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.score_page import ScoreDocument, failure, own_table
from shaberi_dagster.reports.scores import ScoreReport, read_scores
from shaberi_dagster.reports.write import write
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.statistics.intervals import clustered_mean_interval, mean_interval, mean_of_estimates
from shaberi_dagster.statistics.ties import compare_pairs
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import lake_of
from tests.exchange.trees.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

POLICIES = tuple(POLICY_MEANINGS)
NOW = datetime(2026, 7, 1, tzinfo=UTC)


def metric(model="m", run_tag="t", base_tag=None, run_number=None, **values):
    """One row of metrics."""
    defaults = {
        "run_id": f"{model}@@{run_tag}",
        "model": model,
        "run_tag": run_tag,
        "base_tag": base_tag or run_tag,
        "run_number": run_number,
        "benchmark": "tengu",
        "question_set": "tengu@5",
        "judge": "a",
        "pipeline": "baseline",
        "null_policy": "legacy",
        "score": 5.0,
        "sd_questions": 1.0,
        "n_planned": 5,
        "n_scored": 5,
        "n_failed": 0,
        "n_excluded": 0,
        "reported_multiplier": 1.0,
        "created_at": NOW,
    }
    return defaults | values


def numbered(number, score, **values):
    return metric(run_tag=f"t-run{number}", base_tag="t", run_number=number, score=score, **values)


def call(run_id="m@@t", **values):
    defaults = {
        "request_hash": "h",
        "run_id": run_id,
        "stage": "answers",
        "purpose": "answer",
        "model": "m",
        "base_url": "http://localhost/v1",
        "status": "ok",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "cost_usd": 0.5,
        "created_at": NOW,
    }
    return defaults | values


def scored(scores, model="m", run_tag="t", *, benchmark="tengu", judge="a", **values):
    """The scores (None: missing) of the questions of one run; a list is of several samples of a question."""
    own = {"run_id": f"{model}@@{run_tag}", "model": model, "run_tag": run_tag, "created_at": NOW}
    own |= {"benchmark": benchmark, "question_set": f"{benchmark}@5", "judge": judge, "pipeline": "baseline"}
    return [
        own | {"question_id": f"q{number}", "sample_index": index, "answer_hash": f"{model}{run_tag}{number}{index}"}
        | {"score": score, "status": "error" if score is None else "ok"} | values
        for number, samples in enumerate(scores)
        for index, score in enumerate(samples if isinstance(samples, list) else [samples])
    ]  # fmt: skip


def stored(model="m", run_tag="t", base_tag=None, run_number=None, spec=None, **values):
    """One row of runs."""
    names = {"run_id": f"{model}@@{run_tag}", "model": model, "run_tag": run_tag, "base_tag": base_tag or run_tag}
    state = {"spec": json.dumps(spec or {}), "spec_hash": "", "status": "complete", "run_number": run_number}
    return names | state | {"created_at": NOW, "updated_at": NOW} | values


@pytest.fixture
def read(views):
    """Reads a selection from the views over these metrics and calls, rows of other tables, and what was there before."""

    def made(metrics, calls=(), tables=None, top=0, **selection) -> ScoreReport:
        of_runs = ("model", "run_tag", "base_tag", "run_number")
        runs = {row["run_id"]: stored(*(row[name] for name in of_runs)) for row in metrics}
        rows = {"metrics": metrics, "calls": calls, "runs": list(runs.values())} | (tables or {})
        for table, own in rows.items():
            if own:
                views.add(table, own)
        views.fill_metrics()
        return read_scores(views.catalog, ScoreSelection(**selection), top=top)

    return made


def test_the_strict_policy_shows_a_refused_score_with_its_denominators(read):
    refused = metric(null_policy="strict", score=None, sd_questions=None, n_scored=3, n_failed=1, n_excluded=1)

    (row,) = read([refused], null_policy="strict").rows

    assert (row["score"], row["n_planned"], row["n_scored"], row["n_failed"], row["n_excluded"]) == (None, 5, 3, 1, 1)


def test_models_tags_judges_and_pipelines_select(read):
    rows = [metric(), metric(model="n"), metric(run_tag="u"), metric(judge="b"), metric(pipeline="repetition")]
    assert len(read(rows).rows) == 4
    assert [row["model"] for row in read([], models=["n"]).rows] == ["n"]
    assert [row["run_tag"] for row in read([], tags=["u"]).rows] == ["u"]
    assert [row["judge"] for row in read([], judges=["b"]).rows] == ["b"]
    assert [row["pipeline"] for row in read([], pipeline="repetition").rows] == ["repetition"]
    assert len(read([], tags=["t", "u"], models=["m"]).rows) == 3


def test_a_base_tag_selects_all_its_runs_with_their_statistics(read):
    report = read([numbered(number, score) for number, score in ((1, 4.0), (2, 6.0), (10, 8.0))], tags=["t"])

    assert sorted(row["run_tag"] for row in report.rows) == ["t-run1", "t-run10", "t-run2"]
    by_benchmark = {row["benchmark"]: row for row in report.statistics}
    assert by_benchmark["tengu"]["values"] == [4.0, 6.0, 8.0]
    assert (by_benchmark["tengu"]["mean"], by_benchmark["tengu"]["sd"]) == (6.0, 2.0)
    assert by_benchmark["tengu"]["margin_of_error"] == pytest.approx(stats.t.ppf(0.975, 2) * 2.0 / math.sqrt(3))
    assert (by_benchmark["tengu"]["minimum"], by_benchmark["tengu"]["maximum"]) == (4.0, 8.0)


def test_the_first_runs_are_the_first_by_number(read):
    rows = [numbered(number, float(number)) for number in range(1, 12)]

    report = read(rows, tags=["t"], runs=2)

    assert sorted(row["run_tag"] for row in report.rows) == ["t-run1", "t-run2"]
    assert {row["benchmark"]: row["values"] for row in report.statistics}["tengu"] == [1.0, 2.0]


def test_tokens_are_those_of_the_shown_runs_by_stage_and_benchmark_and_unknown_ones_are_counted(read):
    unknown = {"prompt_tokens": None, "completion_tokens": None, "cost_usd": None}
    calls = [
        call(benchmark="tengu", cached_tokens=4),
        call(benchmark="tengu", model="another", price_source="prices.yaml 12", created_at=NOW + timedelta(days=1)),
        call(benchmark="elyza", price_source="genai-prices 0.2.3"),
        call(stage="judgements"),
        call(stage="judgements", **unknown),
        call(stage="judgements", status="error", **unknown),
        call(run_id="n@@t"),
    ]
    elyza, tengu, judgements = read([metric(), metric(model="n")], calls, models=["m"]).tokens

    assert (tengu["stage"], tengu["benchmark"], tengu["calls"]) == ("answers", "tengu", 2)
    assert (tengu["prompt_tokens"], tengu["completion_tokens"], tengu["cached_tokens"], tengu["cost_usd"]) == (
        20,
        4,
        4,
        1.0,
    )
    assert tengu["price_sources"] == ["genai-prices", "prices.yaml 12"]
    assert (tengu["first_day"], tengu["last_day"]) == (f"{NOW:%Y-%m-%d}", f"{NOW + timedelta(days=1):%Y-%m-%d}")
    assert (elyza["benchmark"], elyza["price_sources"], elyza["calls_without_price"]) == (
        "elyza",
        ["genai-prices 0.2.3"],
        0,
    )
    assert (judgements["benchmark"], judgements["calls"], judgements["prompt_tokens"], judgements["cost_usd"]) == (
        "",
        3,
        10,
        0.5,
    )
    assert (judgements["calls_without_usage"], judgements["calls_without_price"]) == (1, 1)


def test_what_is_selected_but_not_there_is_refused(read):
    with pytest.raises(ConfigurationError, match="no tag 'nonsense'; the lake has"):
        read([metric()], tags=["nonsense"])


@pytest.mark.parametrize(
    ("pipeline", "told"),
    [
        ("lang_mixin", r"unknown pass 'lang_mixin'; did you mean lang_mixing\?$"),
        ("repetition", "no run has scores under the passes repetition: run `shaberi reprocess"),
    ],
)
def test_passes_without_scores_are_told_from_names_that_are_no_passes(read, pipeline, told):
    with pytest.raises(ConfigurationError, match=told):
        read([metric()], pipeline=pipeline)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Two models' question sets, of which `long` has what `short` has; one of the scores is an object."""
    folder = tmp_path_factory.mktemp("imported")
    tree = LegacyTree(folder / "tree")
    tree.judgements("tengu", rows_of("tengu", ["a", "b", "c"], [9, {"score": 3}, 1]), "a", model="long")
    tree.judgements("tengu", rows_of("tengu", ["a", "b"], [8, 6]), "a", model="short")
    tree.judgements("rakuda", rows_of("rakuda", ["a"], [5]), "a", model="long")
    own = Workspace(Settings.from_environment(lake_of(folder)), environment={})
    import_trees(ImportRequest({"tree": tree.root}), own)
    with open_catalog(own.settings.warehouse) as catalog:
        yield catalog


@pytest.fixture
def shown(imported):
    """Reads a selection of what was imported; of each model and benchmark there is one row."""

    def read(**selection):
        report = read_scores(imported, ScoreSelection(**selection))
        return report, {(row["model"], row["benchmark"]): row for row in report.rows}

    return read


@pytest.fixture
def sets(imported):
    """Of each model the name of its question set of tengu."""
    rows = imported.execute("select distinct model, question_set from metrics where benchmark = 'tengu'").fetchall()
    return dict(rows)


def test_scores_over_a_question_set_are_of_its_questions_and_of_runs_that_were_asked_all(shown, sets):
    report, rows = shown(question_sets=[sets["short"]])
    long = rows["long", "tengu"]
    assert (long["score"], long["n_planned"], long["n_scored"], long["question_set"]) == (9.0, 2, 1, sets["short"])
    assert rows["short", "tengu"]["score"] == 7.0
    assert rows["long", "rakuda"]["score"] == 5.0
    assert "only these questions, and runs that were asked all" in report.remarks[0]

    _, rows = shown(question_sets=[sets["long"]])
    assert set(rows) == {("long", "tengu"), ("long", "rakuda")}


def test_objects_in_place_of_scores_can_count_as_the_number_inside(shown):
    assert shown()[1]["long", "tengu"]["score"] == 5.0
    report, rows = shown(object_scores="recovered")
    assert (rows["long", "tengu"]["score"], rows["long", "tengu"]["n_failed"]) == (pytest.approx(13 / 3), 0)
    assert report.remarks == ["Objects in place of scores count as the number inside of them."]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_null_policies_hold_over_other_question_sets(shown, sets, policy):
    _, rows = shown(question_sets=[sets["short"]], null_policy=policy)
    assert rows["long", "tengu"]["score"] == {"legacy": 9.0, "zero": 4.5, "strict": None}[policy]
    assert rows["short", "tengu"]["score"] == 7.0


def test_a_question_set_that_the_lake_has_not_is_refused_with_those_that_are_alike(shown):
    with pytest.raises(ConfigurationError, match=r"^--question-set: no question set 'tengu@7'; did you mean tengu@"):
        shown(question_sets=["tengu@7"])


def test_imported_runs_have_no_tokens_and_are_shown(shown):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    report, _ = shown()
    assert report.tokens == []
    write(ScoreDocument(report), "table", console)
    assert "unknown" not in console.file.getvalue()


def test_statistics_over_runs_are_refused_with_other_question_sets(shown, sets):
    with pytest.raises(ConfigurationError, match="--runs is over the runs' own question sets"):
        shown(question_sets=[sets["short"]], runs=2)


def test_scores_as_of_a_time_are_those_that_were_shown_then(settings, capsys):
    lake = Lake(settings.warehouse)
    lake.replace("metrics", pl.DataFrame([metric(score=1.0)], infer_schema_length=None), {"run_id": "m@@t"})
    before = datetime.now(UTC)
    lake.replace("metrics", pl.DataFrame([metric(score=2.0)], infer_schema_length=None), {"run_id": "m@@t"})
    for as_of, score in ((before, 1.0), (None, 2.0)):
        show_scores(settings.warehouse, ScoreSelection(as_of=as_of), "json")
        document = json.loads(capsys.readouterr().out)
        assert document["rows"][0]["score"] == score
        assert document["remarks"] == ([f"As of {before.isoformat()}."] if as_of else [])


def test_a_time_whose_files_are_gone_is_refused(settings):
    lake = Lake(settings.warehouse)
    lake.replace("metrics", pl.DataFrame([metric()], infer_schema_length=None), {"run_id": "m@@t"})
    before = datetime.now(UTC)
    lake.replace("metrics", pl.DataFrame([metric(score=2.0)], infer_schema_length=None), {"run_id": "m@@t"})
    compact_lake(lake, retention_hours=0)
    with pytest.raises(ConfigurationError, match="is not kept any more"):
        show_scores(settings.warehouse, ScoreSelection(as_of=before), "json")


@pytest.mark.parametrize(
    ("selection", "output_format", "expected"),
    [
        (ScoreSelection(object_scores="all"), "table", "--object-scores must be one of"),
        (ScoreSelection(null_policy="kind"), "table", "--null-policy must be one of"),
        (ScoreSelection(), "xml", "--format must be"),
    ],
)
def test_a_wrong_word_is_refused_before_the_lake_is_opened(selection, output_format, expected, tmp_path):
    with pytest.raises(ConfigurationError, match=expected):
        show_scores(tmp_path / "nowhere", selection, output_format)


def test_strategies_of_an_ensemble_are_not_shown(read):
    (row,) = read([metric(), metric(strategy="majority", score=9.0)]).rows

    assert row["score"] == 5.0


@pytest.mark.parametrize("benchmark", ["tengu", "elyza"])
def test_the_interval_over_questions_is_that_of_the_reported_scale(benchmark, read):
    scores = [5.0, 4.0, 5.0, 3.0, 5.0]
    factor, bounds = (2, (2, 10)) if benchmark == "elyza" else (1, (0, 10))
    scale = {"reported_multiplier": float(factor), "benchmark": benchmark, "question_set": f"{benchmark}@5"}
    report = read(
        [metric(score=4.4 * factor, **scale)], tables={"scores": scored([*scores, None], benchmark=benchmark)}
    )

    (row,) = report.rows
    expected = mean_interval([score * factor for score in scores], bounds)
    error = pytest.approx(expected.standard_error)
    assert row["estimate"] == replace(expected, standard_error=error)
    assert row["estimate"].value == pytest.approx(row["score"])
    assert report.means[0]["mean"] == pytest.approx(row["score"])


def test_samples_of_a_question_are_no_independent_evidence(read):
    report = read([metric(score=5.0, n_planned=6)], tables={"scores": scored([[2.0, 3.0], [8.0, 7.0], [5.0, 5.0]])})

    assert report.rows[0]["estimate"] == clustered_mean_interval([2, 3, 8, 7, 5, 5], [0, 0, 1, 1, 2, 2], (0, 10))


def test_under_zero_every_missing_sample_counts_in_the_interval(read):
    own = metric(null_policy="zero", score=2.0, n_planned=5, n_scored=2, n_failed=3)
    report = read([own], tables={"scores": scored([4.0, 6.0, None])}, null_policy="zero")

    assert report.rows[0]["estimate"] == mean_interval([4.0, 6.0, 0.0, 0.0, 0.0], (0, 10))


def test_over_a_question_set_the_interval_is_of_its_questions(shown, sets):
    _, rows = shown(question_sets=[sets["short"]])

    assert rows["short", "tengu"]["estimate"] == mean_interval([8.0, 6.0], (0, 10))
    assert rows["long", "tengu"]["estimate"] is None  # one score


def test_statistics_over_runs_have_the_interval_of_all_their_samples(read):
    runs = {1: [4.0, 6.0, 5.0], 2: [6.0, 8.0, 4.0]}
    metrics = [numbered(number, sum(scores) / 3) for number, scores in runs.items()]
    rows = [row for number, scores in runs.items() for row in scored(scores, run_tag=f"t-run{number}")]

    report = read(metrics, tables={"scores": rows}, tags=["t"])

    expected = clustered_mean_interval([*runs[1], *runs[2]], [0, 1, 2, 0, 1, 2], (0, 10))
    by_benchmark = {row["benchmark"]: row for row in report.statistics}
    assert by_benchmark["tengu"]["ci_questions_lower"] == pytest.approx(expected.interval.lower)
    assert by_benchmark["tengu"]["mean"] == pytest.approx(expected.value)
    overall = mean_of_estimates([expected])
    assert by_benchmark["overall"]["ci_questions_upper"] == pytest.approx(overall.interval.upper)


def spec(temperature=0.2, limit=None, **settings):
    own = {"question_set": "tengu@5", "n_questions": 5, "temperature": temperature} | settings
    return {"benchmarks": {"tengu": own | {"limit": limit}}}


def judged(run_tag, **values):
    (row,) = scored([5.0], run_tag=run_tag, superseded=False, judge_config_hash="c", **values)
    return [without(row, "pipeline")]


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize(
    ("tables", "metrics", "named"),
    [
        ({"spec": spec(0.7)}, {}, "tengu: temperature of answers: 0.2 (t-run1), 0.7 (t-run2)"),
        ({"spec": spec(limit=3)}, {}, "tengu: number of questions: 5 (t-run1), 3 (t-run2)"),
        (
            {"spec": spec(question_set="tengu@6")},
            {"question_set": "tengu@6"},
            "tengu: question set: tengu@5 (t-run1), tengu@6 (t-run2)",
        ),
        ({"judge_prompt_hash": "q"}, {"judge_prompt_hash": "q"}, "tengu: prompts of judge a: p (t-run1), q (t-run2)"),
        ({"judge_config_hash": "d"}, {}, "tengu: settings of judge a: c (t-run1), d (t-run2)"),
        ({}, {"pipeline_hash": "h"}, "tengu: settings of the passes baseline: not recorded (t-run1), h (t-run2)"),
    ],
)
def test_runs_that_are_not_alike_are_put_into_no_aggregate(tables, metrics, named, read):
    judging = {name: value for name, value in tables.items() if name != "spec"}
    rows = [
        numbered(1, 4.0, judge_prompt_hash="p", judge_config_hash="c"),
        numbered(2, 6.0, **{"judge_prompt_hash": "p", "judge_config_hash": "c"} | metrics),
    ]
    stored_rows = {
        "runs": [
            stored(run_tag="t-run1", base_tag="t", run_number=1, spec=spec()),
            stored(run_tag="t-run2", base_tag="t", run_number=2, spec=tables.get("spec", spec())),
        ],
        "judgements": [
            *judged("t-run1", judge_prompt_hash="p"),
            *(row | judging for row in judged("t-run2", judge_prompt_hash="p")),
        ],
    }
    report = read(rows, tables=stored_rows, tags=["t"])

    assert report.statistics == []
    assert f"No statistics over the runs of m t, which differ: {named}." in report.remarks
    assert len(report.rows) == 2
    with pytest.raises(ConfigurationError, match="the runs of m t cannot be put into one aggregate: tengu") as refused:
        read([], tags=["t"], runs=2, aggregate=True)
    assert named in str(refused.value)


def test_runs_that_are_alike_are_put_into_an_aggregate(read):
    rows = {"runs": [stored(run_tag=f"t-run{n}", base_tag="t", run_number=n, spec=spec()) for n in (1, 2)]}
    rows["judgements"] = [row for n in (1, 2) for row in judged(f"t-run{n}", judge_prompt_hash="p")]

    report = read([numbered(1, 4.0), numbered(2, 6.0)], tables=rows, runs=2, aggregate=True)

    assert [row["mean"] for row in report.statistics] == [5.0, 5.0]


def models_judged(scores, judges="a", **values):
    """Metrics and scores of models that several judges scored; each judge gives one point more than the one before."""
    metrics, rows = [], []
    for model, own in scores.items():
        for more, judge in enumerate(judges):
            given = [score + more for score in own]
            metrics.append(metric(model, score=sum(given) / len(given), judge=judge, n_planned=len(own), **values))
            rows += scored(given, model, judge=judge, judge_prompt_hash=values.get("judge_prompt_hash"))
    return metrics, rows


def test_runs_that_cannot_be_told_from_the_best_are_marked(read):
    random = np.random.default_rng(1)
    best = (random.integers(4, 9, 40) + 1.0).tolist()
    close = [max(score + random.integers(-1, 2), 0) for score in best]
    metrics, rows = models_judged({"best": best, "close": close, "far": [score / 2 for score in best]})

    report = read(metrics, tables={"scores": rows})

    (ranking,) = report.rankings
    found = {line["model"]: line for line in ranking["standings"]}
    assert {model: tie["against_best"] for model, tie in found.items()} == {
        "best": "best",
        "close": "tied",
        "far": "below",
    }
    assert {(tie["n_compared_runs"], tie["n_common_questions"]) for tie in found.values()} == {(3, 40)}
    scores = np.array([best, close, [score / 2 for score in best]])
    expected = compare_pairs(scores[:, :, None], ["tengu"] * 40)
    assert found["far"]["p_value"] == pytest.approx(expected.adjusted_p_values[0, 2])


def test_a_judge_that_is_missing_on_one_side_makes_no_difference_between_equal_models(read):
    given = [float(5 + place % 5) for place in range(60)]
    metrics, rows = [], []
    for model, lost in (("complete", []), ("lacking", range(0, 60, 10))):
        harsh = [None if place in lost else score - 3 for place, score in enumerate(given)]
        for judge, own in (("harsh", harsh), ("mild", given)):
            known = [score for score in own if score is not None]
            metrics.append(metric(model, score=float(np.mean(known)), judge=judge, n_planned=60, n_scored=len(known)))
            rows += scored(own, model, judge=judge)

    (ranking,) = read(metrics, tables={"scores": rows}).rankings

    assert [(one["model"], one["against_best"]) for one in ranking["standings"]] == [
        ("lacking", "best"),
        ("complete", "tied"),
    ]
    tie = ranking["standings"][1]
    assert (tie["difference"], tie["n_common_questions"], [line["rank"] for line in ranking["standings"]]) == (
        0.0,
        60,
        [1, 1],
    )
    assert remarks_on(ranking["standings"])[0].endswith(f"complete t +0.00 (means: {tie['difference_of_means']:+.2f}).")


@pytest.mark.parametrize("other", [{"judge_prompt_hash": "q"}, {"question_set": "tengu@6"}, {"pipeline_hash": "h"}])
def test_runs_that_were_scored_otherwise_are_not_ranked_together(other, read):
    first, rows = models_judged({"m": [1.0, 2.0, 3.0], "n": [7.0, 8.0, 9.0]}, judge_prompt_hash="p")
    metrics = [first[0], first[1] | other]

    assert all(
        line["against_best"] is None
        for ranking in read(metrics, tables={"scores": rows}).rankings
        for line in ranking["standings"]
    )


def test_other_prompts_of_a_judge_are_named_and_kept_out_of_the_ranking(read):
    metrics, rows = models_judged({"m": [1.0, 2.0], "n": [7.0, 8.0]}, "ab", judge_prompt_hash="p")
    metrics = [
        row | ({"judge_prompt_hash": "q"} if row["model"] == "n" and row["judge"] == "b" else {}) for row in metrics
    ]

    report = read(metrics, tables={"scores": rows})

    (remark,) = [one for one in report.remarks if one.startswith("Judge ")]
    assert remark.startswith("Judge b judged with different prompts: tengu: one of m t, another of n t;")
    assert [len(ranking["standings"]) for ranking in report.rankings] == [2]
    assert report.rankings[0]["judges"] == ["a"]


@pytest.mark.parametrize("question_sets", [(), ("tengu@5",)])
@pytest.mark.parametrize(("sources", "together"), [(("shisa", "shisa"), True), (("shisa", "lightblue"), False)])
def test_trees_whose_prompts_nobody_recorded_are_compared_nowhere(sources, together, question_sets, read):
    metrics, rows = models_judged({"m": [1.0, 2.0], "n": [7.0, 8.0]}, "ab")
    runs = [stored(model, source=source) for model, source in zip("mn", sources, strict=True)]
    asked = {"benchmark": "tengu", "question_set": "tengu@5", "question_set_sha256": "x", "created_at": NOW}
    questions = [asked | {"question_id": f"q{place}", "position": place, "question": "q"} for place in range(2)]

    report = read(
        metrics, tables={"scores": rows, "runs": runs, "questions": questions}, question_sets=list(question_sets)
    )

    assert [len(ranking["standings"]) for ranking in report.rankings] == ([2] if together else [1, 1])
    said = "Judge a judged with different prompts: tengu: one that is not recorded in shisa of m t, one that is not recorded in lightblue of n t;"
    assert any(remark.startswith(said) for remark in report.remarks) is not together


def test_the_ranking_by_judges_is_that_of_sql_with_leniency_and_agreement(read, views):
    metrics, rows = models_judged({"m": [1.0, 2.0, 3.0], "n": [7.0, 8.0, 8.0]}, "ab")
    alone = metric("n", judge="c", score=4.0)
    report = read([*metrics, alone], tables={"scores": rows})

    (ranking,) = report.rankings
    expected = views.catalog.execute(
        "select model, score, judges from multi_judge_leaderboard_of(['m', 'n']) where benchmark = 'overall'"
    ).fetchall()
    assert [(one["model"], one["mean"], list(ranking["judges"])) for one in ranking["standings"]] == expected
    leniency = {row["judge"]: row["leniency"] for row in report.rows}
    assert leniency == {"a": pytest.approx(-0.5), "b": pytest.approx(0.5), "c": None}
    (pair,) = report.judge_pairs
    assert (pair["judge_a"], pair["judge_b"], pair["n"], pair["mean_difference"]) == ("a", "b", 6, -1.0)
    assert read([], judges=["a"]).judge_pairs == ()


def test_under_passes_the_baseline_stands_beside_the_score(read):
    rows = [metric(score=5.0), metric(pipeline="repetition", score=4.5), metric("n", score=9.0)]

    report = read(rows, pipeline="repetition")

    (row,) = report.rows
    assert (row["score"], row["baseline_score"], row["change"]) == (4.5, 5.0, -0.5)
    assert (report.means[0]["baseline_mean"], read([]).rows[0]["baseline_score"]) == (5.0, None)


def test_passes_with_other_settings_are_named(read):
    rows = [metric(model, pipeline="repetition", pipeline_hash=model * 64) for model in "mn"]

    (remark,) = read(rows, pipeline="repetition").remarks

    assert remark.startswith(
        "The passes repetition had different settings or versions: tengu: one of m t, another of n t;"
    )


def test_what_is_not_complete_is_told_with_its_failures(read):
    states = {"tengu": "partial", "elyza": "complete", "rakuda": "error: budget"}
    tables = {
        "runs": [stored(status="partial", status_by_benchmark=json.dumps(states)), stored("n"), stored("o", "other")],
        "scores": scored([5.0, None, None], error_class="transient"),
        "answers": [
            without(row, "judge", "pipeline", "score")
            | ({"status": "error", "error_class": "timeout"} if failed else {})
            for row, failed in zip(scored([0.0, 0.0], error_class=None), (True, False), strict=True)
        ],
    }
    report = read([metric(n_planned=4, n_scored=1, n_failed=3), metric("n")], tables=tables, tags=["t"])

    assert [(one["benchmark"], one["state"], failure(one)) for one in report.unfinished] == [
        ("tengu", "partial", "answers: 1 of 2 failed (timeout 1)"),
        ("tengu", "partial", "judge a: 3 of 4 failed (transient 2)"),
        ("rakuda", "error: budget", ""),
    ]
    assert read([], models=["n"]).unfinished == []


def test_of_very_many_runs_only_ranked_lines_have_intervals_and_ties(read):
    rows = [metric(f"m{number}", score=float(number)) for number in range(201)]

    report = read(rows, tables={"scores": [*scored([1.0, 2.0], "m0"), *scored([199.0, 201.0], "m200")]})

    assert report.remarks == ["More than 200 runs: intervals and ties of ranked lines only, no leniency and agreement."]
    ties = {line["model"]: line for line in report.rankings[0]["standings"] if line["against_best"]}
    assert {model: tie["against_best"] for model, tie in ties.items()} == {"m200": "best", "m0": "below"}
    assert {row["estimate"] for row in report.rows} == {None}


def test_of_very_many_runs_the_first_lines_are_compared_with_the_best(read):
    rows = [metric(f"m{number}", score=number / 25) for number in range(201)]
    scores = {"m200": [8.0, 8.1, 7.9, 8.0, 8.0], "m199": [8.1, 7.9, 8.0, 8.0, 7.8], "m198": [2.0, 2.1, 1.9, 2.0, 2.0]}
    scores |= {f"m{number}": [1.0, 1.1, 1.0, 1.2, 1.0] for number in range(150, 160)}
    given = [row for model, own in scores.items() for row in scored(own, model)]

    report = read(rows, tables={"scores": given}, top=3)

    (ranking,) = report.rankings
    assert report.remarks == [
        "More than 200 runs: intervals and ties of the shown lines only, no leniency and agreement."
    ]
    assert [line["rank"] for line in ranking["standings"]][:4] == [1, 1, 3, 4]
    assert [line["against_best"] for line in ranking["standings"][:3]] == ["best", "tied", "below"]
    assert {line["against_best"] for line in ranking["standings"][3:]} == {None}
    assert [lines_at(place, top) for place in (0, 1) for top in (30, 3, 0)] == [30, 3, None, 5, 3, None]
    whole = read([], top=0).rankings[0]  # what is shown of it changes nothing of a line
    assert whole["standings"][:3] == ranking["standings"][:3]
    assert whole["standings"][3]["against_best"] is None
    assert sum(line["against_best"] is not None for line in whole["standings"]) == len(scores)


def test_a_limited_run_is_neither_best_nor_compared_with_full_ones(read):
    metrics, rows = models_judged({"m": [1.0, 2.0, 3.0], "n": [7.0, 8.0, 9.0]})
    few, few_rows = models_judged({"few": [10.0, 10.0]})
    questions = [
        {"benchmark": "tengu", "question_set": "tengu@5", "question_set_sha256": "", "question_id": f"q{number}"}
        | {"position": number, "question": "?", "created_at": NOW}
        for number in range(5)
    ]
    runs = [stored("m"), stored("n"), stored("few", spec=spec(limit=2))]

    report = read([*metrics, *few], tables={"scores": [*rows, *few_rows], "questions": questions, "runs": runs})

    assert {row["asked"] for row in report.rows if row["model"] == "few"} == {"tengu@5, 2 asked"}
    ties = {line["model"]: line for ranking in report.rankings for line in ranking["standings"]}
    assert (ties.keys(), ties["n"]["against_best"]) == ({"m", "n"}, "best")
    assert [mean["model"] for mean in report.means] == ["n", "m", "few"]


def test_under_strict_the_mean_over_runs_of_an_unfinished_run_is_undefined(read):
    strict = {"null_policy": "strict"}
    rows = [
        *(numbered(number, 5.0, benchmark=name, **strict) for number in (1, 2) for name in ("tengu", "elyza")),
        *(numbered(number, score, benchmark="rakuda", **strict) for number, score in ((1, 5.0), (2, None))),
    ]
    statistics = read(rows, tags=["t"], null_policy="strict").statistics
    assert [one["n_runs"] for one in statistics if one["benchmark"] == "overall"] == [1]


def test_over_categories_the_interval_is_that_of_the_categories(read):
    values = [float(number % 12 // 2 + number // 60 % 2) for number in range(60)]
    metrics = [metric(n_planned=60, n_scored=60, score=float(np.mean(values)))]
    questions = [
        {"benchmark": "tengu", "question_set": "tengu@5", "question_set_sha256": "", "question_id": f"q{number}"}
        | {"position": number, "question": "?", "category": f"c{number % 12}", "created_at": NOW}
        for number in range(60)
    ]
    (row,) = read(metrics, tables={"scores": scored(values), "questions": questions}).rows
    (wider,) = read([], over="categories").rows

    expected = clustered_mean_interval(values, [number % 12 for number in range(60)], (0, 10))
    assert wider["estimate"].interval == expected.interval
    assert (row["n_categories"], row["estimate"].n) == (12, 60)
    widths = [one["estimate"].interval.upper - one["estimate"].interval.lower for one in (row, wider)]
    assert row["over_categories"] == pytest.approx(widths[1] / widths[0])
    assert row["over_categories"] > 1.5


def test_the_ledger_counts_what_became_of_the_replies(read):
    states = [
        {"finish_reason": "length", "answer_state": "text"},
        {"finish_reason": "unknown", "truncated": True, "answer_state": "text"},
        {"finish_reason": "content_filter", "status": "error", "error_class": "permanent"},
        {"finish_reason": "stop", "answer_state": "empty", "status": "error", "error_class": "empty_answer"},
        {"finish_reason": "refusal", "answer_state": "text"},
        {"finish_reason": "stop", "answer_state": "text", "answer_ending": "refused"},
        {"finish_reason": "SAFETY", "answer_state": "empty", "answer_ending": "filtered"},
        {"finish_reason": "length", "truncated": True, "answer_state": "text", "answer_ending": "truncated"},
    ]
    answers = [
        {"run_id": "m@@t", "model": "m", "run_tag": "t", "benchmark": "tengu", "question_id": f"q{number}"}
        | {"sample_index": 0, "status": "ok", "created_at": NOW} | state
        for number, state in enumerate(states)
    ]  # fmt: skip
    policies = [
        metric(score=8.0, n_out_of_scale=3),
        metric(null_policy="zero", score=7.5),
        metric(null_policy="strict", score=None),
    ]
    calls = [call(benchmark="tengu", attempts=3), call(benchmark="tengu", attempts=1)]
    judged = {"status": "error", "error_class": "out_of_scale", "judge": policies[0]["judge"], "superseded": False}
    judgements = [
        {name: answer[name] for name in ("run_id", "model", "run_tag", "benchmark", "question_id", "sample_index")}
        | judged | {"created_at": NOW}
        for answer in answers[:2]
    ]  # fmt: skip

    (one,) = read(policies, calls, tables={"answers": answers, "judgements": judgements}).replies

    names = ("answers", "refused", "filtered", "truncated", "empty", "out_of_scale", "retried")
    counts = tuple(one[f"n_{name}"] for name in names)
    assert counts == (8, 2, 2, 3, 2, 5, 1)
    assert (one["legacy"], one["zero"], one["strict"]) == (8.0, 7.5, None)


def test_replies_that_several_runs_share_are_counted_beside_their_statistics(read):
    answers = [
        {"run_id": f"m@@t-run{number}", "model": "m", "run_tag": f"t-run{number}", "benchmark": "tengu"}
        | {"question_id": f"q{place}", "sample_index": 0, "status": "ok", "request_hash": request, "created_at": NOW}
        for number, requests in ((1, ("a", "b")), (2, ("a", "c")))
        for place, request in enumerate(requests)
    ]
    report = read([numbered(1, 5.0), numbered(2, 6.0)], tables={"answers": answers}, tags=["t"])

    tengu = next(one for one in report.statistics if one["benchmark"] == "tengu")
    assert (tengu["n_replies"], tengu["n_shared"]) == (4, 1)


# --- rankings --------------------------------------------------------------------------------------------------------


def judged_by(model, *judges, score=5.0, **values):
    return [metric(model, judge=judge, score=score, **values) for judge in judges]


def ranked(report):
    return [(tuple(ranking["judges"]), [one["model"] for one in ranking["standings"]]) for ranking in report.rankings]


def test_models_are_ranked_over_the_judges_that_most_of_them_share(read):
    rows = [
        *judged_by("m", "a", "b", "c"),
        *judged_by("n", "a", "b", score=6.0),
        *judged_by("o", "a", "b", "d", score=7.0),
    ]
    report = read(rows)
    assert (ranked(report), report.not_ranked) == ([(("a", "b"), ["o", "n", "m"])], [])
    assert "scores by c, d, which some of these lack" in remarks_on(report.rankings[0]["standings"])[-1]


def test_a_run_with_fewer_judges_takes_none_off_the_others_means(read):
    report = read([*judged_by("m", "a", "b"), *judged_by("n", "a", "b", score=6.0), *judged_by("late", "a", score=9.0)])
    assert ranked(report) == [(("a", "b"), ["n", "m"])]
    assert [(one["model"], one["why"], one["score"]) for one in report.not_ranked] == [
        ("late", "1 of 2 judges (a)", 9.0)
    ]


def test_models_with_nobody_in_common_have_rankings_of_their_own(read):
    rows = [
        *judged_by("m", "a"),
        *judged_by("n", "a", score=6.0),
        *judged_by("o", "b"),
        *judged_by("p", "b", score=6.0),
    ]
    assert sorted(ranked(read(rows))) == [(("a",), ["n", "m"]), (("b",), ["p", "o"])]


def test_the_runs_of_a_multi_run_are_one_line_with_the_mean_over_them(read):
    report = read([numbered(1, 5.0), numbered(2, 6.0), metric("n", "t", score=5.8)])
    ((_, models),) = ranked(report)
    first, second = report.rankings[0]["standings"]
    assert models == ["n", "m"]
    assert (second["tag"], second["n_runs"], second["mean"], second["n_planned"]) == ("t", 2, 5.5, 10)
    assert (first["tag"], first["n_runs"], first["mean"]) == ("t", 1, 5.8)


def test_of_a_single_model_the_spread_and_range_between_its_runs_are_shown(read):
    (_, table) = own_table(read([numbered(1, 5.0), numbered(2, 6.0)]))
    assert [cell for column in table.columns for cell in column.cells[-1:]] == [
        "Overall",
        "5.50",
        "0.71",
        "-",
        "5.00–6.00",
        "10/10",
    ]
    assert own_table(read([numbered(1, 5.0), metric("n")])) == []


def test_runs_of_a_tag_that_differ_are_lines_of_their_own(read):
    settings = [{"benchmarks": {"tengu": {"temperature": warmth}}} for warmth in (0.2, 0.7)]
    runs = [stored(run_tag=f"t-run{n}", base_tag="t", run_number=n, spec=settings[n - 1]) for n in (1, 2)]
    report = read([numbered(1, 5.0), numbered(2, 6.0)], tables={"runs": runs})
    assert [one["tag"] for one in report.rankings[0]["standings"]] == ["t-run2", "t-run1"]


def test_the_mean_of_a_ranking_is_that_over_judges_with_its_interval_and_ties(read):
    scores = {"m": [5.0, 6.0, 7.0, 8.0, 7.0], "n": [5.0, 6.5, 7.0, 8.0, 7.0], "o": [1.0, 1.5, 1.0, 2.0, 1.0]}
    metrics = [
        metric(model, judge=judge, score=float(np.mean(values)) + index)
        for model, values in scores.items()
        for index, judge in enumerate("ab")
    ]
    rows = [
        one
        for model, values in scores.items()
        for index, judge in enumerate("ab")
        for one in scored([value + index for value in values], model, judge=judge)
    ]
    report = read(metrics, tables={"scores": rows})
    (ranking,) = report.rankings
    expected = {model: float(np.mean(values)) + 0.5 for model, values in scores.items()}
    assert {one["model"]: one["mean"] for one in ranking["standings"]} == pytest.approx(expected)
    assert [line["rank"] for line in ranking["standings"]] == [1, 1, 3]
    pooled = [value + index for index in (0, 1) for value in scores["m"]]
    expected = clustered_mean_interval(pooled, [0, 1, 2, 3, 4] * 2, (0, 10))
    assert (
        next(one for one in ranking["standings"] if one["model"] == "m")["estimates"]["overall"].interval
        == expected.interval
    )
