import dagster as dg
import polars as pl
import pytest

from shaberi_dagster.deciding.promotion import promote
from shaberi_dagster.definitions import defs
from shaberi_dagster.defs.jobs import EVALUATE
from shaberi_dagster.defs.partitions import add_partition
from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.gate import check_regression, regression_checks
from shaberi_dagster.runs.questions import load_questions
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.statistics.significance import fisher_lower_tail, mcnemar_exact
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import lake_of
from tests.example_runs import ask, own_engine, reusing, stored_run, without_results
from tests.judged_ensembles import SIZE, judged_ensemble, right, same
from tests.mock_endpoint import running_mock

unit, integration = pytest.mark.unit, pytest.mark.integration

BOTH, WORSE_AT_MATHS = ({"gsm8k": same(18), "math500": same(count)} for count in (18, 2))
THREE_RIGHT = {"gsm8k": {"single": right(3, 3)}}


class Judged:
    """A lake of runs with chosen verdicts, and of their baselines; each is made once.

    Attributes:
        workspace: Whose lake it is.
    """

    def __init__(self, workspace):
        self.workspace = workspace
        self._made, self._catalog = {}, None

    def run(self, verdicts, **request):
        """The identity of a run with these verdicts."""
        return self._once("run", verdicts, request)

    def baseline(self, verdicts, **request):
        """The name of a baseline with these verdicts, whose run is no other's."""
        return self._once("base", verdicts, request)

    def _once(self, kind, verdicts, request):
        key = repr((kind, verdicts, request))
        if key not in self._made:
            tag = f"{kind}-{len(self._made)}"
            self._made[key] = run_id = judged_ensemble(self.workspace, verdicts, tag=tag, **request).run_id
            if kind == "base":
                promote(self.workspace.lake, run_id, tag)
                self._made[key] = tag
        return self._made[key]

    @property
    def catalog(self):
        """The public views, as they are now."""
        self._catalog = open_catalog(self.workspace.settings.warehouse, self._catalog)
        return self._catalog

    def check(self, base, now, **options):
        """The check of a run with the verdicts `now` against a baseline with those of `base`."""
        name, run_id = self.baseline(base), self.run(now)
        return check_regression(self.catalog, run_id, name, **options)


def own_workspace(folder):
    return Workspace(Settings.from_environment(lake_of(folder)), environment={})


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """For tests that only add to it."""
    judged = Judged(own_workspace(tmp_path_factory.mktemp("judged")))
    yield judged
    judged.catalog.close()


# --- checks ----------------------------------------------------------------------------------------------------------


@integration
@pytest.mark.parametrize("gate", ["paired", "fisher"])
def test_a_run_that_is_worse_fails_and_the_baseline_stays_as_it_was(lake, gate):
    base, now = ({"gsm8k": same(count), "math500": same(17)} for count in (18, 6))
    lake.baseline(base)
    before = lake.workspace.lake.read("baselines")

    report = lake.check(base, now, gate=gate)

    assert report.result != "passed"
    assert report.verdict.startswith(f"FAILED: worse than baseline {report.baseline}: single on all datasets")
    assert lake.workspace.lake.read("baselines").equals(before)
    pooled = report.tests[0]
    assert (pooled.tally.baseline_correct, pooled.tally.current_correct, pooled.tally.n_current) == (35, 23, 40)
    expected = mcnemar_exact(0, 12, "less") if gate == "paired" else fisher_lower_tail(35, 5, 23, 17)
    assert pooled.p_value == pytest.approx(expected)


@integration
@pytest.mark.parametrize("gate", ["paired", "fisher"])
def test_an_equal_run_and_a_better_one_pass(lake, gate):
    for count in (12, 19):
        assert lake.check({"gsm8k": same(12)}, {"gsm8k": same(count)}, gate=gate).result == "passed"


@integration
def test_a_drop_that_pairs_show_is_hidden_from_fisher(lake):
    passed = {
        gate: lake.check({"gsm8k": same(15)}, {"gsm8k": same(9)}, gate=gate).result == "passed"
        for gate in ("paired", "fisher")
    }
    assert passed == {"paired": False, "fisher": True}


@integration
def test_failures_and_missing_answers_count_as_wrong_and_are_said(lake):
    failing = {"single": [None] * 10 + [True] * 10, "plurality": [True] * 12, "elo": right(20)}

    report = lake.check({"gsm8k": same(20)}, {"gsm8k": failing}, failures_count=True)

    rows = {test.tally.strategy: test for test in report.tests}
    assert rows["single"].regressed
    assert rows["plurality"].regressed
    assert not rows["elo"].regressed
    assert (rows["single"].tally.current_accuracy, rows["single"].tally.current_scored_accuracy) == (0.5, 1.0)
    assert (rows["plurality"].tally.current_accuracy, rows["plurality"].tally.current_scored_accuracy) == (0.6, 1.0)
    assert report.warnings == (
        "18 of 60 answers of this run (30.0 %) failed and count as wrong: 10 timeout, 8 missing",
    )
    assert (report.result, report.n_failed_current, report.n_compared) == ("failed", 18, 20)


@integration
@pytest.mark.parametrize("gate", ["paired", "fisher"])
@pytest.mark.parametrize(
    ("of_baseline", "of_run", "result"),
    [(0, 1, "passed"), (1, 0, "passed"), (0, 2, "inconclusive"), (2, 0, "inconclusive"), (20, 0, "inconclusive")],
)
def test_a_failed_call_is_no_wrong_answer_and_many_tell_nothing(lake, gate, of_baseline, of_run, result):
    base, now = (
        {"gsm8k": {"single": [None] * count + [True] * (20 - count), "elo": right(20)}}
        for count in (of_baseline, of_run)
    )

    report = lake.check(base, now, gate=gate)

    left = 20 - of_baseline - of_run
    assert (report.result, report.n_failed_baseline, report.n_failed_current) == (result, of_baseline, of_run)
    assert (report.n_compared, report.n_questions) == (left, 20)
    assert not any(test.regressed for test in report.tests)
    singles = [one for one in report.totals if one.strategy == "single"]
    assert [(one.n_baseline, one.n_current, one.baseline_accuracy) for one in singles] == [(left, left, 1.0)] * (
        left > 0
    )
    said = f"calls failed on {of_baseline} of 20 questions of the baseline and {of_run} of 20 of this run: compared are the {left} that both answered"
    assert report.failures == said
    assert (said in report.verdict) == (result == "inconclusive")


@integration
def test_a_reply_in_which_no_verdict_can_be_read_is_wrong_and_no_failed_call(lake):
    unread = {"single": ["no_score"] * 12 + [True] * 8, "elo": right(20)}

    report = lake.check({"gsm8k": {"single": right(20), "elo": right(20)}}, {"gsm8k": unread})

    assert (report.result, report.n_failed_current, report.n_compared) == ("failed", 0, 20)


@integration
def test_a_bad_hour_is_a_warning_of_the_datasets_check(lake):
    failing = {name: [None] * 9 + verdicts[9:] for name, verdicts in same(20).items()}
    base, now = lake.baseline({"gsm8k": same(20)}), lake.run({"gsm8k": failing})

    found = regression_checks(lake.workspace.settings.warehouse, now, base, ["gsm8k"])["gsm8k"]

    assert (found.passed, found.severe) == (False, False)
    assert "calls failed on 0 of 20 questions of the baseline and 9 of 20 of this run" in found.description


@integration
@pytest.mark.parametrize("gate", ["paired", "fisher"])
@pytest.mark.parametrize("of_baseline", [False, True])
def test_a_dataset_of_which_many_calls_failed_is_named_however_few_they_are_of_all(lake, gate, of_baseline):
    whole = {name: same(20) for name in ("gsm8k", "math500", "simpleqa")}
    failing = whole | {"simpleqa": {name: [None] * 3 + [True] * 17 for name in whole["simpleqa"]}}
    base, now = (failing, whole) if of_baseline else (whole, failing)

    report = lake.check(base, now, gate=gate)

    side = "the baseline" if of_baseline else "this run"
    said = f"simpleqa: calls failed on 3 of 20 questions of {side} (at most 10% of a dataset may fail)"
    assert (report.result, report.doubts) == ("inconclusive", (said,))
    assert said in report.verdict
    assert lake.check(base, now, gate=gate, failures_count=True).result == "passed"


@integration
def test_other_questions_models_judges_and_settings_are_said(lake):
    base = lake.baseline({"gsm8k": same(12), "math500": same(12)}, grader_model="g")
    fewer = {name: verdicts[:12] for name, verdicts in same(9, ("single", "plurality", "majority")).items()}
    now = lake.run({"gsm8k": fewer, "simpleqa": fewer}, model="other", temperature=0.1)

    report = check_regression(lake.catalog, now, base)

    said = "\n".join(report.warnings)
    for part in (
        "models differ: baseline m, this run other",
        "datasets of the baseline that this run has not: math500",
        "datasets of this run that the baseline has not, and that are not checked: simpleqa",
        "strategies of the baseline that this run has not: elo",
        "strategies of this run that the baseline has not, and that are not checked: majority",
        "gsm8k: the questions differ: 12 in common, 8 only in the baseline, 0 only in this run",
        "gsm8k: judges differ: baseline rule:numeric+g, this run rule:numeric",
        "temperature changed (baseline 0.7, this run 0.1) in gsm8k/single, gsm8k/plurality",
    ):
        assert part in said, said
    assert {(test.tally.strategy, test.tally.n_current) for test in report.tests} == {("single", 12), ("plurality", 12)}


@integration
def test_the_judge_of_the_baseline_is_taken_where_the_run_has_it(lake):
    base, now = lake.baseline({"gsm8k": same(12)}), lake.run({"gsm8k": same(12)}, grader_model="g")
    assert check_regression(lake.catalog, now, base).warnings == ()


@integration
def test_only_some_datasets_can_be_compared(lake):
    of_one = {name: lake.check(BOTH, WORSE_AT_MATHS, benchmarks=[name]) for name in ("gsm8k", "math500")}
    assert {name: report.result == "passed" for name, report in of_one.items()} == {"gsm8k": True, "math500": False}
    assert of_one["gsm8k"].warnings == ()


@integration
def test_fisher_can_test_each_dataset(lake):
    report = lake.check(BOTH, WORSE_AT_MATHS, gate="fisher", per_dataset=True)
    assert {test.tally.benchmark for test in report.tests if test.regressed} == {"math500"}
    assert len(report.tests) == 6
    assert len(report.lifts) == 2


@integration
def test_lifts_are_of_each_strategy_over_the_single_answer(lake):
    before, now = ({"gsm8k": {"single": right(one), "plurality": right(other)}} for one, other in ((10, 14), (12, 12)))
    (lift,) = lake.check(before, now).lifts
    assert lift.pop("strategy") == "plurality"
    assert lift == pytest.approx({"baseline": 0.2, "current": 0.0, "change": -0.2})


@integration
def test_what_cannot_be_checked_is_refused(workspace):
    lake = Judged(workspace)
    now = lake.run({"gsm8k": same(12)})
    with pytest.raises(
        ConfigurationError, match="no baseline 'base'; `shaberi baseline promote base --model MODEL` makes one"
    ):
        check_regression(lake.catalog, now, "base")
    base = lake.baseline({"math500": same(12)})
    with lake.catalog as catalog:
        with pytest.raises(ConfigurationError, match="have no dataset and strategy in common"):
            check_regression(catalog, now, base)
        with pytest.raises(ConfigurationError, match=f'no baseline "x\' or 1=1"; there is {base}'):
            check_regression(catalog, now, "x' or 1=1")
        with pytest.raises(ConfigurationError, match="gate must be one of paired, fisher, not 'both'"):
            check_regression(catalog, now, base, gate="both")
        for level in (0, 1, -1, 2):
            with pytest.raises(ConfigurationError, match="significance must be between 0 and 1"):
                check_regression(catalog, now, base, significance=level)


@integration
def test_without_a_common_question_only_fisher_compares(lake, tmp_path):
    lines = [f'{{"question": "another {number}", "reference": "1"}}\n' for number in range(SIZE)]
    (tmp_path / "gsm8k.jsonl").write_text("".join(lines), encoding="utf-8")
    base, now = lake.baseline({"gsm8k": same(20)}), lake.run({"gsm8k": same(5)}, questions=str(tmp_path))

    with pytest.raises(ConfigurationError, match="have no question in common"):
        check_regression(lake.catalog, now, base)
    report = check_regression(lake.catalog, now, base, gate="fisher")
    assert report.result != "passed"
    assert "gsm8k: the questions differ: 0 in common" in report.warnings[0]


@integration
def test_too_few_questions_to_fail_are_no_pass_and_too_few_to_pass_can_fail(lake):
    report = lake.check(THREE_RIGHT, THREE_RIGHT)

    assert not report.could_fail
    assert report.result == "inconclusive"
    # With 4 questions all lost p is 1/16.
    four, none = ({"gsm8k": {"single": right(count, 4)}} for count in (4, 0))
    assert lake.check(four, none).result == "failed"


@integration
@pytest.mark.parametrize(("n_asked", "result"), [(18, "passed"), (17, "inconclusive")])
def test_nine_tenths_of_the_baselines_questions_must_be_compared(lake, n_asked, result):
    report = lake.check({"gsm8k": same(20)}, {"gsm8k": {name: right(n_asked, n_asked) for name in same(0)}})

    assert (report.n_compared, report.n_questions, report.result) == (n_asked, 20, result)
    if result == "inconclusive":
        assert report.doubts == ("only 85% of the baseline's questions were compared (17 of 20)",)


@integration
def test_a_baseline_that_an_earlier_version_of_the_rule_graded_lets_nothing_pass(lake):
    verdicts = {"gsm8k": same(11)}
    base, own = lake.baseline(verdicts), lake.workspace.lake
    earlier = own.read("baselines", {"name": base}).with_columns(judge_config_hash=pl.lit("the first version"))
    own.replace("baselines", earlier, {"name": base})

    report = lake.check(verdicts, verdicts)

    assert (report.result, report.unlike_rules) == ("inconclusive", ("gsm8k",))
    assert "another version of their rule graded gsm8k of the baseline" in report.verdict
    assert "gsm8k: version or settings of the judge rule:numeric differ" in report.warnings


@integration
def test_other_reference_answers_make_a_drop_no_regression(lake, tmp_path):
    lines = [f'{{"question": "gsm8k {number}", "reference": "{1 + (number == 3)}"}}\n' for number in range(SIZE)]
    (tmp_path / "gsm8k.jsonl").write_text("".join(lines), encoding="utf-8")
    base, now = lake.baseline({"gsm8k": same(20)}), lake.run({"gsm8k": same(2)}, questions=str(tmp_path))

    report = check_regression(lake.catalog, now, base)

    assert (report.result, report.reasons) == ("inconclusive", ("reference answers differ on gsm8k (1)",))


@integration
def test_another_judge_makes_a_drop_no_regression(lake):
    base, now = lake.baseline({"gsm8k": same(20)}, grader_model="g"), lake.run({"gsm8k": same(2)})

    report = check_regression(lake.catalog, now, base)

    assert any(test.regressed for test in report.tests)
    assert report.result == "inconclusive"
    assert report.reasons
    assert report.reasons == ("gsm8k: judges differ: baseline rule:numeric+g, this run rule:numeric",)
    assert report.verdict == f"INCONCLUSIVE: no verdict against baseline {base}: {report.reasons[0]}"
    checks = regression_checks(lake.workspace.settings.warehouse, now, base, ["gsm8k"])
    assert (checks["gsm8k"].passed, checks["gsm8k"].severe) == (False, False)


@integration
def test_strategies_that_were_not_asked_for_are_not_missing(lake):
    report = lake.check({"gsm8k": same(12)}, {"gsm8k": same(12)}, strategies=["elo"])

    assert [one.strategy for one in report.totals] == ["single", "elo"]
    assert (report.n_compared, report.n_answers, report.result) == (20, 40, "passed")


# --- real runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """Real runs of gsm8k, one of which is the baseline `base`, whose answers are the references and `off` more."""
    workspace = reusing(own_workspace(tmp_path_factory.mktemp("evaluated")))

    def evaluated(tag, off=0, samples=3, **values):
        request = ask(mock, tag=tag, benchmarks=["gsm8k"], judge_models=None, strategies=["plurality"], **values)
        spec = stored_run(workspace, request.model_copy(update={"samples": samples}))
        known = {one.question: int(one.reference) for one in load_questions(spec, "gsm8k", workspace).questions}
        mock.options.script = lambda body, _: next(
            f"The answer is {reference + off}."
            for question, reference in known.items()
            if question in body["messages"][-1]["content"]
        )
        for stage in STAGE_NAMES:
            materialize(stage, spec.run_id, ["gsm8k"], workspace)
        return spec.run_id

    def checked(tag, **values):
        run_id = evaluated(tag, **values)
        with open_catalog(workspace.settings.warehouse) as catalog:
            return check_regression(catalog, run_id, "base")

    with running_mock() as mock, own_engine({}), without_results():
        promote(workspace.lake, evaluated("base", temperature=0.5), "base")
        yield workspace, checked


@integration
def test_two_real_runs_are_compared_question_by_question(evaluated):
    workspace, checked = evaluated

    report = checked("worse", off=1, temperature=1.4)

    rows = workspace.lake.read("baselines")
    assert rows.select("status", "correct").unique().rows() == [("ok", True)]
    assert rows.select("answer_hash", "judge_config_hash", "settings").null_count().row(0) == (0, 0, 0)
    assert {(one.tally.strategy, one.tally.losses, one.tally.gains) for one in report.tests} == {
        ("single", 5, 0),
        ("plurality", 5, 0),
    }
    assert report.result == "failed"
    assert report.warnings == ("temperature changed (baseline 0.5, this run 1.4) in gsm8k/single, gsm8k/plurality",)


@pytest.mark.long
@integration
def test_replies_that_another_run_paid_for_are_no_new_evidence(evaluated):
    _, checked = evaluated
    old = {"temperature": 0.5}
    runs = {"again": old, "more": old | {"samples": 4}, "new": {"temperature": 1.5}}
    found = {tag: checked(tag, **values) for tag, values in runs.items()}

    # With a fourth sample of each question, plurality has something new to vote on; the single answers are the old ones.
    assert {tag: (one.n_reused, one.n_answers, one.result) for tag, one in found.items()} == {
        "again": (10, 10, "inconclusive"),
        "more": (5, 10, "passed"),
        "new": (0, 10, "passed"),
    }
    said = "5 of 10 compared answers rest on replies that other runs have paid for, which are no new evidence"
    assert said in found["more"].warnings
    assert found["again"].doubts == (
        "every compared answer is older than this run: other runs have paid for all replies",
    )
    assert found["again"].verdict.startswith("INCONCLUSIVE: not shown to be worse than baseline base, but every")


@integration
def test_a_run_is_no_evidence_about_itself(evaluated):
    _, checked = evaluated

    report = checked("base", temperature=0.5)

    assert (report.result, report.doubts) == ("inconclusive", ("a run is never worse than itself",))


# --- in Dagster ------------------------------------------------------------------------------------------------------


@unit
def test_only_metrics_have_the_check():
    graph = defs.resolve_asset_graph()
    having = {key.asset_key.to_user_string() for key in graph.asset_check_keys if key.name == "no_regression"}
    assert having == {"metrics"}


@integration
def test_the_check_is_of_the_datasets_own_tests_and_the_pooled_ones(lake):
    base, now = lake.baseline(BOTH), lake.run(WORSE_AT_MATHS)
    warehouse = lake.workspace.settings.warehouse
    checks = regression_checks(warehouse, now, base, ["gsm8k", "math500"])
    assert {name: (one.passed, one.severe) for name, one in checks.items()} == {
        "gsm8k": (False, True),
        "math500": (False, True),
    }
    assert checks["gsm8k"].description.startswith(f"FAILED: worse than baseline {base}")
    assert regression_checks(warehouse, now, base, ["gsm8k"])["gsm8k"].passed
    unknown = regression_checks(warehouse, now, "nothing", ["gsm8k"])["gsm8k"]
    assert (unknown.passed, unknown.severe) == (False, False)
    assert unknown.description.startswith("not compared: no baseline 'nothing'")


@integration
def test_an_inconclusive_gate_is_a_warning_and_no_passed_check(lake):
    base, now = lake.baseline(THREE_RIGHT), lake.run(THREE_RIGHT)

    found = regression_checks(lake.workspace.settings.warehouse, now, base, ["gsm8k"])["gsm8k"]

    assert (found.passed, found.severe) == (False, False)
    assert found.description.startswith("INCONCLUSIVE: ")


@integration
def test_metrics_carry_the_check_if_a_baseline_is_named_and_a_regression_does_not_stop_the_run(workspace):
    promote(workspace.lake, judged_ensemble(workspace, {"gsm8k": same(18)}, tag="base").run_id, "base")
    now = judged_ensemble(workspace, {"gsm8k": same(2)}, tag="now")
    with dg.DagsterInstance.ephemeral() as instance:
        add_partition(now, instance)
        found = {}
        for baseline in (None, "base"):
            result = defs.resolve_job_def(EVALUATE).execute_in_process(
                instance=instance,
                run_config={"ops": {"metrics": {"config": {"baseline": baseline}}} if baseline else {}},
                partition_key=now.run_id,
                asset_selection=[dg.AssetKey("metrics")],
            )
            assert result.success
            evaluated = result.get_asset_check_evaluations()
            found[baseline] = [one for one in evaluated if one.check_name == "no_regression"]
    assert found[None] == []
    (check,) = found["base"]
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "single on all datasets" in check.description
