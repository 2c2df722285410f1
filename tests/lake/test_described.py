"""The columns and types of all public views, as people's own SQL relies on them."""

import json
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from tests.views import Views

SNAPSHOT = Path(__file__).with_name("described.json")
_CALLS = {
    "cost_at": "cost_at(null)",
    "evidence_of": "evidence_of('scores')",
    "imported_runs": "imported_runs(null, null)",
    "judge_agreement_of": "judge_agreement_of('score_patterns')",
    "judge_prompt_of": "(select judge_prompt_of('j', null, 'tree') as judge_prompt)",
    "judge_leniency_of": "judge_leniency_of('score_patterns')",
    "leaderboard_under": "leaderboard_under('legacy')",
    "multi_judge_leaderboard_of": "multi_judge_leaderboard_of(['m'])",
    "prompt_generation_of": "(select prompt_generation_of('j', source) as known from runs)",
    "run_statistics_of": "run_statistics_of(3)",
    "named_runs": "named_runs('m@@july')",
    "selected_runs": "selected_runs(null, null, null)",
}


def described(catalog: duckdb.DuckDBPyConnection) -> Mapping[str, Mapping[str, str]]:
    """Map each public view and macro to its columns and their types, in order."""
    names = catalog.execute(
        "select view_name from duckdb_views() where schema_name = 'main' and not internal "
        "union select function_name from duckdb_functions() where schema_name = 'main' and not internal order by 1"
    ).fetchall()
    return {
        name: dict(row[:2] for row in catalog.execute(f"describe from {_CALLS.get(name, name)}").fetchall())
        for (name,) in names
    }


@pytest.mark.unit
def test_views_keep_their_columns_and_types(views: Views) -> None:
    kept = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    shown = described(views.catalog)
    assert shown == kept
    assert {name: list(columns) for name, columns in shown.items()} == {name: list(kept[name]) for name in kept}
