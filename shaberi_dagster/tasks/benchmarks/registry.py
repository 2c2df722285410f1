"""The benchmarks: what a YAML file says of each, ours beside this module, others in plugin folders."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import pydantic

from shaberi_dagster.llm.types import Sampling
from shaberi_dagster.plugins.discovery import PluginError, PluginFile, PluginRegistry, load_module, read_yaml
from shaberi_dagster.tasks.benchmarks.upstream import RowReader
from shaberi_dagster.util.errors import ConfigurationError

Field = Literal["question", "reference", "criteria", "category", "upstream_id"]
LegacyForm = Literal["tengu_points", "elyza_number", "double_brackets", "rakuda_brackets", "rakuda_mean_of_tenths"]

RULE = "rule:"
"""Beginning of the names of graders that are rules."""

DEFAULT_SEED = 42
"""Seed of samples of question sets."""
SampleOrder = Literal["pinned", "mulberry32"]

_GENERATION_SAMPLING = Sampling(temperature=0.2, max_tokens=6000)
_JUDGE_SAMPLING = Sampling(temperature=0.0, max_tokens=4096)
SUFFIXES = (".jsonl", ".parquet", ".csv", ".tsv", ".json")
"""Suffixes of question files."""

_STRICT = {"extra": "forbid"}
"""For pydantic, which reads files that are not ours."""


@dataclass(frozen=True)
class HubSource:
    """Place of a benchmark's real question set on the Hugging Face hub.

    Attributes:
        repository: Dataset repository, `owner/name`.
        split: Split whose data files are the questions.
        config: Configuration of the dataset; None for its only or default one.
        revision: A commit sha to pin; None resolves the default branch when the set is loaded.
        other_split: Split that is taken where there is no file of the first.
    """

    __pydantic_config__ = _STRICT

    repository: str
    split: str
    config: str | None = None
    revision: str | None = None
    other_split: str | None = None


@dataclass(frozen=True)
class GenerationDefaults:
    """Settings of calls for answers, unless a run says otherwise.

    The user message is the template `generation/{benchmark}/user` where there is one, else `generation/user`.

    Attributes:
        sampling: Shaberi's settings since 2025-07: temperature 0.2, 6,000 tokens.
        system_template: Prompt of the system message; None sends none.
    """

    __pydantic_config__ = _STRICT

    sampling: Sampling = _GENERATION_SAMPLING
    system_template: str | None = "generation/system"


@dataclass(frozen=True)
class JudgingDefaults:
    """Settings of calls of an LLM judge.

    The second call, which reads the score out of the judge's own text, is the template `judging/{benchmark}/fallback`
    where there is one, else `judging/fallback`.

    Attributes:
        primary_template: The item to be scored; a file that does not say it means `judging/{benchmark}/primary`, or
            `grading/verdict` where a rule leaves to a model what it cannot tell.
        example_templates: User and assistant turn of a worked example that precedes the item.
        sampling: Temperature 0. 4,096 tokens, since with the legacy 1,024 four fifths of the GPT-5.1
            judgements of Rakuda ended before their score.
        legacy_score_forms: Forms of older prompts by the names that `judges.parse` explains, in the order they
            are tried.
    """

    __pydantic_config__ = _STRICT

    primary_template: str
    example_templates: tuple[str, str] | None = None
    sampling: Sampling = _JUDGE_SAMPLING
    legacy_score_forms: tuple[LegacyForm, ...] = ()


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, as its YAML file says it.

    Attributes:
        name: Identity in tables, commands and asset keys: the file's name.
        title: Name for readers.
        description: What it asks, in one sentence.
        scale_minimum: Lowest score of the judge's scale.
        scale_maximum: Highest score of the judge's scale.
        judging: Templates and sampling of its LLM judges.
        questions: The question file that comes with it, relative to its own; a file that does not say it means the one
            of its name beside it. None without one.
        hub: Where the real questions live; None when there is no hub copy.
        columns: For each field the upstream column names that stand for it, beside the field's own name.
        required: Fields that every question must have, beside the question itself.
        reported_multiplier: Factor from the judge's scale to the published one.
        generation: How answers are asked for.
        grader: What turns an answer into a score: LLM judges, or a rule (`rule:NAME`) that leaves to them what it
            cannot tell.
        has_options: Whether a question has `options`, of which the reference is the letter of the right one.
        samples: Answers to each question, unless a run says otherwise.
        strategies: Which make a consensus of them, unless a run says otherwise.
        judges: Models that judge it, unless a run says otherwise.
        reader: `FILE.FUNCTION` of a Python file beside its own, a `RowReader` for rows as their publisher has them. A
            row with a `reference` is ours, and has our columns. None where `columns` says all.
        files: Further names, without suffix, of files that hold the questions in a folder.
        file: Its own file.
    """

    __pydantic_config__ = _STRICT

    name: str
    title: str
    description: str
    scale_minimum: int
    scale_maximum: int
    judging: JudgingDefaults
    questions: Path | None = None
    hub: HubSource | None = None
    columns: Mapping[Field, tuple[str, ...]] = field(default_factory=dict, hash=False)
    required: tuple[Field, ...] = ()
    reported_multiplier: float = 1.0
    generation: GenerationDefaults = GenerationDefaults()
    grader: str = "llm_judge"
    has_options: bool = False
    samples: int = 1
    strategies: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    reader: str | None = None
    files: tuple[str, ...] = ()
    file: PluginFile | None = None

    @property
    def has_rule(self) -> bool:
        """Return whether a rule grades its answers, right or wrong; else LLMs judge them on the scale."""
        return self.grader.startswith(RULE)

    @property
    def read_row(self) -> RowReader | None:
        """The function that `reader` names, loaded when rows are read.

        Raises:
            PluginError: There is no such file or function.
        """
        return None if self.reader is None or self.file is None else _reader(self.file, self.reader)


_NESTED = {"hub": HubSource, "generation": GenerationDefaults, "judging": JudgingDefaults, "sampling": Sampling}


@cache
def checked_benchmark() -> Callable[[Any], Benchmark]:
    """Return a function that makes a benchmark of a file's values, or says what is wrong with them."""
    return pydantic.TypeAdapter(Benchmark).validate_python


def _built(shape: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The same without a look at the values, for our own files."""
    ready = dict(values)
    for name, value in values.items():
        if name in _NESTED and value is not None:
            ready[name] = _built(_NESTED[name], value)
        elif isinstance(value, Mapping):
            ready[name] = {field: tuple(columns) for field, columns in value.items()}
        elif isinstance(value, list):
            ready[name] = tuple(value)
    return shape(**ready)


def _read(file: PluginFile) -> Benchmark:
    checked = partial(_built, Benchmark) if file.is_own else checked_benchmark()
    benchmark: Benchmark = read_yaml(file, checked, partial(_complete, file))
    if not benchmark.scale_minimum < benchmark.scale_maximum:
        raise PluginError(file.path, None, "scale_minimum must be below scale_maximum")
    return benchmark


def _complete(file: PluginFile, values: dict[str, Any]) -> None:
    """Add what a file need not say."""
    if given := sorted({"name", "file"} & values.keys()):
        raise PluginError(file.path, None, f"{given[0]} is what the file is called, and does not stand in it")
    grader = values.get("grader", "llm_judge")
    template = "grading/verdict" if str(grader).startswith(RULE) else f"judging/{file.name}/primary"
    values["judging"] = {"primary_template": template} | (values.get("judging") or {})
    beside = (file.path.with_suffix(suffix) for suffix in SUFFIXES)
    named = values.get("questions")
    values["questions"] = file.path.parent / named if named else next(filter(Path.is_file, beside), None)
    values |= {"name": file.name, "file": file}


@cache
def _reader(file: PluginFile, reader: str) -> RowReader:
    module_name, _, function = reader.partition(".")
    path = file.path.with_name(f"{module_name}.py")
    if not path.is_file():
        raise PluginError(file.path, None, f"reader {reader!r}: there is no {path.name} beside it")
    found: RowReader | None = getattr(load_module(replace(file, path=path)), function, None)
    if found is None:
        raise PluginError(path, None, f"has no function {function!r}")
    return found


_SUITE = ("elyza", "tengu", "mt_bench", "rakuda")
_ENSEMBLE = (
    *("gsm8k", "math500", "truthfulqa", "gpqa", "mmlu_pro"),
    *("simpleqa", "hle", "arc", "hellaswag", "hallumix"),
)

ALL_BENCHMARKS = PluginRegistry(
    "benchmark",
    "benchmarks",
    ".yaml",
    {name: f"tasks/benchmarks/{name}.yaml" for name in (*_SUITE, *_ENSEMBLE)},
    read=_read,
)
"""Every benchmark that a run can have."""

BENCHMARKS = {name: ALL_BENCHMARKS[name] for name in _SUITE}
"""The Shaberi suite: what `all` means to `run-evals`, and what its tables and trees have."""

ENSEMBLE_BENCHMARKS = {name: ALL_BENCHMARKS[name] for name in _ENSEMBLE}
"""The ensemble evaluation: what `all` means to `quick-eval`."""


def get_benchmark(name: str) -> Benchmark:
    """The benchmark of that name, to work with.

    Raises:
        ConfigurationError: It does not exist, and the message lists the known ones; or its file cannot be used.
    """
    return ALL_BENCHMARKS.use(name)


def parse_benchmarks(text: str, known: Mapping[str, Benchmark] | None = None) -> tuple[Benchmark, ...]:
    """The benchmarks of `all` or of a comma-separated list, in the list's order, each once.

    >>> [benchmark.name for benchmark in parse_benchmarks("rakuda, elyza,rakuda")]
    ['rakuda', 'elyza']

    Args:
        text: Names, or `all`, which are `BENCHMARKS`.
        known: For those who only read: more than there are to work with.

    Raises:
        ConfigurationError: A name is unknown, or the list is empty.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise ConfigurationError(f"no benchmark named; use 'all' or some of: {', '.join(ALL_BENCHMARKS)}")
    if names == ["all"]:
        return tuple(BENCHMARKS.values())
    return tuple((known or {}).get(name) or get_benchmark(name) for name in dict.fromkeys(names))
