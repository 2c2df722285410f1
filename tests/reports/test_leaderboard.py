"""The leaderboard page by page, with the intervals that single scores give."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from shaberi_dagster.lake.catalog import open_catalog, write_catalog
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports import scores
from shaberi_dagster.reports.requests import ScoreSelection
from shaberi_dagster.reports.scores import read_leaderboard, read_rankings, read_scores
from shaberi_dagster.reports.ties import NOT_COMPARED
from shaberi_dagster.viewer.html import about_lake, write_html
from shaberi_dagster.viewer.requests import FileRequest
from shaberi_dagster.viewer.web.address import PageAddress
from shaberi_dagster.viewer.web.pages import PAGES, Source
from shaberi_dagster.viewer.web.templates import render

pytestmark = pytest.mark.integration

NOW = datetime(2026, 7, 1, tzinfo=UTC)
MULTIPLIERS = {"tengu": 1.0, "elyza": 2.0}


@pytest.fixture
def catalog(settings):
    """Opens the catalog of a lake with these scores: by model and run number, benchmark and judge, a list a question."""

    def made(given):
        metrics, rows = [], []
        for (model, number, benchmark, judge), questions in given.items():
            tag = f"t-run{number}" if number else "t"
            own = {"run_id": f"{model}@@{tag}", "model": model, "run_tag": tag, "benchmark": benchmark, "judge": judge}
            own |= {"question_set": f"{benchmark}@5", "pipeline": "baseline", "created_at": NOW}
            found = [score for samples in questions for score in samples]
            known = [score for score in found if score is not None]
            counts = {"n_planned": len(found) + 1, "n_scored": len(known), "n_failed": 1, "n_excluded": 0}
            metrics += [
                own
                | {"base_tag": "t", "run_number": number, "score": MULTIPLIERS[benchmark] * sum(known) / len(known)}
                | {"null_policy": policy, "reported_multiplier": MULTIPLIERS[benchmark]}
                | {"question_ids": [f"q{place}" for place, samples in enumerate(questions) for _ in samples]}
                | {"question_scores": [least if one is None else one * MULTIPLIERS[benchmark] for one in found]}
                | counts
                for policy, least in (("legacy", None), ("zero", 0.0))
            ]
            rows += [
                own
                | {"question_id": f"q{place}", "sample_index": index, "answer_hash": f"{model}{tag}{place}{index}"}
                | {"score": score, "status": "error" if score is None else "ok"}
                for place, samples in enumerate(questions)
                for index, score in enumerate(samples)
            ]
        asked = [
            {"benchmark": "tengu", "question_set": "tengu@2", "question_set_sha256": "", "question_id": f"q{place}"}
            | {"position": place, "question": "?", "created_at": NOW}
            for place in (1, 2)
        ]
        lake = Lake(settings.warehouse)
        for table, contents in {"metrics": metrics, "scores": rows, "questions": asked}.items():
            lake.append(table, pl.DataFrame(contents, infer_schema_length=None))
        write_catalog(lake)
        return closing(open_catalog(settings.warehouse))

    return made


@pytest.mark.parametrize(
    "selection",
    [ScoreSelection(), ScoreSelection(null_policy="zero"), ScoreSelection(question_sets=["tengu@2"])],
    ids=["legacy", "zero", "questions"],
)
def test_intervals_and_ties_of_very_many_runs_are_those_of_their_single_scores(selection, catalog, monkeypatch):
    shifts = {"m": 0.0, "n": 1.25}
    given = {
        (model, number, benchmark, judge): [
            [3.0 + shift + place / 3, None if judge == "b" and place == 2 else 4.1 + place] for place in range(5)
        ]
        for model, shift in shifts.items()
        for number in (1, 2)
        for benchmark in MULTIPLIERS
        for judge in "ab"
    }
    given["n", 1, "tengu", "a"][1] = [12.0, 9.0]
    with catalog(given) as own:
        few = read_scores(own, selection)
        monkeypatch.setattr(scores, "MOST_RUNS", 0)
        many, board = read_scores(own, selection), read_leaderboard(own, selection)

    expected = [one["estimates"]["overall"] for ranking in few.rankings for one in ranking["standings"]]
    assert len(expected) == 2
    for shown in (
        [one["estimates"]["overall"] for ranking in many.rankings for one in ranking["standings"]],
        [one["estimates"]["overall"] for ranking in board["shown"] for one in ranking["standings"]],
    ):
        for estimate, own_estimate in zip(expected, shown, strict=True):
            for name in ("value", "standard_error", "n", "degrees_of_freedom", "ends"):
                assert getattr(own_estimate, name) == pytest.approx(getattr(estimate, name), abs=1e-12), name
            assert own_estimate.interval.lower == pytest.approx(estimate.interval.lower, abs=1e-12)
            assert own_estimate.interval.upper == pytest.approx(estimate.interval.upper, abs=1e-12)
    ties, on_page = (
        [{name: one[name] for name in NOT_COMPARED} for ranking in rankings for one in ranking["standings"]]
        for rankings in (few.rankings, board["shown"])
    )
    # Two questions are too few for the test that a pair has everywhere.
    assert [one["against_best"] for one in ties] == ["best", "tied" if selection.question_sets else "below"]
    for tie, own_tie in zip(ties, on_page, strict=True):
        assert own_tie | {"p_value": tie["p_value"]} == tie
        assert (own_tie["p_value"] or 0) == pytest.approx(tie["p_value"] or 0, rel=1e-9)
    assert {row["estimate"] for row in many.rows} == {None}


def test_many_models_stand_on_several_pages_each_line_with_its_interval(catalog, monkeypatch):
    monkeypatch.setattr(scores, "LINES", 100)
    given = {
        (f"m{number:03}", None, "tengu", "a"): [[9 - number / 50], [8 - number / 50], [9 - max(number - 2, 0) / 50]]
        for number in range(205)
    }
    with catalog(given) as own:
        file = write_html(Source(own, Path()), about_lake(Source(own, Path()), FileRequest(n_questions=0)), NOW)
        pages = [read_leaderboard(own, ScoreSelection(), page=page) for page in (1, 2, 3)]
        found = read_leaderboard(own, ScoreSelection(), name="M20")
        html = [
            render(PAGES["/"](Source(own, Path()), ask), ask)
            for ask in (PageAddress("/"), PageAddress("/", (("page", "3"),)))
        ]

    lines = [line for page in pages for ranking in page["shown"] for line in ranking["standings"]]
    assert [line["rank"] for line in lines] == [*[1] * 15, *range(16, 206)]
    assert {line["against_best"]: line["rank"] for line in reversed(lines)} == {"best": 1, "tied": 1, "below": 16}
    assert [len(ranking["standings"]) for page in pages for ranking in page["shown"]] == [100, 100, 5]
    assert [(line["rank"], line["p_value"]) for line in lines if line["against_best"] == "best"] == [(1, None)]
    assert all(line["n_common_questions"] == 3 for line in lines)
    assert all(line["ci_questions_lower"] < line["mean"] < line["ci_questions_upper"] for line in lines)
    assert [(line["rank"], line["model"]) for ranking in found["shown"] for line in ranking["standings"]] == [
        (201 + number, f"m20{number}") for number in range(5)
    ]
    assert ["adjusted for all pairs of the ranking" in one for one in html] == [True, True]
    assert 'href="/?page=2" data-key="n"' in html[0]
    assert "page 3 of 3" in html[1]
    assert [one.count("95 % interval ") for one in html] == [100, 5]
    assert [f'href="#page-{place}" data-key="{key}"' in file for place, key in ((2, "n"), (3, "n"), (1, "p"))] == [
        True
    ] * 3


def test_over_the_sets_that_runs_were_asked_the_roll_up_says_their_scores(catalog, settings):
    with catalog({("m", None, "elyza", "a"): [[9.0], [8.0], [7.0]]}):
        pass
    lake = Lake(settings.warehouse)
    lake.append("metrics", lake.read("metrics").with_columns(model=pl.lit("n"), run_id=pl.lit("n@@t")))
    with closing(open_catalog(settings.warehouse)) as own:
        board = read_rankings(own, ScoreSelection(question_sets=["tengu@2"]))
    assert [(row["model"], row["score"], row["n_scored"]) for row in board.rows] == [("m", 16.0, 3), ("n", 16.0, 3)]
