"""An LLM as a judge: it writes a judgement, and a parser finds its score; else a second call reads the score out."""

from dataclasses import replace
from typing import Any

from shaberi_dagster.lake.journal.records import Call, usage_columns
from shaberi_dagster.llm.endings import without_end_tokens
from shaberi_dagster.llm.parameters import with_system_prompt
from shaberi_dagster.llm.request import CallMaker, ChatRequest
from shaberi_dagster.llm.thinking import answer_of, only_thinking, split_thinking
from shaberi_dagster.llm.types import CallRange, Message, ScoreLine
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.tasks.judges.base import Case, Judge, failure
from shaberi_dagster.tasks.judges.parse import ParsedScore, is_out_of_scale, parse_score
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.tasks.prompts.library import (
    PromptLibrary,
    fallback_messages,
    fallback_prompt_hash,
    judge_messages,
    judge_prompt_hash,
)

OUT_OF_SCALE = "out_of_scale"
"""The failure of a judge that gives a score outside of its scale, or one of another scale."""


class LLMJudge(Judge):
    """An LLM that judges the answers of a run to one benchmark.

    Args:
        spec: Its settings.
        benchmark: What it judges.
        prompts: The project's prompts; its variant's are taken from them.
    """

    def __init__(self, spec: JudgeSpec, benchmark: Benchmark, prompts: PromptLibrary) -> None:
        self._spec, self._benchmark, self._prompts = spec, benchmark, prompts.variant(spec.prompt)
        self.name, self.model = spec.name, spec.model if spec.prompt else None
        self.prompt_hash = judge_prompt_hash(self._prompts, benchmark)
        prompt_hashes = (self.prompt_hash, fallback_prompt_hash(self._prompts, benchmark))
        self.config_hash = spec.config_hash(*prompt_hashes)
        self.round = spec.rounds.get(benchmark.name, 0)
        self.model_endpoint, self.max_tokens = (spec.endpoint, spec.model), spec.max_tokens
        self.samples = spec.samples
        self.of_unmade = CallRange(spec.samples, 2 * spec.samples)  # a second one where the first brings no score

    def request_for(self, question: Question, text: str) -> ChatRequest:
        """The question, the text and the criteria as the judge gets them."""
        return self._chat(judge_messages(self._prompts, self._benchmark, question, text))

    async def judge(self, case: Case, make_call: CallMaker) -> dict[str, Any]:
        """The score, as the judge or the fallback says it."""
        assert case.request is not None  # noqa: S101  (every text is judged)
        first, reused = await make_call(case.request, "judge")
        if first.status == "error":
            return self.judged(case, first, None)
        if self.parsed(case, first) is not None or not answer_of(first).strip():
            return self.judged(case, first, None)
        request = self._chat(fallback_messages(self._prompts, self._benchmark, answer_of(first)))
        second, _ = await make_call(request, "fallback", lookup=reused)
        return self.judged(case, first, second)

    def judged(self, case: Case, first: Call, second: Call | None) -> dict[str, Any]:
        """The columns of a judgement by its calls; `second` is the fallback, if there was one."""
        row = {
            "request_hash": first.request_hash,
            "judge_output": first.content,
            "fallback_output": second.content if second else None,
            "fallback_request_hash": second.request_hash if second else None,
            "finish_reason": first.finish_reason,
            "latency_seconds": first.latency_seconds + (second.latency_seconds if second else 0.0),
            **usage_columns("judge", [first, second] if second else [first]),
        }
        last = second or first
        if (parsed := self.parsed(case, last)) is not None:
            low, high = self._benchmark.scale_minimum, self._benchmark.scale_maximum
            if is_out_of_scale(parsed, low, high):
                message = f"the judge gave {parsed}, and the scale is {low} to {high}"
                return row | failure(OUT_OF_SCALE, message) | {"out_of_scale": True}
            return row | {
                "status": "ok",
                "score": parsed.score,
                "score_source": "fallback" if second else parsed.source,
                "out_of_scale": False,
            }
        if last.status == "error":
            return row | failure(last.error_class, last.error_message)
        if not answer_of(first).strip():
            return row | failure("empty_output", only_thinking(first) or "the judge wrote nothing")
        return row | failure("no_score", "no score in the judge's output")

    def parsed(self, case: Case, call: Call) -> ParsedScore | None:
        """Return the score that the parser finds in the output of a call; None where it finds none."""
        return parsed_score(call.content, call.finish_reason, self._benchmark, self._spec, case.answer["answer"])

    def _chat(self, messages: tuple[Message, ...]) -> ChatRequest:
        score_line = ScoreLine("FINAL SCORE: ", self._benchmark.scale_minimum, self._benchmark.scale_maximum)
        return ChatRequest(
            self._spec.endpoint,
            self._spec.model,
            with_system_prompt(messages, self._spec.parameters),
            replace(self._spec.sampling, last_line=score_line),
            replicate=f"round{self.round}" if self.round else "",
        )


def parsed_score(
    content: str | None, finish_reason: str | None, benchmark: Benchmark, judge: JudgeSpec, answer: str
) -> ParsedScore | None:
    """The score in what a judge replied; None without one.

    Args:
        content: The reply.
        finish_reason: How it ended.
        benchmark: What it judges.
        judge: Its settings.
        answer: What is judged.
    """
    if content is None:
        return None
    return parse_score(
        split_thinking(without_end_tokens(content)).answer,
        legacy_forms=benchmark.judging.legacy_score_forms,
        answer=answer,
        finish_reason=finish_reason,
        rounding=judge.score_rounding,
    )
