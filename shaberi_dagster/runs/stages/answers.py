"""The answers of a run: one row for each sample of each question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

import polars as pl

from shaberi_dagster.llm.endings import answer_ending, without_end_tokens
from shaberi_dagster.llm.parameters import with_system_prompt
from shaberi_dagster.llm.request import CallMaker, ChatRequest, ModelEndpoint
from shaberi_dagster.llm.thinking import Split, answer_state, split_thinking
from shaberi_dagster.llm.types import CallRange, Message
from shaberi_dagster.runs.imported_samples import imported_samples
from shaberi_dagster.runs.plan import BenchmarkPlan, RunPlan
from shaberi_dagster.runs.prompts_used import GENERATION, UsedPrompt, used_prompt
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.base import RUN_COLUMNS, Caller, Item, RowStage, StageResult, Survey
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.sets import kept_answer
from shaberi_dagster.tasks.prompts.library import generation_messages, generation_prompt_hash, generation_templates
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_text

_NO_CALL, _ONE_CALL = CallRange(0, 0), CallRange(1, 1)


@dataclass(frozen=True, kw_only=True)
class AnswerItem(Item):
    """A sample of a question, to be made.

    Attributes:
        stored: The imported answer that it is; it needs no request.
    """

    stored: Mapping[str, Any] = field(default_factory=dict)


class Answers(RowStage[AnswerItem]):
    """Asks the model every question that has no answer yet.

    An answer stands as long as the same request would make it, or would have at an earlier address.
    """

    name = "answers"
    checks: ClassVar[Mapping[str, str]] = {
        "complete": "There is a row for each planned sample of the question set.",
        "few_failures": "At most 5 % of the samples failed.",
    }
    makes_samples = True
    tokens_of = "answer"
    key = ("run_id", "benchmark", "question_id", "sample_index")
    identity = ("request_hash",)
    result_columns = (
        *("benchmark", "status", "error_class", "answer_state", "truncated"),
        *("answer_prompt_tokens", "answer_completion_tokens"),
    )

    @classmethod
    def model_endpoints(cls, spec: RunSpec, judges: Sequence[str] = ()) -> Sequence[ModelEndpoint]:  # noqa: ARG003
        """Return the models of its samples; where that of an imported run is served is not known."""
        models = [*([spec.itself] if spec.endpoint else []), *spec.members]
        return [(model.endpoint, model.model) for model in models]

    @classmethod
    def prompts(cls, plan: RunPlan) -> Iterator[UsedPrompt]:
        """Yield the generation prompts of the run, which refuses others."""
        for name in plan.names:
            library = plan.workspace.prompts
            used = used_prompt(library, GENERATION, generation_templates(library, get_benchmark(name)))
            if used.prompt_hash == plan.spec.benchmarks[name].prompt_hash:
                yield used

    @classmethod
    def n_rows(cls, spec: RunSpec, benchmark: str, judges: Sequence[str] = ()) -> int:  # noqa: ARG003
        """Count the samples."""
        return spec.n_planned(benchmark)

    def planned(self) -> pl.DataFrame:
        """Return a row for each sample.

        Raises:
            ConfigurationError: The generation prompt is not the one that the run was made with.
        """
        keys = [
            (self.plan.spec.run_id, plan.name, question.question_id, request.sample_index, request.request_hash)
            for plan in self._benchmarks()
            for question in plan.asked
            for request in self._requests(plan, question)
        ]
        texts = dict.fromkeys((*self.key, *self.identity), pl.String())
        return pl.DataFrame(keys, schema=texts | {"sample_index": pl.Int64()}, orient="row")

    def items(self, pending: pl.DataFrame) -> Iterator[AnswerItem]:
        """In the order of the questions."""
        spec, wanted = self.plan.spec, set(pending.select(self.key[1:]).iter_rows())
        for plan in self._benchmarks():
            settings = {name: getattr(spec, name) for name in RUN_COLUMNS} | {
                "benchmark": plan.name,
                "question_set": plan.settings.question_set,
                "prompt_hash": plan.settings.prompt_hash,
            }
            imported = self._imported(plan) if self.sharing.of_samples and wanted else {}
            for question in plan.asked:
                for request in self._requests(plan, question):
                    index = request.sample_index
                    if (plan.name, question.question_id, index) not in wanted:
                        continue
                    own = settings | {"question_id": question.question_id, "sample_index": index}
                    if stored := imported.get((request.model, question.question_id, index)):
                        own |= {"request_hash": request.request_hash, "prompt_hash": None}
                        yield AnswerItem(columns=own, request=None, calls=_NO_CALL, stored=stored)
                    else:
                        yield AnswerItem(columns=own, request=request, calls=_ONE_CALL)

    def _imported(self, plan: BenchmarkPlan) -> dict[tuple[str, str, int], dict[str, Any]]:
        rows = imported_samples(
            self.workspace.lake, set(self.plan.spec.sampled_models), plan.name, plan.settings.temperature
        )
        return {
            (row["model"], row["question_id"], row["sample_index"]): {**row, "answer_model": row["model"]}
            for row in rows.iter_rows(named=True)
        }

    def caller(self, columns: Mapping[str, Any]) -> Caller:
        """The model whose sample it is."""
        spec, settings = self.plan.spec, self.plan.spec.benchmarks[columns["benchmark"]]
        asked = spec.sampled(columns["benchmark"], columns["sample_index"])
        return Caller(asked.model, asked.model, asked.endpoint, settings.sampling.max_tokens)

    async def make(self, item: AnswerItem, make_call: CallMaker) -> dict[str, Any]:
        """Return the row of a sample: the model's answer, its thinking split off; an imported one as it is."""
        if item.request is None:
            return {**item.stored, **item.columns, "created_at": datetime.now(UTC)}
        call, _ = await make_call(item.request, "answer")
        row = {
            **item.columns,
            "status": call.status,
            "error_class": call.error_class,
            "error_message": call.error_message,
            "finish_reason": call.finish_reason,
            "request_hash": call.request_hash,
            "answer_model": item.request.model,
            **{f"answer_{name}": value for name, value in vars(call.usage).items()},
            "latency_seconds": call.latency_seconds,
            "created_at": datetime.now(UTC),
        }
        if call.content is None:
            return row
        keeper = self.plan.spec.benchmarks[item.columns["benchmark"]].kept_by
        split = split_thinking(without_end_tokens(call.content))
        if keeper is not None:  # an adopted set says what is kept of a reply
            split = Split(kept_answer(keeper, item.request.model, call.content), None, "none")
        state = answer_state(split.answer)
        thinking = [text for text in (call.reasoning, split.thinking) if text]
        return row | {
            "answer": split.answer,
            "answer_hash": sha256_text(split.answer),
            "answer_state": state,
            "truncated": call.finish_reason == "length",
            "answer_ending": answer_ending(
                call.finish_reason, refused=call.refusal is not None, has_text=state == "text"
            ),
            "thinking": "\n\n".join(thinking) or None,
        }

    def _begin(self, survey: Survey) -> None:
        super()._begin(survey)
        for name, settings in self.plan.spec.benchmarks.items() if survey.pending.height else ():
            if name in self.benchmarks and settings.samples > 1 and settings.sampling.temperature == 0:
                self.workspace.reporter.note(
                    f"{name}: {settings.samples} samples at temperature 0 are of little use, most will be the same text"
                )

    def results(self) -> list[StageResult]:
        """Describe each benchmark, and say where its samples are the same text."""
        rows = self.rows.read(self.name, {**self.keys, "status": "ok"}, ["benchmark", "question_id", "answer_hash"])
        questions = rows.group_by("benchmark", "question_id").agg(n=pl.len(), texts=pl.col("answer_hash").n_unique())
        several = questions.filter(pl.col("n") > 1)
        for name in sorted(set(several["benchmark"])):
            sampled = several.filter(benchmark=name)
            equal = sampled.filter(texts=1)
            if 2 * equal.height > sampled.height:
                self.workspace.reporter.note(
                    f"{name}: all {equal['n'][0]} samples of {equal.height} of {sampled.height} questions are the "
                    "same text: strategies have nothing to choose from, and the samples are no evidence of their own"
                )
        return super().results()

    def result(self, benchmark: str, rows: pl.DataFrame) -> StageResult:
        """Rows, failures, tokens and cost."""
        spec = self.plan.spec
        empty = rows.filter(pl.col("answer_state").is_in(["empty", "whitespace"])).height
        return self.described(
            benchmark,
            rows,
            spec.n_planned(benchmark),
            preview=self.preview(benchmark, "question_id", "status", "answer"),
            first={"question_set": spec.benchmarks[benchmark].question_set},
            then={"empty": empty, "truncated": int(rows["truncated"].sum())},
        )

    def _benchmarks(self) -> Iterator[BenchmarkPlan]:
        """Yield each benchmark, if its generation prompt is still the run's."""
        for plan in self.plan.benchmarks.values():
            if generation_prompt_hash(self.workspace.prompts, plan.benchmark) != plan.settings.prompt_hash:
                raise ConfigurationError(
                    f"the generation prompt of {plan.name} has changed since run {self.plan.spec.run_id} was made: "
                    "give another --tag"
                )
            yield plan

    def _requests(self, plan: BenchmarkPlan, question: Question) -> Iterator[ChatRequest]:
        """Yield a request for each sample."""
        spec, settings = self.plan.spec, plan.settings
        messages: tuple[Message, ...] = generation_messages(self.workspace.prompts, plan.benchmark, question)
        messages = with_system_prompt(messages, settings.parameters)
        # Runs of one multi-run are independent samples; other equal requests are paid for once.
        replicate = "" if spec.run_number is None else f"run{spec.run_number}"
        for index in range(settings.samples):
            asked = spec.sampled(plan.name, index)
            yield ChatRequest(asked.endpoint, asked.model, messages, settings.sampling, index, replicate)
