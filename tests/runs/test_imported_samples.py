"""Samples that were imported from caches are those of `quick-eval`, without a call."""

import json

import pytest

from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.presets import CacheRequest
from shaberi_dagster.settings import Settings
from tests.commands import run
from tests.exchange.caches import MODEL, baseline, ensemble, failed, response, result, write

pytestmark = [pytest.mark.integration, pytest.mark.long]
SAID = {"q-1": "445", "q-2": "544", "q-3": "444", "q-4": "455", "q-5": "44x"}


@pytest.fixture(autouse=True)
def imported(tmp_path):
    answers = {name: [failed() if one == "x" else response(one) for one in texts] for name, texts in SAID.items()}
    write(tmp_path / "c" / "ensemble.json", ensemble(answers))
    write(tmp_path / "c" / "baseline.json", baseline(*(result(name, given[0]) for name, given in answers.items())))
    run("shaberi", "import-ensemble", tmp_path / "c").succeeded()


def _quick(*options):
    command = ("quick-eval", "--model", MODEL, "--ensemble", "3", "--strategy", "plurality", *options)
    return json.loads(run(*command, "--json").succeeded().out)


def _results(report):
    return {row["strategy"]: (row["n_correct"], row["n_planned"]) for row in report["benchmarks"][0]["results"]}


def test_stored_samples_are_taken_without_a_call_or_a_key():
    report = _quick("--sample", "all")
    assert (report["status"], report["calls_made"], report["settings"]["single"]) == ("complete", {}, "first")
    assert _results(report) == {"single": (3, 4), "plurality": (3, 4), "samples": (8, 12)}
    lake = Lake(Settings.from_environment().warehouse)
    assert lake.read("calls").is_empty()
    (reused,) = lake.read("runs")["reused_replies"].drop_nulls()
    assert json.loads(reused) == {"answers": {"google%3Asmall@@legacy-3x-t0.7": 12}}


@pytest.mark.parametrize(("order", "names"), [("mulberry32", {"q-1", "q-2"}), ("pinned", None)])
def test_a_sample_is_drawn_among_their_questions(order, names):
    report = _quick("--sample", "2", "--sample-order", order)
    assert _results(report)["samples"][1] == 6
    rows = Lake(Settings.from_environment().warehouse).read("answers", {"run_tag": report["run_tag"]})
    drawn = {json.loads(text)["questionId"] for text in rows["legacy_fields"]}
    assert len(drawn) == 2
    assert drawn <= (names or SAID.keys() - {"q-5"})


@pytest.mark.parametrize("other", [{"temperature": 0.2}, {"ensemble": "4"}, {"questions": "starter"}, {"model": "m"}])
def test_what_is_otherwise_asked_for_has_none(other):
    request = CacheRequest(**({"model": MODEL, "ensemble": "3"} | other))
    assert request.with_imported() is request
    usual = CacheRequest(model=MODEL, ensemble="3")
    assert usual.with_imported(fresh=True) is usual
    assert usual.with_imported().datasets == ("gsm8k",)


def test_a_gate_and_graders_work_on_them():
    tag = _quick("--sample", "all")["run_tag"]
    run("shaberi", "baseline", "promote", "main", "--model", MODEL, "--tag", tag).succeeded()
    sampled = ("--model", MODEL, "--ensemble", "3", "--strategy", "plurality", "--sample", "3")
    checked = run("quick-eval", *sampled, "--baseline", "main")
    assert checked.code == 4, checked.err
    assert "no test could have failed" in checked.out
