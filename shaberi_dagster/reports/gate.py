"""The regression gate: is a run worse than a named baseline, by one of the tests of `statistics/gates.py`?

docs/design/gates.md says what each result means.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import orjson
import polars as pl

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.schemas import BASELINES
from shaberi_dagster.lake.statements import Catalog, fetch, fetch_frame
from shaberi_dagster.reports.blocks import (
    NOTHING,
    Block,
    Heading,
    Result,
    Row,
    Rows,
    Sentences,
    Table,
    counted,
    listed,
    number,
    percent,
    points,
    text,
)
from shaberi_dagster.reports.rows import cannot_tell, subtract_or_none
from shaberi_dagster.reports.settings import changed_questions
from shaberi_dagster.reports.write import plain
from shaberi_dagster.runs.spec import SINGLE, RunSpec
from shaberi_dagster.statistics.gates import (
    SIGNIFICANCE,
    Gate,
    GateTest,
    Tally,
    could_fail,
    difference,
    fisher_gate,
    paired_gate,
    pool,
)
from shaberi_dagster.tasks.benchmarks.registry import RULE
from shaberi_dagster.util.checks import Check
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_json
from shaberi_dagster.util.names import did_you_mean

_OF_STRATEGY = ["strategy_version", "strategy_prompt_hash"]


def run_of(catalog: Catalog, run_id: str) -> tuple[dict[str, Any], RunSpec]:
    """Read the row and the settings of a run.

    Raises:
        ConfigurationError: There is no such run, or it has no strategies.
    """
    found = fetch(catalog, "runs", run_ids=[run_id])
    if not found:
        known = known_names(catalog, "run")
        raise ConfigurationError(f"no run {run_id!r}; {did_you_mean(run_id, known, 'the lake has')}")
    (run,) = found
    spec = RunSpec.read(run["spec"])
    if not _graded(spec):
        raise ConfigurationError(f"run {run_id} has no strategies whose answers a rule grades, so nothing to compare")
    return run, spec


def _graded(spec: RunSpec) -> list[str]:
    """Find the benchmarks of a run with strategies whose answers a rule grades as right or wrong."""
    return [
        name for name, settings in spec.benchmarks.items() if settings.has_consensus and spec.benchmark(name).has_rule
    ]


def verdicts_of(catalog: Catalog, spec: RunSpec, judges: Mapping[str, str]) -> "pl.DataFrame":
    """Read what a run got right: one row per planned question and strategy.

    Args:
        catalog: The public views.
        spec: The run.
        judges: For each dataset the judge whose verdicts are wanted; where the run has none of this judge, or no judge
            is given, those of its grading model, else of its rule.

    Returns:
        Columns of `baselines` from benchmark to answer_hash; reused: whether other runs have paid for all replies
        behind the answer, null where that is not known; settings and settings_hash.
    """
    names = _graded(spec)
    planned = [
        {"benchmark": name, "strategy": strategy} for name in names for strategy in spec.benchmarks[name].strategies
    ]
    own = {name: spec.benchmarks[name].judges for name in names}
    frame = fetch_frame(
        catalog,
        "verdicts",
        run_id=spec.run_id,
        benchmarks=names,
        sha256s=[spec.benchmarks[name].question_set_sha256 for name in names],
        n_questions=[spec.n_questions(name) for name in names],
        judges=[judges[name] if judges.get(name) in own[name] else own[name][-1] for name in names],
        planned=planned,
        strategies=list(spec.strategies),
    )
    made = frame.group_by("benchmark", "strategy").agg(pl.col(_OF_STRATEGY).drop_nulls().last())
    settings = [_settings(spec, **row) for row in made.iter_rows(named=True)]
    texts = [orjson.dumps(values, option=orjson.OPT_SORT_KEYS).decode() for values in settings]
    hashes = [sha256_json(values) for values in settings]
    made = made.select("benchmark", "strategy", settings=pl.Series(texts), settings_hash=pl.Series(hashes))
    return frame.drop(_OF_STRATEGY).join(made, on=["benchmark", "strategy"], how="left", maintain_order="left")


def _settings(spec: RunSpec, benchmark: str, strategy: str, **of_strategy: Any) -> Row:
    """Return the settings of the answers of a strategy, as far as they can change what these say."""
    one = spec.benchmarks[benchmark]
    sampling = one.model_dump(include={"temperature", "max_tokens", "frequency_penalty", "parameters", "prompt_hash"})
    if strategy == SINGLE:
        return {"model": spec.model, **sampling}
    consensus = {"samples": len(one.shared), "consensus_model": spec.consensus_model}
    return {"model": spec.model, "models": spec.sampled_models, **sampling, **consensus, **of_strategy}


def baseline_of(catalog: Catalog, name: str) -> "pl.DataFrame":
    """Read the rows of a baseline.

    Raises:
        ConfigurationError: There is no such name.
    """
    found = fetch(catalog, "baseline", baseline=name)
    if not found:
        names = [row["name"] for row in fetch(catalog, "baselines")]
        there = (
            did_you_mean(name, names, "there is")
            if names
            else f"`shaberi baseline promote {name} --model MODEL` makes one"
        )
        raise ConfigurationError(f"no baseline {name!r}; {there}")
    return pl.DataFrame(found, schema=BASELINES.schema)


Outcome = Literal["passed", "failed", "inconclusive"]
_PAID_FOR = "compared answers rest on replies that other runs have paid for, which are no new evidence"
POOLED = "all datasets"
LEAST_COMPARED = 0.9
"""Least share of the baseline's questions for a gate that passes."""
MOST_FAILED = 0.05
"""Share of a side's questions: with more failed calls a gate has no verdict."""
MOST_FAILED_OF_DATASET = 0.1
"""Share of a side's questions of one dataset: it has fewer questions, and one failed call is a larger share of them."""
_CELL = ["benchmark", "strategy"]
_KEY = [*_CELL, "question_id"]
_VERSIONS = ["benchmark", "question_set", "question_set_now"]
_OTHER_RULE = (
    pl.col("judge").str.starts_with(RULE)
    & (pl.col("judge") == pl.col("judge_now"))
    & (pl.col("judge_config_hash") != pl.col("judge_config_hash_now"))
)
"""One rule graded on both sides, but not as one and the same."""
_UNDECIDED = (pl.col("status") == "excluded") & pl.col("correct").is_null()
_FAILED = pl.col("status").is_in(["error", "skipped", "missing"]) & pl.col("error_class").ne_missing("no_score")
"""No reply came; one in which the grading model's verdict cannot be read is a reply."""


@dataclass(frozen=True)
class GateReport:
    """The result of a check.

    Attributes:
        gate: The kind of tests.
        significance: Level of all tests together.
        run_id: The run that was checked.
        model: Its model.
        baseline: Name of the baseline.
        baseline_run_id: The run that it was promoted from.
        baseline_model: Its model.
        tests: The tests.
        totals: The sums over all datasets, of each strategy.
        warnings: Things that are not the same on both sides, or missing; one sentence each, without a full stop.
        could_fail: It had failed, had the run lost every question that the baseline got right.
        n_questions: Questions of the baseline.
        n_compared: Those of them that were compared, by all strategies of the run that the baseline has.
        n_answers: Answers of the run that were compared: of each question one by each strategy.
        n_reused: Those of them that rest on replies alone that other runs have paid for.
        n_questions_current: Questions of the run on datasets that the baseline has.
        n_undecided: Questions that were compared, and that a rule could not decide on a side: such an answer is wrong
            in the tests, which have to say the same without these questions.
        unsure: Where they do not: it is worse with or without them; one name each.
        n_failed_baseline: Questions of the baseline that lack a reply, since a call failed or was never made.
        n_failed_current: The same of the run.
        failures_count: These count as wrong; else they are left out on both sides.
        failed_datasets: Datasets of which more than `MOST_FAILED_OF_DATASET` failed on a side; one clause each.
        unlike_rules: Datasets that rules of other versions or settings graded than in the baseline.
        unlike: Questions and judges that are not the same on both sides, rules left out; one clause each.
    """

    gate: Gate
    significance: float
    run_id: str
    model: str
    baseline: str
    baseline_run_id: str
    baseline_model: str
    tests: tuple[GateTest, ...]
    totals: tuple[Tally, ...]
    warnings: tuple[str, ...]
    could_fail: bool
    n_questions: int
    n_compared: int
    n_answers: int
    n_reused: int
    n_questions_current: int
    n_undecided: int = 0
    unsure: tuple[str, ...] = ()
    n_failed_baseline: int = 0
    n_failed_current: int = 0
    failures_count: bool = False
    failed_datasets: tuple[str, ...] = ()
    unlike_rules: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for which run and baseline do not compare; one clause each."""
        rules = (
            f"another version of their rule graded {listed(self.unlike_rules)} of the baseline: "
            "`shaberi reprocess` grades its run again, then promote it again"
        )
        return (*self.unlike, *([rules] if self.unlike_rules else []))

    @property
    def further_warnings(self) -> list[str]:
        """The warnings that the verdict does not say."""
        return [warning for warning in self.warnings if warning not in self.unlike]

    @property
    def failures(self) -> str:
        """The failed questions of both sides, and what is left to compare; empty where none failed."""
        if not self.n_failed_baseline + self.n_failed_current:
            return ""
        compared = f"compared are the {self.n_compared} that both answered"
        return (
            f"calls failed on {self.n_failed_baseline} of {self.n_questions} questions of the baseline and "
            f"{self.n_failed_current} of {self.n_questions_current} of this run: "
            f"{'they count as wrong' if self.failures_count else compared}"
        )

    @property
    def too_many_failed(self) -> tuple[str, ...]:
        """The places (all or a dataset) where more of a side's calls failed than a gate allows; one clause each."""
        if self.failures_count:
            return ()
        shares = (self.n_failed_baseline / self.n_questions, self.n_failed_current / self.n_questions_current)
        over_all = f"{self.failures} (at most {MOST_FAILED:.0%} of a side may fail)"
        by_dataset = f"{'; '.join(self.failed_datasets)} (at most {MOST_FAILED_OF_DATASET:.0%} of a dataset may fail)"
        return (*([over_all] * (max(shares) > MOST_FAILED)), *([by_dataset] * bool(self.failed_datasets)))

    @property
    def result(self) -> Outcome:
        """`failed` where something is shown to be worse; a gate that could not have shown it is `inconclusive`."""
        if self.reasons or self.too_many_failed:
            return "inconclusive"
        if any(test.regressed for test in self.tests):
            return "failed"
        return "inconclusive" if self.doubts else "passed"

    @property
    def doubts(self) -> tuple[str, ...]:
        """The reasons for which the gate cannot pass; one clause each."""
        doubts = [*self.reasons]
        if self.too_many_failed:
            return (*doubts, *self.too_many_failed)
        if self.unsure:
            why = cannot_tell(self.n_undecided, self.n_compared)
            doubts.append(f"{listed(self.unsure)}: {why}, which decide whether it is worse")
        if not self.could_fail:
            doubts.append("there are so few questions that no test could have failed")
        if self.n_compared / self.n_questions < LEAST_COMPARED:
            share = f"{self.n_compared / self.n_questions:.0%} of the baseline's questions"
            doubts.append(f"only {share} were compared ({self.n_compared} of {self.n_questions})")
        if self.baseline_run_id == self.run_id:
            doubts.append("a run is never worse than itself")
        elif 0 < self.n_reused == self.n_answers:
            doubts.append("every compared answer is older than this run: other runs have paid for all replies")
        return tuple(doubts)

    @property
    def lifts(self) -> Rows:
        """The lift of each strategy but `single`; none without it.

        A row has the strategy, the accuracy that it adds to that of the single answer in the `baseline` and in the run
        (`current`), and the `change`: how much more that is in the run.
        """
        rows = []
        for single in [tally for tally in self.totals if tally.strategy == SINGLE]:
            for tally in [tally for tally in self.totals if tally is not single]:
                before = difference(tally.baseline_accuracy, single.baseline_accuracy)
                now = difference(tally.current_accuracy, single.current_accuracy)
                change = difference(now, before)
                rows.append({"strategy": tally.strategy, "baseline": before, "current": now, "change": change})
        return rows

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.reasons or self.too_many_failed:
            return f"INCONCLUSIVE: no verdict against baseline {self.baseline}: {'; '.join(self.doubts)}"
        if worse := [_place(*_cell(test)) for test in self.tests if test.regressed]:
            return f"FAILED: worse than baseline {self.baseline}: {listed(worse)}"
        if self.doubts:
            return f"INCONCLUSIVE: not shown to be worse than baseline {self.baseline}, but {'; '.join(self.doubts)}"
        return f"PASSED: nothing is shown to be worse than baseline {self.baseline}"


def check_regression(
    catalog: Catalog,
    run_id: str,
    baseline: str,
    *,
    gate: Gate = "paired",
    significance: float = SIGNIFICANCE,
    per_dataset: bool = False,
    failures_count: bool = False,
    benchmarks: Collection[str] | None = None,
    strategies: Collection[str] | None = None,
) -> GateReport:
    """Test whether a run is worse than a baseline. Nothing is written.

    Args:
        catalog: The public views, from `open_catalog`.
        run_id: A run with consensus strategies.
        baseline: Name of a baseline.
        gate: `paired` tests the questions that both have; `fisher` all questions of both on common datasets.
        significance: At most this share of equal runs fails.
        per_dataset: For `fisher`: test the datasets instead of their sums.
        failures_count: Failed calls count as wrong; else questions to which a call failed on one side are left out.
        benchmarks: Only these datasets; None means all.
        strategies: Only these of the run's, and `single`; None means all.

    Raises:
        ConfigurationError: There is no such run or baseline, or nothing is common to both.
    """
    if gate not in get_args(Gate):
        raise ConfigurationError(f"gate must be one of {', '.join(get_args(Gate))}, not {gate!r}")
    if not 0 < significance < 1:
        raise ConfigurationError(f"significance must be between 0 and 1, not {significance:g}")
    before = baseline_of(catalog, baseline)
    _, spec = run_of(catalog, run_id)
    now = verdicts_of(catalog, spec, dict(before.select("benchmark", "judge").iter_rows()))
    sums_of = before["question_set"][0].split(",") if before["benchmark"][0] == POOLED else []
    if sums_of:
        gate, named = "fisher", pl.concat_str("benchmark", "question_id", separator="/")
        now = now.filter(pl.col("benchmark").is_in(sums_of))
        now = now.with_columns(question_id=named, question_set="benchmark", benchmark=pl.lit(POOLED))
    elif benchmarks is not None:
        before, now = (frame.filter(pl.col("benchmark").is_in(list(benchmarks))) for frame in (before, now))
    if strategies is not None:
        now = now.filter(pl.col("strategy").is_in([SINGLE, *strategies]))
    cells = before.select(_CELL).unique(maintain_order=True)
    common = cells.join(now, on=_CELL, how="semi", maintain_order="left")
    pairs = before.join(now, on=_KEY, how="inner", suffix="_now")
    if common.is_empty() or (gate == "paired" and pairs.is_empty()):
        what = "dataset and strategy" if common.is_empty() else "question"
        raise ConfigurationError(f"run {run_id} and baseline {baseline} have no {what} in common")
    asked_before, asked_now = (frame.join(common, on=_CELL, how="semi") for frame in (before, now))
    failed_before, failed_now = asked_before.filter(_FAILED), asked_now.filter(_FAILED)
    left_out = pl.concat([failed_before.select(_KEY), failed_now.select(_KEY)])
    left_out = left_out.clear() if failures_count else left_out
    test_all = paired_gate if gate == "paired" else fisher_gate

    def tested(left_out: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, Sequence[Tally], Sequence[GateTest], bool]:
        sides = (pairs, pairs) if gate == "paired" else (asked_before, asked_now)
        compared, answers = (frame.join(left_out, on=_KEY, how="anti") for frame in sides)
        tallies = _tallies(common, compared, answers, is_paired=gate == "paired")
        units = tallies if gate == "paired" or per_dataset else pool(tallies)
        tests, can_fail = test_all(units, significance), could_fail(test_all, units, significance)
        return compared, answers, tallies, tests, can_fail

    compared, answers, tallies, tests, can_fail = tested(left_out)
    undecided = pl.concat([frame.filter(_UNDECIDED).select(_KEY) for frame in (asked_before, asked_now)])
    *_, decided, _ = tested(pl.concat([left_out, undecided])) if undecided.height else (tests, can_fail)
    worse, worse_if_decided = ({_cell(test) for test in end if test.regressed} for end in (tests, decided))
    n_reused = answers.filter(pl.col("reused")).height
    should_be = before.join(now, on="strategy", how="semi")
    n_questions = _n_questions(should_be)
    first = before.row(0, named=True)
    missing = sorted({*sums_of} - {*now["question_set"]})
    only_sums = f"the baseline has only sums, over {len(sums_of)} datasets"
    return GateReport(
        gate=gate,
        significance=significance,
        run_id=run_id,
        model=spec.model,
        baseline=baseline,
        baseline_run_id=first["run_id"],
        baseline_model=first["model"],
        tests=tuple(replace(test, regressed=test.regressed and _cell(test) in worse_if_decided) for test in tests),
        totals=tuple(pool(tallies)),
        warnings=(
            *_warnings(before, now, pairs, spec, failures_count=failures_count),
            *([f"{n_reused} of {answers.height} {_PAID_FOR}"] if n_reused else []),
        ),
        could_fail=can_fail,
        n_undecided=_n_questions(compared.join(undecided, on=_KEY, how="semi")),
        unsure=tuple(_place(*cell) for cell in sorted(worse ^ worse_if_decided, key=str)),
        n_questions=n_questions,
        n_compared=n_questions - _n_questions(should_be.join(compared, on=_KEY, how="anti")),
        n_answers=answers.height,
        n_reused=n_reused,
        n_questions_current=_n_questions(asked_now),
        n_failed_baseline=_n_questions(failed_before),
        n_failed_current=_n_questions(failed_now),
        failures_count=failures_count,
        failed_datasets=tuple(_failed_datasets({"the baseline": asked_before, "this run": asked_now})),
        unlike_rules=tuple(pairs.filter(_OTHER_RULE)["benchmark"].unique(maintain_order=True)),
        unlike=(
            *([f"{only_sums}, and this run lacks {listed(missing)}"] if missing else []),
            *changed_questions(catalog, pairs.select(_VERSIONS).unique(maintain_order=True).iter_rows()),
            *_unlike_judges(pairs, rules=False),
        ),
    )


def regression_checks(warehouse: Path, run_id: str, baseline: str, benchmarks: Sequence[str]) -> dict[str, Check]:
    """Make the check `no_regression` of a run's datasets, by the gate `paired`.

    Args:
        warehouse: The lake.
        run_id: A run with consensus strategies.
        baseline: Name of a baseline.
        benchmarks: The datasets that are compared.

    Returns:
        For each of them: failed where a test that it is part of has failed. If the gate is inconclusive, or nothing
        can be compared, it is a warning that says so.
    """
    try:
        with open_catalog(warehouse) as catalog:
            report = check_regression(catalog, run_id, baseline, benchmarks=benchmarks)
    except ConfigurationError as error:
        said = f"not compared: {error}"
        return dict.fromkeys(benchmarks, Check("no_regression", passed=False, description=said, severe=False))
    said = " ".join(f"{part}." for part in (report.verdict, *report.further_warnings))
    worse = {test.tally.benchmark for test in report.tests if test.regressed and report.result == "failed"}
    failed = [name for name in benchmarks if {name, None} & worse]
    passed = {*benchmarks} - {*failed} if report.result != "inconclusive" else set()
    return {
        name: Check("no_regression", passed=name in passed, description=said, severe=name in failed)
        for name in benchmarks
    }


def _side(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Count the right answers of each dataset and strategy, by the names that `Tally` has for this side."""
    return frame.group_by(_CELL).agg(
        pl.len().alias(f"n_{name}"),
        pl.col("correct").sum().alias(f"{name}_correct"),
        pl.col("correct").count().alias(f"{name}_scored"),
    )


def _cell(test: GateTest) -> tuple[str, str | None]:
    return test.tally.strategy, test.tally.benchmark


def _place(strategy: str, benchmark: str | None) -> str:
    return f"{strategy} on {benchmark or POOLED}"


def _tallies(common: pl.DataFrame, compared: pl.DataFrame, answers: pl.DataFrame, *, is_paired: bool) -> list[Tally]:
    """Make the tallies, in the order of the baseline's datasets and strategies."""
    counts = [_side(compared, "baseline")]
    if is_paired:
        right, right_now = (pl.col(name).fill_null(value=False) for name in ("correct", "correct_now"))
        counts += [
            _side(compared.with_columns(correct=pl.col("correct_now")), "current"),
            compared.group_by(_CELL).agg(losses=(right & ~right_now).sum(), gains=(~right & right_now).sum()),
        ]
    else:
        counts.append(_side(answers, "current"))
    rows = common
    for frame in counts:
        rows = rows.join(frame, on=_CELL, how="inner", maintain_order="left")
    return [Tally(**row) for row in rows.iter_rows(named=True)]


def _n_questions(rows: pl.DataFrame) -> int:
    return rows.select("benchmark", "question_id").n_unique()


def _failed_datasets(sides: Mapping[str, pl.DataFrame]) -> Iterator[str]:
    """Name the datasets of which too many questions failed on a side; of a single one the share over all says it."""
    for name, rows in sides.items():
        by_dataset = rows.partition_by("benchmark", as_dict=True)
        for (benchmark,), asked in by_dataset.items():
            n_failed, n_asked = _n_questions(asked.filter(_FAILED)), _n_questions(asked)
            if n_failed > MOST_FAILED_OF_DATASET * n_asked and len(by_dataset) > 1:
                yield f"{benchmark}: calls failed on {n_failed} of {n_asked} questions of {name}"


def _warnings(
    before: pl.DataFrame, now: pl.DataFrame, pairs: pl.DataFrame, spec: RunSpec, *, failures_count: bool
) -> Iterator[str]:
    """Say what makes the comparison one of unlike things, or of fewer than one might think."""
    if before["run_id"][0] == spec.run_id:
        yield "the baseline was promoted from this very run"
    if before["model"][0] != spec.model:
        yield f"models differ: baseline {before['model'][0]}, this run {spec.model}"
    for column, name in (("benchmark", "datasets"), ("strategy", "strategies")):
        there, here = (list(dict.fromkeys(frame[column])) for frame in (before, now))
        if missing := [entry for entry in there if entry not in here]:
            yield f"{name} of the baseline that this run has not: {listed(missing)}"
        if fresh := [entry for entry in here if entry not in there]:
            yield f"{name} of this run that the baseline has not, and that are not checked: {listed(fresh)}"
    yield from _unlike_questions(before, now)
    yield from _unlike_judges(pairs)
    yield from _unlike_settings(pairs, before["model"][0], spec.model)
    for name, frame in (("the baseline", before), ("this run", now)):
        yield from _without_verdict(
            name, frame, _FAILED, "failed and " + ("count as wrong" * failures_count or "are left out")
        )
        yield from _without_verdict(name, frame, ~_FAILED, "have no verdict and count as wrong")


def _without_verdict(name: str, frame: pl.DataFrame, which: pl.Expr, what: str) -> Iterator[str]:
    without = frame.filter(pl.col("correct").is_null() & which)
    if without.height:
        kinds = without.group_by(pl.coalesce("error_class", "status").alias("kind")).len().sort("len", "kind")
        counts = [f"{count} {kind}" for kind, count in kinds.reverse().iter_rows()]
        share = 100 * without.height / frame.height
        yield f"{without.height} of {frame.height} answers of {name} ({share:.1f} %) {what}: {listed(counts)}"


def _unlike_judges(pairs: pl.DataFrame, *, rules: bool = True) -> Iterator[str]:
    columns = ["benchmark", "judge", "judge_now", "judge_config_hash", "judge_config_hash_now"]
    for benchmark, first, second, *hashes in pairs.select(columns).drop_nulls().unique(maintain_order=True).iter_rows():
        if first != second:
            yield f"{benchmark}: judges differ: baseline {first}, this run {second}"
        elif hashes[0] != hashes[1] and (rules or not first.startswith(RULE)):
            yield f"{benchmark}: version or settings of the judge {first} differ"


def _unlike_questions(before: pl.DataFrame, now: pl.DataFrame) -> Iterator[str]:
    for benchmark in dict.fromkeys(before["benchmark"]):
        there, here = (set(frame.filter(benchmark=benchmark)["question_id"]) for frame in (before, now))
        if here and there != here:
            yield (
                f"{benchmark}: the questions differ: {len(there & here)} in common, {len(there - here)} only in the "
                f"baseline, {len(here - there)} only in this run"
            )


def _unlike_settings(pairs: pl.DataFrame, model_before: str, model_now: str) -> Iterator[str]:
    """Say which settings of the answers changed, and where, beside the model; that may be what is to be checked."""
    unlike = pairs.filter(pl.col("settings_hash") != pl.col("settings_hash_now"))
    columns = ["benchmark", "strategy", "settings", "settings_now"]
    found: dict[str, list[str]] = {}
    for benchmark, strategy, *texts in unlike.select(columns).unique(maintain_order=True).iter_rows():
        texts[0] = texts[0].replace(f'"{model_before}"', f'"{model_now}"')
        first, second = map(orjson.loads, texts)
        for name in sorted((first.keys() | second.keys()) - {"model"}):
            values = first.get(name), second.get(name)
            if values[0] != values[1]:
                said = "" if name.endswith("_hash") else f" (baseline {values[0]}, this run {values[1]})"
                found.setdefault(f"{name.removesuffix('_hash')} changed{said}", []).append(f"{benchmark}/{strategy}")
    for change, places in found.items():
        yield f"{change} in {listed(places)}"


_SCORED = ("baseline_scored_accuracy", "current_scored_accuracy")
_OF_TALLY = ("baseline_accuracy", "current_accuracy", "delta", *_SCORED)
_OF_TEST = ("p_value", "adjusted_p_value", "level", "minimum_detectable_effect", "regressed")


def gate_result(report: GateReport, *, notes: bool = True) -> Result:
    """Say what a gate found: the result, then tests and warnings. Its document is `gate` in the one of `quick-eval`.

    Args:
        report: What it found.
        notes: With all tests and lifts and how they are made; else the tests over all benchmarks.
    """
    tests = [
        {**vars(test.tally)}
        | {name: getattr(test.tally, name) for name in _OF_TALLY}
        | {name: getattr(test, name) for name in _OF_TEST}
        for test in report.tests
    ]
    shown = [test for test in tests if notes or test["benchmark"] is None or test["regressed"]] or tests
    said: list[Block] = [
        Sentences([f"Gate {report.verdict}."], "verdict"),
        Heading(
            f"Regression gate {report.gate}",
            f"{report.run_id} against baseline {report.baseline} ({report.baseline_run_id})",
        ),
        replace(TESTS, bold=[place for place, test in enumerate(shown) if test["regressed"]]).of(shown),
        *([_LIFTS.of(report.lifts)] if report.lifts and notes else []),
        Sentences([f"{warning}." for warning in report.further_warnings], "warning"),
        Sentences([*_notes(report)] if notes else [], "note"),
    ]
    document = {
        "result": report.result,
        "passed": report.result == "passed",
        "verdict": report.verdict,
        "comparable": not report.reasons,
        **{name: getattr(report, name) for name in ("reasons", "doubts", "lifts")},
        **{name: value for name, value in vars(report).items() if name not in {"totals", "unlike"}},
        "most_failed": MOST_FAILED,
        "tests": tests,
    }
    return Result(said, tests, plain(document))


def _n(row: Row) -> str:
    return str(row["n_current"]) if row["n_current"] == row["n_baseline"] else f"{row['n_baseline']}/{row['n_current']}"


def _adjusted(row: Row) -> str:
    return "too few" if row["adjusted_p_value"] is None else f"{row['adjusted_p_value']:.4f}{'*' * row['regressed']}"


TESTS = Table(
    [
        text("strategy"),
        text("dataset", "benchmark", null="all"),
        number("n", _n),
        number("before", "baseline_accuracy", upper="baseline_scored_accuracy", form="share"),
        number("now", "current_accuracy", upper="current_scored_accuracy", form="share"),
        number("change", "delta", form="points"),
        number("scored only", lambda row: " ".join(percent(row[name]) for name in _SCORED), optional=True),
        number(
            "lost/won",
            lambda row: NOTHING if row["losses"] is None else f"{row['losses']}/{row['gains']}",
            where=lambda rows: any(row["losses"] is not None for row in rows),
        ),
        number("p", "p_value", form="{:.4f}", optional=True),
        number("Holm p", _adjusted),
        number(("detect-", "able"), lambda row: points(subtract_or_none(0, row["minimum_detectable_effect"]))),
    ]
)
"""The tests of gates, of the rows of their documents."""


_LIFTS = Table(
    [
        text("lift over single", "strategy"),
        number("before", "baseline", form="points"),
        number("now", "current", form="points"),
        number("change", "change", form="points"),
    ]
)


def _notes(report: GateReport) -> Iterator[str]:
    family = sum(test.adjusted_p_value is not None for test in report.tests)
    tests = (
        "McNemar's exact test over the same questions, pooled over datasets and on each"
        if report.gate == "paired"
        else "Fisher's exact test, as if all questions were different"
    )
    yield f"{tests}; one-sided: worse. {family} tests together at level {report.significance:g} (Holm); * regressed."
    yield f"Compared: {report.n_compared} of {report.n_questions} questions of the baseline."
    if report.failures and not report.too_many_failed:
        yield f"{report.failures.capitalize()}."
    yield "An undecided answer is wrong at the lower end, and left out at the upper one."
    yield "detectable: the drop that this test would see 8 times of 10, if as many questions change by chance."
    if report.n_undecided:
        undecided = counted(report.n_undecided, "question")
        yield f"{undecided} undecided on a side: a result has to be the same without them."
    if family < len(report.tests):
        yield "too few: so few questions differ that the test could not fail, even if all of them were lost."
