"""What the stages that call share."""

from dataclasses import replace

import polars as pl
import pytest

from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.journal.files import FileJournal, FileJournals
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.progress import LogReporter
from tests.example_runs import ask, asked_of, materialized, own_engine, stored_run
from tests.mock_endpoint import MockEndpoint

pytestmark = pytest.mark.integration


def test_unreadable_lines_of_a_journal_are_set_aside_and_said(workspace: Workspace, mock: MockEndpoint) -> None:
    spec = stored_run(workspace, ask(mock))
    path = FileJournals(workspace.settings.warehouse).path(spec.run_id, "answers")
    FileJournal.open(path, spec.run_id, "answers").close()
    with path.open("ab") as file:
        file.write(b"\xff not a record\n")
    said: list[str] = []
    with own_engine({}):
        materialized(spec, replace(workspace, default_reporter=LogReporter(said.append)), "answers")
    assert any(text.startswith("1 unreadable lines of the journal were set aside in ") for text in said)
    assert path.with_name(path.name + ".corrupt").read_bytes() == b"\xff not a record\n"


def _priced(workspace: Workspace, text: str) -> Workspace:
    path = workspace.settings.warehouse.parent / "prices.yaml"
    path.write_text(text, encoding="utf-8")
    return Workspace(replace(workspace.settings, prices=path), environment={})


def test_each_call_is_committed_with_its_cost_where_the_price_is_from_and_the_prices_for_sql(
    workspace: Workspace, mock: MockEndpoint
) -> None:
    workspace = _priced(workspace, "- {model: judge-*, base_url: 'http://127.0.0.1', input: 2, output: 4}")
    spec = stored_run(workspace, ask(mock, judge_models=["judge-a"]))
    with own_engine({}):
        materialized(spec, workspace, "answers", "judgements")

    calls = workspace.lake.read("calls")
    answers, judgements = (calls.filter(stage=stage) for stage in ("answers", "judgements"))
    assert answers.select("cost_usd", "price_source").unique().rows() == [(None, None)]
    (source,) = judgements["price_source"].unique()
    assert source.startswith("prices.yaml ")
    expected = (2 * judgements["prompt_tokens"] + 4 * judgements["completion_tokens"]) / 1e6
    assert judgements["cost_usd"].to_list() == pytest.approx(expected.to_list())
    with connect(workspace.lake) as connection:
        repriced = pl.DataFrame(connection.sql("from repriced_calls").to_arrow_table())
    assert repriced["cost_usd"].eq_missing(repriced["recorded_cost_usd"]).all()
    assert repriced["price_source"].drop_nulls().unique().to_list() == [source]


def test_a_wrong_price_file_is_found_before_anything_is_paid(workspace: Workspace, mock: MockEndpoint) -> None:
    workspace = _priced(workspace, "- {model: judge-*}")
    spec = stored_run(workspace, ask(mock))

    with own_engine({}), pytest.raises(ConfigurationError, match=r"entry 1 \(judge-\*\): input: Field required"):
        materialized(spec, workspace, "answers")

    assert asked_of(mock, spec.model) == 0
