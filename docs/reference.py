# ruff: noqa: INP001  (a script beside the page that it writes)
"""Writes docs/reference.md, everything that has a name, and the JSON schema of requests, from where they are defined.

Run `python docs/reference.py` (or `make docs`) after a change; a test compares the files with what this makes.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path

import dagster as dg
from cyclopts import App
from pydantic.fields import FieldInfo
from rich.console import Console

from shaberi_dagster.cli.command import FAILED_PARTS, FINE, GATE_FAILED, INCONCLUSIVE, UNFORESEEN, USAGE
from shaberi_dagster.cli.interrupts import INTERRUPTED
from shaberi_dagster.cli.options import HELP
from shaberi_dagster.definitions import defs
from shaberi_dagster.lake.schemas import TABLES
from shaberi_dagster.lake.statements import describe_sql
from shaberi_dagster.lake.views import public_views
from shaberi_dagster.llm.endpoints import ENDPOINTS
from shaberi_dagster.reports.write import as_json
from shaberi_dagster.runs.request_file import request_schema
from shaberi_dagster.runs.spec import CallOptions, RunRequest
from shaberi_dagster.runs.stages.ordered import STAGES
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, Benchmark

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "reference.md"
REQUEST_SCHEMA = ROOT / "docs" / "schemas" / "run-request.schema.json"
_HELP_WIDTH = 110

EXIT_CODES = {
    FINE: "fine",
    GATE_FAILED: "the regression gate failed (`quick-eval --baseline`, `report --ci`)",
    USAGE: "a wrong option, setting, file or endpoint; one line on stderr says what to change",
    FAILED_PARTS: "finished, but some parts failed; the same command tries those again",
    INCONCLUSIVE: "the regression gate could not tell: too many failed calls, too few questions, or no new answer",
    UNFORESEEN: "an unexpected error; `--debug` shows its traceback",
    INTERRUPTED: "interrupted; what was finished is saved",
}
_SHARED_VARIABLES = {
    "AWS_ENDPOINT_URL": "Address of the object storage, unless it is Amazon's; `AWS_ENDPOINT_URL_S3` goes before it",
    "AWS_ACCESS_KEY_ID": "Key for the object storage, with `AWS_SECRET_ACCESS_KEY`",
    "AWS_REGION": "Region of the object storage",
    "SHABERI_DATABASE_URL": "PostgreSQL that several hosts share, `postgresql://user:password@host:port/name`: "
    "Dagster's runs, journals and locks; default: files",
    "SHABERI_SHARED_GROUP": "A group of this machine for which new lakes, instances and results are made; default: "
    "their user alone reads them",
    "SHABERI_BROKER_URL": "Redis through which the workers of a cluster get their runs, `redis://host:port/0`",
    "SHABERI_UI_TOKEN": "Token of Dagster's UI and of the viewer, 16 characters or more, for scripts and for several "
    "web servers; default: another one at each start",
    "SHABERI_ALLOWED_HOSTS": "Names, separated by commas, under which those are asked beside this machine's: of a "
    "proxy or of your DNS; a login is needed then",
    "SHABERI_KEY_HOSTS": "Hosts that key variables may be sent to, beside those of known endpoints and those that "
    "one's own command line names: `VARIABLE=host[:port],host2;VARIABLE2=host`",
}
_TEST_VARIABLES = {
    "SHABERI_CORPUS": "Tests: folder of real data for the tests marked `corpus`, which are left out without it",
    "SHABERI_BROWSER": "Tests: a Chromium for the tests marked `browser`; default: the one on the PATH",
    "SHABERI_SCREENSHOTS": "Tests: folder for new pictures of the documentation",
    "SHABERI_UPDATE_SNAPSHOTS": "Tests: set to write snapshots again instead of comparing with them",
    "SHABERI_RECORD": "Tests: 1 to write what people see into `tests/recorded/kept` again",
    "SHABERI_ACCEPTANCE": "Tests: 1 for their full sizes, as `make acceptance` has them",
    "CI": "Tests: `true` refuses to leave any test out",
}


def reference() -> str:
    """The whole page."""
    sections = {
        "Commands": commands(),
        "Exit codes": _table(("code", "meaning"), [(str(code), text) for code, text in EXIT_CODES.items()]),
        "Environment variables": _environment(),
        "What a run can be asked for": _run_request(),
        "Benchmarks": _table(
            ("benchmark", "title", "scale", "what it asks"),
            [(f"`{one.name}`", one.title, _scale(one), one.description) for one in ALL_BENCHMARKS.values()],
        ),
        "Assets": _assets(),
        "Jobs, schedules and sensors": _table(("name", "kind", "what it does"), automation()),
        "Tables": "\n".join(_lake_tables()),
        "Views and table macros": "Every table is a view of the same name in `catalog.duckdb`; these are all views.\n\n"
        + _table(("name", "what it tells"), [(f"`{name}`", text) for name, text in views().items()]),
        "Named queries": "`shaberi sql NAME`, with `--param` for what is written `$name`.\n\n"
        + _table(("name", "what it tells"), [(f"`{name}`", text) for name, text in queries().items()]),
        "Prompts": _table(("template", "what it is for"), [(f"`{name}`", text) for name, text in prompts().items()]),
    }
    head = "# Reference\n\nGenerated by `python docs/reference.py` from the code; not to be edited by hand.\n"
    return head + "".join(f"\n## {title}\n\n{text.strip()}\n" for title, text in sections.items())


_USING_COMMANDS = """
`--help` of the commands that evaluate has the main options on one screen; here is what `--help-all` shows. `--version`
works with each.

A shell completes options, and names of benchmarks, strategies, passes, judges, models and tags (those of the lake),
after `shaberi --install-completion`, for all commands: it recognizes bash, zsh and fish. `--show-completion` prints the
scripts instead. After new commands of plugin folders it is to be installed again.

`run-evals --config FILE.yaml` takes a request from a file, which options override, and `run-evals --print-config`
prints the file that asks for what its options ask for. The same file does in the folder of run specs. An editor with
the YAML language server completes and checks it by the schema that `shaberi schema` prints:

```yaml
# yaml-language-server: $schema=./run-request.schema.json
model: gpt-4.1-mini
tag: july
benchmarks: [elyza, tengu]
judge_models: [gpt-5.1]
max_cost: 5
```
"""


def commands() -> str:
    """The help of every command."""
    texts = "\n".join(f"### {name}\n\n```text\n{text}\n```\n" for name, text in help_texts().items())
    return f"{_USING_COMMANDS}\n{texts}"


def help_texts() -> dict[str, str]:
    """What `--help` shows, by command; where it is short, what `--help-all` shows."""
    return {path: _help(path) for path in all_commands()}


def all_commands() -> dict[str, App]:
    """Every script and every command below it, by the words that call it."""
    return {path: command for name in _scripts() for path, command in _with_children(_script(name), name)}


def _script(name: str) -> App:
    app: App = import_module(f"shaberi_dagster.cli.{name.replace('-', '_')}").app
    return app


def _with_children(command: App, path: str) -> Iterator[tuple[str, App]]:
    yield path, command
    for name, child in command.resolved_commands().items():
        if not name.startswith("-"):
            yield from _with_children(child, f"{path} {name}")


def _scripts() -> list[str]:
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"])


def _help(path: str) -> str:
    name, *words = path.split()
    HELP.whole = True
    page = Console(file=StringIO(), width=_HELP_WIDTH)
    with page.capture() as text:
        _script(name).help_print(words, console=page)
    return text.get().strip()


def environment() -> dict[str, str]:
    """Every variable that is read, and what for."""
    documented = re.findall(r"^ +\w+: (.+?)$", Settings.__doc__ or "", re.MULTILINE)
    folders = {}
    for text in documented:
        if match := re.search(r"\(`([A-Z_]+)`(?:, )?(.*?)\)", text):
            default = f"; {match[2]}" if match[2] else ""
            folders[match[1]] = re.sub(r" \(.*?\)", "", text).rstrip(".") + default
    return folders | _SHARED_VARIABLES | dict(_endpoint_variables()) | _TEST_VARIABLES


def _endpoint_variables() -> Iterator[tuple[str, str]]:
    for name, entry in ENDPOINTS.items():
        place = f"{name} ({entry.base_url})" if entry.base_url else "any other endpoint that needs one"
        if entry.base_url_variable:
            place = f"{name}, whose address is in `{entry.base_url_variable}`"
            yield entry.base_url_variable, f"What the address of {name} begins with"
        if entry.api_key:
            yield entry.api_key, f"API key of {place}"
        for header, variable in entry.headers.items():
            yield variable, f"Header `{header}` of {place}"


def _environment() -> str:
    own = _table(("variable", "what it is for"), [(f"`{name}`", text) for name, text in environment().items()])
    others = "The Hugging Face and HTTP clients read their own (`HF_TOKEN`, `HF_HOME`, `HTTPS_PROXY`, …)."
    return f"{own}\n{others}\n"


def _run_request() -> str:
    rows = [
        (f"`{name}`", _type(str(field.annotation)), _default(field), field.description or "")
        for model in (RunRequest, CallOptions)
        for name, field in model.model_fields.items()
    ]
    intro = (
        "In the options of `run-evals`, in its file `--config`, in the launchpad of the job `new_run`, and in the "
        "folder of run specs. [schemas/run-request.schema.json](schemas/run-request.schema.json) is their schema."
    )
    return f"{intro}\n\n" + _table(("field", "type", "default", "meaning"), rows)


def _type(annotation: str) -> str:
    if literal := re.search(r"Literal\[(.*?)\]", annotation):
        return literal[1].replace("'", "").replace(", ", " or ")
    return re.sub(r"<class '(\w+)'>", r"\1", annotation).removesuffix(" | None")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is None or field.default is False:
        return ""
    return ", ".join(field.default) if isinstance(field.default, list) else str(field.default)


def _scale(benchmark: Benchmark) -> str:
    factor = benchmark.reported_multiplier
    scale = f"{benchmark.scale_minimum}-{benchmark.scale_maximum}"
    return f"{scale}, reported ×{factor:g}" if factor != 1 else scale


def assets() -> dict[str, str]:
    """Every asset's description by its key."""
    return {
        "/".join(spec.key.path): spec.description or ""
        for assets in defs.assets or []
        if isinstance(assets, dg.AssetsDefinition)
        for spec in assets.specs
    }


def _assets() -> str:
    keys = _table(("key", "what it is"), [(f"`{key}`", text) for key, text in assets().items()])
    checks = [(f"`{stage.name}`", f"`{name}`", text) for stage in STAGES for name, text in stage.checks.items()]
    intro = "Partitioned by run, `{model}@@{tag}`, except for the questions. A stage is one op for all benchmarks."
    return f"{intro}\n\n{keys}\nTheir checks:\n\n{_table(('assets', 'check', 'what must be true'), checks)}"


def automation() -> list[tuple[str, str, str]]:
    """Name, kind and description of everything that starts assets."""
    jobs = [(job.name, "job", job.description or "") for job in defs.jobs or []]
    schedules = [
        (one.name, "schedule", f"Starts job `{one.job_name}` at `{one.cron_schedule}`")
        for one in defs.schedules or []
        if isinstance(one, dg.ScheduleDefinition)
    ]
    sensors = [(sensor.name, "sensor", sensor.description or "") for sensor in defs.sensors or []]
    return [(f"`{name}`", kind, text) for name, kind, text in [*jobs, *schedules, *sensors]]


def _lake_tables() -> Iterator[str]:
    for table in TABLES.values():
        rows = [
            (f"`{one.name}`", _column_type(str(one.type)), one.meaning, one.unit, one.source) for one in table.columns
        ]
        partitions = ", ".join(f"`{name}`" for name in table.partition_by)
        yield f"### {table.name}\n\n{table.meaning}.{f' Partitioned by {partitions}.' if partitions else ''}\n"
        yield _table(("column", "type", "meaning", "unit or values", "source"), rows)


def _column_type(name: str) -> str:
    return {"String": "text", "Int64": "integer", "Float64": "number", "Boolean": "boolean"}.get(
        name, "time" if name.startswith("Datetime") else "list"
    )


def views() -> dict[str, str]:
    """Every public view and macro with its description."""
    return {view.name: view.description for view in public_views()}


def queries() -> dict[str, str]:
    """Every named query with its description."""
    return {path.stem: describe_sql(path) for path in sorted((ROOT / "sql" / "queries").glob("*.sql"))}


def prompts() -> dict[str, str]:
    """Every template with the purpose that `prompts/README.md` gives it; "" when it gives none."""
    readme = (ROOT / "prompts" / "README.md").read_text(encoding="utf-8")
    purposes = dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", readme, re.MULTILINE))
    names = sorted(
        path.relative_to(ROOT / "prompts").with_suffix("").as_posix() for path in (ROOT / "prompts").rglob("*.jinja")
    )
    return {name: _purpose(name, purposes) for name in names}


def _purpose(name: str, purposes: Mapping[str, str]) -> str:
    for benchmark in ALL_BENCHMARKS:
        for pattern, purpose in purposes.items():
            if pattern.replace("{benchmark}", benchmark) == name:
                return purpose.strip()
    return ""


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
    REQUEST_SCHEMA.write_text(as_json(request_schema()), encoding="utf-8")
