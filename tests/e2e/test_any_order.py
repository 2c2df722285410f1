"""Commands in any order on one lake: each says what it does, pays once, and leaves alone what it does not name.

Random sequences of real commands against a counting endpoint. After each one every reading command and page works, calls
were made only where the command may make some, what was not named has the same counts, and a score is the same
everywhere. At the end another lake gets the same commands without kills, and has the same rows.
"""

import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.lake.store import Lake
from tests.commands import Finished, lake_of, run_without_dagster, started
from tests.mock_endpoint import running_mock
from tests.sizes import size
from tests.viewer.site import served

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(6 * 3600)]
_TAGS = st.sampled_from(["a", "b"])
_JUDGES = st.sampled_from(["j", "k"])
_PIPELINES = st.sampled_from(["lang_mixing", "repetition", "lang_mixing,repetition"])
_BENCHMARKS = st.sampled_from(["rakuda", "elyza", "rakuda,elyza"])
_KEPT = {
    "answers": ["run_id", "benchmark", "question_id", "sample_index", "status", "answer"],
    "consensus": ["run_id", "benchmark", "question_id", "strategy", "status", "answer"],
    "judgements": ["run_id", "benchmark", "question_id", "sample_index", "strategy", "judge", "status", "score"],
    "pass_outputs": ["run_id", "benchmark", "question_id", "sample_index", "strategy", "pass", "status", "severity"],
    "scores": ["run_id", "benchmark", "question_id", "sample_index", "strategy", "judge", "pipeline", "score"],
    "metrics": [
        "run_id",
        "benchmark",
        "judge",
        "strategy",
        "pipeline",
        "null_policy",
        "score",
        "n_planned",
        "n_scored",
    ],
}
"""What two lakes with the same history share: all but times, identities of calls, and what a kill repeats."""


class AnyOrder(RuleBasedStateMachine):
    """One lake, and the commands that it has got."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.history: list[tuple[str, ...]] = []
        self._serving = running_mock()
        self.mock = self._serving.__enter__()
        place = ("--base-url", self.mock.base_url, "--judge-base-url", self.mock.base_url)
        self.evaluate = ("run-evals", "--model", "m", *place)
        self.bare = ("run-evals", "--model", "m")

    def teardown(self) -> None:
        """Give another lake the same commands."""
        try:
            if self.history:
                again = self.folder / "again"
                for command in self.history:
                    self._run(command, again)
                assert _rows(again) == _rows(self.folder)
        finally:
            self._serving.__exit__(None, None, None)
            shutil.rmtree(self.folder)

    # --- commands ---------------------------------------------------------------------------------------------------

    @initialize(limit=st.integers(1, 2))
    def first(self, limit: int) -> None:
        self._do((*self.evaluate, "--tag", "a", "--judge-model", "j", "--benchmark", "rakuda", "--limit", str(limit)))

    @rule(
        tag=_TAGS,
        benchmark=_BENCHMARKS,
        judge=_JUDGES,
        limit=st.sampled_from([None, "1", "3", "all"]),
        runs=st.sampled_from([None, None, "2", "3"]),
        passes=st.one_of(st.none(), st.none(), _PIPELINES),
        killed=st.sampled_from([False, False, True]),
    )
    def more(self, tag: str, benchmark: str, judge: str, killed: bool, **options: str | None) -> None:
        """Evaluate: more questions, judges, benchmarks or runs; some are killed and run again."""
        command = (*self.evaluate, "--tag", tag, "--judge-model", judge, "--benchmark", benchmark)
        command += tuple(part for name, value in options.items() if value for part in (f"--{name}", value))
        if killed:
            self._kill(command)
        planned = self._run((*command, "--dry-run", "--json"))
        if planned.code:
            assert planned.code == 2, planned
            return
        rows = json.loads(planned.out)["rows"]
        least, most = (sum(row[name] for row in rows) for name in ("calls", "calls_most"))
        made = self._do(command, named=(tag, benchmark.split(",")))
        assert least <= sum(made.values()) <= most, (command, made, planned.out)

    @rule(tag=_TAGS, passes=_PIPELINES)
    def add_passes(self, tag: str, passes: str) -> None:
        if self._has(tag):
            assert not self._do((*self.bare, "--tag", tag, "--passes", passes), named=(tag, ["rakuda", "elyza"])) or (
                self._belongs(tag, passes)
            )

    @rule(tag=_TAGS)
    def reprocess(self, tag: str) -> None:
        if self._has(tag):
            assert not self._do((*self.bare, "--tag", tag, "--reprocess"))

    @rule(tag=_TAGS, judge=_JUDGES)
    def rejudge(self, tag: str, judge: str) -> None:
        if self._has(tag):
            made = self._do((*self.bare, "--tag", tag, "--rejudge", "--judge-model", judge, *self.evaluate[5:]))
            assert not made["m"]

    @rule(tag=_TAGS)
    def go_on(self, tag: str) -> None:
        """The bare command finishes what is there, and never begins another run."""
        if self._has(tag):
            before = self._planned()
            self._do((*self.bare, "--tag", tag))
            assert self._planned() == before

    @rule()
    def decide(self) -> None:
        if self._has("a") and self._has("b"):
            command = ("shaberi", "decide", "m@@a", "m@@b", "--judge", "j", "--benchmark", "rakuda", "--questions", "2")
            self._do((*command, "--json"), codes=(0, 2, 4))

    @rule(tag=st.sampled_from(["q", "r"]), sample=st.sampled_from(["1", "2"]))
    def quick(self, tag: str, sample: str) -> None:
        command = (
            "quick-eval",
            "--model",
            "m",
            "--base-url",
            self.mock.base_url,
            "--datasets",
            "gsm8k",
            "--ensemble",
            "2",
        )
        self._do((*command, "--sample", sample, "--strategy", "plurality", "--tag", tag), codes=(0, 2))

    @precondition(lambda self: any("quick-eval" in command for command in self.history))
    @rule(tag=st.sampled_from(["q", "r"]))
    def promote(self, tag: str) -> None:
        assert not self._do(("shaberi", "baseline", "promote", f"main-{tag}", f"m@@{tag}"), codes=(0, 2))

    @rule()
    def bring_in(self) -> None:
        path = self.folder / "answers.jsonl"
        with open_catalog(self.folder / "warehouse") as catalog:
            ids = catalog.sql(
                "select question_id from questions where benchmark = 'rakuda' order by position"
            ).fetchall()
        lines = [
            json.dumps({"question_id": name, "answer": f"{place} 番の答えです。"}) for place, (name,) in enumerate(ids)
        ]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert not self._do(("shaberi", "import-answers", str(path), "--model", "imported", "--benchmark", "rakuda"))

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def everything_can_be_read(self) -> None:
        if not self.history:
            return
        readers = [
            "view-scores --format json",
            "view-scores --by run --wide",
            "view-scores --format md --by run",
            "view-scores --format csv --by run",
            "view-scores --notes",
            "inspect-output --plain --model m",
            "shaberi cost",
            "shaberi sql leaderboard",
            "shaberi baseline list",
        ]
        told = {reader: self._run(tuple(reader.split())) for reader in readers}
        for reader, finished in told.items():
            assert finished.code == 0, (reader, finished)
        with served(self.folder / "warehouse") as site:
            pages = {
                page: site.get(page) for page in ("/", "/runs", "/model?model=m", "/questions?m=m%40%40a", "/judges")
            }
        assert {page: reply.status for page, reply in pages.items() if reply.status != 200} == {}, pages
        with open_catalog(self.folder / "warehouse") as catalog:
            rows = catalog.sql(
                "select run_id, run_tag, model, benchmark, judge, score from leaderboard "
                "where strategy is null and pipeline = 'baseline' and score is not null and model = 'm' "
                "and not starts_with(judge, 'rule:')"
            ).fetchall()
        document = {
            (row["run_id"], row["benchmark"], row["judge"]): row["score"]
            for row in json.loads(told["view-scores --format json"].out)["rows"]
        }
        for run_id, tag, model, benchmark, judge, score in rows:
            assert document[run_id, benchmark, judge] == score
            manifest = json.loads((self.folder / "results" / model / tag / "manifest.json").read_text(encoding="utf-8"))
            (own,) = [
                one["score"]
                for one in manifest["metrics"]
                if (one["benchmark"], one["judge"]) == (benchmark, judge)
                and one["strategy"] is None
                and one["pipeline"] == "baseline"
            ]
            assert own == score
            for reader in ("view-scores --by run --wide", "view-scores --format md --by run"):
                assert f"{score:.2f}" in told[reader].out, (reader, run_id, score)
            assert f"{score:.2f}" in pages["/model?model=m"].text

    @invariant()
    def each_call_is_paid_once(self) -> None:
        if self.history:
            calls = Lake(self.folder / "warehouse").read("calls", columns=["run_id", "stage", "request_hash", "status"])
            paid = Counter(calls.filter(status="ok").select("run_id", "stage", "request_hash").iter_rows())
            assert [call for call, number in paid.items() if number > 1] == []

    # --- tools --------------------------------------------------------------------------------------------------------

    def _do(
        self,
        command: tuple[str, ...],
        *,
        codes: tuple[int, ...] = (0, 2, 3),
        named: tuple[str, list[str]] | None = None,
    ) -> Counter[str]:
        """Run a command and check what it left alone.

        Returns:
            The calls that were made, by model.
        """
        before, planned = self._calls(), self._planned()
        finished = self._run(command)
        assert finished.code in codes, (command, finished)
        after = self._planned()
        if finished.code == 2:
            assert after == planned, (command, finished)
        else:
            self.history.append(command)
        if named:
            tag, benchmarks = named
            for run_id, counts in planned.items():
                for benchmark, n in counts.items():
                    if not run_id.startswith(f"m@@{tag}") or benchmark not in benchmarks:
                        assert after[run_id][benchmark] == n, (command, run_id, benchmark)
        made = self._calls()
        made.subtract(before)
        return Counter({name: number for name, number in made.items() if number})

    def _kill(self, command: tuple[str, ...]) -> None:
        self.mock.options.latency = 0.1
        requests = self.mock.stats()["requests"]
        with started(*command, environment=self._environment(self.folder), without_dagster=True) as process:
            deadline = time.monotonic() + 20
            while self.mock.stats()["requests"] == requests and process._code is None and time.monotonic() < deadline:
                time.sleep(0.01)
                process._has_ended()
            process.send(signal.SIGKILL)
        self.mock.options.latency = 0.0

    def _environment(self, folder: Path) -> Mapping[str, str]:
        return lake_of(folder) | {"SHABERI_RESULTS": str(folder / "results"), "HOME": str(folder), "COLUMNS": "200"}

    def _run(self, command: tuple[str, ...], folder: Path | None = None) -> Finished:
        finished = run_without_dagster(*command, environment=self._environment(folder or self.folder))
        assert finished.code != 70, (command, finished)
        return finished

    def _calls(self) -> Counter[str]:
        return Counter(body["model"] for body in self.mock.bodies)

    def _planned(self) -> dict[str, dict[str, int]]:
        if not (self.folder / "warehouse").exists():
            return {}
        with open_catalog(self.folder / "warehouse") as catalog:
            rows = catalog.sql(
                "select run_id, benchmark, max(n_planned) from lake.metrics where null_policy = 'legacy' "
                "and strategy is null and not starts_with(run_tag, 'decide-') group by all"
            ).fetchall()
        found: dict[str, dict[str, int]] = {}
        for run_id, benchmark, n in rows:
            found.setdefault(run_id, {})[benchmark] = n
        return found

    def _has(self, tag: str) -> bool:
        return any(run_id == f"m@@{tag}" or run_id.startswith(f"m@@{tag}-run") for run_id in self._planned())

    def _belongs(self, tag: str, passes: str) -> bool:
        """Return whether a pipeline belongs to the evaluation of a run of a tag, so that naming it goes on with that."""
        specs = Lake(self.folder / "warehouse").read("runs", columns=["run_tag", "spec"])
        own = [json.loads(spec) for run_tag, spec in specs.iter_rows() if run_tag.partition("-run")[0] == tag]
        names = [",".join(one["name"] for one in pipeline) for spec in own for pipeline in spec["passes"]]
        return passes in names and any(passes not in spec.get("added_pipelines", []) for spec in own)


def _rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    lake = Lake(folder / "warehouse")
    kept = {}
    for table, columns in _KEPT.items():
        rows = lake.read(table, columns=[*columns, *(["superseded"] if table == "judgements" else [])])
        rows = rows.filter(superseded=False).drop("superseded") if table == "judgements" else rows
        kept[table] = sorted(rows.iter_rows(), key=repr)
    return kept


@pytest.mark.acceptance
@pytest.mark.parametrize("_part", range(size(1, 8)))
def test_commands_in_any_order_do_what_they_say(_part: int) -> None:
    """30 steps here, 2,000 in full, in parts that run side by side."""
    steps = settings(
        max_examples=size(3, 10),
        stateful_step_count=size(10, 25),
        deadline=None,
        derandomize=size(True, False),
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
        print_blob=True,
    )
    run_state_machine_as_test(AnyOrder, settings=steps)
