"""`run-evals` as a user meets it: what is asked of whom, what is kept, and what is said."""

import json
import re
import shlex
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shaberi_dagster.llm.embedded import DEFAULT_MODEL
from tests.commands import Finished, Terminal, lake_of, run, run_without_dagster, started
from tests.e2e.conftest import JUDGES, MODEL, Evaluated, target
from tests.example_runs import write_questions
from tests.mock_endpoint import MockEndpoint, Scripted, content_for

pytestmark = pytest.mark.e2e


def guarded(model: str) -> tuple[str, ...]:
    """A pass that asks a model about every answer."""
    return "--passes", "safety_check", "--pass-option", f"safety_check.model={model}"


_CANARY = "sk-canary-0123456789abcdefghij"


def test_the_same_command_again_makes_no_call_says_so_and_shows_the_same_scores(evaluated: Evaluated) -> None:
    again = evaluated.run_evals(judges=JUDGES).succeeded()

    assert evaluated.asked == []
    assert again.err.splitlines()[-1] == "nothing left to do: no call was made"
    assert again.out == evaluated.first.out


@pytest.mark.long
def test_a_terminal_shows_how_far_all_is_while_calls_are_made(mock: MockEndpoint) -> None:
    mock.options.latency = 0.5
    options = ("--benchmark", "tengu", "--limit", "3", "--concurrency", "1")

    asked = [*target(mock, ("judge-a",)), *options]
    with started("run-evals", *asked, terminal=Terminal(), without_dagster=True) as command:
        command.wait_until_it_says("all 1/6, ")
        command.wait_until_it_says("answers tengu ")
        command.wait_until_it_says("all 4/6, ")
        finished = command.finished().succeeded()

    assert re.search(r"all 6/6, \d+\.\d calls/s, 0 failed, cost unknown, in 0:0\d", finished.err)
    assert "judgements tengu judge-a" in finished.err
    assert finished.out.count("judge-a") >= 1


@pytest.mark.long
def test_json_is_one_document_on_stdout_and_progress_is_on_stderr(evaluated: Evaluated) -> None:
    finished = evaluated.run_evals("--json", "--tag", "json", "--benchmark", "elyza", "--limit", "2", judges=JUDGES)

    document = json.loads(finished.succeeded().out)
    assert [(row["judge"], row["n_scored"]) for row in document["rows"]] == [("judge-a", 2), ("judge-b", 2)]
    assert "judgements elyza (judge-a) 2/2" in finished.err
    assert document == json.loads(evaluated.view_scores("--tag", "json", "--format", "json").succeeded().out)


def test_a_dry_run_counts_calls_that_another_run_has_paid_for_unless_they_are_reused(evaluated: Evaluated) -> None:
    again = ("--dry-run", "--json", "--tag", "again", "--benchmark", "elyza")
    reusing, apart = (
        json.loads(evaluated.run_evals(*again, *options, judges=JUDGES).succeeded().out)["totals"][-1]
        for options in (("--reuse",), ())
    )
    assert (reusing["calls"], apart["calls"]) == (0, 15)


@pytest.mark.long
def test_failed_parts_end_with_3_and_the_next_run_asks_only_those_again(evaluated: Evaluated) -> None:
    (refused,) = evaluated.rows("select question from questions where benchmark = 'tengu' and position = 2")

    def script(body: dict[str, Any], _: int) -> Scripted:
        if body["model"] == MODEL and body["messages"][-1]["content"] == refused["question"]:
            return web.json_response({"error": {"message": "content not allowed"}}, status=400)
        return content_for(body)

    options = ("--tag", "failing", "--benchmark", "tengu,rakuda", "--temperature", "0.7")
    evaluated.mock.options.script = script
    try:
        failing = evaluated.run_evals(*options, judges=("judge-z",))
    finally:
        evaluated.mock.options.script = None

    assert failing.code == 3, failing.err
    assert "answers tengu 5/5, 1 failed" in failing.err
    assert failing.err.splitlines()[-1] == (
        "answers: 1 failed (1 permanent), such as HTTP 400: content not allowed; "
        "`shaberi sql failures` tells more, the same command tries again"
    )
    assert "Traceback" not in failing.err
    assert evaluated.asked.count("judge-z") == 9
    scored = evaluated.rows(
        "select benchmark, n_scored, n_failed from leaderboard where run_tag = 'failing' order by 1"
    )
    assert scored == [
        {"benchmark": "rakuda", "n_scored": 5, "n_failed": 0},
        {"benchmark": "tengu", "n_scored": 4, "n_failed": 1},
    ]
    (row,) = evaluated.rows("select error_class, error_message from answers where status = 'error'")
    assert "content not allowed" in row["error_message"]
    failures = evaluated.rows("failures")
    assert ("answers", row["error_class"], 1) in {(one["stage"], one["error_class"], one["n"]) for one in failures}

    evaluated.run_evals(*options, judges=("judge-z",)).succeeded()
    assert Counter(evaluated.asked) == {MODEL: 1, "judge-z": 1}
    assert evaluated.rows("select status from runs where run_tag = 'failing'") == [{"status": "complete"}]


@pytest.mark.corpus
def test_the_real_questions_are_answered_and_judged_by_two_judges_and_never_paid_for_twice(
    mock: MockEndpoint, corpus: Path, tmp_path: Path
) -> None:
    everything = Evaluated(Finished(0, "", ""), mock, tmp_path)
    options = ("--questions", corpus / "questions")

    everything.run_evals(*options, judges=JUDGES).succeeded()

    counts = everything.rows("select benchmark, count(*) as n from answers where status = 'ok' group by 1 order by 1")
    assert {row["benchmark"]: row["n"] for row in counts} == {"elyza": 100, "mt_bench": 60, "rakuda": 40, "tengu": 120}
    judged = everything.rows("select judge, count(score) as n, count(*) as rows from judgements group by 1 order by 1")
    assert judged == [{"judge": judge, "n": 320, "rows": 320} for judge in JUDGES]
    assert mock.stats()["requests"] == 320 + 640
    assert mock.stats()["repeated"] == 0

    again = everything.run_evals(*options, judges=JUDGES).succeeded()
    assert everything.asked == []
    assert again.err.endswith("no call was made\n")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--model", "../../etc/x"], "model name '../../etc/x' must not have '.', '..'"),
        (["--base-url", "localhost:8000"], "base URL 'localhost:8000' must be like http://localhost:8000/v1"),
        (["--model", "embedded/huge"], f"no embedded model 'embedded/huge'; there is {DEFAULT_MODEL}"),
        (["--score-rounding", "up"], "--score-rounding: must be 'none' or 'legacy', not 'up'"),
        (["--rejudge"], "run org__model@@default has no answers to rejudge; the lake has no run of that model"),
        (["--reprocess"], "run org__model@@default has no answers to reprocess; the lake has no run of that model"),
        (["--api-key-variable", "NO_SUCH_KEY"], "set NO_SUCH_KEY to the API key"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_refused_in_one_line_before_any_call(
    options: list[str], expected: str, mock: MockEndpoint
) -> None:
    at_mock = target(mock, ("judge-a",))
    if options[0] in {"--model", "--base-url"}:  # in its place
        at = at_mock.index(options[0])
        del at_mock[at : at + 2]
    if options[-1] == "embedded/huge":
        del at_mock[at_mock.index("--base-url") :][:2]
        at_mock = at_mock[2:]

    assert expected in run("run-evals", *at_mock, *options).complaint
    assert mock.stats()["requests"] == 0


def test_a_run_without_a_judge_and_a_missing_key_are_refused_before_a_model_is_loaded(mock: MockEndpoint) -> None:
    unjudged = run("run-evals", "--model", MODEL, "--base-url", mock.base_url)
    keyless = run("run-evals", "--model", DEFAULT_MODEL, "--benchmark", "gsm8k", "--judge-model", "gpt-5.1")

    assert unjudged.complaint == "elyza, tengu, mt_bench, rakuda are judged by an LLM: name one with --judge-model"
    assert keyless.complaint == "set OPENAI_API_KEY to the API key for https://api.openai.com/v1"
    assert mock.stats()["requests"] == 0


@pytest.mark.parametrize("unreachable", ["--base-url", "--judge-base-url"])
def test_an_endpoint_that_is_not_there_is_found_before_any_call(unreachable: str, mock: MockEndpoint) -> None:
    nowhere = "http://127.0.0.1:9/v1"  # the discard port
    urls = {"--base-url": mock.base_url, "--judge-base-url": mock.base_url} | {unreachable: nowhere}

    finished = run(
        "run-evals", "--model", MODEL, "--judge-model", "judge-a", *(part for pair in urls.items() for part in pair)
    )

    assert f"endpoint {nowhere} cannot be reached" in finished.complaint
    assert mock.stats()["requests"] == 0


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("run-evals", ("--model", "lost", "--judge-model", "judge-a", "--benchmark", "rakuda")),
        ("run-evals", ("--model", "m", "--judge-model", "judge-a", "--judge-model", "lost", "--benchmark", "rakuda")),
        ("quick-eval", ("--model", "m", "--datasets", "gsm8k", "--judge-model", "lost")),
        ("quick-eval", ("--model", "m", "--datasets", "gsm8k", "--consensus-model", "lost")),
        ("run-evals", ("--model", "m", "--judge-model", "judge-a", "--benchmark", "rakuda", *guarded("lost"))),
        ("decide", ("m", "lost", "--judge", "judge-a", "--benchmark", "rakuda")),
    ],
    ids=["model", "second judge", "judge beside rules", "consensus", "pass", "decide"],
)
def test_a_model_that_the_server_lacks_is_found_before_the_first_question(
    command: str, options: tuple[str, ...], mock: MockEndpoint, tmp_path: Path
) -> None:
    mock.options.models = "m judge-a last"
    program = ("shaberi", command) if command == "decide" else (command,)
    urls = ("--base-url", mock.base_url, "--judge-base-url", mock.base_url)

    finished = run(*program, *options, *urls, environment=lake_of(tmp_path))

    assert finished.code == 2, finished.err
    (line,) = (line for line in finished.err.splitlines() if "lost" in line)
    said = "HTTP 404: The model `lost` does not exist; did you mean last?"
    assert line == f"error: endpoint {mock.base_url} takes no calls of lost: {said}"
    assert mock.stats()["requests"] == 0
    counted = run("shaberi", "sql", "select count(*) as n from runs", "--format", "json", environment=lake_of(tmp_path))
    assert counted.code == 2 or json.loads(counted.out) == [{"n": 0}]


def test_a_pass_without_its_model_is_told_which_option_it_lacks(mock: MockEndpoint) -> None:
    for command in (("run-evals", *target(mock, ("judge-a",)), "--dry-run"), ("shaberi", "reprocess")):
        assert run(*command, "--passes", "safety_check").complaint == (
            "pass safety_check has no default for model: give one with --pass-option safety_check.model=gpt-5-mini"
        )


def test_strategies_that_need_more_samples_are_refused_before_anything_is_paid(mock: MockEndpoint) -> None:
    quick = ("quick-eval", "--model", "m", "--base-url", mock.base_url, "--datasets", "gsm8k", "--ensemble", "2")

    assert run(*quick).complaint == (
        "elo and council on gsm8k need 3 samples, not 2: give 3 or more (quick-eval --ensemble 3, others --samples 3), "
        "or only --strategy standard,majority,plurality"
    )
    assert run(*quick, "--strategy", "council", "--dry-run").complaint == (
        "council on gsm8k needs 3 samples, not 2: give 3 or more (quick-eval --ensemble 3, others --samples 3)"
    )
    assert mock.stats()["requests"] == 0
    run(*quick, "--strategy", "majority,plurality", "--dry-run").succeeded()


def test_a_judge_that_leaves_the_server_is_found_by_the_first_question(mock: MockEndpoint, tmp_path: Path) -> None:
    mock.options.script = lambda body, _: (
        web.json_response({"error": {"message": "The model `judge-b` does not exist."}}, status=404)
        if body["model"] == "judge-b"
        else content_for(body)
    )
    options = ("--benchmark", "rakuda", "--questions", write_questions(tmp_path / "questions", 5), "--concurrency", "1")

    finished = run_without_dagster("run-evals", *target(mock, ("judge-b",)), *options)

    assert finished.code == 3, finished.err
    said = "HTTP 404: The model `judge-b` does not exist."
    assert f"judge-b at {mock.base_url} was not asked any more: {said} (4 calls were not made)" in finished.err
    assert said in finished.err.splitlines()[-1]
    assert sum(body["model"] == "judge-b" for body in mock.bodies) == 1


@pytest.mark.long
def test_a_judge_that_only_fails_is_not_asked_on_and_the_other_one_judges_all(
    mock: MockEndpoint, tmp_path: Path
) -> None:
    mock.options.script = lambda body, _: (
        web.json_response({"error": {"message": "no memory"}}, status=400)
        if body["model"] == "judge-b"
        else content_for(body)
    )
    folder = write_questions(tmp_path / "questions", 40)
    options = ("--benchmark", "rakuda", "--questions", folder, "--concurrency", "4")

    finished = run("run-evals", *target(mock, JUDGES), *options, environment=lake_of(tmp_path))
    failures = run("shaberi", "sql", "failures", "--format", "json", environment=lake_of(tmp_path)).succeeded()

    assert finished.code == 3, finished.err
    asked = Counter(body["model"] for body in mock.bodies)
    assert (asked["judge-a"], asked["judge-b"] in range(20, 25)) == (40, True)
    assert finished.err.splitlines()[-1].startswith("judgements: 40 failed (")
    assert "was not asked after 20 equal errors: HTTP 400: no memory" in finished.err
    (permanent,) = (row for row in json.loads(failures.out) if row["error_class"] == "permanent")
    assert (permanent["stage"], permanent["n"], permanent["message"]) == (
        "judgements",
        asked["judge-b"],
        "HTTP 400: no memory",
    )
    assert len(permanent["example"]) == 64


@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["", "--debug"])
def test_an_endpoint_that_refuses_the_key_is_found_before_any_call_and_the_key_is_written_nowhere(
    debug: list[str], mock: MockEndpoint, tmp_path: Path
) -> None:
    mock.options.key = "another key"

    finished = run(
        "run-evals", *target(mock, ("judge-a",)), *debug, environment=lake_of(tmp_path) | {"SHABERI_API_KEY": _CANARY}
    )

    assert finished.code == 2
    assert f"endpoint {mock.base_url} refuses us" in finished.err.splitlines()[-1]
    assert mock.stats()["requests"] == 0
    assert _CANARY not in finished.out + finished.err
    assert [path for path in tmp_path.rglob("*") if path.is_file() and _CANARY.encode() in path.read_bytes()] == []
    if not debug:
        assert finished.complaint


def test_a_malformed_question_file_is_named_with_line_and_reason_before_any_call(
    mock: MockEndpoint, tmp_path: Path
) -> None:
    file = tmp_path / "questions" / "rakuda.jsonl"
    file.parent.mkdir()
    file.write_text('{"question": "一つ目。", "category": "地理"}\n{"question": \n', encoding="utf-8")

    given = {"SHABERI_DATASETS": file.parent}
    finished = run("run-evals", *target(mock, ("judge-a",)), "--benchmark", "rakuda", environment=given)

    assert f"question file {file}:2: " in finished.complaint
    assert "is not JSON" in finished.complaint
    assert mock.stats()["requests"] == 0


def test_the_command_that_an_interrupted_one_prints_goes_on_where_it_stopped(
    mock: MockEndpoint, tmp_path: Path
) -> None:
    answered = 4

    def script(body: dict[str, Any], number: int) -> Scripted:
        if number == answered - 1:
            mock.options.p_hang = 1.0  # from the next request on
        return content_for(body)

    mock.options.script = script
    arguments = [*target(mock, ("judge of 'all'",)), "--limit", "3", "--benchmark", "elyza,tengu"]
    journals = tmp_path / "warehouse" / "_journal"
    with started("run-evals", *arguments) as process:
        process.wait_until(
            lambda: sum(path.read_text().count("request_hash") for path in journals.glob("*.jsonl")) == answered
        )
        process.send(signal.SIGINT)
        stopped = process.finished()
    assert (stopped.code, stopped.out) == (130, ""), stopped.err
    assert "Traceback" not in stopped.err

    before, again = stopped.err.rstrip("\n").split("\n")[-2:]
    assert before == "interrupted; what is finished is saved. Go on with:"
    command, *rest = shlex.split(again)
    assert rest == arguments
    mock.options.p_hang, mock.options.script = 0.0, None
    run_without_dagster(command, *rest).succeeded()
    assert mock.stats()["answered"] == 6 + 6
    assert mock.stats()["repeated"] == 0
