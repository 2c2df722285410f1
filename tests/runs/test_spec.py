from typing import Any

import pytest
from pydantic import ValidationError

from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.spec import BenchmarkSpec, RunRequest, RunSpec
from shaberi_dagster.tasks.judges.spec import JudgeSpec

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


def test_the_judges_config_hash_is_the_same_at_any_address() -> None:
    base = _judge().config_hash("p", "f")
    there = Endpoint(name="openai", base_url="https://api.openai.com/v1", api_key_variable=None)
    assert (
        base
        == _judge(endpoint=there).config_hash("p", "f")
        == "64223998ad3a8550ff086656a6857f9c9abe1405d425ef2522594a2b14c70e3e"
    )


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


def test_a_judge_is_chosen_by_its_name_or_by_the_model_that_a_rule_leaves_something_to() -> None:
    judges = ["rule:numeric", "rule:numeric+g", "rule:numeric+j+strict"]
    spec = _spec(of_benchmark={"judges": judges}, judges=[_judge(model="g"), _judge(prompt="strict")])
    assert spec.chosen_judges("tengu", []) == judges
    assert spec.chosen_judges("tengu", ["g"]) == ["rule:numeric+g"]
    assert spec.chosen_judges("tengu", ["rule:numeric", "j+strict"]) == [judges[0], judges[2]]
    assert [judge and judge.name for judge in map(spec.judge, judges)] == [None, "g", "j+strict"]


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
