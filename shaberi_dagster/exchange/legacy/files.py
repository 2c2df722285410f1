"""The files of legacy trees, and what is known of them from earlier imports (`legacy_files`)."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import polars as pl

from shaberi_dagster.exchange.legacy.lines import CONTENT
from shaberi_dagster.exchange.legacy.questions import DATASETS
from shaberi_dagster.exchange.legacy.tree import KnownFile, LegacyFile, scan
from shaberi_dagster.lake.schemas import LEGACY_FILES

READ = ("imported", "duplicate")
"""States of files whose lines are in the lake."""
_FACTS = ("source", "path", "root", "sha256", "size", "modified_ns", "kind", "dataset", "judge", "model")
_COUNTS = ("lines", "blank", "quarantined", "imported", "repeated")
_DATASET_ORDER = {name: place for place, name in enumerate(DATASETS)}


@dataclass(frozen=True)
class Listing:
    """The files of some trees beside those that earlier imports have read.

    Attributes:
        found: What the trees have now.
        stored: Rows of `legacy_files` from before.
    """

    found: Sequence[LegacyFile]
    stored: pl.DataFrame

    @cached_property
    def current(self) -> pl.DataFrame:
        """The files whose lines count, in the order of precedence: those that were found, and others of before.

        Columns: those of `_FACTS`, and `status`: `imported`, or `duplicate` for the bytes of another one of its tree.
        """
        found = facts_of(file for file in self.found if file.reason is None)
        before = self.stored.filter(pl.col("status").is_in(READ)).select(_FACTS)
        others = before.join(found, on=["source", "path"], how="anti")
        order = pl.col("dataset").replace_strict(_DATASET_ORDER, default=len(_DATASET_ORDER))
        return (
            pl.concat([found, others])
            .sort("source", order, "path", maintain_order=True)
            .with_columns(
                status=pl.when(pl.struct("source", *CONTENT).is_first_distinct())
                .then(pl.lit("imported"))
                .otherwise(pl.lit("duplicate"))
            )
        )

    @cached_property
    def new(self) -> pl.DataFrame:
        """Those of the current files that no import has read."""
        before = self.stored.filter(pl.col("status").is_in(READ))
        return self.current.join(before, on=["source", "path", "sha256"], how="anti")

    @cached_property
    def replaced(self) -> pl.DataFrame:
        """Files that have other bytes than those that were imported: `_FACTS` of before, and `new_sha256`."""
        before = self.stored.filter(pl.col("status").is_in(READ)).select(_FACTS)
        now = self.current.select("source", "path", new_sha256="sha256")
        return before.join(now, on=["source", "path"]).filter(pl.col("sha256") != pl.col("new_sha256"))

    def to_read(self) -> dict[str, list[LegacyFile]]:
        """For each model with something new one file of each content that no import has read."""
        known = self.stored.filter(status="imported").select(CONTENT)
        unread = set(self.new.join(known, on=[*CONTENT], how="anti", nulls_equal=True).select(CONTENT).iter_rows())
        files: dict[str, list[LegacyFile]] = {model: [] for model in sorted(self.new["model"].unique())}
        for file in self.found:
            if file.reason is None and file.content in unread:
                unread.remove(file.content)
                files[file.model or ""].append(file)
        return files


def find_files(trees: Mapping[str, Path], pattern: str, stored: pl.DataFrame) -> list[LegacyFile]:
    """The files of trees, in the order of precedence.

    Args:
        trees: Folders by the names they are known by.
        pattern: Only files of models whose names match it, and what is of no model.
        stored: Rows of `legacy_files`: what did not change since is not read.

    Raises:
        ConfigurationError: A folder does not exist or is far too large.
    """
    known: dict[str, dict[str, KnownFile]] = {name: {} for name in trees}
    columns = ["source", "path", "size", "modified_ns", "sha256"]
    read = stored.filter(pl.col("status").is_in(READ), pl.col("modified_ns").is_not_null())
    for source, path, *facts in read.select(columns).iter_rows():
        if source in known:
            known[source][path] = KnownFile(*facts)
    found = [file for name, root in trees.items() for file in scan(root, name, known[name])]
    found.sort(key=lambda file: _DATASET_ORDER.get(file.dataset or "", len(_DATASET_ORDER)))
    return [file for file in found if file.model is None or fnmatch.fnmatchcase(file.model, pattern)]


def facts_of(files: Iterable[LegacyFile]) -> pl.DataFrame:
    """What is known of files by their places."""
    rows = [[getattr(file, name) for name in _FACTS] for file in files]
    return pl.DataFrame(rows, schema={name: LEGACY_FILES.schema[name] for name in _FACTS}, orient="row")


def read_file_rows(current: pl.DataFrame, contents: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """What is to be said in `legacy_files` of files that were read.

    Args:
        current: As of `Listing.current`.
        contents: What became of their lines when they were read (`CONTENTS`).
        counts: source, content, imported, repeated: what became of their rows.
    """
    keys = ["source", *CONTENT]
    main = current.filter(status="imported").select(*keys, duplicate_of=pl.format("{}:{}", "source", "path"))
    is_main = pl.col("status") == "imported"
    rows = (
        current.join(contents, on=[*CONTENT], how="left", nulls_equal=True)
        .join(counts, on=keys, how="left", nulls_equal=True)
        .join(main, on=keys, nulls_equal=True)
        .with_columns(pl.col("imported", "repeated").fill_null(0))
        .with_columns(
            pl.when(is_main).then(pl.col(name)).alias(name)
            for name in (*_COUNTS, "benchmark", "question_set", "row_columns", "column_lines", "reason")
        )
        .with_columns(
            duplicate_of=pl.when(~is_main).then("duplicate_of"),
            status=pl.when(pl.col("reason").is_not_null()).then(pl.lit("unreadable")).otherwise("status"),
        )
    )
    return _conform(rows)


def unread_file_rows(files: Iterable[LegacyFile], current: pl.DataFrame) -> pl.DataFrame:
    """What is to be said in `legacy_files` of what is not read, with the reasons; not of what was read before."""
    left_out = [file for file in files if file.reason is not None]
    rows = facts_of(left_out).with_columns(
        reason=pl.Series([file.reason for file in left_out], dtype=pl.String),
        status=pl.when(kind="unknown").then(pl.lit("unknown")).otherwise(pl.lit("unreadable")),
    )
    return _conform(rows.join(current, on=["source", "path"], how="anti"))


def updated(stored: pl.DataFrame, rows: pl.DataFrame, tag: str, now: datetime) -> pl.DataFrame:
    """`legacy_files` with what is said of some files now; bytes of before that were read are `replaced`."""
    keys = ["source", "path", "sha256"]
    earlier = stored.select(*keys, first="imported_at").unique(keys)
    fresh = rows.join(earlier, on=keys, how="left", nulls_equal=True, maintain_order="left").with_columns(
        import_tag=pl.lit(tag), imported_at=pl.coalesce("first", pl.lit(now))
    )
    said_anew = stored.join(rows, on=keys, how="anti", nulls_equal=True)
    elsewhere = said_anew.join(rows, on=["source", "path"], how="anti")
    replaced = said_anew.join(rows, on=["source", "path"], how="semi").filter(
        pl.col("status").is_in((*READ, "replaced"))
    )
    return pl.concat([elsewhere, replaced.with_columns(status=pl.lit("replaced")), fresh.select(stored.columns)])


def _conform(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        (pl.col(name) if name in rows.columns else pl.lit(None).alias(name)).cast(type_)
        for name, type_ in LEGACY_FILES.schema.items()
    )
