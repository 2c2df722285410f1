"""Named queries of `sql/queries`, their parameters, and the names that the lake has for these."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from shaberi_dagster.lake.catalog import run_query
from shaberi_dagster.lake.statements import default_parameters, describe_sql, parameter_kinds
from shaberi_dagster.lake.views import VIEWS
from shaberi_dagster.plugins.discovery import PluginError, PluginFile, PluginRegistry
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.folders import project_folder
from shaberi_dagster.util.names import check_known, did_you_mean

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class NamedQuery:
    """A file of `sql/queries`, of the project or of a plugin folder.

    Attributes:
        name: Its name without `.sql`.
        description: The comment on top.
        sql: One SELECT.
        parameters: Its `$parameters`, those without a default first.
        defaults: What parameters are when nothing is given; None is null.
        kinds: Of names that parameters take, as `model`; `models` are several, comma-separated. Others take any text.
    """

    name: str
    description: str
    sql: str
    parameters: Sequence[str]
    defaults: Mapping[str, str | None]
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """Its parameters with their defaults, as `--param` takes them."""
        defaults = {name: "null" if value is None else value for name, value in self.defaults.items()}
        return ", ".join(f"{name}={defaults[name]}" if name in defaults else name for name in self.parameters)

    def bound(self, given: Mapping[str, str | None]) -> dict[str, str | None]:
        """The values of all parameters.

        Raises:
            ConfigurationError: One has no value, or is not a parameter of this query.
        """
        if unknown := given.keys() - set(self.parameters):
            raise ConfigurationError(
                f"query {self.name} has no parameter {min(unknown)}; parameters: {self.signature or 'none'}"
            )
        values = {**self.defaults, **given}
        if missing := [name for name in self.parameters if name not in values]:
            needed = " ".join(f"--param {name}=…" for name in missing)
            raise ConfigurationError(f"query {self.name} needs {needed}; parameters: {self.signature}")
        return values

    def check_known(self, connection: duckdb.DuckDBPyConnection, given: Mapping[str, str | None]) -> None:
        """Refuse names that the lake has not: they would find nothing, or leave something out in silence.

        Args:
            connection: Over the lake.
            given: Values of its parameters; null, its defaults, and what is no name by `kinds`, pass.

        Raises:
            ConfigurationError: There is no such model, judge, …; with the names that are most like it.
        """
        for parameter, value in given.items():
            kind = self.kinds.get(parameter)
            if kind is None or value is None or value == self.defaults.get(parameter):
                continue
            what = _one_of(kind)
            names = [value] if what == kind else value.split(",")
            check_known(what.partition(" or ")[0], names, known_names(connection, what), f"--param {parameter}")


def _one_of(kind: str) -> str:
    """The kind of each name of a list of that kind: `model` for `models`."""
    return kind if kind in _KNOWN else kind.removesuffix("s")


def known_names(connection: duckdb.DuckDBPyConnection, what: str, given: Iterable[str] = ("@@",)) -> list[str]:
    """List all names of a kind that the lake has: of `model`, `run`, `tag`, `benchmark`, `judge` and others.

    Args:
        connection: Over the lake.
        what: The kind.
        given: Names that a user gave: only where one names a run, runs are among the names of `model or run`.
    """
    if what == "model or run" and not any("@@" in name for name in given):
        what = "model"
    return [name for (name,) in run_query(connection, _KNOWN[what]).fetchall()]


_RUN_NAMES = """
    select run_id from runs
    union select model || '@@' || unnest([run_tag, base_tag, import_tag]) from runs
    union select model || '@@' || base_tag || '-run*' from runs where run_number is not null
    except select null
"""
_KNOWN = {
    "model": "select distinct model from runs",
    "model or run": f"select model from runs union ({_RUN_NAMES})",
    "run": _RUN_NAMES,
    "tag": "select run_tag from runs union select import_tag from runs where import_tag is not null",
    "tag or base tag": """
        select run_tag from runs union select unnest([base_tag, import_tag]) from runs
        union select base_tag || '-run*' from runs where run_number is not null
        except select null
    """,
    "source": "select distinct source from runs where source is not null",
    "benchmark": "select distinct benchmark from questions",
    "benchmark or overall": "select distinct benchmark from questions union select 'overall'",
    "question set": "select distinct question_set from questions",
    "judge": "select judge from metrics union select judge from judgements",
    "judge or planned judge": """
        select judge from metrics union select judge from judgements
        union select unnest(json_extract_string(spec, '$.benchmarks.*.judges[*]')) from runs
    """,
    "judge model": "select distinct coalesce(judge_model, judge) from judgements",
    "pipeline": "select 'baseline' union select pipeline from metrics",
    "null policy": "select unnest(['legacy', 'zero', 'strict'])",
    "object scores": "select unnest(['none', 'recovered'])",
}
"""All names of a kind, as SQL over the public views."""


def _read(file: PluginFile) -> NamedQuery:
    sql, defaults = file.path.read_text(encoding="utf-8"), default_parameters(file.path)
    try:
        names = duckdb.extract_statements(sql)[0].named_parameters
    except (duckdb.Error, IndexError) as error:
        raise PluginError(file.path, None, f"is no statement: {error}") from error
    kinds = parameter_kinds(file.path)
    if unknown := next((kind for kind in kinds.values() if _one_of(kind) not in _KNOWN), None):
        raise PluginError(file.path, None, f"no kind of names {unknown!r}; {did_you_mean(unknown, _KNOWN)}")
    parameters = [*sorted(names - defaults.keys()), *defaults]
    return NamedQuery(file.name, describe_sql(file.path), sql, parameters, defaults, kinds)


QUERIES = PluginRegistry(
    "query",
    "sql/queries",
    ".sql",
    {path.stem: path for path in sorted((project_folder("sql") / "queries").glob("*.sql"))},
    read=_read,
)
"""The queries of `sql/queries` and of plugin folders by name."""


def find_query(query: str) -> NamedQuery | None:
    """The named query, or all of the view; None for a statement.

    Raises:
        ConfigurationError: It looks like a name, and there is no such query or view.
    """
    if not _NAME.fullmatch(query):
        return None
    if QUERIES.file(query) or query in QUERIES:
        return QUERIES.use(query)
    if VIEWS.file(query) or query in VIEWS:
        VIEWS.use(query)
        return NamedQuery(query, "", f"from {query}", [], {})
    known = [*QUERIES, *VIEWS]
    raise ConfigurationError(f"no query or view {query!r}; {did_you_mean(query, known)}")


def parameters_of(texts: Sequence[str]) -> dict[str, str]:
    """The values that texts `NAME=VALUE` give.

    Raises:
        ConfigurationError: One is no such text.
    """
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--param {text!r} must be NAME=VALUE")
        given[name] = value
    return given


def explained(statement: str) -> str:
    """The statement whose result is the plan of another one, with times: it is run for that."""
    return f"explain analyze {statement}"
