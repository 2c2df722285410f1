"""The page on extending, read by a stranger: all its files in one empty folder, used at once."""

import ast
import asyncio
import importlib
import json
import logging
import re
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import shaberi_dagster as shaberi
from shaberi_dagster.defs import code_location as definitions
from shaberi_dagster.defs.running import Evaluation
from shaberi_dagster.doctor.examination import examine_plugins
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.llm.client import ChatClient
from shaberi_dagster.llm.endpoints import provider_of, request_body, resolve_endpoint
from shaberi_dagster.llm.reply import ReceivedReply
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.types import Message, Sampling
from shaberi_dagster.reports.score_page import score_notes
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.results.manifest import manifest_of, read_records
from shaberi_dagster.runs.results.results_tree import export_run
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.forecast import forecast
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.stored import store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.util.errors import ConfigurationError
from tests.example_runs import own_engine, without_results
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.results_tree import assert_valid_tree

pytestmark = pytest.mark.integration

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"
_FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def answer(body: dict, _: int) -> str:
    """Polite or not, right or not, and judged."""
    text = body["messages"][-1]["content"]
    if "FINAL SCORE" in text:
        return "丁寧です。\nFINAL SCORE: 4"
    return "いやだ" if "断って" in text else "東京です。"


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    with running_mock(script=answer) as endpoint:
        yield endpoint


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mock: MockEndpoint) -> Path:
    """Every file of the page; only the server's address is another."""
    monkeypatch.chdir(tmp_path)
    for name, text in _FILE.findall(_PAGE.read_text(encoding="utf-8")):
        path = tmp_path / "plugins" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("http://localhost:8000/v1", mock.base_url), encoding="utf-8")
    return tmp_path / "plugins"


def planned(tag: str) -> tuple[RunSpec, Workspace]:
    """A stored run of both benchmarks with everything that the page has."""
    workspace = Workspace(Settings.from_environment(), environment={})
    request = RunRequest(
        model="my-model-7b",
        tag=tag,
        benchmarks=["manners", "capitals"],
        judge_models=["my-model-judge"],
        passes=["plain_form"],
    )
    spec = plan_run(request, workspace)
    store_run(spec, workspace)
    return spec, workspace


def evaluated(tag: str) -> tuple[RunSpec, Workspace]:
    """Such a run with all that its stages make."""
    spec, workspace = planned(tag)
    with own_engine({}), without_results():
        for stage in STAGE_NAMES:
            materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
    write_catalog(workspace.lake)
    return spec, workspace


@pytest.fixture
def run(folder: Path) -> tuple[RunSpec, Workspace]:
    """The run `default`."""
    assert folder.is_dir()
    return evaluated("default")


def test_each_kind_has_an_example_and_the_doctor_finds_no_fault(folder: Path) -> None:
    found = list(examine_plugins(Settings.from_environment(), run_code=True))
    assert {(one.what, one.detail) for one in found} == {
        ("plugins: benchmark", "capitals, manners"),
        ("plugins: pass", "plain_form"),
        ("plugins: rule", "rule:contains"),
        ("plugins: form", "tally"),
        ("plugins: judge", "twice"),
        ("plugins: strategy", "longest"),
        ("plugins: provider", "generate"),
        ("plugins: endpoint", "my_server, text_server"),
        ("plugins: view", "polite_scores"),
        ("plugins: query", "impolite_models"),
        ("plugins: report", "polite"),
        ("plugins: importer", "arena"),
    }
    assert all(one.fine for one in found)
    assert all(one.fine for one in examine_plugins(Settings.from_environment()))
    (folder / "passes/broken.py").write_text("import nothing_at_all", encoding="utf-8")
    faults = [one.detail for one in examine_plugins(Settings.from_environment(), run_code=True) if not one.fine]
    assert [f"{folder}/passes/broken.py:1: ModuleNotFoundError" in one for one in faults] == [True]


class _Continuing(BaseHTTPRequestHandler):
    """A server of another form than OpenAI's."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert (self.path, body["parameters"]["max_new_tokens"]) == ("/api/generate", 9)
        reply = json.dumps({"generated_text": f"{body['inputs']} 東京です。", "finish_reason": "length"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None: ...


def test_a_server_of_another_form_is_asked_in_its_own(folder: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Continuing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        entry = folder / "endpoints/text_server.yaml"
        place = f"127.0.0.1:{server.server_port}"
        entry.write_text(entry.read_text(encoding="utf-8").replace("localhost:8001", place), encoding="utf-8")
        endpoint = resolve_endpoint("text-model-7b")
        request = ChatRequest(endpoint, "text-model-7b", (Message("user", "首都は?"),), Sampling(0.2, 9))

        async def ask() -> ReceivedReply:
            client = ChatClient(endpoint.base_url, provider=provider_of(endpoint))
            try:
                return await client.send(request_body(request))
            finally:
                await client.close()

        reply = asyncio.run(ask())
        server.shutdown()

    assert (reply.content, reply.finish_reason) == ("首都は? 東京です。", "length")


def _twice(body: dict, _: int) -> str:
    text = body["messages"][-1]["content"]
    if text.startswith("Points"):
        return "4点" if "A: 東京" in text else "だめ"
    return "No, it is not." if text.startswith("Is this polite?") else "東京です。"


def test_a_judge_of_ones_own_asks_as_often_as_it_needs_and_only_once(folder: Path) -> None:
    del folder
    with running_mock(script=_twice) as mock, own_engine({}), without_results():
        workspace = Workspace(Settings.from_environment(), environment={})
        place = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
        request = RunRequest(model="m", benchmarks=["manners"], judge_models=["j+twice"], tag="own", **place)
        spec = plan_run(request, workspace)
        store_run(spec, workspace)
        counted = forecast([spec], ["manners"], ["answers", "judgements"], workspace, now=datetime.now(UTC))
        for stage in STAGE_NAMES:
            materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
        asked = mock.stats()["requests"]
        for stage in STAGE_NAMES:
            materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
        assert mock.stats()["requests"] == asked

    judged = workspace.lake.read("judgements", {"run_id": spec.run_id})
    assert judged.select("judge", "judge_model", "status", "score").unique().rows() == [("j+twice", "j", "ok", 3.0)]
    assert set(judged["judge_output"]) == {"4点\n\nNo, it is not."}
    assert [plugin.name for plugin in spec.plugins if plugin.kind == "judge"] == ["twice"]
    (calls,) = (estimate.calls for estimate in counted if estimate.stage == "judgements")
    assert calls == judged.height


def test_a_judge_of_ones_own_that_says_no_number_is_named(folder: Path) -> None:
    file = folder / "llm_judges/twice.py"
    file.write_text(file.read_text(encoding="utf-8").replace("return max(", "return 'three' or max("), encoding="utf-8")
    with running_mock(script=_twice) as mock, own_engine({}), without_results():
        workspace = Workspace(Settings.from_environment(), environment={})
        place = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
        spec = plan_run(RunRequest(model="m", benchmarks=["manners"], judge_models=["j+twice"], **place), workspace)
        store_run(spec, workspace)
        materialize("answers", spec.run_id, ["manners"], workspace)
        materialize("judgements", spec.run_id, ["manners"], workspace)
    judged = workspace.lake.read("judgements", {"run_id": spec.run_id})
    assert set(judged["error_class"]) == {"TypeError"}
    assert "twice.py: TypeError: score() returned 'three', which is no number" in judged["error_message"][0]


def test_a_prompt_that_is_missing_is_found_before_anything_is_paid_for(folder: Path) -> None:
    shutil.rmtree(folder / "prompts/judging")
    with running_mock(script=answer) as mock, own_engine({}):
        place = {"base_url": mock.base_url, "judge_base_url": mock.base_url}
        request = RunRequest(model="m", benchmarks=["manners"], judge_models=["j"], **place)
        with pytest.raises(ConfigurationError, match=r"judge j cannot be asked about manners: .*primary\.jinja"):
            Evaluation([request], CallOptions()).run()
        assert not mock.bodies


def test_a_broken_benchmark_is_left_out_with_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "benchmarks/manners.yaml").write_text("title: [", encoding="utf-8")
    said: list[str] = []
    monkeypatch.setattr(logging.getLogger("dagster.builtin"), "warning", said.append)
    importlib.reload(definitions)
    assert [f"{folder}/benchmarks/manners.yaml:2: is not valid YAML" in one for one in said] == [True]


def test_everything_is_evaluated_at_once_and_shown_in_sql_and_reports(
    run: tuple[RunSpec, Workspace], mock: MockEndpoint
) -> None:
    spec, workspace = run
    assert {one.name for one in spec.plugins} == {"manners", "capitals", "plain_form", "rule:contains", "longest"}
    sent = [body for body in mock.bodies if body["model"] == "my-model-7b"]
    assert len(sent) == 2 + 2 * 3
    assert all("max_completion_tokens" in body and "max_tokens" not in body for body in sent)
    assert "日本の首都はどこですか。" in {body["messages"][-1]["content"] for body in sent}
    assert {one.split(" ")[0] for one in workspace.lake.read("calls")["price_source"]} == {"my_server.yaml"}

    lake = shaberi.open_lake()
    said = [one for one in lake.scores().remarks if "my-model-7b" in one]
    assert any("max_tokens is sent as max_completion_tokens" in one for one in said)
    scores = lake.sql("from leaderboard").to_dicts()
    manners = {one["pipeline"]: one["score"] for one in scores if one["benchmark"] == "manners"}
    # Judged 4 of 5, reported times 2; one of the two loses a quarter of the range.
    assert manners == {"baseline": 8, "plain_form": 7}
    graded = [one for one in scores if one["benchmark"] == "capitals" and one["pipeline"] == "baseline"]
    assert {(one["strategy"], one["judge"], one["score"]) for one in graded} == {
        (strategy, judge, 0.5)
        for strategy in (None, "single", "longest")
        for judge in ("rule:contains", "rule:contains+my-model-judge")
    }
    assert lake.sql("impolite_models").to_dicts()[0]["model"] == "my-model-7b"
    assert lake.polite(models=["my-model-7b"]).rows() == [("my-model-7b", 2, 4.0, 3.5, 0)]
    report = lake.scores(models=["my-model-7b"])
    assert set(report.frame["benchmark"]) >= {"manners"}


@pytest.fixture(params=["gone", "broken"])
def elsewhere(request: pytest.FixtureRequest, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """After the runs `default` and `again` the plugins are gone, or their code cannot be run."""
    evaluated("again")
    other = tmp_path / "other"
    if request.param == "broken":
        shutil.copytree(folder, other)
        for code in other.rglob("*.py"):
            code.write_text("raise SystemExit('code of a plugin was run')", encoding="utf-8")
    monkeypatch.setenv("SHABERI_PLUGINS", str(other))
    return str(request.param)


@pytest.mark.long
def test_a_run_whose_plugins_are_gone_is_viewed_compared_and_exported_but_not_continued(
    run: tuple[RunSpec, Workspace], elsewhere: str, tmp_path: Path
) -> None:
    spec, workspace = run
    lake = shaberi.open_lake()
    report = lake.scores(models=["my-model-7b"], tags=["default"], pipeline="plain_form")
    lines = "\n".join(score_notes(report))
    assert "manners 1-5, reported ×2" in lines
    assert {(row["benchmark"], row["score"]) for row in report.rows} >= {("manners", 7)}
    assert report.rows[0]["estimate"]
    compared = lake.compare("my-model-7b@@default", "my-model-7b@@again", benchmarks="manners")
    assert compared.sections
    assert lake.sql("select count(*) as n from judgements where benchmark = 'capitals'")["n"][0] > 0
    done = export_run(workspace.lake, spec.run_id, tmp_path / "exported", environment={})
    assert (done.status, done.files > 5) == ("complete", True)
    assert_valid_tree(tmp_path / "exported")
    if elsewhere == "gone":
        again = RunRequest(model="my-model-7b", judge_models=["my-model-judge"], base_url="http://localhost:1/v1")
        with pytest.raises(ConfigurationError, match="has the benchmark manners of a plugin that is not there now"):
            plan_run(again, Workspace(Settings.from_environment(), environment={}))


def test_findings_of_a_pass_that_was_edited_since_do_not_count_for_what_is_planned_now(
    run: tuple[RunSpec, Workspace], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, workspace = run
    found = set(workspace.lake.read("pass_outputs")["pass_config_hash"])
    assert {one.config_hash for pipeline in spec.passes for one in pipeline} == found
    edited = tmp_path / "edited"
    shutil.copytree(folder, edited)
    with (edited / "passes/plain_form.py").open("a", encoding="utf-8") as file:
        file.write("# Finds something else now.\n")
    monkeypatch.setenv("SHABERI_PLUGINS", str(edited))
    again = plan_run(RunRequest(model="my-model-7b"), workspace)
    store_run(again, workspace)
    monkeypatch.setenv("SHABERI_PLUGINS", str(tmp_path / "nowhere"))

    manifest = manifest_of(read_records(workspace.lake, spec.run_id), {})
    planned = {one.config_hash for pipeline in again.passes for one in pipeline}
    assert {one["config_hash"] for one in manifest["passes"]} == found | planned
    states = {name: part["status"] for name, part in manifest["benchmarks"]["manners"]["passes"].items()}
    (before,), (now,) = found, planned
    assert states == {f"plain_form {before[:12]}": "complete", f"plain_form {now[:12]}": "missing"}


@pytest.mark.usefixtures("folder")
def test_a_spec_from_before_passes_had_hashes_is_the_same_spec() -> None:
    spec, _ = planned("default")
    stored = spec.model_dump(mode="json")
    for pipeline in stored["passes"]:
        for one in pipeline:
            assert one.pop("config_hash")
    older = RunSpec.read(stored)
    assert older == spec
    assert older != spec.model_copy(update={"passes": ()})


def test_the_page_says_all_keys_of_a_benchmark_and_no_other() -> None:
    rows = _PAGE.read_text(encoding="utf-8").partition("| key | meaning |")[2].partition("\n## ")[0]
    keys = {key for row in rows.splitlines() for key in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")}
    assert keys == set(Benchmark.__dataclass_fields__) - {"name", "file"}


@pytest.mark.unit
def test_examples_of_plugins_import_from_the_package_itself_alone() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    written = [path.read_text(encoding="utf-8") for path in (_PAGE.parent / "example").rglob("*.py")]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    imports = [
        node
        for text in (*written, *blocks)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shaberi_dagster")
    ]

    assert len(imports) >= 6
    assert {node.module for node in imports} == {"shaberi_dagster"}
    assert all(hasattr(shaberi, alias.name) for node in imports for alias in node.names)
