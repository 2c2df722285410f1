"""`shaberi report`: one document of several jobs, whatever their files hold."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from shaberi_dagster.cli.report import report
from shaberi_dagster.reports.ci import LIMIT, MARKER
from shaberi_dagster.reports.gate import GateReport, gate_result
from shaberi_dagster.statistics.gates import Tally, could_fail, paired_gate, pool

pytestmark = pytest.mark.unit

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "quick-eval.schema.json"
N = 10
# A model's name that tries everything: a table cell, HTML, a link, a mention, a reference, a code span's end, a terminal.
EVIL = "a|b <script>x</script> [l](http://e.x) @team #1 `c` <!-- \x1b[2J\u202e\n## h"


def result(strategy: str, n_correct: int, n: int = N, single: int | None = None, **values: Any) -> dict[str, Any]:
    compared = single is not None
    return {
        "strategy": strategy,
        "n_planned": n,
        "n_scored": n,
        "n_failed": 0,
        "n_excluded": 0,
        "n_correct": n_correct,
        "accuracy": n_correct / n,
        "interval": {"lower": 0.1, "upper": 0.9},
        "accuracy_scored": n_correct / n,
        "delta": None if single is None else (n_correct - single) / n,
        "delta_interval": {"lower": -0.25, "upper": 0.375} if compared else None,
        "n_gained": 1 if compared else None,
        "n_lost": 0 if compared else None,
        "p_value": 1.0 if compared else None,
        "calls": n,
        "prompt_tokens": 80 * n,
        "completion_tokens": 20 * n,
        "cost_usd": 0.01 * n,
        "calls_without_cost": 0,
        "seconds": 0.5 * n,
    } | values


def gate(losses: int, warnings: tuple[str, ...] = (), n: int = N, n_reused: int = 0) -> dict[str, Any]:
    """Of the strategy elo on two datasets of so many questions each."""
    tallies = [
        Tally("elo", name, n, n, n, n - lost, n, n, losses=lost, gains=0)
        for name, lost in (("gsm8k", losses), ("arc", 0))
    ]
    report = GateReport(
        gate="paired",
        significance=0.05,
        run_id="m@@t",
        model="m",
        baseline="main",
        baseline_run_id="m@@old",
        baseline_model="m",
        tests=paired_gate(tallies, 0.05),
        totals=tuple(pool(tallies)),
        warnings=warnings,
        could_fail=could_fail(paired_gate, tallies, 0.05),
        n_questions=2 * n,
        n_compared=2 * n,
        n_answers=2 * n,
        n_reused=n_reused,
        n_questions_current=2 * n,
    )
    return dict(gate_result(report).data())


def document(
    *strategies: str, right: int = 7, single: int = 6, judge: str | None = "judge", **values: Any
) -> dict[str, Any]:
    """What quick-eval would write of these strategies on two datasets."""

    def results(times: int = 1, **of_strategy: Any) -> list[dict[str, Any]]:
        n = N * times
        samples = result("samples", 3 * n // 2, 3 * n)
        others = [result(one, right * times, n, single * times, **of_strategy) for one in strategies]
        return [result("single", single * times, n), *others, samples]

    facts: dict[str, Any] = {"oracle": None, "agreement": [], "complementarity": []}
    made = {
        "format": "shaberi-quick-eval/1",
        "run_id": "m@@t",
        "model": "m",
        "run_tag": "t",
        "status": "complete",
        "policy": "A failure or an abstention counts as wrong.",
        "settings": {
            "ensemble": 3,
            "members": ["m"],
            "single": "own",
            "consensus_model": "m",
            "judge_model": judge,
            "base_url": "http://secret-host:1/v1",
        },
        "calls_made": {"consensus": 20},
        "benchmarks": [
            {
                "benchmark": name,
                "question_set": f"{name}@10-0123abcd",
                "question_set_sha256": "0123456789abcdef" * 4,
                "n_questions": N,
                "sample": {"of": f"{name}@50", "size": N, "order": "pinned"},
                "temperature": 0.7,
                "max_tokens": 1000,
                "prompt_hash": "p",
                "judge": "rule:numeric",
                "results": results(),
            }
            | facts
            for name in ("gsm8k", "arc")
        ],
        "overall": {
            "benchmarks": ["gsm8k", "arc"],
            "pooled": {"results": results(2)} | facts,
            "mean_of_benchmarks": [
                {"strategy": one["strategy"], "accuracy": one["accuracy"], "interval": None}
                | {"delta": one["delta"], "delta_interval": None}
                for one in results()
            ],
        },
        "gate": None,
    } | values
    jsonschema.validate(made, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return made


class Reported:
    """Files of documents, and what the command made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []

    def add(self, name: str, content: dict[str, Any] | str | None) -> "Reported":
        """A file with this content; None: no file."""
        path = self.folder / f"{name}.json"
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        self.files.append(path)
        return self

    def report(self, *, ci: bool = True, **options: Any) -> tuple[int, str]:
        output = self.folder / "out" / "report.md"
        code = report(self.files, ci=ci, output=output, **options)
        return code, output.read_text(encoding="utf-8")


@pytest.fixture
def jobs(tmp_path: Path) -> Reported:
    return Reported(tmp_path)


def cells(text: str, first: str) -> list[list[str]]:
    """The table rows that begin with this cell."""
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines() if "| " in line]
    return [row[1:] for row in rows if row[0] == first]


def test_unknown_efforts_are_no_numbers(jobs: Reported) -> None:
    made = document("elo")
    for one in made["overall"]["pooled"]["results"]:
        one.update(cost_usd=None, seconds=None)
    made["overall"]["pooled"]["results"][1].update(cost_usd=0.2, calls_without_cost=3)
    _, text = jobs.add("elo", made).report()

    assert cells(text, "`single`")[0][2:4] == ["-", "-"]
    assert cells(text, "`elo`")[0][2:4] == ["0.01+", "-"]


def test_a_failed_gate_is_told_with_its_tests_and_ends_ci_with_1(jobs: Reported) -> None:
    warning = "models differ: baseline @team, this run m"
    jobs.add("elo", document("elo", gate=gate(8, (warning,)))).add("council", document("council", gate=gate(0)))
    code, text = jobs.add("gone", None).report()

    assert code == 1
    assert "**Regression gate FAILED** in 1 of 2: `elo`." in text
    assert cells(text, "`elo`")[1] == [
        "**FAILED**: `elo on all questions`, `elo on gsm8k`", "`main`", "`paired`", "0.05",
    ]  # fmt: skip
    assert cells(text, "`council`")[1][0] == "PASSED"
    worse = next(row for row in cells(text, "`elo`") if "`gsm8k`" in row)
    assert worse[2:8] == ["10", "100.0%", "20.0%", "-80.0", "100.0% 20.0%", "8/0"]
    assert (float(worse[8]), worse[-1]) == (pytest.approx(0.5**8, abs=1e-4), "worse")
    assert any(row[-3:-1] == ["too few", "-"] or "too few" in row for row in cells(text, "`council`"))
    assert "at most 10% fail in one of the 2 jobs" in text
    assert f"`elo`: `{warning}`" in text
    assert jobs.report(ci=False)[0] == 3


def test_an_inconclusive_gate_is_no_pass_and_ends_ci_with_4_if_nothing_is_worse(jobs: Reported) -> None:
    jobs.add("elo", document("elo", gate=gate(0, n=2, n_reused=4))).add("council", document("council", gate=gate(0)))
    code, text = jobs.report()

    assert code == 4
    assert "**Regression gate INCONCLUSIVE** in 1 of 2: `elo`." in text
    assert "**Regression gate PASSED** in 1 of 2 jobs." in text
    assert cells(text, "`elo`")[1][0] == (
        "**INCONCLUSIVE**: `there are so few questions that no test could have failed; every compared answer is older "
        "than this run: other runs have paid for all replies`"
    )
    assert jobs.report(ci=False)[0] == 0
    assert jobs.add("gone", None).report()[0] == 3
    assert jobs.add("majority", document("majority", gate=gate(8))).report()[0] == 1


def test_a_gate_of_an_older_document_has_passed_or_failed(jobs: Reported) -> None:
    older = [{name: one for name, one in gate(lost).items() if name not in {"result", "doubts"}} for lost in (0, 8)]

    assert jobs.add("elo", document("elo", gate=older[0])).report()[0] == 0
    assert jobs.add("council", document("council", gate=older[1])).report()[0] == 1


def test_samples_of_which_nobody_recorded_prompt_and_parameters_are_reported(jobs: Reported) -> None:
    made = document("elo")
    for part in made["benchmarks"]:
        part.update(temperature=None, max_tokens=None, prompt_hash=None)
    code, text = jobs.add("elo", made).report()

    assert code == 0
    assert "Sent for samples: no temperature." in text


@pytest.mark.parametrize("value", [float("nan"), 1e300, -3, "many"])
@pytest.mark.parametrize("field", ["n_correct", "accuracy", "cost_usd"])
def test_numbers_that_are_none_make_no_document(jobs: Reported, field: str, value: Any) -> None:
    made = document("elo")
    made["overall"]["pooled"]["results"][0][field] = value
    code, text = jobs.add("elo", made).report()

    assert code == 3
    assert f"`elo` is no document of quick-eval: `overall.pooled.results.0.{field}: " in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "`other` gave no result."),
        ("", "`other` is no document of quick-eval: `Invalid JSON"),
        ("[1]", "`other` is no document of quick-eval: `Input should be an object`"),
        ('{"format": "shaberi-quick-eval/2"}', "`other` is no document of quick-eval: `format: "),
        ('{"format": ' * 5000, "`other` is no document of quick-eval: `Invalid JSON"),
    ],
    ids=["missing", "empty", "list", "version", "nested"],
)
def test_a_file_without_a_result_is_told_and_ends_with_3(jobs: Reported, content: str | None, said: str) -> None:
    code, text = jobs.add("elo", document("elo")).add("other", content).report()

    assert code == 3
    assert said in text
    assert cells(text, "`gsm8k`")


def test_a_run_with_failed_parts_is_told_and_ends_with_3(jobs: Reported) -> None:
    code, text = jobs.add("elo", document("elo", status="partial")).report()

    assert code == 3
    assert "`elo` has failed parts: its run is `partial`." in text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda made: made.update(model="n"), "`model`"),
        (lambda made: made["settings"].update(judge_model="other"), "`judge model`"),
        (lambda made: made["settings"].update(base_url="http://other/v1"), "`endpoint`"),
        (lambda made: made["benchmarks"][1].update(question_set_sha256="f" * 64), "`questions of arc`"),
        (lambda made: made["benchmarks"][1].update(temperature=0.5), "`sampling of arc`"),
        (lambda made: made["benchmarks"].pop(), "`datasets`, `questions of arc`"),
    ],
    ids=["model", "judge", "endpoint", "questions", "temperature", "datasets"],
)
def test_jobs_of_other_settings_do_not_share_a_table(jobs: Reported, change: Any, named: str) -> None:
    other = document("council")
    change(other)
    code, text = jobs.add("elo", document("elo")).add("council", other).report()

    assert code == 0
    assert "**The jobs did not evaluate the same thing**, so they stand in 2 groups." in text
    assert f"They differ in: {named}" in text
    titles = [row for row in cells(text, "dataset") if row[0] == "`single`"]
    assert titles == [["`single`", "`elo`"], ["`single`", "`council`"]]
    assert "### Group 2: `council`" in text


def test_one_strategy_of_two_jobs_has_two_columns_and_unlike_singles_are_told(jobs: Reported) -> None:
    _, text = jobs.add("first", document("elo")).add("second", document("elo", single=5)).report()

    assert cells(text, "dataset")[0] == ["`single`", "`elo` (`first`)", "`elo` (`second`)"]
    assert "`single` is not the same in all jobs, each compares with its own: `first` 12/20, `second` 10/20." in text


def test_names_are_nothing_but_text(jobs: Reported) -> None:
    made = document("elo", gate=gate(8, (EVIL,)), model=EVIL, run_tag=EVIL, policy=EVIL, status=EVIL)
    made["settings"].update(members=[EVIL, EVIL], consensus_model=EVIL, judge_model=EVIL)
    for one in made["benchmarks"]:
        one.update(benchmark=EVIL, question_set=EVIL, judge=EVIL, sample={"of": EVIL, "size": 1, "order": EVIL})
    made["gate"]["baseline"] = EVIL
    made["gate"]["tests"][0].update(strategy=EVIL, benchmark=EVIL)
    against = {"strategy": "elo", "reference": "samples", "n_questions": 9, "n_only_strategy": 1, "n_only_reference": 0}
    against |= {"difference": 0.1, "interval": None, "p_value": 1, "adjusted_p_value": 1, "n_more": None}
    against |= {"why_withheld": EVIL}
    made["overall"]["pooled"]["against"] = [against]
    counts = dict.fromkeys(("n_planned", "n_scored", "n_failed", "n_excluded"), 1)
    names = dict.fromkeys(("benchmark", "question_set", "judge", "strategy"), EVIL)
    made["judged"] = [names | counts | {"score": 5.5, "against": against}]
    _, text = jobs.add("a<b>`|@team #1", made).add("x" * 100, None).report()

    own_html = r"</?details(?: open)?>|</?summary>|<code>[^<\n]*</code>|<br>|" + re.escape(MARKER)
    outside = re.sub(rf"`[^`\n]*`|{own_html}", "", text)
    for sign in ("<", "@", "#1", "`", "http", "\x1b", "\u202e", "team"):
        assert sign not in outside
    assert re.findall(r"^#+ .*", outside, re.MULTILINE) == [
        "## Consensus against a single answer",
        "### Regression gate",
    ]
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) == 7
    assert "but `a¦b <script>x" in text
    assert "` by `a¦b <script>x" in text
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
    assert "x" * 61 not in text


def test_a_long_report_leaves_details_out_and_says_so(jobs: Reported) -> None:
    made = document("elo", gate=gate(8))
    made["gate"]["tests"] += made["gate"]["tests"][1:] * 200
    for number in range(12):
        jobs.add(f"job-{number}", made)
    code, text = jobs.report(title="t" * 100_000)

    assert code == 1
    assert 0.5 * LIMIT < len(text) <= LIMIT
    assert "**Regression gate FAILED** in 12 of 12" in text
    assert f"Left out, since a comment holds {LIMIT:,} characters: " in text
    assert text.count("<details") == text.count("</details>")
