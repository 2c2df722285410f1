"""A rule as a judge: an answer is right or wrong, or the rule abstains; then a model may decide."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.llm.endpoints import default_max_tokens
from shaberi_dagster.llm.request import CallMaker, ChatRequest, Endpoint
from shaberi_dagster.llm.thinking import answer_of
from shaberi_dagster.llm.types import CallRange, Message, Sampling
from shaberi_dagster.plugins.discovery import running
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.tasks.judges.base import Case, Judge, failure
from shaberi_dagster.tasks.judges.own import is_own
from shaberi_dagster.tasks.judges.rules.base import GradedQuestion, Grader, Verdict
from shaberi_dagster.tasks.judges.rules.forms import added_forms_sha256
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.tasks.prompts.library import PromptLibrary, boundary_of
from shaberi_dagster.util.identity import sha256_json

_MAX_TOKENS = 1024
_JSON = json.JSONDecoder(strict=False, object_pairs_hook=list)  # finds the end of an object; orjson does not
_LONE_BACKSLASH = re.compile(r'(?<!\\)\\(?!["\\/bfnrtu])')
_MOST_STARTS = 64  # braces that are tried, so that hostile output costs no more than so many readings
_OF_VERDICT = (
    *("status", "score", "score_source", "out_of_scale", "extracted", "error_class", "error_message"),
    *("judge_output", "finish_reason", "latency_seconds", "request_hash"),
    *(f"judge_{name}" for name in Usage.__dataclass_fields__),
)
_SCHEMA = {
    "type": "object",
    "properties": {
        "extracted": {"type": "string"},
        "verdict": {"type": "string", "enum": ["correct", "incorrect", "no_answer"]},
    },
    "required": ["extracted", "verdict"],
    "additionalProperties": False,
}


class GraderReply(BaseModel):
    """The verdict of the model that decides where the rule abstains."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    extracted: str | None = None
    verdict: Literal["correct", "incorrect", "no_answer"]


class RuleJudge(Judge):
    """The rule of a benchmark; with a model it is another judge, `rule:…+MODEL`.

    An answer that no one can tell is excluded as `abstained`, which the null policy `zero` counts as wrong.

    Args:
        benchmark: What it grades.
        prompts: The project's prompts; the variant of `model` is taken from them.
        model: Decides where the rule abstains; None leaves it undecided. Its temperature and limit are the rule's own.
    """

    def __init__(self, benchmark: Benchmark, prompts: PromptLibrary, model: JudgeSpec | None = None) -> None:
        self._benchmark, self._model = benchmark, model
        # A judge of a plugin has its own prompts.
        prompts = prompts.variant(model.prompt if model and not is_own(model.prompt) else None)
        self._prompts = prompts
        self._rule = rule = GRADERS.use(benchmark.grader)
        self.name, self.prompt_hash, self.of_unmade = rule.name, None, CallRange(0, 0)
        self.config_hash = _hash_of_rule(rule, rule.version)
        earlier = range(1, rule.version)
        self.older_config_hashes = [_hash_of_rule(rule, version) for version in earlier]
        if model:
            self.name = f"{rule.name}+{model.name}"
            self.model = model.model if model.prompt else None
            self.round = model.rounds.get(benchmark.name, 0)
            self.prompt_hash = prompts.prompt_hash(benchmark.judging.primary_template)
            self.config_hash = config_hash_of(rule, model, self.prompt_hash)
            self.older_config_hashes = [config_hash_of(rule, model, self.prompt_hash, version) for version in earlier]
            self.model_endpoint, self.of_unmade = (model.endpoint, model.model), CallRange(0, 1)
            self.max_tokens = rule_sampling(self.model_endpoint[0]).max_tokens

    def case(self, question: Question, answer: Mapping[str, Any]) -> Case:
        """Grade an answer by the rule, and prepare the model's call if the rule abstains."""
        from shaberi_dagster.tasks.judges.rules import commitments

        verdict = _graded(self._rule, answer["answer"], graded_question(question))
        if answer.get("truncated") and verdict.form in commitments.WORKS:
            verdict = Verdict(None, None, "the token limit cut the answer off before it was concluded")
        if self._model is None or verdict.correct is not None:
            return Case(question, answer, None, CallRange(0, 0), verdict)
        return Case(question, answer, self.request_for(question, answer["answer"]), CallRange(1, 1), verdict)

    async def judge(self, case: Case, make_call: CallMaker) -> dict[str, Any]:
        """Right or wrong, or that no one can tell."""
        if case.request is None:
            return self._by_rule(case)
        call, _ = await make_call(case.request, "grade")
        return _by_model(call)

    def again(self, case: Case, stored: Mapping[str, Any]) -> dict[str, Any] | None:
        """A stored judgement as this version of the rule makes it, without a call.

        Args:
            case: The answer that was judged.
            stored: The row of the judgement.

        Returns:
            The columns that change; None where the rule abstains now and no model was asked then.
        """
        if case.request is None:
            return dict.fromkeys(_OF_VERDICT) | self._by_rule(case)
        return {} if stored["request_hash"] == case.request.request_hash else None

    def _by_rule(self, case: Case) -> dict[str, Any]:
        verdict: Verdict = case.finding
        extracted = None if verdict.extracted is None else self._rule.canonical(verdict.extracted)
        if verdict.correct is None:
            return _abstained(verdict.reason) | {"extracted": extracted}
        evidence = verdict.evidence(case.answer["answer"])
        return _right(verdict.correct) | {"score_source": "rule", "extracted": extracted, "judge_output": evidence}

    def request_for(self, question: Question, text: str) -> ChatRequest | None:
        """Make the request to the model about a text that the rule cannot tell."""
        if self.model_endpoint is None:
            return None
        prompt = self._prompts.render(
            self._benchmark.judging.primary_template,
            question=question.question,
            reference=question.reference,
            aliases=question.aliases or (),
            answer=text,
            boundary=boundary_of(text),
        )
        sampling = replace(rule_sampling(self.model_endpoint[0]), json_schema=orjson.dumps(_SCHEMA).decode())
        replicate = f"round{self.round}" if self.round else ""
        return ChatRequest(*self.model_endpoint, (Message("user", prompt),), sampling, replicate=replicate)


def rule_sampling(endpoint: Endpoint) -> Sampling:
    """Return the sampling parameters of a model that decides where a rule abstains; a judge's own do not count."""
    return Sampling(0.0, default_max_tokens(endpoint) or _MAX_TOKENS)


def config_hash_of(rule: Grader, model: JudgeSpec, prompt_hash: str, version: int | None = None) -> str:
    """Identity of a rule, today's version or an earlier one, with a model that decides where it abstains."""
    return sha256_json(
        {"rule": _hash_of_rule(rule, version or rule.version), "model": {"model": model.model}, "prompt": prompt_hash}
    )


def _hash_of_rule(rule: Grader, version: int) -> str:
    from shaberi_dagster.tasks.judges.rules import commitments

    own: dict[str, Any] = {"rule": rule.name, "version": version}
    own |= {"file": rule.file_sha256} if rule.file_sha256 else {}
    added = added_forms_sha256() if isinstance(rule, commitments.AnswerKind) and version == rule.version else []
    return sha256_json(own | ({"forms": added} if added else {}))


@lru_cache(maxsize=1)  # the rule alone and the rule with a model look at the same answer, one after the other
def _graded(rule: Grader, answer: str, question: GradedQuestion) -> Verdict:
    with running(rule):
        return rule.grade(answer, question)


def graded_question(question: Question) -> GradedQuestion:
    """A question as rules know it."""
    return GradedQuestion(
        text=question.question,
        reference=question.reference or "",
        options=question.options or (),
        aliases=question.aliases or (),
    )


def read_verdict(output: str) -> GraderReply | None:
    """The last JSON object with a verdict in a model's output; None without any, or where they contradict each other.

    What it extracted may have braces, and LaTeX whose backslashes the model did not escape.
    """
    replies = _verdicts_in(output)
    return replies[-1] if len({reply.verdict for reply in replies}) == 1 else None


def _verdicts_in(output: str) -> list[GraderReply]:
    """List every verdict of an output in its order; an object that has the key twice gives two."""
    for text in (output, _LONE_BACKSLASH.sub(r"\\\\", output)):
        found: list[GraderReply] = []
        end = 0
        for start in [match.start() for match in re.finditer("{", text)][-_MOST_STARTS:]:
            if start < end:
                continue  # within an object that was read
            try:
                pairs, after = _JSON.raw_decode(text, start)
                verdicts = [value for key, value in pairs if key == "verdict"]
                read = [GraderReply.model_validate(dict(pairs) | {"verdict": verdict}) for verdict in verdicts]
            except (json.JSONDecodeError, RecursionError, ValidationError):
                continue
            found += read
            end = after if read else end
        if found:
            return found
    return []


def _by_model(call: Call) -> dict[str, Any]:
    row = {
        "judge_output": call.content,
        "finish_reason": call.finish_reason,
        "latency_seconds": call.latency_seconds,
        "request_hash": call.request_hash,
        **{f"judge_{name}": value for name, value in vars(call.usage).items()},
    }
    if call.status == "error":
        return row | failure(call.error_class, call.error_message)
    answer = answer_of(call)
    reply = read_verdict(answer)
    if reply is None and _verdicts_in(answer):
        return row | _abstained("the grading model contradicts itself")
    if reply is None:
        return row | failure("no_score", "no verdict in the output")
    row |= {"extracted": reply.extracted or None}
    if reply.verdict == "no_answer":
        return row | _abstained("the grading model found no answer")
    return row | _right(reply.verdict == "correct") | {"score_source": "model"}


def _right(correct: bool) -> dict[str, Any]:
    return {"status": "ok", "score": float(correct), "out_of_scale": False}


def _abstained(why: str) -> dict[str, Any]:
    return {"status": "excluded", "error_class": "abstained", "error_message": why}
