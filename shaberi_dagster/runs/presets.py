"""Requests of `quick-eval` and `generate-cache`: shorter forms of `RunRequest` whose tag follows from the settings."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from shaberi_dagster.lake import store
from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from shaberi_dagster.runs import imported_samples
from shaberi_dagster.runs.option import FLAT, option
from shaberi_dagster.runs.spec import (
    NOBODY,
    BaseUrl,
    ConsensusModel,
    JudgeKeyVariable,
    JudgePrompt,
    KeyVariable,
    Questions,
    QuestionSets,
    RunRequest,
)
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import DEFAULT_SEED, ENSEMBLE_BENCHMARKS, SampleOrder
from shaberi_dagster.tasks.consensus import registry
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_json

_DEFAULT_SIZE = 5
_ALL = "all"

Sample = Annotated[str, Field(description="Questions of each benchmark, or all"), option("what", metavar="N")]


@FLAT
class CacheRequest(BaseModel):
    """Several samples of each answer, one of them as the single answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    prefix: ClassVar[str] = "cache"
    """First part of a tag that is made of the settings."""

    model: Annotated[str, Field(description="Model to evaluate, e.g. gpt-4.1-mini"), option("what", known="models")]
    datasets: Annotated[
        tuple[str, ...],
        Field(description="Benchmarks"),
        option("what", name=("--datasets", "--dataset"), known="benchmarks", commas=True),
    ] = (_ALL,)
    sample: Sample = _ALL
    ensemble: Annotated[
        str,
        Field(description="Number of samples, or models they are from"),
        option("what", metavar="N|MODELS", known="models"),
    ] = str(_DEFAULT_SIZE)
    samples: Annotated[
        int | None,
        Field(ge=2, description="Number of samples where --ensemble names models; default: one of each"),
        option("advanced"),
    ] = None
    tag: Annotated[
        str | None, Field(description="Of the run; default: made of the settings"), option("what", known="runs")
    ] = None
    temperature: Annotated[float, Field(ge=0, le=2, description="Of samples"), option("how")] = 0.7
    max_tokens: Annotated[
        int | None, Field(ge=1, description="Most tokens of a reply; default: 6000"), option("how")
    ] = None
    single: Annotated[
        Literal["own", "first"],
        Field(description="The single answer: a sample of its own, or the first of the ensemble"),
        option("advanced"),
    ] = "own"
    sample_order: Annotated[
        SampleOrder,
        Field(description="How --sample chooses: pinned, or the original's seeded order"),
        option("as the original"),
    ] = "pinned"
    sample_seed: Annotated[
        int, Field(ge=0, description="Which sample, each a question set of its own"), option("advanced")
    ] = DEFAULT_SEED
    base_url: BaseUrl = None
    api_key_variable: KeyVariable = None
    questions: Questions = None
    question_sets: QuestionSets = None

    def to_request(self) -> RunRequest:
        """The request that it stands for.

        Raises:
            ConfigurationError: A number cannot be understood.
        """
        return self._request(self._settings, strategies=[])

    def with_imported(self, *, fresh: bool = False) -> Self:
        """Return the request for the question sets of which the lake has all samples imported, if it names none.

        The single answer is then the first sample. Without one, the request stays as it is.

        Args:
            fresh: Use nothing that is imported.
        """
        size, models = self._size_and_models
        if fresh or models or self.questions or self.question_sets:
            return self
        lake = store.Lake(Settings.from_environment().warehouse)
        asked = set(ENSEMBLE_BENCHMARKS if self.datasets == (_ALL,) else self.datasets)
        found = {
            name: settings.question_set
            for _, name, settings in imported_samples.imported_benchmarks(lake, {self.model}, self.temperature)
            if name in asked and settings.samples >= size
        }
        if not found:
            return self
        datasets = tuple(found) if self.datasets == (_ALL,) else self.datasets
        single = self.single if "single" in self.model_fields_set else "first"
        return self.model_copy(update={"datasets": datasets, "question_sets": list(found.values()), "single": single})

    @property
    def _settings(self) -> dict[str, Any]:
        """Fields that are those of a `RunRequest`, and tell runs apart where no tag does."""
        return self.model_dump(
            include={"max_tokens", "single", "sample_order", "base_url", "api_key_variable", "question_sets"}
        )

    def _request(
        self, settings: dict[str, Any], *, strategies: list[str], grader: str | None = None, **others: Any
    ) -> RunRequest:
        """The request with a tag of its own, unless it is given.

        Args:
            settings: As `_settings`.
            strategies: Names.
            grader: Who grades, as the tag has it.
            others: Further fields of the request.
        """
        size, models = self._size_and_models
        n = None if self.sample == _ALL else _count("--sample", self.sample, 1, "a number of questions or all")
        named = {
            "grader_model": grader,
            "ensemble_models": models,
            "sample_seed": None if self.sample_seed == DEFAULT_SEED else self.sample_seed,
            "questions": _source(self.questions),
        }
        parts = [self.prefix, *([f"n{n}"] if n else []), f"{size}x", f"t{self.temperature:g}"]
        if unusual := self._unusual(settings | named):
            parts.append(sha256_json(unusual)[:8])
        where = {
            "judge_base_url": settings.get("judge_base_url") or self.base_url,
            "judge_api_key_variable": settings.get("judge_api_key_variable") or self.api_key_variable,
        }
        return RunRequest(
            model=self.model,
            tag="-".join(parts) if self.tag is None else self.tag,
            benchmarks=list(ENSEMBLE_BENCHMARKS) if self.datasets == (_ALL,) else list(self.datasets),
            samples=size,
            sample_models=models,
            strategies=strategies,
            sample=n,
            sample_seed=self.sample_seed,
            temperature=self.temperature,
            questions=self.questions,
            shares_samples=True,
            **settings | others | where,
        )

    def _unusual(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings that differ from their default, leaving out additive ones (benchmarks, strategies)."""
        usual = {"single": "own", "sample_order": "pinned", "consensus_model": self.model, "grader_model": self.model}
        free = {"api_key_variable", "judge_api_key_variable"}
        return {
            name: value
            for name, value in settings.items()
            if name not in free and value is not None and value != usual.get(name)
        }

    @property
    def _size_and_models(self) -> tuple[int, list[str] | None]:
        """Return the number of samples, and their models unless all are of the evaluated one."""
        if self.ensemble.strip().lstrip("+-").isdecimal():
            if self.samples is not None:
                raise ConfigurationError(
                    "--samples goes with --ensemble MODEL,MODEL,…; without models give --ensemble N"
                )
            return _count("--ensemble", self.ensemble, 2, "2 or more samples, or models"), None
        models = [name for part in self.ensemble.split(",") if (name := part.strip())]
        if not models or any(model.isdecimal() for model in models):
            raise ConfigurationError("--ensemble must be 2 or more samples, or models")
        return self.samples or (len(models) if len(models) > 1 else _DEFAULT_SIZE), models


class QuickRequest(CacheRequest):
    """Single answers and consensus strategies on samples that they share."""

    prefix: ClassVar[str] = "quick"

    strategies: Annotated[
        tuple[str, ...],
        Field(description="Make a consensus of the samples"),
        option("what", name=("--strategy", "--strategies"), known="strategies", commas=True),
    ] = (_ALL,)
    sample: Sample = "30"
    consensus_model: ConsensusModel = None
    judge_model: Annotated[
        str | None,
        Field(description="Judges what rules cannot; none: no judge"),
        option("what", metavar="MODEL", known="judges"),
    ] = None
    judge_prompt: JudgePrompt = None
    judge_base_url: Annotated[
        str | None, Field(description="Endpoint of the judge; default: the model's"), option("how", metavar="URL")
    ] = None
    judge_api_key_variable: JudgeKeyVariable = None

    def to_request(self) -> RunRequest:
        """The request that it stands for.

        Raises:
            ConfigurationError: A number cannot be understood.
        """
        own = self.model_dump(include={"consensus_model", "judge_prompt", "judge_base_url", "judge_api_key_variable"})
        named = self.judge_model
        return self._request(
            self._settings | own,
            strategies=list(registry.DEFAULT_STRATEGIES if self.strategies == (_ALL,) else self.strategies),
            # As if the model graded, which it did without a word until 2026-11: tags stay what they were.
            grader=named or (NOBODY if self.model == DEFAULT_MODEL else self.model),
            judge_models=None if named is None else [] if named == NOBODY else [named],
        )


def _source(questions: str | None) -> str | None:
    """Return the source of the questions; None for the starter sets."""
    configured = Settings.from_environment().datasets
    source = questions or (str(configured) if configured else "starter")
    return None if source == "starter" else source


def _count(option: str, text: str, least: int, other: str) -> int:
    if not text.strip().isdecimal() or int(text) < least:
        raise ConfigurationError(f"{option} must be {other}, not {text!r}")
    return int(text)
