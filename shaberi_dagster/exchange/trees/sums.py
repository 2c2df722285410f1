"""What became of everything that was there, with sums that must agree."""

from dataclasses import dataclass
from typing import Self

import polars as pl

from shaberi_dagster.exchange.importing import ImportedRows
from shaberi_dagster.exchange.trees.files import VERSION_CONTROL

_COUNTS = ("lines", "blank", "imported", "repeated", "quarantined")


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
        own = main.select("source", "model", "judge", source_sha256="sha256").unique()
        line = ["source", "model", "judge", "source_sha256", "source_line"]

        def of_files(frame: pl.DataFrame, judge: pl.Expr) -> pl.DataFrame:
            """The rows of these files; a line that is in several runs of its tree counts once."""
            named = frame.with_columns(judge=judge, source="run_source", model="run_model")
            return named.join(own, on=line[:4], how="semi", nulls_equal=True).unique(line)

        nobody = pl.lit(None, dtype=pl.String)
        stored = of_files(rows.answers.filter(answer_origin="stored"), nobody)
        judged = rows.answers.filter(answer_origin="judgement").with_columns(
            judge=nobody, source="run_source", model="run_model"
        )
        judgements = of_files(rows.judgements, pl.col("judge"))
        imported = pl.concat([stored.select(line), judgements.select(line)])
        repeats = of_files(rows.repeats, pl.col("judge")).join(imported, on=line, how="anti", nulls_equal=True)
        answers = pl.concat([stored.select(judged.columns), judged])
        return cls(
            files,
            quarantine,
            pl.concat(
                [_counted(answers, "answers", "answer_origin"), _counted(judgements, "judgements", "answer_link")]
            ),
            repeats.group_by("source").agg(rows=pl.len().cast(pl.Int64)),
        )

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
        """What was not read and why: source, path, status, reason; version control is left out on purpose."""
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
        return [f"{what}: {left:,} by file, {right:,} by row" for what, left, right in expected if left != right]


def _counted(frame: pl.DataFrame, kind: str, link: str) -> pl.DataFrame:
    judged = kind == "judgements"
    nothing = pl.lit(None, dtype=pl.Boolean)
    return (
        frame.select(
            "source",
            pl.lit(kind).alias("kind"),
            "judge",
            "benchmark",
            "status",
            "error_class",
            pl.col(link).alias("link"),
            superseded="superseded" if judged else nothing,
            out_of_scale="out_of_scale" if judged else nothing,
        )
        .group_by(pl.all())
        .agg(pl.len().cast(pl.Int64).alias("rows"))
    )
