"""The pass_outputs stage: what each pass finds in each answer."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.lake.schemas import PASS_OUTPUTS
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.thinking import answer_state, split_thinking
from shaberi_dagster.llm.types import Call, ChatRequest, Message, Sampling
from shaberi_dagster.outcome import Outcome, by_class, complete_check, failures_check, total
from shaberi_dagster.passes.base import Answer, Finding, Pass
from shaberi_dagster.passes.pipeline import Passes, distinct_passes
from shaberi_dagster.passes.registry import make_pass
from shaberi_dagster.progress import StageProgress
from shaberi_dagster.prompting import boundary_of
from shaberi_dagster.runspec import EndpointSpec, RunSpec
from shaberi_dagster.stage import Answered, calling
from shaberi_dagster.workspace import Workspace

_SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
_KEY = ["run_id", "benchmark", "question_id", "sample_index", "strategy", "pass_config_hash"]
_STANDING = [*_KEY, "answer_hash", "pass_prompt_hash"]
_ANSWER_COLUMNS = [
    *("run_id", "model", "run_tag", "benchmark", "question_set", "question_id", "sample_index"),
    *("answer", "answer_hash", "truncated"),
]
_QUESTION_COLUMNS = ["question_id", "question", "category", "reference", "criteria"]
_RUNS_AT_ONCE = 25
_SECONDS_BETWEEN_REPORTS = 0.2


@dataclass(frozen=True)
class _Item:
    """One answer for one pass; `request` is None when the text alone decides."""

    one: Pass[Any]
    row: Mapping[str, Any]
    answer: Answer
    finding: Finding
    request: ChatRequest | None


def passes_of(spec: RunSpec) -> list[list[Pass[Any]]]:
    """The pipelines of a run, ready to work."""
    return [[make_pass(one.name, one.config) for one in pipeline] for pipeline in spec.passes]


def examine(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> list[Outcome]:
    """Examine the run's answers by each pass of its pipelines, unless that was done.

    A finding stands as long as the answer text, the pass and its settings and prompts are the same; it is used by
    every pipeline. Failures are tried again.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where to read and write.

    Returns:
        One outcome per benchmark.

    Raises:
        EndpointError: The endpoint of a pass refuses us.
        PartitionBusyError: Another process examines this run.
    """
    pipelines = passes_of(spec)
    endpoints = {
        made.config_hash: one.endpoint
        for passes, pipeline in zip(pipelines, spec.passes, strict=True)
        for made, one in zip(passes, pipeline, strict=True)
        if one.endpoint
    }
    examination = _Examination([spec.run_id], distinct_passes(pipelines), workspace, endpoints)
    frames = {name: examination.run(name) for name in benchmarks}
    return [_outcome(spec.run_id, name, frame, examination) for name, frame in frames.items()]


def examine_imported(
    run_ids: Sequence[str], benchmarks: Sequence[str], pipelines: Sequence[Passes], workspace: Workspace
) -> None:
    """Examine the answers of many runs that have no RunSpec, by passes that ask no model.

    Args:
        run_ids: Imported runs.
        benchmarks: Which of their benchmarks.
        pipelines: Passes in order.
        workspace: Where to read and write.

    Raises:
        ConfigurationError: A pass asks a model: nothing says where, and for imported runs nothing may be paid.
    """
    passes = distinct_passes(pipelines)
    if asking := [one.name for one in passes if one.asks]:
        raise ConfigurationError(f"pass {asking[0]} asks a model, which imported runs cannot: leave it out")
    ordered = sorted(run_ids)
    for start in range(0, len(ordered), _RUNS_AT_ONCE):
        examination = _Examination(ordered[start : start + _RUNS_AT_ONCE], passes, workspace, {})
        for name in benchmarks:
            examination.run(name)


class _Examination:
    """Some passes at work on some runs, one benchmark at a time.

    Args:
        run_ids: The runs; only one if a pass asks a model.
        passes: Each settings once.
        workspace: Where to read and write.
        endpoints: Where the models of the passes that ask one are served, by the pass's `config_hash`.
    """

    def __init__(
        self,
        run_ids: Sequence[str],
        passes: Passes,
        workspace: Workspace,
        endpoints: Mapping[str, EndpointSpec],
    ) -> None:
        self._run_ids, self._passes, self._workspace = run_ids, passes, workspace
        self._endpoints = endpoints
        self._prompt_hashes = {
            one.config_hash: workspace.prompts.prompt_hash(*one.templates) if one.asks else None for one in passes
        }
        self.lines: dict[str, StageProgress] = {}
        self.costs: dict[str, float | None] = {}

    def run(self, benchmark: str) -> pl.DataFrame:
        """All rows of the runs for a benchmark, as they are stored now."""
        keys = {"run_id": self._run_ids, "benchmark": benchmark}
        lake = self._workspace.lake
        wanted = pl.DataFrame(
            list(self._prompt_hashes.items()),
            schema={"pass_config_hash": pl.String, "pass_prompt_hash": pl.String},
            orient="row",
        )
        stored = lake.read("pass_outputs", keys)
        # Imported error messages and empty answers have been judged too, so they need a finding.
        answers = lake.read("answers", keys, _ANSWER_COLUMNS).filter(pl.col("answer").is_not_null())
        planned = answers.with_columns(strategy=pl.lit(None, dtype=pl.String)).join(wanted, how="cross")
        kept = stored.filter(status="ok").join(planned, on=_STANDING, how="semi", nulls_equal=True)
        missing = planned.join(kept, on=_KEY, how="anti", nulls_equal=True)
        line = self.lines[benchmark] = StageProgress(
            "pass_outputs", benchmark, total=planned.height, done=kept.height, reused=kept.height
        )
        self._workspace.reporter.changed(line)
        if missing.is_empty() and kept.height == stored.height:
            return kept
        if any(one.asks for one in self._passes):
            return self._with_calls(benchmark, stored, kept, missing, line)
        frame = pl.concat([kept, self._frame(self._examined(benchmark, missing, line))])
        if stored.is_empty():
            lake.append("pass_outputs", frame)
        else:
            lake.replace("pass_outputs", frame, keys)
        write_catalog(lake)
        return frame

    def _items(self, benchmark: str, missing: pl.DataFrame) -> Iterator[_Item]:
        questions = {
            row["question_id"]: row
            for row in self._workspace.lake.read("questions", {"benchmark": benchmark}, _QUESTION_COLUMNS).iter_rows(
                named=True
            )
        }
        passes = {one.config_hash: one for one in self._passes}
        for row in missing.iter_rows(named=True):
            # The texts of an imported run's questions may be unknown.
            one, question = passes[row["pass_config_hash"]], questions.get(row["question_id"], _unknown(row))
            answer = Answer(benchmark=benchmark, text=row["answer"], truncated=row["truncated"], **question)
            blank = answer_state(answer.text) != "text"  # there is nothing to be found or asked
            finding = Finding() if blank else one.examine(answer)
            yield _Item(one, row, answer, finding, None if blank else self._request(one, answer, finding))

    def _request(self, one: Pass[Any], answer: Answer, finding: Finding) -> ChatRequest | None:
        question = one.ask(answer, finding) if one.asks else None
        if question is None or one.asks is None:
            return None
        text = self._workspace.prompts.render(
            question.template, **question.variables, boundary=boundary_of(answer.text)
        )
        endpoint = self._endpoints[one.config_hash].to_endpoint()
        return ChatRequest(endpoint, one.asks, (Message("user", text),), _SAMPLING)

    def _examined(self, benchmark: str, missing: pl.DataFrame, line: StageProgress) -> Iterator[dict[str, Any]]:
        told = time.monotonic()
        for item in self._items(benchmark, missing):
            line.done += 1
            if (now := time.monotonic()) - told > _SECONDS_BETWEEN_REPORTS or line.done == line.total:
                told = now
                self._workspace.reporter.changed(line)
            yield self._row(item) | _found(item.finding)

    def _with_calls(
        self, benchmark: str, stored: pl.DataFrame, kept: pl.DataFrame, missing: pl.DataFrame, line: StageProgress
    ) -> pl.DataFrame:
        (run_id,) = self._run_ids
        of_no_use = set(stored.filter(error_class="no_verdict")["request_hash"])
        with calling(run_id, "pass_outputs", self._workspace) as stage:
            rows = stage.run(
                list(self._items(benchmark, missing)),
                self._ask_one,
                line_of=lambda _: line,
                lines=[line],
                not_again=of_no_use,
            )
            frame = pl.concat([kept, self._frame(rows)])
            stage.commit("pass_outputs", frame, {"run_id": run_id, "benchmark": benchmark}, changed=True)
            self.costs |= stage.costs()
        return frame

    async def _ask_one(self, session: CallSession, item: _Item) -> tuple[dict[str, Any], list[Answered]]:
        if item.request is None:
            return self._row(item) | _found(item.finding), []
        labels = {
            "benchmark": item.answer.benchmark,
            "question_id": item.answer.question_id,
            "purpose": item.one.name,
        }
        call, reused = await session.call(item.request, labels)
        return self._row(item) | _decided(item, call), [(call, reused)]

    def _row(self, item: _Item) -> dict[str, Any]:
        return {
            **{name: value for name, value in item.row.items() if name not in {"answer", "truncated"}},
            "pass": item.one.name,
            "pass_version": item.one.version,
            "pass_config": item.one.config.model_dump_json(),
            "created_at": datetime.now(UTC),
        }

    @staticmethod
    def _frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
        return pl.DataFrame(list(rows), schema=PASS_OUTPUTS.schema)


def _unknown(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(_QUESTION_COLUMNS) | {"question_id": row["question_id"], "question": ""}


def _found(finding: Finding) -> dict[str, Any]:
    return {
        "status": "ok",
        "severity": finding.severity,
        "reason": finding.reason,
        "details": orjson.dumps(dict(finding.details)).decode(),
    }


def _decided(item: _Item, call: Call) -> dict[str, Any]:
    """What a model's reply made of the finding."""
    row = {
        "pass_output": call.content,
        "request_hash": call.request_hash,
        "pass_prompt_tokens": call.usage.prompt_tokens,
        "pass_completion_tokens": call.usage.completion_tokens,
        "pass_cached_tokens": call.usage.cached_tokens,
        "pass_reasoning_tokens": call.usage.reasoning_tokens,
    }
    if call.status == "error":
        return row | {"status": "error", "error_class": call.error_class, "error_message": call.error_message}
    finding = item.one.read(item.answer, item.finding, split_thinking(call.content or "").answer)
    if finding is None:
        said = "nothing usable in the model's output"
        return row | {"status": "error", "error_class": "no_verdict", "error_message": said}
    return row | _found(finding)


def _outcome(run_id: str, benchmark: str, frame: pl.DataFrame, examination: _Examination) -> Outcome:
    line = examination.lines[benchmark]
    failed = frame.filter(pl.col("status") == "error").height
    lowered = frame.filter(pl.col("severity") > 0)
    return Outcome(
        run_id=run_id,
        stage="pass_outputs",
        benchmark=benchmark,
        facts={
            "rows": frame.height,
            "planned": line.total,
            "found_by_pass": dict(lowered.group_by("pass").len().sort("pass").iter_rows()),
            "calls_made": line.calls,
            "already_there": line.reused,
            "failed": failed,
            "failures_by_class": by_class(frame),
            "prompt_tokens": total(frame, "pass_prompt_tokens"),
            "completion_tokens": total(frame, "pass_completion_tokens"),
            "cost_usd": examination.costs.get(benchmark),
        },
        preview=lowered.head(5).select("pass", "question_id", "severity", "reason"),
        checks=(complete_check(frame.height, line.total), failures_check(failed, line.total)),
    )
