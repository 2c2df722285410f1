"""Audits of rule verdicts by a real endpoint with known errors, on a real lake."""

from datetime import UTC, datetime

import polars as pl
import pytest
from aiohttp import web

from shaberi_dagster.api import LakeReader
from shaberi_dagster.deciding.audit import audit_plan, prepare, settle
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.reports.comparison import comparison_result
from shaberi_dagster.reports.declared.graders import DISAGREEMENTS, GRADERS
from shaberi_dagster.reports.requests import RunSelection
from shaberi_dagster.tasks.judges.spec import JudgeSpec, judge_defaults
from shaberi_dagster.util.errors import ConfigurationError, PartitionBusyError
from tests.deciding.auditing import AUDITOR, answering, audit_of, audited, graded
from tests.example_runs import asked_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


def every_tenth(number, benchmark):
    return benchmark == "gsm8k" and number % 10 == 0


def told(workspace, report=GRADERS, **selection):
    return LakeReader(workspace.settings.warehouse).read(report, RunSelection(**selection)).data()


def test_an_audit_finds_the_known_share_of_wrong_verdicts(mock, workspace):
    mock.options.script = answering(every_tenth)
    graded(workspace, mock, {"gsm8k": 40, "simpleqa": 10})

    audited(workspace, mock, 100)

    by_benchmark = {row["benchmark"]: row for row in told(workspace)["audited"]}
    found = by_benchmark["gsm8k"]
    assert (found["n_audited"], found["n_wrong"], found["n_unsettled"]) == (40, 4, 4)
    assert found["share_wrong"] == pytest.approx(0.1)
    assert found["share_wrong_lower"] == 0, "none of them is settled"
    assert 0.2 < found["share_wrong_upper"] < 0.25
    assert found["auditors"] == [AUDITOR]
    (form,) = (row for row in told(workspace)["rows"] if row["judge"] == "rule:numeric")
    assert (form["form"], form["n_audited"], form["n_wrong"]) == ("answer_is", 40, 4)


def test_the_sample_is_random_even_over_benchmarks_and_has_its_probabilities(mock, workspace):
    mock.options.script = answering()
    graded(workspace, mock, {"gsm8k": 40, "math500": 20})

    rows = audited(workspace, mock, 20).stored()

    assert asked_of(mock, AUDITOR) == 20
    drawn = rows.group_by("benchmark", "inclusion_probability").len().sort("benchmark").rows()
    assert drawn == [("gsm8k", 0.25, 10), ("math500", 0.5, 10)]
    assert set(rows["rule_verdict"]) == {"right", "wrong"}
    assert rows["rule_version"].null_count() == 0
    larger = prepare(audit_of(mock, 40), workspace).sample
    assert rows.join(larger, on=["benchmark", "question_id"], how="anti").is_empty(), "a larger sample has the smaller"


def test_nothing_is_paid_for_twice_and_a_larger_sample_pays_for_the_rest(mock, workspace):
    mock.options.script = answering()
    graded(workspace, mock, {"gsm8k": 40})

    plan = audit_plan(prepare(audit_of(mock, 10), workspace), datetime.now(UTC)).data()
    assert [(row["verdicts"], row["calls"]) for row in plan["expected"]] == [(10, 10)]
    assert asked_of(mock, AUDITOR) == 0
    audited(workspace, mock, 10)
    audited(workspace, mock, 10)
    assert asked_of(mock, AUDITOR) == 10

    (row,) = audit_plan(prepare(audit_of(mock, 30), workspace), datetime.now(UTC)).data()["expected"]
    assert row["calls"] == 20
    audited(workspace, mock, 30)
    assert asked_of(mock, AUDITOR) == 30
    (found,) = told(workspace)["audited"]
    assert found["n_audited"] == 30


def test_two_audits_at_once_do_not_pay_twice(mock, workspace):
    mock.options.script = answering()
    graded(workspace, mock, {"gsm8k": 10})
    audits = prepare(audit_of(mock, 10), workspace)

    with workspace.journals.open(audits.run_ids[0], audits.name), pytest.raises(PartitionBusyError):
        audits.materialize()

    assert asked_of(mock, AUDITOR) == 0
    audits.materialize()
    assert asked_of(mock, AUDITOR) == 10


def test_what_failed_is_tried_again(mock, workspace):
    script = answering()
    graded_by = lambda body, number: web.Response(status=500) if body["model"] == AUDITOR else script(body, number)  # noqa: E731
    mock.options.script = graded_by
    graded(workspace, mock, {"gsm8k": 5})
    failed = audited(workspace, mock, 5).stored()
    assert set(failed["status"]) == {"error"}
    assert not told(workspace)["audited"]

    mock.options.script = script
    assert set(audited(workspace, mock, 5).stored()["status"]) == {"ok"}


def test_a_reply_without_a_verdict_counts_for_nothing_and_is_not_paid_for_again(mock, workspace):
    script = answering()
    mock.options.script = lambda body, number: "I would say so." if body["model"] == AUDITOR else script(body, number)
    graded(workspace, mock, {"gsm8k": 5})

    for _ in range(2):
        rows = audited(workspace, mock, 5).stored()

    assert set(rows["error_class"]) == {"no_verdict"}
    assert asked_of(mock, AUDITOR) == 5
    assert not told(workspace)["audited"]


def test_an_audit_of_one_model_beside_one_of_all_weighs_each_verdict_by_its_probability(mock, workspace):
    mock.options.script = answering(lambda number, _: number % 2 == 0)
    graded(workspace, mock, {"gsm8k": 20}, model="m")
    graded(workspace, mock, {"gsm8k": 40}, model="other")

    audited(workspace, mock, 20, models=["m"])
    rows = audited(workspace, mock, 12).stored()

    (found,) = told(workspace)["audited"]
    best = rows.group_by("model", "question_id").agg(pl.col("inclusion_probability").max())
    assert set(best.filter(model="m")["inclusion_probability"]) == {1.0}
    assert set(best.filter(model="other")["inclusion_probability"]) == {0.2}
    assert found["n_audited"] == best.height
    assert found["share_wrong"] == pytest.approx(0.5, abs=0.25)
    (own,) = told(workspace, models=["m"])["audited"]
    assert (own["n_audited"], own["share_wrong"]) == (20, 0.5)


def test_a_person_settles_what_rule_and_model_differ_in(mock, workspace, tmp_path):
    mock.options.script = answering(every_tenth)
    graded(workspace, mock, {"gsm8k": 40})
    audited(workspace, mock, 40)
    waiting = told(workspace, DISAGREEMENTS)["rows"]
    assert len(waiting) == 4
    assert {row["passage"].rstrip(".") for row in waiting} == {f"The answer is {n}" for n in (6, 15, 26, 35)}
    assert all(row["question"].startswith("What is") and row["person"] is None for row in waiting)

    says = ["right" if row["rule_verdict"] == "right" else "wrong" for row in waiting[:3]]
    says.append("right" if waiting[3]["rule_verdict"] == "wrong" else "wrong")
    file = tmp_path / "settle.csv"
    pl.DataFrame(waiting).with_columns(person=pl.Series(says)).write_csv(file)
    assert settle(file, workspace) == "4 verdicts settled"

    (found,) = told(workspace)["audited"]
    assert (found["n_wrong"], found["n_unsettled"]) == (1, 0)
    assert found["share_wrong_lower"] > 0
    assert not told(workspace, DISAGREEMENTS)["rows"]


@pytest.mark.parametrize(("text", "message"), [("a,b\n1,2\n", "has no column run_id"), (None, "cannot be read")])
def test_a_file_that_settles_nothing_is_refused(workspace, tmp_path, text, message):
    file = tmp_path / "settle.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        settle(file, workspace)


def test_an_audit_needs_verdicts_and_an_auditor(mock, workspace):
    with pytest.raises(ConfigurationError, match="graders audit 200 --judge-model MODEL"):
        prepare(audit_of(mock, None), workspace)
    mock.options.script = answering()
    graded(workspace, mock, {"gsm8k": 5})
    with pytest.raises(ConfigurationError, match="no rule has given a verdict"):
        prepare(audit_of(mock, 5, benchmarks=["tengu"]), workspace)


def test_a_share_of_one_run_is_drawn_from_each_benchmark(mock, workspace):
    mock.options.script = answering()
    graded(workspace, mock, {"gsm8k": 40, "math500": 15})
    spec = graded(workspace, mock, {"gsm8k": 40}, model="other")
    judge = JudgeSpec(model=AUDITOR, endpoint=spec.endpoint, **judge_defaults(spec.endpoint))
    request = AuditRequest.of_runs(0.1, [spec.model_copy(update={"judges": (judge,)})], ["gsm8k", "tengu"])

    sample = prepare(request, workspace).sample

    assert sample["run_id"].unique().to_list() == [spec.run_id]
    assert sample.height == 4
    assert set(sample["inclusion_probability"]) == {0.1}
    with pytest.raises(ConfigurationError, match="--judge-model names it"):
        AuditRequest.of_runs(0.1, [spec], ["gsm8k"])


def test_a_share_of_runs_without_a_verdict_of_a_rule_is_none(mock, workspace):
    mock.options.script = lambda *_: "I would rather talk about the weather."
    spec = graded(workspace, mock, {"gsm8k": 3})
    judge = JudgeSpec(model=AUDITOR, endpoint=spec.endpoint, **judge_defaults(spec.endpoint))
    request = AuditRequest.of_runs(0.5, [spec.model_copy(update={"judges": (judge,)})], ["gsm8k"])
    assert prepare(request, workspace).sample.is_empty()


def test_a_comparison_says_how_often_the_rule_was_wrong_that_graded_both_sides(mock, workspace):
    mock.options.script = answering(every_tenth)
    for model in ("m", "other"):
        graded(workspace, mock, {"gsm8k": 20, "simpleqa": 10}, model=model)

    def notes():
        report = LakeReader(workspace.settings.warehouse).compare("m", "other")
        return [note for note in comparison_result(report).data()["notes"] if "rule verdicts" in note]

    (unknown,) = notes()
    assert unknown.startswith("gsm8k, simpleqa: rule verdicts not audited; 7 of 449 were wrong")
    audited(workspace, mock, 200)
    of_gsm8k, of_simpleqa = notes()
    assert of_gsm8k.startswith("gsm8k: rule verdicts wrong: 10.0%, at most ")
    assert of_simpleqa.startswith("simpleqa: rule verdicts wrong: 0.0%, at most ")
    assert of_gsm8k.endswith("errors alike on both sides make a difference smaller, and intervals leave them out.")
