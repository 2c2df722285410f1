from dataclasses import asdict
from typing import Any

import pytest
from pydantic import ValidationError

from shaberi_dagster.errors import ConfigurationError
from shaberi_dagster.judges.spec import JudgeSpec
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.spec import BenchmarkSpec, ModelSpec, PassSpec, RunRequest, RunSpec

pytestmark = pytest.mark.unit

_ENDPOINT = Endpoint(name="custom", base_url="http://127.0.0.1:1/v1", api_key_variable="SHABERI_API_KEY")


def _judge(**values: object) -> JudgeSpec:
    settings = {"model": "j", "endpoint": _ENDPOINT, "temperature": 0.0, "max_tokens": 100, "score_rounding": "none"}
    return JudgeSpec.model_validate(settings | values)


def _spec(tag: str = "t", of_benchmark: dict[str, Any] | None = None, **values: object) -> RunSpec:
    benchmark = BenchmarkSpec(
        question_set="tengu@5",
        question_set_sha256="a" * 64,
        n_questions=5,
        source="starter",
        source_revision=None,
        prompt_hash="b" * 64,
        temperature=0.2,
        max_tokens=10,
        frequency_penalty=0.0,
        **{"samples": 2, "judges": ["j"], "limit": values.pop("limit", None)} | (of_benchmark or {}),
    )
    return RunSpec.model_validate(
        {"model": "m", "run_tag": tag, "endpoint": _ENDPOINT, "benchmarks": {"tengu": benchmark}, "judges": [_judge()]}
        | values
    )


@pytest.mark.parametrize(
    ("tag", "base", "number"),
    [
        ("july-run2", "july", 2),
        ("july-run12", "july", 12),
        ("july", "july", None),
        ("july-run0", "july-run0", None),
        ("july-run01", "july-run01", None),
        ("july-run", "july-run", None),
        ("a-run1-run2", "a-run1", 2),
        ("-run1"[1:], "run1", None),
    ],
)
def test_the_number_of_a_multi_run_is_read_from_its_tag(tag: str, base: str, number: int | None) -> None:
    spec = _spec(tag)
    assert (spec.base_tag, spec.run_number) == (base, number)


def test_a_spec_survives_json_with_its_hash() -> None:
    spec = _spec(limit=3)
    again = RunSpec.read(spec.model_dump_json())
    assert again == spec
    assert again.spec_hash == spec.spec_hash


def test_any_other_setting_gives_another_spec_hash() -> None:
    hashes = {_spec().spec_hash, _spec("u").spec_hash, _spec(limit=3).spec_hash, _spec(model="n").spec_hash}
    assert len(hashes) == 4


def test_planned_samples_are_questions_within_the_limit_times_samples() -> None:
    assert [_spec(limit=limit).n_planned("tengu") for limit in (None, 3, 5, 9)] == [10, 6, 10, 10]


def test_a_spec_is_frozen_and_knows_its_fields() -> None:
    with pytest.raises(ValidationError):
        _spec().model = "other"
    with pytest.raises(ValidationError, match="unknown"):
        _spec(unknown=1)


def test_the_judges_config_hash_is_the_same_at_any_address_and_knows_what_it_was_at_each() -> None:
    base = _judge().config_hash("p", "f")
    there = Endpoint(name="openai", base_url="https://api.openai.com/v1", api_key_variable=None)
    moved = there.moved_from(_ENDPOINT)
    assert moved.earlier == (_ENDPOINT.base_url,)
    assert (
        base
        == _judge(endpoint=moved).config_hash("p", "f")
        == "64223998ad3a8550ff086656a6857f9c9abe1405d425ef2522594a2b14c70e3e"
    )
    (former,) = _judge().former_config_hashes("p", "f")
    assert former == "0d8e615d3ef43767c755c19900c953ced34a0c3aebb14f8a0f57609e5f88c8df", (
        "what rows of older programs have"
    )
    (at_openai,) = _judge(endpoint=there).former_config_hashes("p", "f")
    assert _judge(endpoint=moved).former_config_hashes("p", "f") == [at_openai, former]
    back = _ENDPOINT.moved_from(moved)
    assert _judge(endpoint=back).former_config_hashes("p", "f") == [former, at_openai]


def test_the_judges_config_hash_changes_with_settings_and_prompts_but_not_with_rounds() -> None:
    base = _judge().config_hash("p", "f")
    assert _judge(rounds={"tengu": 3}).config_hash("p", "f") == base
    assert _judge(samples=1).config_hash("p", "f") == base
    others = {
        _judge(temperature=0.1).config_hash("p", "f"),
        _judge(max_tokens=101).config_hash("p", "f"),
        _judge(score_rounding="legacy").config_hash("p", "f"),
        _judge(samples=2).config_hash("p", "f"),
        _judge(model="k").config_hash("p", "f"),
        _judge().config_hash("q", "f"),
        _judge().config_hash("p", "g"),
    }
    assert len(others | {base}) == 8


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 2.1},
        {"max_tokens": 0},
        {"limit": 0},
        {"frequency_penalty": -3},
        {"score_rounding": "up"},
        {"unknown": 1},
    ],
)
def test_a_request_with_a_senseless_setting_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RunRequest(model="m", **values)


def test_a_judge_is_named_by_its_model_and_the_variant_of_its_prompt() -> None:
    strict = _judge(prompt="strict")
    assert (strict.name, strict.model, _judge().name) == ("j+strict", "j", "j")
    assert RunSpec.read(_spec(judges=[strict]).model_dump_json()).judges == (strict,)


def test_a_judge_without_a_variant_is_written_and_hashed_as_before_there_were_any() -> None:
    written = _judge().model_dump(mode="json")
    assert list(written) == ["model", "endpoint", "temperature", "max_tokens", "score_rounding", "rounds"]
    assert _judge(prompt="strict").model_dump(mode="json") == written | {"prompt": "strict"}


def _model(name: str) -> ModelSpec:
    return ModelSpec(model=name, endpoint=_ENDPOINT)


@pytest.mark.parametrize(
    ("single", "models"),
    [("own", ["m", "a", "b", "a", "b", "a"]), ("first", ["a", "b", "a", "b", "a", "b"])],
)
def test_samples_come_from_the_models_in_turn(single: str, models: list[str]) -> None:
    spec = _spec(of_benchmark={"samples": 6, "single": single}, members=[_model("a"), _model("b")])
    assert [spec.sampled("tengu", index).model for index in range(6)] == models
    assert len(spec.benchmarks["tengu"].shared) == (5 if single == "own" else 6)
    assert {_spec().sampled("tengu", index) for index in range(2)} == {_model("m")}


def test_a_judge_is_chosen_by_its_name_or_by_the_model_that_a_rule_leaves_something_to() -> None:
    judges = ["rule:numeric", "rule:numeric+g", "rule:numeric+j+strict"]
    spec = _spec(of_benchmark={"judges": judges}, judges=[_judge(model="g"), _judge(prompt="strict")])
    assert spec.chosen_judges("tengu", []) == judges
    assert spec.chosen_judges("tengu", ["g"]) == ["rule:numeric+g"]
    assert spec.chosen_judges("tengu", ["rule:numeric", "j+strict"]) == [judges[0], judges[2]]
    assert [judge and judge.name for judge in map(spec.judge, judges)] == [None, "g", "j+strict"]


def _version_1(**values: Any) -> dict[str, Any]:
    """A run of GSM8K as specs were before benchmarks had judges and strategies of their own."""
    endpoint = asdict(_ENDPOINT)
    settings = _spec().benchmarks["tengu"].model_dump(exclude={"single", "strategies", "judges"})
    spec = {"model": "m", "run_tag": "t", "endpoint": endpoint, "passes": [], "limit": None, "ensemble": None}
    return spec | {"benchmarks": {"gsm8k": settings, "tengu": settings}, "judges": []} | values


def _version_1_ensemble(**values: Any) -> dict[str, Any]:
    own = {"model": "m", "endpoint": asdict(_ENDPOINT)}
    ensemble = {"size": 5, "single": "own", "members": [own], "strategies": ["elo"], "consensus": own, "grader": None}
    return _version_1(ensemble=ensemble | values)


def test_a_spec_of_the_first_version_says_the_same_in_new_words() -> None:
    judged = RunSpec.read(_version_1(judges=[_judge().model_dump(), _judge(prompt="strict").model_dump()]))
    assert judged.benchmarks["tengu"].judges == ("j", "j+strict")
    assert judged.benchmarks["gsm8k"].judges == ("rule:numeric", "rule:numeric+j", "rule:numeric+j+strict")
    assert (judged.has_consensus, judged.members, judged.consensus) == (False, (), None)

    plain = RunSpec.read(_version_1_ensemble())
    assert (plain.strategies, plain.benchmarks["gsm8k"].single) == (["single", "elo"], "own")
    assert (plain.benchmarks["gsm8k"].judges, plain.judges) == (("rule:numeric",), ())
    assert (plain.members, plain.consensus) == ((), None)

    others = {name: {"model": name, "endpoint": asdict(_ENDPOINT)} for name in "abcg"}
    mixed = RunSpec.read(
        _version_1_ensemble(members=[others["a"], others["b"]], consensus=others["c"], grader=others["g"])
    )
    assert [one.model for one in (*mixed.members, *[mixed.consensus or mixed.itself])] == ["a", "b", "c"]
    assert mixed.benchmarks["gsm8k"].judges == ("rule:numeric", "rule:numeric+g")
    assert mixed.judge("rule:numeric+g") == _judge(model="g", max_tokens=4096)


def test_an_imported_cache_of_before_says_the_same_in_new_words() -> None:
    gsm8k = {"question_set": "gsm8k@2", "question_set_sha256": "0" * 64, "question_texts": "some known"}
    counts = {"n_questions": 2, "samples": 5, "n_planned": 10, "judges": ["legacy:unknown"]}
    of_before = {
        "kind": "legacy",
        "system": "ensemble",
        "model": "m",
        "run_tag": "legacy-5x-t0.7",
        "temperature": 0.7,
        "benchmarks": {"gsm8k": gsm8k | counts},
        "not_recorded": "tokens",
    }
    spec = RunSpec.read(of_before)
    assert spec.imported is not None
    assert (spec.origin, spec.imported.form, spec.imported.not_recorded) == ("imported", "caches", "tokens")
    own = spec.benchmarks["gsm8k"]
    assert (own.temperature, own.samples, own.question_texts) == (0.7, 5, "some known")
    assert (spec.n_planned("gsm8k"), own.all_judges, own.judges) == (10, ("legacy:unknown",), ())
    assert RunSpec.read(spec.model_dump_json()) == spec


def test_a_run_that_was_imported_before_version_2_says_the_same_in_new_words() -> None:
    elyza = {"question_set": "elyza@2", "question_set_sha256": "0" * 64, "n_questions": 2, "n_planned": 3}
    judge = {"judge": "a", "model": "a", "prompt_version": None, "prompt_version_source": "unknown"}
    spec = RunSpec.read(
        {
            "kind": "legacy",
            "model": "org__model",
            "run_tag": "legacy-run2",
            "display_name": "org/model",
            "generation": 1,
            "sources": ["tree"],
            "benchmarks": {"elyza": elyza | {"judges": ["a"]}},
            "judges": [judge | {"temperature": None, "max_tokens": None, "config_hash": "1" * 64}],
            "not_recorded": "settings",
        }
    )
    assert (spec.origin, spec.endpoint, spec.judges, spec.run_number) == ("imported", None, (), None)
    assert (spec.n_planned("elyza"), spec.n_questions("elyza")) == (3, 2)
    assert spec.benchmarks["elyza"].all_judges == ("a",)
    assert spec.imported is not None
    assert (spec.imported.source, spec.imported.judges[0].config_hash) == ("tree", "1" * 64)
    assert RunSpec.read(spec.model_dump_json()) == spec
    with pytest.raises(ConfigurationError, match="where its model is served is not known"):
        _ = spec.itself


def test_strategies_answer_each_question_once_and_samples_as_often_as_there_are() -> None:
    spec = _spec(limit=3)
    assert (spec.n_questions("tengu"), spec.n_planned("tengu")) == (3, 6)


def test_pipelines_survive_json() -> None:
    passes = [[PassSpec(name="lang_mixing", config={"curve": [[0.0, 0.1]]})], [PassSpec(name="x", config={})]]
    spec = _spec(passes=passes)
    assert RunSpec.read(spec.model_dump_json()) == spec
    assert spec.spec_hash != _spec().spec_hash


@pytest.mark.parametrize(
    "values",
    [
        {"samples": 0},
        {"ensemble": 3},
        {"sample": 0},
        {"sample_seed": -1},
        {"single": "last"},
        {"sample_order": "random"},
    ],
)
def test_an_ensemble_with_a_senseless_setting_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RunRequest(model="m", **values)
