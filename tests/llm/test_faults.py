"""Faults of every class, alone and mixed, and full disks: what ends how, and that nothing is lost or counted twice."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake import writer
from shaberi_dagster.lake.journal.files import FileJournal, FileJournals
from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.budget import Budget
from shaberi_dagster.llm.client import CallFailure, ChatClient, ClientSettings
from shaberi_dagster.llm.engine import Engine, RetrySettings
from shaberi_dagster.llm.limiter import LimiterSettings
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.session import CallSession
from shaberi_dagster.llm.workers import run_all
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.util.errors import ShaberiError
from tests.disks import SmallDisk, mounted_small_disk
from tests.example_runs import ask as ask_for
from tests.example_runs import own_engine, stored_run, write_questions
from tests.mock_endpoint import MockEndpoint, Scripted, completion, content_for, running_mock, web
from tests.sizes import size

pytestmark = pytest.mark.integration

_ROOT = Path(__file__).parents[2]
_CANARY = "sk-canary-0123456789abcdef"
_AT_ONCE = 8
_MANY = size(400, 2000)


def _ended(requests: list[ChatRequest], journal: Path, **settings: Any) -> tuple[list[Call], list[dict[str, Any]]]:
    """The calls of all requests, made as a stage does, and the journal's records."""
    budget, environment = settings.pop("budget", None), settings.pop("environment", {})

    async def inside() -> tuple[list[Call], list[dict[str, Any]]]:
        with FileJournal.open(journal, "m@@t", "answers") as opened:
            async with Engine(environment, limiter=LimiterSettings(fixed=64), **settings) as engine:
                session = CallSession(engine, opened, "answers", lambda _: {}, budget)

                async def each() -> AsyncIterator[ChatRequest]:
                    for request in requests:
                        yield request

                async def one(request: ChatRequest) -> Call:
                    return (await session.call(request, {}))[0]

                calls = [call async for _, call in run_all(each(), one, workers=256)]
            return calls, list(opened.records)

    return asyncio.run(inside())


@pytest.mark.acceptance
def test_of_many_calls_with_mixed_faults_each_ends_once_and_is_counted_once(
    ask: Callable[..., ChatRequest], tmp_path: Path
) -> None:
    faults = {"p_500": 0.1, "p_reset": 0.05, "p_hang": 0.05, "p_malformed": 0.05, "p_truncated": 0.02}
    budget = Budget(max_tokens=10**9)
    with running_mock(length=50, **faults) as mock:
        requests = [ask(mock.base_url, str(number)) for number in range(_MANY)]
        calls, records = _ended(
            requests,
            tmp_path / "j.jsonl",
            retry=RetrySettings(transient_attempts=3, first_delay_seconds=0.001, longest_delay_seconds=0.01),
            client=ClientSettings(read_seconds=1.0),
            budget=budget,
        )
        stats = mock.stats()
    assert {call.request_hash for call in calls} == {request.request_hash for request in requests}
    assert sorted(call.request_hash for call in calls) == sorted(record["request_hash"] for record in records)
    assert {(call.status, call.error_class) for call in calls} == {("ok", None), ("error", "transient")}
    assert {call.attempts for call in calls if call.status == "error"} == {3}
    ok = [record for record in records if record["status"] == "ok"]
    assert 0.9 * _MANY < len(ok) < _MANY  # a quarter of all attempts fail
    assert all(record["completion_tokens"] == len(record["content"]) == 50 for record in ok)
    assert sum(record["completion_tokens"] + record["prompt_tokens"] for record in ok) == budget.tokens
    assert all(stats[fault] > 0 for fault in faults)


def _error(status: int, **error: Any) -> dict[str, Any]:
    document = {"error": {"message": "nope"} | error}
    return {"script": lambda *_: web.json_response(document, status=status)}


def _in_choice(code: object, message: str = "upstream", finish_reason: str = "error") -> dict[str, Any]:
    error = {"error": {"code": code, "message": message}} if code else {}
    choice = {"index": 0, "message": {"content": "half"}, "finish_reason": finish_reason, **error}
    return {"script": lambda *_: web.json_response({"choices": [choice], "usage": {"prompt_tokens": 9}})}


def _redirected(location: str) -> dict[str, Any]:
    return {"script": lambda *_: web.Response(status=302, headers={"Location": location})}


def _limited(status: int) -> dict[str, Any]:
    return {"script": lambda *_: web.json_response({}, status=status, headers={"Retry-After": "0.1"})}


@pytest.mark.parametrize(
    ("endpoint", "error_class", "attempts"),
    [
        pytest.param({"p_500": 1.0}, "transient", [2], id="500"),
        pytest.param({"p_hang": 1.0}, "transient", [2], id="hang"),
        pytest.param({"p_reset": 1.0}, "transient", [2], id="reset"),
        pytest.param({"p_malformed": 1.0}, "transient", [2], id="malformed"),
        pytest.param({"p_truncated": 1.0}, "transient", [2], id="truncated"),
        pytest.param({"p_empty": 1.0}, "transient", [2], id="no choices"),
        pytest.param(_error(400), "permanent", [1], id="400"),
        pytest.param(_error(404), "permanent", [1], id="404"),
        pytest.param(_error(400, code="content_policy_violation"), "permanent", [1], id="content policy"),
        pytest.param(_error(403, message="your input was flagged"), "permanent", [1], id="moderation"),
        pytest.param(_error(400, message="\x1b[31mred\x00\u202e"), "permanent", [1], id="control characters"),
        pytest.param(_redirected("http://[::1"), "permanent", [1], id="unreadable redirect"),
        pytest.param(_in_choice(403, "flagged by moderation"), "permanent", [1], id="moderation in a choice"),
        pytest.param(_in_choice("invalid_request_error"), "permanent", [1], id="named code in a choice"),
        pytest.param(_in_choice(429), "deadline", range(2, 20), id="429 in a choice"),
        pytest.param(_in_choice("rate_limit_exceeded"), "deadline", range(2, 20), id="named rate limit in a choice"),
        pytest.param(_in_choice(None, finish_reason="network_error"), "transient", [2], id="network error"),
        pytest.param(_limited(429), "deadline", range(2, 20), id="429"),
        pytest.param(_limited(529), "deadline", range(2, 20), id="529"),
    ],
)
def test_each_fault_ends_in_one_record_of_its_class(
    endpoint: dict[str, Any],
    error_class: str,
    attempts: list[int],
    ask: Callable[..., ChatRequest],
    tmp_path: Path,
) -> None:
    with running_mock(**endpoint) as mock:
        retry = RetrySettings(transient_attempts=2, first_delay_seconds=0.001, deadline_seconds=1.0)
        _, records = _ended([ask(mock.base_url)], tmp_path / "j", retry=retry, client=ClientSettings(read_seconds=0.2))
        assert mock.stats()["requests"] == records[0]["attempts"]
    assert [(record["status"], record["error_class"]) for record in records] == [("error", error_class)]
    assert records[0]["attempts"] in attempts
    assert records[0]["error_message"].isprintable()


@pytest.mark.parametrize(("key", "kept"), [(_CANARY, "[key]"), ("ollama", "ollama")])
def test_a_key_in_a_reply_is_taken_out_unless_it_may_be_a_word(
    key: str, kept: str, ask: Callable[..., ChatRequest], tmp_path: Path
) -> None:
    texts = {"content": f"a {key}", "reasoning": f"b {key}", "refusal": f"c {key}"}
    message = texts | {"tool_calls": [{"function": {"arguments": key}}]}
    document = {"choices": [{"message": message, "finish_reason": "stop"}]}
    with running_mock(script=[document]) as mock:
        environment = {"KEY": key, "SHABERI_KEY_HOSTS": "KEY=127.0.0.1"}
        _, records = _ended([ask(mock.base_url, key="KEY")], tmp_path / "j", environment=environment)
    assert [[record[name] for name in texts] for record in records] == [[f"a {kept}", f"b {kept}", f"c {kept}"]]
    assert records[0]["tool_calls"] == f'[{{"function":{{"arguments":"{kept}"}}}}]'


def test_a_stage_that_cannot_read_the_lake_does_not_keep_its_journal_locked(
    workspace: Workspace, mock: MockEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> bool:
        raise OSError(5, "Input/output error")

    with own_engine({}):
        spec = _run(workspace, mock, tmp_path / "own", 3)
        with monkeypatch.context() as patch:
            patch.setattr(Lake, "committed", broken)
            with pytest.raises(OSError, match="Input/output error"):
                materialize("answers", spec.run_id, ["rakuda"], workspace)
        materialize("answers", spec.run_id, ["rakuda"], workspace)
    _assert_complete(workspace, 3)


def _run(workspace: Workspace, mock: MockEndpoint, folder: Path, count: int) -> Any:
    questions = str(write_questions(folder, count))
    return stored_run(workspace, ask_for(mock, benchmarks=["rakuda"], questions=questions))


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_stops_the_calls_at_once_and_keeps_what_was_answered(
    status: int, settings: Settings, tmp_path: Path
) -> None:
    def refuse(_: dict[str, Any], number: int) -> Scripted:
        return "答え" if number < 100 else web.json_response({"error": {"message": "no"}}, status=status)

    workspace = Workspace(settings, environment={}, options=CallOptions(concurrency=_AT_ONCE))
    with own_engine({}), running_mock(script=refuse, latency=0.01) as mock:
        spec = _run(workspace, mock, tmp_path / "own", 300)
        (result,) = materialize("answers", spec.run_id, ["rakuda"], workspace)
        assert 100 < mock.stats()["requests"] <= 100 + 2 * _AT_ONCE
    assert not all(check.passed for check in result.checks)
    rows = workspace.lake.read("answers")
    assert rows["status"].value_counts().sort("count").rows() == [("ok", 100), ("error", 200)]
    failed = rows.filter(status="error")
    assert set(failed["error_class"]) == {"authentication", "stopped"}
    assert failed["error_message"].str.contains(f"HTTP {status}: no", literal=True).all()


@pytest.mark.parametrize(
    ("fault", "error_class"),
    [
        (lambda: web.json_response({}, status=500), "transient"),
        (lambda: b'{"choices": [', "transient"),
        (lambda: {"choices": []}, "transient"),
        (lambda: web.json_response({}, status=404), "permanent"),
        (lambda: web.json_response({}, status=429, headers={"Retry-After": "9"}), "deadline"),
    ],
    ids=["500", "malformed", "no choices", "404", "429"],
)
def test_one_request_that_never_works_costs_no_other_row(
    fault: Callable[[], Scripted], error_class: str, workspace: Workspace, tmp_path: Path
) -> None:
    def script(body: dict[str, Any], _: int) -> Scripted:
        return fault() if "質問7は" in body["messages"][-1]["content"] else content_for(body)

    with own_engine({}), running_mock(script=script) as mock:
        workspace.options = CallOptions(call_deadline=5.0)
        retry = RetrySettings(transient_attempts=2, first_delay_seconds=0.01)
        workspace.engine_thread().engine = Engine({}, retry=retry)
        spec = _run(workspace, mock, tmp_path / "own", 40)
        materialize("answers", spec.run_id, ["rakuda"], workspace)
        answers, calls = workspace.lake.read("answers"), workspace.lake.read("calls")
        assert Counter(answers["error_class"]) == {None: 39, error_class: 1}
        assert Counter(calls["error_class"]) == {None: 39, error_class: 1}
        mock.options.script = None
        made = mock.stats()["requests"]
        materialize("answers", spec.run_id, ["rakuda"], workspace)
        assert mock.stats()["requests"] == made + 1
    assert workspace.lake.read("answers")["status"].to_list() == ["ok"] * 40


@pytest.mark.parametrize(
    "odd",
    [
        {"usage": {"prompt_tokens": "many", "completion_tokens": 3}},
        {"usage": {"prompt_tokens": -1, "completion_tokens": 2**70}},
        {"usage": {"prompt_tokens": True, "completion_tokens": 1.5}},
        {"usage": ["none"]},
        {"usage": {"prompt_tokens": 3, "prompt_tokens_details": [1]}},
        {"choices": [{"message": {"content": "答え", "reasoning": {"text": "x"}}, "finish_reason": {"type": "stop"}}]},
        {"choices": [{"message": {"content": "答え", "reasoning_content": ["x"]}, "finish_reason": 3}]},
    ],
    ids=["text", "negative and huge", "bool and fraction", "list", "list of details", "objects", "list and number"],
)
def test_what_a_reply_says_in_another_type_is_unknown_and_the_answer_is_stored(
    odd: dict[str, Any], workspace: Workspace, tmp_path: Path
) -> None:
    with own_engine({}), running_mock(script=lambda body, _: completion(body, "答え") | odd) as mock:
        spec = _run(workspace, mock, tmp_path / "own", 3)
        materialize("answers", spec.run_id, ["rakuda"], workspace)
        assert mock.stats()["requests"] == 3
    answers = workspace.lake.read("answers")
    assert answers.select("status", "answer", "thinking").rows() == [("ok", "答え", None)] * 3
    assert not answers["answer_cached_tokens"].is_not_null().any()
    assert workspace.lake.read("calls").height == 3


def test_a_failure_in_a_reply_keeps_the_words_of_the_server_and_its_tokens(
    ask: Callable[..., ChatRequest], tmp_path: Path
) -> None:
    with running_mock(**_in_choice(402, "no credits")) as mock:
        _, (record,) = _ended([ask(mock.base_url)], tmp_path / "j")
    assert "no credits" in record["error_message"]
    assert (record["error_class"], record["prompt_tokens"]) == ("authentication", 9)


@pytest.mark.parametrize("status", [200, 400, 404])
@pytest.mark.parametrize("spelled", [str, lambda text: text.replace("/", "\\/").replace("+", "\\u002B")])
def test_no_secret_comes_back_in_whatever_field_header_or_spelling(status: int, spelled: Callable[[str], str]) -> None:
    key, organisation = "abc/def+ghijklmnopqr", "org/Secret+0123456789"
    body = '{"error": {"message": "of KEY", "code": "unsupported_parameter", "param": "KEY"}, "model": "ORG"}'
    if status == 200:
        body = '{"model": "KEY", "choices": [{"message": {"content": "ORG", "tool_calls": ["KEY"]}}]}'
    body = body.replace("KEY", spelled(key)).replace("ORG", spelled(organisation))

    async def sent() -> str:
        client = ChatClient(mock.base_url, key, {"X-Organisation": organisation})
        try:
            return str(await client.send({"model": "m", "messages": [{"role": "user", "content": "?"}]}))
        except CallFailure as failure:
            return f"{failure.message} {failure.field}"
        finally:
            await client.close()

    headers = {"x-echo": key, "Content-Type": "application/json"}
    with running_mock(script=lambda *_: web.Response(status=status, text=body, headers=headers)) as mock:
        said = asyncio.run(sent())
    assert "[key]" in said
    assert [word for word in ("ghijkl", "Secret") if word in said] == []


@pytest.mark.parametrize("broken", [{"finish_reason": "error"}, {"error": {"code": 502}}])
def test_a_reply_that_ended_in_an_error_is_no_empty_answer(
    broken: dict[str, Any], ask: Callable[..., ChatRequest], tmp_path: Path
) -> None:
    document = {"choices": [{"message": {"content": ""}} | broken]}
    with running_mock(script=[document, document, "答え"]) as mock:
        retry = RetrySettings(first_delay_seconds=0.001)
        _, records = _ended([ask(mock.base_url)], tmp_path / "j", retry=retry)
    assert [(record["content"], record["attempts"]) for record in records] == [("答え", 3)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted_small_disk(tmp_path / "small") as disk:
        yield disk


@pytest.fixture
def on_small_disk(small_disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(small_disk.folder / "warehouse"))
    return Workspace(Settings.from_environment(), environment={}, options=CallOptions(concurrency=_AT_ONCE))


def test_a_disk_that_fills_up_stops_the_stage_in_one_line_and_it_goes_on_when_there_is_space(
    on_small_disk: Workspace, small_disk: SmallDisk, tmp_path: Path
) -> None:
    def script(body: dict[str, Any], number: int) -> Scripted:
        if number == 30:
            small_disk.fill()
        return content_for(body)

    with own_engine({}), running_mock(script=script, latency=0.01) as mock:
        spec = _run(on_small_disk, mock, tmp_path / "own", 60)
        with pytest.raises(ShaberiError, match=r"journal .* No space left on device.*finished calls are kept") as full:
            materialize("answers", spec.run_id, ["rakuda"], on_small_disk)
        assert "\n" not in str(full.value)
        stopped = mock.stats()["requests"]
        mock.options.script = None
        small_disk.free()
        materialize("answers", spec.run_id, ["rakuda"], on_small_disk)
        again = mock.stats()["requests"] - 60
    assert stopped < 60
    assert again == 0, "what was in flight when the disk was full is written as well"
    _assert_complete(on_small_disk, 60)


@pytest.mark.parametrize("table", ["calls", "answers"])
def test_a_disk_that_fills_up_during_the_commit_costs_no_call(
    table: str,
    on_small_disk: Workspace,
    small_disk: SmallDisk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = writer.write_parts

    def write_on_full_disk(lake: Lake, name: str, *arguments: Any) -> None:
        if name == table:
            small_disk.fill()
        write(lake, name, *arguments)

    with own_engine({}), running_mock() as mock:
        spec = _run(on_small_disk, mock, tmp_path / "own", 60)
        with monkeypatch.context() as patch:
            patch.setattr(writer, "write_parts", write_on_full_disk)
            with pytest.raises(ShaberiError, match=f"table .*{table} cannot be written: No space left on device"):
                materialize("answers", spec.run_id, ["rakuda"], on_small_disk)
        small_disk.free()
        materialize("answers", spec.run_id, ["rakuda"], on_small_disk)
        assert mock.stats()["requests"] == 60
    _assert_complete(on_small_disk, 60)


@pytest.mark.long
def test_a_file_that_may_not_grow_stops_the_stage_in_one_line_and_keeps_what_is_in_it(
    workspace: Workspace, mock: MockEndpoint, tmp_path: Path
) -> None:
    spec = _run(workspace, mock, tmp_path / "own", 60)
    script = (
        "import resource\n"
        "from shaberi_dagster.util.errors import ShaberiError\n"
        "from shaberi_dagster.runs.stages.evaluation import stored_spec\n"
        "from shaberi_dagster.runs.stages.ordered import calling_stage\n"
        "from shaberi_dagster.runs.plan import RunPlan\n"
        "from shaberi_dagster.settings import Settings\n"
        "from shaberi_dagster.runs.workspace import Workspace\n"
        "workspace = Workspace(Settings.from_environment(), environment={})\n"
        f"spec = stored_spec({spec.run_id!r}, workspace)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try:\n"
        "    calling_stage('answers')(RunPlan(spec, ['rakuda'], workspace)).materialize()\n"
        "except ShaberiError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert "finished calls are kept" in done.stdout
    assert done.stdout.count("\n") == 1
    journal = FileJournals(workspace.settings.warehouse).path(spec.run_id, "answers").read_bytes()
    assert journal.endswith(b"\n"), "half a record was taken back"
    kept = journal.count(b'"request_hash"')
    assert kept > 0
    made = mock.stats()["requests"]
    with own_engine({}):
        materialize("answers", spec.run_id, ["rakuda"], workspace)
    assert mock.stats()["requests"] - made == 60 - kept
    _assert_complete(workspace, 60)


def _assert_complete(workspace: Workspace, count: int) -> None:
    answers, calls = workspace.lake.read("answers"), workspace.lake.read("calls").filter(pl.col("status") == "ok")
    assert answers["status"].to_list() == ["ok"] * count
    assert (calls.height, calls["request_hash"].n_unique()) == (count, count)
    assert list((workspace.settings.warehouse / "_journal").iterdir()) == []
