"""What stands in the place of a RunSpec for a run that was imported."""

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from shaberi_dagster.identity import run_id_of, sha256_json
from shaberi_dagster.runs.planning import LEGACY_KIND


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LegacyBenchmark(_Frozen):
    """Which questions of a benchmark an imported run answers.

    Attributes:
        question_set: Their set.
        question_set_sha256: Its content.
        n_questions: How many they are.
        n_planned: Questions of the set, and rows that repeat one of them.
        judges: Who judged.
    """

    question_set: str
    question_set_sha256: str
    n_questions: int
    n_planned: int
    judges: tuple[str, ...]


class LegacyJudgeSpec(_Frozen):
    """A judge as far as its settings are known; see `legacy_judge`."""

    judge: str
    model: str
    prompt_version: str | None
    prompt_version_source: str
    temperature: float | None
    max_tokens: int | None
    config_hash: str


class LegacyRunSpec(_Frozen):
    """What is known of an imported run. It cannot be continued: its settings and prompts are not known.

    Attributes:
        kind: Tells it from a RunSpec.
        model: Name of its files.
        run_tag: `{tag}` or `{tag}-{tree}`, with `-genN` for further answers in the same tree.
        display_name: The model's likely name.
        generation: Which of the runs that the tree has of the model.
        sources: The tree it was read from; in runs of before there was a run for each tree, all that had the model.
        benchmarks: What was asked.
        judges: Who judged.
        not_recorded: What the files do not say.
    """

    kind: Literal["legacy"] = LEGACY_KIND
    model: str
    run_tag: str
    display_name: str
    generation: int
    sources: tuple[str, ...]
    benchmarks: Mapping[str, LegacyBenchmark]
    judges: tuple[LegacyJudgeSpec, ...]
    not_recorded: str

    @property
    def run_id(self) -> str:
        """Partition key of the run."""
        return run_id_of(self.model, self.run_tag)

    @property
    def spec_hash(self) -> str:
        """sha256 of the spec."""
        return sha256_json(self.model_dump(mode="json"))
