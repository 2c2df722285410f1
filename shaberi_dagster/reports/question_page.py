"""A question with its answers and judgements, as text; on a terminal nothing in it means something."""

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from shaberi_dagster.lake.statements import Catalog
from shaberi_dagster.reports.blocks import Row, Rows, decimals
from shaberi_dagster.reports.questions import Filter, RunAnswers, Span, read_questions, read_texts
from shaberi_dagster.util.text import printable

_NOT_STORED = "(the text of this question is not in the lake)"


def question_text(question: Row, *, in_full: bool = True) -> Text:
    """The question as `read_texts` has it, and in full its reference and criteria as well."""
    where = f"{question['question_set']} {question['position'] or question['question_id'][:12]}"
    stored = question["stored"]
    parts = [_title(where, question["category"] or ""), _body(stored["question"] if stored else _NOT_STORED)]
    more = {"reference": stored["reference"], "criteria": stored["criteria"]} if stored and in_full else {}
    for name, text in more.items():
        if text:
            parts += [Text(), _title(name), _body(text)]
    return Text("\n").join(parts)


def answers_texts(runs: Iterable[Row], question: Row, *, judgements: bool = True) -> list[Text]:
    """Write the answers of all runs for which a question was read."""
    of_runs = zip(runs, question["scores"], question["answers"].values(), strict=True)
    return [answers_text(*of_run, judgements=judgements) for of_run in of_runs]


def answers_text(run: Row, score: float | None, read: RunAnswers, *, judgements: bool = True) -> Text:
    """Write the answers of one run, sample by sample, with their judgements.

    Args:
        run: The run.
        score: Its mean of this question.
        read: Its answers.
        judgements: With the judges' whole texts, not only their scores.
    """
    answers, consensus = read
    parts = [_title(f"{run['model']} {run['run_tag']}", decimals(score))]
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
    run_ids = [run["run_id"] for run in runs]
    for question in read_texts(catalog, run_ids, read_questions(catalog, run_ids, questions)):
        answers = zip(answers_texts(runs, question), question["answers"].values(), strict=True)
        for part in (question_text(question), *(text for text, read in answers if read.samples)):
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
