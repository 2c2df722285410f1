"""The record of a run against the parameters that the endpoint received."""

from typing import Any

import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.llm.client import ChatClient
from shaberi_dagster.llm.endpoints import ENDPOINTS, _rule, provider_of
from shaberi_dagster.llm.engine import Engine
from shaberi_dagster.llm.providers.registry import PROVIDERS
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.reports.settings import differences, read_settings
from shaberi_dagster.runs.results.results_tree import export_run
from shaberi_dagster.runs.stored import store_run
from tests.example_runs import ask, materialized, stored_run, without_results
from tests.results_tree import assert_valid_tree, documents

pytestmark = pytest.mark.integration

_MODELS = {
    "openai": ("gpt-5.1", "gpt-4o"),
    "gemini": ("gemini-2.5-flash",),
    "embedded": ("embedded/smollm2-135m",),
    "custom": ("my-model",),
}
_ASKED = {"temperature": 0.7, "max_tokens": 99, "frequency_penalty": 0.5}
_ASKED_OF_JUDGES = {"temperature": 0.3, "max_tokens": 88}


@pytest.fixture(autouse=True, scope="module")
def results_left_out():
    """Each run is exported once, at its end."""
    with without_results():
        yield


@pytest.fixture
def _everything_goes_to_the_mock(mock, monkeypatch, workspace):
    there = {name: ChatClient(mock.base_url, provider=PROVIDERS.use(name)()) for name in PROVIDERS}

    async def client(_: Engine, endpoint: Endpoint, __: str) -> ChatClient:
        return there[provider_of(endpoint).name]

    monkeypatch.setattr(Engine, "_client", client)
    yield
    for one in there.values():
        workspace.engine_thread().run(one.close())


def _run(workspace: Any, mock: Any, tmp_path: Any, model: str, endpoint: str, **values: Any) -> tuple[Any, Any]:
    """The row of `runs` and the manifest of a run whose model and judge are the same."""
    url = mock.base_url if endpoint == "custom" else None
    request = ask(mock, model=model, judge_models=[model], base_url=url, judge_base_url=url, limit=2, **values)
    spec = stored_run(workspace, request)
    assert spec.endpoint is not None
    assert spec.endpoint.name == endpoint
    materialized(spec, workspace)
    export_run(workspace.lake, spec.run_id, tmp_path / "results")
    assert_valid_tree(tmp_path / "results")
    ((_, manifest),) = (one for path in (tmp_path / "results").rglob("manifest.json") for one in documents(path))
    return workspace.lake.read("runs", {"run_id": spec.run_id}).row(0, named=True), manifest


def _received(body: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    limits = (body.get(name) for name in ("max_completion_tokens", "max_output_tokens"))
    known = {"max_tokens": next(filter(None, limits), None)} | body
    return {name: known.get(name) for name in asked}


@pytest.mark.usefixtures("_everything_goes_to_the_mock")
@pytest.mark.parametrize(
    ("endpoint", "model"),
    [
        (endpoint, model)
        for endpoint, entry in ENDPOINTS.items()
        if not entry.base_url_variable  # Azure's is in tests/cli/test_endpoints.py
        for model in _MODELS.get(endpoint, (f"{endpoint}:a/model",))
    ],
)
def test_the_record_of_a_run_is_what_each_endpoint_received(endpoint, model, workspace, mock, tmp_path):
    request = _ASKED | {f"judge_{name}": value for name, value in _ASKED_OF_JUDGES.items()}
    row, manifest = _run(workspace, mock, tmp_path, model, endpoint, benchmarks=["tengu", "gsm8k"], **request)

    judging = [body for body in mock.bodies if "FINAL SCORE" in str(body)]
    answering = [body for body in mock.bodies if body not in judging and not {"response_format", "text"} & body.keys()]
    answers = {tuple(_received(body, _ASKED).items()) for body in answering[:4]}
    judgements = {tuple(_received(body, _ASKED_OF_JUDGES).items()) for body in judging}
    assert len(judging) >= 2
    ((answer,), (judgement,)) = (map(dict, answers), map(dict, judgements))

    for recorded in (manifest["model"]["parameters"], *manifest["generation"]["by_benchmark"].values()):
        assert {name: recorded[name] for name in _ASKED} == answer
    judge = next(one for one in manifest["judges"] if one["name"] == model)
    assert {name: judge[name] for name in _ASKED_OF_JUDGES} == judgement
    assert judge["not_sent"] == [name for name, value in judgement.items() if value is None]
    missing = [name for name, value in sorted(answer.items()) if value is None]
    missing += [f"judge_{name}" for name, value in judgement.items() if value is None]
    assert row["not_sent"] == manifest["not_sent"] == missing
    assert ("temperature" in missing) == (model == "gpt-5.1")


@pytest.mark.usefixtures("_everything_goes_to_the_mock")
def test_a_model_that_decides_for_a_rule_is_recorded_with_the_rules_own_sampling(workspace, mock, tmp_path):
    mock.options.script = ["no number at all"]
    _, manifest = _run(
        workspace, mock, tmp_path, "gemini-2.5-flash", "gemini", benchmarks=["gsm8k"], judge_temperature=0.3
    )

    (decided, *_) = (body for body in mock.bodies if "response_format" in body)
    judge = next(one for one in manifest["judges"] if one["model"])
    assert (judge["temperature"], judge["max_tokens"]) == (decided["temperature"], decided["max_tokens"]) == (0.0, 1024)


@pytest.mark.usefixtures("_everything_goes_to_the_mock")
def test_of_several_models_only_those_are_named_that_were_not_sent_something(workspace, mock):
    request = ask(
        mock,
        model="gpt-5.1",
        base_url=None,
        judge_base_url=None,
        judge_models=["gpt-4o", "gpt-5"],
        samples=2,
        sample_models=["gpt-5.1", "gpt-4o"],
        strategies=["plurality"],
        single="first",
        benchmarks=["gsm8k"],
    )
    spec = stored_run(workspace, request)

    stored = workspace.lake.read("runs", {"run_id": spec.run_id})["not_sent"][0].to_list()
    assert stored == ["temperature of gpt-5.1", "judge_temperature of gpt-5"]


@pytest.mark.usefixtures("_everything_goes_to_the_mock")
def test_settings_that_were_not_sent_do_not_differ(workspace, mock):
    runs = [
        stored_run(
            workspace, ask(mock, model="gpt-5.1", base_url=None, tag=f"t{temperature}", temperature=temperature)
        ).run_id
        for temperature in (0.2, 1.0)
    ]

    with connect(workspace.lake) as catalog:
        settings = read_settings(catalog, runs, ["tengu"], [], "baseline")
        asked = {name: values for name, values in settings.items() if name.name == "temperature of answers"}

    assert not differences(settings, {"A": runs[:1], "B": runs[1:]})
    assert [set(by_run.values()) for by_run in asked.values()] == [{frozenset({"not sent"})}]


def test_a_parameter_that_an_endpoint_file_drops_later_is_recorded_when_the_run_goes_on(
    workspace, mock, tmp_path, monkeypatch
):
    file = tmp_path / "plugins" / "endpoints" / "mine.yaml"
    file.parent.mkdir(parents=True)
    monkeypatch.setenv("SHABERI_PLUGINS", str(file.parents[1]))
    runs = []
    for rules in ("", "rules: [{models: ['*'], drop: [max_tokens, temperature]}]\n"):
        file.write_text(f"base_url: {mock.base_url}\nmodels: [mine]\n{rules}", encoding="utf-8")
        _rule.cache_clear()
        ENDPOINTS._made.clear()
        spec = stored_run(workspace, ask(mock, model="mine", base_url=None))
        runs.append(workspace.lake.read("runs", {"run_id": spec.run_id}).row(0, named=True))
    materialized(spec, workspace, "answers")

    assert [run["not_sent"] for run in runs] == [
        [],
        ["max_tokens", "temperature", "judge_max_tokens", "judge_temperature"],
    ]
    assert runs[0]["spec_hash"] == runs[1]["spec_hash"]
    assert not {"max_tokens", "temperature"} & mock.bodies[-1].keys()
    file.unlink()
    _rule.cache_clear()
    store_run(spec, workspace)
    assert workspace.lake.read("runs", {"run_id": spec.run_id})["not_sent"][0].to_list() == runs[1]["not_sent"]
