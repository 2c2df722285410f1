"""Scores of runs, as they are shown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shaberi_dagster.reports.declared.cost import TOKENS, cost_line, cost_totals, stage_totals
from shaberi_dagster.reports.report import Block, Document, Heading, Sentences, Table
from shaberi_dagster.reports.requests import DEFAULT_VIEW, ScoreView
from shaberi_dagster.reports.score_report import ScoreReport
from shaberi_dagster.reports.scores import undecided_parts
from shaberi_dagster.reports.undecided import undecided_sentences
from shaberi_dagster.show.score_data import CSV_COLUMNS, score_data, score_records
from shaberi_dagster.show.score_notes import notes_line, score_notes
from shaberi_dagster.show.score_tables import (
    judge_blocks,
    replies_table,
    run_blocks,
    statistics_blocks,
    strategy_blocks,
)
from shaberi_dagster.show.standings import best_of_most, own_table, standing_blocks

_MOST_REUSED = 3


@dataclass(frozen=True)
class ScoreDocument(Document):
    """Scores with their denominators; documents without a width, such as Markdown, have all there is."""

    csv_columns = CSV_COLUMNS

    report: ScoreReport
    view: ScoreView = DEFAULT_VIEW

    def blocks(self, width: int | None) -> Iterator[Block]:
        """The scores, what they are, and what they cost."""
        if width is None:
            return _said_once(self._everything())
        blocks = _said_once(self._for_people(width))
        return map(_with_all_columns, blocks) if self.view.wide else blocks

    def _for_people(self, width: int) -> Iterator[Block]:
        report, view = self.report, self.view
        if report.left_out:
            yield Sentences(report.left_out, "warning")
        if not report.rows:
            yield Sentences(["No scores."])
        if view.by == "run":
            yield from statistics_blocks(report, several=False)
            yield from run_blocks(report, several=False)
            yield Sentences(list(undecided_sentences(undecided_parts(report.rows))), "note")
            yield from strategy_blocks(report.strategies)
        elif report.rows:
            yield from self._ranked(width)
        if view.by in {"judge", "run"}:
            yield from judge_blocks(report)
        yield from self._notes()
        if report.tokens:
            yield from self._costs()
        if view.by != "run" and (best := list(best_of_most(report.rankings))):
            yield Sentences(best, "verdict")

    @property
    def _has_own_table(self) -> bool:
        return self._is_of_one and self.view.by == "model"

    @property
    def _is_of_one(self) -> bool:
        """Whether it is of a single model and tag."""
        return len({(row.model, row.base_tag or row.run_tag) for row in self.report.rows}) == 1

    def _ranked(self, width: int) -> Iterator[Block]:
        report, view = self.report, self.view
        own = own_table(report) if self._has_own_table else []
        width_left = None if view.wide else width
        yield from own or standing_blocks(report, by=view.by, width=width_left, top=view.top or 0)
        if own:
            yield from strategy_blocks(report.strategies)
        elif self._is_of_one:
            yield from self._of_one()
        elif report.strategies:
            yield Sentences(["What strategies add to the samples of their runs: --by run, or one --tag."], "note")

    def _costs(self) -> Iterator[Block]:
        tokens, view = self.report.tokens, self.view
        if view.cost:
            yield from cost_totals(tokens)
            yield TOKENS.of(tokens, brief=True)
        is_short = len({row["benchmark"] for row in tokens}) == 1 if view.cost else not self._has_own_table
        if not is_short:
            yield Heading("By stage")
            yield stage_totals(tokens)
        elif not view.cost:
            yield Sentences([cost_line(tokens)], "note")

    def _everything(self) -> Iterator[Block]:
        report = self.report
        if report.left_out:
            yield Sentences(report.left_out, "warning")
        yield from statistics_blocks(report, several=True)
        if not report.rows:
            yield Sentences(["No scores."])
        yield from run_blocks(report, several=True)
        yield from strategy_blocks(report.strategies)
        yield from judge_blocks(report)
        yield from self._all_notes()
        if report.tokens:
            yield TOKENS.of(report.tokens)
        yield from standing_blocks(report, by="model", width=None)

    def _of_one(self) -> Iterator[Block]:
        """Show the benchmarks of a single model and tag: over its runs, or those of its only run."""
        if self.report.statistics:
            yield from statistics_blocks(self.report, several=False)
        else:
            yield from run_blocks(self.report, several=False)
        yield from strategy_blocks(self.report.strategies)

    def _notes(self) -> Iterator[Block]:
        if self.view.notes:
            yield from self._all_notes()
            return
        reused = self.report.reused
        more = [f"{len(reused) - _MOST_REUSED} more runs use replies of other runs."] if reused[_MOST_REUSED:] else []
        line = notes_line(self.report)
        yield Sentences([*reused[:_MOST_REUSED], *more, *([line] if line else [])], "note")

    def _all_notes(self) -> Iterator[Block]:
        yield Sentences(list(score_notes(self.report)), "note")
        if self.report.replies:
            yield Heading("Replies, and what missing scores would change")
            yield replies_table(self.report.replies)

    # --- for programs ---

    def data(self) -> Mapping[str, Any]:
        """Return a document with everything there is, in full; unknown values are null."""
        return score_data(self.report)

    def records(self) -> Iterator[Mapping[str, Any]]:
        """Lines of which `row` says what they are."""
        return score_records(self.report)


def _said_once(blocks: Iterable[Block]) -> Iterator[Block]:
    """Leave out sentences that another block has said: several rankings have the same remarks."""
    seen: set[str] = set()

    def new(texts: Sequence[str]) -> list[str]:
        found = [text for text in dict.fromkeys(texts) if text not in seen]
        seen.update(found)
        return found

    for block in blocks:
        if isinstance(block, Sentences):
            yield replace(block, texts=new(block.texts))
        elif isinstance(block, Table):
            yield replace(block, notes=new(block.notes))
        else:
            yield block


def _with_all_columns(block: Block) -> Block:
    """A table none of whose columns is left out for want of room."""
    if not isinstance(block, Table):
        return block
    return replace(block, columns=[replace(column, spare=False) for column in block.columns])
