import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from shaberi_dagster.reports.requests import ScoreView
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import ScoreRow, interval_columns
from shaberi_dagster.reports.standings import read_standings
from shaberi_dagster.show.data import as_csv as csv_of
from shaberi_dagster.show.data import as_json as json_of
from shaberi_dagster.show.formats import FORMATS, write
from shaberi_dagster.show.markdown import as_markdown as markdown_of
from shaberi_dagster.show.scores import ScoreDocument
from shaberi_dagster.statistics.intervals import Estimate, Interval, mean_of_estimates

pytestmark = pytest.mark.unit

SIZES = {"elyza": 100, "tengu": 120, "mt_bench": 60, "rakuda": 40}
JAPANESE = "株式会社例/日本語大規模言語モデル-70B-指示調整済み"
HOSTILE = "=cmd|'x'!A1[bold]\x1b[31m|<b>`\u202e"


def row(benchmark="elyza", score=7.5, model="org/model", run_tag="default", judge="gpt-5.1", **fields):
    size = SIZES[benchmark]
    counts = {"n_planned": size, "n_scored": size, "n_failed": 0, "n_excluded": 0}
    names = {"question_set": f"{benchmark}@{size}", "pipeline": "baseline", "null_policy": "legacy"}
    return ScoreRow(
        **{
            "run_id": f"{model}@@{run_tag}",
            "model": model,
            "run_tag": run_tag,
            "judge": judge,
            "benchmark": benchmark,
            "score": score,
            "sd_questions": 1.25,
            **counts,
            **names,
            **fields,
        }
    )


def run(base, **fields):
    return [row(benchmark, base + index / 10, **fields) for index, benchmark in enumerate(SIZES)]


def statistic(benchmark="elyza", n_runs=3, **fields):
    one = {"sd": None, "margin_of_error": None, "minimum": 7.5, "maximum": 7.5, "values": (7.5,)}
    several = {"sd": 0.12, "margin_of_error": 0.298, "minimum": 7.4, "maximum": 7.62, "values": (7.4, 7.5, 7.62)}
    names = {"model": "org/model", "base_tag": "base", "judge": "gpt-5.1", "mean": 7.5, "mean_upper": 7.5}
    shared = {"n_replies": 0, "n_shared": 0, **interval_columns(fields.pop("over_questions", None))}
    return {
        "benchmark": benchmark,
        "n_runs": n_runs,
        **names,
        **(several if n_runs > 1 else one),
        **shared,
        **fields,
    }


def with_intervals_of_rows(ranking):
    """As if each score were by one judge of one run."""
    estimates = [[row.over_questions for row in line.rows if row.over_questions] for line in ranking.standings]
    lines = [
        replace(line, over_questions=mean_of_estimates(own) if len(own) == len(line.rows) else None)
        for line, own in zip(ranking.standings, estimates, strict=True)
    ]
    return replace(ranking, standings=tuple(lines))


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


def markdown_rows(text):
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]


def test_a_model_is_one_line_with_its_place_mean_benchmarks_and_counts():
    lines = [line.split() for line in board([*run(7, model="low"), *run(8, model="high")]).splitlines()]
    assert lines[0] == ["Judge", "gpt-5.1", "tag", "default", "·", "legacy", "nulls"]
    assert lines[1] == ["elyza", "tengu", "mt_bench", "rakuda"]
    assert lines[2] == ["#", "model", "mean", "@100", "@120", "@60", "@40", "n/N", "failed"]
    assert lines[3:5] == [
        ["1", "high", "8.15", "8.00", "8.10", "8.20", "8.30", "320/320", "0"],
        ["2", "low", "7.15", "7.00", "7.10", "7.20", "7.30", "320/320", "0"],
    ]


def test_scores_out_of_scale_are_counted_beside_the_mean_that_they_are_in():
    outside = board([row(score=9.0, model="m", n_out_of_scale=4), row(score=8.0, model="n")], width=100)
    assert [line.split()[-1] for line in outside.splitlines() if line.split()[1:2] in (["m"], ["n"])] == ["4", "0"]
    assert "scale" not in board([row(model="m")])


def test_judges_are_columns_when_they_are_asked_for():
    rows = [
        *run(7, model="a"),
        *run(6, model="a", judge="other"),
        *run(8, model="b"),
        *run(5, model="b", judge="other"),
    ]
    lines = [line.split() for line in board(rows, by="judge").splitlines()]
    assert lines[1] == ["#", "model", "mean", "gpt-5.1", "other", "n/N", "failed"]
    assert lines[2] == ["1", "a", "6.65", "7.15", "6.15", "640/640", "0"]


def test_eighty_columns_hold_all_four_benchmarks():
    rows = [
        one for model in ("x" * 60, "y") for one in run(7, model=model, over_questions=ESTIMATE, run_tag=f"t{model}")
    ]
    narrow, wide = board(rows), board(rows, wide=True)
    assert max(cell_len(line) for line in narrow.splitlines()) <= 80
    assert narrow.splitlines()[2].split() == ["elyza", "tengu", "bench", "rakuda"]
    assert "Scored: 320/320 samples of a line." in narrow
    assert "n/N" in wide.splitlines()[2]
    assert "not shown" not in narrow + wide


def test_no_two_names_look_alike_in_eighty_columns():
    names = [
        f"my-organisation/model-of-this-summer-{number:03d}-{size}b-instruct-preview"
        for number in range(40)
        for size in (1, 7)
    ]
    lines = board([one for name in names for one in run(7, model=name, over_questions=ESTIMATE)]).splitlines()
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
    rows = [*run(7, over_questions=ESTIMATE), *run(6.9, model="b", over_questions=ESTIMATE, n_failed=1)]
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


def unfinished(benchmark, state, run_tag="july", **failed):
    place = {"model": "m", "run_tag": run_tag, "benchmark": benchmark, "state": state}
    return place | {"who": "", "n_planned": 0, "n_failed": 0, "classes": {}} | failed


FAILED = unfinished("mt_bench", "partial", who="judge j", n_planned=60, n_failed=12, classes={"transient": 12})


def test_notes_and_cost_are_one_line_each_until_they_are_asked_for():
    parts = [FAILED]
    text = board(
        [*run(7), *run(6, model="b")],
        unfinished=parts,
        remarks=["x"],
        tokens=[tokens()],
        replies=[replies()],
        width=200,
    )
    assert text.splitlines()[-3:] == [
        "Notes: 1 remark; 1 run with parts that failed or are missing; 1 refused, 3 truncated, 2 empty answers (--notes).",
        "",
        "Cost: $0.13; 100 calls, 1,000 prompt and 2,000 completion tokens (--cost).",
    ]


def test_of_a_single_model_the_benchmarks_have_all_counts():
    rows = [row("tengu", n_scored=100, n_failed=5, n_excluded=15), row("elyza")]
    assert "100/120" in board(rows)
    lines = [line.split() for line in table(rows).splitlines()]
    assert ["tengu@120", "gpt-5.1", "7.50", "1.25", "100/120", "5", "15"] in lines


def test_of_a_single_model_its_own_table_comes_first_and_tokens_by_stage_last():
    rows = [row("elyza", 7.0), row("tengu", 5.0)]
    text = board(rows, tokens=[tokens(), tokens("judgements")], reused=["m t: 3 of 40 answers are replies of run x."])
    lines = [line.split() for line in text.splitlines()]
    assert lines[1] == ["Benchmark", "Mean", "Std", "Dev", "95", "%", "CI", "Range", "n/N"]
    assert [line[-5:-1] for line in lines[2:5]] == [[mean, "-", "-", "-"] for mean in ("7.00", "5.00", "6.00")]
    assert text.count("between runs") == 1
    assert [line[0] for line in lines[-3:]] == ["Generation", "Judging", "total"]
    assert "3 of 40 answers" in text
    assert "Std Dev" not in board([*rows, *run(7, model="other")])


def test_the_reason_of_missing_intervals_is_said_once():
    rows = [*run(7, over_questions=ESTIMATE, model="a"), *run(6, model="b"), *run(5, model="c")]
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


def test_different_question_sets_are_different_columns_and_said_not_to_compare():
    rows = [row("tengu", model="a"), row("tengu", model="b", question_set="tengu@115", n_planned=115, n_scored=115)]
    text = table(rows)
    assert "@115" in text
    assert "@120" in text
    assert "Scores over different question sets are not comparable: tengu." in text
    assert "not comparable" not in table([row("tengu", model="a"), row("tengu", model="b")])


def test_a_single_run_is_a_row_per_benchmark_and_judge_with_all_counts():
    rows = [*run(7), *run(6, judge="審査員")]
    rows[1] = row("tengu", 7.1, n_scored=115, n_failed=3, n_excluded=2)
    lines = [line.split() for line in table(rows, 80).splitlines()]
    assert ["org/model", "default"] in lines
    assert ["tengu@120", "gpt-5.1", "7.10", "1.25", "115/120", "3", "2"] in lines
    assert ["mean", "of", "4", "gpt-5.1", "7.15", "315/320", "3", "2"] in lines
    assert ["mt_bench@60", "審査員", "6.20", "1.25", "60/60", "0", "0"] in lines


def test_a_question_set_with_a_name_of_its_own_stands_beside_its_benchmark():
    assert "elyza (my questions)" in table([row(question_set="my questions")])


def test_repeated_runs_show_what_is_between_runs_under_titles_that_say_so():
    text = table(run(7), statistics=[statistic("overall"), statistic("rakuda"), statistic("elyza")])
    lines = [line.split() for line in text.splitlines()]
    assert lines[1:4] == [
        ["sd", "95", "%", "CI"],
        ["between", "between", "range"],
        ["benchmark", "judge", "mean", "runs", "runs", "over", "runs", "runs"],
    ]
    assert lines[4] == ["elyza", "gpt-5.1", "7.50", "0.12", "±0.30", "7.40–7.62", "3"]
    assert lines[6][:3] == ["mean", "of", "2"]


def test_statistics_over_runs_have_both_ends_where_they_are_apart():
    assert "0.60–0.75" in table([], statistics=[statistic(mean=0.6, mean_upper=0.75)])
    assert "–0.61" not in table([], statistics=[statistic(mean=0.6, mean_upper=0.61)])


def test_several_rankings_say_the_same_remark_once():
    rows = [row("elyza", model=model, judge="rule:x", question_set=asked, score_upper=0.9, n_undecided=2, score=0.5)
            for model, asked in (("a", "elyza@100"), ("b", "elyza@100"), ("c", "elyza@9"), ("d", "elyza@9"))]  # fmt: skip
    text = board(rows, width=200)
    assert text.count("Judge rule:x") == 2
    assert text.count("Undecided answers are wrong") == 1


def test_one_run_has_no_spread():
    lines = [line.split() for line in table([], statistics=[statistic(n_runs=1)]).splitlines()]
    assert ["elyza", "gpt-5.1", "7.50", "-", "-", "-", "1"] in lines


def tokens(stage="answers", benchmark="elyza", calls=100, *, prompt=1000, completion=2000, usd=0.125, **fields):
    priced = {"price_sources": ["genai-prices 0.2.3"], "first_day": "2026-07-01", "last_day": "2026-07-01"}
    names = {"model": "m", "run_tag": "a", "stage": stage, "benchmark": benchmark}
    numbers = {"calls": calls, "prompt_tokens": prompt, "completion_tokens": completion, "cost_usd": usd}
    rare = {"cached_tokens": None, "reasoning_tokens": None, "calls_without_usage": 0, "calls_without_price": 0}
    rare |= {"calls_at_recorded_price": 0, "models_without_price": []}
    return {**names, **numbers, **rare, **priced, **fields}


def cells_of(text):
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def test_tokens_and_cost_have_a_line_for_each_stage_and_benchmark_and_a_total():
    rows = [tokens(), tokens(benchmark="tengu", usd=0.0625), tokens("judgements", usd=1.5, first_day="2026-06-30")]
    text, _, by_stage = table(run(7), tokens=rows).partition("By stage\n")
    assert cells_of(by_stage)[1:] == [
        ["Generation", "200", "2,000", "4,000", "0.1875"],
        ["Judging", "100", "1,000", "2,000", "1.5000"],
        ["total", "300", "3,000", "6,000", "1.6875"],
    ]
    assert cells_of(text.rstrip())[-6:] == [
        ["stage", "benchmark", "calls", "prompt tokens", "completion tokens", "cost in USD"],
        ["answers", "elyza", "100", "1,000", "2,000", "0.1250"],
        ["answers", "tengu", "100", "1,000", "2,000", "0.0625"],
        ["judgements", "elyza", "100", "1,000", "2,000", "1.5000"],
        ["total", "300", "3,000", "6,000", "1.6875"],
        ["Prices: genai-prices 0.2.3, as known now (2026-06-30 to 2026-07-01)."],
    ]


def test_cached_and_reasoning_tokens_are_shown_when_some_are_known():
    rows = [tokens(cached_tokens=700), tokens("judgements", reasoning_tokens=0)]
    lines = cells_of(table(run(7), tokens=rows, width=120))
    assert lines[-5][4:] == ["completion tokens", "cached tokens", "cost in USD"]
    assert lines[-4][4:] == ["2,000", "700", "0.1250"]
    assert lines[-3][4:] == ["2,000", "-", "0.1250"]
    assert lines[-2][3:] == ["4,000", "700", "0.2500"]


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


def test_without_any_price_the_note_says_so():
    text = table(run(7), tokens=[tokens(usd=None, price_sources=[], calls_without_price=1)], width=120)
    assert text.splitlines()[-1].strip() == (
        "Prices: none is known (2026-07-01); 1 call of unknown price or tokens are not in the sum."
    )


def test_tokens_of_several_runs_name_the_run_and_of_many_leave_out_the_benchmark():
    def rows_of(n_runs):
        return [
            tokens(stage, benchmark, run_tag=f"t{number}")
            for number in range(n_runs)
            for stage in ("answers", "judgements")
            for benchmark in SIZES
        ]

    few, many = (table(run(7), tokens=rows_of(n_runs), width=120) for n_runs in (5, 6))
    assert ["m t4", "judgements", "rakuda", "100", "1,000", "2,000", "0.1250"] in cells_of(few)
    assert ["m t5", "judgements", "400", "4,000", "8,000", "0.5000"] in cells_of(many)
    assert ["total", "4,000", "40,000", "80,000", "5.0000"] in cells_of(few)
    assert ["total", "4,800", "48,000", "96,000", "6.0000"] in cells_of(many)
    assert as_markdown(report(run(7), tokens=rows_of(6))).count("| judgements | rakuda ") == 6


def test_every_format_for_programs_has_the_tokens():
    shown = report(run(7), tokens=[tokens(cached_tokens=5, calls_without_price=2), tokens("=judgements")])
    (first, second) = (one for one in csv.DictReader(io.StringIO(as_csv(shown))) if one["row"] == "tokens")
    assert (first["stage"], first["benchmark"], first["calls"], first["cost_usd"]) == (
        "answers",
        "elyza",
        "100",
        "0.125",
    )
    assert (first["cached_tokens"], first["calls_without_price"], first["score"]) == ("5", "2", "")
    assert (first["price_sources"], second["stage"]) == ("genai-prices 0.2.3", "'=judgements")
    assert json.loads(as_json(shown))["tokens"][0] == shown.tokens[0]
    *_, answers, judgements, total = markdown_rows(as_markdown(shown).split("\n\n")[-4])
    assert [cell.strip() for cell in answers] == ["answers", "elyza", "100", "1,000", "2,000", "5", "0.1250 + unknown"]
    assert [cell.strip() for cell in total] == ["total", "", "200", "2,000", "4,000", "5", "0.2500 + unknown"]
    assert len(judgements) == 7
    assert "Prices: genai-prices 0.2.3" in as_markdown(shown)


@pytest.mark.parametrize("policy", ["legacy", "zero", "strict"])
def test_policy_pipeline_and_scales_stand_below(policy):
    text = table(run(7), policy=policy, pipeline="lang_mixing@1")
    assert f"Null policy {policy}: " in text
    assert "Pass pipeline: lang_mixing@1." in text
    assert "elyza 1-5, reported ×2; tengu 0-10; mt_bench 1-10; rakuda 1-10" in text


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("judges", [1, 2])
def test_no_number_is_cut_at_any_width(width, judges):
    rows = [
        one
        for judge in ("審査員モデル-72B", "gpt-5.1-2025-11-13")[:judges]
        for model in (JAPANESE, "b")
        for one in run(7, model=model, judge=judge)
    ]
    rows[1] = row("tengu", 10.0, model=JAPANESE, judge=rows[1].judge, n_scored=99, n_failed=10, n_excluded=11)
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


def test_columns_line_up_under_japanese_names():
    lines = board([*run(7, model="日本語"), *run(6, model="abc")]).splitlines()
    scores = [line for line in lines if "7.15" in line or "6.15" in line]
    ends = {cell_len(re.split(r"[67]\.15", line)[0]) for line in scores}
    assert len(scores) == 2
    assert len(ends) == 1


def test_without_rows_the_table_says_so():
    assert table([]).startswith("No scores.")


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


def test_json_is_one_document_with_the_rows_as_they_are():
    rows = [row(model=HOSTILE), row("tengu", math.nan, sd_questions=None)]
    document = json.loads(
        as_json(report(rows, statistics=[statistic(n_runs=1)], tokens=[tokens(prompt=None, usd=None)]))
    )
    assert list(document) == [
        *("policy", "pipeline", "rows", "means", "statistics"),
        *("judge_pairs", "unfinished", "tokens", "remarks", "over", "replies"),
        *("rankings", "not_ranked", "strategies"),
    ]
    fields = row(model=HOSTILE).columns()
    assert {name: document["rows"][0][name] for name in fields} == fields
    assert "judge_prompt" not in document["rows"][0]
    assert document["rows"][1]["score"] is None
    mean = document["means"][0]
    assert (mean["model"], mean["mean"], mean["asked"]) == ("org/model", None, ["tengu@120"])
    mean = document["means"][1]
    assert (mean["model"], mean["mean"], mean["n_benchmarks"]) == (HOSTILE, 7.5, 1)
    assert document["statistics"][0]["sd"] is None
    assert document["statistics"][0]["values"] == [7.5]
    assert document["tokens"][0]["prompt_tokens"] is None


def test_csv_is_one_table_of_rows_and_statistics():
    shown = report([row(model="日本,語\n"), row("tengu", None)], statistics=[statistic("overall")])
    first, second, _, mean, third = csv.DictReader(io.StringIO(as_csv(shown)))
    assert (first["row"], first["model"], first["score"], first["n_planned"]) == ("score", "日本,語␊", "7.5", "100")
    assert second["score"] == ""
    assert (mean["row"], mean["benchmark"], mean["score"], mean["n_benchmarks"]) == ("mean", "overall", "7.5", "1")
    assert (third["row"], third["run_tag"], third["benchmark"], third["score"]) == (
        "statistic",
        "base",
        "overall",
        "7.5",
    )
    assert (third["sd_runs"], third["values"], third["n_planned"]) == ("0.12", "7.4 7.5 7.62", "")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", " =1", "\t=1"])
def test_csv_texts_are_no_formulas(name):
    cells, _ = csv.DictReader(io.StringIO(as_csv(report([row(model=name)]))))
    assert cells["model"].lstrip()[0] not in "=+-@＝＋－＠"
    assert cells["model"].removeprefix("'") == name.replace("\t", "␉")


def test_csv_leaves_ordinary_names_alone():
    cells, _ = csv.DictReader(io.StringIO(as_csv(report([row(model="org/a-b=c")]))))
    assert cells["model"] == "org/a-b=c"


def test_markdown_has_the_same_rows_and_escapes_what_means_something():
    name = "a|b<c>[d](e)`*f*"
    text = as_markdown(report([row(model=name), row("tengu", None, model=name)], statistics=[statistic()]))
    statistics, scores = [list(markdown_rows(part)) for part in text.split("\n\n")[:2]]
    assert [len(cells) for cells in (*statistics, *scores)] == [9] * 8
    assert scores[1][4].strip().endswith(":")
    assert scores[2][0].strip() == "a\\|b\\<c\\>\\[d\\](e)\\`\\*f\\*"
    assert [cell.strip() for cell in scores[3][2:]] == ["tengu@120", "gpt-5.1", "-", "1.25", "120/120", "0", "0"]
    assert "- Null policy legacy: samples without a score are left out." in text
    assert "95 % CI between runs" in text


ESTIMATE = Estimate(7.5, Interval(7.25, 7.75), 100, 0.125, 99)


def test_both_uncertainties_are_shown_under_names_of_their_own():
    rows = [row(over_questions=ESTIMATE, model=model) for model in "ab"]
    grid = table(rows)
    assert grid.count("7.25–7.75") == 4
    text = table(rows[:1], statistics=[statistic(over_questions=ESTIMATE)])
    assert ["elyza@100", "gpt-5.1", "7.50", "7.25–7.75", "100/100", "0", "0"] in [
        line.split() for line in text.splitlines()
    ]
    (line,) = [line.split() for line in text.splitlines() if line.startswith("elyza ")]
    assert line[4:6] == ["±0.30", "7.25–7.75"]
    for note in ("95 % CI over questions (a–b): how general", "95 % CI between runs (±): how stable"):
        assert note in text
    assert "between runs (±)" not in grid
    first, *_ = csv.DictReader(io.StringIO(as_csv(report(rows))))
    assert (first["ci_questions_lower"], first["ci_questions_upper"], first["n_questions"]) == ("7.25", "7.75", "100")


def test_the_mean_has_an_interval_only_if_each_benchmark_has_one():
    (mean,) = report([row(over_questions=ESTIMATE), row("tengu", over_questions=ESTIMATE), row("rakuda", None)]).means
    assert mean.over_questions.standard_error == pytest.approx(0.125 / math.sqrt(2))
    (mean,) = report([row(over_questions=ESTIMATE), row("tengu")]).means
    assert mean.over_questions is None


def test_the_change_by_passes_stands_beside_the_score():
    rows = [row(score=7.0, baseline_score=7.5), row("tengu", 6.0, baseline_score=6.0)]
    (line,) = [line.split() for line in table(rows, pipeline="repetition").splitlines() if line.startswith("mean of 2")]
    assert line[3:8] == ["gpt-5.1", "6.50", "6.75", "-0.25", "220/220"]
    grid = table([*rows, row(model="b", baseline_score=7.0)], pipeline="repetition")
    assert "-0.50" in grid
    assert "+0.50" in grid
    assert "Signed numbers are the change from baseline" in grid
    assert json.loads(as_json(report(rows)))["rows"][0]["change"] == -0.5


def test_the_agreement_of_judges_is_a_table():
    pair = {"judge_a": "j", "judge_b": HOSTILE, "n": 1234, "pearson": 0.9, "spearman": None}
    pair |= {"exact_share": 0.5, "mean_difference": -1.0}
    lines = [line.split() for line in table(run(7), width=200, judge_pairs=[pair]).splitlines()]
    (cells,) = [line for line in lines if line[:1] == ["j"]]
    assert cells[-5:] == ["1,234", "0.90", "-", "50%", "-1.00"]
    rows = list(csv.DictReader(io.StringIO(as_csv(report([], judge_pairs=[pair])))))
    assert [(one["row"], one["judge"]) for one in rows] == [("judge_pair", "j")]


def test_what_is_not_complete_is_said_with_its_part_and_its_failures():
    parts = [
        FAILED,
        unfinished("tengu", "error: no \x1b[31mmoney"),
    ]
    shown = report(run(7), unfinished=parts)
    line = (
        "Not complete: m july: mt_bench partial: judge j: 12 of 60 failed (transient 12). tengu error: no ␛[31mmoney."
    )
    assert line in table(run(7), unfinished=parts, width=200)
    assert "Not complete: m july" in as_markdown(shown)
    assert json.loads(as_json(shown))["unfinished"][0]["classes"] == {"transient": 12}
    rows = [one for one in csv.DictReader(io.StringIO(as_csv(shown))) if one["row"] == "unfinished"]
    assert [(one["benchmark"], one["n_failed"]) for one in rows] == [("mt_bench", "12"), ("tengu", "0")]


def test_of_many_runs_that_are_not_complete_the_rest_is_counted():
    parts = [unfinished("tengu", "partial", f"t{number}") for number in range(13)]
    text = table(run(7), unfinished=parts, width=200)
    assert text.count("tengu partial.") == 10
    assert "Not complete: 3 more runs" in text


def test_means_are_unweighted_and_best_first():
    nothing = [row(benchmark, None, model="c") for benchmark in SIZES]
    means = report([*run(6, model="a"), *nothing, *run(7, model="b")]).means
    assert [(mean.model, mean.score and round(mean.score, 6), mean.n_benchmarks) for mean in means] == [
        ("b", 7.15, 4),
        ("a", 6.15, 4),
        ("c", None, 0),
    ]


def test_a_run_that_was_asked_less_is_ranked_with_none_that_was_asked_all():
    limited = [one._replace(n_asked=10, n_planned=10) for one in run(9, model="limited")]
    shown = report([*limited, *run(7, model="a"), *run(8, model="b")])

    assert [[mean.model for mean in group] for group in shown.groups] == [["b", "a"], ["limited"]]
    text = table(shown.rows)
    assert "elyza@100, 10 asked" in text
    assert text.index("b  default") < text.index("limited  default")
    assert board(shown.rows).index("1  b ") < board(shown.rows).index("limited default 9.15: elyza@100, 10 asked")
    means = json.loads(as_json(shown))["means"]
    assert means[2]["asked"][0] == "elyza@100, 10 asked"


def test_under_strict_a_mean_is_undefined_as_soon_as_one_part_is():
    rows = [row("elyza", 8.0, null_policy="strict"), row("tengu", None, null_policy="strict")]
    (mean,) = report(rows, policy="strict").means
    assert (mean.score, mean.n_benchmarks) == (None, 0)


def test_scores_out_of_scale_are_counted_beside_their_means():
    rows = [row("elyza", n_out_of_scale=2), row("tengu"), row("elyza", model="other")]
    (line,) = [line.split() for line in table(rows[:2]).splitlines() if line.startswith("mean of 2")]
    assert line[-1] == "2"
    assert "2 scores outside of the scale" in table(rows)
    shown = report(rows)
    assert [mean["n_out_of_scale"] for mean in json.loads(as_json(shown))["means"]] == [2, 0]
    assert next(csv.DictReader(io.StringIO(as_csv(shown))))["n_out_of_scale"] == "2"


def test_two_runs_show_their_range_and_no_margin():
    two = statistic(n_runs=2, sd=1.414, margin_of_error=12.71, minimum=6.0, maximum=8.0, values=(6.0, 8.0))
    text = table(run(7), statistics=[two])
    assert "12.71" not in text
    assert "6.00–8.00" in text
    assert json.loads(as_json(report(run(7), statistics=[two])))["statistics"][0]["margin_of_error"] == 12.71


def test_shared_replies_are_said_below_the_spread_that_they_narrow():
    text = " ".join(table(run(7), statistics=[statistic(n_replies=300, n_shared=100)]).split())
    assert "100 of the 300 replies (answers and judgements) of elyza are the reply to another one's call" in text


def test_categories_that_would_widen_the_interval_are_said_and_used():
    rows = [row("tengu", over_questions=ESTIMATE, n_categories=23, over_categories=1.74)]
    assert "tengu has 23 categories" in table(rows)
    assert "1.74 times as wide (--over categories)" in " ".join(table(rows).split())
    several = [*rows, row("tengu", over_questions=ESTIMATE, n_categories=23, over_categories=1.54, model="other")]
    assert "1.64 times as wide in the median" in " ".join(table(several).split())
    assert "--over categories" not in table(rows, over="categories")
    assert "over categories (a–b)" in table(rows, over="categories")


def replies(benchmark="elyza", **fields):
    names = {"run_id": "org/model@@default", "model": "org/model", "run_tag": "default", "judge": "gpt-5.1"}
    counts = {"n_refused": 1, "n_filtered": 0, "n_truncated": 3, "n_empty": 2, "n_out_of_scale": 4, "n_retried": 5}
    means = {"legacy": 8.0, "zero": 7.5, "strict": None}
    return {**names, "benchmark": benchmark, "n_answers": 100, **counts, **means, **fields}


def test_below_the_scores_stands_what_became_of_the_replies_and_what_other_policies_would_change():
    rows = [replies(), replies("tengu", zero=7.9, n_retried=0)]
    lines = [line.split() for line in table(run(7), replies=rows).splitlines()]
    assert ["gpt-5.1", "200", "2", "0", "6", "4", "8", "5", "-0.30", "undefined"] in lines
    (first, _) = [
        one for one in csv.DictReader(io.StringIO(as_csv(report([], replies=rows)))) if one["row"] == "replies"
    ]
    assert (first["n_truncated"], first["zero"], first["strict"]) == ("3", "7.5", "")
    assert json.loads(as_json(report([], replies=rows)))["replies"][0]["n_refused"] == 1


def test_a_score_of_zero_counts_in_the_mean_and_one_that_is_no_number_does_not():
    (mean,) = report([row("elyza", 0.0), row("tengu", 5.0), row("rakuda", math.nan)]).means
    assert (mean.score, mean.n_benchmarks) == (2.5, 2)
