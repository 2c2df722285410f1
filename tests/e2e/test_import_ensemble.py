"""`shaberi import-ensemble` as a user meets it."""

import json
from pathlib import Path

import pytest

from tests.commands import Finished, lake_of, run, run_without_dagster
from tests.exchange.caches import baseline, ensemble, failed, response, result, write

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def test_caches_are_imported_shown_and_not_imported_again(tmp_path: Path) -> None:
    caches = tmp_path / "cache"
    write(caches / "ensemble.json", ensemble({"q-1": [response("a"), failed()], "q-2": [response("b"), failed()]}))
    write(caches / "baseline.json", baseline(result("q-1", response("a")), result("q-2", response("b"), correct=False)))

    first = _shaberi(tmp_path, "import-ensemble", caches).succeeded()

    assert "4 entries (4 imported); 6 answers (2 errors), 2 judgements; 0 parts quarantined" in first.out
    scores = json.loads(run("view-scores", "--format", "json", environment=lake_of(tmp_path)).succeeded().out)
    assert "legacy:unknown" in json.dumps(scores)
    again = json.loads(_shaberi(tmp_path, "import-ensemble", caches, "--json").succeeded().out)
    assert (again["changed"], [file["entries_repeated"] for file in again["files"]]) == (False, [2, 2])


def test_run_evals_grades_and_votes_on_imported_samples_by_our_rules_whatever_the_caches_say(tmp_path: Path) -> None:
    said = {"q-1": ["4", "5", "4"], "q-2": ["5", "5", "4"]}
    samples = {name: [response(f"The answer is {one}.") for one in texts] for name, texts in said.items()}
    judged = [result(name, response(f"The answer is {texts[0]}.")) for name, texts in said.items()]  # all "correct"
    write(tmp_path / "cache" / "ensemble.json", ensemble(samples))
    write(tmp_path / "cache" / "baseline.json", baseline(*judged))
    _shaberi(tmp_path, "import-ensemble", tmp_path / "cache").succeeded()

    for tag, more in {"legacy-3x-t0.7": ["--strategy", "plurality"], "legacy-baseline": []}.items():
        asked = ["--model", "google:small", "--tag", tag, "--benchmark", "gsm8k", *more]
        run_without_dagster("run-evals", *asked, environment=lake_of(tmp_path)).succeeded()

    query = (
        "select run_tag, coalesce(strategy, 'sample') as strategy, judge, sum(score)::int as n_right, count(*) as n "
        "from judgements group by all order by all"
    )
    found = json.loads(_shaberi(tmp_path, "sql", query, "--format", "json").succeeded().out)
    assert [tuple(row.values()) for row in found] == [
        ("legacy-3x-t0.7", "plurality", "rule:numeric", 1, 2),
        ("legacy-3x-t0.7", "sample", "rule:numeric", 3, 6),
        ("legacy-3x-t0.7", "single", "rule:numeric", 1, 2),
        ("legacy-baseline", "sample", "legacy:unknown", 2, 2),
        ("legacy-baseline", "sample", "rule:numeric", 1, 2),
    ]


def test_what_cannot_be_read_is_said_and_is_exit_code_3(tmp_path: Path) -> None:
    caches = tmp_path / "cache"
    write(caches / "cut.json", b'{"entries": [')
    write(caches / "good.json", ensemble({"q-1": [response("a"), response(content=1)]}))

    finished = _shaberi(tmp_path, "import-ensemble", caches)

    assert finished.code == 3
    assert "quarantined: good.json /entries/0/responses/1/content: Input should be a valid string" in finished.out
    assert "quarantined: cut.json is not JSON" in finished.out
    assert "1 questions have no text" in finished.out


def test_a_path_that_is_none_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "other" / "x.json", {})

    assert "neither a file nor a folder" in _shaberi(tmp_path, "import-ensemble", tmp_path / "gone").complaint
    without = _shaberi(tmp_path, "import-ensemble", tmp_path / "other")
    assert (without.code, without.out) == (2, "")
    assert without.err.splitlines()[-1].startswith("error: no ensemble or baseline cache in ")


def _shaberi(folder: Path, *arguments: str | Path) -> Finished:
    return run("shaberi", *arguments, environment=lake_of(folder))
