"""`quick-eval` and `generate-cache`: samples that are paid for once, a report with its numbers, and the gate."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from aiohttp import web

from shaberi_dagster.cli import quick_eval, shaberi
from shaberi_dagster.deciding.promotion import promote
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.presets import CacheRequest, QuickRequest
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.settings import Settings
from shaberi_dagster.statistics.intervals import paired_proportions_interval, wilson_interval
from shaberi_dagster.statistics.significance import mcnemar_exact
from shaberi_dagster.util.errors import ConfigurationError
from tests.commands import Finished, lake_of
from tests.example_runs import without_results
from tests.invoked import invoke
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.sizes import FULL
from tests.stages_alone import stages_alone

pytestmark = pytest.mark.integration

MODEL = "org/model"
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(__file__).resolve().parents[2] / "docs" / "schemas" / "quick-eval.schema.json").read_text("utf-8"))
)
N_QUESTIONS, SIZE = 3, 3
CALLS = {"standard": 1, "majority": 2, "elo": 7, "council": 19, "plurality": 0}


def write_sums(folder: Path, n: int = N_QUESTIONS) -> Path:
    """A folder with that many sums and as many choices."""
    folder.mkdir(parents=True, exist_ok=True)
    sums = [{"question": f"What is {k} plus {k}?", "reference": str(2 * k)} for k in range(1, n + 1)]
    (folder / "gsm8k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sums), encoding="utf-8")
    texts = [{"question": f"Which town has the number {k}?", "reference": f"Town{k}"} for k in range(1, n + 1)]
    (folder / "simpleqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts), encoding="utf-8")
    return folder


def replies(right: Callable[[int, int], bool]) -> Callable[[dict[str, Any], int], str]:
    """A model that knows its sums when `right(question, how often it was asked)` says so, and can be a judge."""
    asked: Counter[int] = Counter()

    def reply(body: dict[str, Any], _: int) -> str:
        prompt = str(body["messages"][-1]["content"])
        if "student's answer" in prompt:
            return '{"extracted": "", "verdict": "incorrect"}'
        if prompt.startswith("What is "):
            k = int(prompt.split()[2])
            asked[k] += 1
            return f"The answer is {2 * k if right(k, asked[k]) else 2 * k + asked[k]}."
        if prompt.startswith("Which town"):
            return f"Town{prompt.rsplit(maxsplit=1)[-1].rstrip('?')}"
        return "The answer is 2."

    return reply


def knows_every_other(k: int, time: int) -> bool:
    return (k + time) % 2 == 0


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    return write_sums(tmp_path / "questions")


@pytest.fixture
def mock() -> Iterator[MockEndpoint]:
    with running_mock(script=replies(knows_every_other)) as running:
        yield running


def options(mock: MockEndpoint, sums: Path, *more: str) -> list[str]:
    return [
        *("--model", MODEL, "--base-url", mock.base_url, "--questions", str(sums)),
        *([] if "--datasets" in more else ["--datasets", "gsm8k"]),
        *([] if "--ensemble" in more else ["--ensemble", str(SIZE)]),
        *("--concurrency", "1", *more),
    ]


def quick(mock: MockEndpoint, sums: Path, *more: str, judge: str | None = MODEL) -> Finished:
    """`quick-eval` in this process, at the mock endpoint, where the model tells what rules cannot."""
    judged = ["--judge-model", judge] if judge and "--judge-model" not in more else []
    return _invoked(quick_eval.app, options(mock, sums, *judged, *more))


def cache(mock: MockEndpoint, sums: Path, *more: str) -> Finished:
    """`generate-cache` in this process, at the mock endpoint."""
    return _invoked(shaberi.app, ["generate-cache", *options(mock, sums, *more)])


def _invoked(app: Any, arguments: list[str]) -> Finished:
    with stages_alone(), without_results():
        result = invoke(app, arguments)
    return Finished(result.exit_code, result.stdout, result.stderr)


def stages_called() -> Counter[str]:
    calls = Lake(Settings.from_environment().warehouse).read("calls", columns=["stage"])
    return Counter(calls["stage"].to_list())


def document_of(finished: Finished) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(finished.out)
    SCHEMA.validate(document)
    return document


def results(document: dict[str, Any], place: int = 0) -> dict[str, dict[str, Any]]:
    return {one["strategy"]: one for one in document["benchmarks"][place]["results"]}


# ------------------------------------------------------------------------------------------------ the command


@pytest.mark.long
def test_all_strategies_are_compared_with_the_single_answer_and_every_call_is_made_once(
    mock: MockEndpoint, sums: Path
) -> None:
    document = document_of(quick(mock, sums, "--json", "--judge-model", "none"))

    assert (document["status"], document["gate"]) == ("complete", None)
    assert document["calls_made"] == {
        "answers": N_QUESTIONS * (SIZE + 1),
        "consensus": N_QUESTIONS * sum(CALLS.values()),
    }
    found = results(document)
    assert {name: one["calls"] for name, one in found.items()} == {
        "single": N_QUESTIONS,
        **{name: N_QUESTIONS * n for name, n in CALLS.items()},
        "samples": N_QUESTIONS * SIZE,
    }
    for name, one in found.items():
        assert one["n_planned"] == N_QUESTIONS * (SIZE if name == "samples" else 1)
        assert one["n_planned"] == one["n_scored"] + one["n_failed"] + one["n_excluded"]
    assert mock.stats()["requests"] == sum(document["calls_made"].values())

    again = document_of(quick(mock, sums, "--json", "--judge-model", "none"))
    assert again["calls_made"] == {}
    assert again["benchmarks"] == document["benchmarks"]
    assert mock.stats()["requests"] == sum(document["calls_made"].values())


@dataclass(frozen=True)
class Said:
    """What `quick-eval` said of three sums and two choices, and the judgements of the sums."""

    document: dict[str, Any]
    judgements: pl.DataFrame


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Said:
    folder = tmp_path_factory.mktemp("said")
    questions = write_sums(folder / "questions")
    choices = (questions / "simpleqa.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (questions / "simpleqa.jsonl").write_text("".join(choices[:2]), encoding="utf-8")
    more = ("--datasets", "gsm8k,simpleqa", "--strategy", "plurality,standard", "--tag", "shown")
    with pytest.MonkeyPatch.context() as patch, running_mock(script=replies(knows_every_other)) as mock:
        for name, value in lake_of(folder).items():
            patch.setenv(name, value)
        document = document_of(quick(mock, questions, *more, "--json", judge="none"))
        judgements = Lake(Settings.from_environment().warehouse).read("judgements", {"benchmark": "gsm8k"})
    return Said(document, judgements)


def test_accuracies_deltas_and_their_intervals_are_those_of_the_verdicts(said: Said) -> None:
    document, judgements = said.document, said.judgements

    right = {
        name: set(judgements.filter(strategy=name, score=1.0)["question_id"].to_list())
        for name in ("single", "plurality", "standard")
    }
    found = results(document)
    assert list(found) == ["single", "plurality", "standard", "samples"]
    for name, questions in right.items():
        one = found[name]
        assert (one["n_correct"], one["accuracy"]) == (len(questions), len(questions) / N_QUESTIONS)
        assert one["interval"] == vars(wilson_interval(len(questions), N_QUESTIONS))
        gained, lost = len(questions - right["single"]), len(right["single"] - questions)
        if name != "single":
            assert (one["n_gained"], one["n_lost"]) == (gained, lost)
            assert one["delta"] == pytest.approx((gained - lost) / N_QUESTIONS)
            assert one["delta_interval"] == vars(paired_proportions_interval(gained, lost, N_QUESTIONS))
            assert one["p_value"] == mcnemar_exact(gained, lost)
    shared = judgements.filter(pl.col("strategy").is_null(), pl.col("sample_index") > 0)
    assert found["samples"]["n_correct"] == shared["score"].sum()
    any_right = shared.group_by("question_id").agg(pl.col("score").max())["score"].sum()
    assert document["benchmarks"][0]["oracle"]["n_any_correct"] == any_right
    (pair,) = [
        one for one in document["benchmarks"][0]["complementarity"] if {one["a"], one["b"]} == {"plurality", "single"}
    ]
    assert (pair["n_both"], pair["n_only_a"]) == (
        len(right["plurality"] & right["single"]),
        len(right["plurality"] - right["single"]),
    )


def test_over_benchmarks_questions_are_pooled_and_benchmarks_are_averaged(said: Said) -> None:
    document = said.document
    sums_right = results(document, 0)["single"]["n_correct"]
    assert results(document, 1)["single"]["n_correct"] == 2
    pooled = {one["strategy"]: one for one in document["overall"]["pooled"]["results"]}
    means = {one["strategy"]: one for one in document["overall"]["mean_of_benchmarks"]}
    assert pooled["single"]["accuracy"] == pytest.approx((sums_right + 2) / (N_QUESTIONS + 2))
    assert means["single"]["accuracy"] == pytest.approx((sums_right / N_QUESTIONS + 1) / 2)
    gained, lost = (
        sum(results(document, place)["plurality"][name] for place in (0, 1)) for name in ("n_gained", "n_lost")
    )
    assert pooled["plurality"]["p_value"] == mcnemar_exact(gained, lost)


@pytest.mark.long
def test_an_answer_that_the_rules_cannot_tell_goes_to_the_judge_and_is_wrong_without_one(
    mock: MockEndpoint, sums: Path
) -> None:
    mock.options.script = lambda body, _: (
        '{"extracted": "two", "verdict": "correct"}'
        if "student's answer" in str(body["messages"][-1]["content"])
        else "I would rather not say."
    )
    alone, judged = (
        document_of(quick(mock, sums, "--json", "--strategy", "plurality", *more))
        for more in (("--judge-model", "none"), ())
    )

    assert (results(alone)["single"]["n_undecided"], results(alone)["single"]["accuracy"]) == (N_QUESTIONS, 0)
    assert results(alone)["single"]["accuracy_scored"] is None
    assert alone["settings"]["judge_model"] is None
    assert judged["settings"]["judge_model"] == MODEL
    assert judged["benchmarks"][0]["judge"] == f"rule:numeric+{MODEL}"
    assert results(judged)["single"]["accuracy"] == 1
    assert alone["run_tag"] != judged["run_tag"]
    assert judged["calls_made"] == {"judgements": N_QUESTIONS * 1}  # all answers are equal; all samples were paid for


@pytest.mark.long
def test_failures_are_counted_and_end_with_3_and_the_next_run_asks_only_those_again(
    mock: MockEndpoint, sums: Path
) -> None:
    working = mock.options.script
    assert callable(working)

    def failing(body: dict[str, Any], number: int) -> Any:
        if str(body["messages"][-1]["content"]).startswith("What is 3"):
            return web.json_response({"error": {"message": "content not allowed"}}, status=400)
        return working(body, number)

    mock.options.script = failing
    more = ("--json", "--judge-model", "none", "--strategy", "plurality")
    broken = quick(mock, sums, *more)
    assert broken.code == 3
    single = results(document_of(broken))["single"]
    assert (single["n_failed"], single["n_planned"], single["n_scored"]) == (1, N_QUESTIONS, N_QUESTIONS - 1)
    assert single["accuracy"] == single["n_correct"] / (N_QUESTIONS - 1)

    mock.options.script = working
    mended = quick(mock, sums, *more)
    assert mended.code == 0
    assert document_of(mended)["calls_made"] == {"answers": SIZE + 1}


def test_samples_can_come_from_several_models_in_turn(mock: MockEndpoint, sums: Path) -> None:
    more = ("--json", "--judge-model", "none", "--strategy", "plurality", "--ensemble", "a,b,c")
    document = document_of(quick(mock, sums, *more))

    assert document["settings"]["members"] == ["a", "b", "c"]
    assert document["settings"]["ensemble"] == 3
    assert Counter(body["model"] for body in mock.bodies) == dict.fromkeys((MODEL, "a", "b", "c"), N_QUESTIONS)
    members = [one for one in document["benchmarks"][0]["complementarity"] if one["kind"] == "member"]
    assert [(one["a"], one["b"]) for one in members] == [("a", "b"), ("a", "c"), ("b", "c")]


# ------------------------------------------------------------------------------------------------ stored samples


def test_quick_eval_finds_the_samples_that_generate_cache_has_made(mock: MockEndpoint, sums: Path) -> None:
    made = cache(mock, sums)

    assert made.code == 0
    assert f"{N_QUESTIONS * (SIZE + 1)} of {N_QUESTIONS * (SIZE + 1)} samples" in made.out
    assert stages_called() == {"answers": N_QUESTIONS * (SIZE + 1)}
    mock.options.key = "nobody has it"  # not even the endpoint is needed

    finished = quick(mock, sums, "--json", "--judge-model", "none", "--strategy", "plurality", "--sample", "2")
    assert document_of(finished)["calls_made"] == {}
    assert "8 of 8 are there or paid for" in finished.err
    assert mock.stats()["requests"] == N_QUESTIONS * (SIZE + 1)


def test_a_cache_is_topped_up_and_made_once(mock: MockEndpoint, sums: Path) -> None:
    cache(mock, sums)
    cache(mock, sums)
    assert mock.stats()["requests"] == N_QUESTIONS * (SIZE + 1)

    (counted,) = json.loads(cache(mock, sums, "--ensemble", str(SIZE + 2), "--json").out)
    assert (counted["made"], counted["failed"]) == (N_QUESTIONS * (SIZE + 1 + 2), 0)
    assert mock.stats()["requests"] == N_QUESTIONS * (SIZE + 1 + 2)

    answers = Lake(Settings.from_environment().warehouse).read("answers")
    singles = answers.filter(sample_index=0).group_by("question_id").agg(pl.col("answer").n_unique())
    assert singles["answer"].to_list() == [1] * N_QUESTIONS  # one single answer, whatever the size


# ------------------------------------------------------------------------------------------------ the gate


@pytest.mark.acceptance
def test_the_gate_passes_an_equal_run_fails_a_worse_one_and_says_where_nothing_is_new(
    mock: MockEndpoint, tmp_path: Path
) -> None:
    sums = write_sums(tmp_path / "many", 6)
    mock.options.script = replies(lambda *_: True)
    common = ("--json", "--judge-model", "none", "--strategy", "plurality")
    good = document_of(quick(mock, sums, *common, "--tag", "good"))
    promote(Lake(Settings.from_environment().warehouse), good["run_id"], "main")

    asked = {"reused": ("old",), "new": ("new", "--fresh", "--gate", "fisher")} | (
        {"itself": ("good",)} if FULL else {}
    )
    equal = {name: quick(mock, sums, *common, "--baseline", "main", "--tag", *tag) for name, tag in asked.items()}
    inconclusive = (4, "inconclusive")
    assert {name: (one.code, document_of(one)["gate"]["result"]) for name, one in equal.items()} == dict.fromkeys(
        asked, inconclusive
    ) | {"new": (0, "passed")}
    assert "every compared answer is older than this run" in document_of(equal["reused"])["gate"]["verdict"]

    mock.options.script = replies(lambda *_: False)
    for gate in ("paired", "fisher") if FULL else ("paired",):
        file = tmp_path / "pages" / f"{gate}.html"
        checked = ("--baseline", "main", "--gate", gate, "--html", str(file))
        worse = quick(mock, sums, *common, "--tag", "bad", "--fresh", *checked)
        assert (worse.code, document_of(worse)["gate"]["passed"]) == (1, False)
        report, questions, *answers = re.findall(r"<h1>(.*?)</h1>", page := file.read_text(encoding="utf-8"))
        assert (report, questions) == ("Ensemble", f"Questions of {MODEL} · {MODEL}")
        assert len(answers) == 5
        assert f"Regression gate {gate}" in page


@pytest.mark.long
def test_a_bad_hour_of_the_provider_is_no_regression(mock: MockEndpoint, tmp_path: Path) -> None:
    sums = write_sums(tmp_path / "many", 12)
    script = replies(lambda *_: True)
    common = ("--json", "--judge-model", "none", "--strategy", "plurality", "--datasets", "gsm8k")

    def refusing(body: dict[str, Any], number: int) -> Any:
        k = int(str(body["messages"][-1]["content"]).split()[2])
        refusal = {"error": {"message": f"not now {k}"}}
        return script(body, number) if k % 2 else web.json_response(refusal, status=400)

    def gate(*more: str) -> tuple[int, dict[str, Any]]:
        finished = quick(mock, sums, *common, *more)
        return finished.code, document_of(finished)["gate"]

    mock.options.script = script
    good = document_of(quick(mock, sums, *common, "--tag", "good"))
    mock.options.script = refusing
    counted = ("n_failed_baseline", "n_failed_current", "n_compared", "n_questions")
    promote(Lake(Settings.from_environment().warehouse), good["run_id"], "main")

    code, found = gate("--tag", "hour", "--fresh", "--baseline", "main")
    assert (code, found["result"], *(found[name] for name in counted)) == (3, "inconclusive", 0, 6, 6, 12)
    assert "calls failed on 0 of 12 questions of the baseline and 6 of 12 of this run" in found["verdict"]
    assert {test["n_current"] for test in found["tests"]} == {6}

    code, found = gate("--tag", "hour", "--fresh", "--baseline", "main", "--failures-count")
    assert (code, found["result"], found["n_compared"]) == (1, "failed", 12)

    promote(Lake(Settings.from_environment().warehouse), "org__model@@hour", "bad-hour", allow_partial=True)
    mock.options.script = script
    code, found = gate("--tag", "after", "--fresh", "--baseline", "bad-hour")
    assert (code, found["result"], *(found[name] for name in counted)) == (4, "inconclusive", 6, 0, 6, 12)


def test_a_baseline_that_is_not_there_is_told_before_any_call(mock: MockEndpoint, sums: Path) -> None:
    quick(mock, sums, "--judge-model", "none", "--strategy", "plurality")
    before = mock.stats()["requests"]

    with pytest.raises(ConfigurationError, match="no baseline 'main'"):
        quick(mock, sums, "--baseline", "main", "--temperature", "0.3")
    assert mock.stats()["requests"] == before


# ------------------------------------------------------------------------------------------------ options


def request(**values: Any) -> RunRequest:
    return QuickRequest(model="m", **values).to_request()


def test_the_tag_is_made_of_the_settings() -> None:
    assert request().tag == "quick-n30-5x-t0.7"
    assert request(sample="all", ensemble="7", temperature=1.0).tag == "quick-7x-t1"
    assert request(tag="mine", single="first").tag == "mine"
    assert request(strategies=["elo"], datasets=["arc"], api_key_variable="KEY").tag == "quick-n30-5x-t0.7"


@pytest.mark.parametrize(
    "other",
    [
        {"single": "first"},
        {"sample_order": "mulberry32"},
        {"judge_model": "none"},
        {"judge_model": "j"},
        {"judge_prompt": "strict"},
        {"sample_seed": 7},
        {"consensus_model": "c"},
        {"max_tokens": 100},
        {"questions": "hub"},
        {"base_url": "http://localhost:1/v1"},
        {"question_sets": ["gpqa@unshuffled"]},
        {"ensemble": "m,n,o,p,q"},
    ],
    ids=str,
)
def test_other_settings_are_another_run(other: dict[str, Any]) -> None:
    tag = request(**other).tag

    assert tag.startswith("quick-n30-5x-t0.7-")
    assert tag == request(**other).tag
    assert len({tag, request(single="first", max_tokens=7).tag, request().tag}) == 3


@pytest.mark.parametrize(
    ("asked", "tag"),
    [
        (
            {"max_tokens": 100, "base_url": "http://h/v1", "judge_base_url": "http://j/v1", "judge_model": "j"}
            | {"single": "first"},
            "quick-n30-5x-t0.7-66c559d3",
        ),
        (
            {"question_sets": ["gpqa@x"], "questions": "hub", "sample_seed": 3, "ensemble": "a,b"}
            | {"judge_prompt": "strict"},
            "quick-n30-2x-t0.7-ceace699",
        ),
        ({"model": "embedded/smollm2-135m"}, "quick-n30-5x-t0.7-765c4fc1"),
    ],
)
def test_tags_are_what_they_always_were_so_that_nothing_is_paid_for_again(asked: dict[str, Any], tag: str) -> None:
    assert QuickRequest(**{"model": "m"} | asked).to_request().tag == tag
    of_cache = CacheRequest(model="m", max_tokens=7, base_url="http://h/v1").to_request()
    assert of_cache.tag == "cache-5x-t0.7-17379c85"


@pytest.mark.parametrize(("named", "judges"), [(None, None), ("none", []), ("j", ["j"])])
def test_nobody_judges_but_who_is_named(named: str | None, judges: list[str] | None) -> None:
    asked = request(judge_model=named)
    assert (asked.judge_models, asked.grader_model) == (judges, None)


def test_without_a_judge_rules_alone_grade_and_it_says_so(mock: MockEndpoint, sums: Path) -> None:
    finished = quick(mock, sums, "--strategy", "plurality", judge=None)

    assert "gsm8k: graded by rules; answers that no rule can decide count as wrong (add --judge-model" in finished.err
    assert not [body for body in mock.bodies if "student's answer" in str(body)]


def test_models_make_up_the_ensemble() -> None:
    assert (request(ensemble="a, b,c").samples, request(ensemble="a,b,c").sample_models) == (3, ["a", "b", "c"])
    assert request(ensemble="a,b", samples=6).samples == 6
    assert request(ensemble="a").samples == 5


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"ensemble": "1"}, "--ensemble must be 2 or more samples, or models, not '1'"),
        ({"ensemble": "-3"}, "--ensemble must be"),
        ({"ensemble": ","}, "--ensemble must be"),
        ({"ensemble": "5", "samples": 5}, "--samples goes with --ensemble MODEL"),
        ({"sample": "0"}, "--sample must be a number of questions or all, not '0'"),
        ({"sample": "few"}, "--sample must be"),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        request(**values)
