"""Runs that a rule grades, and an auditor at the mock endpoint who disagrees with it where a test says so."""

import re

import orjson

from shaberi_dagster.deciding.audit import prepare
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stages.evaluation import materialize
from tests.example_runs import stored_run

AUDITOR = "auditor"
_SUM = re.compile(r"What is (\d+) and (\d+) of (\w+)\?")


def _never(*_):
    return False


def answering(disagrees=_never, right=lambda number: number % 4 != 0):
    """A script for the mock endpoint: a model that announces its sums, and an auditor.

    Args:
        disagrees: Whether the auditor says of the answer to a question the contrary of what the rule says.
        right: Which sums the model gets right.
    """

    def script(body, _):
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        number, other, benchmark = _SUM.findall(prompt)[-1]
        is_right = right(int(number))
        if body["model"] != AUDITOR:
            return f"The answer is {int(number) + int(other) + (not is_right)}."
        agrees = is_right != disagrees(int(number), benchmark)
        return orjson.dumps({"extracted": "", "verdict": "correct" if agrees else "incorrect"}).decode()

    return script


def graded(workspace, mock, sizes, model="m", tag="default"):
    """A complete run whose answers a rule has graded, of so many questions of each benchmark."""
    folder = workspace.settings.warehouse.parent / f"questions-{model}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in sizes.items():
        rows = [
            {"question": f"What is {number} and 5 of {name}?", "reference": str(number + 5)} for number in range(size)
        ]
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    asked = RunRequest(model=model, tag=tag, base_url=mock.base_url, benchmarks=list(sizes), questions=str(folder))
    spec = stored_run(workspace, asked)
    for stage in ("answers", "judgements", "scores", "metrics"):
        materialize(stage, spec.run_id, list(sizes), workspace)
    return spec


def audit_of(mock, size, **values):
    """The request of an audit at the mock endpoint."""
    return AuditRequest(audit=size, judge_model=AUDITOR, judge_base_url=mock.base_url, **values)


def audited(workspace, mock, size, **values):
    """An audit that has been made."""
    audits = prepare(audit_of(mock, size, **values), workspace)
    audits.materialize()
    return audits
