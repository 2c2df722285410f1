"""`shaberi`: query the lake, look after it, open the UI."""

from collections.abc import Iterator
from importlib import import_module

from cyclopts import App

from shaberi_dagster.cli.options import group
from shaberi_dagster.cli.output import put, tell
from shaberi_dagster.reports.declared import titles
from shaberi_dagster.runs.option import GROUPS

_SCRIPTS = ("run_evals", "view_scores", "inspect_output", "quick_eval", "shaberi")
COMMANDS = {
    "Evaluate (run-evals and quick-eval are commands of their own)": {
        "reprocess": "Score stored runs again, without API calls.",
        "generate-cache": "Make the samples of an ensemble that are not stored yet.",
        "new": "Write a working example of a plugin.",
    },
    "Look (also view-scores and inspect-output)": {
        "view": "Show scores, questions and answers in a browser.",
        "sql": "Query the lake. Read only.",
        "report": "Write the lake, or quick-eval jobs, as one document.",
        "prices": "Show what models cost, as it is known now.",
    },
    "Compare and decide": {
        "compare": "Compare two models or runs question by question.",
        "decide": "Decide which model is better, with few questions.",
        "baseline": "Name a run as the baseline that `quick-eval` compares with.",
        "link": "Measure whether old and new scores of a judge compare.",
        "graders": "Show which forms of answers the verdicts of rules rest on, and how often each form errs.",
    },
    "Bring in, take out": {
        "import-legacy": "Import results of the old Shaberi suite.",
        "import-answers": "Import answers that were made elsewhere.",
        "export": "Write runs as files that other tools read.",
        "import-ensemble": "Import response caches of the ensemble-consensus evaluation.",
        "import-logs": "Import logs of another tool, in a format that a plugin folder reads.",
        "adopt": "Adopt the old suite's prompts, parameters and score parsers from a checkout. Runs none of its code.",
        "copy-lake": "Copy a whole lake with its history, to object storage or from there.",
    },
    "Look after": {
        "ui": "Open Dagster's UI, with its daemon.",
        "doctor": "Check installation and lake, and close runs that died.",
        "endpoints": "List endpoints, or check that one answers.",
        "compact": "Merge the lake's small files and delete those that no version of the last week needs.",
        "cluster": "Start a cluster on this machine, or one part of a cluster.",
        "schema": "Print the JSON schema of the YAML files that `run-evals --config` takes, for editors.",
    },
}
"""The list of commands: each is loaded from the module of its name when it is called."""
_OWN = {name for under in COMMANDS.values() for name in under}
_LOOK = next(heading for heading in COMMANDS if heading.startswith("Look ("))
_REPORTS = {name: line for name, line in titles().items() if name not in _OWN}
"""Declared reports; where a command has the name of a report, it is the command's."""


def _path(name: str) -> str:
    module = name.replace("-", "_")
    return "shaberi_dagster.cli." + (module + ":" + module if name in _OWN else "declared:" + name)


app = group(
    "shaberi",
    "Look at evaluations, compare models, and look after the lake.",
    {
        heading: {name: (_path(name), line) for name, line in (under | (_REPORTS if heading == _LOOK else {})).items()}
        for heading, under in COMMANDS.items()
    },
)


def _scripts() -> Iterator[App]:
    return (import_module("shaberi_dagster.cli." + name).app for name in _SCRIPTS)


@app.command(name="--install-completion", group=GROUPS["advanced"])
def install_completion() -> None:
    """Install completion of all commands for the current shell."""
    tell(*[str(script.install_completion()) for script in _scripts()])


@app.command(name="--show-completion", group=GROUPS["advanced"])
def show_completion() -> None:
    """Print the script that completes all commands in the current shell."""
    put("".join(script.generate_completion() for script in _scripts()))
