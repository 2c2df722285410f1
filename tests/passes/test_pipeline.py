"""Pipelines: order, floor, prefixes, failures, and a baseline that nothing touches."""

from typing import ClassVar

import polars as pl
import pytest

from shaberi_dagster.lake.schemas import SCORES
from shaberi_dagster.lake.store import conform
from shaberi_dagster.tasks.passes.base import APPLY_KEYS, Finding, Pass, PassConfig
from shaberi_dagster.tasks.passes.pipeline import distinct_passes, pipeline_hash, pipeline_name, pipeline_scores
from shaberi_dagster.tasks.passes.registry import make_pipeline
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit

SCALES = pl.DataFrame({"benchmark": ["tengu"], "scale_minimum": [0.0], "scale_maximum": [10.0]})


class Cost(PassConfig):
    severity: float = 0.2


class First(Pass[Cost]):
    name: ClassVar[str] = "first"
    version: ClassVar[str] = "1"
    config_class: ClassVar[type[PassConfig]] = Cost

    def examine(self, answer):
        return Finding(self.config.severity, "found", {"length": len(answer.text)})


class Second(First):
    name: ClassVar[str] = "second"


class Halving(First):
    """Takes half of what the passes before it have left."""

    name: ClassVar[str] = "halving"

    def apply(self, findings, judgements):
        return judgements.join(findings, on=APPLY_KEYS, nulls_equal=True).select(
            *APPLY_KEYS, "judge", delta=-pl.col("score") / 2, reason=pl.lit("half")
        )


def baseline(*scores):
    rows = [
        {
            "run_id": "m@@t",
            "model": "m",
            "run_tag": "t",
            "benchmark": "tengu",
            "question_id": f"q{place}",
            "sample_index": 0,
            "judge": "j",
            "answer_hash": f"a{place}",
            "status": "ok" if score is not None else "error",
            "error_class": None if score is not None else "no_score",
            "pipeline": "baseline",
            "baseline_score": score,
            "score": score,
        }
        for place, score in enumerate(scores)
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(
        created_at=pl.lit(0).cast(pl.Datetime("us", "UTC"))
    )
    return conform(SCORES, frame)


def findings(scored, *passes, severity=None):
    return pl.concat(
        scored.select(
            *APPLY_KEYS,
            "answer_hash",
            pl.lit(one.name).alias("pass"),
            pass_version=pl.lit(one.version),
            pass_config_hash=pl.lit(one.config_hash),
            severity=pl.lit(one.config.severity if severity is None else severity),
            reason=pl.lit("found"),
        )
        for one in passes
    )


def scores_by_pipeline(frame):
    return {str(name): part.sort("question_id")["score"].to_list() for (name,), part in frame.group_by("pipeline")}


def test_every_beginning_of_a_pipeline_is_a_pipeline_and_the_baseline_score_stays_beside():
    scored, passes = baseline(8.0, 5.0), [First(Cost()), Second(Cost(severity=0.1))]

    frame = pipeline_scores(scored, findings(scored, *passes), [passes], SCALES)

    assert scores_by_pipeline(frame) == {"first": [6.0, 3.0], "first,second": [5.0, 2.0]}
    assert frame["baseline_score"].to_list() == [8.0, 5.0] * 2
    assert frame.columns == scored.columns


def test_each_pass_sees_the_score_that_the_passes_before_it_left():
    scored = baseline(8.0)
    first, halving = First(Cost()), Halving(Cost())

    frame = pipeline_scores(scored, findings(scored, first, halving), [[first, halving], [halving, first]], SCALES)

    found = scores_by_pipeline(frame)
    assert (found["first,halving"], found["halving,first"]) == ([3.0], [2.0])


def test_deltas_say_in_order_what_each_pass_did():
    scored, passes = baseline(8.0), [First(Cost()), Second(Cost(severity=0.1))]

    frame = pipeline_scores(scored, findings(scored, *passes), [passes], SCALES).filter(pipeline="first,second")

    assert frame["deltas"].to_list() == [
        [
            {"pass": "first", "version": "1", "delta": -2.0, "reason": "found"},
            {"pass": "second", "version": "1", "delta": -1.0, "reason": "found"},
        ]
    ]


def test_a_score_is_not_lowered_below_the_scale_and_the_reason_says_so():
    scored, one = baseline(1.0), First(Cost())

    frame = pipeline_scores(scored, findings(scored, one), [[one]], SCALES)

    assert frame["score"].to_list() == [0.0]
    assert frame["deltas"].to_list()[0][0]["delta"] == -1.0
    assert "floored at 0.0" in frame["deltas"].to_list()[0][0]["reason"]
    assert "-2.0" in frame["deltas"].to_list()[0][0]["reason"]


def test_a_score_below_the_scale_is_neither_lowered_nor_raised():
    scored, one = baseline(-1.0), First(Cost())

    frame = pipeline_scores(scored, findings(scored, one), [[one]], SCALES)

    assert frame["score"].to_list() == [-1.0]


def test_no_score_stays_no_score():
    scored, one = baseline(None, 7.0), First(Cost())

    frame = pipeline_scores(scored, findings(scored, one), [[one]], SCALES)

    assert frame.sort("question_id")["score"].to_list() == [None, 5.0]
    assert frame.sort("question_id")["error_class"].to_list() == ["no_score", None]


def test_an_answer_that_could_not_be_examined_has_no_score_under_the_pipeline():
    scored, one = baseline(8.0, 7.0), First(Cost())

    frame = pipeline_scores(scored, findings(scored, one).filter(question_id="q1"), [[one]], SCALES)

    first, second = frame.sort("question_id").iter_rows(named=True)
    assert (first["score"], first["status"], first["error_class"]) == (None, "error", "pass_failed")
    assert (second["score"], second["status"]) == (5.0, "ok")


def test_a_finding_of_another_text_or_other_settings_does_not_count():
    scored, one = baseline(8.0), First(Cost())
    of_old_text = findings(scored, one).with_columns(answer_hash=pl.lit("old"))
    of_old_settings = findings(scored, First(Cost(severity=0.9)))

    for stale in (of_old_text, of_old_settings):
        assert pipeline_scores(scored, stale, [[one]], SCALES)["error_class"].to_list() == ["pass_failed"]


def test_an_answer_without_fault_keeps_its_score_and_has_no_delta():
    scored, one = baseline(8.0), First(Cost())

    frame = pipeline_scores(scored, findings(scored, one, severity=0.0), [[one]], SCALES)

    assert (frame["score"].to_list(), frame["deltas"].to_list()) == ([8.0], [[]])


def test_names_and_hashes_tell_order_and_settings():
    first, second = First(Cost()), Second(Cost())

    assert pipeline_name([first, second]) == "first,second"
    assert pipeline_name([]) == "baseline"
    hashes = {
        pipeline_hash([one.config_hash for one in passes])
        for passes in ([first], [second], [first, second], [second, first], [First(Cost(severity=0.3))])
    }
    assert len(hashes) == 5


def test_passes_with_the_same_settings_are_examined_once():
    first, second = First(Cost()), Second(Cost())

    found = distinct_passes([[first, second], [second, First(Cost()), Halving(Cost())]])

    assert [one.name for one in found] == ["first", "second", "halving"]


class Cheaper(First):
    """The first pass after its default was lowered."""

    version: ClassVar[str] = "2"


def test_what_an_earlier_version_found_counts_until_todays_has_looked_and_the_hash_tells_them_apart():
    scored, today, second = baseline(8.0, 8.0, None), Cheaper(Cost()), Second(Cost(severity=0.1))
    looked_again = findings(scored, today).filter(question_id="q1")
    earlier = findings(scored, today, severity=0.4).filter(pl.col("question_id") != "q1")
    earlier = earlier.with_columns(pass_version=pl.lit("1"))
    found = pl.concat([earlier, looked_again, findings(scored, second)])

    frame = pipeline_scores(scored, found, [[today, second]], SCALES)

    assert scores_by_pipeline(frame) == {"first": [4.0, 6.0, None], "first,second": [3.0, 5.0, None]}
    both = frame.filter(pipeline="first,second").sort("question_id")
    assert [deltas[0]["version"] for deltas in both["deltas"][:2].to_list()] == ["1", "2"]
    old, new, _ = both["pipeline_hash"]
    assert new == pipeline_hash([(today.config_hash, "2"), (second.config_hash, "1")])
    assert old == pipeline_hash([(today.config_hash, "1"), (second.config_hash, "1")])


def test_an_answer_without_a_finding_goes_with_the_versions_of_its_run():
    scored, today = baseline(8.0, None), Cheaper(Cost())
    earlier = findings(scored, today).with_columns(pass_version=pl.lit("1"))

    frame = pipeline_scores(scored, earlier.filter(question_id="q0"), [[today]], SCALES)

    assert frame["pipeline_hash"].n_unique() == 1


def test_a_curve_that_costs_the_whole_scale_can_be_asked_for():
    (one,) = make_pipeline(["repetition"], ["repetition.curve=[[0, 0], [1, 1]]"])
    assert one.config.curve == ((0.0, 0.0), (1.0, 1.0))
    (other,) = make_pipeline(["format_validation"], ['format_validation.severities={"json": 1}'])
    assert other.config.severities == {"json": 1.0}
    with pytest.raises(ConfigurationError, match=r"pass repetition: curve: "):
        make_pipeline(["repetition"], ["repetition.curve=[[0, 0"])
