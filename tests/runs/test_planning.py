import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shaberi_dagster.lake.journal.records import Call, Usage
from shaberi_dagster.runs.planning import add_pipeline, judged_again, named_judges, plan_run
from shaberi_dagster.runs.questions import load_questions, store_question_set, stored_question_set
from shaberi_dagster.runs.spec import CallOptions, RunRequest, RunSpec
from shaberi_dagster.runs.stored import load_run, store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.consensus.registry import DEFAULT_STRATEGIES
from shaberi_dagster.util.errors import ConfigurationError
from tests.example_runs import ask, frozen, stored_run, write_questions
from tests.mock_endpoint import MockEndpoint

pytestmark = pytest.mark.integration

_URL = "http://127.0.0.1:9/v1"
_OTHER = "http://127.0.0.1:7/v1"


def _ask(**values: Any) -> RunRequest:
    settings = {"model": "m", "base_url": _URL, "judge_models": ["j"], "judge_base_url": _URL, "benchmarks": ["rakuda"]}
    return RunRequest.model_validate(settings | values)


def _stored(workspace: Workspace, **values: Any) -> RunSpec:
    spec = plan_run(_ask(**values), workspace)
    store_run(spec, workspace)
    return spec


def _begun(workspace: Workspace, request: RunRequest) -> RunSpec:
    """A stored run whose settings are frozen."""
    spec = stored_run(workspace, request)
    frozen(spec, workspace)
    return spec


def _with(workspace: Workspace, **folders: Path | None) -> Workspace:
    """The same lake, with other folders."""
    return Workspace(replace(workspace.settings, **folders), environment={})


@pytest.fixture
def prompts(workspace: Workspace, tmp_path: Path) -> Path:
    """A copy of the prompts to change."""
    return shutil.copytree(workspace.settings.prompts, tmp_path / "prompts")


def test_what_an_llm_judges_takes_a_judge_that_is_named_once(workspace: Workspace) -> None:
    both = ["rakuda", "gsm8k", "tengu"]
    with pytest.raises(ConfigurationError, match=r"^rakuda, tengu are judged by an LLM"):
        plan_run(_ask(judge_models=None, benchmarks=both), workspace)
    assert plan_run(_ask(judge_models=None, benchmarks=["gsm8k"]), workspace).judges == ()
    assert plan_run(_ask(judge_models=None), workspace, is_judged=False).benchmarks["rakuda"].judges == ()

    _stored(workspace, judge_models=["j"])
    assert plan_run(_ask(judge_models=None, benchmarks=both), workspace).benchmarks["tengu"].judges == ("j",)


def test_a_run_without_named_benchmarks_is_about_its_own_else_all(workspace: Workspace) -> None:
    assert list(plan_run(_ask(benchmarks=None), workspace).benchmarks) == ["elyza", "tengu", "mt_bench", "rakuda"]

    spec = _stored(workspace, benchmarks=["tengu", "gsm8k"])
    assert plan_run(_ask(benchmarks=None), workspace) == spec
    assert len(plan_run(_ask(benchmarks=["all"]), workspace).benchmarks) == 5


def test_a_real_model_and_judge_get_the_settings_of_the_suite(workspace: Workspace) -> None:
    spec = plan_run(_ask(), workspace)
    rakuda, judge = spec.benchmarks["rakuda"], spec.judges[0]
    assert (rakuda.temperature, rakuda.max_tokens, rakuda.frequency_penalty, rakuda.samples) == (0.2, 6000, 0.0, 1)
    assert (judge.temperature, judge.max_tokens, judge.score_rounding, judge.rounds) == (0.0, 4096, "none", {})


def test_a_stored_run_is_what_is_not_asked_for_again(workspace: Workspace) -> None:
    spec = _stored(
        workspace,
        temperature=0.7,
        max_tokens=77,
        frequency_penalty=0.5,
        judge_models=["j", "k"],
        judge_temperature=0.3,
        judge_max_tokens=99,
        score_rounding="legacy",
        api_key_variable="MY_KEY",
        judge_api_key_variable="JUDGE_KEY",
    )
    assert plan_run(RunRequest(model="m", benchmarks=["rakuda"]), workspace) == spec
    assert plan_run(_ask(judge_models=["k"]), workspace) == spec, "the same URL is no other endpoint"


def test_a_stored_run_keeps_its_questions_when_none_are_asked_for(workspace: Workspace, tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "own", 3)
    spec = _stored(workspace, questions=str(folder))
    assert spec.benchmarks["rakuda"].question_set.startswith("rakuda@3-")
    assert plan_run(_ask(), workspace) == spec


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"temperature": 0.5}, ["temperature 0.2, not 0.5"]),
        ({"max_tokens": 5}, ["max tokens 6000, not 5"]),
        ({"frequency_penalty": 1.0}, ["frequency penalty 0.0, not 1.0"]),
        ({"temperature": 0.5, "max_tokens": 5}, ["temperature 0.2, not 0.5", "max tokens 6000, not 5"]),
    ],
)
def test_a_contradiction_is_refused_with_both_values_and_what_to_do(
    asked: dict[str, Any], named: list[str], workspace: Workspace
) -> None:
    spec = _begun(workspace, _ask())
    with pytest.raises(ConfigurationError) as refusal:
        plan_run(_ask(**asked), workspace)
    for text in [*named, "--tag", spec.run_id]:
        assert text in str(refusal.value)
    assert plan_run(_ask(tag="other", **asked), workspace).run_tag == "other"


def test_other_questions_under_the_same_tag_are_refused_naming_both_sets(workspace: Workspace, tmp_path: Path) -> None:
    _begun(workspace, _ask())
    folder = write_questions(tmp_path / "own", 3)
    elsewhere = _with(workspace, datasets=folder)
    assert plan_run(_ask(), elsewhere).benchmarks["rakuda"].question_set == "rakuda@5", "the command named no others"
    with pytest.raises(ConfigurationError, match=r"question set rakuda@5, not rakuda@3-[0-9a-f]{8}.*--tag"):
        plan_run(_ask(questions=str(folder)), elsewhere)
    other = _begun(elsewhere, _ask(tag="other"))
    assert other.benchmarks["rakuda"].n_questions == 3
    with pytest.raises(ConfigurationError, match=r"question set rakuda@3-[0-9a-f]{8}, not rakuda@5.*--tag"):
        plan_run(_ask(tag="other", questions="starter"), elsewhere)


def test_a_question_file_that_was_edited_is_another_set(workspace: Workspace, tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "own", 3)
    elsewhere = _with(workspace, datasets=folder)
    _begun(elsewhere, _ask())
    file = folder / "rakuda.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace("質問1", "質問１"), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"question set rakuda@3-\w+, not rakuda@3-\w+"):
        plan_run(_ask(), elsewhere)


def test_benchmarks_judges_and_questions_within_the_limit_can_be_added(workspace: Workspace) -> None:
    first = _stored(workspace, limit=2)
    wider = plan_run(_ask(benchmarks=["tengu"], judge_models=["k"], limit=3), workspace)
    assert list(wider.benchmarks) == ["tengu", "rakuda"]
    assert wider.benchmarks["rakuda"] == first.benchmarks["rakuda"]
    assert [judge.model for judge in wider.judges] == ["j", "k"]
    assert (wider.n_planned("tengu"), wider.n_planned("rakuda")) == (3, 2), "the one that is named"
    store_run(wider, workspace)
    assert load_run(workspace.lake, first.run_id) == wider


@pytest.mark.parametrize(
    ("before", "asked", "limit"), [(4, 2, 4), (4, None, 4), (2, 4, 4), (4, "all", None), (None, 2, None)]
)
def test_a_limit_only_grows_and_stays_where_none_is_named(
    before: int | None, asked: int | str | None, limit: int | None, workspace: Workspace
) -> None:
    _stored(workspace, limit=before)
    assert plan_run(_ask(limit=asked), workspace).limit == limit


def test_another_setting_of_a_judge_is_taken_without_naming_it_again(workspace: Workspace) -> None:
    _stored(workspace, judge_models=["j", "k"])
    changed = plan_run(RunRequest(model="m", benchmarks=["rakuda"], judge_temperature=0.5), workspace)
    assert [(judge.model, judge.temperature) for judge in changed.judges] == [("j", 0.5), ("k", 0.5)]
    assert [judge.endpoint.base_url for judge in changed.judges] == [_URL, _URL]


def test_the_key_of_a_judge_is_never_sent_to_its_new_address(workspace: Workspace) -> None:
    _stored(workspace, judge_models=["gpt-5.1"], judge_base_url=None)
    moved = plan_run(_ask(judge_models=["gpt-5.1"]), workspace)
    assert (moved.judges[0].endpoint.base_url, moved.judges[0].endpoint.api_key_variable) == (_URL, "SHABERI_API_KEY")


def test_until_a_call_has_succeeded_the_settings_of_a_run_are_replaced(workspace: Workspace) -> None:
    first = _stored(workspace, benchmarks=["rakuda", "tengu"], temperature=0.3, limit=4)
    keys = {"run_id": first.run_id, "model": "m", "run_tag": "default", "benchmark": "tengu", "question_set": "tengu@5"}
    failed = keys | {"question_id": "q", "sample_index": 0, "status": "error", "created_at": datetime.now(UTC)}
    workspace.lake.append("answers", pl.DataFrame([failed]))

    second = _stored(workspace, temperature=0.5)

    rakuda = second.benchmarks["rakuda"]
    assert (list(second.benchmarks), rakuda.temperature, second.limit) == (["rakuda"], 0.5, 4)
    assert load_run(workspace.lake, first.run_id) == second
    assert workspace.lake.read("answers").is_empty(), "the failures of what is not asked any more"
    _begun(workspace, _ask())
    with pytest.raises(ConfigurationError, match=r"temperature 0\.5, not 0\.9"):
        plan_run(_ask(temperature=0.9), workspace)


def test_a_call_in_the_journal_freezes_a_run(workspace: Workspace) -> None:
    spec = _stored(workspace)
    endpoint = spec.endpoint
    usage, now = Usage(), datetime.now(UTC)
    call = Call("h", "m", endpoint.base_url, "ok", None, None, "text", None, "stop", usage, 1, 0.1, now)
    with workspace.journals.open(spec.run_id, "answers") as journal:
        journal.append(call, {"benchmark": "rakuda"})
    with pytest.raises(ConfigurationError, match="give another --tag"):
        plan_run(_ask(temperature=0.9), workspace)


def test_an_embedded_judge_stays_embedded_beside_others(workspace: Workspace) -> None:
    spec = plan_run(_ask(judge_models=["embedded/smollm2-135m", "j", "j"]), workspace)
    assert [(judge.model, judge.endpoint.base_url) for judge in spec.judges] == [
        ("embedded/smollm2-135m", "embedded:"),
        ("j", _URL),
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"benchmarks": ["elyza", "nonsense"]}, "unknown benchmark 'nonsense'; known: elyza"),
        ({"benchmarks": []}, "no benchmark named"),
        ({"judge_models": ["../j"]}, "judge name"),
        ({"model": "../m"}, "model name"),
        ({"tag": "../t"}, "run tag"),
        ({"base_url": "ftp://x"}, "base URL 'ftp://x'"),
        ({"questions": "nowhere"}, "question source 'nowhere' must be starter, hub or an existing folder"),
        ({"question_sets": ["rakuda@7"]}, "the starter set has no question set rakuda@7; it has rakuda@5"),
    ],
)
def test_a_request_that_cannot_work_is_refused(asked: dict[str, Any], message: str, workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_run(_ask(**asked), workspace)


def test_a_rejudge_raises_the_round_of_these_judges_and_benchmarks_only(workspace: Workspace) -> None:
    spec = plan_run(_ask(benchmarks=["rakuda", "tengu"], judge_models=["j", "k"]), workspace)
    again = judged_again(judged_again(spec, ["j"], ["tengu"]), ["j"], ["tengu", "rakuda"])
    assert [judge.rounds for judge in again.judges] == [{"tengu": 2, "rakuda": 1}, {}]
    assert again.spec_hash != spec.spec_hash
    store_run(again, workspace)
    assert plan_run(_ask(benchmarks=["rakuda"], judge_models=["j"]), workspace) == again, "rounds are kept"


def test_storing_a_run_twice_changes_nothing(workspace: Workspace) -> None:
    spec = _stored(workspace)
    before = workspace.lake.versions(), workspace.lake.read("runs").rows()
    store_run(spec, workspace)
    assert (workspace.lake.versions(), workspace.lake.read("runs").rows()) == before
    assert workspace.lake.read("runs", columns=["status", "model", "run_tag", "base_tag"]).rows() == [
        ("running", "m", "default", "default")
    ]


def test_a_widened_run_keeps_the_time_of_its_making(workspace: Workspace) -> None:
    _stored(workspace)
    made = workspace.lake.read("runs")["created_at"][0]
    _stored(workspace, judge_models=["k"])
    row = workspace.lake.read("runs")
    assert (row.height, row["created_at"][0]) == (1, made)
    assert row["updated_at"][0] > made


def test_question_sets_are_stored_once_and_versions_stand_side_by_side(workspace: Workspace, tmp_path: Path) -> None:
    for tag in ("a", "b"):
        _stored(workspace, tag=tag)
    small = _stored(workspace, tag="c", questions=str(write_questions(tmp_path / "own", 3)))
    rows = workspace.lake.read("questions", {"benchmark": "rakuda"}).group_by("question_set").len().rows()
    assert sorted(rows) == sorted([("rakuda@5", 5), (small.benchmarks["rakuda"].question_set, 3)])


def test_a_question_set_comes_back_from_the_lake_as_it_was_stored(workspace: Workspace, tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "own", 12)
    spec = _stored(workspace, questions=str(folder))
    stored = load_questions(spec, "rakuda", workspace)
    assert [question.position for question in stored.questions] == list(range(1, 13))
    (folder / "rakuda.jsonl").unlink()
    assert load_questions(spec, "rakuda", workspace) == stored
    assert stored_question_set(workspace.lake, "rakuda", name=stored.name) == stored
    assert stored_question_set(workspace.lake, "rakuda", name="rakuda@99") is None
    store_question_set(workspace.lake, stored)
    assert workspace.lake.read("questions", {"benchmark": "rakuda"}).height == 12


def test_questions_that_are_gone_before_they_were_stored_are_missed(workspace: Workspace, tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "own", 3)
    spec = plan_run(_ask(questions=str(folder)), workspace)
    write_questions(folder, 4)
    with pytest.raises(ConfigurationError, match="rakuda@3-"):
        load_questions(spec, "rakuda", workspace)


@pytest.fixture
def with_variants(workspace: Workspace, prompts: Path) -> Workspace:
    """Prompts with a variant for all benchmarks, and one for tengu only."""
    for name, template in {"strict": "answer_rule", "lenient": "fallback", "tengu-only": "tengu/primary"}.items():
        file = prompts / "variants" / name / "judging" / f"{template}.jinja"
        file.parent.mkdir(parents=True)
        file.write_text("別の文面", encoding="utf-8")
    return _with(workspace, prompts=prompts)


def _judges(spec: RunSpec) -> list[tuple[str, str]]:
    return [(judge.name, judge.model) for judge in spec.judges]


def test_a_judge_with_a_prompt_variant_stands_beside_the_one_without(with_variants: Workspace) -> None:
    _stored(with_variants, judge_temperature=0.3, judge_max_tokens=99, judge_api_key_variable="JUDGE_KEY")
    asked = RunRequest(model="m", benchmarks=["rakuda"], judge_models=["j"], judge_prompt="strict")
    spec = plan_run(asked, with_variants)
    assert _judges(spec) == [("j", "j"), ("j+strict", "j")]
    first, second = spec.judges
    assert second == first.model_copy(update={"prompt": "strict"}), "all else is as the model judged before"
    store_run(spec, with_variants)
    assert plan_run(RunRequest(model="m", benchmarks=["rakuda"]), with_variants) == spec


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"judge_models": ["j"], "judge_prompt": "strict"}, ["j+strict"]),
        ({"judge_models": ["j", "new"], "judge_prompt": "strict"}, ["j+strict", "new+strict"]),
        ({"judge_models": None, "judge_prompt": "strict"}, ["j+strict", "k+strict"]),
        ({"judge_models": ["j", "j+strict"]}, ["j", "j+strict"]),
        ({"judge_models": ["new+strict"]}, ["new+strict"]),
        ({"judge_models": ["k+lenient"], "judge_prompt": "strict"}, ["k+strict"]),
        ({"judge_models": None}, []),
    ],
)
def test_judges_are_named_by_model_and_prompt_or_in_full(
    asked: dict[str, Any], names: list[str], with_variants: Workspace
) -> None:
    _stored(with_variants, judge_models=["j", "k+lenient"])
    assert named_judges(_ask(**asked), with_variants) == names
    planned = dict(_judges(plan_run(_ask(**asked), with_variants)))
    assert list(planned) == list(dict.fromkeys(["j", "k+lenient", *names]))
    assert all(planned[name] == name.partition("+")[0] for name in names)


def test_another_judge_of_the_same_name_is_refused(with_variants: Workspace, workspace: Workspace) -> None:
    # As an earlier version took it, when there was no such variant.
    spec = plan_run(_ask(judge_models=["j"]), workspace)
    store_run(RunSpec.read(spec.model_dump_json().replace('"j"', '"j+strict"')), workspace)
    assert _judges(plan_run(_ask(judge_models=["j+strict"]), with_variants)) == [("j+strict", "j+strict")]
    with pytest.raises(ConfigurationError, match=r"judge j\+strict of this run is another"):
        plan_run(_ask(judge_models=["j"], judge_prompt="strict"), with_variants)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"judge_prompt": "strikt"}, "no prompt variant 'strikt'; did you mean strict"),
        ({"judge_models": ["j+strikt"]}, r"'strikt' is no prompt variant, .*; did you mean strict\?"),
        ({"judge_prompt": "../variants/strict"}, "no prompt variant '../variants/strict'"),
        ({"judge_prompt": "tengu-only"}, "'tengu-only' changes no prompt of a judge of rakuda"),
        ({"judge_prompt": "strict", "judge_models": ["x" * 199]}, "must have 1 to 200 characters"),
        ({"judge_prompt": "lenient", "benchmarks": ["gsm8k"], "judge_models": None}, "a prompt variant needs a judge"),
    ],
)
def test_a_variant_that_cannot_make_a_difference_is_refused(
    asked: dict[str, Any], complaint: str, with_variants: Workspace
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        plan_run(_ask(**asked), with_variants)


def test_a_run_with_a_variants_judge_goes_on_in_benchmarks_that_the_variant_leaves_alone(
    with_variants: Workspace,
) -> None:
    spec = _stored(with_variants, benchmarks=["tengu", "rakuda"], judge_prompt="tengu-only")
    assert plan_run(_ask(judge_models=None), with_variants) == spec


def _ask_ensemble(**values: Any) -> RunRequest:
    settings = {"model": "m", "base_url": _URL, "benchmarks": ["gsm8k"], "samples": 3, "single": "own"}
    settings["strategies"] = list(DEFAULT_STRATEGIES)
    return RunRequest.model_validate(settings | values)


def _stored_ensemble(workspace: Workspace, **values: Any) -> RunSpec:
    spec = plan_run(_ask_ensemble(**values), workspace)
    store_run(spec, workspace)
    return spec


def test_an_ensemble_has_the_models_that_are_named_where_the_model_is(workspace: Workspace) -> None:
    spec = plan_run(
        _ask_ensemble(sample_models=["a", "m"], consensus_model="c", grader_model="g", judge_base_url=_OTHER),
        workspace,
    )
    assert [(one.model, one.endpoint.base_url) for one in spec.members] == [("a", _URL), ("m", _URL)]
    assert spec.consensus is not None
    assert (spec.consensus.model, spec.consensus.endpoint.base_url) == ("c", _URL)
    assert [(one.name, one.endpoint.base_url) for one in spec.judges] == [("g", _OTHER)]
    assert spec.benchmarks["gsm8k"].judges == ("rule:numeric", "rule:numeric+g")
    assert spec.strategies == ["single", "standard", "majority", "elo", "council", "plurality"]
    assert spec.benchmarks["gsm8k"].samples == 4
    assert plan_run(_ask_ensemble(single="first"), workspace).benchmarks["gsm8k"].samples == 3


def test_an_ensemble_that_is_asked_for_again_is_where_it_was(workspace: Workspace) -> None:
    asked = {"sample_models": ["a", "m"], "consensus_model": "c", "grader_model": "g"}
    spec = _stored_ensemble(workspace, judge_base_url=_OTHER, api_key_variable="MY_KEY", **asked)
    assert plan_run(_ask_ensemble(base_url=None, **asked), workspace) == spec
    elsewhere = plan_run(_ask_ensemble(judge_base_url=_OTHER, api_key_variable="OTHER_KEY", **asked), workspace)
    assert {one.endpoint.api_key_variable for one in elsewhere.members} == {"OTHER_KEY"}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"samples": 5}, "gsm8k samples 4, not 6"),
        ({"single": "first"}, "gsm8k single own, not first"),
        ({"sample_models": ["m", "n"]}, "samples of m, not m, n"),
        ({"consensus_model": "c"}, "consensus model m, not c"),
        ({"samples": 1, "single": None, "strategies": None}, "a consensus on gsm8k takes 2 or more samples"),
    ],
)
def test_another_ensemble_under_the_same_tag_is_refused_by_name(
    asked: dict[str, Any], named: str, workspace: Workspace
) -> None:
    _begun(workspace, _ask_ensemble())
    with pytest.raises(ConfigurationError, match=re.escape(named)):
        plan_run(_ask_ensemble(**asked), workspace)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"samples": 1}, "a consensus on gsm8k takes 2 or more samples: add --samples"),
        ({"benchmarks": ["tengu"], "judge_models": []}, "tengu is judged by an LLM: name one with --judge-model"),
        ({"strategies": ["telepathy"]}, "unknown strategy 'telepathy'; known: standard"),
        ({"strategies": ["elo", "elo"]}, "a strategy is named twice"),
        ({"grader_model": "../g"}, "judge name"),
        ({"sample_models": ["unknown"], "base_url": None, "model": "gpt-5.1"}, "no known endpoint serves"),
    ],
)
def test_an_ensemble_that_cannot_work_is_refused(asked: dict[str, Any], message: str, workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_run(_ask_ensemble(**asked), workspace)


def test_any_benchmark_takes_samples_strategies_and_judges(workspace: Workspace) -> None:
    judges = {"judge_models": ["j"], "judge_base_url": _URL}
    spec = plan_run(_ask(benchmarks=["rakuda", "gsm8k"], **judges), workspace)
    assert {name: one.judges for name, one in spec.benchmarks.items()} == {
        "rakuda": ("j",),
        "gsm8k": ("rule:numeric", "rule:numeric+j"),
    }
    assert {(one.samples, one.single, one.strategies) for one in spec.benchmarks.values()} == {(1, None, ())}

    spec = plan_run(_ask(tag="n", samples=3, **judges), workspace)
    assert (spec.benchmarks["rakuda"].samples, spec.benchmarks["rakuda"].strategies) == (3, ())
    spec = plan_run(_ask(tag="n", samples=3, strategies=["plurality"], **judges), workspace)
    own = spec.benchmarks["rakuda"]
    assert (own.samples, own.single, own.strategies, own.judges) == (3, "first", ("single", "plurality"), ("j",))


def test_a_benchmark_joins_a_run_of_others_with_its_own_samples_and_judges(workspace: Workspace) -> None:
    _stored_ensemble(workspace, grader_model="g", strategies=["plurality"])
    spec = plan_run(_ask(benchmarks=["rakuda"], judge_models=["j"], judge_base_url=_URL), workspace)
    assert [judge.name for judge in spec.judges] == ["g", "j"]
    assert (spec.benchmarks["rakuda"].samples, spec.benchmarks["rakuda"].judges) == (1, ("j",))
    assert (spec.benchmarks["gsm8k"].samples, spec.benchmarks["gsm8k"].judges[-1]) == (4, "rule:numeric+g")


def test_a_consensus_is_added_to_samples_that_had_none(workspace: Workspace) -> None:
    _stored_ensemble(workspace, samples=3, single=None, strategies=None)
    spec = plan_run(_ask_ensemble(single=None, strategies=["plurality"]), workspace)
    assert (spec.benchmarks["gsm8k"].single, spec.benchmarks["gsm8k"].samples) == ("first", 3)


def test_another_seed_is_another_sample(workspace: Workspace, tmp_path: Path) -> None:
    folder = str(write_questions(tmp_path / "own", 12))
    one, same, other = (
        plan_run(_ask(questions=folder, sample=4, sample_seed=seed), workspace).benchmarks["rakuda"]
        for seed in (None, 42, 7)
    )
    assert one == same
    assert other.question_set_sha256 != one.question_set_sha256
    spec = _begun(workspace, _ask(questions=folder, sample=4, sample_seed=7))
    assert plan_run(_ask(sample=4), workspace).benchmarks == spec.benchmarks == {"rakuda": other}
    with pytest.raises(ConfigurationError, match="question set"):
        plan_run(_ask(questions=folder, sample=4, sample_seed=8), workspace)


def test_a_sample_is_a_set_of_its_own_that_comes_back_without_its_source(workspace: Workspace, tmp_path: Path) -> None:
    folder = write_questions(tmp_path / "own", 12)
    spec = _stored(workspace, questions=str(folder), sample=4)
    settings = spec.benchmarks["rakuda"]
    assert settings.question_set.startswith("rakuda@4-")
    assert settings.sample is not None
    assert (settings.sample.of.startswith("rakuda@12-"), settings.sample.size, settings.sample.order) == (
        True,
        4,
        "pinned",
    )
    assert (spec.n_questions("rakuda"), spec.n_planned("rakuda")) == (4, 4)
    stored = load_questions(spec, "rakuda", workspace)
    assert [question.position for question in stored.questions] == [1, 2, 3, 4]
    shutil.rmtree(folder)
    again = load_run(workspace.lake, spec.run_id)
    assert again == spec
    assert load_questions(again, "rakuda", workspace) == stored
    assert plan_run(_ask(), workspace) == plan_run(_ask(sample=4), workspace) == spec


def test_a_sample_is_drawn_again_from_its_source_until_it_is_stored(workspace: Workspace, tmp_path: Path) -> None:
    spec = plan_run(_ask(questions=str(write_questions(tmp_path / "own", 12)), sample=4), workspace)
    drawn = load_questions(spec, "rakuda", workspace)
    assert drawn.sha256 == spec.benchmarks["rakuda"].question_set_sha256


def test_another_sample_under_the_same_tag_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    folder = str(write_questions(tmp_path / "own", 12))
    _begun(workspace, _ask(questions=folder, sample=4))
    for asked in ({"sample": 5}, {"sample": 4, "sample_order": "mulberry32"}):
        with pytest.raises(ConfigurationError, match=r"question set rakuda@4-\w+, not rakuda@"):
            plan_run(_ask(questions=folder, **asked), workspace)


def _pipelines(spec: RunSpec) -> list[str]:
    return [",".join(one.name for one in pipeline) for pipeline in spec.passes]


def test_pipelines_are_added_and_those_asked_for_come_last(workspace: Workspace) -> None:
    _stored(workspace, passes=["lang_mixing"])
    second = _stored(workspace, passes=["lang_mixing", "repetition"])
    assert _pipelines(second) == ["lang_mixing", "lang_mixing,repetition"]
    assert plan_run(_ask(), workspace) == second, "without any named they are as they were"
    again = plan_run(_ask(passes=["lang_mixing"], pass_options=["lang_mixing.minimum_severity=0.5"]), workspace)
    assert _pipelines(again) == ["lang_mixing,repetition", "lang_mixing"]
    assert again.passes[1][0].config["minimum_severity"] == 0.5


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"judge_base_url": _URL}, _URL),
        ({"judge_base_url": None, "judge_models": None}, _URL),
    ],
)
def test_a_pass_asks_its_model_where_the_judges_are(asked: dict[str, Any], place: str, workspace: Workspace) -> None:
    _stored(workspace)
    passes = {"passes": ["safety_check"], "pass_options": ["safety_check.model=guard"]}
    ((one,),) = plan_run(_ask(**passes, **asked), workspace).passes
    assert one.endpoint is not None
    assert (one.endpoint.base_url, one.endpoint.api_key_variable) == (place, "SHABERI_API_KEY")


def test_a_pass_asks_where_its_models_name_leads_when_judges_have_no_server_of_their_own(workspace: Workspace) -> None:
    _stored(workspace, judge_models=["gpt-5.1"], judge_base_url=None)
    add_pipeline("m@@default", ["safety_check"], ["safety_check.model=gemini-2.5-flash"], workspace)
    stored = load_run(workspace.lake, "m@@default")
    assert stored is not None
    ((one,),) = stored.passes
    assert one.endpoint is not None
    assert one.endpoint.name == "gemini"


def test_a_stored_run_is_given_one_more_pipeline(workspace: Workspace) -> None:
    spec = _stored(workspace, passes=["repetition"])
    add_pipeline(spec.run_id, ["lang_mixing"], [], workspace)
    stored = load_run(workspace.lake, spec.run_id)
    assert stored is not None
    assert _pipelines(stored) == ["repetition", "lang_mixing"]
    assert stored.added_pipelines == ("lang_mixing",)
    assert stored.model_copy(update={"passes": spec.passes, "added_pipelines": ()}) == spec
    before = workspace.lake.versions()
    add_pipeline(spec.run_id, ["lang_mixing"], [], workspace)
    assert workspace.lake.versions() == before


@pytest.mark.parametrize(
    ("run_id", "passes", "options", "message"),
    [
        ("m@@default", ["telepathy"], [], "unknown pass 'telepathy'"),
        ("m@@default", ["lang_mixing"], ["lang_mixing.nothing=1"], "pass lang_mixing: nothing"),
        ("m@@default", ["lang_mixing", "lang_mixing"], [], "each may be there once"),
        ("x@@y", ["lang_mixing"], [], "run x@@y has no RunSpec"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(
    run_id: str, passes: list[str], options: list[str], message: str, workspace: Workspace
) -> None:
    _stored(workspace)
    _stored_ensemble(workspace, tag="e")
    with pytest.raises(ConfigurationError, match=message):
        add_pipeline(run_id, passes, options, workspace)


def test_a_run_is_of_whoever_stored_it_first(workspace: Workspace, mock: MockEndpoint) -> None:
    def stored_by(user: str | None, **values: Any) -> str | None:
        own = Workspace(replace(workspace.settings, user=user), environment={})
        spec = stored_run(own, ask(mock, **values))
        return str(own.lake.read("runs", {"run_id": spec.run_id})["created_by"][0])

    assert stored_by("first") == "first"
    assert stored_by("second", judge_models=["judge-b"]) == "first"
    assert stored_by("second", tag="own") == "second"
    assert stored_by(None, tag="nobodys") == "None"


def test_what_may_be_spent_stands_with_the_run_and_changes_nothing_else(workspace: Workspace) -> None:
    def stored(max_cost: float | None) -> dict[str, Any]:
        own = replace(workspace, options=CallOptions(max_cost=max_cost))
        spec = _stored(own)
        return own.lake.read("runs", {"run_id": spec.run_id}).row(0, named=True)

    rows = [stored(max_cost) for max_cost in (5.0, 7.5, None)]

    assert [row.pop("max_cost_usd") for row in rows] == [5.0, 7.5, None]
    assert rows[0] == rows[1] == rows[2]
