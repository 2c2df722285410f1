"""The benchmarks, one declarative entry each. A new benchmark is one more entry here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from shaberi_dagster.benchmarks import upstream
from shaberi_dagster.benchmarks.upstream import RowReader
from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.llm.types import Sampling
from shaberi_dagster.names import did_you_mean

Field = Literal["question", "reference", "criteria", "category", "upstream_id"]
AnswerType = Literal["free", "numeric", "mcq", "math", "text", "yes_no"]
GraderKind = Literal["llm_judge", "rule:numeric", "rule:mcq", "rule:math", "rule:match", "rule:yes_no"]
LegacyScoreForm = Literal["tengu_points", "elyza_number", "double_brackets", "rakuda_brackets", "rakuda_mean_of_tenths"]

RULE = "rule:"
"""How the names of graders begin that are rules."""

DEFAULT_SEED = 42
"""Of samples of question sets."""

_GENERATION_SAMPLING = Sampling(temperature=0.2, max_tokens=6000)
_JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=4096)
_ENSEMBLE_SAMPLING = Sampling(temperature=0.7, max_tokens=6000)


@dataclass(frozen=True)
class HubSource:
    """Where a benchmark's real question set lives on the Hugging Face hub.

    Attributes:
        repository: Dataset repository, `owner/name`.
        split: Split whose data files are the questions.
        config: Configuration of the dataset; None for its only or default one.
        revision: A commit sha to pin; None resolves the default branch when the set is loaded.
        other_split: Split that is taken where there is no file of the first.
    """

    repository: str
    split: str
    config: str | None = None
    revision: str | None = None
    other_split: str | None = None


@dataclass(frozen=True)
class GenerationDefaults:
    """How answers are asked for, unless a run says otherwise.

    Attributes:
        sampling: Shaberi's settings since 2025-07: temperature 0.2, 6,000 tokens.
        system_template: Prompt of the system message; None sends none.
        user_template: Prompt of the user message.
    """

    sampling: Sampling = _GENERATION_SAMPLING
    system_template: str | None = "generation/system"
    user_template: str = "generation/user"


@dataclass(frozen=True)
class JudgingDefaults:
    """How an LLM judge is asked.

    Attributes:
        primary_template: The item to be scored.
        example_templates: User and assistant turn of a worked example that precedes the item.
        fallback_template: The second call, which reads the score out of the judge's own text.
        sampling: Temperature 0. 4,096 tokens, since with the legacy 1,024 four fifths of the GPT-5.1
            judgements of Rakuda ended before their score.
        legacy_score_forms: Forms of older prompts by the names that `judges.parse` explains, in the order they
            are tried.
    """

    primary_template: str
    example_templates: tuple[str, str] | None = None
    fallback_template: str = "judging/fallback"
    sampling: Sampling = _JUDGE_SAMPLING
    legacy_score_forms: tuple[LegacyScoreForm, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    Attributes:
        name: Identity in tables, commands and asset keys.
        title: Name for readers.
        description: What it asks, in one sentence.
        scale_minimum: Lowest score of the judge's scale.
        scale_maximum: Highest score of the judge's scale.
        judging: Templates and sampling of its LLM judges.
        hub: Where the real questions live; None when there is no hub copy.
        columns: For each field the upstream column names that stand for it, beside the field's own name.
        required: Fields that every question must have, beside the question itself.
        reported_multiplier: Factor from the judge's scale to the published one.
        generation: How answers are asked for.
        grader: What turns an answer into a score: an LLM judge, or rules that leave to one what they cannot tell.
        samples: Answers to each question, unless a run says otherwise.
        strategies: Which make a consensus of them, unless a run says otherwise.
        answer_type: What an answer is: a free text to be judged, a number, an option's letter, an expression, a
            short text, or yes or no.
        read_row: Reads a row of the dataset as its publisher has it. A row with a `reference` is ours, and has our
            columns. None where `columns` says all.
        files: Further names, without suffix, of files that hold the questions in a folder.
    """

    name: str
    title: str
    description: str
    scale_minimum: int
    scale_maximum: int
    judging: JudgingDefaults
    hub: HubSource | None
    columns: Mapping[Field, tuple[str, ...]] = field(hash=False)
    required: frozenset[Field]
    reported_multiplier: float = 1.0
    generation: GenerationDefaults = GenerationDefaults()
    grader: GraderKind = "llm_judge"
    samples: int = 1
    strategies: tuple[str, ...] = ()
    answer_type: AnswerType = "free"
    read_row: RowReader | None = None
    files: tuple[str, ...] = ()

    @property
    def has_rule(self) -> bool:
        """Whether a rule grades its answers, right or wrong; else LLMs judge them on the scale."""
        return self.grader.startswith(RULE)


_ELYZA = Benchmark(
    name="elyza",
    title="ELYZA-tasks-100",
    description="Varied instructions with a reference answer and deduction rules for each question.",
    scale_minimum=1,
    scale_maximum=5,
    reported_multiplier=2.0,
    judging=JudgingDefaults(
        primary_template="judging/elyza/primary",
        legacy_score_forms=("elyza_number",),
    ),
    hub=HubSource("elyza/ELYZA-tasks-100", split="test"),
    columns={
        "question": ("input", "Question"),
        "reference": ("output",),
        "criteria": ("eval_aspect",),
    },
    required=frozenset({"reference", "criteria"}),
)

_TENGU = Benchmark(
    name="tengu",
    title="Tengu-Bench",
    description="Tasks of many categories, each with a rubric of points, most with a reference answer.",
    scale_minimum=0,
    scale_maximum=10,
    judging=JudgingDefaults(
        primary_template="judging/tengu/primary",
        example_templates=("judging/tengu/example_user", "judging/tengu/example_assistant"),
        legacy_score_forms=("tengu_points",),
    ),
    hub=HubSource("lightblue/tengu_bench", split="test"),
    columns={
        "question": ("Question",),
        "reference": ("Answer",),
        "criteria": ("Criteria",),
        "category": ("Category",),
    },
    required=frozenset({"criteria", "category"}),
)

_MT_BENCH = Benchmark(
    name="mt_bench",
    title="Japanese MT-Bench, one turn",
    description="Open tasks in six categories, judged without a reference.",
    scale_minimum=1,
    scale_maximum=10,
    judging=JudgingDefaults(
        primary_template="judging/mt_bench/primary",
        legacy_score_forms=("double_brackets",),
    ),
    hub=HubSource("shisa-ai/ja-mt-bench-1shot", split="train"),
    columns={
        "question": ("Question",),
        "category": ("Category",),
        "upstream_id": ("id",),
    },
    required=frozenset({"category"}),
)

_RAKUDA = Benchmark(
    name="rakuda",
    title="Rakuda",
    description="Knowledge of Japan's geography, politics, history and society, judged without a reference.",
    scale_minimum=1,
    scale_maximum=10,
    judging=JudgingDefaults(
        primary_template="judging/rakuda/primary",
        legacy_score_forms=("rakuda_brackets", "rakuda_mean_of_tenths"),
    ),
    hub=HubSource("yuzuai/rakuda-questions", split="train"),
    columns={
        "question": ("text", "Question"),
        "upstream_id": ("question_id",),
    },
    required=frozenset({"category"}),
)


_GRADERS: Mapping[AnswerType, GraderKind] = {
    "numeric": "rule:numeric",
    "mcq": "rule:mcq",
    "math": "rule:math",
    "text": "rule:match",
    "yes_no": "rule:yes_no",
}


def _ensemble(
    name: str,
    title: str,
    description: str,
    answer_type: AnswerType,
    *,
    hub: HubSource,
    read_row: RowReader,
    files: tuple[str, ...] = (),
) -> Benchmark:
    """A benchmark of the ensemble evaluation: an answer is right or wrong, and the question is all that is sent."""
    return Benchmark(
        name=name,
        title=title,
        description=description,
        scale_minimum=0,
        scale_maximum=1,
        judging=JudgingDefaults(primary_template="grading/verdict"),
        hub=hub,
        columns={},
        required=frozenset({"reference"}),
        generation=GenerationDefaults(_ENSEMBLE_SAMPLING, system_template=None),
        grader=_GRADERS[answer_type],
        answer_type=answer_type,
        read_row=read_row,
        files=files,
    )


_ENSEMBLE = (
    _ensemble(
        "gsm8k",
        "GSM8K",
        "Grade-school word problems whose answer is a number.",
        "numeric",
        hub=HubSource("openai/gsm8k", split="test", config="main"),
        read_row=upstream.gsm8k,
        files=("gsm8k_test",),
    ),
    _ensemble(
        "math500",
        "MATH-500",
        "Competition mathematics whose answer is an expression in LaTeX.",
        "math",
        hub=HubSource("HuggingFaceH4/MATH-500", split="test"),
        read_row=upstream.math500,
        files=("math500_jianzhnie",),
    ),
    _ensemble(
        "truthfulqa",
        "TruthfulQA",
        "Questions that many people answer wrongly, with 2 to 13 options.",
        "mcq",
        hub=HubSource("truthfulqa/truthful_qa", split="validation", config="multiple_choice"),
        read_row=upstream.truthfulqa,
        files=("truthfulqa_v0_mc_task",),
    ),
    _ensemble(
        "gpqa",
        "GPQA Diamond",
        "Graduate-level questions in biology, physics and chemistry, with 4 options.",
        "mcq",
        hub=HubSource("hendrydong/gpqa_diamond_mc", split="test"),
        read_row=upstream.gpqa,
    ),
    _ensemble(
        "mmlu_pro",
        "MMLU-Pro",
        "Examination questions of 14 fields, with 4 to 10 options.",
        "mcq",
        hub=HubSource("TIGER-Lab/MMLU-Pro", split="test"),
        read_row=upstream.mmlu_pro,
    ),
    _ensemble(
        "simpleqa",
        "SimpleQA",
        "Short questions for facts, each with one answer that does not change.",
        "text",
        hub=HubSource("basicv8vc/SimpleQA", split="test"),
        read_row=upstream.simpleqa,
        files=("simple_qa_test_set",),
    ),
    _ensemble(
        "hle",
        "Humanity's Last Exam, text only",
        "Questions at the frontier of many fields; those with an image are left out.",
        "text",
        hub=HubSource("cais/hle", split="test"),
        read_row=upstream.hle,
    ),
    _ensemble(
        "arc",
        "ARC-Challenge",
        "Science questions from school examinations, most with 4 options.",
        "mcq",
        hub=HubSource("allenai/ai2_arc", split="test", config="ARC-Challenge"),
        read_row=upstream.arc,
    ),
    _ensemble(
        "hellaswag",
        "HellaSwag",
        "Which of 4 endings continues a description of everyday events.",
        "mcq",
        hub=HubSource("Rowan/hellaswag", split="validation"),
        read_row=upstream.hellaswag,
    ),
    _ensemble(
        "hallumix",
        "HalluMix",
        "Whether an answer says something that its documents do not support.",
        "yes_no",
        hub=HubSource("quotientai/HalluMix", split="test", other_split="train"),
        read_row=upstream.hallumix,
    ),
)


def _by_name(*benchmarks: Benchmark) -> Mapping[str, Benchmark]:
    return MappingProxyType({benchmark.name: benchmark for benchmark in benchmarks})


BENCHMARKS = _by_name(_ELYZA, _TENGU, _MT_BENCH, _RAKUDA)
"""The Shaberi suite: what `all` means to `run-evals`, and what its tables and trees have."""

ENSEMBLE_BENCHMARKS = _by_name(*_ENSEMBLE)
"""The ensemble evaluation: what `all` means to `quick-eval`."""

ALL_BENCHMARKS = _by_name(*BENCHMARKS.values(), *_ENSEMBLE)
"""Every benchmark that a run can have."""


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of that name.

    Raises:
        ConfigurationError: There is none; the message lists the known ones.
    """
    try:
        return ALL_BENCHMARKS[name]
    except KeyError:
        raise ConfigurationError(f"unknown benchmark {name!r}; {did_you_mean(name, ALL_BENCHMARKS)}") from None


def parse_benchmarks(text: str) -> tuple[Benchmark, ...]:
    """The benchmarks of `all` or of a comma-separated list, in the list's order, each once.

    >>> [benchmark.name for benchmark in parse_benchmarks("rakuda, elyza,rakuda")]
    ['rakuda', 'elyza']

    Args:
        text: Names, or `all`, which are `BENCHMARKS`.

    Raises:
        ConfigurationError: A name is unknown, or the list is empty.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise ConfigurationError(f"no benchmark named; use 'all' or some of: {', '.join(ALL_BENCHMARKS)}")
    if names == ["all"]:
        return tuple(BENCHMARKS.values())
    return tuple(get_benchmark(name) for name in dict.fromkeys(names))
