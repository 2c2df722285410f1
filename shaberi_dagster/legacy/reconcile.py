"""What became of everything that was there, with sums that must agree."""

import polars as pl

from shaberi_dagster.legacy.assemble import Batch
from shaberi_dagster.legacy.tree import VERSION_CONTROL

_COUNTS = ("lines", "blank", "imported", "repeated", "quarantined")


class Reconciliation:
    """Counts of what an import made of its files; no texts are needed.

    Args:
        rows: Of everything imported under one tag, with `run_source` and `run_model`, the tree and model of
            their runs; only the columns that are counted need to be there.
        files: Rows of `legacy_files`.
        quarantine: Rows of `legacy_quarantine`.
    """

    def __init__(self, rows: Batch, files: pl.DataFrame, quarantine: pl.DataFrame) -> None:
        self._files, self.quarantine = files, quarantine
        main = files.filter(pl.col("status").is_in(["imported", "unreadable"]), pl.col("lines").is_not_null())
        own = main.select("source", "model", "judge", source_sha256="sha256").unique()
        line = ["source", "model", "judge", "source_sha256", "source_line"]

        def counted(frame: pl.DataFrame, judge: pl.Expr) -> pl.DataFrame:
            """The rows of these files; a line that is in several runs of its tree counts once."""
            of_files = frame.with_columns(judge=judge, source="run_source", model="run_model")
            return of_files.join(own, on=line[:4], how="semi", nulls_equal=True).unique(line)

        nobody = pl.lit(None, dtype=pl.String)
        stored = counted(rows.answers.filter(answer_origin="stored"), nobody)
        judged = rows.answers.filter(answer_origin="judgement").with_columns(
            judge=nobody, source="run_source", model="run_model"
        )
        judgements = counted(rows.judgements, pl.col("judge"))
        imported = pl.concat([stored.select(line), judgements.select(line)])
        repeats = counted(rows.repeats, pl.col("judge"))
        self._n_repeats = repeats.join(imported, on=line, how="anti", nulls_equal=True).height
        self._outcomes = pl.concat(
            [
                _counted(pl.concat([stored.select(judged.columns), judged]), "answers", "answer_origin"),
                _counted(judgements, "judgements", "answer_link"),
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
    def left_out(self) -> pl.DataFrame:
        """What was not read and why: source, path, status, reason; version control is left out on purpose."""
        unread = pl.col("status").is_in(["unknown", "unreadable"]) & (pl.col("reason") != VERSION_CONTROL)
        return self._files.filter(unread).select("source", "path", "status", "reason").sort("source", "path")

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
            ("repeated rows", int(read["repeated"].sum()), self._n_repeats),
            ("quarantined lines", int(read["quarantined"].sum()), self.quarantine.height),
        ]
        return [f"{what}: {left:,} by file, {right:,} by row" for what, left, right in expected if left != right]


def _counted(frame: pl.DataFrame, kind: str, link: str) -> pl.DataFrame:
    judged = kind == "judgements"
    nothing = pl.lit(None, dtype=pl.Boolean)
    return (
        frame.select(
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
