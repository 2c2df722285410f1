"""How one question with its answers and judgements is shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shaberi_dagster.reports.question import QuestionReport
from shaberi_dagster.reports.report import Block, Cell, Column, Document, Heading, Sentences, Table
from shaberi_dagster.reports.scores import grouped

_ASKED = ("question", "reference", "criteria")
_SAMPLE = ("run_id", "model", "run_tag", "sample_index")


@dataclass(frozen=True)
class QuestionDocument(Document):
    """A question with what each run answered and each judge said."""

    report: QuestionReport

    csv_columns: ClassVar = [
        *("benchmark", "question_set", "position", "model", "run_tag", "sample_index", "strategy", "judge", "score"),
        *("out_of_scale", "score_source", "status", "error_class", "answer", "judge_output"),
    ]

    def blocks(self, width: int | None) -> Iterator[Block]:  # noqa: ARG002
        """The question, then the answers with their judgements."""
        report = self.report
        yield Heading(f"{report.question_set} {report.position}", report.category or "")
        asked = {name: text for name in _ASKED if (text := getattr(report, name))}
        yield Table(
            [
                Column("", cells=list(asked), left=True),
                Column("", cells=[_lines(text) for text in asked.values()], left=True, folds=True),
            ]
        )
        if not report.answers.height:
            yield Sentences(["No run has answered it."])
        for answer, judgements in self._answers():
            yield Heading(f"{answer['model']} {answer['run_tag']}", _about(answer))
            rows = [
                ("answer", "", answer["answer"]),
                *((_who(one), _score(one), one["judge_output"]) for one in judgements),
            ]
            yield Table(
                [
                    Column("", cells=[who for who, _, _ in rows], left=True, folds=True),
                    Column("score", cells=[score for _, score, _ in rows]),
                    Column("text", cells=[_lines(text or "") for _, _, text in rows], left=True, folds=True),
                ]
            )

    def records(self) -> Iterator[Mapping[str, Any]]:
        """A line for each judgement; of an answer that nobody has judged one without a judge."""
        place = {name: getattr(self.report, name) for name in ("benchmark", "question_set", "position")}
        for answer, judgements in self._answers():
            sample = place | {name: answer[name] for name in ("model", "run_tag", "sample_index", "answer")}
            for one in judgements or [{"status": answer["status"], "error_class": answer["error_class"]}]:
                yield sample | {name: value for name, value in one.items() if name in self.csv_columns}

    def data(self) -> Mapping[str, Any]:
        """The question, all its answers and all judgements, with all that is known of each."""
        report = self.report
        texts = {name: value for name, value in vars(report).items() if name not in {"answers", "judgements"}}
        return texts | {
            name: frame.to_dicts() for name, frame in (("answers", report.answers), ("judgements", report.judgements))
        }

    def _answers(self) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """Each answer with its judgements; those of a run's strategies stand by its first one."""
        judgements = dict(grouped(self.report.judgements.to_dicts(), lambda row: tuple(row[name] for name in _SAMPLE)))
        for answer in self.report.answers.to_dicts():
            yield answer, judgements.get(tuple(answer[name] for name in _SAMPLE), [])


def _about(answer: Mapping[str, Any]) -> str:
    """Which sample it is, and what went wrong."""
    parts = [f"sample {answer['sample_index']}"] if answer["sample_index"] else []
    if answer["status"] != "ok":
        parts.append(": ".join(filter(None, (answer["status"], answer["error_class"], answer["error_message"]))))
    return ", ".join(parts)


def _who(judgement: Mapping[str, Any]) -> str:
    return f"{judgement['judge']} of {judgement['strategy']}" if judgement["strategy"] else judgement["judge"]


def _score(judgement: Mapping[str, Any]) -> str:
    return f"{judgement['score']:g}" if judgement["score"] is not None else judgement["error_class"] or "no score"


def _lines(text: str) -> Cell:
    return tuple(text.replace("\t", "    ").split("\n"))
