"""Rows whose judge, parser or pass raises: each is an error of its own."""

from typing import Any

import polars as pl
import pytest

from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.judges import llm
from shaberi_dagster.tasks.passes.lang_mixing import LangMixing
from tests.example_runs import ask, materialized, stored_run
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize(
    ("place", "stage"),
    [
        ((llm.LLMJudge, "judge"), "judgements"),
        ((llm.LLMJudge, "case"), "judgements"),
        ((llm, "parse_score"), "judgements"),
        ((LangMixing, "examine"), "pass_outputs"),
    ],
)
def test_what_a_row_raises_is_its_own_error_and_the_others_are_made(
    place: tuple[Any, str], stage: str, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, made_before = getattr(*place), list[Any]()

    def once(*arguments: Any, **options: Any) -> Any:
        made_before.append(arguments)
        if len(made_before) == 1:
            raise AttributeError("\x1b[31mno such\nthing")
        return made(*arguments, **options)

    with running_mock(script=lambda body, _: "FINAL SCORE: 7" if "judge" in body["model"] else "富士山です。") as mock:
        spec = stored_run(workspace, ask(mock, passes=["lang_mixing"]))
        materialized(spec, workspace, "answers")
        with monkeypatch.context() as patch:
            patch.setattr(*place, once)
            materialized(spec, workspace, stage)
        rows = workspace.lake.read(stage)
        errors = rows.filter(pl.col("status") == "error").select("error_class", "error_message").rows()
        assert (rows.height, errors) == (5, [("AttributeError", "[31mno such thing")])
        materialized(spec, workspace, stage)
    assert set(workspace.lake.read(stage).sort("created_at").tail(5)["status"]) == {"ok"}
