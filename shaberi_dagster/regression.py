"""Whether a run got worse than a named baseline: promotion, and the gates `paired` and `fisher`.

A baseline is what a run got right: one row per dataset, strategy and question, in the table `baselines`. It is
promoted explicitly, has a name that is given once, and is never changed. Why the tests are what they are is in
docs/design/gates.md.
"""

import fcntl
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import duckdb
import numpy as np
import orjson
import polars as pl
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shaberi_dagster.benchmarks.registry import get_benchmark
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.identity import check_run_tag, sha256_json
from shaberi_dagster.lake.catalog import connect, open_catalog, run_query, write_catalog
from shaberi_dagster.lake.schemas import BASELINES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.spec import SINGLE, RunSpec, is_cache
from shaberi_dagster.runs.workspace import JOURNAL_FOLDER
from shaberi_dagster.stages.result import Check
from shaberi_dagster.statistics.power import detectable_fisher_drop, detectable_paired_drop
from shaberi_dagster.statistics.significance import fisher_lower_tail, holm, mcnemar_exact

Gate = Literal["paired", "fisher"]
SIGNIFICANCE = 0.10
"""Of the original gate: at most one false alarm in ten checks."""
POOLED = "all datasets"
_KEY = ["benchmark", "question_id", "strategy"]
_MOST_LISTED = 5


# --- what is counted -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """How many questions of a dataset the baseline and the run got right by one strategy.

    A question without a verdict (a failure, or nobody can tell) is not right.

    Attributes:
        strategy: The strategy; `single` is one answer as it is.
        benchmark: The dataset; None for all of them.
        n_baseline: Questions of the baseline.
        n_current: Questions of the run.
        baseline_correct: How many of them the baseline got right.
        current_correct: How many of them the run got right.
        baseline_scored: How many of the baseline's have a verdict.
        current_scored: How many of the run's have a verdict.
        losses: Common questions that only the baseline got right; None where questions are not paired.
        gains: Common questions that only the run got right; None likewise.
    """

    strategy: str
    benchmark: str | None
    n_baseline: int
    n_current: int
    baseline_correct: int
    current_correct: int
    baseline_scored: int
    current_scored: int
    losses: int | None = None
    gains: int | None = None

    @property
    def baseline_accuracy(self) -> float | None:
        """Share of the baseline's questions that it got right."""
        return _share(self.baseline_correct, self.n_baseline)

    @property
    def current_accuracy(self) -> float | None:
        """Share of the run's questions that it got right."""
        return _share(self.current_correct, self.n_current)

    @property
    def baseline_scored_accuracy(self) -> float | None:
        """Share of those with a verdict that the baseline got right."""
        return _share(self.baseline_correct, self.baseline_scored)

    @property
    def current_scored_accuracy(self) -> float | None:
        """Share of those with a verdict that the run got right."""
        return _share(self.current_correct, self.current_scored)

    @property
    def delta(self) -> float | None:
        """current_accuracy - baseline_accuracy."""
        return _difference(self.current_accuracy, self.baseline_accuracy)

    @property
    def discordant(self) -> int:
        """Common questions that one of them got right."""
        return (self.losses or 0) + (self.gains or 0)


@dataclass(frozen=True)
class GateTest:
    """One test of a gate.

    Attributes:
        tally: What it tests.
        p_value: One-sided; small when the run is worse.
        adjusted_p_value: For all tests of the gate; None when this one could not have failed whatever its discordant
            questions had said, so that it is none of the gate's tests.
        level: At which it is tested while no other test has failed.
        regressed: Whether the run is shown to be worse.
    """

    tally: Tally
    p_value: float
    adjusted_p_value: float | None
    level: float
    regressed: bool

    @cached_property
    def minimum_detectable_effect(self) -> float | None:
        """The drop of the accuracy that the test sees with probability 0.8 at `level`; None if it sees none.

        Paired questions are taken to change as often as they did here, as many for the better as for the worse.
        """
        one = self.tally
        accuracy = one.baseline_accuracy
        if not accuracy or not one.n_current:
            return None
        if one.losses is None:
            return detectable_fisher_drop(accuracy, one.n_baseline, one.n_current, self.level)
        drop = detectable_paired_drop(one.n_current, one.discordant / one.n_current, self.level)
        return drop if drop is not None and drop <= accuracy else None

    def as_dict(self) -> dict[str, Any]:
        """Everything about it, for JSON."""
        one = self.tally
        return asdict(one) | {
            "baseline_accuracy": one.baseline_accuracy,
            "current_accuracy": one.current_accuracy,
            "delta": one.delta,
            "baseline_scored_accuracy": one.baseline_scored_accuracy,
            "current_scored_accuracy": one.current_scored_accuracy,
            "p_value": self.p_value,
            "adjusted_p_value": self.adjusted_p_value,
            "level": self.level,
            "minimum_detectable_effect": self.minimum_detectable_effect,
            "regressed": self.regressed,
        }


# --- the gates -------------------------------------------------------------------------------------------------------


def paired_gate(tallies: Sequence[Tally], significance: float = SIGNIFICANCE) -> tuple[GateTest, ...]:
    """McNemar's exact test of each strategy over all datasets, and on each dataset; one-sided: worse.

    Over several datasets the sums of losses and gains are tested, which is exact whatever the datasets' sizes and
    difficulties are. Half of the level is for these pooled tests, which see a drop everywhere, half for the tests of
    single datasets, which see one that breaks; both halves are one family of Holm's method with weights, so that at
    most `significance` of the checks of an equal run fail.

    Tests with too few discordant questions to fail are left out of the family first (Tarone 1990, Biometrics 46:515).
    How many questions are discordant says nothing about their direction, so that this costs no level. With one dataset
    there are only the pooled tests.

    Args:
        tallies: Of each strategy and dataset, with losses and gains.
        significance: Level of all tests together.

    Returns:
        Of each strategy the pooled test, then the datasets.
    """
    pooled = pool(tallies)
    single = tallies if len({one.benchmark for one in tallies}) > 1 else ()
    testable = _testable(single, significance / 2)
    share = significance / 2 if testable else significance
    levels = _levels(pooled, share) | _levels(single, significance / 2)
    order = [one for head in pooled for one in (head, *(own for own in single if own.strategy == head.strategy))]
    in_family = {*testable, *_testable(pooled, share)}
    p = {one: mcnemar_exact(one.gains or 0, one.losses or 0, "less") for one in order}
    family = [one for one in order if one in in_family]
    adjusted = dict(
        zip(family, weighted_holm([p[one] for one in family], [levels[one] for one in family]), strict=True)
    )
    return tuple(
        GateTest(one, p[one], adjusted.get(one), levels[one], adjusted.get(one, 1.0) <= significance) for one in order
    )


def fisher_gate(tallies: Sequence[Tally], significance: float = SIGNIFICANCE) -> tuple[GateTest, ...]:
    """The original gate: Fisher's lower tail for each tally as if its questions were all different, and Holm's method.

    Args:
        tallies: The family: of each strategy over all datasets, or on each dataset.
        significance: Level of all tests together.
    """
    p = [
        fisher_lower_tail(
            one.baseline_correct,
            one.n_baseline - one.baseline_correct,
            one.current_correct,
            one.n_current - one.current_correct,
        )
        for one in tallies
    ]
    return tuple(
        GateTest(one, raw, adjusted, significance / len(p), adjusted <= significance and (one.delta or 0) < 0)
        for one, raw, adjusted in zip(tallies, p, holm(p), strict=True)
    )


def weighted_holm(p_values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's method with weights (Holm 1979, Scandinavian Journal of Statistics 6:65, section 4).

    The tests are taken in the order of p / weight; each is multiplied by the weights of those left / its own, cut off
    at 1, and is at least the one before it. With equal weights it is `holm`.

    Args:
        p_values: In any order.
        weights: Positive; how the level is shared in the beginning.
    """
    p, weight = np.asarray(p_values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    order = np.argsort(p / weight, kind="stable")
    left = np.cumsum(weight[order][::-1])[::-1]
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(np.minimum(p[order] * left / weight[order], 1.0))
    return [float(one) for one in adjusted]


def pool(tallies: Sequence[Tally]) -> list[Tally]:
    """The sums over datasets of each strategy, in the order of the strategies."""
    sums = []
    for strategy in dict.fromkeys(one.strategy for one in tallies):
        own = [vars(one) for one in tallies if one.strategy == strategy]
        total: dict[str, Any] = {
            name: None if own[0][name] is None else sum(one[name] for one in own)
            for name in own[0].keys() - {"strategy", "benchmark"}
        }
        sums.append(Tally(strategy, None, **total))
    return sums


def _testable(tallies: Sequence[Tally], level: float) -> list[Tally]:
    """The largest part of the tests of which each would fail at level / their number if all its questions were losses.

    It depends on the numbers of discordant questions only.
    """
    by_power = sorted(tallies, key=lambda one: -one.discordant)
    counts = [k for k, one in enumerate(by_power, 1) if 0.5**one.discordant <= level / k]
    return by_power[: max(counts, default=0)]


def _levels(tallies: Sequence[Tally], level: float) -> dict[Tally, float]:
    """The level of each test while none has failed: shared by those that can."""
    return dict.fromkeys(tallies, level / max(len(_testable(tallies, level)), 1))


# --- baselines -------------------------------------------------------------------------------------------------------


def promote(
    lake: Lake, run_id: str, name: str, note: str | None = None, *, allow_partial: bool = False
) -> pl.DataFrame:
    """Make what a run got right the baseline `name`, in one commit.

    Args:
        lake: Where the run is.
        run_id: A run with consensus strategies.
        name: Of the baseline; it is given once.
        note: What to say about it.
        allow_partial: Even if a part of the run has failed or is missing; that part counts as wrong.

    Returns:
        The rows.

    Raises:
        ConfigurationError: The name is taken, or there is no such run, or it is not complete.
    """
    _check_name(name)
    with connect(lake) as catalog:
        run, spec = _run(catalog, run_id)
        if run["status"] != "complete" and not allow_partial:
            raise ConfigurationError(
                f"run {run_id} is {run['status']} ({_unfinished(run)}): finish it with the command that began it, "
                "or promote it with --allow-partial"
            )
        verdicts = _verdicts(catalog, spec, {})
    if not verdicts["correct"].count():
        raise ConfigurationError(f"run {run_id} has no verdicts: there is nothing to promote")
    frame = verdicts.with_columns(
        name=pl.lit(name),
        note=pl.lit(note, dtype=pl.String),
        run_id=pl.lit(spec.run_id),
        model=pl.lit(spec.model),
        run_tag=pl.lit(spec.run_tag),
        created_at=pl.lit(datetime.now(UTC)),
    )
    with _promoting_alone(lake.folder):
        if lake.read("baselines", {"name": name}, ["run_id"]).height:
            raise ConfigurationError(f"baseline {name} exists and is never changed: give another name")
        lake.append("baselines", frame.select(BASELINES.schema.names()))
    write_catalog(lake)
    return frame


def baselines(catalog: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """All baselines, oldest first: the rows of the view `baseline_list`."""
    return _rows(catalog, "from baseline_list order by promoted_at, name")


@contextmanager
def _promoting_alone(warehouse: Path) -> Iterator[None]:
    """Within this context no other process promotes: two could find the same name free."""
    path = warehouse / JOURNAL_FOLDER / "baselines.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_name(name: str) -> None:
    try:
        check_run_tag(name)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("run tag", "baseline name", 1)) from None


def _unfinished(run: Mapping[str, Any]) -> str:
    states: dict[str, str] = orjson.loads(run["status_by_benchmark"] or "{}")
    return _listed([name for name, state in states.items() if state != "complete"]) or "not finished"


# --- what a run got right --------------------------------------------------------------------------------------------


_RUN = "select run_id, status, status_by_benchmark, spec from runs where run_id = $run_id"
_VERDICTS = """
with plan as (
    select
        unnest($benchmarks) as benchmark, unnest($sha256s) as question_set_sha256, unnest($n_questions) as n_questions,
        unnest($judges) as judge
),
asked as (
    select benchmark, question_set, question_set_sha256, question_id, judge, n_questions
    from plan
    join questions using (benchmark, question_set_sha256)
    qualify row_number() over (partition by benchmark order by position) <= n_questions
)
select
    asked.benchmark, asked.question_set, asked.question_set_sha256, asked.question_id, strategies.strategy, asked.judge,
    scores.judge_config_hash,
    case when scores.status = 'ok' then scores.score = 1 end as correct,
    coalesce(scores.status, 'missing') as status,
    coalesce(consensus.error_class, scores.error_class) as error_class,
    scores.answer_hash,
    consensus.strategy_version, consensus.strategy_prompt_hash
from asked
join (select unnest($planned, recursive := true)) as strategies using (benchmark)
left join scores
    on scores.run_id = $run_id
   and scores.benchmark = asked.benchmark
   and scores.question_id = asked.question_id
   and scores.strategy = strategies.strategy
   and scores.judge = asked.judge
   and scores.pipeline = 'baseline'
left join consensus
    on consensus.run_id = $run_id
   and consensus.benchmark = asked.benchmark
   and consensus.question_id = asked.question_id
   and consensus.strategy = strategies.strategy
order by list_position($benchmarks, asked.benchmark), list_position($strategies, strategies.strategy), asked.question_id
"""
_OF_VERDICTS = [
    *("benchmark", "question_set", "question_set_sha256", "question_id", "strategy", "judge", "judge_config_hash"),
    *("correct", "status", "error_class", "answer_hash"),
]
_OF_STRATEGY = ["strategy_version", "strategy_prompt_hash"]


def _run(catalog: duckdb.DuckDBPyConnection, run_id: str) -> tuple[dict[str, Any], RunSpec]:
    """The run's row and spec.

    Raises:
        ConfigurationError: There is no such run, or it has no strategies.
    """
    found = _rows(catalog, _RUN, run_id=run_id)
    if not found:
        raise ConfigurationError(f'no run {run_id!r}; `shaberi sql "from runs"` lists what there is')
    (run,) = found
    if is_cache(orjson.loads(run["spec"])):
        raise ConfigurationError(f"run {run_id} was imported: it has no strategies to compare")
    spec = RunSpec.read(run["spec"])
    if not _graded(spec):
        raise ConfigurationError(f"run {run_id} has no strategies whose answers a rule grades, so nothing to compare")
    return run, spec


def _graded(spec: RunSpec) -> list[str]:
    """The benchmarks of a run with strategies whose answers a rule grades as right or wrong."""
    return [name for name, one in spec.benchmarks.items() if one.has_consensus and get_benchmark(name).has_rule]


def _verdicts(catalog: duckdb.DuckDBPyConnection, spec: RunSpec, judges: Mapping[str, str]) -> pl.DataFrame:
    """What a run got right: one row per planned question and strategy.

    Args:
        catalog: The public views.
        spec: The run.
        judges: For each dataset whose verdicts are wanted; where the run has none of this judge, or no judge is
            given, those of its grading model, else of its rule.

    Returns:
        Columns of `baselines` from benchmark to answer_hash, settings and settings_hash.
    """
    names = _graded(spec)
    planned = [{"benchmark": name, "strategy": one} for name in names for one in spec.benchmarks[name].strategies]
    own = {name: spec.benchmarks[name].judges for name in names}
    frame = pl.DataFrame(
        _rows(
            catalog,
            _VERDICTS,
            run_id=spec.run_id,
            benchmarks=names,
            sha256s=[spec.benchmarks[name].question_set_sha256 for name in names],
            n_questions=[spec.n_questions(name) for name in names],
            judges=[judges[name] if judges.get(name) in own[name] else own[name][-1] for name in names],
            planned=planned,
            strategies=list(spec.strategies),
        ),
        schema={name: BASELINES.schema[name] for name in _OF_VERDICTS}
        | {"strategy_version": pl.Int64(), "strategy_prompt_hash": pl.String()},
    )
    made = frame.group_by("benchmark", "strategy").agg(pl.col(_OF_STRATEGY).drop_nulls().last())
    settings = [_settings(spec, **row) for row in made.iter_rows(named=True)]
    texts = [orjson.dumps(one, option=orjson.OPT_SORT_KEYS).decode() for one in settings]
    hashes = [sha256_json(one) for one in settings]
    made = made.select("benchmark", "strategy", settings=pl.Series(texts), settings_hash=pl.Series(hashes))
    return frame.drop(_OF_STRATEGY).join(made, on=["benchmark", "strategy"], how="left", maintain_order="left")


def _settings(spec: RunSpec, benchmark: str, strategy: str, **of_strategy: Any) -> dict[str, Any]:
    """How the answers of a strategy were made, as far as it can change what they say."""
    one = spec.benchmarks[benchmark]
    sampling = one.model_dump(include={"temperature", "max_tokens", "frequency_penalty", "prompt_hash"})
    if strategy == SINGLE:
        return {"model": spec.model} | sampling
    members = [member.model for member in spec.members or (spec.itself,)]
    shared = {"models": members, "samples": len(one.shared)}
    consensus = {"consensus_model": (spec.consensus or spec.itself).model}
    return {"model": spec.model} | sampling | shared | consensus | of_strategy


# --- a check ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lift:
    """What a strategy adds to the single answer.

    Attributes:
        strategy: The strategy.
        baseline: Accuracy of the strategy - of the single answer, in the baseline.
        current: The same in the run.
    """

    strategy: str
    baseline: float | None
    current: float | None

    @property
    def change(self) -> float | None:
        """How much more that is in the run."""
        return _difference(self.current, self.baseline)


@dataclass(frozen=True)
class GateReport:
    """The result of a check.

    Attributes:
        gate: Which tests.
        significance: Level of all tests together.
        run_id: What was checked.
        model: Its model.
        baseline: Name of the baseline.
        baseline_run_id: The run that it was promoted from.
        baseline_model: Its model.
        tests: All of them.
        totals: Over all datasets, of each strategy.
        warnings: What is not the same on both sides, or missing; one sentence each, without a full stop.
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

    @property
    def passed(self) -> bool:
        """Whether nothing is shown to be worse."""
        return not any(test.regressed for test in self.tests)

    @property
    def lifts(self) -> list[Lift]:
        """Of each strategy but `single`; empty without it."""
        single = next((one for one in self.totals if one.strategy == SINGLE), None)
        return [
            Lift(
                one.strategy,
                _difference(one.baseline_accuracy, single.baseline_accuracy),
                _difference(one.current_accuracy, single.current_accuracy),
            )
            for one in self.totals
            if single and one is not single
        ]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        worse = [f"{one.tally.strategy} on {one.tally.benchmark or POOLED}" for one in self.tests if one.regressed]
        if worse:
            return f"FAILED: worse than baseline {self.baseline}: {_listed(worse)}"
        return f"PASSED: nothing is shown to be worse than baseline {self.baseline}"

    def of_benchmark(self, benchmark: str) -> list[GateTest]:
        """The tests that a dataset is part of."""
        return [test for test in self.tests if test.tally.benchmark in {benchmark, None}]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            **{name: getattr(self, name) for name in ("gate", "significance", "passed", "verdict", "run_id", "model")},
            "baseline": self.baseline,
            "baseline_run_id": self.baseline_run_id,
            "baseline_model": self.baseline_model,
            "tests": [test.as_dict() for test in self.tests],
            "lifts": [asdict(lift) | {"change": lift.change} for lift in self.lifts],
            "warnings": list(self.warnings),
        }

    def render(self) -> RenderableType:
        """For a terminal: tests, lifts, warnings, what could have been seen, and the verdict."""
        parts: list[RenderableType] = [
            Text(
                f"Regression gate {self.gate}: {self.run_id} against baseline {self.baseline} ({self.baseline_run_id})"
            ),
            self._tests_table(),
        ]
        if lifts := self.lifts:
            parts += [Text(), _lifts_table(lifts)]
        parts.append(Text())
        parts += [Text(f"Warning: {warning}.", style="yellow") for warning in self.warnings]
        parts += [Text(note, style="dim") for note in self._notes()]
        parts.append(Text(f"Result: {self.verdict}", style="bold green" if self.passed else "bold red"))
        return Group(*parts)

    def _tests_table(self) -> Table:
        paired = self.gate == "paired"
        titles = ["strategy", "dataset", "n", "baseline", "now", "change", "scored only"]
        titles += ["lost/won"] if paired else []
        table = _table([*titles, "p", "Holm p", "detectable", ""], left={0, 1})
        for test in self.tests:
            one = test.tally
            n = str(one.n_current) if one.n_current == one.n_baseline else f"{one.n_baseline}/{one.n_current}"
            scored = f"{_percent(one.baseline_scored_accuracy)} {_percent(one.current_scored_accuracy)}"
            cells = [one.strategy, one.benchmark or POOLED, n]
            cells += [_percent(one.baseline_accuracy), _percent(one.current_accuracy), _points(one.delta), scored]
            cells += [f"{one.losses}/{one.gains}"] if paired else []
            adjusted = "too few" if test.adjusted_p_value is None else f"{test.adjusted_p_value:.4f}"
            drop = test.minimum_detectable_effect
            cells += [f"{test.p_value:.4f}", adjusted, _points(None if drop is None else -drop)]
            table.add_row(*cells, "*" if test.regressed else "", style="bold red" if test.regressed else None)
        return table

    def _notes(self) -> list[str]:
        family = sum(test.adjusted_p_value is not None for test in self.tests)
        tests = (
            "McNemar's exact test over the same questions, pooled over datasets and on each"
            if self.gate == "paired"
            else "Fisher's exact test, as if all questions were different"
        )
        notes = [
            f"{tests}; one-sided: worse. {family} tests together at level {self.significance:g} (Holm); * regressed.",
            "A question without a verdict counts as wrong; scored only: baseline and now without such questions.",
            "detectable: the drop that this test would see 8 times of 10, if as many questions change by chance.",
        ]
        if any(test.adjusted_p_value is None for test in self.tests):
            notes.append("too few: even if all questions that differ were lost, the test could not fail.")
        return notes


def check_regression(
    catalog: duckdb.DuckDBPyConnection,
    run_id: str,
    baseline: str,
    *,
    gate: Gate = "paired",
    significance: float = SIGNIFICANCE,
    per_dataset: bool = False,
    benchmarks: Collection[str] | None = None,
) -> GateReport:
    """Whether a run is worse than a baseline. Nothing is written.

    Args:
        catalog: The public views, from `open_catalog`.
        run_id: A run with consensus strategies.
        baseline: Name of a baseline.
        gate: `paired` tests the questions that both have; `fisher` all questions of both on common datasets.
        significance: At most this share of equal runs fails.
        per_dataset: For `fisher`: test the datasets instead of their sums.
        benchmarks: Only these datasets; None means all.

    Raises:
        ConfigurationError: There is no such run or baseline, or nothing is common to both.
    """
    if gate not in get_args(Gate):
        raise ConfigurationError(f"gate must be one of {', '.join(get_args(Gate))}, not {gate!r}")
    if not 0 < significance < 1:
        raise ConfigurationError(f"significance must be between 0 and 1, not {significance:g}")
    before = _baseline(catalog, baseline)
    _, spec = _run(catalog, run_id)
    now = _verdicts(catalog, spec, dict(before.select("benchmark", "judge").iter_rows()))
    if benchmarks is not None:
        before, now = (frame.filter(pl.col("benchmark").is_in(list(benchmarks))) for frame in (before, now))
    cells = before.select("benchmark", "strategy").unique(maintain_order=True)
    common = cells.join(now, on=["benchmark", "strategy"], how="semi", maintain_order="left")
    pairs = before.join(now, on=_KEY, how="inner", suffix="_now")
    if common.is_empty() or (gate == "paired" and pairs.is_empty()):
        what = "dataset and strategy" if common.is_empty() else "question"
        raise ConfigurationError(f"run {run_id} and baseline {baseline} have no {what} in common")
    if gate == "paired":
        tallies = _tallies(common, _joined(pairs))
        tests = paired_gate(tallies, significance)
    else:
        tallies = _tallies(common, _side(before, "baseline").join(_side(now, "current"), on=["benchmark", "strategy"]))
        tests = fisher_gate(tallies if per_dataset else pool(tallies), significance)
    first = before.row(0, named=True)
    return GateReport(
        gate=gate,
        significance=significance,
        run_id=run_id,
        model=spec.model,
        baseline=baseline,
        baseline_run_id=first["run_id"],
        baseline_model=first["model"],
        tests=tests,
        totals=tuple(pool(tallies)),
        warnings=tuple(_warnings(before, now, pairs, spec)),
    )


def regression_checks(warehouse: Path, run_id: str, baseline: str, benchmarks: Sequence[str]) -> dict[str, Check]:
    """The check `no_regression` of a run's datasets, by the gate `paired`.

    Args:
        warehouse: The lake.
        run_id: A run with consensus strategies.
        baseline: Name of a baseline.
        benchmarks: Those of its datasets that are compared.

    Returns:
        For each of them: failed where a test that it is part of has failed. If nothing can be compared, it is a
        warning that says so.
    """
    try:
        with open_catalog(warehouse) as catalog:
            report = check_regression(catalog, run_id, baseline, benchmarks=benchmarks)
    except ConfigurationError as error:
        said = f"not compared: {error}"
        return dict.fromkeys(benchmarks, Check("no_regression", passed=False, description=said, severe=False))
    said = "; ".join([report.verdict, *report.warnings])
    return {
        name: Check("no_regression", not any(test.regressed for test in report.of_benchmark(name)), said)
        for name in benchmarks
    }


def _baseline(catalog: duckdb.DuckDBPyConnection, name: str) -> pl.DataFrame:
    found = _rows(catalog, "select * from baselines where name = $name", name=name)
    if not found:
        names = [one["name"] for one in baselines(catalog)]
        there = f"there are {_listed(names)}" if names else "there is none: `shaberi baseline promote` makes one"
        raise ConfigurationError(f"no baseline {name!r}; {there}")
    return pl.DataFrame(found, schema=BASELINES.schema)


def _side(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Counts of each dataset and strategy, with the names that `Tally` has for this side."""
    return frame.group_by("benchmark", "strategy").agg(
        pl.len().alias(f"n_{name}"),
        pl.col("correct").sum().alias(f"{name}_correct"),
        pl.col("correct").count().alias(f"{name}_scored"),
    )


def _joined(pairs: pl.DataFrame) -> pl.DataFrame:
    before = pl.col("correct").fill_null(value=False)
    now = pl.col("correct_now").fill_null(value=False)
    return pairs.group_by("benchmark", "strategy").agg(
        n_baseline=pl.len(),
        n_current=pl.len(),
        baseline_correct=before.sum(),
        current_correct=now.sum(),
        baseline_scored=pl.col("correct").count(),
        current_scored=pl.col("correct_now").count(),
        losses=(before & ~now).sum(),
        gains=(~before & now).sum(),
    )


def _tallies(common: pl.DataFrame, counts: pl.DataFrame) -> list[Tally]:
    """In the order of the baseline's datasets and strategies."""
    rows = common.join(counts, on=["benchmark", "strategy"], how="inner", maintain_order="left")
    return [Tally(**row) for row in rows.iter_rows(named=True)]


def _warnings(before: pl.DataFrame, now: pl.DataFrame, pairs: pl.DataFrame, spec: RunSpec) -> Iterator[str]:
    """What makes the comparison one of unlike things, or of fewer than one might think."""
    if before["run_id"][0] == spec.run_id:
        yield "the baseline was promoted from this very run"
    if before["model"][0] != spec.model:
        yield f"models differ: baseline {before['model'][0]}, this run {spec.model}"
    for column, name in (("benchmark", "datasets"), ("strategy", "strategies")):
        there, here = (list(dict.fromkeys(frame[column])) for frame in (before, now))
        if missing := [one for one in there if one not in here]:
            yield f"{name} of the baseline that this run has not: {_listed(missing)}"
        if fresh := [one for one in here if one not in there]:
            yield f"{name} of this run that the baseline has not, and that are not checked: {_listed(fresh)}"
    yield from _unlike_questions(before, now)
    yield from _unlike_judges(pairs)
    yield from _unlike_settings(pairs)
    yield from _without_verdict("the baseline", before)
    yield from _without_verdict("this run", now)


def _without_verdict(name: str, frame: pl.DataFrame) -> Iterator[str]:
    without = frame.filter(pl.col("correct").is_null())
    if without.height:
        kinds = without.group_by(pl.coalesce("error_class", "status").alias("kind")).len().sort("len", "kind")
        counts = [f"{count} {kind}" for kind, count in kinds.reverse().iter_rows()]
        yield (
            f"{without.height} of {frame.height} answers of {name} ({100 * without.height / frame.height:.1f} %) have "
            f"no verdict and count as wrong: {_listed(counts)}"
        )


def _unlike_judges(pairs: pl.DataFrame) -> Iterator[str]:
    columns = ["benchmark", "judge", "judge_now", "judge_config_hash", "judge_config_hash_now"]
    for benchmark, first, second, *hashes in pairs.select(columns).drop_nulls().unique(maintain_order=True).iter_rows():
        if first != second:
            yield f"{benchmark}: judges differ: baseline {first}, this run {second}"
        elif hashes[0] != hashes[1]:
            yield f"{benchmark}: settings of the judge {first} differ"


def _unlike_questions(before: pl.DataFrame, now: pl.DataFrame) -> Iterator[str]:
    there, here = (
        {key[0]: set(part["question_id"]) for key, part in frame.partition_by("benchmark", as_dict=True).items()}
        for frame in (before, now)
    )
    for benchmark in dict.fromkeys(before["benchmark"]):
        if benchmark not in here or there[benchmark] == here[benchmark]:
            continue
        both = len(there[benchmark] & here[benchmark])
        yield (
            f"{benchmark}: the questions differ: {both} in common, {len(there[benchmark]) - both} only in the "
            f"baseline, {len(here[benchmark]) - both} only in this run"
        )


def _unlike_settings(pairs: pl.DataFrame) -> Iterator[str]:
    """Which settings of the answers changed, each with where; that may be what is to be checked."""
    unlike = pairs.filter(pl.col("settings_hash") != pl.col("settings_hash_now"))
    columns = ["benchmark", "strategy", "settings", "settings_now"]
    found: dict[str, list[str]] = {}
    for benchmark, strategy, *texts in unlike.select(columns).unique(maintain_order=True).iter_rows():
        first, second = (orjson.loads(text) for text in texts)
        for name in sorted((first.keys() | second.keys()) - {"model"}):
            values = first.get(name), second.get(name)
            if values[0] != values[1]:
                said = "" if name.endswith("_hash") else f" (baseline {values[0]}, this run {values[1]})"
                found.setdefault(f"{name.removesuffix('_hash')} changed{said}", []).append(f"{benchmark}/{strategy}")
    for change, places in found.items():
        yield f"{change} in {_listed(places)}"


# --- how it is shown -------------------------------------------------------------------------------------------------


def _lifts_table(lifts: Sequence[Lift]) -> Table:
    table = _table(["lift over single", "baseline", "now", "change"], left={0})
    for lift in lifts:
        table.add_row(lift.strategy, _points(lift.baseline), _points(lift.current), _points(lift.change))
    return table


def _table(titles: Sequence[str], left: set[int]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for at, title in enumerate(titles):
        table.add_column(Text(title, style="bold"), justify="left" if at in left else "right", no_wrap=True)
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _points(difference: float | None) -> str:
    return "-" if difference is None else f"{100 * difference:+.1f}"


def _share(part: int, of: int) -> float | None:
    return part / of if of else None


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def _listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - _MOST_LISTED} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more


def _rows(catalog: duckdb.DuckDBPyConnection, sql: str, **values: object) -> list[dict[str, Any]]:
    result = run_query(catalog, sql, values)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
