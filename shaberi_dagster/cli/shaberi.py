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
    "sql": "Ask the lake; nothing can be changed from here.",
    "export": "Write runs as files that other tools read.",
    "import-legacy": "Import answers and judgements of the old Shaberi suite.",
    "import-ensemble": "Import response caches of the ensemble-consensus evaluation.",
    "import-answers": "Bring answers that were made elsewhere into the lake, as a run that can be judged and compared.",
    "import-logs": "Import logs of another tool, in a format that a plugin folder reads.",
    "adopt": "Adopt the old suite's prompts, parameters and score parsers from a checkout; none of its code is run.",
    "reprocess": "Make stored runs again without any call: parse, apply passes, derive scores.",
    "compare": "Compare two models or runs question by question: is one better, or are they equal?",
    "graders": "Show which forms of answers the verdicts of rules rest on, and how often each form errs.",
    "link": "Have stored answers judged again by the same judge, and measure whether its old and new scores compare.",
    "decide": "Decide which of some models is better, with as few questions as it takes.",
    "prices": "Show what the models that were called cost, as it is known now; what was recorded for a call stays.",
    "endpoints": "List where models can be asked, with address, key and parameters; or check that one answers.",
    "new": "Write a working example of something of your own into the first plugin folder.",
    "generate-cache": "Make the samples of an ensemble that are not stored yet, and nothing else.",
    "report": "Combine the results of several quick-eval jobs in one document, or show the lake in one HTML file.",
    "copy-lake": "Copy a whole lake with its history, to object storage or from there.",
    "view": "Look at scores, questions and answers in a browser (Ctrl-C stops).",
    "cluster": "Start a cluster on this machine (Ctrl-C stops it), or one part of a cluster.",
    "schema": "Print the JSON schema of the YAML files that `run-evals --config` takes, for editors.",
    "compact": "Merge the lake's small files and delete those that no version of the last week needs.",
    "doctor": "Check the installation and the lake, and close runs whose process has died.",
    "ui": "Open Dagster's UI and daemon on this lake (Ctrl-C stops them).",
    "baseline": "Name what a run got right, for `quick-eval --baseline NAME` to compare later runs with.",
}
"""What the list of commands says of each; a command is loaded from the module of its name when it is called."""
LINES = {**COMMANDS, **titles(), **COMMANDS}
"""Those of declared reports, too; where a command has the name of a report, it is the command's."""


def _path(name: str) -> str:
    module = name.replace("-", "_")
    return "shaberi_dagster.cli." + (module + ":" + module if name in COMMANDS else "declared:" + name)


app = group(
    "shaberi",
    "Query the evaluation lake in SQL, look after it, and open the Dagster UI.",
    {name: (_path(name), line) for name, line in LINES.items()},
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
