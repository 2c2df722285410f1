"""The texts of prompts, kept in the lake: rows have hashes only, and a template that was edited is gone.

A prompt is recorded under the hash that rows have of it, before the first call that is made with it: each stage says
which prompts it uses (`Stage.prompts`), `record_prompts` adds those that the lake does not know yet.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from shaberi_dagster.lake.schemas import PROMPTS
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.tasks.prompts.library import (
    VARIANTS,
    PromptLibrary,
    Template,
    fallback_template,
    judge_templates,
)
from shaberi_dagster.util.identity import sha256_json

GENERATION, PRIMARY, FALLBACK, GRADING = "generation", "judging primary", "judging fallback", "grading"
"""Purposes; the others are `strategy:NAME` and `pass:NAME`."""


@dataclass(frozen=True)
class UsedPrompt:
    """A prompt as a stage uses it.

    Attributes:
        purpose: What for, as in the column `purpose`.
        name: What people call it, without its number: `tengu-primary`, `tengu-primary+strict`.
        templates: What it is made of, in the order in which they are hashed.
        variant: The variant that it is of; None where the variant leaves it as it is.
    """

    purpose: str
    name: str
    templates: tuple[Template, ...]
    variant: str | None = None

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompt that rows carry; equal to `PromptLibrary.prompt_hash`."""
        return sha256_json([template.source for template in self.templates])


def record_prompts(lake: Lake, used: Iterable[UsedPrompt]) -> list[str]:
    """Add the prompts that the lake does not know yet, each with a label that it keeps.

    Of several processes one adds at a time. Where no lock reaches (several machines without a database) a prompt may be
    there twice, which the view `prompts` hides.

    Args:
        lake: Where to write.
        used: Prompts; of those with the same texts the first counts.

    Returns:
        The labels that are new.
    """
    used = new_prompts(lake, used)
    if not used:
        return []
    lake.widen(PROMPTS.name)
    with lake.exclusive_lock(PROMPTS.name):
        new = new_prompts(lake, used)
        labels = _labels(new, lake.read(PROMPTS.name, columns=["label"])["label"].to_list())
        if new:
            now = datetime.now(UTC)
            rows = [
                {
                    "prompt_hash": prompt.prompt_hash,
                    "position": position,
                    "template": template.name,
                    "source": template.source,
                    "file": template.file,
                    "variant": prompt.variant,
                    "purpose": prompt.purpose,
                    "label": label,
                    "created_at": now,
                }
                for prompt, label in zip(new, labels, strict=True)
                for position, template in enumerate(prompt.templates, start=1)
            ]
            lake.append(PROMPTS.name, pl.DataFrame(rows, schema=PROMPTS.schema))
    return labels


def new_prompts(lake: Lake, used: Iterable[UsedPrompt]) -> list[UsedPrompt]:
    """Return those that the lake does not know yet, the first of those that have the same texts."""
    first: dict[str, UsedPrompt] = {}
    for prompt in used:
        first.setdefault(prompt.prompt_hash, prompt)
    if not first:
        return []
    known = set(lake.read(PROMPTS.name, {"prompt_hash": list(first)}, ["prompt_hash"])["prompt_hash"])
    return [prompt for prompt_hash, prompt in first.items() if prompt_hash not in known]


def judge_prompts(library: PromptLibrary, entry: Benchmark, variant: str | None) -> Iterator[UsedPrompt]:
    """Yield the prompts of a benchmark's judge, as a variant has them."""
    prompts = library.variant(variant)
    if entry.has_rule:
        yield used_prompt(prompts, GRADING, (entry.judging.primary_template,), variant)
        return
    yield used_prompt(prompts, PRIMARY, judge_templates(entry), variant)
    yield used_prompt(prompts, FALLBACK, (fallback_template(prompts, entry),), variant)


def used_prompt(
    library: PromptLibrary, purpose: str, names: Sequence[str], variant: str | None = None, name: str | None = None
) -> UsedPrompt:
    """Return a prompt made of templates.

    Args:
        library: Where they are.
        purpose: As in the column `purpose`.
        names: The templates.
        variant: The variant that may have changed them.
        name: What people call it; the default is made of the last template's name.
    """
    templates = tuple(library.templates(*names))
    own = variant if any(template.file.startswith(f"{VARIANTS}/") for template in templates) else None
    if name is None:  # `tengu-primary` of `judging/tengu/primary`, `judging-fallback` of `judging/fallback`
        area, *rest = names[-1].split("/")
        name = "-".join(rest if len(rest) > 1 else [area, *rest])
    return UsedPrompt(purpose, f"{name}+{own}" if own else name, templates, own)


def _labels(new: Sequence[UsedPrompt], taken: Iterable[str]) -> list[str]:
    """The next free number of each one's name."""
    last: dict[str, int] = {}
    for label in taken:
        name, _, number = label.rpartition(" v")
        last[name] = max(last.get(name, 0), int(number))
    labels = []
    for prompt in new:
        last[prompt.name] = last.get(prompt.name, 0) + 1
        labels.append(f"{prompt.name} v{last[prompt.name]}")
    return labels
