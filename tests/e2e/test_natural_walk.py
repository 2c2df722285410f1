"""The commands of both systems one after the other, as people use them: each says what it does and calls whom it says."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.commands import Finished, lake_of, run_without_dagster
from tests.mock_endpoint import MockEndpoint, running_mock

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@dataclass
class Walk:
    """One lake, an endpoint, and the calls that it got since the last command."""

    folder: Path
    mock: MockEndpoint
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, line: str, *, calls: Mapping[str, int] | None = None, code: int = 0) -> Finished:
        """Run a command and check the number of calls by model; without any none may be made."""
        command, *arguments = line.replace("URL", self.mock.base_url).split()
        environment = lake_of(self.folder) | {"SHABERI_RESULTS": str(self.folder / "results"), "COLUMNS": "110"}
        finished = run_without_dagster(command, *arguments, environment=environment)
        assert finished.code == code, (line, finished)
        asked = Counter(body["model"] for body in self.mock.bodies)
        assert dict(asked - self.seen) == dict(calls or {}), (line, finished)
        self.seen = asked
        return finished


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    with running_mock() as mock:
        yield Walk(tmp_path, mock)


def test_shaberi_in_its_natural_order(walk: Walk) -> None:
    place = "--base-url URL --judge-base-url URL"
    begin = f"run-evals --model m {place} --judge-model j --benchmark rakuda,elyza --limit 2 --tag july"
    assert "judgements elyza (j run 3) 2/2" in walk(f"{begin} --runs 3", calls={"m": 12, "j": 12}).err
    assert "july-run1, july-run2, july-run3" in walk("run-evals --model m --tag july").err
    walk(f"run-evals --model m --tag july --rejudge --judge-model k {place}", calls={"k": 12})
    walk("run-evals --model m --tag july --passes lang_mixing,repetition")
    walk("run-evals --model m --tag july --reprocess")
    walk("run-evals --model m@@july --runs 2")
    assert "leave --runs out" in walk("run-evals --model m --tag july --runs 1", code=2).err
    walk(f"run-evals --model m --tag july --runs 4 {place}", calls={"m": 4, "j": 4, "k": 4})
    assert "16/16" in walk("view-scores --tag july --judge j").out
    for command in (
        "view-scores --tag july-run* --passes lang_mixing,repetition",
        "shaberi cost --model m@@july",
        "shaberi sql prompts_of_run --param model=m --param run_tag=july",
        "shaberi sql compare_runs --param first=m@@july --param second=m@@july-run1",
    ):
        assert walk(command).out
    inspected = walk("inspect-output --model m --tag july --plain").out
    assert inspected.count("mean of 4 runs") == inspected.count("\njuly-run4\n") == 4  # questions
    walk(
        f"run-evals --model other {place} --judge-model j --benchmark rakuda,elyza --limit 2",
        calls={"other": 4, "j": 4},
    )
    assert "july-run1" in walk("shaberi compare m@@july other --judge j").out
    more = {"m": 6, "j": 12, "other": 6}  # limited runs are asked further
    document = json.loads(walk("shaberi decide m@@july other --judge j --json", calls=more).out)
    assert document["candidates"] == ["m@@july", "other@@default"]
    assert "4 of 10 questions, as before" in walk("run-evals --model m --tag july").err


def test_runs_of_a_tag_may_have_different_benchmarks(walk: Walk) -> None:
    place = "--base-url URL --judge-base-url URL"
    walk(f"run-evals --model m {place} --judge-model j --benchmark elyza --limit 1 --runs 2", calls={"m": 2, "j": 2})
    walk(f"run-evals --model m {place} --tag default-run1 --benchmark rakuda --limit 1", calls={"m": 1, "j": 1})
    walk(f"run-evals --model m {place} --runs 3 --benchmark elyza", calls={"m": 1, "j": 1})
    for more in ("", "--passes repetition", "--reprocess"):
        walk(f"run-evals --model m {more}")
    walk(f"run-evals --model m {place} --rejudge --judge-model k", calls={"k": 4})
    walk(f"run-evals --model m {place} --benchmark rakuda --dry-run")
    for reader in ("view-scores", "view-scores --by run", "inspect-output --plain", "shaberi sweep --model m"):
        assert walk(reader).out


def test_the_ensemble_evaluation_in_its_natural_order(walk: Walk) -> None:
    walk.mock.options.script = lambda _, number: f"The answer is {number % 3}."
    asked = "--model m --base-url URL --datasets gsm8k --sample 2 --ensemble 3"
    walk(f"shaberi generate-cache {asked}", calls={"m": 8})
    quick = f"quick-eval {asked} --strategy plurality --judge-model none"
    report = walk(quick)
    assert "8 of 8 are there or paid for" in report.err
    assert "are replies of run" in report.err
    walk("shaberi baseline promote main --model m")
    again = walk(f"{quick} --tag anew --fresh --baseline main", calls={"m": 8}, code=4)
    assert "main" in again.out
    assert "main" in walk("shaberi baseline list").out
