"""What became of everything that was there, with sums that must agree."""

import polars as pl

from shaberi_dagster.legacy.assemble import Batch

_COUNTS = ("lines", "blank", "imported", "repeated", "quarantined")


class Reconciliation:
    """Counts of what an import made of its files; no texts are needed.

    Args:
        rows: Of everything imported under one tag; only the columns that are counted need to be there.
    """

    def __init__(self, rows: Batch) -> None:
        self._files, self.quarantine = rows.files, rows.quarantine
        self._n_repeats = rows.repeats.height
        self._outcomes = pl.concat(
            [
                _counted(rows.answers, "answers", judge=pl.lit(None, dtype=pl.String), link="answer_origin"),
                _counted(rows.judgements, "judgements", judge=pl.col("judge"), link="answer_link"),
            ]
        )

    @property
    def files(self) -> pl.DataFrame:
        """Files and lines by source, kind, judge, dataset and status.

        Columns: source, kind, judge, dataset, status, files, lines, blank, imported, repeated, quarantined.
        """
        keys = ["source", "kind", "judge", "dataset", "status"]
        counts = [pl.col(name).sum() for name in _COUNTS]
        return self._files.group_by(keys).agg(pl.len().alias("files"), *counts).sort(keys)

    @property
    def n_unreadable(self) -> int:
        """Files that could not be read, or not to their end."""
        return self._files.filter(status="unreadable").height

    @property
    def outcomes(self) -> pl.DataFrame:
        """Rows by outcome.

        Columns: kind, judge, benchmark, status, error_class, link (`answer_origin` or `answer_link`), superseded,
        out_of_scale, rows.
        """
        return self._outcomes.sort(self._outcomes.columns)

    @property
    def cells(self) -> pl.DataFrame:
        """Judgements by judge and benchmark.

        Columns: judge, benchmark, rows, scored, without_score, superseded, of_other_answers (the judged text is not
        the stored one), out_of_scale.
        """
        rows, scored = pl.col("rows"), pl.col("status") == "ok"
        own = self._outcomes.filter(kind="judgements").group_by("judge", "benchmark")
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
        files, rows = self._files, self._outcomes
        stored = rows.filter(kind="answers", link="stored")
        read = files.filter(pl.col("lines").is_not_null())
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
            ("repeated rows", int(read["repeated"].sum()), self._n_repeats),
            ("quarantined lines", int(read["quarantined"].sum()), self.quarantine.height),
        ]
        return [f"{what}: {left:,} by file, {right:,} by row" for what, left, right in expected if left != right]


def _counted(frame: pl.DataFrame, kind: str, *, judge: pl.Expr, link: str) -> pl.DataFrame:
    judgements = kind == "judgements"
    return (
        frame.select(
            pl.lit(kind).alias("kind"),
            judge.alias("judge"),
            "benchmark",
            "status",
            "error_class",
            pl.col(link).alias("link"),
            (pl.col("superseded") if judgements else pl.lit(None, dtype=pl.Boolean)).alias("superseded"),
            (pl.col("out_of_scale") if judgements else pl.lit(None, dtype=pl.Boolean)).alias("out_of_scale"),
        )
        .group_by(pl.all())
        .agg(pl.len().cast(pl.Int64).alias("rows"))
    )
