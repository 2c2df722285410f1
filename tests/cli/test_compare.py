import csv
import io
import json
from collections import defaultdict
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from shaberi_dagster.reports.comparison import compare as read_comparison
from shaberi_dagster.reports.comparison import comparison_result
from shaberi_dagster.reports.requests import ComparisonRequest, ScoreSelection
from shaberi_dagster.reports.scores import read_scores
from shaberi_dagster.reports.write import write
from shaberi_dagster.statistics.comparison import compare as compare_scores
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import run_id_of

pytestmark = pytest.mark.integration

NOW = {"created_at": datetime(2026, 7, 1, tzinfo=UTC)}
MULTIPLIER = {"elyza": 2.0}


def scores(seed, n=20, shift=0):
    """Whole scores from 1 to 10 that go with those of another seed."""
    difficulty = np.random.default_rng(0).normal(size=n)
    own = np.random.default_rng(seed).normal(size=n)
    return np.clip(np.round(6 + shift + 1.5 * difficulty + own), 1, 10).tolist()


class Evaluations:
    """What runs scored.

    Attributes:
        rows: Of each table, those that `write` has not written yet.
    """

    def __init__(self):
        self.rows = defaultdict(list)

    def add(
        self, model, values, *, tag="t", judge="a", benchmark="tengu", first=0, run_number=None, pipeline="baseline",
        question_set=None, prompt="p", source=None, **generation,
    ):  # fmt: skip
        """The scores (None: missing) of the questions from `first` on."""
        run = {"run_id": run_id_of(model, tag), "model": model, "run_tag": tag}
        own = run | {"benchmark": benchmark, "question_set": question_set or f"{benchmark}@99", "judge": judge} | NOW
        samples = [
            {"question_id": f"{benchmark}-{first + index}", "sample_index": 0, "score": value}
            | {"status": "error" if value is None else "ok"}
            for index, value in enumerate(values)
        ]
        rows = [own | sample | {"pipeline": pipeline, "judge_config_hash": f"config-{prompt}"} for sample in samples]
        self._append("scores", rows)
        hashes = {
            "judge_config_hash": f"config-{prompt}",
            "judge_prompt_hash": prompt and f"prompt-{prompt}",
            "superseded": False,
        }
        self._append("judgements", [own | sample | hashes for sample in samples])
        counts = {"n_planned": len(values), "n_scored": sum(value is not None for value in values)}
        counts |= {"n_failed": counts["n_planned"] - counts["n_scored"], "n_excluded": 0}
        base = {"base_tag": tag.split("-run", maxsplit=1)[0], "run_number": run_number}
        scale = {"scale_minimum": 1.0, "reported_multiplier": MULTIPLIER.get(benchmark, 1.0)}
        metric = own | counts | base | scale | {"pipeline": pipeline, "null_policy": "legacy", "score": 5.0}
        self._append("metrics", [metric])
        settings = {"temperature": 0.0, "prompt_hash": "g"} | generation | {"question_set": own["question_set"]}
        spec = json.dumps({"benchmarks": {benchmark: settings}})
        self._append("runs", [run | base | {"source": source, "spec": spec, "spec_hash": "", "status": "complete", "updated_at": NOW["created_at"]} | NOW])  # fmt: skip
        return self

    def questions(self, question_set, numbers, benchmark="tengu", categories=None):
        named = {"benchmark": benchmark, "question_set": question_set, "question_set_sha256": ""} | NOW
        rows = [
            named | {"question_id": f"{benchmark}-{n}", "position": n + 1, "question": str(n)}
            | {"category": categories[n] if categories else None}
            for n in numbers
        ]  # fmt: skip
        self._append("questions", rows)
        return self

    def answers(self, model, requests, tag="t", benchmark="tengu"):
        run = {"run_id": run_id_of(model, tag), "model": model, "run_tag": tag, "benchmark": benchmark} | NOW
        rows = [
            run | {"question_id": f"{benchmark}-{n}", "sample_index": 0, "status": "ok", "request_hash": request}
            for n, request in enumerate(requests)
        ]
        self._append("answers", rows)
        return self

    def _append(self, table, rows):
        self.rows[table] += rows

    def write(self, append):
        """Give each table's rows to `append`."""
        for table, rows in self.rows.items():
            append(table, rows)
        self.rows.clear()


@pytest.fixture
def lake():
    return Evaluations()


@pytest.fixture
def compared(lake, views, capsys):
    def run(a="m", b="n", output_format="json", *, brief=False, **choices):
        lake.write(views.add)
        report = read_comparison(views.catalog, ComparisonRequest(a, b, **choices))
        write(comparison_result(report, brief=brief), output_format, Console())
        out = capsys.readouterr().out
        return json.loads(out) if output_format == "json" else out

    return run


def only_rows(report):
    (section,) = report["comparisons"]
    return section["rows"]


def said(compared):
    """What stands on the terminal, whatever its width."""
    return " ".join(compared(output_format="table").split())


def expected(a, b):
    frame = pl.DataFrame({"benchmark": ["tengu@99"] * len(a), "score_a": a, "score_b": b})
    return compare_scores(frame).rows[0]


def test_two_models_are_compared_question_by_question(lake, compared):
    a, b = scores(1, shift=2), scores(2)
    lake.add("m", a).add("n", b)

    report = compared()

    (row,) = only_rows(report)
    reference = expected(a, b)
    assert (row["question_set"], row["n"], row["verdict"]) == ("tengu@99", 20, "better")
    assert row["difference"] == pytest.approx(np.mean(a) - np.mean(b))
    assert (row["lower"], row["upper"]) == pytest.approx((reference.interval.lower, reference.interval.upper))
    assert (row["p_value"], row["exact"]) == (reference.p_value, True)
    assert (report["a"]["model"], report["b"]["run_tags"]) == ("m", ["t"])
    assert report["warnings"] == []


def test_scores_are_on_the_reported_scale_and_overall_is_the_mean_of_benchmarks(lake, compared):
    lake.add("m", [3.0, 4.0], benchmark="elyza").add("m", [5.0] * 4, benchmark="tengu")
    lake.add("n", [2.0, 2.0], benchmark="elyza").add("n", [4.0, 5.0, 5.0, 5.0], benchmark="tengu")

    elyza, tengu, overall = only_rows(compared())

    assert (elyza["question_set"], elyza["mean_a"], elyza["mean_b"]) == ("elyza@99", 7.0, 4.0)
    assert tengu["difference"] == 0.25
    assert (overall["question_set"], overall["difference"], overall["n"]) == ("overall", (3 + 0.25) / 2, 6)


def test_only_common_questions_count_and_the_others_are_said(lake, compared):
    lake.add("m", [5.0, 6.0, None, 8.0]).add("n", [6.0, None, 7.0, 7.0, 7.0], first=1)

    (row,) = only_rows(compared())

    assert (row["n"], row["mean_a"], row["mean_b"]) == (2, 7.0, 6.5)
    left_out = {name: row[name] for name in ("only_a", "only_b", "without_score_a", "without_score_b")}
    assert left_out == {"only_a": 1, "only_b": 2, "without_score_a": 1, "without_score_b": 1}
    assert "1 only A has, 2 only B has, 1 without a score of A, 1 without a score of B" in said(compared)


def test_under_zero_a_missing_score_is_the_scales_minimum(lake, compared):
    lake.add("m", [5.0, None, 6.0], benchmark="elyza").add("n", [5.0, 5.0, 5.0], benchmark="elyza")

    report = compared(null_policy="zero")

    (row,) = only_rows(report)
    assert (row["n"], row["mean_a"], report["null_policy"]) == (3, pytest.approx((10 + 2 + 12) / 3), "zero")


def test_strict_refuses_missing_scores(lake, compared):
    lake.add("m", [5.0, None, 6.0]).add("n", [5.0, 5.0, 5.0])
    with pytest.raises(ConfigurationError, match="1 scores of A and 0 of B"):
        compared(null_policy="strict")


def test_several_judges_are_shown_each_and_as_the_mean_of_those_that_both_have(lake, compared):
    lake.add("m", [8.0, 6.0, 7.0], judge="a").add("m", [4.0, 4.0, None], judge="b").add("m", [1.0] * 3, judge="c")
    lake.add("n", [7.0, 6.0, 5.0], judge="a").add("n", [2.0, 4.0, 3.0], judge="b")

    mean, first, second = compared()["comparisons"]

    assert mean["judges"] == ["a", "b"]
    row = mean["rows"][0]
    assert (row["n"], row["mean_a"], row["mean_b"]) == (3, 6, pytest.approx(14.5 / 3))
    assert row["judge_questions"] == {"a": 3, "b": 2}
    assert [(one["judges"], one["rows"][0]["n"]) for one in (first, second)] == [(["a"], 3), (["b"], 2)]
    assert [section["judges"] for section in compared(judges=["b"])["comparisons"]] == [["b"]]


def test_questions_that_one_judge_missed_still_count_by_the_other_and_the_gap_is_said(lake, compared):
    a, b = scores(1, n=40, shift=1), scores(2, n=40)
    for model, values, kept in (("m", a, 0), ("n", b, 32)):
        lake.add(model, values)
        # The second judge favours B on the few questions that it scored of both.
        lake.add(model, [1.0 if model == "m" else 10.0 if n >= kept else None for n in range(40)], judge="b")

    report = compared()
    mean, alone, other = [section["rows"][0] for section in report["comparisons"]]

    assert (mean["n"], alone["n"], other["n"]) == (40, 40, 8)
    assert other["difference"] == -9
    by_question = [x - y if n < 32 else (x + 1) / 2 - (y + 10) / 2 for n, (x, y) in enumerate(zip(a, b, strict=True))]
    assert mean["difference"] == pytest.approx(np.mean(by_question))
    assert mean["judge_questions"] == {"a": 40, "b": 8}
    assert "judge b scored both on 8 of 40 questions of tengu@99" in report["warnings"]
    assert "Questions of tengu@99 with both scores, of 40: a 40, b 8." in said(compared)
    assert any("nothing about other judges" in note for note in report["notes"])


def test_scores_out_of_scale_are_counted_beside_the_means_that_they_are_in(lake, compared):
    lake.add("m", [12.0, 5.0, 6.0]).add("n", [5.0, 5.0, 11.0, 11.0])

    (row,) = only_rows(compared())

    assert (row["mean_a"], row["out_of_scale_a"], row["out_of_scale_b"]) == (pytest.approx(23 / 3), 1, 1)
    assert "Scores outside of the scale of tengu@99, which count as they are: 1 of A, 1 of B." in said(compared)


def test_no_difference_shown_is_no_equality_and_equality_needs_a_margin(lake, compared):
    lake.add("m", scores(1)).add("n", scores(2))
    same = [5.0, 6.0] * 20
    lake.add("m", [*same, 5.0, 6.0], tag="same").add("n", [*same, 6.0, 5.0], tag="same")

    assert "no difference" in compared("m@@t", "n@@t", output_format="table")
    (row,) = only_rows(compared("m@@same", "n@@same"))
    assert (row["verdict"], row["equal"], row["margin"]) == ("tied", True, 0.2)
    assert "equal within" in compared("m@@same", "n@@same", output_format="table")
    assert not only_rows(compared("m@@same", "n@@same", margin=0.05))[0]["equal"]


def test_a_p_value_is_never_zero(lake, compared):
    lake.add("m", scores(1, n=60, shift=4)).add("n", scores(2, n=60))
    line = next(line for line in compared(output_format="table").splitlines() if line.startswith("tengu@99"))
    assert line.split().count("<0.001") == 2


def test_over_categories_the_interval_is_as_wide_as_is_said_before(lake, compared):
    a, b = scores(1, n=60), scores(2, n=60)
    categories = [f"c{n // 5}" for n in range(60)]
    lake.add("m", [x + 2 * (n // 5 % 2) for n, x in enumerate(a)]).add("n", b)
    lake.questions("tengu@99", range(60), categories=categories)

    (row,), (wider,) = only_rows(compared()), only_rows(compared(over="categories"))

    assert (row["n_categories"], wider["n_categories"]) == (12, 12)
    widths = [one["upper"] - one["lower"] for one in (row, wider)]
    assert widths[1] / widths[0] == pytest.approx(row["over_categories"], rel=0.15)
    assert row["over_categories"] > 1.2
    assert f"{row['over_categories']:.2f} times as wide (--over categories)" in " ".join(compared()["notes"])


def test_replies_that_both_sides_share_are_said_to_be_no_evidence(lake, compared):
    for model in "mn":
        lake.add(model, [5.0, 6.0, 7.0]).answers(model, [f"{model}-0", "same-1", "same-2"])

    report = compared()

    assert report["shared_replies"] == {"tengu": {"n_replies": 6, "n_shared": 2}}
    assert any(
        note.startswith("2 of the 6 replies (answers and judgements) of tengu are the reply to another one's call")
        for note in report["notes"]
    )


def test_the_runs_of_a_multi_run_are_averaged_by_question_first(lake, compared):
    lake.add("m", [4.0, 6.0], tag="t-run1", run_number=1).add("m", [6.0, None], tag="t-run2", run_number=2)
    lake.add("n", [5.0, 5.0])

    report = compared("m@@t", "n")

    (row,) = only_rows(report)
    assert (row["n"], row["mean_a"]) == (2, 5.5)
    assert report["a"]["run_tags"] == ["t-run1", "t-run2"]
    assert only_rows(compared("m@@t-run1", "n"))[0]["mean_a"] == 5.0
    assert "mean of 2 runs" in compared("m", "n", output_format="md")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"temperature": 0.7}, r"tengu: temperature of answers: 0\.0 \(t-run1\), 0\.7 \(t-run2\)"),
        ({"prompt": "q"}, r"tengu: prompts of judge a: prompt-p \(t-run1\), prompt-q \(t-run2\)"),
        ({"question_set": "tengu@98"}, r"tengu: question set: tengu@99 \(t-run1\), tengu@98 \(t-run2\)"),
    ],
)
def test_runs_that_are_not_alike_are_not_averaged(changed, named, lake, compared):
    lake.add("m", [4.0, 6.0], tag="t-run1", run_number=1).add("m", [4.0, 6.0], tag="t-run2", run_number=2, **changed)
    lake.add("n", [5.0, 5.0])
    with pytest.raises(ConfigurationError, match=f"cannot be averaged: .*{named}"):
        compared("m", "n")


def test_settings_of_answers_that_differ_leave_the_verdict(lake, compared):
    lake.add("m", scores(1, shift=3)).add("n", scores(2), temperature=0.7)
    report = compared()
    assert (report["comparable"], report["caveat"], only_rows(report)[0]["verdict"]) == (True, "", "better")


def test_prompts_that_differ_withhold_the_verdict_in_one_line_unless_it_is_wanted_anyway(lake, compared):
    for benchmark in ("tengu", "elyza", "rakuda"):
        lake.add("m", scores(1, shift=3), benchmark=benchmark).add("n", scores(2), benchmark=benchmark, prompt="q")

    report = compared()

    differs = "prompts of judge a differ on elyza, rakuda, tengu: prompt-p (A), prompt-q (B)"
    assert (report["comparable"], report["reasons"]) == (False, [differs])
    assert {row["verdict"] for row in only_rows(report)} == {"withheld"}
    not_alike = f"A and B were not asked and judged alike: {differs}."
    assert report["caveat"] == f"{not_alike} No verdict is given (--anyway gives it)."
    assert compared(output_format="md").splitlines()[0] == f"- Warning: {report['caveat']}"
    assert "is better" not in compared(output_format="md")

    anyway = compared(anyway=True)
    assert (anyway["comparable"], anyway["caveat"]) == (False, f"{not_alike} The verdict is given anyway.")
    assert {row["verdict"] for row in only_rows(anyway)} == {"better"}
    document = compared(output_format="md", anyway=True)
    assert document.splitlines()[0] == f"- Warning: {anyway['caveat']}"
    assert "m is better than n overall" in document
    for row in csv.DictReader(io.StringIO(compared(output_format="csv", anyway=True))):
        assert row["caveat"] == anyway["caveat"]


@pytest.mark.parametrize(
    ("sources", "prompt_b", "comparable"),
    [
        (("tree", "tree"), None, True),
        (("tree", "other"), None, False),
        (("tree", None), "q", False),
        ((None, None), None, True),
    ],
    ids=["one tree", "two trees", "known against unknown", "our own rule"],
)
def test_prompts_that_nobody_recorded_are_taken_for_the_same_within_a_tree(
    sources, prompt_b, comparable, lake, compared
):
    lake.add("m", scores(1, shift=3), prompt=None, source=sources[0])
    lake.add("n", scores(2), prompt=prompt_b, source=sources[1])
    report = compared()
    assert report["comparable"] is comparable
    assert only_rows(report)[0]["verdict"] == ("better" if comparable else "withheld")
    said = [line for line in report["warnings"] if "not recorded" in line]
    assert len(said) == (sources[0] is not None)


def test_where_more_scores_of_one_side_are_missing_there_is_no_verdict(lake, compared):
    a, b = scores(1, n=60, shift=1), scores(2, n=60)
    lost = [None if place < 10 else score for place, score in enumerate(a)]
    lake.add("m", lost).add("n", b)

    report = compared()

    (row,) = only_rows(report)
    assert (row["verdict"], row["difference"] > 0, report["comparable"]) == ("withheld", True, True)
    assert row["why_withheld"].startswith("16.7 % of A's and 0.0 % of B's scores are missing (p < 0.01)")
    assert f"No verdict on tengu@99: {row['why_withheld']}." in said(compared)
    assert only_rows(compared(null_policy="zero"))[0]["verdict"] != "withheld"


@pytest.mark.parametrize("over", ["questions", "categories"])
def test_a_difference_that_no_missing_score_could_change_has_a_verdict(over, lake, compared):
    a, b = scores(1, n=60, shift=3), scores(2, n=60)
    lake.add("m", [None if place < 10 else score for place, score in enumerate(a)]).add("n", b)
    assert only_rows(compared(over=over))[0]["verdict"] == "better"


def test_a_difference_that_is_not_that_of_the_means_is_said(lake, compared):
    for judge, less in (("a", 0), ("b", 3)):
        lake.add("m", [score - less for score in scores(1)], judge=judge)
        own = [None if judge == "b" and place < 4 else score - less for place, score in enumerate(scores(2))]
        lake.add("n", own, judge=judge)

    report = compared()

    row = report["comparisons"][0]["rows"][0]
    assert row["own_mean_a"] == pytest.approx(np.mean(scores(1)) - 1.5)
    assert row["own_mean_b"] == pytest.approx((np.mean(scores(2)) + np.mean(scores(2)[4:]) - 3) / 2)
    means = f"{row['own_mean_a']:.2f} and {row['own_mean_b']:.2f} ({row['own_mean_a'] - row['own_mean_b']:+.2f})"
    assert f"tengu@99: A - B is over what both have; the means of all that each has are {means}." in said(compared)


def test_the_leaderboard_has_the_difference_of_compare(lake, compared, views):
    random = np.random.default_rng(3)
    for benchmark, n in (("tengu", 30), ("elyza", 40)):
        for number, model in enumerate("mn"):
            for judge in "ab":
                own = [None if random.random() < 0.1 else score for score in scores(number + 1, n)]
                lake.add(model, own, judge=judge, benchmark=benchmark)
    row = compared()["comparisons"][0]["rows"][-1]
    views.fill_metrics()
    tie = read_scores(views.catalog, ScoreSelection()).rankings[0]["standings"][1]
    sign = 1 if tie["model"] == "m" else -1
    assert (tie["difference"], tie["n_common_questions"]) == (
        pytest.approx(sign * row["difference"], abs=1e-12),
        row["n"],
    )


def test_other_question_sets_are_not_compared_unless_the_questions_are_chosen(lake, compared):
    lake.add("m", [4.0, 6.0, 1.0]).add("n", [5.0, 5.0], question_set="tengu@2").questions("tengu@2", [0, 1])
    lake.add("m", [4.0, 6.0], benchmark="rakuda").add("n", [4.0, 6.0], benchmark="rakuda")

    report = compared()
    assert "tengu: A was asked tengu@99, B tengu@2, and is not compared" in " ".join(report["reasons"])
    assert (report["comparable"], only_rows(report)[0]["verdict"]) == (False, "withheld")
    rows = {row["question_set"]: row for row in only_rows(compared(question_sets=["tengu@2"]))}

    assert rows.keys() == {"tengu@2", "rakuda@99", "overall"}
    assert (rows["tengu@2"]["n"], rows["tengu@2"]["only_a"], rows["tengu@2"]["mean_a"]) == (2, 0, 5.0)


def test_benchmarks_and_pipelines_are_chosen(lake, compared):
    for model in "mn":
        lake.add(model, [5.0, 6.0]).add(model, [1.0, 2.0], benchmark="rakuda")
        lake.add(model, [4.0, 4.0], pipeline="repetition")

    assert [row["question_set"] for row in only_rows(compared(benchmarks="rakuda"))] == ["rakuda@99"]
    assert only_rows(compared(pipeline="repetition"))[0]["mean_a"] == 4.0


REFUSED = [
    ("x", {}, "no scores of model 'x'"),
    ("m@@nothing", {}, "no scored run with tag 'nothing'; tags: t, u"),
    ("m", {}, "several runs: name one as m@@TAG, or give --tag; tags: t, u"),
    ("m", {"tag": "z"}, "no scored run with tag 'z'"),
    ("n", {}, "A and B are the same"),
    ("m@@t", {"judges": ["nobody"]}, "--judge: no judge 'nobody'; the lake has a"),
    ("m@@t", {"pipeline": "repetition"}, r"^A \(m\) has no scores under the passes repetition: `shaberi reprocess"),
    ("m@@t", {"pipeline": "lang_mixin"}, "unknown pass 'lang_mixin'; did you mean lang_mixing"),
    ("m@@t", {"over": "judges"}, "--over must be one of questions, categories"),
    ("m@@t", {"margin": 0}, "--margin must be above 0"),
    ("m@@t", {"question_sets": ["tengu@7"]}, "no question set 'tengu@7'"),
]


def test_what_cannot_be_compared_is_refused(lake, compared):
    lake.add("m", [5.0, 6.0]).add("m", [5.0, 6.0], tag="u").add("n", [5.0, 5.0]).questions("tengu@99", [0, 1])
    for a, choices, message in REFUSED:
        with pytest.raises(ConfigurationError, match=message):
            compared(a, "n", **choices)


def test_two_runs_of_one_model_are_named_by_run_id(lake, compared):
    lake.add("org/m", [5.0, 6.0]).add("org/m", [5.0, 7.0], tag="u")
    assert only_rows(compared("org__m@@u", "org/m@@t", tag="z"))[0]["difference"] == 0.5


@pytest.mark.parametrize("output_format", ["table", "md", "csv"])
def test_names_steer_neither_terminal_nor_markdown(output_format, lake, compared):
    lake.add("=a\x1b[2J|<b>", [5.0, 6.0]).add("n", [5.0, 6.0])

    shown = compared("=a\x1b[2J|<b>", "n", output_format=output_format)

    assert "\x1b" not in shown
    if output_format == "md":
        assert r"\|\<b\>" in shown
    if output_format == "csv":
        assert "'=a" in shown
