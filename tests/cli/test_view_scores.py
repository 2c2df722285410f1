import io
import json
import math
import statistics
from datetime import UTC, datetime

import polars as pl
import pytest
from rich.console import Console
from scipy import stats

from shaberi_dagster.cli.score_table import ScoreReport, write_scores
from shaberi_dagster.cli.view_scores import POLICIES, Selection, margin_of_error, read_scores, show
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.legacy.importing import ImportRequest, import_trees
from tests.legacy.trees import LegacyTree, rows_of

pytestmark = pytest.mark.integration

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
        "model": "m",
        "base_url": "http://localhost/v1",
        "status": "ok",
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "cost_usd": 0.5,
        "created_at": NOW,
    }
    return defaults | values


@pytest.fixture
def read(settings):
    """Reads a selection from a lake with these metrics and calls."""

    def made(metrics, calls=(), **selection) -> ScoreReport:
        lake = Lake(settings.warehouse)
        if metrics:
            lake.append("metrics", pl.DataFrame(metrics, infer_schema_length=None))
        if calls:
            lake.append("calls", pl.DataFrame(calls, infer_schema_length=None))
            runs = {row["run_id"]: {key: row[key] for key in ("run_id", "model", "run_tag")} for row in metrics}
            stored = {"spec": "{}", "spec_hash": "", "status": "complete", "created_at": NOW, "updated_at": NOW}
            lake.append("runs", pl.DataFrame([row | stored for row in runs.values()]))
        write_catalog(lake)
        with open_catalog(settings.warehouse) as catalog:
            return read_scores(catalog, Selection(**selection))

    return made


@pytest.mark.parametrize("policy", POLICIES)
def test_only_the_rows_of_the_null_policy_are_shown(policy, read):
    rows = [metric(null_policy=name, score=float(index)) for index, name in enumerate(POLICIES)]

    report = read(rows, null_policy=policy)

    assert report.policy == policy
    assert [row.score for row in report.rows] == [float(POLICIES.index(policy))]


def test_the_strict_policy_shows_a_refused_score_with_its_denominators(read):
    refused = metric(null_policy="strict", score=None, sd_questions=None, n_scored=3, n_failed=1, n_excluded=1)

    (row,) = read([refused], null_policy="strict").rows

    assert (row.score, row.n_planned, row.n_scored, row.n_failed, row.n_excluded) == (None, 5, 3, 1, 1)


def test_models_tags_judges_and_pipelines_select(read):
    rows = [
        metric(),
        metric(model="n"),
        metric(run_tag="u"),
        metric(judge="b"),
        metric(pipeline="repetition"),
    ]
    assert len(read(rows).rows) == 4
    assert [row.model for row in read([], models=["n"]).rows] == ["n"]
    assert [row.run_tag for row in read([], tags=["u"]).rows] == ["u"]
    assert [row.judge for row in read([], judges=["b"]).rows] == ["b"]
    assert [row.pipeline for row in read([], pipeline="repetition").rows] == ["repetition"]
    assert len(read([], tags=["t", "u"], models=["m"]).rows) == 3


def test_a_base_tag_selects_all_its_runs_with_their_statistics(read):
    report = read([numbered(number, score) for number, score in ((1, 4.0), (2, 6.0), (10, 8.0))], tags=["t"])

    assert sorted(row.run_tag for row in report.rows) == ["t-run1", "t-run10", "t-run2"]
    by_benchmark = {row.benchmark: row for row in report.statistics}
    assert by_benchmark["tengu"].values == (4.0, 6.0, 8.0)
    assert (by_benchmark["tengu"].mean, by_benchmark["tengu"].sd) == (6.0, 2.0)
    assert by_benchmark["tengu"].margin_of_error == pytest.approx(stats.t.ppf(0.975, 2) * 2.0 / math.sqrt(3))
    assert (by_benchmark["tengu"].minimum, by_benchmark["tengu"].maximum) == (4.0, 8.0)


def test_the_first_runs_are_the_first_by_number(read):
    rows = [numbered(number, float(number)) for number in range(1, 12)]

    report = read(rows, tags=["t"], runs=2)

    assert sorted(row.run_tag for row in report.rows) == ["t-run1", "t-run2"]
    assert {row.benchmark: row.values for row in report.statistics}["tengu"] == (1.0, 2.0)


def test_one_numbered_run_has_no_statistics(read):
    report = read([numbered(1, 4.0), numbered(2, 6.0)], tags=["t-run2"])

    assert [row.run_tag for row in report.rows] == ["t-run2"]
    assert report.statistics == []


def test_statistics_of_other_models_and_policies_are_left_out(read):
    rows = [numbered(1, 4.0), numbered(2, 6.0), numbered(1, 9.0, model="n"), numbered(1, 0.0, null_policy="zero")]

    report = read(rows, tags=["t"], models=["m"])

    assert {(row.model, row.benchmark, row.mean) for row in report.statistics} == {
        ("m", "tengu", 5.0),
        ("m", "overall", 5.0),
    }


def test_tokens_are_those_of_the_shown_runs_and_unknown_as_soon_as_one_call_is(read):
    calls = [
        call(),
        call(),
        call(stage="judgements"),
        call(stage="judgements", prompt_tokens=None, completion_tokens=None, cost_usd=None),
        call(stage="judgements", status="error", prompt_tokens=None, completion_tokens=None, cost_usd=None),
        call(run_id="n@@t"),
    ]
    answers, judgements = read([metric(), metric(model="n")], calls, models=["m"]).tokens

    assert (answers.stage, answers.calls, answers.prompt_tokens, answers.completion_tokens) == ("answers", 2, 20, 4)
    assert answers.cost_usd == 1.0
    assert (judgements.calls, judgements.prompt_tokens, judgements.cost_usd) == (3, None, None)


def test_a_failed_call_without_usage_makes_no_token_count_unknown(read):
    calls = [call(), call(status="error", prompt_tokens=None, completion_tokens=None, cost_usd=None)]

    (answers,) = read([metric()], calls).tokens

    assert (answers.calls, answers.prompt_tokens, answers.cost_usd) == (2, 10, 0.5)


def test_what_is_selected_but_not_there_is_refused(read):
    with pytest.raises(ConfigurationError, match="no scores match"):
        read([metric()], tags=["nonsense"])


@pytest.fixture
def imported(workspace, tmp_path):
    """The names of two question sets, of which `long` has what `short` has; one of the scores is an object."""
    tree = LegacyTree(tmp_path / "tree")
    tree.judgements("tengu", rows_of("tengu", ["a", "b", "c"], [9, {"score": 3}, 1]), "a", model="long")
    tree.judgements("tengu", rows_of("tengu", ["a", "b"], [8, 6]), "a", model="short")
    tree.judgements("rakuda", rows_of("rakuda", ["a"], [5]), "a", model="long")
    import_trees(ImportRequest({"tree": tree.root}), workspace)
    sets = workspace.lake.read("metrics", {"benchmark": "tengu"})
    return dict(sets.select("model", "question_set").unique().iter_rows())


def shown(settings, **selection):
    with open_catalog(settings.warehouse) as catalog:
        report = read_scores(catalog, Selection(**selection))
    return report, {(row.model, row.benchmark): row for row in report.rows}


def test_scores_over_a_question_set_are_of_its_questions_and_of_runs_that_were_asked_all(settings, imported):
    report, rows = shown(settings, question_sets=[imported["short"]])
    long = rows["long", "tengu"]
    assert (long.score, long.n_planned, long.n_scored, long.question_set) == (9.0, 2, 1, imported["short"])
    assert rows["short", "tengu"].score == 7.0
    assert rows["long", "rakuda"].score == 5.0
    assert "only runs that were asked all of these questions" in report.remarks[0]

    _, rows = shown(settings, question_sets=[imported["long"]])
    assert set(rows) == {("long", "tengu"), ("long", "rakuda")}


@pytest.mark.usefixtures("imported")
def test_objects_in_place_of_scores_can_count_as_the_number_inside(settings):
    assert shown(settings)[1]["long", "tengu"].score == 5.0
    report, rows = shown(settings, object_scores="recovered")
    assert (rows["long", "tengu"].score, rows["long", "tengu"].n_failed) == (pytest.approx(13 / 3), 0)
    assert report.remarks == ["Objects in place of scores count as the number inside of them."]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_null_policies_hold_over_other_question_sets(settings, imported, policy):
    _, rows = shown(settings, question_sets=[imported["short"]], null_policy=policy)
    assert rows["long", "tengu"].score == {"legacy": 9.0, "zero": 4.5, "strict": None}[policy]
    assert rows["short", "tengu"].score == 7.0


@pytest.mark.usefixtures("imported")
def test_a_question_set_that_the_lake_has_not_is_refused_with_those_that_it_has(settings):
    with pytest.raises(ConfigurationError, match=r"no question set 'tengu@7'; it has rakuda@1-\w+, tengu@2-"):
        shown(settings, question_sets=["tengu@7"])


@pytest.mark.usefixtures("imported")
def test_imported_runs_have_no_tokens_and_are_shown(settings):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    report, _ = shown(settings)
    assert report.tokens == []
    write_scores(report, "table", console)
    assert "unknown" not in console.file.getvalue()


def test_statistics_over_runs_are_refused_with_other_question_sets(settings, imported):
    with pytest.raises(ConfigurationError, match="--runs is over the runs' own question sets"):
        shown(settings, question_sets=[imported["short"]], runs=2)


def test_scores_as_of_a_time_are_those_that_were_shown_then(settings, capsys):
    lake = Lake(settings.warehouse)
    lake.replace("metrics", pl.DataFrame([metric(score=1.0)], infer_schema_length=None), {"run_id": "m@@t"})
    before = datetime.now(UTC)
    lake.replace("metrics", pl.DataFrame([metric(score=2.0)], infer_schema_length=None), {"run_id": "m@@t"})
    for as_of, score in ((before, 1.0), (None, 2.0)):
        show(settings.warehouse, Selection(as_of=as_of), "json")
        document = json.loads(capsys.readouterr().out)
        assert document["rows"][0]["score"] == score
        assert document["remarks"] == ([f"As of {before.isoformat()}."] if as_of else [])


def test_a_time_whose_files_are_gone_is_refused(settings):
    lake = Lake(settings.warehouse)
    lake.replace("metrics", pl.DataFrame([metric()], infer_schema_length=None), {"run_id": "m@@t"})
    before = datetime.now(UTC)
    lake.replace("metrics", pl.DataFrame([metric(score=2.0)], infer_schema_length=None), {"run_id": "m@@t"})
    lake.compact(retention_hours=0)
    with pytest.raises(ConfigurationError, match="is not kept any more"):
        show(settings.warehouse, Selection(as_of=before), "json")


@pytest.mark.parametrize(
    ("selection", "output_format", "expected"),
    [
        (Selection(object_scores="all"), "table", "--object-scores must be one of"),
        (Selection(null_policy="kind"), "table", "--null-policy must be one of"),
        (Selection(), "xml", "--format must be"),
    ],
)
def test_a_wrong_word_is_refused_before_the_lake_is_opened(selection, output_format, expected, tmp_path):
    with pytest.raises(ConfigurationError, match=expected):
        show(tmp_path / "nowhere", selection, output_format)


@pytest.mark.parametrize(("sd", "n"), [(None, 1), (None, 5), (1.0, 1), (1.0, 0)])
def test_there_is_no_margin_of_error_of_one_value(sd, n):
    assert margin_of_error(sd, n) is None


@pytest.mark.parametrize(("values"), [(1.0, 2.0), (5.0, 5.0, 5.0), (6.5, 7.25, 7.0, 9.0, 2.0)])
def test_the_margin_of_error_is_half_of_scipys_interval(values):
    sd = statistics.stdev(values)
    expected = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)

    assert margin_of_error(sd, len(values)) == pytest.approx(expected)


def test_the_report_can_be_written(read):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    write_scores(read([metric()]), "table", console)

    assert "tengu@5" in console.file.getvalue()
