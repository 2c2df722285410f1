"""Questions with what was answered and judged: one of them, a grid of the scores of some models, and pages of a run."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import chain, islice, product
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from shaberi_dagster.lake.queries import known_names
from shaberi_dagster.lake.statements import Catalog, fetch, fetch_frame
from shaberi_dagster.reports.blocks import Row, Rows, decimals
from shaberi_dagster.reports.reading import Side, check_selected, find_side, scale_rows, scored_runs
from shaberi_dagster.reports.requests import BASELINE, check_choice, runs_chosen
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.judges.rules.base import span_of
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import NUMBERED
from shaberi_dagster.util.names import check_known
from shaberi_dagster.util.text import printable

_MOST_APART = 8
"""Up to how many runs are read one by one."""
_PLACE = ("benchmark", "question_set", "question_id", "position")


class Span(NamedTuple):
    """A passage that a pass found: code points from start to end, and its kind."""

    start: int
    end: int
    kind: str


class RunAnswers(NamedTuple):
    """The answers of a run to a question, with their judgements.

    Attributes:
        samples: Rows of `question_answers.sql`, with `judgements`, and `spans` in each of their findings; none where
            the run was not asked.
        consensus: Judgements of the answers of its strategies. They are, like those of samples, rows of
            `question_judgements.sql` with `deltas`: pass, delta and reason of what each pass of the pipeline added; and
            `read`: the passage of the answer that a rule took for it.
    """

    samples: Rows
    consensus: Rows


def find_question(catalog: Catalog, **place: str | int | None) -> Row | None:
    """Find a question by any of benchmark, question_set, question_id and position; of several sets in the largest.

    Answers to it count in whatever set they were asked; its position and n_questions are those of the set.
    """
    found = fetch(catalog, "question", **dict.fromkeys(_PLACE) | place)
    return found[0] if found else None


def question_at(
    catalog: Catalog, position: int, *, benchmark: str | None = None, question_set: str | None = None
) -> Row:
    """Find the question at a place, from 1, of a set.

    Args:
        catalog: The public views.
        position: The place.
        benchmark: Whose; None where the set says it.
        question_set: The set; None is the benchmark's largest.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    found = find_question(catalog, benchmark=benchmark, question_set=question_set, position=position)
    if found is None:
        for kind, name in {"benchmark": benchmark, "question set": question_set}.items():
            check_known(kind, [] if name is None else [name], known_names(catalog, kind))
        first = find_question(catalog, benchmark=benchmark, question_set=question_set, position=1)
        there = f", which has {first['n_questions']}" if first else ""
        raise ConfigurationError(f"the lake has no question {position} of {question_set or benchmark}{there}")
    return found


def questions_of(catalog: Catalog, sides: Sequence[Sequence[str]], **which: object) -> Rows:
    """Read the questions of some sides with the score of each: rows of `questions_of_runs.sql`.

    Args:
        catalog: The public views.
        sides: The run ids of each.
        which: Parameters of the statement.
    """
    return fetch(
        catalog,
        "questions_of_runs",
        sides=[{"side": number, "run_id": run_id} for number, run_ids in enumerate(sides) for run_id in run_ids],
        n_sides=len(sides),
        run_ids=list(chain(*sides)),
        scales=scale_rows(catalog),
        order=list(ALL_BENCHMARKS),
        **{"pipeline": BASELINE, "flags": [], "every": False, "offset": 0} | which,
    )


def read_question(
    catalog: Catalog, benchmark: str, position: int, *, question_set: str | None = None, models: Sequence[str] = ()
) -> dict[str, Any]:
    """Read one question of a benchmark, with all that was answered and judged.

    Args:
        catalog: The public views.
        benchmark: Its name.
        position: The question's place in the set, from 1.
        question_set: Which version; None is the largest.
        models: Only their answers; none means all.

    Returns:
        benchmark, question_set (the version in which it has this place), question_id (sha256 of its text; answers to it
        count in whatever set they were asked), position, n_questions of the set, category, question, reference (a right
        answer) and criteria, None where there are none; and frames: `answers`, a row per sample, and `judgements`, one
        per judged answer and judge.

    Raises:
        ConfigurationError: The lake has no such question.
    """
    question = question_at(catalog, position, benchmark=benchmark, question_set=question_set)
    check_known("model", models, known_names(catalog, "model or run", models))
    which = {
        "benchmark": benchmark,
        "question_ids": [question["question_id"]],
        "run_id": None,
        "models": list(models) or None,
    }
    return {
        **question,
        "answers": fetch_frame(catalog, "question_answers", **which, most=None),
        "judgements": fetch_frame(catalog, "question_judgements", **which, most=None, judges=None).drop("deltas"),
    }


def read_answers(
    catalog: Catalog,
    benchmark: str,
    question_ids: Sequence[str],
    run_ids: Sequence[str],
    *,
    judges: Sequence[str] = (),
    pipeline: str = BASELINE,
    most: int | None = None,
) -> Mapping[tuple[str, str], RunAnswers]:
    """Read the answers of some runs to some questions, by question id and run id; many almost as fast as one.

    Args:
        catalog: The public views.
        benchmark: The questions' benchmark.
        question_ids: The questions.
        run_ids: The runs.
        judges: Only these; none means all.
        pipeline: Passes in order, or baseline.
        most: Characters of a text that are read; None: all.
    """
    which: dict[str, Any] = {"benchmark": benchmark, "question_ids": list(question_ids), "models": None, "most": most}
    of_sample: defaultdict[tuple[str, str, int], list[Row]] = defaultdict(list)
    consensus: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    # Of one run DuckDB reads the pages of its rows only, of a list of runs all texts of the benchmark.
    of_runs = [{**which, "run_id": run_id} for run_id in (run_ids if len(run_ids) <= _MOST_APART else [None])]
    of_judges = {"judges": list(judges) or None, "pipeline": pipeline}
    told = (fetch(catalog, "question_judgements", **of_run, **of_judges) for of_run in of_runs)
    for judgement in chain.from_iterable(told):
        sample, strategy = _sample(judgement), judgement["strategy"]
        read = span_of(judgement["judge_output"]) if judgement["score_source"] == "rule" else None
        judgement["read"] = read and Span(*read, "read by a rule")
        (of_sample[sample] if strategy is None else consensus[sample[:2]]).append(judgement)
    samples: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for answer in chain.from_iterable(fetch(catalog, "question_answers", **of_run) for of_run in of_runs):
        answer["judgements"] = of_sample[_sample(answer)]
        for finding in answer["findings"]:
            spans = json.loads(finding["details"] or "{}").get("spans", [])
            finding["spans"] = [Span(*span[:3]) for span in spans]
        samples[_sample(answer)[:2]].append(answer)
    return {place: RunAnswers(samples[place], consensus[place]) for place in product(question_ids, run_ids)}


def _sample(row: Row) -> tuple[str, str, int]:
    return row["question_id"], row["run_id"], row["sample_index"]


MOST_SIDES = 5
MOST_CHARACTERS = 20_000
"""Characters of a text that a page has; all of it is in `whole_text`."""
GRID_SORTS = ("difference", "disagreement", "position")
FLAGS = ("loses", "failed", "out-of-scale", "refused", "disagreement")
_SIDES = "ABCDE"


@dataclass(frozen=True)
class GridRequest:
    """A choice of models and of their questions.

    Attributes:
        models: One to five, each a model, MODEL@@TAG or a run id; TAG can be the base tag of a multi-run.
        judges: Only these; none means all.
        benchmarks: Only these; none means all.
        question_sets: Only these; none means all.
        categories: Only questions of these categories; none means all.
        pipeline: Passes in order, or baseline.
        sort: One of `GRID_SORTS`, largest first; or `A`, `B`, …: the lowest scores of that model first.
        flags: Only questions with all of these, of `FLAGS`: A is below another model, an answer or a score that failed,
            a score out of scale, a refused answer, judges that are three points or more apart.
        text: Only questions with this in their text.
    """

    models: Sequence[str]
    judges: Sequence[str] = ()
    benchmarks: Sequence[str] = ()
    question_sets: Sequence[str] = ()
    categories: Sequence[str] = ()
    pipeline: str = BASELINE
    sort: str = "difference"
    flags: Sequence[str] = ()
    text: str = ""


def read_question_grid(catalog: Catalog, request: GridRequest) -> dict[str, Any]:
    """The questions that some models were asked, with their scores side by side.

    Args:
        catalog: The public views.
        request: What to read.

    Returns:
        sides (the models with their runs, named A, B, …), sorted rows of `questions_of_runs.sql`, n_all (how many there
        are without the choice of categories and flags), and all categories and question_sets of their questions.

    Raises:
        ConfigurationError: There is no such run, several could be meant, or there are too many or twice the same.
    """
    sides = read_sides(catalog, request.models)
    check_choice("sort", request.sort, (*GRID_SORTS, *(side.name for side in sides)))
    for flag in request.flags:
        check_choice("flag", flag, FLAGS)
    every = _side_by_side(
        catalog,
        sides,
        request,
        benchmarks=list(request.benchmarks) or None,
        categories=list(request.categories) or None,
        flags=list(request.flags),
        sort=request.sort,
    )
    in_sets = [row for row in every if not request.question_sets or row["question_set"] in request.question_sets]
    return {
        "sides": sides,
        "rows": [row for row in in_sets if row["chosen"]],
        "n_all": len(in_sets),
        "categories": sorted({row["category"] for row in in_sets if row["category"]}),
        "question_sets": sorted({row["question_set"] for row in every}),
    }


def read_side_by_side(catalog: Catalog, question_set: str, position: int, request: GridRequest) -> Row:
    """Read one question with the answers of some models: `sides`, `scores` (its row of the grid) and `answers` of each.

    Args:
        catalog: The public views.
        question_set: The version of the questions.
        position: The question's place in it, from 1.
        request: Which models, judges and passes.

    Raises:
        ConfigurationError: The lake has no such question or model.
    """
    question = question_at(catalog, position, question_set=question_set)
    sides = read_sides(catalog, request.models)
    benchmark, question_id = question["benchmark"], question["question_id"]
    rows = _side_by_side(catalog, sides, request, benchmarks=[benchmark], question_id=question_id)
    how: dict[str, Any] = {"judges": request.judges, "pipeline": request.pipeline, "most": MOST_CHARACTERS}
    run_ids = [run_id for side in sides for run_id in side.run_ids]
    read = read_answers(catalog, benchmark, [question_id], run_ids, **how)
    return {
        **question,
        "sides": sides,
        "scores": next((row for row in rows if row["question_set"] == question_set), rows[0] if rows else None),
        "answers": [
            [answer for run_id in side.run_ids for answer in read[question_id, run_id].samples] for side in sides
        ],
    }


def _side_by_side(catalog: Catalog, sides: Sequence[Side], request: GridRequest, **which: object) -> Rows:
    run_ids = [side.run_ids for side in sides]
    chosen = {"judges": list(request.judges) or None, "pipeline": request.pipeline, "text": request.text or None}
    return questions_of(catalog, run_ids, **chosen, **which, every=True)


def read_sides(catalog: Catalog, models: Sequence[str]) -> tuple[Side, ...]:
    """The runs that models stand for, as sides A, B and so on.

    Raises:
        ConfigurationError: There is no such run, several could be meant, or there are too many or twice the same.
    """
    if not 1 <= len(models) <= MOST_SIDES:
        raise ConfigurationError(f"choose one to {MOST_SIDES} models, not {len(models)}")
    runs = scored_runs(catalog)
    sides = tuple(find_side(runs, name, model, None) for name, model in zip(_SIDES, models, strict=False))
    if len({side.run_ids for side in sides}) < len(sides):
        raise ConfigurationError("the same model is chosen twice")
    return sides


SORTS = ("position", "score", "difference", "disagreement")
"""Orders of questions: in their set, the lowest first, where runs or where judges are furthest apart."""
PAGE = 100
"""So many questions are read at once."""
_BLOCK = 20
"""Number of questions whose texts are in memory at once."""
_NAMES = ("benchmark", "judge", "category", "sort")
_FLAGS = ("failed", "loses")
_NAMED = re.compile(rf"({'|'.join(_NAMES)}):(\S+)")
_BOUND = re.compile(r"score([<>])(.*)")
_MISSPELT, _ALIKE = re.compile(r"([A-Za-z]+)[:=<>](?!//)\S*"), 0.75


@dataclass(frozen=True)
class Filter:
    """A filter of questions; fields that are None or False leave none out.

    Attributes:
        benchmark: Of this benchmark.
        judge: Scores of judges with this in their name.
        category: With this in their category.
        below: A run scored less than this, on the reported scale.
        above: Each run scored more than this.
        flags: `failed`: an answer failed, or a score is missing; `loses`: A, the first of several runs, is below
            another one.
        search: This text is in the question, its set and place (`tengu@120 5`), its category or an answer.
        sort: One of `SORTS`.
    """

    benchmark: str | None = None
    judge: str | None = None
    category: str | None = None
    below: float | None = None
    above: float | None = None
    flags: tuple[str, ...] = ()
    search: str | None = None
    sort: str = "position"

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """A filter as people write it: `benchmark:elyza judge:gpt score<5 loses sort:difference some words`.

        Raises:
            ConfigurationError: A number is not valid, a name is misspelt, or there is no such order.

        >>> str(Filter.parse("犬 loses score<5.0 category:敬語"))
        'category:敬語 score<5 loses 犬'
        """
        chosen: dict[str, Any] = {"flags": tuple(flag for flag in _FLAGS if flag in text.split())}
        words = []
        for word in text.split():
            if named := _NAMED.fullmatch(word):
                chosen[named[1]] = named[2]
            elif bound := _BOUND.fullmatch(word):
                chosen["below" if bound[1] == "<" else "above"] = _number(bound[2])
            elif named := _MISSPELT.fullmatch(word):
                known = {name: f"{name}:NAME" for name in _NAMES} | {"score": "score<N"}
                known |= {flag: flag for flag in _FLAGS}
                alike = get_close_matches(named[1].casefold(), known, 1, _ALIKE)
                meant = known[alike[0]] if alike else ", ".join(known.values())
                raise ConfigurationError(f"{word!r} chooses nothing; did you mean {meant}?")
            elif word not in _FLAGS:
                words.append(word)
        if chosen.get("sort", SORTS[0]) not in SORTS:
            raise ConfigurationError(f"sort: must be one of {', '.join(SORTS)}, not {chosen['sort']!r}")
        return cls(**chosen, search=" ".join(words) or None)

    def __str__(self) -> str:
        """The filter as people write it."""
        named = [f"{name}:{value}" for name in _NAMES if (value := getattr(self, name)) and value != SORTS[0]]
        bounds = [f"score<{self.below:g}"] if self.below is not None else []
        bounds += [f"score>{self.above:g}"] if self.above is not None else []
        return " ".join([*named, *bounds, *self.flags, *([self.search] if self.search else [])])

    def with_other_flag(self, flag: str) -> "Filter":
        """The same with a flag that it does not have, or without one that it has."""
        return replace(self, flags=tuple(name for name in _FLAGS if (name in self.flags) != (name == flag)))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"score< and score> need a number, not {text!r}") from None


def read_runs(
    catalog: Catalog,
    *,
    models: Sequence[str] = (),
    tags: Sequence[str] = (),
    sources: Sequence[str] = (),
    benchmark: str | None = None,
) -> list[dict[str, Any]]:
    """Read the runs with answers, the newest first, numbered runs of a tag as one: rows of `inspected_runs.sql`.

    Args:
        catalog: The public views.
        models: Only these; none means all.
        tags: Only runs with one of these tags, base tags or tags of their import; none means all.
        sources: Only runs imported from these trees; none means all, and the runs of our own.
        benchmark: Only runs that were asked this, and only this of them; None means all.

    Raises:
        ConfigurationError: The lake has no such model, tag, tree or benchmark.
    """
    check_selected(catalog, {"models": models, "tags": tags, "sources": sources})
    if benchmark:
        check_known("benchmark", [benchmark], known_names(catalog, "benchmark"))
    return fetch(catalog, "inspected_runs", **runs_chosen(models, tags, sources), benchmark=benchmark)


def place_of(run: Row, models: Sequence[str]) -> int:
    """Return the place of a run among models, or runs as MODEL@@TAG, that were named; 0 where none was."""
    for place, name in enumerate(models):
        model, _, tag = name.rpartition("@@")
        own_tags = run["run_tag"], run["base_tag"], run["base_tag"] + NUMBERED
        if run["model"] == name or (run["model"] == model and tag in own_tags):
            return place
    return 0


def check_filter(catalog: Catalog, chosen: Filter, runs: Rows) -> None:
    """Refuse a filter that leaves no question of some rows of `read_runs`.

    Raises:
        ConfigurationError: There is no such judge, or no question matches.
    """
    judges = known_names(catalog, "judge")
    if chosen.judge and not any(chosen.judge in judge for judge in judges):
        check_known("judge", [chosen.judge], judges)
    if chosen != Filter(benchmark=chosen.benchmark) and not read_questions(catalog, runs, chosen, limit=1):
        words = (chosen.search or "").split()
        alike = [flag for word in words for flag in get_close_matches(word.casefold(), _FLAGS, 1, _ALIKE)]
        meant = f"; did you mean {' '.join(alike)}?" if alike else " (scores are of the judges that all runs share)"
        raise ConfigurationError(f"no question matches --filter {str(chosen)!r}{meant}")


def read_questions(
    catalog: Catalog, runs: Iterable[Row], chosen: Filter, *, offset: int = 0, limit: int | None = None
) -> Rows:
    """Read questions that some runs were asked: rows of `questions_of_runs.sql`.

    Args:
        catalog: The public views.
        runs: Rows of `read_runs`; scores of several runs in one are averaged.
        chosen: Which questions, in which order.
        offset: How many are left out at the beginning.
        limit: How many are read; None: all.
    """
    which = vars(chosen) | {"flags": list(chosen.flags)}
    benchmark = which.pop("benchmark")
    which["benchmarks"] = [benchmark] if benchmark else None
    return questions_of(catalog, [run["run_ids"] for run in runs], **which, offset=offset, limit=limit)


def read_texts(catalog: Catalog, runs: Rows, questions: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Read the texts of questions, one after the other: each with `stored` and `answers` beside what it has.

    `stored` is None where the question's set is not in the lake; `answers` are those of each row, in its order.

    Args:
        catalog: The public views.
        runs: Rows of `read_runs`: whose answers.
        questions: Which, in this order.
    """
    left = iter(questions)
    run_ids = [run_id for run in runs for run_id in run["run_ids"]]
    while block := list(islice(left, _BLOCK)):
        ids: dict[str, list[str]] = {}
        for question in block:
            ids.setdefault(question["benchmark"], []).append(question["question_id"])
        read = {benchmark: read_answers(catalog, benchmark, of_it, run_ids) for benchmark, of_it in ids.items()}
        for question in block:
            benchmark, question_id = question["benchmark"], question["question_id"]
            place = {"benchmark": benchmark, "question_set": question["question_set"], "question_id": question_id}
            answers = [[read[benchmark][question_id, run_id] for run_id in run["run_ids"]] for run in runs]
            yield {**question, "stored": find_question(catalog, **place), "answers": answers}


_NOT_STORED = "(the text of this question is not in the lake)"


def question_text(question: Row, *, in_full: bool = True) -> Text:
    """The question as `read_texts` has it, and in full its reference and criteria as well."""
    where = f"{question['question_set']} {question['position'] or question['question_id'][:12]}"
    stored, factor = question["stored"], getattr(ALL_BENCHMARKS.get(question["benchmark"]), "reported_multiplier", 1)
    where += f" (scores: the judge's ×{factor:g})" if factor != 1 else ""
    parts = [_title(where, question["category"] or ""), _body(stored["question"] if stored else _NOT_STORED)]
    more = {"reference": stored["reference"], "criteria": stored["criteria"]} if stored and in_full else {}
    for name, text in more.items():
        if text:
            parts += [Text(), _title(name), _body(text)]
    return Text("\n").join(parts)


def answers_texts(runs: Iterable[Row], question: Row, *, judgements: bool = True) -> list[Text]:
    """Write the answers of all runs for which a question was read."""
    of_runs = zip(runs, question["scores"], question["answers"], strict=True)
    return [answers_text(*of_run, judgements=judgements) for of_run in of_runs]


def answers_text(run: Row, score: float | None, read: Sequence[RunAnswers], *, judgements: bool = True) -> Text:
    """Write the answers of a row of `read_runs`, run by run and sample by sample, with their judgements.

    Args:
        run: The row.
        score: Its mean of this question.
        read: The answers of each of its runs.
        judgements: With the judges' whole texts, not only their scores.
    """
    several = len(read) > 1
    mean = f", mean of {len(read)} runs" if several else ""
    parts = [_title(f"{run['model']} {run['run_tag']}", decimals(score) + mean)]
    for run_id, (answers, consensus) in zip(run["run_ids"], read, strict=True):
        parts += [Text(), Text(printable(run_id.rpartition("@@")[2]), style="bold")] if several else []
        for answer in answers:
            parts += [*_answer(answer, len(answers) > 1), *_judgements(answer["judgements"], in_full=judgements)]
        if not answers:
            parts.append(Text("(not asked)", style="dim"))
        parts += _judgements(consensus, in_full=judgements)
    return Text("\n").join(parts)


def print_answers(catalog: Catalog, runs: Rows, questions: Filter, console: Console) -> None:
    """Print all questions that a filter takes, each with what those runs that were asked it answered.

    Args:
        catalog: The public views.
        runs: Whose answers.
        questions: Which, and in which order.
        console: Where to; no line is broken.
    """
    for question in read_texts(catalog, runs, read_questions(catalog, runs, questions)):
        answers = zip(answers_texts(runs, question), question["answers"], strict=True)
        for part in (question_text(question), *(text for text, read in answers if any(one.samples for one in read))):
            console.print(part, crop=False, soft_wrap=True)
            console.print()


def _answer(answer: Row, several: bool) -> Iterator[Text]:
    if several:
        yield Text(f"sample {answer['sample_index']}", style="bold")
    if answer["status"] != "ok":
        said = ": ".join(filter(None, (answer["status"], answer["error_class"], answer["error_message"])))
        yield Text(printable(said), style="yellow")
    if answer["finish_reason"] not in {None, "stop"}:
        yield Text(printable(f"ended by: {answer['finish_reason']}"), style="yellow")
    if answer["answer"]:
        read = next((judgement["read"] for judgement in answer["judgements"] if judgement["read"]), None)
        yield _body(answer["answer"], read)
    elif answer["status"] == "ok":
        yield Text("(empty)", style="dim")


def _judgements(judgements: Rows, *, in_full: bool) -> Iterator[Text]:
    for judgement in judgements:
        yield Text()
        who = f"{judgement['judge']} of {judgement['strategy']}" if judgement["strategy"] else judgement["judge"]
        score = f"{judgement['score']:g}" if judgement["score"] is not None else "no score"
        why = "" if judgement["status"] == "ok" else f"{judgement['status']} {judgement['error_class'] or ''}".strip()
        yield Text.assemble(
            (printable(f"▸ {who}"), "cyan"), (f"  {score}", "bold"), (printable(f"  {why}") if why else "", "yellow")
        )
        if in_full and judgement["judge_output"]:
            yield _body(judgement["judge_output"])


def _title(text: str, detail: str = "") -> Text:
    return Text.assemble((printable(text), "bold reverse"), (printable(f"  {detail}") if detail else "", "bold"))


def _body(text: str, marked: Span | None = None) -> Text:
    start, end = (marked.start, marked.end) if marked else (0, 0)
    parts = ((text[:start], ""), (text[start:end], "underline"), (text[end:], ""))
    shown = ((printable(part, multiline=True).replace("\t", "    "), style) for part, style in parts if part)
    return Text.assemble(*shown)
