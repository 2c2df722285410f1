"""The pass outputs of a run: one row for each answer and pass."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import orjson
import polars as pl

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.request import CallMaker, ChatRequest, ModelEndpoint
from shaberi_dagster.llm.thinking import answer_state, split_thinking
from shaberi_dagster.llm.types import CallRange, Message, Sampling
from shaberi_dagster.plugins.discovery import running
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.prompts_used import UsedPrompt, used_prompt
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages import judged_texts
from shaberi_dagster.runs.stages.answers import Answers
from shaberi_dagster.runs.stages.base import RUN_COLUMNS, UNMADE, Caller, Item, RowStage, StageResult, Survey
from shaberi_dagster.runs.stages.consensus import ConsensusAnswers
from shaberi_dagster.tasks.passes.base import Answer, Finding, Pass
from shaberi_dagster.tasks.passes.pipeline import Passes, distinct_passes
from shaberi_dagster.tasks.passes.registry import make_pass
from shaberi_dagster.tasks.prompts.library import boundary_of

_SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
_NO_CALL, _ONE_CALL, _PERHAPS = CallRange(0, 0), CallRange(1, 1), CallRange(0, 1)
_ANSWER = ("run_id", *judged_texts.KEY)
_QUESTION = ("question_id", "question", "category", "reference", "criteria")
_RUNS_AT_ONCE = 25


@dataclass(frozen=True, kw_only=True)
class PassItem(Item):
    """An answer for a pass."""

    one: Pass[Any]
    answer: Answer
    finding: Finding


class PassOutputs(RowStage[PassItem]):
    """Examines every answer by each pass, unless that was done.

    A finding stands as long as the answer text, the pass and its settings and prompts are the same; it is used by
    every pipeline. What an earlier version of a pass found stands too; an answer that it has not seen gets today's.

    Args:
        plan: The run.
        rows: The answers.
        run_ids: Further runs with the same passes, none of which asks a model; default: the plan's alone.
        passes: The passes; default: those of the run's pipelines.
        again: Let today's versions look at what earlier ones have seen, but for passes that ask a model.
    """

    name = "pass_outputs"
    needs = (Answers, ConsensusAnswers)
    continues_imported = True
    kinds = frozenset({"python", "deltalake"})
    checks: ClassVar[Mapping[str, str]] = {
        "complete": "Each pass has a row for each answer that did not fail.",
        "few_failures": "At most 5 % of the answers could not be examined.",
    }
    key = ("run_id", "benchmark", "question_id", "sample_index", "strategy", "pass_config_hash")
    identity = ("answer_hash", "pass_prompt_hash")
    tokens_of = "pass"
    result_columns = (
        *("benchmark", "pass", "severity", "status", "error_class", "pass_prompt_tokens", "pass_completion_tokens"),
    )

    def __init__(
        self,
        plan: RunPlan,
        rows: Lake | None = None,
        *,
        run_ids: Sequence[str] = (),
        passes: Passes | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(plan, rows)
        self.run_ids, self._again = list(run_ids) or self.run_ids, again
        pipelines = passes_of(plan.spec)
        used = distinct_passes(pipelines) if passes is None else passes
        self._passes = {examiner.config_hash: examiner for examiner in used}
        self._endpoints = {
            made.config_hash: settings.endpoint
            for made, settings in zip(chain(*pipelines), chain(*plan.spec.passes), strict=True)
            if settings.endpoint
        }

    @classmethod
    def is_needed(cls, spec: RunSpec, benchmarks: Sequence[str]) -> bool:  # noqa: ARG003
        """Return whether the run has passes."""
        return bool(spec.passes)

    @classmethod
    def model_endpoints(cls, spec: RunSpec, judges: Sequence[str] = ()) -> Sequence[ModelEndpoint]:  # noqa: ARG003
        """Return the models of passes that ask one."""
        asking = [(settings, settings.endpoint) for settings in chain(*spec.passes) if settings.endpoint]
        made = ((endpoint, make_pass(settings.name, settings.config).asks) for settings, endpoint in asking)
        return [(endpoint, model) for endpoint, model in made if model]

    @classmethod
    def prompts(cls, plan: RunPlan) -> Iterator[UsedPrompt]:
        """Yield the prompts of passes that ask a model."""
        for examiner in chain(*passes_of(plan.spec)):
            if examiner.asks:
                yield used_prompt(plan.workspace.prompts, f"pass:{examiner.name}", examiner.templates)

    def remake(self) -> list[StageResult]:
        """Let today's versions of passes look at what earlier ones have seen."""
        return PassOutputs(self.plan, self.rows, again=True).materialize()

    @property
    def has_callers(self) -> bool:
        """True if one of the passes asks a model."""
        return any(examiner.asks for examiner in self._passes.values())

    def planned(self) -> pl.DataFrame:
        """Return a row for each answer and pass."""
        prompts = self.workspace.prompts
        hashes = [
            (h, prompts.prompt_hash(*examiner.templates) if examiner.asks else None)
            for h, examiner in self._passes.items()
        ]
        passes = pl.DataFrame(
            hashes, schema=dict.fromkeys(("pass_config_hash", "pass_prompt_hash"), pl.String()), orient="row"
        )
        answers = judged_texts.read(self.rows, self.keys, (*_ANSWER, "answer_hash", "status"))
        # Imported error messages and empty answers have been judged too, so they need a finding.
        examined = answers.filter(pl.col("answer_hash").is_not_null() | (pl.col("status") == UNMADE))
        return examined.join(passes, how="cross").select(*self.key, *self.identity)

    def survey(self) -> Survey:
        """See what is there; where passes look again, what earlier versions found is outdated."""
        survey = super().survey()
        if not self._again:
            return survey
        today = {h: examiner.version for h, examiner in self._passes.items() if not examiner.asks}
        version = pl.col("pass_config_hash").replace_strict(today, default=None, return_dtype=pl.String())
        is_older = (pl.col("pass_version") != version).fill_null(value=False)
        older, standing = survey.standing.filter(is_older).select(self.key), survey.standing.filter(~is_older)
        pending = survey.planned.join(standing, on=self.key, how="anti", nulls_equal=True, maintain_order="left")
        return replace(survey, standing=standing, pending=pending, outdated=pl.concat([survey.outdated, older]))

    def items(self, pending: pl.DataFrame) -> Iterator[PassItem]:
        """In the order of the answers."""
        wanted: dict[tuple[Any, ...], list[str]] = {}
        for *answer, config_hash in pending.select(*_ANSWER, "pass_config_hash").iter_rows():
            wanted.setdefault(tuple(answer), []).append(config_hash)
        columns = (*RUN_COLUMNS, *judged_texts.KEY, "question_set", "answer", "answer_hash", "truncated", "status")
        for block in judged_texts.blocks(self.rows, self.keys, columns):
            for row in block.iter_rows(named=True):
                for config_hash in wanted.get(tuple(row[name] for name in _ANSWER), ()):
                    yield self._item(row, self._passes[config_hash])

    def caller(self, columns: Mapping[str, Any]) -> Caller | None:
        """The pass, if it asks a model."""
        one = self._passes[columns["pass_config_hash"]]
        if one.asks is None:
            return None
        return Caller(one.name, one.asks, self._endpoints[one.config_hash], _SAMPLING.max_tokens)

    def estimate_prompt(self, item: PassItem) -> tuple[str, int]:
        """The question and the answer."""
        return item.answer.question, 1

    async def make(self, item: PassItem, make_call: CallMaker) -> dict[str, Any]:
        """Make the pass's finding, by itself or with a model's help."""
        row = {**item.columns, "created_at": datetime.now(UTC)}
        if item.request is None:
            return row | _found(item.finding)
        call, _ = await make_call(item.request, item.one.name)
        return row | _decided(item, call)

    def result(self, benchmark: str, rows: pl.DataFrame) -> StageResult:
        """Rows, what was found, failures, tokens and cost."""
        by_pass = rows.filter(pl.col("severity") > 0).group_by("pass").len().sort("pass")
        keys, columns = {"run_id": self.run_ids, "benchmark": benchmark}, ("pass", "question_id", "severity", "reason")
        found = self.workspace.lake.scan(self.name, keys, columns).filter(pl.col("severity") > 0)
        planned, first = self.lines[benchmark, ""].total, {"found_by_pass": dict(by_pass.iter_rows())}
        return self.described(benchmark, rows, planned, preview=found.head(5).collect(), first=first, then={})

    def unusable_calls(self, stored: pl.DataFrame) -> AbstractSet[str]:
        """The calls that brought no verdict."""
        return set(stored.filter(error_class="no_verdict")["request_hash"].drop_nulls())

    @cached_property
    def _questions(self) -> dict[tuple[str, str], dict[str, Any]]:
        rows = self.workspace.lake.read("questions", {"benchmark": self.benchmarks}, ["benchmark", *_QUESTION])
        return {(row.pop("benchmark"), row["question_id"]): row for row in rows.iter_rows(named=True)}

    def _item(self, row: Mapping[str, Any], examiner: Pass[Any]) -> PassItem:
        # The texts of an imported run's questions may be unknown.
        unknown = dict.fromkeys(_QUESTION) | {"question_id": row["question_id"], "question": ""}
        question = self._questions.get((row["benchmark"], row["question_id"]), unknown)
        answer = Answer(benchmark=row["benchmark"], text=row["answer"] or "", truncated=row["truncated"], **question)
        blank = answer_state(answer.text) != "text"  # there is nothing to be found or asked
        inputs_missing = row["status"] == UNMADE
        failure, finding, request, always = None, Finding(), None, False
        try:
            with running(examiner):
                finding = Finding() if blank else examiner.examine(answer)
                request = None if blank else self._request(examiner, answer, finding)
                # Of an answer that is not there yet: one that asks without a finding asks about each.
                always = inputs_missing and examiner.asks is not None and examiner.ask(answer, finding) is not None
        except Exception as error:  # noqa: BLE001 - kept as the error of this row
            failure = error
        return PassItem(
            columns={
                **{name: row[name] for name in (*RUN_COLUMNS, *judged_texts.KEY, "question_set", "answer_hash")},
                "pass": examiner.name,
                "pass_version": examiner.version,
                "pass_config": examiner.config.model_dump_json(),
                "pass_config_hash": examiner.config_hash,
                "pass_prompt_hash": self.workspace.prompts.prompt_hash(*examiner.templates) if examiner.asks else None,
            },
            request=request,
            calls=_ONE_CALL if request or always else _PERHAPS if inputs_missing and examiner.asks else _NO_CALL,
            inputs_missing=inputs_missing,
            failure=failure,
            one=examiner,
            answer=answer,
            finding=finding,
        )

    def _request(self, examiner: Pass[Any], answer: Answer, finding: Finding) -> ChatRequest | None:
        question = examiner.ask(answer, finding) if examiner.asks else None
        if question is None or examiner.asks is None:
            return None
        text = self.workspace.prompts.render(question.template, **question.variables, boundary=boundary_of(answer.text))
        return ChatRequest(self._endpoints[examiner.config_hash], examiner.asks, (Message("user", text),), _SAMPLING)


def passes_of(spec: RunSpec) -> list[list[Pass[Any]]]:
    """The pipelines of a run, ready to work."""
    return [[make_pass(settings.name, settings.config) for settings in pipeline] for pipeline in spec.passes]


def examine_imported(
    run_ids: Sequence[str], plan: RunPlan, pipelines: Sequence[Passes], *, again: bool = False
) -> None:
    """Examine the answers of many runs, by those of the passes that ask no model.

    Args:
        run_ids: Imported runs.
        plan: One of them, with the benchmarks that are examined.
        pipelines: Passes in order.
        again: Let today's versions of the passes look at what earlier ones have seen.
    """
    passes = [examiner for examiner in distinct_passes(pipelines) if examiner.asks is None]
    ordered = sorted(run_ids)
    for start in range(0, len(ordered), _RUNS_AT_ONCE):
        some = ordered[start : start + _RUNS_AT_ONCE]
        PassOutputs(plan, run_ids=some, passes=passes, again=again).materialize()


def _found(finding: Finding) -> dict[str, Any]:
    return {
        "status": "ok",
        "severity": finding.severity,
        "reason": finding.reason,
        "details": orjson.dumps(dict(finding.details)).decode(),
    }


def _decided(item: PassItem, call: Call) -> dict[str, Any]:
    """Return the finding after a model's reply."""
    row = {
        "pass_output": call.content,
        "request_hash": call.request_hash,
        **{f"pass_{name}": value for name, value in vars(call.usage).items()},
    }
    if call.status == "error":
        return row | {"status": "error", "error_class": call.error_class, "error_message": call.error_message}
    with running(item.one):
        finding = item.one.read(item.answer, item.finding, split_thinking(call.content or "").answer)
    if finding is None:
        said = "nothing usable in the model's output"
        return row | {"status": "error", "error_class": "no_verdict", "error_message": said}
    return row | _found(finding)
