"""The questions of `sql/queries`, and whether what is given to them is in the lake."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.lake.catalog import VIEWS, default_parameters, describe_sql, run_query
from shaberi_dagster.names import check_known, did_you_mean
from shaberi_dagster.plugins import Kind, PluginError, PluginFile
from shaberi_dagster.settings import project_folder

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
    """

    name: str
    description: str
    sql: str
    parameters: Sequence[str]
    defaults: Mapping[str, str | None]

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

    def check_known(self, connection: duckdb.DuckDBPyConnection, given: Mapping[str, str]) -> None:
        """Refuse names that the lake has not: they would find nothing, or leave something out in silence.

        Args:
            connection: Over the lake.
            given: Values of its parameters; those that are its defaults, and parameters that name nothing, pass.

        Raises:
            ConfigurationError: There is no such model, judge, …; with the names that are most like it.
        """
        for parameter, value in given.items():
            if parameter not in _NAMES or value == self.defaults.get(parameter):
                continue
            what, is_list = _NAMES[parameter]
            names = value.split(",") if is_list else [value]
            check_known(what, names, known_names(connection, what), where=f"--param {parameter}")


def known_names(connection: duckdb.DuckDBPyConnection, what: str) -> list[str]:
    """All names of a kind that the lake has: of `model`, `run`, `tag`, `benchmark`, `judge` and others."""
    return [name for (name,) in run_query(connection, _KNOWN[what]).fetchall()]


_KNOWN = {
    "model": "select distinct model from runs",
    "run": "select run_id from runs",
    "tag": "select run_tag from runs union select import_tag from runs where import_tag is not null",
    "tag or base tag": """
        select run_tag from runs union select unnest([base_tag, import_tag]) from runs
        except select null
    """,
    "source": "select distinct source from runs where source is not null",
    "benchmark": "select distinct benchmark from questions union select 'overall'",
    "question set": "select distinct question_set from questions",
    "judge": "select judge from metrics union select judge from judgements",
    "judge or planned judge": """
        select judge from metrics union select judge from judgements
        union select unnest(json_extract_string(spec, '$.benchmarks.*.judges[*]')) from runs
    """,
    "judge model": "select distinct coalesce(judge_model, judge) from judgements",
    "pipeline": "select 'baseline' union select pipeline from metrics",
    "null policy": "select unnest(['legacy', 'zero', 'strict'])",
}
"""All names of a kind, as SQL over the public views."""
_NAMES = {
    "model": ("model", False),
    "models": ("model", True),
    "first": ("run", False),
    "second": ("run", False),
    "run_id": ("run", False),
    "tag": ("tag", False),
    "run_tag": ("tag", False),
    "run_tags": ("tag", True),
    "source": ("source", False),
    "benchmark": ("benchmark", False),
    "question_set": ("question set", True),
    "judge": ("judge", False),
    "judge_a": ("judge", False),
    "judge_b": ("judge", False),
    "judges": ("judge", True),
    "judge_model": ("judge model", False),
    "pipeline": ("pipeline", False),
    "policy": ("null policy", False),
}
"""What the value of a parameter must be the name of, by the parameter; and whether it is several, comma-separated."""


def _read(file: PluginFile) -> NamedQuery:
    sql, defaults = file.path.read_text(encoding="utf-8"), default_parameters(file.path)
    try:
        names = duckdb.extract_statements(sql)[0].named_parameters
    except (duckdb.Error, IndexError) as error:
        raise PluginError(file.path, None, f"is no statement: {error}") from error
    parameters = [*sorted(names - defaults.keys()), *defaults]
    return NamedQuery(file.name, describe_sql(file.path), sql, parameters, defaults)


QUERIES = Kind(
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
