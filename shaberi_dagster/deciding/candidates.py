"""Candidates of a decision: models and strategies, the questions they share, and their scores so far."""

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.runs.stages.evaluation import check_endpoints, check_keys, materialize
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import set_status
from shaberi_dagster.runs.stored import find_run, load_run, named_tags, store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.statistics.sequential import Floats, question_weights
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, RULE, get_benchmark
from shaberi_dagster.tasks.judges.spec import judge_names
from shaberi_dagster.tasks.passes.pipeline import BASELINE
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import PARTIAL_TAG, check_model_name, check_run_tag, run_id_of

_IS_UNDECIDED = (pl.col("status") == "excluded") & pl.col("judge").str.starts_with(RULE)
_MARGIN = 0.02  # of the highest score, as `compare` has it
_FEWEST = 2
_TOO_FEW = (
    "a decision is between two or more: name more models, more than one --strategy, or settings of one model "
    "(--sweep reasoning_effort=low,high)"
)


@dataclass(frozen=True)
class Contender:
    """A candidate of a decision: an evaluation, or a strategy of it.

    Attributes:
        spec: The evaluation, of which only a part may be asked; of numbered runs the first.
        strategy: The strategy whose answers count; None: the plain samples.
        tag: Base tag of the numbered runs whose scores count; None: those of the evaluation.
        run_ids: The evaluations whose scores count.
    """

    spec: RunSpec
    strategy: str | None = None
    tag: str | None = None
    run_ids: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The run, and the strategy if there is one."""
        run = f"{self.spec.model}@@{self.tag or self.spec.run_tag}"
        return f"{run} {self.strategy}" if self.strategy else run

    @property
    def partial_run_id(self) -> str:
        """The run that has what decisions asked of it."""
        return run_id_of(self.spec.model, PARTIAL_TAG + self.spec.run_tag)

    @property
    def can_be_asked(self) -> bool:
        """Return whether its model can still be asked."""
        return self.spec.origin == "own"


@dataclass(frozen=True)
class Pool:
    """The questions that are decided on.

    Attributes:
        questions: Benchmark and question_id of each.
        question_sets: Their versions.
        judges: The judges of each benchmark; a score is their mean.
        highest: Upper end of the reported scale, which begins at 0 or above.
    """

    questions: tuple[tuple[str, str], ...]
    question_sets: tuple[str, ...]
    judges: Mapping[str, tuple[str, ...]]
    highest: float

    @classmethod
    def of(
        cls,
        questions: tuple[tuple[str, str], ...],
        question_sets: tuple[str, ...],
        judges: Mapping[str, tuple[str, ...]],
    ) -> "Pool":
        """Make the pool of some questions.

        Raises:
            ConfigurationError: The candidates have no question in common, or the benchmarks have unlike scales.
        """
        if not questions:
            raise ConfigurationError("the candidates have no question in common")
        scales = {benchmark.scale_maximum * benchmark.reported_multiplier for benchmark in map(get_benchmark, judges)}
        if len(scales) != 1:
            raise ConfigurationError(
                "scores on unlike scales have no mean: name benchmarks of one kind with --benchmarks"
            )
        return cls(questions, question_sets, judges, scales.pop())

    @property
    def benchmarks(self) -> list[str]:
        """The benchmark of each question."""
        return [name for name, _ in self.questions]

    @cached_property
    def weights(self) -> Floats:
        """The weight of each question."""
        return question_weights(self.benchmarks)

    @property
    def names(self) -> list[str]:
        """The benchmarks."""
        return list(dict.fromkeys(self.benchmarks))

    @property
    def panel(self) -> list[str]:
        """The names of the judges, each once."""
        return list(dict.fromkeys(judge for judges in self.judges.values() for judge in judges))

    @property
    def margin(self) -> float:
        """The largest difference that does not matter, unless a request gives another."""
        return _MARGIN * self.highest

    @property
    def is_ruled(self) -> bool:
        """Return whether rules say right or wrong."""
        return any(get_benchmark(name).has_rule for name in self.names)

    def matrix(self, rows: pl.DataFrame, models: Sequence[str]) -> Floats:
        """Return scores as models × questions: the mean of the judges, where all of them gave one.

        Args:
            rows: model, benchmark, question_id, judge, score on the judge's scale.
            models: In the order of the rows of the result.

        Returns:
            On the reported scale, within its ends; NaN is no score.
        """
        scores = np.full((len(models), len(self.questions)), np.nan)
        places = pl.DataFrame(
            [(name, question, index) for index, (name, question) in enumerate(self.questions)],
            schema={"benchmark": pl.String, "question_id": pl.String, "place": pl.Int64},
            orient="row",
        )
        factors = pl.DataFrame(
            [
                (n, judge, ALL_BENCHMARKS[n].reported_multiplier, len(judges))
                for n, judges in self.judges.items()
                for judge in judges
            ],
            schema={"benchmark": pl.String, "judge": pl.String, "factor": pl.Float64, "n_judges": pl.Int64},
            orient="row",
        )
        means = (
            rows.drop_nulls("score")
            .join(factors, on=["benchmark", "judge"])
            .join(places, on=["benchmark", "question_id"])
            .group_by("model", "place", "judge", "n_judges")
            .agg(score=(pl.col("score") * pl.col("factor")).mean())
            .group_by("model", "place", "n_judges")
            .agg(pl.col("score").sort().mean(), n=pl.len())
            .filter(pl.col("n") == pl.col("n_judges"))
            .join(pl.DataFrame({"model": models}, schema={"model": pl.String}).with_row_index("row"), on="model")
        )
        scores[means["row"].to_numpy(), means["place"].to_numpy()] = means["score"].clip(0, self.highest).to_numpy()
        return scores


def find_candidates(request: DecisionRequest, workspace: Workspace) -> list[Contender]:
    """Find the candidates of a request.

    Raises:
        ConfigurationError: Fewer than two are named, or one of them cannot be evaluated so.
    """
    names = list(dict.fromkeys(request.candidates))
    strategies: Sequence[str | None] = list(dict.fromkeys(request.strategies or ())) or [None]
    if request.sweep:
        specs = [spec for name in names for spec in _swept_specs(name, request, request.sweep, workspace)]
        found = [Contender(spec, run_ids=(spec.run_id,)) for spec in specs]
    else:
        if len(names) * len(strategies) < _FEWEST:
            raise ConfigurationError(_TOO_FEW)
        found = [_contender(name, request, workspace) for name in names]
    if len(found) * len(strategies) < _FEWEST:
        raise ConfigurationError(_TOO_FEW)
    return [replace(contender, strategy=strategy) for contender in found for strategy in strategies]


def _swept_specs(name: str, request: DecisionRequest, sweep: Sequence[str], workspace: Workspace) -> Iterator[RunSpec]:
    """Yield the evaluation of each setting, as it is stored or as it would be."""
    for asked in request.run_request(*request.swept_run(name)).swept(sweep):
        yield plan_run(asked, workspace)


def _contender(name: str, request: DecisionRequest, workspace: Workspace) -> Contender:
    """Find the evaluations that a candidate's name stands for."""
    model, _, own_tag = name.rpartition("@@")
    tag = own_tag if model else request.tag or _only_tag(name, workspace.lake) or "default"
    if model and request.tag not in (None, tag):
        raise ConfigurationError(f"{name} names the tag {tag}, --tag names {request.tag}: leave one out")
    model = check_model_name(model or name)
    first, *others = named_tags(workspace.lake, model, tag) or [tag]
    spec = _judged_by(_full_spec(model, first, request, workspace), request.judge_models or ())
    run_ids = (spec.run_id, *(run_id_of(model, other) for other in others))
    return Contender(spec, tag=tag if others else None, run_ids=run_ids)


def _judged_by(spec: RunSpec, names: Sequence[str]) -> RunSpec:
    """Return an evaluation of which only some judges count, those that are named; a run may have others."""
    benchmarks = {
        name: settings.model_copy(update={"judges": tuple(spec.chosen_judges(name, names)) or settings.judges})
        for name, settings in spec.benchmarks.items()
    }
    return spec.model_copy(update={"benchmarks": benchmarks}) if names else spec


def _full_spec(model: str, tag: str, request: DecisionRequest, workspace: Workspace) -> RunSpec:
    """Find an evaluation, as it is stored or as it would be."""
    stored = find_run(workspace.lake, model, tag)
    if stored is None or stored.origin == "own":
        return plan_run(request.run_request(model, tag), workspace)
    names = _named(request) or list(stored.benchmarks)
    if lacking := [name for name in names if name not in stored.benchmarks]:
        raise ConfigurationError(f"run {stored.run_id} was imported without {lacking[0]}")
    benchmarks = {
        name: stored.benchmarks[name].model_copy(update={"judges": _judges_of_imported(stored, name, request)})
        for name in names
    }
    return stored.model_copy(update={"benchmarks": benchmarks})


def _named(request: DecisionRequest) -> list[str]:
    """Return the benchmarks that a request names; none where it asks for all."""
    return [name for name in request.benchmarks or () if name != "all"]


def _judges_of_imported(stored: RunSpec, benchmark: str, request: DecisionRequest) -> tuple[str, ...]:
    """Find the judges of a benchmark of an imported run: those that are asked for, else all that did.

    Raises:
        ConfigurationError: One of them never judged it.
    """
    present = stored.benchmarks[benchmark].all_judges
    asked = judge_names(benchmark, request.judge_models) if request.judge_models else present
    if lacking := [judge for judge in asked if judge not in present]:
        command = ["run-evals", "--model", stored.model, "--tag", stored.run_tag, "--benchmark", benchmark]
        command += [part for judge in request.judge_models or () for part in ("--judge-model", judge)]
        others = f"give --judge {' or '.join(present)}, or " if present else ""
        run = f"{stored.model}@@{stored.run_tag}"
        raise ConfigurationError(
            f"run {run} was imported, and {', '.join(lacking)} never judged its {benchmark}: {others}have it judged "
            f"first: {shlex.join(command)}"
        )
    return tuple(asked)


def _only_tag(model: str, lake: Lake) -> str | None:
    """Find the tag of the model's only evaluation; None if it has none.

    Raises:
        ConfigurationError: It has several.
    """
    rows = lake.read("runs", {"model": model}, ["base_tag", "superseded_by"]).filter(pl.col("superseded_by").is_null())
    tags = sorted({tag for tag in rows["base_tag"] if not tag.startswith(PARTIAL_TAG)})
    if len(tags) > 1:
        raise ConfigurationError(
            f"{model} has several runs: name one as {model}@@TAG, or give --tag; tags: {', '.join(tags)}"
        )
    return tags[0] if tags else None


def find_pool(candidates: Sequence[Contender], request: DecisionRequest, workspace: Workspace) -> Pool:
    """Find the questions of the request's benchmarks that all candidates can be asked, and their judges.

    Raises:
        ConfigurationError: They share none, are judged by others, or the benchmarks have unlike scales.
    """
    first = candidates[0].spec
    wanted = _named(request) or list(first.benchmarks)  # a run that is there may have more
    names = [
        name
        for name in first.benchmarks
        if name in wanted and all(name in candidate.spec.benchmarks for candidate in candidates)
    ]
    judges = {name: _judges(name, candidates) for name in names}
    plans = [RunPlan(candidate.spec, names, workspace).benchmarks for candidate in candidates]
    shared = {
        name: set.intersection(*({question.question_id for question in plan[name].asked} for plan in plans))
        for name in names
    }
    questions = tuple(
        (name, question.question_id)
        for name in names
        for question in plans[0][name].asked
        if question.question_id in shared[name]
    )
    return Pool.of(questions, tuple(first.benchmarks[name].question_set for name in names), judges)


def _judges(benchmark: str, candidates: Sequence[Contender]) -> tuple[str, ...]:
    """Find the judges of a benchmark: the same for all; of rules the one that leaves least untold."""
    found = {candidate.spec.benchmarks[benchmark].judges for candidate in candidates}
    if get_benchmark(benchmark).has_rule:
        found = {judges[-1:] for judges in found}
    if len(found) > 1 or not min(found):
        named = "; ".join(
            f"{candidate.name}: {', '.join(candidate.spec.benchmarks[benchmark].judges) or 'no judge'}"
            for candidate in candidates
        )
        raise ConfigurationError(f"{benchmark}: not all have the same judges ({named}): choose one with --judge")
    (judges,) = found
    return tuple(sorted(judges))


class CandidateScores:
    """Scores of the candidates, of which more can be asked for.

    Args:
        candidates: Those that are decided between.
        pool: The questions.
        workspace: Where to read and write, and how calls are made.
    """

    def __init__(self, candidates: Sequence[Contender], pool: Pool, workspace: Workspace) -> None:
        self._candidates, self._pool, self._workspace = candidates, pool, workspace
        self._tried: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        self._names = [candidate.name for candidate in candidates]
        self._evaluated, self._decided = self._ends(self._of_evaluations())

    def known(self) -> tuple[Floats, Floats]:
        """Read the scores (candidates × questions, NaN: no score); those of evaluations count before those of parts.

        Returns:
            Both ends: what a rule could not decide is wrong in the first, and none in the second.
        """
        partial, decided = self._ends(self._of_parts())
        is_partial = np.isnan(self._evaluated)
        return np.where(is_partial, partial, self._evaluated), np.where(is_partial, decided, self._decided)

    def _ends(self, rows: pl.DataFrame) -> tuple[Floats, Floats]:
        lower = rows.with_columns(score=pl.when(_IS_UNDECIDED).then(0.0).otherwise("score"))
        return self._pool.matrix(lower, self._names), self._pool.matrix(rows.filter(~_IS_UNDECIDED), self._names)

    def unasked(self, questions: Iterable[int]) -> dict[str, list[tuple[str, str]]]:
        """Map each partial run to those of these questions, without a score, that it would have to be asked."""
        missing: dict[str, dict[tuple[str, str], None]] = {}
        wanted, (known, _) = list(questions), self.known()
        for row, candidate in enumerate(self._candidates):
            if candidate.can_be_asked:
                asked = missing.setdefault(candidate.partial_run_id, {})
                asked |= dict.fromkeys(self._pool.questions[i] for i in wanted if np.isnan(known[row, i]))
        return {run_id: list(asked) for run_id, asked in missing.items() if asked}

    def unevaluated(self) -> list[Contender]:
        """List the candidates that can be asked, and that no evaluation has scored on all of the questions."""
        scored = zip(self._candidates, self._evaluated, strict=True)
        return [candidate for candidate, scores in scored if candidate.can_be_asked and np.isnan(scores).any()]

    def check_keys(self) -> None:
        """Refuse to ask anything where a key would go to an address that it does not belong to.

        Raises:
            ConfigurationError: One would.
        """
        missing = self.unasked(range(len(self._pool.questions)))
        for spec in (candidate.spec for candidate in self._candidates if candidate.partial_run_id in missing):
            check_keys(spec, self._workspace)

    def ask(self, questions: Iterable[int], rows: Iterable[int]) -> None:
        """Have these questions answered and judged, for those candidates that no evaluation has scored on them.

        Args:
            questions: Places in the pool.
            rows: Which candidates.

        Raises:
            EndpointError: An endpoint cannot be reached or refuses us.
        """
        specs = {self._candidates[row].partial_run_id: self._candidates[row].spec for row in rows}
        missing = self.unasked(questions)
        untried = {
            run_id: asked for run_id, asked in missing.items() if run_id in specs and set(asked) - self._tried[run_id]
        }
        for run_id in untried:  # all of them before the first is paid for
            if not self._tried[run_id]:
                self._check(specs[run_id])
        for run_id, asked in untried.items():
            self._tried[run_id] |= set(asked)
            self._ask(partial_spec(specs[run_id], asked, self._workspace.lake))

    def _ask(self, spec: RunSpec) -> None:
        workspace, names = self._workspace, list(spec.benchmarks)
        store_run(spec, workspace)
        for stage in (Answers, ConsensusAnswers, Judgements):
            if stage.is_needed(spec, names):
                materialize(stage.name, spec.run_id, names, workspace)
        set_status(spec, workspace)
        workspace.changed(spec.run_id)

    def _check(self, spec: RunSpec) -> None:
        judged = [name for name in self._pool.names if not get_benchmark(name).has_rule]
        judges = [judge for name in judged for judge in self._pool.judges[name]]
        graders = [judge.name for judge in spec.judges if judge.name not in judges]
        check_endpoints(spec, self._workspace, answers=self._pool.names, judges=judges, graders=graders)

    def _of_evaluations(self) -> pl.DataFrame:
        """From the scores of whole runs."""
        columns = ["run_id", "benchmark", "question_id", "strategy", "judge", "pipeline", "status", "score"]
        run_ids = {candidate.name: candidate.run_ids for candidate in self._candidates}
        keys = {"run_id": [run_id for own in run_ids.values() for run_id in own], "benchmark": self._pool.names}
        rows = self._workspace.lake.read("scores", keys, columns).filter(pipeline=BASELINE)
        return self._named(rows, run_ids)

    def _of_parts(self) -> pl.DataFrame:
        """From the judgements of partial runs."""
        columns = ["run_id", "benchmark", "question_id", "strategy", "judge", "status", "superseded", "score"]
        keys = {"run_id": [candidate.partial_run_id for candidate in self._candidates], "benchmark": self._pool.names}
        rows = self._workspace.lake.read("judgements", keys, columns)
        rows = rows.filter(~pl.col("superseded"), (pl.col("status") == "ok") | _IS_UNDECIDED)
        return self._named(rows, {candidate.name: (candidate.partial_run_id,) for candidate in self._candidates})

    def _named(self, rows: pl.DataFrame, runs: Mapping[str, Sequence[str]]) -> pl.DataFrame:
        """The rows of each candidate, by its name."""
        strategies = {candidate.name: candidate.strategy for candidate in self._candidates}
        parts = [
            rows.filter(pl.col("run_id").is_in(run_ids), pl.col("strategy").eq_missing(pl.lit(strategies[name])))
            .with_columns(model=pl.lit(name))
            .select("model", "benchmark", "question_id", "judge", "status", "score")
            for name, run_ids in runs.items()
        ]
        return pl.concat(parts)


def partial_spec(spec: RunSpec, questions: Iterable[tuple[str, str]], lake: Lake) -> RunSpec:
    """Return the part of an evaluation that decisions ask: what they asked before, and some more questions.

    Its requests are those of the evaluation, so an evaluation that continues with them pays only for the rest.

    Args:
        spec: The evaluation.
        questions: Benchmark and question_id.
        lake: Where the part is stored, if there is one.

    Raises:
        ConfigurationError: A run with its tag is no part of an evaluation.
    """
    run_id = run_id_of(spec.model, check_run_tag(PARTIAL_TAG + spec.run_tag))
    before = load_run(lake, run_id)
    if before and not before.is_partial:
        raise ConfigurationError(f"run {run_id} is no decision's: give another --tag")
    present = before.benchmarks if before else {}
    asked = {name: dict.fromkeys(benchmark.asked or ()) for name, benchmark in present.items()}
    for name, question in questions:
        asked.setdefault(name, {})[question] = None
    judges = {judge.name: judge for judge in (*(before.judges if before else ()), *spec.judges)}
    benchmarks = {
        name: benchmark.model_copy(update={"asked": tuple(sorted(asked[name]))})
        for name, benchmark in (present | spec.benchmarks).items()
        if name in asked
    }
    update = {"run_tag": PARTIAL_TAG + spec.run_tag, "benchmarks": benchmarks, "judges": tuple(judges.values())}
    return spec.model_copy(update=update | {"passes": ()})
