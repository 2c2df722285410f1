"""`shaberi doctor --repair`: damaged files, and what is made again at once because no run would miss it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import polars as pl
from pydantic import ValidationError

from shaberi_dagster.exchange.trees.runs import tag_of_tree
from shaberi_dagster.lake.formats import check_format
from shaberi_dagster.lake.repair import Repair, repair
from shaberi_dagster.lake.schemas import LEGACY_FILES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.operations import CheckResult
from shaberi_dagster.runs.questions import load_questions, store_question_set
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.imported import reprocess_imported
from shaberi_dagster.runs.stages.ordered import STAGES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.util.errors import ShaberiError
from shaberi_dagster.util.identity import run_id_of

_MADE_AGAIN = "the command that made them makes them again, and pays for no recorded call twice"
_MADE_BY = {
    "calls": "what they cost is not known any more; no call is made again for them",
    "baselines": "`shaberi baseline promote` makes them again",
    "prompts": "a run records its prompts when it uses them again",
    "limit_changes": "they are history that nothing is made of",
}
_DERIVED = tuple(stage.name for stage in STAGES if not stage.makes_calls)
_OF_IMPORTS = {"answers", "judgements", "runs", "legacy_quarantine", "legacy_repeats"}


def repaired(settings: Settings) -> Iterator[CheckResult]:
    """Repair the lake, and make again what no run would miss.

    Args:
        settings: Where it is.

    Raises:
        ShaberiError: The disk is full, or the store cannot be reached.
    """
    if check_format(settings.warehouse) is None:
        return
    repairs = list(repair(settings.warehouse))
    workspace = Workspace(settings)
    if all(repaired.is_repaired for repaired in repairs):
        with workspace.published_at_the_end():
            _make_again(repairs, workspace)
    for repaired in repairs:
        made_by = _MADE_BY.get(repaired.damage.table, _MADE_AGAIN)
        more = "" if repaired.rows_lost == 0 or not repaired.is_repaired else f"; the rest is missing: {made_by}"
        yield CheckResult("repair", repaired.is_repaired, f"{repaired.damage}: {repaired.done}{more}")


def _make_again(repairs: Sequence[Repair], workspace: Workspace) -> None:
    """Make again what takes no call and no run of one's own: the rest is pending, or not known as imported any more."""
    lake = workspace.lake
    lost = [repair.damage for repair in repairs if repair.rows_lost != 0]
    tables = {damage.table for damage in lost}
    if "questions" in tables:
        _store_questions(workspace)
    if "prices" in tables:
        calls = lake.read("calls", columns=["model", "base_url"]).unique()
        workspace.record_prices(calls.iter_rows())
    runs_imported = _runs_imported(lake)
    for damage in lost:
        imported = {
            run_id: import_of_run
            for run_id, import_of_run in runs_imported.items()
            if damage.runs is None or damage.runs[0] <= run_id <= damage.runs[1]
        }
        if damage.table in _DERIVED:
            reprocess_imported(damage.table, list(imported), list(ALL_BENCHMARKS), workspace)
        elif damage.table in _OF_IMPORTS:
            if damage.table == "runs":
                _forget_rows(sorted(imported.keys() - set(lake.read("runs", columns=["run_id"])["run_id"])), lake)
            for tag in {tag for tag, _ in imported.values()}:
                models = [model for import_tag, model in imported.values() if import_tag == tag]
                lake.replace("legacy_files", LEGACY_FILES.empty.collect(), {"import_tag": tag, "model": models})


def _runs_imported(lake: Lake) -> dict[str, tuple[str, str]]:
    """Map the runs that are imported, and those that files which were read may have become, to import tag and model."""
    files = lake.read("legacy_files", columns=["import_tag", "model", "source"]).drop_nulls().unique()
    runs = lake.read("runs", columns=["run_id", "import_tag", "model"]).drop_nulls()
    return {
        run_id_of(model, run_tag): (tag, model)
        for tag, model, source in files.iter_rows()
        for run_tag in (tag, tag_of_tree(tag, source))
    } | {run_id: (tag, model) for run_id, tag, model in runs.iter_rows()}


def _forget_rows(run_ids: Sequence[str], lake: Lake) -> None:
    """Take out what was imported of runs that are not known any more: their import begins again, and adds it again."""
    for table in ("answers", "judgements", *_DERIVED):
        rows = lake.read(table, {"run_id": run_ids})
        own = rows.clear() if table in _DERIVED else rows.filter(pl.col("source_sha256").is_null())
        lake.update(table, own, {"run_id": run_ids})


def _store_questions(workspace: Workspace) -> None:
    for (text,) in workspace.lake.read("runs", columns=["spec"]).iter_rows():
        with suppress(ValidationError):  # imported by an early version, without questions
            spec = RunSpec.read(text)
            for name in (name for name, settings in spec.benchmarks.items() if settings.question_texts == "known"):
                with suppress(ShaberiError):  # it is gone from where it was found, which the next run says
                    store_question_set(workspace.lake, load_questions(spec, name, workspace))
