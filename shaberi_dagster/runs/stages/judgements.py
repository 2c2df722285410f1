"""The judgements of a run: one row for each answer, a sample or a consensus, and each judge."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import polars as pl

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.lake.schemas import JUDGEMENTS
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.writer import RowWriter
from shaberi_dagster.llm.request import CallMaker, ModelEndpoint
from shaberi_dagster.llm.types import CallRange
from shaberi_dagster.runs.plan import BenchmarkPlan, RunPlan
from shaberi_dagster.runs.prompts_used import UsedPrompt, judge_prompts
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages import judged_texts
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import (
    RUN_COLUMNS,
    UNMADE,
    Caller,
    Item,
    JournaledCalls,
    RowStage,
    StageResult,
)
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.tasks.benchmarks.registry import RULE, get_benchmark
from shaberi_dagster.tasks.judges.adopted import own_judge
from shaberi_dagster.tasks.judges.base import Case, Judge, not_judged
from shaberi_dagster.tasks.judges.llm import OUT_OF_SCALE, LLMJudge
from shaberi_dagster.tasks.judges.own import is_own
from shaberi_dagster.tasks.judges.rule import RuleJudge
from shaberi_dagster.tasks.judges.samples import judge_samples
from shaberi_dagster.tasks.prompts.library import PromptError, PromptLibrary
from shaberi_dagster.util.checks import Check
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import did_you_mean
from shaberi_dagster.util.progress import StageProgress

_NO_CALL = CallRange(0, 0)
_MOST_SHOWN = 20  # scores that moved
_SLIM = (*judged_texts.KEY, "answer_hash", "status", "answer_state")
_FOUND = ("status", "error_class", "score", "score_source")
"""Columns read from a judge's output by the parser."""


@dataclass(frozen=True, kw_only=True)
class JudgementItem(Item):
    """An answer for a judge; `case` is None when the answer has no text."""

    answer: Mapping[str, Any]
    judge: Judge
    case: Case | None


class Judgements(RowStage[JudgementItem]):
    """Has every judge judge every answer that it has not judged yet.

    A judgement stands as long as the answer text, the judge's settings and prompt, and the round are the same; else it
    is made again and the old one is kept as superseded.

    Raises:
        ConfigurationError: A judge is not one of the run's.
    """

    name = "judgements"
    needs = (Answers, ConsensusAnswers)
    continues_imported = True
    checks: ClassVar[Mapping[str, str]] = {
        "complete": "Each judge has a row for each planned sample.",
        "few_failures": "At most 5 % of the judgements failed.",
        "within_scale": "All scores are within the benchmark's scale.",
        "fresh": "No judgement is stale (of another answer text) or orphaned (of no answer).",
    }
    key = ("run_id", "benchmark", "judge", "strategy", "question_id", "sample_index")
    identity = ("answer_hash", "judge_config_hash", "judge_round")
    final_statuses = ("ok", "excluded")
    label = "judge"
    supersedes = True
    tokens_of = "judge"
    result_columns = (
        *("benchmark", "judge", "strategy", "question_id", "sample_index", "answer_hash", "superseded"),
        *("status", "error_class", "score", "score_source", "out_of_scale", "finish_reason"),
        *("judge_prompt_tokens", "judge_completion_tokens"),
    )

    def __init__(self, plan: RunPlan, rows: Lake | None = None) -> None:
        super().__init__(plan, rows)
        self._judges = {part.name: _judges(plan, part) for part in plan.benchmarks.values()}

    @classmethod
    def model_endpoints(cls, spec: RunSpec, judges: Sequence[str] = ()) -> Sequence[ModelEndpoint]:
        """Return the models of the judges."""
        names = {name for benchmark in spec.benchmarks for name in spec.chosen_judges(benchmark, judges)}
        return [(judge.endpoint, judge.model) for name in names if (judge := spec.judge(name))]

    @classmethod
    def prompts(cls, plan: RunPlan) -> Iterator[UsedPrompt]:
        """Yield the prompts of the judges."""
        for benchmark in plan.names:
            for name in plan.spec.chosen_judges(benchmark, plan.judges):
                if (judge := plan.spec.judge(name)) and not is_own(judge.prompt):
                    try:
                        yield from judge_prompts(plan.workspace.prompts, get_benchmark(benchmark), judge.prompt)
                    except PromptError as error:
                        raise PromptError(
                            f"judge {name} cannot be asked about {benchmark}: {error} (a judge of yours is MODEL+NAME)"
                        ) from error

    @classmethod
    def n_rows(cls, spec: RunSpec, benchmark: str, judges: Sequence[str] = ()) -> int:
        """Count the answers of each judge."""
        return spec.n_answers(benchmark) * len(spec.chosen_judges(benchmark, judges))

    def planned(self) -> pl.DataFrame:
        """Return a row for each answer and judge."""
        judges = pl.DataFrame(
            [
                (self.run_ids[0], benchmark, judge.name, judge.config_hash, judge.round)
                for benchmark, judges in self._judges.items()
                for judge in judges
            ],
            schema={
                **dict.fromkeys(("run_id", "benchmark", "judge", "judge_config_hash"), pl.String()),
                "judge_round": pl.Int64(),
            },
            orient="row",
        )
        answers = self._slim(self.benchmarks)
        every = answers.join(judges, on="benchmark", maintain_order="left").select(*self.key, *self.identity)
        return every.join(self._imported(), on=[*self.key, "answer_hash", "judge_round"], how="anti", nulls_equal=True)

    def with_current_identity(self, stored: pl.DataFrame) -> pl.DataFrame:
        """Take the judges' settings with an earlier version of a rule for those of today."""
        judges = chain.from_iterable(self._judges.values())
        today = {name: judge.config_hash for judge in judges for name in judge.older_config_hashes}
        return stored.with_columns(pl.col("judge_config_hash").replace(today))

    def items(self, pending: pl.DataFrame) -> Iterator[JudgementItem]:
        """In the order of the answers, so that all judges are at work at the same time."""
        wanted = set(pending.select(self.key[1:]).iter_rows())
        for row in self._answers():
            for judge in self._judges[row["benchmark"]]:
                key = row["benchmark"], judge.name, row["strategy"], row["question_id"], row["sample_index"]
                if key in wanted:
                    yield self._item(row, judge)

    def caller(self, columns: Mapping[str, Any]) -> Caller | None:
        """The judge, if it asks a model."""
        judge = next(judge for judge in self._judges[columns["benchmark"]] if judge.name == columns["judge"])
        if judge.model_endpoint is None:
            return None
        endpoint, model = judge.model_endpoint
        return Caller(judge.name, model, endpoint, judge.max_tokens, falls_back=isinstance(judge, LLMJudge))

    def estimate_prompt(self, item: JudgementItem) -> tuple[str, int]:
        """Return the prompt without the answer."""
        question = self.plan.benchmarks[item.columns["benchmark"]].questions[item.columns["question_id"]]
        request = item.judge.request_for(question, "")
        return "".join(message.content for message in request.messages) if request else "", 1

    async def make(self, item: JudgementItem, make_call: CallMaker) -> dict[str, Any]:
        """Make the judge's judgement."""
        found = not_judged(item.answer) if item.case is None else await judge_samples(item.judge, item.case, make_call)
        return {**item.columns, **found, "created_at": datetime.now(UTC), "superseded": False}

    def result(self, benchmark: str, rows: pl.DataFrame) -> StageResult:
        """Describe rows, scores, failures, tokens and cost."""
        judges = list(self.plan.spec.benchmarks[benchmark].judges)
        standing = rows.filter(~pl.col("superseded"), pl.col("judge").is_in(judges))
        scored = standing.filter(pl.col("score").is_not_null())
        outside = int(standing["out_of_scale"].sum())
        answers = self._slim([benchmark])
        unlike = standing.join(answers, on=[*judged_texts.KEY, "answer_hash"], how="anti", nulls_equal=True).height
        told = f"{outside} of {standing.height} judgements are outside the scale"
        result = self.described(
            benchmark,
            standing,
            self.n_rows(self.plan.spec, benchmark),
            preview=self.preview(benchmark, "judge", "question_id", "status", "score", "judge_output"),
            first={"superseded_rows": int(rows["superseded"].sum()), "judges": judges},
            then={
                "mean_score": scored["score"].mean(),
                "score_sources": dict(scored.group_by("score_source").len().sort("score_source").iter_rows()),
                "truncated": standing.filter(pl.col("finish_reason") == "length").height,
            },
            n_tried=standing.height,
        )
        return replace(
            result,
            scores={str(name): part["score"].to_list() for (name,), part in scored.group_by("judge")},
            checks=(
                *result.checks,
                Check("within_scale", outside == 0, told, severe=False),
                Check("fresh", unlike == 0, f"{unlike} judgements are stale or orphaned"),
            ),
        )

    def unusable_calls(self, stored: pl.DataFrame) -> AbstractSet[str]:
        """Return request hashes of calls that brought no score.

        Of several judgements by the same call the last one tells: a call that brought no score long ago and was made
        again since then is of use.
        """
        unusable = pl.col("error_class").is_in(["no_score", "empty_output", OUT_OF_SCALE]).fill_null(value=False)
        told = unusable | pl.col("status").is_in(["ok", "excluded"])
        # Another failure is of the last call: where that is the fallback, the first one was of use.
        told_first = told | pl.col("fallback_request_hash").is_not_null()
        when = ("created_at", "superseded")
        first = stored.filter(told_first).select(*when, "request_hash", unusable=unusable)
        second = stored.filter(told).select(*when, request_hash="fallback_request_hash", unusable=unusable)
        last = (
            pl.concat([first, second])
            .drop_nulls("request_hash")
            .sort(when, descending=[False, True])
            .unique("request_hash", keep="last", maintain_order=True)
        )
        return set(last.filter("unusable")["request_hash"])

    def superseded_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Keep rows as superseded, failures too; but not where no call was made: no answer, no budget, or stopped."""
        unmade = pl.col("error_class").is_in(["budget", "stopped"]).fill_null(value=False)
        unasked = (pl.col("status") == "skipped") | (unmade & pl.col("judge_output").is_null())
        return rows.filter(~unasked).with_columns(
            superseded=pl.lit(value=True), superseded_at=pl.lit(datetime.now(UTC))
        )

    def remake(self) -> list[StageResult]:
        """Read what judges said by today's parser, and let rules of another version grade again."""
        ruled = [name for name in self.benchmarks if get_benchmark(name).has_rule]
        judged = [name for name in self.benchmarks if name not in ruled]
        results = Judgements(RunPlan(self.plan.spec, judged, self.workspace)).reparse() if judged else []
        if not ruled:
            return results
        rules = Judgements(RunPlan(self.plan.spec, ruled, self.workspace))
        rules.regrade()
        return results + rules.materialize()

    def reparse(self) -> list[StageResult]:
        """Find the scores in the judges' stored outputs again, by today's parser; no call is made.

        A score that comes out otherwise is a new judgement, and the old one stays as superseded. Rules are asked
        again by `materialize`.
        """
        stored = self.workspace.lake.read(self.name, self.keys).filter(
            ~pl.col("superseded"), pl.col("judge_output").is_not_null()
        )
        moved = self._replace(stored, partial(self._found_again, self._calls_of(stored)))
        for (name, judge), rows in stored.group_by("benchmark", "judge", maintain_order=True):
            line = StageProgress(self.name, name, judge, total=rows.height, done=rows.height, reused=rows.height)
            self.lines[name, judge] = line
            self.workspace.reporter.changed(line)
        note = self.workspace.reporter.note
        note(f"{len(moved)} of {stored.height} stored outputs give another score than before")
        for before, after in moved[:_MOST_SHOWN]:
            scores = " -> ".join("none" if row["score"] is None else f"{row['score']:g}" for row in (before, after))
            note(f"  {before['benchmark']} {before['question_id'][:12]} {before['judge']}: {scores}")
        if len(moved) > _MOST_SHOWN:
            note(f"  and {len(moved) - _MOST_SHOWN} more: `shaberi sql` lists the superseded rows of judgements")
        if lost := sum(after["score"] is None for _, after in moved):
            command = f"run-evals --model {self.plan.spec.model} --tag {self.plan.spec.run_tag}"
            note(f"{lost} of them have no score now: `{command}` calls the judges for them again, {lost} calls or more")
        return self.results()

    def regrade(self) -> None:
        """Grade again what an earlier version of a rule graded; no call is made.

        The new judgements have the new version, the old ones stay as superseded. Where the rule abstains now and a
        model would have to be asked, the old judgement stands.
        """
        rules = {judge.name: judge for judges in self._judges.values() for judge in judges if judge.older_config_hashes}
        older = [name for judge in rules.values() for name in judge.older_config_hashes]
        stored = self.workspace.lake.read(self.name, self.keys).filter(
            ~pl.col("superseded"), pl.col("judge_config_hash").is_in(older), pl.col("status").is_in(self.final_statuses)
        )
        if stored.is_empty():
            return

        def graded_again(row: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
            judge = rules[row["judge"]]
            case = self._item(answer, judge).case
            if case is None or not isinstance(judge, RuleJudge):
                return None
            changed = judge.again(case, row)
            return None if changed is None else {**changed, "judge_config_hash": judge.config_hash}

        moved = self._replace(stored, graded_again)
        self.workspace.reporter.note(
            f"{len(moved)} of {stored.height} answers graded by an earlier version of a rule were graded again"
        )

    def _replace(
        self, stored: pl.DataFrame, found: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any] | None]
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Put other judgements in the place of stored ones, which stay as superseded.

        Args:
            stored: Judgements.
            found: What is another now, of a judgement and the answer that it judged; None: it stays.

        Returns:
            Each that was replaced, and what it was replaced by.
        """
        answers = {tuple(row[name] for name in judged_texts.KEY): row for row in self._answers()}
        moved: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
        with JournaledCalls(self) as calls, RowWriter(self.workspace.lake, self.name) as writer:
            for row in stored.iter_rows(named=True):
                answer = answers.get(tuple(row[name] for name in judged_texts.KEY))
                if answer is None or answer["answer_hash"] != row["answer_hash"]:
                    continue
                if changed := found(row, answer):
                    writer.add(after := {**row, **changed, "created_at": datetime.now(UTC)})
                    moved.append((row, after))
            calls.commit()
            keys = [{name: row[name] for name in self.key} for row, _ in moved]
            writer.commit(
                pl.DataFrame(keys, schema={name: stored.schema[name] for name in self.key}), self.superseded_rows
            )
            calls.journal.remove()
        return moved

    def _found_again(
        self, calls: Mapping[tuple[str, str], Call], row: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Parse the outputs of a stored judgement with today's parser; None where that finds nothing else."""
        judge = next((judge for judge in self._judges[row["benchmark"]] if judge.name == row["judge"]), None)
        first = calls.get((row["request_hash"], row["judge_output"]))
        second = calls.get((row["fallback_request_hash"], row["fallback_output"]))
        if not isinstance(judge, LLMJudge) or first is None or judge.samples > 1:
            return None  # of several calls a command reads what is missing again
        question = self.plan.benchmarks[row["benchmark"]].questions[row["question_id"]]
        case = Case(question, answer, None, _NO_CALL)
        if judge.parsed(case, first) is None:
            if second is None and row["fallback_request_hash"] is not None:
                return None  # that call failed, which says more than that there is no score
        else:
            second = None
        found = dict.fromkeys((*_FOUND, "error_message", "out_of_scale")) | judge.judged(case, first, second)
        if row["status"] == "ok" and found["error_class"] == OUT_OF_SCALE:
            return None  # made while such scores counted, and it counts until it is judged again
        return found if any(found[name] != row[name] for name in _FOUND) else None

    def _calls_of(self, judgements: pl.DataFrame) -> dict[tuple[str, str], Call]:
        """The calls that made these rows, by request and output: others may have made the same request later."""
        hashes = pl.concat([judgements["request_hash"], judgements["fallback_request_hash"]]).drop_nulls().unique()
        rows = (
            self.workspace.lake.read("calls", {"status": "ok", "request_hash": hashes})
            if len(hashes)
            else pl.DataFrame()
        )
        return {(row["request_hash"], row["content"]): Call.from_record(row) for row in rows.iter_rows(named=True)}

    def _slim(self, benchmarks: Sequence[str]) -> pl.DataFrame:
        """Read the answers of some benchmarks without their texts; only those to questions of the run's sets."""
        known = [question for part in self.plan.benchmarks.values() for question in part.questions]
        keys = {**self.keys, "benchmark": benchmarks}
        return judged_texts.read(self.rows, keys, _SLIM).filter(pl.col("question_id").is_in(known))

    def _imported(self) -> pl.DataFrame:
        """Key, answer and round of the scores that were imported: they stand for the first round of their judge."""
        columns = [*self.key, "answer_hash", "judge_round"]
        if self.plan.spec.origin == "own":
            return JUDGEMENTS.schema.to_frame().select(columns)
        stored = self.workspace.lake.read(self.name, self.keys, [*columns, "source_sha256", "superseded", "status"])
        counts = pl.col("source_sha256").is_not_null() & ~pl.col("superseded") & (pl.col("status") == "ok")
        return stored.filter(counts).select(*columns[:-1], judge_round=pl.lit(0, dtype=pl.Int64))

    def _answers(self) -> Iterator[dict[str, Any]]:
        for block in judged_texts.blocks(self.rows, self.keys, (*_SLIM, "question_set", "answer", "truncated")):
            for row in block.iter_rows(named=True):
                if row["question_id"] in self.plan.benchmarks[row["benchmark"]].questions:
                    yield row

    def _item(self, answer: Mapping[str, Any], judge: Judge) -> JudgementItem:
        spec, inputs_missing = self.plan.spec, answer["status"] == UNMADE
        case = failure = None
        if answer["status"] == "ok" and answer["answer_state"] == "text":
            question = self.plan.benchmarks[answer["benchmark"]].questions[answer["question_id"]]
            try:
                case = judge.case(question, answer)
            except Exception as error:  # noqa: BLE001 - kept as the error of this row
                failure = error
        return JudgementItem(
            columns={
                **{name: getattr(spec, name) for name in RUN_COLUMNS},
                **{name: answer[name] for name in (*judged_texts.KEY, "question_set", "answer_hash")},
                "judge": judge.name,
                "judge_model": judge.model,
                "judge_config_hash": judge.config_hash,
                "judge_prompt_hash": judge.prompt_hash,
                "judge_round": judge.round,
            },
            request=case.request if case else None,
            calls=judge.of_unmade if inputs_missing else case.calls if case else _NO_CALL,
            inputs_missing=inputs_missing,
            failure=failure,
            answer=answer,
            judge=judge,
            case=case,
        )


def _judges(plan: RunPlan, part: BenchmarkPlan) -> list[Judge]:
    """The judges of a benchmark that are asked."""
    spec, names = plan.spec, plan.judges
    judges = (judge.name for judge in spec.judges)
    known = dict.fromkeys((*judges, *(name for settings in spec.benchmarks.values() for name in settings.judges)))
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(f"run {spec.run_id} has no judge {unknown[0]!r}; {did_you_mean(unknown[0], known)}")
    return [_judge(spec, name, part, plan.workspace.prompts) for name in spec.chosen_judges(part.name, names)]


def _judge(spec: RunSpec, name: str, part: BenchmarkPlan, prompts: PromptLibrary) -> Judge:
    model = spec.judge(name)
    if name.startswith(RULE):
        return RuleJudge(part.benchmark, prompts, model)
    if model is None:
        raise ConfigurationError(f"run {spec.run_id} does not say who judge {name} is")
    if model.prompt and is_own(model.prompt):
        return own_judge(model, part.benchmark)
    return LLMJudge(model, part.benchmark, prompts)
