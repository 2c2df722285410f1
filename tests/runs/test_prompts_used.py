"""What is recorded of prompts: that it is all that was said, once, under names that stay."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.statements import default_parameters
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.prompts_used import UsedPrompt, record_prompts
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.ordered import STAGE_NAMES, stage_named
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import Settings
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.llm import LLMJudge
from shaberi_dagster.tasks.prompts.library import Template, fallback_messages
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_json
from tests.example_runs import ask, items_of, materialized, stored_run
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("engine", "results_left_out")]

_ROOT = Path(__file__).parents[1]


@pytest.fixture
def edited(workspace: Workspace, tmp_path: Path) -> Workspace:
    """The same lake, with prompts of which `_edit` can change one; and the variant `strict`."""
    prompts = shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")
    variant = prompts / "variants" / "strict" / "judging"
    variant.mkdir(parents=True)
    (variant / "answer_rule.jinja").write_text("厳しく採点してください。", encoding="utf-8")
    return Workspace(replace(workspace.settings, prompts=prompts), environment={})


def _edit(workspace: Workspace, template: str, text: str) -> Workspace:
    path = workspace.settings.prompts / f"{template}.jinja"
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    return Workspace(workspace.settings, environment={})


def _prompts(workspace: Workspace) -> pl.DataFrame:
    with connect(workspace.lake) as connection:
        return pl.DataFrame(connection.sql("from prompts order by created_at, label, position").to_arrow_table())


def _labels(workspace: Workspace) -> list[str]:
    return sorted(_prompts(workspace)["label"].unique())


def _asked(workspace: Workspace, query: str, **values: Any) -> list[dict[str, Any]]:
    path = workspace.settings.sql / "queries" / f"{query}.sql"
    with connect(workspace.lake) as connection:
        found = connection.sql(path.read_text(encoding="utf-8"), params=default_parameters(path) | values)
        return pl.DataFrame(found.to_arrow_table()).to_dicts()


def test_every_hash_of_a_run_has_its_texts_and_they_are_the_templates(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock, benchmarks=["tengu", "rakuda"]))
    materialized(spec, workspace, "answers", "judgements")
    prompts = _prompts(workspace)
    for prompt_hash, own in prompts.sort("position").group_by("prompt_hash"):
        assert own["position"].to_list() == list(range(1, own.height + 1))
        assert sha256_json(own["source"].to_list()) == prompt_hash[0], "the texts are the hash"
        assert own["label"].n_unique() == 1
    for file, source in prompts.select("file", "source").iter_rows():
        assert (workspace.settings.prompts / file).read_text(encoding="utf-8") == source
    stored = set(workspace.lake.read("answers")["prompt_hash"]) | set(
        workspace.lake.read("judgements")["judge_prompt_hash"]
    )
    fallback = workspace.prompts.prompt_hash("judging/fallback")
    assert set(prompts["prompt_hash"]) == stored | {fallback}
    found = prompts.select("label", "purpose", "variant").unique().sort("label").rows()
    assert found == [
        ("generation-user v1", "generation", None),
        ("judging-fallback v1", "judging fallback", None),
        ("rakuda-primary v1", "judging primary", None),
        ("tengu-primary v1", "judging primary", None),
    ]


def _restored(workspace: Workspace, folder: Path, prompt_hashes: Sequence[str]) -> Workspace:
    """The same lake with prompts that are made of what it recorded, and of nothing else."""
    for row in workspace.lake.read("prompts", {"prompt_hash": prompt_hashes}).iter_rows(named=True):
        path = folder / f"{row['template']}.jinja"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(row["source"], encoding="utf-8")
    return Workspace(replace(workspace.settings, prompts=folder), environment={})


def test_recorded_texts_make_the_very_same_requests_again(edited: Workspace, tmp_path: Path) -> None:
    def says(body: dict[str, Any], _: int) -> str:
        return "答え" if body["model"] == "mock-model" else "良い"

    with running_mock(script=says) as mock:
        spec = stored_run(edited, ask(mock, judge_models=["judge-a+strict"], limit=2))
        materialized(spec, edited, "answers", "judgements")
    shutil.rmtree(edited.settings.prompts)
    answers, judgements = edited.lake.read("answers"), edited.lake.read("judgements")

    restored = _restored(edited, tmp_path / "generation", answers["prompt_hash"].unique().to_list())
    requests = {item.request.request_hash for item in items_of("answers", spec, restored)}
    assert requests == set(answers["request_hash"])

    fallback = edited.lake.read("prompts").filter(purpose="judging fallback")["prompt_hash"]
    restored = _restored(edited, tmp_path / "judging", [*judgements["judge_prompt_hash"], *fallback])
    plain = [judge.model_copy(update={"prompt": None}) for judge in spec.judges]
    settings = spec.benchmarks["tengu"].model_copy(update={"judges": ("judge-a",)})
    same = spec.model_copy(update={"judges": tuple(plain), "benchmarks": {"tengu": settings}})
    items = items_of("judgements", same, restored)
    assert {item.request.request_hash for item in items if item.request} == set(judgements["request_hash"])
    assert {item.judge.prompt_hash for item in items} == set(judgements["judge_prompt_hash"])

    entry = get_benchmark("tengu")
    judge = LLMJudge(plain[0], entry, restored.prompts)
    second: set[ChatRequest] = {judge._chat(fallback_messages(restored.prompts, entry, "良い"))}
    assert {request.request_hash for request in second} == set(judgements["fallback_request_hash"])


def test_an_edited_template_is_a_new_version_and_the_old_one_keeps_its_label(
    edited: Workspace, mock: MockEndpoint
) -> None:
    spec = stored_run(edited, ask(mock))
    materialized(spec, edited)
    first = edited.lake.read("prompts")
    for number in (2, 3):
        workspace = _edit(edited, "judging/tengu/primary", f"\n追記{number}。")
        materialized(spec, workspace, "judgements")
    assert [label for label in _labels(edited) if "primary" in label] == [f"tengu-primary v{n}" for n in (1, 2, 3)]
    again = _prompts(edited)
    assert again.join(first, on=again.columns, how="semi", nulls_equal=True).height == first.height
    assert again.filter(label="tengu-primary v3", template="judging/tengu/primary")["source"][0].endswith("追記3。")
    versions = _asked(edited, "prompt_versions")
    assert [row["label"] for row in versions] == [f"tengu-primary v{n}" for n in (1, 2, 3)]


def test_back_to_an_old_text_is_the_old_version(edited: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(edited, ask(mock))
    path = edited.settings.prompts / "judging" / "tengu" / "primary.jinja"
    before = path.read_bytes()
    materialized(spec, edited, "answers", "judgements")
    materialized(spec, _edit(edited, "judging/tengu/primary", "\n追記。"), "judgements")
    path.write_bytes(before)
    rows = edited.lake.read("prompts").height
    materialized(spec, Workspace(edited.settings, environment={}), "judgements")
    assert edited.lake.read("prompts").height == rows


def test_a_variant_is_recorded_as_its_own_and_what_it_leaves_alone_is_not(
    edited: Workspace, mock: MockEndpoint
) -> None:
    spec = stored_run(edited, ask(mock, judge_models=["judge-a", "judge-a+strict"]))
    materialized(spec, edited, "answers", "judgements")
    assert _labels(edited) == [
        "generation-user v1",
        "judging-fallback v1",
        "tengu-primary v1",
        "tengu-primary+strict v1",
    ]
    strict = _prompts(edited).filter(variant="strict")
    assert "variants/strict/judging/answer_rule.jinja" in strict["file"].to_list()
    assert "judging/tengu/primary.jinja" in strict["file"].to_list()
    assert set(strict["prompt_hash"]) < set(edited.lake.read("judgements")["judge_prompt_hash"])


def test_a_pass_that_asks_a_model_is_recorded_and_one_that_does_not_is_not(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    options = ["safety_check.model=guard"]
    spec = stored_run(workspace, ask(mock, passes=["lang_mixing", "safety_check"], pass_options=options))
    materialized(spec, workspace, "answers", "pass_outputs")
    prompts = _prompts(workspace).filter(pl.col("purpose") != "generation")
    assert prompts.select("label", "purpose").unique().rows() == [("safety_check-detection v1", "pass:safety_check")]
    assert set(prompts["prompt_hash"]) == set(workspace.lake.read("pass_outputs")["pass_prompt_hash"].drop_nulls())


def _used(spec: RunSpec, stage: str, workspace: Workspace, judges: Sequence[str] = ()) -> list[UsedPrompt]:
    return list(stage_named(stage).prompts(RunPlan(spec, ["tengu"], workspace, judges)))


def test_what_is_known_is_not_written_again_and_stages_without_calls_use_none(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    spec = stored_run(workspace, ask(mock))
    materialized(spec, workspace)
    version = workspace.lake.versions()["prompts"]
    materialized(spec, workspace)
    assert workspace.lake.versions()["prompts"] == version
    assert [_used(spec, stage, workspace) for stage in ("scores", "metrics", "consensus")] == [[]] * 3
    for stage in STAGE_NAMES:
        assert record_prompts(workspace.lake, _used(spec, stage, workspace)) == []


def test_a_generation_prompt_that_the_run_refuses_is_not_recorded(edited: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(edited, ask(mock))
    workspace = _edit(edited, "generation/user", "追記")
    assert _used(spec, "answers", workspace) == []
    with pytest.raises(ConfigurationError, match="has changed since run"):
        materialized(spec, workspace, "answers")
    assert _prompts(workspace).is_empty()


def _one(name: str, *sources: str) -> UsedPrompt:
    templates = [Template(f"judging/{name}/{n}", f"judging/{name}/{n}.jinja", text) for n, text in enumerate(sources)]
    return UsedPrompt("judging primary", name, tuple(templates))


def test_numbers_go_on_after_the_last_of_the_same_name_even_if_a_name_ends_like_one(settings: Settings) -> None:
    lake = Lake(settings.warehouse)
    assert record_prompts(lake, [_one("a", "1"), _one("a v2", "2"), _one("a", "3")]) == ["a v1", "a v2 v1", "a v2"]
    assert record_prompts(lake, [_one("a", "4"), _one("b", "3"), _one("a v2", "5")]) == ["a v3", "a v2 v2"]
    assert record_prompts(lake, []) == []


def test_the_view_shows_a_prompt_once_even_if_it_was_recorded_twice(workspace: Workspace) -> None:
    record_prompts(workspace.lake, [_one("a", "1", "2")])
    rows = workspace.lake.read("prompts")
    workspace.lake.append("prompts", rows.with_columns(pl.col("created_at").dt.offset_by("1h"), label=pl.lit("a v9")))
    assert _prompts(workspace).select("position", "label").rows() == [(1, "a v1"), (2, "a v1")]


_RECORDER = """
import sys
from shaberi_dagster.tasks.prompts.library import Template
from shaberi_dagster.runs.prompts_used import UsedPrompt, record_prompts
from shaberi_dagster.settings import Settings
from shaberi_dagster.runs.workspace import Workspace
lake = Workspace(Settings.from_environment(), environment={}).lake
print("ready", flush=True)
sys.stdin.readline()
for number in range(4):
    for text in (f"both {number}", f"{sys.argv[1]} {number}"):
        record_prompts(lake, [UsedPrompt("generation", "a", (Template("t", "t.jinja", text),))])
"""


@pytest.mark.long
def test_two_processes_that_record_at_once_never_give_a_number_twice(settings: Settings) -> None:
    recorders = [
        subprocess.Popen(
            [sys.executable, "-c", _RECORDER, name], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in ("left", "right")
    ]
    for one in recorders:
        assert one.stdout
        assert one.stdout.readline() == "ready\n"
    for one in recorders:
        assert one.stdin
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in recorders:
        one.communicate(timeout=120)
        assert one.returncode == 0
    rows = Lake(settings.warehouse).read("prompts")
    assert sorted(rows["source"]) == sorted(f"{who} {n}" for who in ("both", "left", "right") for n in range(4))
    assert sorted(rows["label"]) == sorted(f"a v{n}" for n in range(1, 13))
