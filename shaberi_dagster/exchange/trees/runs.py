"""Runs of imported answers: those of a model in one tree that were judged together are a run, which gets a name.

A judgement says which text it judged, and that text is not always the stored answer. A *group* is a set of answers
that nothing in it contradicts: one answer for each sample. A judge's files in all benchmarks belong together, so that
each of its averages is the average of one run; the group that they join is one that none of them contradicts.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple

import polars as pl

from shaberi_dagster.exchange.trees.files import CONTENT
from shaberi_dagster.exchange.trees.reading import Lines
from shaberi_dagster.llm.thinking import split_thinking
from shaberi_dagster.util.identity import run_id_of, sha256_text

# What the legacy suite removed before judging since 2025-06-19: complete blocks only.
_OPENING = re.compile(r"<(?:think|thinking|reason)>", re.IGNORECASE)
_CLOSING = re.compile(r"</(?:think|thinking|reason)>", re.IGNORECASE)

SampleKey = tuple[str, str, int]
"""Benchmark, question id, and which of a file's rows of this question (0 is the first)."""


class Missing:
    """In the place of a hash: there is no such text, where None is the hash of an answer that is null."""


MISSING = Missing()
TextHash = str | None | Missing
_Content = tuple[str | None, ...]


class Sample(NamedTuple):
    """An answer of a group.

    Attributes:
        stored: Hash of the text in an answer file.
        judged: Hash of the text that was judged.
    """

    stored: TextHash = MISSING
    judged: TextHash = MISSING

    def with_(self, other: "Sample", forms: "JudgedForms") -> "Sample | None":
        """Both as one answer; None if they contradict each other."""
        pairs = list(zip(self, other, strict=True))
        if any(MISSING not in pair and pair[0] != pair[1] for pair in pairs):
            return None
        merged = Sample(*(theirs if mine is MISSING else mine for mine, theirs in pairs))
        # Most were judged as they are, and need no look at the text.
        agree = MISSING in merged or merged.judged == merged.stored or merged.judged in forms(merged.stored)
        return merged if agree else None


JudgedForms = Callable[[TextHash], frozenset[TextHash]]
"""Returns the hashes of the texts that a judge can have got, by that of the stored text."""


def judged_forms(text_of: Callable[[str], str]) -> JudgedForms:
    """Return what can have been judged of stored texts, which are found by their hashes."""

    @cache
    def forms(stored: TextHash) -> frozenset[TextHash]:
        if not isinstance(stored, str):
            return frozenset({None, sha256_text("")})
        text = text_of(stored)
        return frozenset({stored, *map(sha256_text, judged_texts(text) - {text})})

    return forms


@dataclass
class Group:
    """Answers that belong together.

    Attributes:
        samples: The answers.
        question_sets: For each benchmark the set that they answer, perhaps in part.
        members: The files' parts in it, in the order in which they were added: content and benchmark of each.
    """

    samples: dict[SampleKey, Sample]
    question_sets: dict[str, str]
    members: list[tuple[_Content, str]]

    def take(self, new: "Group", samples: Mapping[SampleKey, Sample], question_sets: Mapping[str, str]) -> None:
        """Become both groups, with these samples and question sets of the other one."""
        self.samples.update(samples)
        self.question_sets.update(question_sets)
        self.members += new.members


_Part = tuple[str | None, Group]
"""The answers of a file to one benchmark, with its judge; None for an answer file."""
ModelGroups = tuple[str, Sequence[tuple[str, Group]], JudgedForms]
"""A model, its groups with their trees in the order in which they get names, and what can have been judged."""


class Grouping:
    """Puts parts together.

    Args:
        questions: The ids of a set's questions by its name.
        forms: What can have been judged.
    """

    def __init__(self, questions: Mapping[str, frozenset[str]], forms: JudgedForms) -> None:
        self._questions, self._forms = questions, forms

    def groups(self, parts: Sequence[_Part]) -> list[Group]:
        """Put the files of one model in one tree together to runs.

        Args:
            parts: The answers of each file to each benchmark with the judge of the file, in the order of precedence.
        """
        by_judge: dict[str | None, list[Group]] = {None: []}
        for judge, part in parts:
            self._place(part, by_judge.setdefault(judge, []))
        groups: list[Group] = []
        for of_judge in by_judge.values():
            for group in of_judge:
                self._place(group, groups)
        self._share([part for judge, part in parts if judge is None], groups)
        return groups

    def _share(self, stored: Sequence[Group], groups: Sequence[Group]) -> None:
        """Let stored answers be of all the groups in which they were judged."""
        for group in groups:
            for part in stored:
                if (
                    part.question_sets.keys() <= group.question_sets.keys()
                    and part.members[0] not in group.members
                    and (merged := self._merged(group, part))
                ):
                    group.take(part, *merged[1:])

    def _place(self, new: Group, groups: list[Group]) -> None:
        """Add it to the group that it has most in common with, of those that it does not contradict."""
        fitting = [merged for merged in (self._merged(group, new) for group in groups) if merged]
        if not fitting:
            groups.append(Group(dict(new.samples), dict(new.question_sets), list(new.members)))
            return
        group, samples, sets = max(fitting, key=lambda merged: len(merged[0].samples.keys() & new.samples.keys()))
        group.take(new, samples, sets)

    def _merged(self, group: Group, new: Group) -> tuple[Group, dict[SampleKey, Sample], dict[str, str]] | None:
        """The group, and what it would have to take over; None if there is a contradiction."""
        samples = {}
        for key, sample in new.samples.items():
            own = group.samples.get(key)
            if own is not None and own.judged == sample.judged and sample.stored is MISSING:
                continue  # most of them
            merged = own.with_(sample, self._forms) if own else sample
            if merged is None:
                return None
            samples[key] = merged
        sets = {}
        for benchmark, name in new.question_sets.items():
            chosen = self._set_of(benchmark, name, group, new)
            if chosen is None:
                return None
            sets[benchmark] = chosen
        return group, samples, sets

    def _set_of(self, benchmark: str, name: str, group: Group, new: Group) -> str | None:
        """The question set of both; None if neither set has the questions of the other."""
        own = group.question_sets.get(benchmark)
        if own is None or own == name:
            return name
        if _asked(new, benchmark) <= self._questions[own]:
            return own
        return name if _asked(group, benchmark) <= self._questions[name] else None


def _asked(group: Group, benchmark: str) -> set[str]:
    return {question_id for of_benchmark, question_id, _ in group.samples if of_benchmark == benchmark}


def judged_texts(raw: str) -> set[str]:
    """Return what a judge can have got of a stored text: the text itself, or without thinking.

    >>> sorted(judged_texts("<think>hm</think>yes"))
    ['<think>hm</think>yes', 'yes']
    """
    found = {raw, split_thinking(raw).answer}
    if "<" in raw:
        legacy = _without_blocks(raw)
        found |= {legacy, legacy.strip()}
    return found


def _without_blocks(text: str) -> str:
    kept, position = [], 0
    while (opening := _OPENING.search(text, position)) and (closing := _CLOSING.search(text, opening.end())):
        kept.append(text[position : opening.start()])
        position = closing.end()
    return "".join(kept) + text[position:]


PLACED = pl.Schema(
    dict.fromkeys((*CONTENT, "source", "run_id", "run_tag", "benchmark", "question_set"), pl.String())
    | dict.fromkeys(("generation", "rank"), pl.Int64())
)
"""Run that a file's rows of a benchmark belong to: content, source, run_id, run_tag, benchmark, question_set (its own),
generation (which of the source's runs of the model), rank (order of the files, the first one stands)."""


@dataclass(frozen=True, eq=False)
class EarlierRun:
    """A run of a model that the lake has already.

    Attributes:
        run_tag: Its tag.
        source: Its tree.
        answers: Hashes of its answers: the judged text, and the stored one if an answer file had it.
    """

    run_tag: str
    source: str
    answers: Mapping[SampleKey, Sample]


def place_groups(
    tag: str, found: Iterable[ModelGroups], earlier: Mapping[str, Sequence[EarlierRun]]
) -> tuple[pl.DataFrame, list[str]]:
    """Name the runs that groups are; a group that continues with a run of the lake keeps its name.

    Others are named `{tag}-{tree}`, so that no name depends on what was imported before; `…-genN` is for further
    answers.

    Args:
        tag: Tag of the import.
        found: The groups of each model, in the order in which they get names.
        earlier: The runs that the lake has, by model.

    Returns:
        A row for each part of a file (`PLACED`), and the earlier runs whose answers are those of no files any more.
    """
    rows, unmatched = [], []
    for model, groups, forms in found:
        known = earlier.get(model, [])
        kept = _matches(groups, known, forms)
        unmatched += [run_id_of(model, run.run_tag) for run in known if run not in kept.values()]
        # Runs of a killed import are put together again.
        taken = {run.run_tag for run in kept.values()} | {run.run_tag for run in known if run.answers}
        ranks: dict[str, Iterator[int]] = defaultdict(count)
        for place, (source, group) in enumerate(groups):
            base = tag_of_tree(tag, source)
            names = (base if number == 1 else f"{base}-gen{number}" for number in count(1))
            run_tag = kept[place].run_tag if place in kept else next(name for name in names if name not in taken)
            taken.add(run_tag)
            rows += [
                (
                    *content,
                    source,
                    run_id_of(model, run_tag),
                    run_tag,
                    benchmark,
                    group.question_sets[benchmark],
                    _generation(run_tag),
                    next(ranks[source]),
                )
                for content, benchmark in group.members
            ]
    return pl.DataFrame(rows, schema=PLACED, orient="row"), unmatched


def tag_of_tree(tag: str, source: str) -> str:
    """The tag of the runs that an import makes of a tree."""
    return f"{tag}-{re.sub(r'[^A-Za-z0-9._+-]', '-', source)}"


def groups_of(
    read: Lines, files: pl.DataFrame, sources: Sequence[str], questions: Mapping[str, frozenset[str]]
) -> Iterator[ModelGroups]:
    """Put the answers of each model together, tree by tree.

    Args:
        read: The lines of the files.
        files: Which tree has which content: source, model, kind, judge, sha256, in the order of precedence.
        sources: The trees in the order in which their runs get names.
        questions: The ids of the questions of each set.
    """
    parts = _parts(read.lines)
    forms = judged_forms(dict(read.texts.iter_rows()).__getitem__)
    grouping = Grouping(questions, forms)
    by_model: dict[str, dict[str, list[_Part]]] = defaultdict(lambda: defaultdict(list))
    for source, *content in files.select("source", *CONTENT).iter_rows():
        by_model[content[0]][source] += parts.get(tuple(content), [])
    for model, by_source in by_model.items():
        yield model, [(source, group) for source in sources for group in grouping.groups(by_source[source])], forms


def _parts(lines: pl.DataFrame) -> dict[_Content, list[_Part]]:
    """Take each content as groups by themselves, one for each benchmark, with the judge."""
    parts: dict[_Content, list[_Part]] = defaultdict(list)
    wanted = ["question_id", "sample_index", "text_hash"]
    columns = [*CONTENT, "benchmark", "question_set"]
    grouped = lines.group_by(columns, maintain_order=True).agg(wanted)
    for *values, benchmark, question_set, questions, occurrences, hashes in grouped.iter_rows():
        content = tuple(values)
        judge = content[CONTENT.index("judge")]
        samples = {
            (benchmark, question_id, occurrence): Sample(stored=text) if judge is None else Sample(judged=text)
            for question_id, occurrence, text in zip(questions, occurrences, hashes, strict=True)
        }
        parts[content].append((judge, Group(samples, {benchmark: question_set}, [(content, benchmark)])))
    return parts


def _matches(
    groups: Sequence[tuple[str, Group]], earlier: Iterable[EarlierRun], forms: JudgedForms
) -> dict[int, EarlierRun]:
    """By the place of a group: the earlier run that it continues with, the most alike first."""
    pairs = [
        (-alike, place, number, run)
        for number, run in enumerate(earlier)
        for place, (source, group) in enumerate(groups)
        if run.source == source and (alike := _likeness(run, group, forms))
    ]
    matches: dict[int, EarlierRun] = {}
    for _, place, _, run in sorted(pairs, key=lambda pair: pair[:3]):
        if place not in matches and run not in matches.values():
            matches[place] = run
    return matches


def _likeness(run: EarlierRun, group: Group, forms: JudgedForms) -> int:
    """Count the answers that they share, one that was judged twice; return 0 if some contradict each other."""
    total = 0
    for key in run.answers.keys() & group.samples.keys():
        earlier, now = run.answers[key], group.samples[key]
        if now.judged == earlier.judged:
            total += 2
        elif now.stored is not MISSING and (
            now.stored == earlier.stored or (now.judged is MISSING and earlier.judged in forms(now.stored))
        ):
            total += 1
        else:
            return 0
    return total


def _generation(run_tag: str) -> int:
    found = re.search(r"-gen(\d+)$", run_tag)
    return int(found[1]) if found else 1
