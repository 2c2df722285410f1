"""The workflow that users copy: checked by actionlint, and its jobs run here, on what stands in for the runner."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from shaberi_dagster.reports.ci import MARKER
from tests.commands import SCRIPTS, make_programs, run, run_anew
from tests.ensembles import prompt_of, starter_questions
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.long]

WORKFLOW = Path(__file__).resolve().parents[1] / ".github" / "workflows" / "eval.yml"
ENVIRONMENT = SCRIPTS.parent
STRATEGIES = "plurality,standard"
DATASETS, N_QUESTIONS, SIZE = ("gsm8k", "simpleqa"), 4, 3
MODEL, GRADER, BOT = "org/model", "org/grader", "github-actions[bot]"
_ON_THE_WAY = 2.0  # seconds until a reply that was sent is saved
SAMPLE, WRONG = "sample:", "31337"

_TOKEN = re.compile(r"('[^']*')|([A-Za-z_][\w.-]*)|(\|\||&&|==|!=|!|[()])|(\s+)")
_OPERATORS = {"||": " or ", "&&": " and ", "!": " not "}
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


# --- a stand-in for the service --------------------------------------------------------------------------------------


def evaluated(expression: str, contexts: Mapping[str, Any]) -> Any:
    """An expression of a workflow; what is not there is empty."""

    def value_of(name: str) -> Any:
        value: Any = contexts
        for part in name.split("."):
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        return value

    source, end = "", 0
    while end < len(expression):
        match = _TOKEN.match(expression, end)
        assert match, f"not understood: {expression[end:]}"
        text, name, operator, _ = match.groups()
        end = match.end()
        if name:
            is_call = expression[end : end + 1] == "("
            source += f"functions[{name!r}]" if is_call else f"value_of({name!r})"
        else:
            source += text or _OPERATORS.get(operator, operator) or " "
    functions = {"fromJSON": json.loads, "always": lambda: True, "cancelled": lambda: contexts.get("cancelled", False)}
    return eval(source.strip(), {"functions": functions, "value_of": value_of})


def filled(value: Any, contexts: Mapping[str, Any]) -> Any:
    """A value of the workflow with its expressions evaluated."""
    if isinstance(value, Mapping):
        return {key: filled(one, contexts) for key, one in value.items()}
    if not isinstance(value, str):
        return value
    if whole := _EXPRESSION.fullmatch(value):
        return evaluated(whole[1], contexts)
    return _EXPRESSION.sub(lambda match: as_text(evaluated(match[1], contexts)), value)


def as_text(value: Any) -> str:
    """How the service writes a value."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass
class Service:
    """What runs the jobs of a workflow: each in a folder of its own, with what the steps before have handed on.

    Attributes:
        folder: Everything is in here.
        variables: The repository's variables.
        secrets: Its secrets.
        event: What the workflow is run for.
        runs: How many runs there were.
        results: Of the last run, for each job: `success`, `failure`, `cancelled` or `skipped`.
        log: Of the last run, the output of each job.
        inputs: What the workflow is called with.
        programs: What stands in the virtual environment.
        cancels: Says when a newer push cancels the workflow.
    """

    folder: Path
    variables: dict[str, str]
    secrets: dict[str, str] = field(default_factory=dict)
    event: dict[str, Any] = field(default_factory=dict)
    runs: int = 0
    results: dict[str, str] = field(default_factory=dict)
    log: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    programs: Path = ENVIRONMENT
    cancels: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        for name in ("repository", "bin", "cache"):
            (self.folder / name).mkdir(parents=True)
        gh = self.folder / "bin" / "gh"
        gh.write_text(f"#!{sys.executable}\n{_STUB}", encoding="utf-8")
        gh.chmod(0o755)

    @property
    def artifacts(self) -> Path:
        """Those of the last run."""
        return self.folder / f"run-{self.runs}" / "artifacts"

    @property
    def summary(self) -> str:
        """What the last run shows on its page."""
        parts = sorted(self.artifacts.parent.glob("*/summary"))
        return "".join(part.read_text(encoding="utf-8") for part in parts)

    def result(self, strategy: str) -> dict[str, Any]:
        """A document that a job of the last run has handed on."""
        path = self.artifacts / f"result-{strategy}" / f"{strategy}.json"
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return document

    def requests(self) -> list[list[str]]:
        """The arguments of each call of gh."""
        path = self.folder / "bin" / "requests"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    def run(self) -> None:
        """Run the whole workflow."""
        self.runs += 1
        self.results, self.log = {}, {}
        workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
        github = {"run_id": self.runs, "run_attempt": 1, "repository": "org/project", "token": "t", "event": self.event}
        contexts: dict[str, Any] = {"github": github, "vars": self.variables, "secrets": self.secrets, "needs": {}}
        contexts["inputs"] = self.inputs
        contexts["env"] = filled(workflow["env"], contexts)
        for name, job in workflow["jobs"].items():
            needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
            condition = str(job.get("if", "true"))
            fine = all(self.results[need] == "success" for need in needs) or "cancelled()" in condition
            if not fine or not self._holds(condition, contexts):
                self.results[name] = "skipped"
                continue
            combinations = filled(job.get("strategy", {}).get("matrix", {"": [""]}), contexts)
            (variable, values), *none = combinations.items()
            assert not none
            for value in values:
                own = contexts | {"matrix": {variable: value}, "strategy": {"job-total": len(values)}}
                result, outputs = _Job(self, "-".join(filter(None, [name, value])), own).run(job)
                if self.results.get(name) != "failure":
                    self.results[name] = result
            contexts["cancelled"] = "cancelled" in self.results.values()
            contexts["needs"][name] = {"outputs": outputs, "result": self.results[name]}

    def _holds(self, condition: str, contexts: Mapping[str, Any]) -> bool:
        whole = _EXPRESSION.fullmatch(condition)
        return condition == "true" or bool(evaluated(whole[1] if whole else condition, contexts))


class _Job:
    """One job on a machine of its own."""

    def __init__(self, service: Service, name: str, contexts: Mapping[str, Any]) -> None:
        self.service, self.name = service, name
        self.contexts = dict(contexts) | {"steps": {}}
        self.home = service.artifacts.parent / name
        self.place = self.home / "place"
        self.place.mkdir(parents=True)

    def run(self, job: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        result = "success"
        for step in job["steps"]:
            condition = str(step.get("if", "true"))
            if result != "success" and not re.search(r"(cancelled|always)\(\)", condition):
                continue
            if not self.service._holds(condition, self.contexts):
                continue
            if "uses" in step:
                getattr(self, re.sub("[-/]", "_", step["uses"].split("/", 1)[1].split("@")[0]))(
                    **{key.replace("-", "_"): one for key, one in filled(step.get("with", {}), self.contexts).items()}
                )
            elif not self.commands(step) and not step.get("continue-on-error"):
                result = "cancelled" if self.contexts.get("cancelled") else "failure"
        return result, filled(job.get("outputs", {}), self.contexts)

    def commands(self, step: Mapping[str, Any]) -> bool:
        """Run the commands of a step as the service does, with nothing of this process's environment but the path."""
        if step["run"] == "make install":
            (self.place / ".venv").symlink_to(self.service.programs)
            return True
        outputs = self.home / "outputs"
        outputs.write_text("", encoding="utf-8")
        values = self.contexts["env"] | filled(step.get("env", {}), self.contexts)
        running = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e", "-c", step["run"]],
            cwd=self.place,
            env={name: as_text(value) for name, value in values.items()}
            | {"PATH": f"{self.service.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.home), "LANG": "C.UTF-8"}
            | {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(self.home / "summary")}
            | {"PYTHONPATH": str(WORKFLOW.parents[2])}
            | {"GITHUB_REPOSITORY": self.contexts["github"]["repository"], "GITHUB_RUN_ID": str(self.service.runs)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        cancels = None if self.contexts.get("cancelled") else self.service.cancels
        while cancels and running.poll() is None:
            if cancels():
                self.contexts["cancelled"] = True
                os.killpg(running.pid, signal.SIGKILL)  # of the jobs that have not ended in time
                break
            time.sleep(0.05)
        said, _ = running.communicate()
        log = self.service.log
        log[self.name] = f"{log.get(self.name, '')}{said}\n{step['name']}: {running.returncode}\n"
        made = dict(line.split("=", 1) for line in outputs.read_text(encoding="utf-8").splitlines())
        self.contexts["steps"][step.get("id", "")] = {"outputs": made}
        return running.returncode == 0

    def checkout(self, *, persist_credentials: bool, repository: str = "", ref: str = "", path: str = ".") -> None:
        assert not persist_credentials
        assert not ref
        assert repository or path != "."
        shutil.copytree(self.service.folder / "repository", self.place / path, dirs_exist_ok=True)

    def setup_python(self, python_version: str) -> None:
        assert python_version == "3.11"

    def cache_restore(self, path: str, key: str, restore_keys: str) -> None:
        assert key.startswith(restore_keys)
        found = sorted(self.cached.glob(f"{restore_keys}*"), key=lambda one: one.stat().st_mtime_ns)
        if found:
            shutil.copy(found[-1], self.place / path)

    def cache_save(self, path: str, key: str) -> None:
        assert not (self.cached / key).exists()
        if (self.place / path).exists():
            shutil.copy(self.place / path, self.cached / key)

    @property
    def cached(self) -> Path:
        return self.service.folder / "cache"

    def upload_artifact(self, name: str, path: str, if_no_files_found: str, **_: Any) -> None:
        there = (self.place / path).is_file()
        assert there or if_no_files_found == "ignore"
        if there:
            (self.service.artifacts / name).mkdir(parents=True, exist_ok=True)  # `overwrite`
            shutil.copy(self.place / path, self.service.artifacts / name)

    def download_artifact(
        self, name: str = "", pattern: str = "", path: str = ".", *, merge_multiple: bool = False
    ) -> None:
        assert merge_multiple or name
        for artifact in self.service.artifacts.glob(pattern or name):
            shutil.copytree(artifact, self.place / path, dirs_exist_ok=True)


# Keeps the arguments and the comment; asked for comments, it has the one that was posted.
_STUB = """
import json, pathlib, sys
folder, arguments = pathlib.Path(__file__).parent, sys.argv[1:]
with (folder / "requests").open("a") as log:
    log.write(json.dumps(arguments) + "\\n")
comment = folder / "comment"
if "--jq" in arguments:
    print("17\\n18" if comment.exists() else "")
else:
    (field,) = [one for one in arguments if one.startswith("body=@")]
    comment.write_text(pathlib.Path(field.removeprefix("body=@")).read_text(encoding="utf-8"), encoding="utf-8")
"""


# --- the model -------------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Knows all answers when it is asked for a sample, but does not say those of one dataset, which a model grades.

    What it makes of several samples can be right or wrong.
    """

    consensus_is_right: bool = True

    def __call__(self, body: dict[str, Any], _: int) -> str:
        prompt = prompt_of(body)
        if is_grading(body):
            return f'{{"extracted": "", "verdict": "{"incorrect" if WRONG in prompt else "correct"}"}}'
        question = next(one for name in DATASETS for one in starter_questions(name) if one.question in prompt)
        if is_consensus(body):
            return f"The answer is {question.reference if self.consensus_is_right else WRONG}."
        if question in starter_questions(DATASETS[0]):
            return f"{SAMPLE} I would rather not say."
        return f"{SAMPLE} The answer is {question.reference}."


def is_grading(body: dict[str, Any]) -> bool:
    """Whether a request shows an answer to the grading model."""
    return body["model"] == GRADER


def is_consensus(body: dict[str, Any]) -> bool:
    """Whether a request shows samples to the model."""
    return SAMPLE in prompt_of(body) and not is_grading(body)


def asked(bodies: list[dict[str, Any]]) -> dict[str, int]:
    """How many requests of each kind there were."""
    kinds = Counter("grading" if is_grading(one) else "consensus" if is_consensus(one) else "sample" for one in bodies)
    return dict(kinds)


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def endpoint(model: Model) -> Iterator[MockEndpoint]:
    with running_mock(script=model) as running:
        yield running


@pytest.fixture
def service(tmp_path: Path, endpoint: MockEndpoint) -> Service:
    variables = {"EVAL_MODEL": MODEL, "EVAL_BASE_URL": endpoint.base_url, "EVAL_JUDGE_MODEL": GRADER}
    variables |= {"EVAL_DATASETS": ",".join(DATASETS), "EVAL_SAMPLE": str(N_QUESTIONS), "EVAL_ENSEMBLE": str(SIZE)}
    own = {"number": 7, "head": {"repo": {"full_name": "org/project"}}}
    return Service(
        tmp_path / "service",
        variables | {"EVAL_STRATEGIES": STRATEGIES},
        event={"pull_request": own},
        programs=make_programs(tmp_path / "programs"),
    )


# --- tests -----------------------------------------------------------------------------------------------------------


def test_actionlint_and_shellcheck_have_nothing_to_say() -> None:
    finished = run_anew("actionlint", "-shellcheck", SCRIPTS / "shellcheck", "-pyflakes", "", WORKFLOW)

    assert (finished.code, finished.out) == (0, "")


def test_actionlint_and_shellcheck_are_really_asked(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    text = WORKFLOW.read_text(encoding="utf-8")
    broken.write_text(
        text.replace("needs.plan.outputs.ready", "needs.plan.outputs.redy").replace('exit "$CODE"', "exit $CODE"),
        encoding="utf-8",
    )
    finished = run_anew("actionlint", "-shellcheck", SCRIPTS / "shellcheck", "-pyflakes", "", broken)

    assert finished.code == 1
    assert 'property "redy" is not defined' in finished.out
    assert "SC2086" in finished.out


def test_no_expression_is_part_of_a_script_and_only_the_report_may_write() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    steps = [(name, step) for name, job in workflow["jobs"].items() for step in job["steps"]]

    assert not [step["run"] for _, step in steps if "${{" in step.get("run", "")]
    assert workflow["permissions"] == {"contents": "read"}
    granted = {name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job}
    assert granted == {"report": {"contents": "read", "pull-requests": "write"}}
    assert {name for name, step in steps if "secrets." in str(step)} == {"plan", "samples", "evaluate"}
    actions = [step["uses"] for _, step in steps if "uses" in step]
    assert [one for one in actions if not re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", one)] == []
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())
    (own,) = [step["env"]["OWN"] for _, step in steps if "OWN" in step.get("env", {})]
    assert MARKER in own
    assert BOT in own


def test_every_action_is_pinned_by_its_commit() -> None:
    used = re.findall(r"\buses: *(\S+)", WORKFLOW.read_text(encoding="utf-8"))
    assert len(used) > 5
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


@pytest.mark.parametrize(
    ("variables", "reason"),
    [({}, "there is no model"), ({"EVAL_MODEL": "gpt-4.1-mini"}, "there is no API key")],
    ids=["model", "key"],
)
def test_without_a_model_or_a_key_nothing_is_evaluated_and_that_is_said(
    tmp_path: Path, variables: dict[str, str], reason: str
) -> None:
    service = Service(tmp_path / "service", variables)
    service.run()

    assert service.results == {"plan": "success", "samples": "skipped", "evaluate": "skipped", "report": "skipped"}
    assert f"::notice title=Evaluation skipped::Nothing is evaluated, since {reason}" in service.log["plan"]
    assert reason in service.summary


@pytest.mark.timeout(1200)
def test_the_jobs_evaluate_stored_samples_report_once_and_stop_a_regression(
    service: Service, endpoint: MockEndpoint, model: Model
) -> None:
    service.run()

    assert set(service.results.values()) == {"success"}, service.log
    n_questions = len(DATASETS) * N_QUESTIONS
    # Those of a question are all the same, and are graded once for all jobs.
    assert asked(endpoint.bodies) == {
        "sample": n_questions * (SIZE + 1),
        "consensus": n_questions,
        "grading": N_QUESTIONS,
    }
    assert service.result("plurality")["calls_made"] == {}
    assert service.result("standard")["calls_made"] == {"consensus": n_questions}
    assert service.requests() == [
        ["api", "--paginate", "repos/org/project/issues/7/comments", "--jq", service.requests()[0][-1]],
        ["api", "--silent", "--method", "POST", "repos/org/project/issues/7/comments", "--field", "body=@report.md"],
    ]
    comment = service.folder / "bin" / "comment"
    first = comment.read_text(encoding="utf-8")
    assert first.startswith(f"{MARKER}\n")
    assert "| dataset | `single` | `plurality` | `standard` |" in first
    assert f"| **all questions** | 100.0% ({n_questions}/{n_questions}) |" in first
    assert "Not compared with a baseline." in first
    assert service.summary == first

    # What the job of `standard` found becomes the baseline, committed as docs/design/ci.md says; then consensus breaks.
    warehouse = service.artifacts.parent / "evaluate-standard" / "place" / "warehouse"
    run_id = service.result("standard")["run_id"]
    run("shaberi", "baseline", "promote", "main", run_id, environment={"SHABERI_WAREHOUSE": warehouse}).succeeded()
    shutil.copytree(warehouse / "baselines", service.folder / "repository" / "warehouse" / "baselines")
    service.variables["EVAL_BASELINE"] = "main"
    model.consensus_is_right = False
    endpoint.bodies.clear()
    service.run()

    assert service.results == {"plan": "success", "samples": "success", "evaluate": "success", "report": "failure"}
    # Of the new answers one dataset's go to the grader as well.
    assert asked(endpoint.bodies) == {"consensus": n_questions, "grading": 2 * N_QUESTIONS}
    assert "Fail unless every gate has passed and every result is there: 1" in service.log["report"]
    assert "::warning::The gate found a regression." in service.log["evaluate-standard"]
    gates = {name: service.result(name)["gate"] for name in STRATEGIES.split(",")}
    # Nothing new was asked for a vote on the samples of before.
    assert {name: (gate["result"], gate["significance"]) for name, gate in gates.items()} == {
        "plurality": ("inconclusive", 0.05),
        "standard": ("failed", 0.05),
    }
    assert {gate["baseline_run_id"] for gate in gates.values()} == {run_id}
    assert not [one for gate in gates.values() for one in gate["warnings"] if "this very run" in one]
    assert service.requests()[-1] == [
        "api", "--silent", "--method", "PATCH", "repos/org/project/issues/comments/17", "--field", "body=@report.md",
    ]  # fmt: skip
    second = comment.read_text(encoding="utf-8")
    assert "**Regression gate FAILED** in 1 of 2: `standard`." in second
    assert second.startswith(f"{MARKER}\n")


def test_the_report_of_lost_results_fails_and_is_posted(tmp_path: Path) -> None:
    own = {"number": 7, "head": {"repo": {"full_name": "org/project"}}}
    service = Service(
        tmp_path / "service", {"EVAL_MODEL": "no/model", "EVAL_STRATEGIES": "elo"}, event={"pull_request": own}
    )
    service.secrets["SHABERI_API_KEY"] = "k"
    service.variables["EVAL_DATASETS"] = "no-such-dataset"
    service.run()

    assert service.results == {"plan": "success", "samples": "failure", "evaluate": "skipped", "report": "failure"}
    assert "unknown benchmark" in service.log["samples"]
    assert "`elo` gave no result." in (service.folder / "bin" / "comment").read_text(encoding="utf-8")
    assert "Fail unless every gate has passed and every result is there: 3" in service.log["report"]


@pytest.mark.timeout(600)
def test_samples_that_are_paid_for_survive_a_cancelled_job(service: Service, endpoint: MockEndpoint) -> None:
    n_samples = len(DATASETS) * N_QUESTIONS * (SIZE + 1)
    endpoint.options.p_hang, endpoint.options.seed = 0.4, 1

    since: list[float] = []

    def all_but_those_that_hang_are_answered() -> bool:
        if len(endpoint.bodies) == n_samples and endpoint.stats()["in_flight"] < n_samples * 0.6:
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] > _ON_THE_WAY

    service.cancels = all_but_those_that_hang_are_answered
    service.run()

    assert service.results == {"plan": "success", "samples": "cancelled", "evaluate": "skipped", "report": "skipped"}
    answered = endpoint.stats()["answered"]
    assert 0 < answered < n_samples
    endpoint.options.p_hang, service.cancels = 0, None
    endpoint.bodies.clear()
    service.variables["EVAL_STRATEGIES"] = "plurality"
    service.run()

    assert set(service.results.values()) == {"success"}, service.log
    assert asked(endpoint.bodies) == {"sample": n_samples - answered, "grading": N_QUESTIONS}


def test_a_caller_gives_inputs_and_a_budget_that_is_shared(tmp_path: Path) -> None:
    service = Service(tmp_path / "service", {}, {"SHABERI_API_KEY": "k"}, programs=tmp_path / "programs")
    service.inputs = {"repository": "org/project", "model": "m", "strategies": "elo, council", "baseline": "main"}
    service.inputs |= {"max_cost": "10", "max_tokens": "1000"}
    for name in ("shaberi", "quick-eval"):
        program = service.programs / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(_STUB_OF_OURS, encoding="utf-8")
        program.chmod(0o755)
    own = service.folder / "repository" / "warehouse" / "baselines" / "name=main"
    own.mkdir(parents=True)
    service.run()

    assert service.results == {"plan": "success", "samples": "success", "evaluate": "success", "report": "failure"}
    made = [line.split() for text in service.log.values() for line in text.splitlines() if line.startswith("ran ")]
    paid = [one for one in made if "report" not in one]
    assert [one[1:3] for one in paid] == [["shaberi", "generate-cache"], *[["quick-eval", "--model"]] * 3]
    assert {(one[one.index("--max-cost") + 1], one[one.index("--max-tokens-total") + 1]) for one in paid} == {
        ("2.5", "250")
    }
    gates = [one[one.index("--baseline") + 1 :] for one in paid if "--baseline" in one]
    assert [one[:3] for one in gates] == [["main", "--significance", "0.05"]] * 2
    assert (service.artifacts.parent / "evaluate-elo" / "place" / "warehouse" / "baselines" / "name=main").is_dir()
    # An inconclusive gate is a warning of its job, and no pass of the report.
    assert "::warning::The gate is inconclusive." in service.log["evaluate-elo"]
    assert "Fail unless every gate has passed and every result is there: 4" in service.log["report"]


# Says what it was asked for; makes what the next steps need.
_STUB_OF_OURS = """#!/bin/bash
echo "ran ${0##*/} $*"
mkdir -p warehouse results
while [ $# -gt 0 ]; do
  case $1 in
    --output) echo "{}" > "$2" ;;
    --baseline | report) code=4 ;;
  esac
  shift
done
exit ${code:-0}
"""
