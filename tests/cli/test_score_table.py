import csv
import io
import json
import math
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from shaberi_dagster.cli.score_table import (
    OUTPUT_FORMATS,
    RunStatistic,
    ScoreReport,
    ScoreRow,
    TokenRow,
    as_csv,
    as_json,
    as_markdown,
    write_scores,
)

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
    names = {"model": "org/model", "base_tag": "base", "judge": "gpt-5.1", "mean": 7.5}
    return RunStatistic(
        **{"benchmark": benchmark, "n_runs": n_runs, **names, **(several if n_runs > 1 else one), **fields}
    )


def report(rows, **fields):
    return ScoreReport(**{"policy": "legacy", "pipeline": "baseline", "rows": rows, **fields})


def table(rows, width=120, **fields):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    write_scores(report(rows, **fields), "table", console)
    return console.file.getvalue()


def markdown_rows(text):
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]


def test_several_runs_are_one_row_each_with_a_column_per_benchmark():
    text = table([*run(7, model="low"), *run(8, model="high")])
    lines = text.splitlines()
    assert lines[0].split() == ["elyza", "tengu", "mt_bench", "rakuda"]
    assert lines[1].split() == ["model,", "tag,", "judge", "@100", "@120", "@60", "@40", "mean", "failed"]
    assert lines[2].split() == ["high", "8.00", "8.10", "8.20", "8.30", "8.15", "0"]
    assert lines[3].split() == ["default", "100/100", "120/120", "60/60", "40/40", "mean", "of", "4"]
    assert lines[4].split() == ["judge", "gpt-5.1"]
    assert text.index("high") < text.index("low")


def test_failures_and_exclusions_stand_under_their_score():
    rows = [row("tengu", n_scored=100, n_failed=5, n_excluded=15), row("elyza"), row("elyza", model="other")]
    text = table(rows)
    assert "100/120" in text
    assert "5 failed" in text
    assert "15 excluded" in text
    assert "0 failed" not in text


def test_a_mean_says_over_how_many_benchmarks_it_is():
    rows = [
        *run(7, model="all"),
        row("elyza", 9, model="one"),
        row("rakuda", None, model="one"),
        row("tengu", None, model="none"),
    ]
    text = table(rows)
    assert text.index("mean of 1") < text.index("mean of 4") < text.index("mean of 0")  # best first, none last
    assert "9.00" in text
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
    assert lines[1] == ["sd", "between", "95", "%", "CI", "range", "over"]
    assert lines[2] == ["benchmark", "judge", "mean", "runs", "between", "runs", "runs", "runs"]
    assert lines[3] == ["elyza", "gpt-5.1", "7.50", "0.12", "±0.30", "7.40–7.62", "3"]
    assert lines[5][:3] == ["mean", "of", "2"]


def test_one_run_has_no_spread():
    lines = [line.split() for line in table([], statistics=[statistic(n_runs=1)]).splitlines()]
    assert ["elyza", "gpt-5.1", "7.50", "-", "-", "-", "1"] in lines


def test_unknown_tokens_and_costs_are_called_unknown():
    tokens = [
        TokenRow("m", "a", "answers", 320, 1000, 2000, 0.125),
        TokenRow("m", "b", "answers", 320, None, 3000, None),
        TokenRow("m", "a", "judgements", 640, None, None, None),
    ]
    lines = [re.split(r"\s{2,}", line.strip()) for line in table(run(7), tokens=tokens).splitlines()]
    assert ["answers", "640", "1,000 + unknown", "5,000", "0.1250 + unknown"] in lines
    assert ["judgements", "640", "unknown", "unknown", "unknown"] in lines


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
    tokens = [TokenRow("m", "a", "answers", 10**6, 10**9, 10**9, 12345.6789)]
    text = table(rows, width, tokens=tokens, statistics=[statistic(model=JAPANESE, judge="審査員モデル")])
    for number in ("10.00", "99/120", "7.20", "60/60", "1,000,000,000", "12345.6789", "±0.30", "7.40–7.62"):
        assert number in text
    assert "…" not in text
    assert set("株式会社例日本語大規模言語指示調整済") <= set(text)
    if width >= 80:
        assert all(cell_len(line) <= width for line in text.splitlines())


def test_columns_line_up_under_japanese_names():
    lines = table([*run(7, model="日本語"), *run(6, model="abc")], 120).splitlines()
    scores = [line for line in lines if "7.00" in line or "6.00" in line]
    ends = {cell_len(re.split(r"[67]\.00", line)[0]) for line in scores}
    assert len(scores) == 2
    assert len(ends) == 1


def test_without_rows_the_table_says_so():
    assert table([]).startswith("No scores.")


@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
def test_hostile_names_reach_no_terminal_in_any_format(output_format):
    rows = [row(model=HOSTILE, judge=HOSTILE, run_tag="a"), row(model=HOSTILE, run_tag="b")]
    shown = report(
        rows, statistics=[statistic(model=HOSTILE)], tokens=[TokenRow(HOSTILE, "a", HOSTILE, 1, None, None, None)]
    )
    console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    write_scores(shown, output_format, console)
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
        as_json(
            report(rows, statistics=[statistic(n_runs=1)], tokens=[TokenRow("m", "a", "answers", 1, None, 2, None)])
        )
    )
    assert list(document) == ["policy", "pipeline", "rows", "means", "statistics", "tokens", "remarks"]
    assert document["rows"][0] == row(model=HOSTILE).__dict__
    assert document["rows"][1]["score"] is None
    assert document["means"][0] == {
        "model": HOSTILE, "run_tag": "default", "judge": "gpt-5.1", "mean": 7.5, "n_benchmarks": 1,
    }  # fmt: skip
    assert document["statistics"][0]["sd"] is None
    assert document["statistics"][0]["values"] == [7.5]
    assert document["tokens"][0]["prompt_tokens"] is None


def test_csv_is_one_table_of_rows_and_statistics():
    shown = report([row(model="日本,語\n"), row("tengu", None)], statistics=[statistic("overall")])
    first, second, third = csv.DictReader(io.StringIO(as_csv(shown)))
    assert (first["row"], first["model"], first["score"], first["n_planned"]) == ("score", "日本,語␊", "7.5", "100")
    assert second["score"] == ""
    assert (third["row"], third["run_tag"], third["benchmark"], third["score"]) == (
        "statistic",
        "base",
        "overall",
        "7.5",
    )
    assert (third["sd_runs"], third["values"], third["n_planned"]) == ("0.12", "7.4 7.5 7.62", "")


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", " =1", "\t=1"])
def test_csv_texts_are_no_formulas(name):
    (cells,) = csv.DictReader(io.StringIO(as_csv(report([row(model=name)]))))
    assert cells["model"].lstrip()[0] not in "=+-@＝＋－＠"
    assert cells["model"].removeprefix("'") == name.replace("\t", "␉")


def test_csv_leaves_ordinary_names_alone():
    (cells,) = csv.DictReader(io.StringIO(as_csv(report([row(model="org/a-b=c")]))))
    assert cells["model"] == "org/a-b=c"


def test_markdown_has_the_same_rows_and_escapes_what_means_something():
    text = as_markdown(report([row(model="a|b<c>[d](e)`*f*"), row("tengu", None)], statistics=[statistic()]))
    statistics, scores = [list(markdown_rows(part)) for part in text.split("\n\n")[:2]]
    assert [len(cells) for cells in (*statistics, *scores)] == [9] * 9
    assert scores[1][4].strip().endswith(":")
    assert scores[2][0].strip() == "a\\|b\\<c\\>\\[d\\](e)\\`\\*f\\*"
    assert [cell.strip() for cell in scores[4][2:]] == ["tengu@120", "gpt-5.1", "-", "1.25", "120/120", "0", "0"]
    assert "- Null policy legacy: samples without a score are left out." in text
    assert "95 % CI between runs" in text


def test_means_are_unweighted_and_best_first():
    means = report([*run(7, model="b"), row("elyza", 9, model="a"), row("tengu", None, model="c")]).means
    assert [(mean.model, mean.mean and round(mean.mean, 6), mean.n_benchmarks) for mean in means] == [
        ("a", 9.0, 1),
        ("b", 7.15, 4),
        ("c", None, 0),
    ]


def test_a_score_of_zero_counts_in_the_mean_and_one_that_is_no_number_does_not():
    (mean,) = report([row("elyza", 0.0), row("tengu", 5.0), row("rakuda", math.nan)]).means
    assert (mean.mean, mean.n_benchmarks) == (2.5, 2)
