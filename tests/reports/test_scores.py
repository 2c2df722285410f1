import csv
import io
import json
import math
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from shaberi_dagster.reports.ranking import read_standings
from shaberi_dagster.reports.requests import ScoreView
from shaberi_dagster.reports.rows import ROW_COLUMNS, interval_columns, mean_estimate, score_row
from shaberi_dagster.reports.score_page import ScoreDocument
from shaberi_dagster.reports.scores import ScoreReport
from shaberi_dagster.reports.write import FORMATS, write
from shaberi_dagster.reports.write import as_csv as csv_of
from shaberi_dagster.reports.write import as_json as json_of
from shaberi_dagster.reports.write import as_markdown as markdown_of
from shaberi_dagster.statistics.intervals import Estimate, Interval

pytestmark = pytest.mark.unit

SIZES = {"elyza": 100, "tengu": 120, "mt_bench": 60, "rakuda": 40}
JAPANESE = "株式会社例/日本語大規模言語モデル-70B-指示調整済み"
HOSTILE = "=cmd|'x'!A1[bold]\x1b[31m|<b>`\u202e"


def row(benchmark="elyza", score=7.5, model="org/model", run_tag="default", judge="gpt-5.1", **fields):
    size = SIZES[benchmark]
    counts = {"n_planned": size, "n_scored": size, **dict.fromkeys(("n_failed", "n_excluded", "n_out_of_scale"), 0)}
    counts["n_undecided"] = 0
    names = {"question_set": f"{benchmark}@{size}", "pipeline": "baseline", "null_policy": "legacy", "base_tag": ""}
    own = {"run_id": f"{model}@@{run_tag}", "model": model, "run_tag": run_tag, "judge": judge, "benchmark": benchmark}
    return {
        **score_row(dict.fromkeys((*ROW_COLUMNS, "judge_prompt")) | own | counts | names | {"score": score} | fields),
        "sd_questions": 1.25,
        **fields,
    }


def run(base, **fields):
    return [row(benchmark, base + index / 10, **fields) for index, benchmark in enumerate(SIZES)]


def statistic(benchmark="elyza", n_runs=3, **fields):
    one = {"sd": None, "margin_of_error": None, "minimum": 7.5, "maximum": 7.5, "values": (7.5,)}
    several = {"sd": 0.12, "margin_of_error": 0.298, "minimum": 7.4, "maximum": 7.62, "values": (7.4, 7.5, 7.62)}
    names = {"model": "org/model", "base_tag": "base", "judge": "gpt-5.1", "mean": 7.5, "mean_upper": 7.5}
    shared = {"n_replies": 0, "n_shared": 0, **interval_columns(fields.pop("over_questions", None))}
    return {"benchmark": benchmark, "n_runs": n_runs, **names, **(several if n_runs > 1 else one), **shared, **fields}


def with_intervals_of_rows(ranking):
    """As if each score were by one judge of one run."""
    estimates = [mean_estimate([row["estimate"] for row in line["rows"]]) for line in ranking["standings"]]
    lines = zip(ranking["standings"], estimates, strict=True)
    return ranking | {"standings": [line | interval_columns(estimate) for line, estimate in lines]}


def report(rows, **fields):
    rankings, not_ranked = read_standings(None, rows)
    ranked = {"rankings": [with_intervals_of_rows(ranking) for ranking in rankings], "not_ranked": not_ranked}
    return ScoreReport(**{"policy": "legacy", "pipeline": "baseline", "rows": rows, **ranked, **fields})


def as_csv(shown):
    document = ScoreDocument(shown)
    return csv_of(document.records(), document.csv_columns)


def as_json(shown):
    return json_of(ScoreDocument(shown).data())


def as_markdown(shown):
    return markdown_of(ScoreDocument(shown).blocks(None))


def shown_on(width, view, rows, **fields):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    write(ScoreDocument(report(rows, **fields), view), "table", console)
    return console.file.getvalue()


def table(rows, width=120, **fields):
    """All there is, run by run."""
    return shown_on(width, ScoreView(by="run", notes=True, cost=True), rows, **fields)


def board(rows, width=80, *, by="model", wide=False, **fields):
    """One line a model."""
    return shown_on(width, ScoreView(by=by, wide=wide), rows, **fields)


def test_eighty_columns_hold_all_four_benchmarks():
    rows = [one for model in ("x" * 60, "y") for one in run(7, model=model, estimate=ESTIMATE, run_tag=f"t{model}")]
    narrow, wide = board(rows), board(rows, wide=True)
    assert max(cell_len(line) for line in narrow.splitlines()) <= 80
    assert all(name in narrow for name in ("elyza", "tengu", "bench", "rakuda"))
    assert "Not shown" not in wide


def test_no_two_names_look_alike_in_eighty_columns():
    names = [
        f"my-organisation/model-of-this-summer-{number:03d}-{size}b-instruct-preview"
        for number in range(40)
        for size in (1, 7)
    ]
    lines = board([one for name in names for one in run(7, model=name, estimate=ESTIMATE)]).splitlines()
    shown = [line.split()[1] for line in lines if line[:2].strip().isdigit()]
    assert max(map(len, lines)) <= 80
    assert len(set(shown)) == len(names)


def test_a_long_name_keeps_its_end_which_tells_checkpoints_apart():
    rows = [
        one for step in (1000, 2000) for one in run(7, model=f"my-organisation/my-model-of-this-summer-step-{step}")
    ]
    text = board(rows)
    assert "-step-1000 " in text
    assert "-step-2000 " in text
    assert "…" in text


def test_a_terminal_draws_intervals_in_colour_and_a_pipe_gets_their_numbers():
    rows = [*run(7, estimate=ESTIMATE), *run(6.9, model="b", estimate=ESTIMATE, n_failed=1)]
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard", legacy_windows=False)
    write(ScoreDocument(report(rows)), "table", console)
    text = console.file.getvalue()
    assert text.count("●─") == 2
    assert re.search(r"\x1b\[[0-9;]*33m[^\x1b]*4\x1b", text)
    assert "7.38–7.62" in board(rows)
    assert "●" not in board(rows)


def test_an_incomplete_run_is_not_ranked():
    text = board([*run(6, model="other"), row("tengu", model="late", run_tag="late")])
    assert text.index("Not ranked") < text.index("late late 7.50: tengu@120 only")


def test_the_reason_of_missing_intervals_is_said_once():
    rows = [*run(7, estimate=ESTIMATE, model="a"), *run(6, model="b"), *run(5, model="c")]
    for view in (board(rows), table(rows)):
        assert view.count("CI -:") == 1


def test_a_mean_is_ranked_among_such_over_the_same_benchmarks():
    rows = [
        *run(7, model="all"),
        row("elyza", 9, model="one"),
        row("rakuda", None, model="one"),
        row("tengu", None, model="none"),
    ]
    text = board(rows)
    assert text.index("1  all ") < text.index("Not ranked")
    assert "one default 9.00: no score for rakuda@40" in text
    assert "none default: no score for tengu@120" in text
    assert "nan" not in text.lower()


def test_several_rankings_say_the_same_remark_once():
    rows = [row("elyza", model=model, judge="rule:x", question_set=asked, score_upper=0.9, n_undecided=2, score=0.5)
            for model, asked in (("a", "elyza@100"), ("b", "elyza@100"), ("c", "elyza@9"), ("d", "elyza@9"))]  # fmt: skip
    text = board(rows, width=200)
    assert text.count("Judge rule:x") == 2
    assert text.count("Undecided answers are wrong") == 1


def tokens(stage="answers", benchmark="elyza", calls=100, *, prompt=1000, completion=2000, usd=0.125, **fields):
    priced = {"price_sources": ["genai-prices 0.2.3"], "first_day": "2026-07-01", "last_day": "2026-07-01"}
    names = {"model": "m", "run_tag": "a", "stage": stage, "benchmark": benchmark}
    numbers = {"calls": calls, "prompt_tokens": prompt, "completion_tokens": completion, "cost_usd": usd}
    rare = {"cached_tokens": None, "reasoning_tokens": None, "calls_without_usage": 0, "calls_without_price": 0}
    rare |= {"calls_at_recorded_price": 0, "models_without_price": []}
    return {**names, **numbers, **rare, **priced, **fields}


def cells_of(text):
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def test_unknown_tokens_and_costs_are_called_unknown_and_counted():
    unknown = {"calls_without_usage": 640, "calls_without_price": 640, "price_sources": []}
    rows = [
        tokens(calls=320, calls_without_price=3),
        tokens("judgements", calls=640, prompt=None, completion=None, usd=None, **unknown),
        tokens("pass_outputs", calls=2, prompt=None, completion=None, usd=None, price_sources=[]),
    ]
    lines = cells_of(table(run(7), tokens=rows, width=120))
    assert lines[-5:-1] == [
        ["answers", "elyza", "320", "1,000", "2,000", "0.1250 + unknown"],
        ["judgements", "elyza", "640", "unknown", "unknown", "unknown"],
        ["pass_outputs", "elyza", "2", "-", "-", "-"],  # all failed: nothing is missing from the sum
        ["total", "962", "1,000 + unknown", "2,000 + unknown", "0.1250 + unknown"],
    ]
    note = "Prices: genai-prices 0.2.3, as known now (2026-07-01); "
    assert lines[-1] == [f"{note}643 calls of unknown price or tokens are not in the sum."]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("judges", [1, 2])
def test_no_number_is_cut_at_any_width(width, judges):
    rows = [
        one
        for judge in ("審査員モデル-72B", "gpt-5.1-2025-11-13")[:judges]
        for model in (JAPANESE, "b")
        for one in run(7, model=model, judge=judge)
    ]
    rows[1] = row("tengu", 10.0, model=JAPANESE, judge=rows[1]["judge"], n_scored=99, n_failed=10, n_excluded=11)
    text = table(
        rows,
        width,
        tokens=[tokens("answers", "tengu", 10**6, prompt=10**9, completion=10**9, usd=12345.6789)],
        statistics=[statistic(model=JAPANESE, judge="審査員モデル")],
    )
    for number in ("10.00", "99/120", "7.20", "60/60", "1,000,000,000", "12,345.6789", "±0.30", "7.40–7.62"):
        assert number in text
    assert "…" not in text
    assert set("株式会社例日本語大規模言語指示調整済") <= set(text)
    if width >= 80:
        assert all(cell_len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("output_format", FORMATS)
def test_hostile_names_reach_no_terminal_in_any_format(output_format):
    rows = [row(model=HOSTILE, judge=HOSTILE, run_tag="a"), row(model=HOSTILE, run_tag="b")]
    shown = report(
        rows,
        statistics=[statistic(model=HOSTILE)],
        tokens=[tokens(HOSTILE, HOSTILE, model=HOSTILE, price_sources=[HOSTILE])],
    )
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    write(ScoreDocument(shown), output_format, console)
    text = (
        re.sub(r"\x1b\[[0-9;]*m(?!\|)", "", console.file.getvalue())
        if output_format == "table"
        else console.file.getvalue()
    )
    assert "\x1b[31m" not in text
    assert "\u202e" not in text
    assert "[bold]" in text.replace("\\", "")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", " =1", "\t=1"])
def test_csv_texts_are_no_formulas(name):
    (cells,) = csv.DictReader(io.StringIO(as_csv(report([row(model=name)]))))
    assert cells["model"].lstrip()[0] not in "=+-@＝＋－＠"
    assert cells["model"].removeprefix("'") == name.replace("\t", "␉")


ESTIMATE = Estimate(7.5, Interval(7.25, 7.75), 100, 0.125, 99)


def test_the_mean_has_an_interval_only_if_each_benchmark_has_one():
    (mean,) = report([row(estimate=ESTIMATE), row("tengu", estimate=ESTIMATE), row("rakuda", None)]).means
    assert (mean["n_benchmarks"], mean["ci_questions_lower"]) == (2, pytest.approx(7.5 - 0.25 / math.sqrt(2), abs=0.01))
    (mean,) = report([row(estimate=ESTIMATE), row("tengu")]).means
    assert mean["ci_questions_lower"] is None


def test_the_change_by_passes_stands_beside_the_score():
    rows = [row(score=7.0, baseline_score=7.5), row("tengu", 6.0, baseline_score=6.0)]
    (line,) = [line.split() for line in table(rows, pipeline="repetition").splitlines() if line.startswith("mean of 2")]
    assert line[3:8] == ["gpt-5.1", "6.50", "6.75", "-0.25", "220/220"]
    grid = table([*rows, row(model="b", baseline_score=7.0)], pipeline="repetition")
    assert "-0.50" in grid
    assert "+0.50" in grid
    assert json.loads(as_json(report(rows)))["rows"][0]["change"] == -0.5


def test_means_are_unweighted_and_best_first():
    nothing = [row(benchmark, None, model="c") for benchmark in SIZES]
    means = report([*run(6, model="a"), *nothing, *run(7, model="b")]).means
    assert [(mean["model"], mean["mean"] and round(mean["mean"], 6), mean["n_benchmarks"]) for mean in means] == [
        ("b", 7.15, 4),
        ("a", 6.15, 4),
        ("c", None, 0),
    ]


def test_a_run_that_was_asked_less_is_ranked_with_none_that_was_asked_all():
    limited = run(9, model="limited", n_asked=10, n_planned=10)
    shown = report([*limited, *run(7, model="a"), *run(8, model="b")])

    assert [mean["model"] for mean in shown.means] == ["b", "a", "limited"]
    text = table(shown.rows)
    assert "elyza@100, 10 asked" in text
    assert text.index("b  default") < text.index("limited  default")
    assert "Not ranked: limited default 9.15: elyza@100, 10 asked" in board(shown.rows)
    means = json.loads(as_json(shown))["means"]
    assert means[2]["asked"][0] == "elyza@100, 10 asked"


def test_under_strict_a_mean_is_undefined_as_soon_as_one_part_is():
    rows = [row("elyza", 8.0, null_policy="strict"), row("tengu", None, null_policy="strict")]
    (mean,) = report(rows, policy="strict").means
    assert (mean["mean"], mean["n_benchmarks"]) == (None, 0)


def test_a_score_of_zero_counts_in_the_mean_and_one_that_is_no_number_does_not():
    (mean,) = report([row("elyza", 0.0), row("tengu", 5.0), row("rakuda", math.nan)]).means
    assert (mean["mean"], mean["n_benchmarks"]) == (2.5, 2)
