"""Of which run each file is: groups of answers, and the names that they have or get."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import polars as pl

from shaberi_dagster.exchange.legacy.assemble import PLACED
from shaberi_dagster.exchange.legacy.grouping import (
    MISSING,
    FilePart,
    Group,
    Grouping,
    JudgedForms,
    Sample,
    SampleKey,
    part_of,
)
from shaberi_dagster.exchange.legacy.lines import CONTENT, Lines
from shaberi_dagster.util.identity import run_id_of

_Content = tuple[str | None, ...]


@dataclass(frozen=True, eq=False)
class EarlierRun:
    """A run of a model that the lake has already.

    Attributes:
        run_tag: Its tag.
        source: Its tree; None in lakes in which a run could be of several.
        answers: Hashes of its answers: the judged text, and the stored one if an answer file had it.
    """

    run_tag: str
    source: str | None
    answers: Mapping[SampleKey, Sample]


@dataclass
class Placing:
    """Of which runs the files of some models are.

    Attributes:
        tag: Tag of the import.
        rows: A row for each part of a file (`PLACED`).
        unmatched: The earlier runs whose answers are those of no files any more.
    """

    tag: str
    rows: list[dict[str, object]] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)

    @property
    def placed(self) -> pl.DataFrame:
        """The rows as a frame."""
        return pl.DataFrame(self.rows, schema=PLACED)

    def place(
        self, model: str, groups: Sequence[tuple[str, Group]], earlier: Sequence[EarlierRun], forms: JudgedForms
    ) -> None:
        """Name the groups of one model.

        Args:
            model: The model.
            groups: With their sources, in the order in which they get names.
            earlier: Its runs in the lake; a group that goes on with one of them keeps its name.
            forms: What can have been judged.
        """
        kept = _matches(groups, earlier, forms)
        self.unmatched += [run_id_of(model, run.run_tag) for run in earlier if run not in kept.values()]
        owners = {run.run_tag: groups[place][0] for place, run in kept.items()}
        # Of a killed import, or of before there was a run for each tree: they are put together anew.
        owners |= {run.run_tag: run.source for run in earlier if run.source and run.answers}
        names = _Names(self.tag, owners)
        ranks: dict[str, Iterator[int]] = defaultdict(count)
        for place, (source, group) in enumerate(groups):
            run_tag = kept[place].run_tag if place in kept else names.new(source)
            for content, benchmark in group.members:
                self.rows.append(
                    dict(zip(CONTENT, content, strict=True))  # type: ignore[call-overload]
                    | {
                        "source": source,
                        "run_id": run_id_of(model, run_tag),
                        "run_tag": run_tag,
                        "benchmark": benchmark,
                        "question_set": group.question_sets[benchmark],
                        "generation": _generation(run_tag),
                        "rank": next(ranks[source]),
                    }
                )


class _Names:
    """Tags for the runs of one model.

    `{tag}-{tree}`, so that no name depends on what was imported before; `…-genN` is for further answers. Runs of lakes
    of before, in which the first tree's had no name in it, keep theirs.

    Args:
        tag: Tag of the import.
        owners: The sources of the runs that have their names already, by tag.
    """

    def __init__(self, tag: str, owners: Mapping[str, str]) -> None:
        self._tag, self._owners = tag, dict(owners)

    def new(self, source: str) -> str:
        """The next name for a run of this tree."""
        base = tag_of_tree(self._tag, source)
        names = (base if number == 1 else f"{base}-gen{number}" for number in count(1))
        name = next(name for name in names if name not in self._owners)
        self._owners[name] = source
        return name


def tag_of_tree(tag: str, source: str) -> str:
    """The tag of the runs that an import makes of a tree."""
    return f"{tag}-{re.sub(r'[^A-Za-z0-9._+-]', '-', source)}"


def groups_of(
    read: Lines, files: pl.DataFrame, sources: Sequence[str], questions: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, list[tuple[str, Group]], JudgedForms]]:
    """The groups of each model, tree by tree.

    Args:
        read: What the files say.
        files: Which tree has which content: source, model, kind, judge, sha256, in the order of precedence.
        sources: The trees in the order in which their runs get names.
        questions: The ids of the questions of each set.
    """
    parts = _parts(read.lines)
    text_of = dict(read.texts.iter_rows())
    forms = JudgedForms(text_of.__getitem__)
    grouping = Grouping(questions, forms)
    by_model: dict[str, dict[str, list[FilePart]]] = defaultdict(lambda: defaultdict(list))
    for source, *content in files.select("source", *CONTENT).iter_rows():
        by_model[content[0]][source] += parts.get(tuple(content), [])
    for model, by_source in by_model.items():
        groups = [
            (source, group)
            for source in sources
            # A stable sort: answers first.
            for group in grouping.groups(sorted(by_source.get(source, []), key=lambda part: part.judge is not None))
        ]
        yield model, groups, forms


def _parts(lines: pl.DataFrame) -> dict[_Content, list[FilePart]]:
    """The parts of each content."""
    parts: dict[_Content, list[FilePart]] = defaultdict(list)
    wanted = ["question_id", "sample_index", "text_hash"]
    columns = [*CONTENT, "benchmark", "question_set"]
    grouped = lines.group_by(columns, maintain_order=True).agg(wanted)
    for *content, benchmark, question_set, questions, occurrences, hashes in grouped.iter_rows():
        texts = dict(zip(zip(questions, occurrences, strict=True), hashes, strict=True))
        own = tuple(content)
        parts[own].append(part_of(own, own[2], benchmark, question_set, texts))
    return parts


def _matches(
    groups: Sequence[tuple[str, Group]], earlier: Iterable[EarlierRun], forms: JudgedForms
) -> dict[int, EarlierRun]:
    """By the place of a group: the earlier run that it goes on with, the most alike first."""
    pairs = [
        (-alike, place, number, run)
        for number, run in enumerate(earlier)
        for place, (source, group) in enumerate(groups)
        if run.source in {None, source} and (alike := _likeness(run, group, forms))
    ]
    matches: dict[int, EarlierRun] = {}
    for _, place, _, run in sorted(pairs, key=lambda pair: pair[:3]):
        if place not in matches and run not in matches.values():
            matches[place] = run
    return matches


def _likeness(run: EarlierRun, group: Group, forms: JudgedForms) -> int:
    """How many answers they share, those that were judged twice; 0 if some contradict each other."""
    total = 0
    for key in run.answers.keys() & group.samples.keys():
        earlier, now = run.answers[key], group.samples[key]
        if now.judged == earlier.judged:
            total += 2
        elif now.stored is not MISSING and (
            now.stored == earlier.stored or (now.judged is MISSING and earlier.judged in forms.of(now.stored))
        ):
            total += 1
        else:
            return 0
    return total


def _generation(run_tag: str) -> int:
    found = re.search(r"-gen(\d+)$", run_tag)
    return int(found[1]) if found else 1
