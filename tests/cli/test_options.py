"""Options made of the fields of models: given ones fill the fields, help stands in groups, shells complete names."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
import yaml
from cyclopts import App, CycloptsError

from shaberi_dagster import __version__
from shaberi_dagster.cli import quick_eval, run_evals, shaberi, view_scores
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.request_file import read_request, request_from, request_schema
from shaberi_dagster.runs.spec import CallOptions, ModelSettings, RunRequest
from shaberi_dagster.util.errors import ConfigurationError
from tests.invoked import invoke

pytestmark = pytest.mark.unit


def given(*arguments: str) -> tuple[RunRequest, CallOptions]:
    """What `run-evals` gets when it is called with these arguments, its file included."""
    text = invoke(run_evals.app, [*arguments, "--print-config"]).stdout
    return request_from(yaml.safe_load(text))


def bound(*arguments: str) -> dict[str, Any]:
    """The values of the parameters of `run-evals`."""
    values: dict[str, Any] = run_evals.app.parse_args(arguments, exit_on_error=False, print_error=False)[1].arguments
    return values


def test_only_fields_whose_options_are_given_are_set() -> None:
    values = bound("--model", "m", "--limit", "3", "--fresh", "--runs", "2")

    assert values["request"] == RunRequest(model="m", limit=3)
    assert values["request"].model_fields_set == {"model", "limit"}
    assert values["calls"] == CallOptions(fresh=True)
    assert values["runs"] == 2


def test_lists_are_separated_by_commas_or_repeated_as_the_field_says() -> None:
    request = bound(
        *("--model", "m", "--benchmark", "elyza, tengu,", "--strategies", "elo", "-fp", "0.5"),
        *("--judge-model", "a", "--judge-model", "b,c"),
    )["request"]

    assert request.benchmarks == ["elyza", "tengu"]
    assert request.judge_models == ["a", "b,c"]
    assert (request.strategies, request.frequency_penalty) == (["elo"], 0.5)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--limit", "0", "--model", "m"], "limit"),
        (["--temperature", "2.5", "--model", "m"], "temperature"),
        (["--limiter", "magic", "--model", "m"], "limiter"),
        (["--limit", "3"], "--model"),
        (["--model", "m", "--model", "n"], "--model"),
        (["--model", "m", "--benchmark", "a", "--benchmark", "b"], "--benchmark"),
    ],
)
def test_ranges_choices_and_what_is_required_are_those_of_the_fields(arguments: list[str], complaint: str) -> None:
    with pytest.raises(CycloptsError, match=complaint):
        bound(*arguments)


def test_every_field_of_a_request_is_an_option_of_run_evals_but_what_only_a_file_can_say() -> None:
    options = {one.field_info.name for one in run_evals.app.assemble_argument_collection() if one.parse}

    assert {*RunRequest.model_fields, *CallOptions.model_fields} - options == {
        "grader_model",
        "settings",
        "shares_samples",
    }


@pytest.mark.parametrize("app", [run_evals.app, quick_eval.app, view_scores.app, shaberi.app])
def test_every_script_says_its_version(app: App) -> None:
    assert invoke(app, ["--version"]).stdout == f"shaberi-dagster {__version__}\n"


# ------------------------------------------------------------------------------------------------ files


def write(folder: Path, **values: Any) -> str:
    path = folder / "request.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return str(path)


def test_a_file_is_the_request_and_options_override_it(tmp_path: Path) -> None:
    path = write(tmp_path, model="m", tag="july", benchmarks=["elyza"], limit=5, fresh=True)

    request, calls = given("--config", path, "--tag", "august", "--max-cost", "2")

    assert request == RunRequest(model="m", tag="august", benchmarks=["elyza"], limit=5)
    assert calls == CallOptions(fresh=True, max_cost=2)


def test_an_option_overrides_what_a_file_says_of_some_benchmarks_and_adds_to_its_parameters(tmp_path: Path) -> None:
    some = {"benchmarks": ["elyza"], "temperature": 0.1, "max_tokens": 9, "parameters": {"min_p": 0.2}}
    path = write(tmp_path, model="m", temperature=0.5, parameters={"top_k": 5}, settings=[some])

    of_file, of_option = (
        given("--config", path, *options)[0] for options in ((), ("--temperature", "1", "--param", "min_p=0.3"))
    )

    assert (of_file.temperature, of_file.settings) == (0.5, (ModelSettings(**some),))
    assert of_option.parameters == ["top_k=5", "min_p=0.3"]
    assert of_option.settings == (ModelSettings(**some), ModelSettings(temperature=1, parameters=["min_p=0.3"]))


def test_a_file_may_leave_the_model_to_an_option(tmp_path: Path) -> None:
    assert given("--config", write(tmp_path, limit=2), "--model", "m")[0] == RunRequest(model="m", limit=2)
    with pytest.raises(CycloptsError, match="--model"):
        given("--config", write(tmp_path, limit=2))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"model": "m", "limit": 0}, r"request\.yaml: limit: a whole number from 1, or all, not 0"),
        ({"model": "m", "loud": True}, r"request\.yaml: no field loud; known: model, tag"),
        ({"model": "m", "benchmarks": "elyza"}, r"request\.yaml: benchmarks: must be a valid list"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name_and_field(
    values: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        given("--config", write(tmp_path, **values))


def test_print_config_prints_the_file_that_asks_for_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, model="m", limit=5)
    options = ["--config", path, "--judge-model", "a", "--benchmark", "elyza,tengu", "--max-cost", "2.5"]

    printed = invoke(run_evals.app, [*options, "--print-config"]).stdout

    again = tmp_path / "again.yaml"
    again.write_text(printed, encoding="utf-8")
    assert read_request(again) == given(*options)
    values = {"model": "m", "limit": 5, "judge_models": ["a"], "benchmarks": ["elyza", "tengu"], "max_cost": 2.5}
    assert yaml.safe_load(printed) == values


def test_the_schema_that_shaberi_prints_takes_what_a_file_may_say_and_nothing_else() -> None:
    schema = json.loads(invoke(shaberi.app, ["schema"]).stdout)

    assert schema == json.loads(json.dumps(request_schema()))
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    assert validator.is_valid({"model": "m", "benchmarks": ["elyza"], "limit": 3, "limiter": "aimd"})
    wrong: list[dict[str, Any]] = [
        {},
        {"model": "m", "limit": 0},
        {"model": "m", "limiter": "x"},
        {"model": "m", "n": 1},
    ]
    assert [one for one in wrong if validator.is_valid(one)] == []


# ------------------------------------------------------------------------------------------------ completion


def completed(app: App, words: str) -> list[str]:
    """What a shell gets when Tab is pressed after these words."""
    return invoke(app, ["__complete", *words.split(" ")]).stdout.split()[1:]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--benchmark el", ["elyza"]),
        ("--benchmark elyza,te", ["elyza,tengu"]),
        ("--strategy standard,c", ["standard,council", "standard,council-seed"]),
        ("--passes rep", ["repetition"]),
        ("--judge-model emb", ["embedded/smollm2-135m"]),
    ],
)
def test_a_shell_completes_names(words: str, names: list[str]) -> None:
    assert sorted(completed(run_evals.app, words)) == names


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("sql hardest", ["hardest_questions"]),
        ("compare --benchmark teng", ["tengu"]),
        ("generate-cache --datasets gsm8k,ar", ["gsm8k,arc"]),
        ("reprocess --passes lang", ["lang_mixing"]),
    ],
)
def test_a_shell_completes_what_shaberi_has(words: str, names: list[str]) -> None:
    assert completed(shaberi.app, words) == names


def test_judges_models_and_tags_are_those_of_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"run_id": "gpt-x@@july", "model": "gpt-x", "run_tag": "july", "created_at": datetime(2026, 1, 1, tzinfo=UTC)}
    about = {"judge": "gpt-judge", "benchmark": "tengu", "question_set": "tengu@9", "pipeline": "baseline"}
    counts = dict.fromkeys(("n_planned", "n_scored", "n_failed", "n_excluded"), 1)
    lake = Lake(tmp_path / "warehouse")
    lake.append("metrics", pl.DataFrame([own | about | counts | {"null_policy": "legacy"}]))
    stored = {"spec": "{}", "spec_hash": "", "status": "complete", "updated_at": own["created_at"]}
    lake.append("runs", pl.DataFrame([own | stored]))
    monkeypatch.setenv("SHABERI_WAREHOUSE", str(lake.folder))

    found = {option: completed(run_evals.app, f"{option} ") for option in ("--tag", "--model")}
    assert found == {"--tag": ["july"], "--model": ["embedded/smollm2-135m", "gpt-x"]}
    assert completed(run_evals.app, "--judge-model gpt") == ["gpt-judge"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_usual_shells_complete_options_and_names_of_each_script(shell: Any) -> None:
    for app, name in ((run_evals.app, "run-evals"), (quick_eval.app, "quick-eval"), (shaberi.app, "shaberi")):
        script = app.generate_completion(shell=shell)
        assert "__complete" in script
        assert name in script
        assert "max-concurrency" in script
