"""Counts of everything that an import found, with sums that must agree."""

from dataclasses import dataclass
from typing import Self

import polars as pl

from shaberi_dagster.exchange.importing import ImportedRows
from shaberi_dagster.exchange.trees.files import VERSION_CONTROL

_COUNTS = ("lines", "blank", "imported", "repeated", "quarantined")
_PLACE = ("source", "model", "judge", "source_sha256", "source_line")
_OUTCOME = ("kind", "judge", "benchmark", "status", "error_class", "link", "superseded", "out_of_scale")
_ROWS = pl.Schema(
    dict.fromkeys((*_PLACE, *_OUTCOME), pl.String())
    | {"source_line": pl.Int64(), "superseded": pl.Boolean(), "out_of_scale": pl.Boolean()}
)
"""Schema of rows with their origin and what became of them; answers have no judge."""


@dataclass(frozen=True)
class Reconciliation:
    """Counts of what an import made of its files.

    Attributes:
        said: Rows of `legacy_files`: what became of the lines of each.
        quarantine: Rows of `legacy_quarantine`.
        counted: Rows of answers and judgements by tree (`source`) and outcome (see `outcomes`).
        repeated: Rows of repeats by tree: source, rows.
    """

    said: pl.DataFrame
    quarantine: pl.DataFrame
    counted: pl.DataFrame
    repeated: pl.DataFrame

    @classmethod
    def of_rows(cls, rows: ImportedRows, files: pl.DataFrame, quarantine: pl.DataFrame) -> Self:
        """Count rows; no texts are needed.

        Args:
            rows: Of everything imported under one tag, with `run_source` and `run_model`, the tree and model of
                their runs; only the columns that are counted need to be there.
            files: Rows of `legacy_files`.
            quarantine: Rows of `legacy_quarantine`.
        """
        main = files.filter(pl.col("status").is_in(["imported", "unreadable"]), pl.col("lines").is_not_null())
        read = main.select("source", "model", "judge", source_sha256="sha256").unique()

        def of_files(frame: pl.DataFrame) -> pl.DataFrame:
            """Take the rows of these files; a line that is in several runs of its tree counts once."""
            return frame.join(read, on=_PLACE[:4], how="semi", nulls_equal=True).unique(_PLACE)

        answers = _rows_of(rows.answers, "answers", "answer_origin")
        only_judged = pl.col("link") == "judgement"
        imported = of_files(
            pl.concat([answers.filter(~only_judged), _rows_of(rows.judgements, "judgements", "answer_link")])
        )
        repeats = rows.repeats.with_columns(source="run_source", model="run_model")
        again = of_files(repeats).join(imported, on=_PLACE, how="anti", nulls_equal=True)
        outcomes = pl.concat([imported, answers.filter(only_judged)]).group_by("source", *_OUTCOME)
        n_rows = pl.len().cast(pl.Int64).alias("rows")
        return cls(files, quarantine, outcomes.agg(n_rows), again.group_by("source").agg(n_rows))

    def of(self, source: str) -> "Reconciliation":
        """The counts of one tree."""
        frames = (self.said, self.quarantine, self.counted, self.repeated)
        return Reconciliation(*(frame.filter(source=source) for frame in frames))

    @property
    def files(self) -> pl.DataFrame:
        """Files and lines by source, kind, judge, dataset and status.

        Columns: source, kind, judge, dataset, status, files, lines, blank, imported, repeated, quarantined.
        """
        keys = ["source", "kind", "judge", "dataset", "status"]
        counts = [pl.col(name).sum() for name in _COUNTS]
        return self.said.group_by(keys).agg(pl.len().alias("files"), *counts).sort(keys)

    @property
    def n_unreadable(self) -> int:
        """Files that could not be read, or not to their end."""
        return self.said.filter(status="unreadable").height

    @property
    def left_out(self) -> pl.DataFrame:
        """Files that were not read, and why: source, path, status, reason; version control is left out on purpose."""
        unread = pl.col("status").is_in(["unknown", "unreadable"]) & (pl.col("reason") != VERSION_CONTROL)
        return self.said.filter(unread).select("source", "path", "status", "reason").sort("source", "path")

    @property
    def outcomes(self) -> pl.DataFrame:
        """Rows by outcome.

        Columns: kind, judge, benchmark, status, error_class, link (`answer_origin` or `answer_link`), superseded,
        out_of_scale, rows.
        """
        by = [name for name in self.counted.columns if name not in {"source", "rows"}]
        return self.counted.group_by(by).agg(pl.col("rows").sum()).sort(by)

    @property
    def cells(self) -> pl.DataFrame:
        """Judgements by judge and benchmark.

        Columns: judge, benchmark, rows, scored, without_score, superseded, of_other_answers (the judged text is not
        the stored one), out_of_scale.
        """
        rows, scored = pl.col("rows"), pl.col("status") == "ok"
        own = self.counted.filter(kind="judgements").group_by("judge", "benchmark")
        return own.agg(
            rows.sum(),
            rows.filter(scored).sum().alias("scored"),
            rows.filter(~scored).sum().alias("without_score"),
            rows.filter("superseded").sum().alias("superseded"),
            rows.filter(pl.col("link") == "differs").sum().alias("of_other_answers"),
            rows.filter("out_of_scale").sum().alias("out_of_scale"),
        ).sort("judge", "benchmark")

    def discrepancies(self) -> list[str]:
        """Sums that do not agree, one sentence each; none is as it must be."""
        files, rows = self.said, self.counted
        stored = rows.filter(kind="answers", link="stored")
        read = files.filter(pl.col("lines").is_not_null(), pl.col("status") != "replaced")
        expected = [
            (
                "lines",
                int(read["lines"].sum()),
                sum(int(read[name].sum()) for name in _COUNTS[1:]),
            ),
            ("stored answers", int(read.filter(kind="answers")["imported"].sum()), int(stored["rows"].sum())),
            (
                "judgements",
                int(read.filter(kind="judgements")["imported"].sum()),
                int(rows.filter(kind="judgements")["rows"].sum()),
            ),
            ("repeated rows", int(read["repeated"].sum()), int(self.repeated["rows"].sum())),
            ("quarantined lines", int(read["quarantined"].sum()), self.quarantine.height),
        ]
        return [f"{unit}: {left:,} by file, {right:,} by row" for unit, left, right in expected if left != right]


def _rows_of(frame: pl.DataFrame, kind: str, link: str) -> pl.DataFrame:
    """Give answers and judgements the same columns (`_ROWS`)."""
    named = frame.with_columns(source="run_source", model="run_model", kind=pl.lit(kind), link=link)
    return named.match_to_schema(_ROWS, missing_columns="insert", extra_columns="ignore")
