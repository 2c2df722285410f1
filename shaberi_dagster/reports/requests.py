"""Selections and options of reports, for commands, the library and pages; light, so that help is quick.

What several of them can be told is declared once, with its option.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from shaberi_dagster.runs.option import FLAT, NO_OPTION, option
from shaberi_dagster.util.errors import ConfigurationError

BASELINE = "baseline"
"""The pipeline without passes."""
POLICIES = {
    "legacy": "samples without a score are left out",
    "zero": "a sample without a score counts as the scale's minimum",
    "strict": "no score unless every planned sample has one",
}
"""Null policies: what a missing score counts as."""
_IN_WORDS = {"legacy": "left out", "zero": "the minimum", "strict": "no mean"}
MISSING = {policy: f"missing scores: {words}" for policy, words in _IN_WORDS.items()}
"""The same in the words of the first screens."""
OBJECT_SCORES = ("none", "recovered")
OVER = ("questions", "categories")
BY = ("model", "judge", "run")
TABLES = (
    *("rankings", "not_ranked", "scores", "means", "statistics", "judges", "strategies"),
    *("unfinished", "replies", "tokens", "remarks"),
)
"""Kinds of lines in tables of scores."""

Models = Annotated[Sequence[str], option("what", "Only this model", name="--model", metavar="MODEL", known="models")]
Tags = Annotated[
    Sequence[str],
    option(
        "what", "Only runs with this tag, base tag, or tag of their import", name="--tag", metavar="TAG", known="runs"
    ),
]
Sources = Annotated[
    Sequence[str], option("what", "Only runs that were imported from this tree", name="--source", metavar="TREE")
]
Judges = Annotated[Sequence[str], option("what", "Only this judge", name="--judge", metavar="MODEL", known="judges")]
QuestionSets = Annotated[
    Sequence[str],
    option(
        "what", "Of its benchmark only the questions of this set, e.g. tengu@115", name="--question-set", metavar="SET"
    ),
]
Pipeline = Annotated[
    str, option("how", "Pass pipeline, e.g. lang_mixing,repetition", name="--passes", metavar="NAMES", known="passes")
]
NullPolicy = Annotated[str, option("how", "What a missing score counts as", metavar="|".join(POLICIES))]
Over = Annotated[
    str,
    option(
        "how", "What else could have been asked: other questions, or other categories of them", metavar="|".join(OVER)
    ),
]


@FLAT
@dataclass(frozen=True, kw_only=True)
class RunSelection:
    """A choice of runs.

    Attributes:
        models: Only these models; none means all.
        tags: Only runs with one of these tags, base tags or tags of their import; none means all.
        sources: Only runs imported from these trees; none means all, and the runs of our own.
    """

    models: Models = ()
    tags: Tags = ()
    sources: Sources = ()

    def __post_init__(self) -> None:
        for model, separator, tag in (name.rpartition("@@") for name in self.models):
            if separator and self.tags and tag not in self.tags:
                raise ConfigurationError(
                    f"--model {model}@@{tag} names the tag {tag}, --tag names {', '.join(self.tags)}: leave one out"
                )


@dataclass(frozen=True, kw_only=True)
class ScoreSelection(RunSelection):
    """A choice of runs and of their scores, and what missing ones count as.

    Attributes:
        judges: Only these judges; none means all.
        runs: Only multi-runs, of their runs the first so many; None for no statistics asked.
        pipeline: Passes in order, or baseline.
        null_policy: legacy, zero or strict.
        question_sets: Of these sets' benchmarks only the runs that were asked all their questions, over those.
        object_scores: One of `OBJECT_SCORES`: what an object in place of a score counts as (imported runs).
        over: One of `OVER`: what else could have been asked, which intervals are over.
        as_of: What the lake had at that time; None is now.
        aggregate: Runs that cannot be put into one aggregate are an error, not a remark.
        without: Runs to leave out, by their identities.
    """

    runs: Annotated[
        int | None, Field(ge=1), option("what", "Statistics over runs 1 to N of multi-runs", metavar="N")
    ] = None
    judges: Judges = ()
    pipeline: Pipeline = BASELINE
    null_policy: NullPolicy = "legacy"
    question_sets: QuestionSets = ()
    object_scores: Annotated[
        str,
        option(
            "how", "Imported objects in place of scores; recovered: the number inside", metavar="|".join(OBJECT_SCORES)
        ),
    ] = "none"
    over: Over = "questions"
    as_of: Annotated[datetime | None, NO_OPTION] = None
    aggregate: Annotated[bool, NO_OPTION] = False
    without: Annotated[frozenset[str], NO_OPTION] = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pipeline", _pipeline(self.pipeline))

    def check(self) -> None:
        """Refuse what is no choice.

        Raises:
            ConfigurationError: There is no such null policy, or other choice.
        """
        check_choice("--null-policy", self.null_policy, tuple(POLICIES))
        check_choice("--object-scores", self.object_scores, OBJECT_SCORES)
        check_choice("--over", self.over, OVER)

    @property
    def of_runs(self) -> dict[str, object]:
        """The choice of runs, as parameters of a statement."""
        return {**runs_chosen(self.models, self.tags, self.sources), "first_runs": self.runs}

    @property
    def of_other_questions(self) -> bool:
        """True if the roll-up does not have these scores."""
        return bool(self.question_sets) or self.object_scores != "none"

    @property
    def has_single_scores(self) -> bool:
        """True if the metrics have the single scores that are selected, for intervals and ties."""
        return self.object_scores == "none"


@FLAT
@dataclass(frozen=True, kw_only=True)
class ScoreView:
    """The part of the scores that a terminal shows.

    Attributes:
        by: One of `BY`: one line a model and base tag, with benchmarks as columns; the same with judges as columns; or
            a line for each run, benchmark and judge.
        notes: With what the numbers are and what does not compare, in full.
        cost: With tokens and cost in full.
        wide: With all columns, however wide the terminal is.
        top: Lines of the first ranking, of others a sixth; 0: all. None: as many as a terminal has room for, else all.
        table: One of `TABLES`: which rows a CSV file has.
    """

    by: Annotated[
        str,
        option(
            "how",
            "One line a model with its benchmarks (model) or judges (judge); or all of each run (run)",
            metavar="|".join(BY),
        ),
    ] = "model"
    notes: Annotated[bool, option("how", "What the numbers are and what does not compare")] = False
    cost: Annotated[bool, option("how", "Tokens and cost by stage")] = False
    wide: Annotated[bool, option("how", "All columns, however wide the terminal is")] = False
    top: Annotated[int | None, Field(ge=0), option("how", "Lines of the first ranking, of others a sixth; 0: all")] = (
        None
    )
    table: Annotated[str, option("how", "Rows of --format csv, such as scores", metavar="NAME")] = "rankings"


@FLAT
@dataclass(frozen=True)
class ComparisonRequest:
    """A choice of two sides to compare.

    Attributes:
        a: A model, MODEL@@TAG or a run id; TAG can be the base tag of a multi-run.
        b: Likewise.
        tag: For those that are named by model only.
        sources: Only runs imported from these trees; none means all, and the runs of our own.
        judges: Only these judges; none means all that both have.
        benchmarks: Names separated by commas, or all.
        pipeline: Passes in order, or baseline.
        null_policy: legacy, zero or strict.
        question_sets: Of these sets' benchmarks only their questions, whatever set the runs were asked.
        over: What else could have been asked: other questions, or other categories of questions, where there are ten or
            more.
        margin: Up to which difference scores are as good as equal; None: 2 % of the scale's highest.
        anyway: A verdict is given on what was not asked and judged alike, with a sentence that says so.
    """

    a: Annotated[str, option("what", "Model, or MODEL@@TAG for a run", metavar="A", known="models")]
    b: Annotated[str, option("what", "What to compare it with", metavar="B", known="models")]
    _: KW_ONLY
    tag: Annotated[
        str | None,
        option("what", "Tag or base tag of the runs; not needed where a model has one", metavar="TAG", known="runs"),
    ] = None
    sources: Sources = ()
    judges: Judges = ()
    benchmarks: Annotated[
        str,
        option("what", "Names, separated by commas, or all", name="--benchmark", metavar="NAMES", known="benchmarks"),
    ] = "all"
    pipeline: Pipeline = BASELINE
    null_policy: NullPolicy = "legacy"
    question_sets: QuestionSets = ()
    over: Over = "questions"
    margin: Annotated[
        float | None,
        option("how", "Up to which difference scores are equal; default: 0.2 of ten, 2 points of accuracy"),
    ] = None
    anyway: Annotated[bool, option("how", "Give a verdict on what was not asked and judged alike, and say so")] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "pipeline", _pipeline(self.pipeline))


def runs_chosen(models: Sequence[str], tags: Sequence[str], sources: Sequence[str]) -> dict[str, list[str] | None]:
    """Return a choice of runs as parameters of a statement."""
    return {"models": list(models) or None, "tags": list(tags) or None, "sources": list(sources) or None}


def _pipeline(text: str) -> str:
    """The name of a pipeline, which has no blanks."""
    return ",".join(name.strip() for name in text.split(","))


def moment(text: str) -> datetime:
    """The time that a text such as `2026-07-01T12:00` names; without an offset it is local.

    Raises:
        ConfigurationError: It names none.
    """
    try:
        time = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ConfigurationError(f"--as-of must be a time such as 2026-07-01T12:00, not {text!r}") from None
    if time > datetime.now(UTC):
        raise ConfigurationError(f"--as-of {text} is in the future")
    return time


def check_choice(option: str, value: str, values: Sequence[str]) -> None:
    """Refuse a value that is no choice.

    Raises:
        ConfigurationError: It is not one of `values`.
    """
    if value not in values:
        raise ConfigurationError(f"{option} must be one of {', '.join(values)}, not {value!r}")


ALL_RUNS, ALL_SCORES, DEFAULT_VIEW = RunSelection(), ScoreSelection(), ScoreView()
