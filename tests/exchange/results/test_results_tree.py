"""The results/ tree of real runs: what is in it, that it is valid at any moment, and that nothing else is touched."""

import json
import math
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

import polars as pl
import pytest
from aiohttp import web
from scipy import stats

from shaberi_dagster.exchange.caches import import_ensemble
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.results.folder import Folder
from shaberi_dagster.runs.results.results_tree import (
    export_run,
    export_runs,
    export_summary,
    is_exported,
    write_manifest,
)
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.passes import registry
from shaberi_dagster.tasks.passes.base import Finding, Pass, PassConfig
from shaberi_dagster.util.errors import ConfigurationError, EndpointError, ShaberiError
from tests.commands import lake_of
from tests.example_runs import ask, own_engine, stored_run, without_results
from tests.exchange.caches import baseline, response, result, write
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import Options, running_mock
from tests.results_tree import SCHEMAS, assert_valid_tree, documents, problems
from tests.sizes import size

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine")]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "exported"


def evaluated(workspace, mock, **request):
    spec = stored_run(workspace, ask(mock, **request))
    with without_results():  # each test exports what it looks at
        for stage in STAGE_NAMES:
            materialize(stage, spec.run_id, list(spec.benchmarks), workspace)
    return spec


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An endpoint, a run of it that is evaluated, the lake that has the run, and its results."""
    folder = tmp_path_factory.mktemp("kept")
    own, tree = Workspace(Settings.from_environment(lake_of(folder)), environment={}), folder / "exported"
    with own_engine({}), running_mock() as mock:
        spec = evaluated(own, mock)
        export_run(own.lake, spec.run_id, tree, environment={})
        yield mock, spec, own.settings.warehouse, tree


@pytest.fixture
def mock(kept):
    """The endpoint, which behaves as at first."""
    endpoint, *_ = kept
    endpoint.options = Options()
    return endpoint


@pytest.fixture
def spec(kept, workspace):
    """A run on tengu with `judge-a` that is evaluated."""
    _, run, lake, _ = kept
    shutil.copytree(lake, workspace.settings.warehouse)
    return run


@pytest.fixture
def exported_spec(kept, spec, root):
    """The same, whose results are in `root`."""
    *_, tree = kept
    shutil.copytree(tree, root)
    return spec


def exported(workspace, spec, root, **options):
    return export_run(workspace.lake, spec.run_id, root, environment={}, **options)


def rows_in(folder, path):
    return [row for _, row in documents(folder / path)]


def manifest_in(folder):
    return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))


def files_in(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class _Share(PassConfig):
    share: float = 0.1


class _First(Pass[_Share]):
    name, version, config_class = "first", "1", _Share

    def examine(self, _):
        return Finding(self.config.share, "always", {"spans": [[0, 1, "x"]]})


class _Second(_First):
    name, version = "second", "7"

    def examine(self, _):
        return Finding()


@pytest.fixture
def passes(monkeypatch):
    monkeypatch.setattr(registry.PASSES, "use", {"first": _First, "second": _Second}.__getitem__)


def test_a_judge_with_a_prompt_variant_has_files_of_its_own_and_the_manifest_says_whose_it_is(
    workspace, mock, root, tmp_path
):
    prompts = shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")
    rule = prompts / "variants" / "strict" / "judging" / "answer_rule.jinja"
    rule.parent.mkdir(parents=True)
    rule.write_text("厳しく採点してください。", encoding="utf-8")
    elsewhere = Workspace(replace(workspace.settings, prompts=prompts), environment={})
    spec = evaluated(elsewhere, mock, judge_models=["judge-a", "judge-a+strict"])
    folder = root / "mock-model" / "default"

    exported(elsewhere, spec, root)

    assert_valid_tree(root)
    judges = manifest_in(folder)["judges"]
    assert [(judge["name"], judge["model"], judge["prompt_version"]) for judge in judges] == [
        ("judge-a", "judge-a", None),
        ("judge-a+strict", "judge-a", "strict"),
    ]
    hashes = [judge["by_benchmark"]["tengu"]["prompt_hashes"] for judge in judges]
    assert len(hashes[0]) == len(hashes[1]) == 1
    assert hashes[0] != hashes[1]
    rows = rows_in(folder, "artifacts/shaberi/judgements/judge_judge-a%2Bstrict/tengu.jsonl")
    assert {(row["judge"], row["judge_model"]) for row in rows} == {("judge-a+strict", "judge-a")}
    assert [part["status"] for part in manifest_in(folder)["benchmarks"]["tengu"]["judgements"].values()] == [
        "complete",
        "complete",
    ]


@pytest.mark.usefixtures("passes", "spec")
def test_two_settings_of_one_pass_keep_their_scores_apart(workspace, mock, root):
    evaluated(workspace, mock, passes=["first"])
    request = {"passes": ["second", "first"], "pass_options": ["first.share=0.3"]}
    spec = evaluated(workspace, mock, **request)
    folder = root / "mock-model" / "default"

    exported(workspace, spec, root)

    assert_valid_tree(root)
    rows = rows_in(folder, "artifacts/shaberi/passes/first/tengu.jsonl")
    deltas = {(row["pipeline"], row["severity"]): row["delta"] for row in rows if row["original_score"] >= 3}
    assert deltas == {("first", 0.1): -1.0, ("second,first", 0.3): -3.0}
    parts = manifest_in(folder)["benchmarks"]["tengu"]["passes"]
    assert {name.split()[0] for name in parts} == {"first", "second"}
    assert len(parts) == 3


def test_what_has_not_changed_is_not_written_again(workspace, exported_spec, root):
    before = {path: path.stat().st_ino for path in root.rglob("*.json*")}

    done = exported(workspace, exported_spec, root)

    assert (done.written, done.removed) == (0, 0)
    assert {path: path.stat().st_ino for path in root.rglob("*.json*")} == before


@pytest.mark.usefixtures("exported_spec")
def test_a_new_judge_writes_only_what_it_changes(workspace, mock, root):
    before = files_in(root)

    done = exported(workspace, evaluated(workspace, mock, judge_models=["judge-b"]), root)

    after = files_in(root)
    changed = {path.partition("default/")[2] for path in after if before.get(path) != after[path]}
    assert changed == {
        "manifest.json",
        "artifacts/shaberi/judgements/judge_judge-b/tengu.jsonl",
        "artifacts/shaberi/normalized/judgements.jsonl",
        "artifacts/shaberi/normalized/scores.jsonl",
        "artifacts/shaberi/metrics.json",
    }
    assert done.written == len(changed)


@pytest.mark.usefixtures("spec")
def test_files_of_parts_that_are_gone_go_and_files_of_others_stay(workspace, mock, root):
    spec = evaluated(workspace, mock, judge_models=["judge-a", "judge-b"])
    exported(workspace, spec, root)
    folder = root / "mock-model" / "default" / "artifacts" / "shaberi"
    note = folder / "judgements" / "judge_judge-a" / "note.txt"
    note.write_text("mine")
    kept = workspace.lake.read("judgements").filter(judge="judge-a")
    workspace.lake.replace("judgements", kept, {"run_id": spec.run_id})

    done = exported(workspace, spec, root)

    assert done.removed == 1
    assert not (folder / "judgements" / "judge_judge-b").exists()
    assert note.read_text() == "mine"


def test_what_a_folder_that_is_a_link_has_beside_our_files_stays(workspace, exported_spec, root, tmp_path):
    folder = root / "mock-model" / "default" / "artifacts" / "shaberi"
    elsewhere = tmp_path / "elsewhere"
    (folder / "answers").rename(elsewhere)
    (elsewhere / "old.jsonl").write_text("mine")
    (folder / "answers").symlink_to(elsewhere)

    done = exported(workspace, exported_spec, root)

    assert (done.written, done.removed) == (0, 0)
    assert (elsewhere / "old.jsonl").read_text() == "mine"


@pytest.mark.parametrize("level", ["mock-model", "mock-model/default", "mock-model/default/artifacts"])
def test_a_file_in_place_of_a_folder_is_said_and_stays(workspace, mock, root, level):
    spec = stored_run(workspace, ask(mock))
    if level.count("/") == 2:
        exported(workspace, spec, root)
        shutil.rmtree(root / level)
    (root / level).parent.mkdir(parents=True, exist_ok=True)
    (root / level).write_text("mine")

    with pytest.raises(ShaberiError, match="is a file, or in one: move it away"):
        exported(workspace, spec, root)

    assert (root / level).read_text() == "mine"


def test_a_link_in_place_of_a_file_is_replaced_and_its_target_untouched(workspace, exported_spec, root, tmp_path):
    target = tmp_path / "target"
    target.write_text("mine")
    for name in ("artifacts/shaberi/metrics.json", "artifacts/shaberi/answers/other.jsonl"):
        path = root / "mock-model" / "default" / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    done = exported(workspace, exported_spec, root)

    assert (done.written, done.removed) == (1, 1)
    assert target.read_text() == "mine"
    assert_valid_tree(root)


@pytest.mark.parametrize("content", ['{"run_id": "other@@default"}', "[]", "", "{"])
def test_a_folder_with_another_manifest_is_left_alone(workspace, mock, root, content):
    spec = stored_run(workspace, ask(mock))
    manifest = root / "mock-model" / "default" / "manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(content)

    with pytest.raises(ConfigurationError, match="move it away, or name another folder"):
        exported(workspace, spec, root)

    assert files_in(root) == {"mock-model/default/manifest.json": content.encode()}


def test_a_folder_with_other_files_is_left_alone(workspace, mock, root):
    spec = stored_run(workspace, ask(mock))
    mine = root / "mock-model" / "default" / "artifacts" / "mine.jsonl"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")

    with pytest.raises(ConfigurationError, match="is no results folder"):
        exported(workspace, spec, root)

    assert mine.read_text() == "mine"


@pytest.mark.parametrize("tag", ["..", "../../x", "a/b", "", "a\x00b"])
def test_a_row_of_the_lake_with_a_tag_that_leads_out_writes_nothing(workspace, tmp_path, tag):
    now = datetime.now(UTC)
    row = {"run_id": "x", "model": "m", "run_tag": tag, "spec": "{}", "spec_hash": "", "status": "complete"}
    workspace.lake.append("runs", pl.DataFrame([row | {"created_at": now, "updated_at": now}]))

    with pytest.raises(ConfigurationError, match="run tag"):
        export_run(workspace.lake, "x", tmp_path / "deep" / "results", environment={})

    assert not (tmp_path / "deep").exists()


def test_models_whose_names_look_alike_have_folders_of_their_own(workspace, mock, root):
    names = ["a/b", "a__b", "a_/b", "a%2Fb", ".a", "モデル"]
    for name in names:
        exported(workspace, stored_run(workspace, ask(mock, model=name)), root)

    assert assert_valid_tree(root)["manifest"] == len(names)
    assert {manifest_in(path.parent)["model"]["name"] for path in root.glob("*/*/manifest.json")} == set(names)


def test_a_judge_that_fails_is_named_with_the_benchmark_and_its_class(workspace, mock, root):
    def reply(body, _):
        broken = body["model"] == "judge-b" and "FINAL SCORE" in str(body["messages"])
        judging = "FINAL SCORE" in str(body["messages"])
        return web.Response(status=400, text="no") if broken else "FINAL SCORE: 7" if judging else "答え"

    mock.options.script = reply
    spec = evaluated(workspace, mock, judge_models=["judge-a", "judge-b"])

    done = exported(workspace, spec, root)

    assert_valid_tree(root)
    manifest = manifest_in(root / "mock-model" / "default")
    assert done.status == manifest["status"] == "partial"
    benchmark = manifest["benchmarks"]["tengu"]
    assert (benchmark["status"], benchmark["incomplete_parts"]) == ("partial", ["judgements judge-b"])
    assert benchmark["judgements"]["judge-a"]["status"] == "complete"
    judged = benchmark["judgements"]["judge-b"]
    assert (judged["status"], judged["failures"]) == ("error", {"permanent": judged["planned"]})


def test_an_endpoint_that_refuses_us_is_an_error_with_its_reason(workspace, mock, root):
    spec = stored_run(workspace, ask(mock))
    materialize("answers", spec.run_id, ["tengu"], workspace)
    mock.options.key = "wanted"
    with pytest.raises(EndpointError):
        materialize("judgements", spec.run_id, ["tengu"], workspace)

    exported(workspace, spec, root)

    assert_valid_tree(root)
    manifest = manifest_in(root / "mock-model" / "default")
    benchmark = manifest["benchmarks"]["tengu"]
    assert manifest["status"] == benchmark["status"] == "error"
    assert mock.base_url in benchmark["error"]
    assert benchmark["incomplete_parts"] == ["judgements judge-a"]
    assert benchmark["judgements"]["judge-a"]["status"] == "missing"
    assert manifest["finished_at"] is None


def test_of_a_key_there_is_only_a_part_of_its_hash(workspace, mock, root):
    key = "sk-very-secret-0123456789"
    mock.options.key = key
    environment = {"MY_KEY": key, "SHABERI_KEY_HOSTS": "MY_KEY=127.0.0.1"}
    with own_engine(environment):
        request = {"api_key_variable": "MY_KEY", "judge_api_key_variable": "MY_KEY"}
        spec = evaluated(workspace, mock, **request)

    export_run(workspace.lake, spec.run_id, root, environment=environment)

    model = manifest_in(root / "mock-model" / "default")["model"]
    assert model["api_key_sha256"] == sha256(key.encode()).hexdigest()[:12]
    assert not any(key.encode() in content for content in files_in(root).values())
    for unbound in ({"MY_KEY": key}, {}):
        export_run(workspace.lake, spec.run_id, root, environment=unbound)
        assert manifest_in(root / "mock-model" / "default")["model"]["api_key_sha256"] is None


def test_a_known_price_is_summed_per_stage(workspace, spec, root):
    calls = workspace.lake.read("calls").with_columns(cost_usd=pl.lit(0.25), price_source=pl.lit("a list"))
    workspace.lake.replace("calls", calls, {"run_id": spec.run_id})

    exported(workspace, spec, root)

    cost = manifest_in(root / "mock-model" / "default")["cost"]
    assert cost["by_stage"]["generation"]["total"]["cost_usd"] == 0.25 * calls.filter(stage="answers").height
    assert cost["total"]["price_sources"] == ["a list"]


def test_a_compact_export_has_pointers_in_place_of_long_texts(workspace, mock, root):
    mock.options.script = lambda body, _: "考" * 3000 + "\nFINAL SCORE: 7" if "FINAL SCORE" in str(body) else "答え"
    spec = evaluated(workspace, mock)
    folder = root / "mock-model" / "default" / "artifacts" / "shaberi"
    whole = exported(workspace, spec, root)

    compact = exported(workspace, spec, root, compact=True)

    assert_valid_tree(root)
    assert compact.size < whole.size
    (judgement, *_) = rows_in(folder, "normalized/judgements.jsonl")
    assert judgement["judge_output"] is judgement["answer"] is None
    assert judgement["reasoning"] == "考" * 1000 + "…"
    file, _, line = judgement["judge_output_pointer"].partition("#")
    assert len(dict(documents(folder / file))[int(line)]["judge_output"]) > 3000
    assert rows_in(folder, "normalized/answers.jsonl")[0]["answer"] == "答え"
    assert exported(workspace, spec, root).size == whole.size


def test_a_summary_has_the_statistics_over_the_runs(workspace, mock, root):
    benchmarks = ["tengu", "rakuda"]
    evaluated(workspace, mock, tag="july-run1", benchmarks=benchmarks, limit=1)
    metrics = workspace.lake.read("metrics")
    for number, score in enumerate((4, 6, 9), start=1):
        spec = stored_run(workspace, ask(mock, tag=f"july-run{number}", benchmarks=benchmarks, limit=1))
        names = {"run_id": spec.run_id, "run_tag": spec.run_tag, "run_number": number, "score": float(score)}
        own = metrics.with_columns(**{name: pl.lit(value) for name, value in names.items()})
        workspace.lake.replace("metrics", own, {"run_id": spec.run_id})

    path = export_summary(workspace.lake, "mock-model", "july", root)

    assert path == root / "mock-model" / "july.summary.json"
    assert assert_valid_tree(root)["summary"] == 1
    summary = json.loads(path.read_text(encoding="utf-8"))
    assert [run["run_tag"] for run in summary["runs"]] == ["july-run1", "july-run2", "july-run3"]
    found = {row["benchmark"]: row for row in summary["statistics"] if row["null_policy"] == "legacy"}
    assert set(found) == {"tengu", "rakuda", "overall"}
    for row in found.values():
        assert (row["values"], row["n"], row["min"], row["max"]) == ([4, 6, 9], 3, 4, 9)
        assert row["mean"] == pytest.approx(19 / 3)
        assert row["sd"] == pytest.approx(math.sqrt(19 / 3))
        low, high = stats.t.interval(0.95, 2, 19 / 3, math.sqrt(19 / 3) / math.sqrt(3))
        assert row["confidence_interval"] == pytest.approx([low, high])
        assert row["margin_of_error"] == pytest.approx((high - low) / 2)


def test_of_one_run_spread_and_margin_are_null(workspace, mock, root):
    evaluated(workspace, mock, tag="one-run1")

    summary = json.loads(export_summary(workspace.lake, "mock-model", "one", root).read_text(encoding="utf-8"))

    assert assert_valid_tree(root)["summary"] == 1
    assert summary["statistics"]
    for row in summary["statistics"]:
        assert row["sd"] is row["margin_of_error"] is row["confidence_interval"] is None


@pytest.mark.usefixtures("spec")
def test_there_is_no_summary_of_runs_that_do_not_exist(workspace, root):
    assert export_summary(workspace.lake, "mock-model", "nothing", root) is None
    assert not root.exists()


def test_several_runs_are_chosen_by_model_and_tag(workspace, mock, root):
    for tag in ("default", "july-run1", "july-run2"):
        stored_run(workspace, ask(mock, tag=tag, limit=1))
    seen = []

    done = export_runs(workspace.lake, root, tags=["july"], environment={}, changed=lambda line: seen.append(line.done))

    assert [run.run_id for run in done.runs] == ["mock-model@@july-run1", "mock-model@@july-run2"]
    assert (len(done.summaries), done.failed, seen) == (1, {}, [1, 2])
    assert assert_valid_tree(root)["manifest"] == 2
    with pytest.raises(ConfigurationError, match="no model 'nobody'; the lake has mock-model"):
        export_runs(workspace.lake, root, models=["nobody"], environment={})


def test_a_run_that_cannot_be_exported_does_not_keep_back_the_others(workspace, mock, root):
    for tag in ("one", "two"):
        stored_run(workspace, ask(mock, tag=tag, limit=1))
    (root / "mock-model").mkdir(parents=True)
    (root / "mock-model" / "one").write_text("in the way")

    done = export_runs(workspace.lake, root, environment={})

    assert [run.run_id for run in done.runs] == ["mock-model@@two"]
    assert "is a file, or in one" in done.failed["mock-model@@one"]


def test_an_imported_run_has_nulls_where_nothing_was_recorded(workspace, tmp_path, root):
    tree = LegacyTree(tmp_path / "tree")
    tree.answers("elyza", rows_of("elyza", ["一", "<think>ええと</think>二", None, ""]))
    scores = [5, {"score": 4}, None, 1]
    tree.judgements("elyza", rows_of("elyza", ["一", "二", None, ""], scores, judge_output="FINAL SCORE: 5"))
    tree.judgements("rakuda", rows_of("rakuda", ["r"], [9.0]), judge="gpt-4.1-2025-04-14")
    import_trees(ImportRequest({"tree": tree.root}), workspace)

    done = export_runs(workspace.lake, root, environment={})

    counts = assert_valid_tree(root)
    assert (counts["manifest"], counts["answer"], counts["judgement"]) == (1, 5, 5)
    manifest = manifest_in(next(root.glob("*/legacy-tree")))
    assert done.runs[0].status == "partial"
    assert manifest["is_imported"]
    known = {name: value for name, value in manifest["model"]["parameters"].items() if value is not None}
    assert known == {"samples": 1}
    assert manifest["tokens"]["total"]["prompt_tokens"] is manifest["cost"]["total"]["cost_usd"] is None
    assert {judge["name"]: judge["prompt_version"] for judge in manifest["judges"]} == {
        "gpt-4-turbo-preview": "P1 or P2",
        "gpt-4.1-2025-04-14": "P2 or P3",
    }
    assert manifest["benchmarks"]["elyza"]["judgements"]["gpt-4-turbo-preview"]["failures"] == {
        "no_score": 1,
        "object_score": 1,
    }


def test_questions_that_must_not_be_published_again_are_left_out(workspace, tmp_path, root):
    names = ("gpqa", "hle")
    import_ensemble(
        [write(tmp_path / f"{name}.json", baseline(result("q1", response("4")), dataset=name)) for name in names],
        workspace,
    )

    export_runs(workspace.lake, root, environment={})

    assert {path.stem for path in root.rglob("responses/*")} == set(names)
    assert assert_valid_tree(root)["answer"] == 2
    assert not any(b"What is q1?" in content for content in files_in(root).values())


@pytest.mark.acceptance
def test_an_interrupted_export_leaves_a_valid_manifest_and_the_next_one_completes_it(
    workspace, spec, root, monkeypatch
):
    write_one, left = Folder.write, []

    def failing(folder, path, content):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return write_one(folder, path, content)

    for writes in range(1, 7, size(2, 1)):
        before = files_in(root) if root.exists() else {}
        left = [None] * writes
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", failing)
            with pytest.raises(KeyboardInterrupt):
                exported(workspace, spec, root)

        content = json.loads((root / "mock-model" / "default" / "manifest.json").read_text(encoding="utf-8"))
        assert problems("manifest", content) == []
        assert before.items() <= files_in(root).items()
    exported(workspace, spec, root)
    assert assert_valid_tree(root)["manifest"] == 1


def test_a_manifest_alone_is_valid_and_says_running_until_the_other_files_are_there(workspace, mock, root):
    spec = stored_run(workspace, ask(mock))
    place = root / "mock-model" / "default"
    for stage in ("", "answers", "judgements", "scores", "metrics"):
        if stage:
            materialize(stage, spec.run_id, ["tengu"], workspace)
        write_manifest(workspace.lake, spec.run_id, root, environment={})

        content = manifest_in(place)
        assert problems("manifest", content) == []
        assert content["status"] == "running"
        assert [path.name for path in place.iterdir()] == ["manifest.json"]
        assert not is_exported(workspace.lake, spec.run_id, root)
        missing = {"": ["answers", "judgements judge-a"], "answers": ["judgements judge-a"]}.get(stage, [])
        assert content["benchmarks"]["tengu"]["incomplete_parts"] == missing

    exported(workspace, spec, root)

    assert manifest_in(place) == content | {"status": "complete"}
    assert is_exported(workspace.lake, spec.run_id, root)


def test_results_that_are_gone_are_not_exported(workspace, mock, root, tmp_path):
    spec = evaluated(workspace, mock, tag="july-run1", limit=1)
    export_runs(workspace.lake, tmp_path / "whole")
    for gone in ("artifacts/shaberi/metrics.json", "../july.summary.json", ".", "manifest.json"):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", root)
        assert is_exported(workspace.lake, spec.run_id, root)
        victim = root / "mock-model" / "july-run1" / gone

        shutil.rmtree(victim) if victim.is_dir() else victim.unlink()

        assert not is_exported(workspace.lake, spec.run_id, root), gone


@pytest.mark.acceptance
def test_writers_of_one_run_take_turns_and_readers_always_find_whole_files(workspace, exported_spec, root):
    manifest = root / "mock-model" / "default" / "manifest.json"
    metrics = root / "mock-model" / "default" / "artifacts" / "shaberi" / "metrics.json"
    ended, wrong = threading.Event(), []

    def write_often(compact):
        try:
            for turn in range(size(2, 6)):
                environment = {"X": str(turn)}
                export_run(
                    workspace.lake.__class__(workspace.lake.folder),
                    exported_spec.run_id,
                    root,
                    compact=compact,
                    environment=environment,
                )
        except BaseException as error:  # noqa: BLE001 - told below
            wrong.append(error)

    def read_often():
        while not ended.wait(0.01):
            for path, schema in ((manifest, "manifest"), (metrics, "metrics")):
                wrong.extend(problems(schema, json.loads(path.read_bytes())))

    reader = threading.Thread(target=read_often)
    writers = [threading.Thread(target=write_often, args=(compact,)) for compact in (True, False, True)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    reader.join()

    assert wrong == []
    assert_valid_tree(root)


def test_what_a_killed_writer_left_is_cleared_away(workspace, exported_spec, root):
    left = root / "mock-model" / "default" / "artifacts" / "shaberi" / f".{'0' * 32}"
    left.write_text("{")

    exported(workspace, exported_spec, root)

    assert not left.exists()


def test_a_first_export_that_was_killed_before_its_manifest_is_taken_up(workspace, spec, root):
    (root / "mock-model" / "default").mkdir(parents=True)
    (root / "mock-model" / "default" / f".{'0' * 32}").write_text("{")

    exported(workspace, spec, root)

    assert (root / "mock-model" / "default" / "manifest.json").is_file()


@pytest.mark.usefixtures("passes")
def test_every_schema_refuses_a_missing_and_an_unknown_field(workspace, mock, root):
    spec = evaluated(workspace, mock, tag="july-run1", passes=["first"], limit=1)
    _store_consensus(workspace, spec)
    exported(workspace, spec, root)
    export_summary(workspace.lake, "mock-model", "july", root)
    ensemble_folder = "july-run1/artifacts/ensemble"
    found = {
        "summary": "july.summary.json",
        "manifest": "july-run1/manifest.json",
        "metrics": f"{ensemble_folder}/metrics.json",
        "answer": f"{ensemble_folder}/responses/tengu.jsonl",
        "consensus": f"{ensemble_folder}/consensus/elo/tengu.jsonl",
        "judgement": f"{ensemble_folder}/evaluations/tengu.jsonl",
        "pass": f"{ensemble_folder}/passes/first/tengu.jsonl",
        "normalized_answer": f"{ensemble_folder}/normalized/answers.jsonl",
        "normalized_judgement": f"{ensemble_folder}/normalized/judgements.jsonl",
        "normalized_score": f"{ensemble_folder}/normalized/scores.jsonl",
    }
    of_others = {"quick-eval.schema.json", "run-request.schema.json"}
    assert {f"{schema}.schema.json" for schema in found} == {
        path.name for path in SCHEMAS.iterdir() if path.name not in of_others
    }
    for schema, path in found.items():
        (document, *_) = rows_in(root / "mock-model", path)
        assert problems(schema, document) == []
        assert problems(schema, document | {"unknown": 1}), schema
        for name in document:
            assert problems(schema, {key: value for key, value in document.items() if key != name}), (schema, name)


def _store_consensus(workspace, spec):
    """Rows as a strategy leaves them that takes the answers as they are."""
    answers = workspace.lake.read("answers", {"run_id": spec.run_id})
    merged = answers.select(
        *("run_id", "model", "run_tag", "benchmark", "question_set", "question_id", "answer", "answer_hash", "status"),
        *("created_at", "answer_state"),
        strategy=pl.lit("elo"),
        details=pl.lit('{"ratings": [1200]}'),
    )
    workspace.lake.append("consensus", merged)
