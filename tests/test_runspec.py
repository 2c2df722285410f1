import pytest
from pydantic import ValidationError

from shaberi_dagster.runspec import BenchmarkSpec, EndpointSpec, JudgeSpec, RunRequest, RunSpec

pytestmark = pytest.mark.unit

_ENDPOINT = EndpointSpec(name="custom", base_url="http://127.0.0.1:1/v1", api_key_variable="SHABERI_API_KEY")


def _judge(**values: object) -> JudgeSpec:
    settings = {"model": "j", "endpoint": _ENDPOINT, "temperature": 0.0, "max_tokens": 100, "score_rounding": "none"}
    return JudgeSpec.model_validate(settings | values)


def _spec(tag: str = "t", **values: object) -> RunSpec:
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
        samples=2,
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
    again = RunSpec.model_validate_json(spec.model_dump_json())
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


def test_the_judges_config_hash_changes_with_settings_and_prompts_but_not_with_rounds() -> None:
    base = _judge().config_hash("p", "f")
    assert _judge(rounds={"tengu": 3}).config_hash("p", "f") == base
    others = {
        _judge(temperature=0.1).config_hash("p", "f"),
        _judge(max_tokens=101).config_hash("p", "f"),
        _judge(score_rounding="legacy").config_hash("p", "f"),
        _judge(model="k").config_hash("p", "f"),
        _judge().config_hash("q", "f"),
        _judge().config_hash("p", "g"),
    }
    assert len(others | {base}) == 7


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
