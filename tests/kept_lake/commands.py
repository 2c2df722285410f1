"""The commands that made the runs of the kept lake, and those that bring them up to date."""

import socket
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from shaberi_dagster.cli import quick_eval, run_evals, shaberi
from shaberi_dagster.cli.options import call
from tests.example_runs import own_engine
from tests.kept_lake.endpoint import BASE_URL
from tests.stages_alone import stages_alone

_APPS = {"run-evals": run_evals.app, "quick-eval": quick_eval.app, "shaberi": shaberi.app}
_HOST = "kept-lake"
Command = Sequence[str]
"""A command with its arguments; `{folder}` is the folder with the lake."""


@dataclass(frozen=True)
class Kill:
    """When the last command of a run was killed with -9.

    Attributes:
        model: While a request to this model was under way. None: when its calls were in the lake and its rows not.
        request: Which of its requests, from 1.
        torn: Whether its journal ends in half a record.
    """

    model: str | None = None
    request: int = 0
    torn: bool = False


@dataclass(frozen=True)
class KeptRun:
    """One or more runs of a model.

    Attributes:
        model: The model, which no other entry has: calls are shared by all runs of a lake.
        made_by: The commands that made it.
        again: What a user types to bring it up to date; for complete runs that makes no call.
        complete: Whether nothing is left to do.
        killed: When the last of `made_by` was killed; None lets it come to its end.
    """

    model: str
    made_by: tuple[Command, ...]
    again: tuple[Command, ...]
    complete: bool = True
    killed: Kill | None = None


def environment_of(folder: Path) -> dict[str, str]:
    """The environment in which commands have the lake in the folder, with the prompts that it was made with."""
    return {
        "SHABERI_WAREHOUSE": str(folder / "warehouse"),
        "DAGSTER_HOME": str(folder / "dagster"),
        "SHABERI_PROMPTS": str(folder / "prompts"),
        "SHABERI_RESULTS": str(folder / "results"),
    }


def run(command: Command, folder: Path, *, own_instance: bool = True) -> int:
    """Run a command in this process on the lake in the folder.

    The host has always the same name: what a killed process left behind is looked after on its own host only.

    Args:
        command: The command.
        folder: Where the lake, its Dagster instance, the prompts and the questions are.
        own_instance: Whether it is a Dagster run on the instance in the folder. Stages alone take half the time;
            Dagster decides nothing about what stands.

    Returns:
        The command's exit code.
    """
    name, *arguments = (part.format(folder=folder) for part in command)
    with pytest.MonkeyPatch.context() as patch, nullcontext() if own_instance else stages_alone():
        for variable, place in environment_of(folder).items():
            patch.setenv(variable, place)
        patch.setattr(socket, "gethostname", lambda: _HOST)
        with own_engine({}):
            code = call(_APPS[name], arguments)
    return code if isinstance(code, int) else 0


def _evals(
    model: str, benchmarks: str, *more: str, judges: Sequence[str] = ("judge-a",), questions: str = ""
) -> Command:
    named = [part for judge in judges for part in ("--judge-model", judge)]
    asked = ("--questions", f"{{folder}}/{questions}") if questions else ()
    at = ("--base-url", BASE_URL, "--judge-base-url", BASE_URL)
    return ("run-evals", "--model", model, "--benchmark", benchmarks, *at, *named, *asked, *more)


def _quick(model: str, *more: str, judge: str = "grader", questions: str = "questions") -> Command:
    asked = ("--questions", f"{{folder}}/{questions}") if questions else ()
    return ("quick-eval", "--model", model, "--base-url", BASE_URL, "--judge-model", judge, *asked, *more)


def _samples_of_three(model: str) -> Command:
    return ("--ensemble", f"{model}/a,{model}/b,{model}/c")


_ONE_BY_ONE = ("--concurrency", "1")
_BOTH = ("judge-a", "judge-b")
_OWN, _FAULTY = "questions", "questions/faulty"
_SAFETY = ("--pass-option", "safety_check.model=guard", "--pass-option", "safety_check.severity=0.25")
_IMPORT = ("shaberi", "import-legacy", "old={folder}/tree")
_REPROCESS = ("shaberi", "reprocess", "--tag", "legacy", "--passes", "repetition,lang_mixing")


def _judged() -> KeptRun:
    """Two judges; one of them judges a benchmark twice more, and is asked with another prompt as well."""
    command = _evals("kept-judged", "elyza,tengu", judges=_BOTH, questions=_OWN)
    anew = _evals("kept-judged", "tengu", "--rejudge")
    strict = _evals("kept-judged", "elyza,tengu", "--rejudge", "--judge-prompt", "strict")
    again = _evals("kept-judged", "elyza,tengu", judges=(*_BOTH, "judge-a+strict"), questions=_OWN)
    return KeptRun("kept-judged", (command, anew, anew, strict), (again,))


def _multi_run() -> KeptRun:
    """Two runs whose answers come out the same, on the first of the project's own questions."""
    command = _evals("org/kept-multi", "mt_bench", "--runs", "2", "--tag", "july", "--limit", "2")
    return KeptRun("org/kept-multi", (command,), (command,))


def _passes() -> KeptRun:
    rules = _evals("kept-passes", "rakuda", "--passes", "lang_mixing,repetition,format_validation", questions=_OWN)
    confirmed = ("--pass-option", "lang_mixing.confirm_with=guard")
    asking = _evals("kept-passes", "rakuda", "--passes", "safety_check,lang_mixing", *_SAFETY, *confirmed)
    return KeptRun("kept-passes", (rules, asking), (asking,))


def _failing() -> KeptRun:
    """An endpoint's failure, a judge without a score, a pass without a verdict, and an answer without a text."""
    command = _evals("kept-failing", "rakuda", "--passes", "safety_check", *_SAFETY, questions=_FAULTY)
    return KeptRun("kept-failing", (command,), (command,), complete=False)


def _consensus() -> KeptRun:
    """All strategies, on samples of three models."""
    mixed = _samples_of_three("kept-ensemble")
    command = _quick("kept-ensemble", "--datasets", "gsm8k", "--consensus-model", "decider", "--tag", "all", *mixed)
    return KeptRun("kept-ensemble", (command,), (command,))


def _made_beforehand() -> KeptRun:
    """Samples of one run that another one uses, tags that are made of the settings, and no grading model."""
    same = ("--datasets", "gsm8k", "--sample", "2", "--ensemble", "3", "--temperature", "0.5", "--single", "first")
    cache = ("shaberi", "generate-cache", "--model", "kept-cached", "--base-url", BASE_URL, *same)
    strategies = ("--strategy", "plurality,standard,elo-seed")
    quick = _quick("kept-cached", *same, *strategies, judge="none", questions="")
    return KeptRun("kept-cached", (cache, quick), (cache, quick))


def _failing_consensus() -> KeptRun:
    """A consensus without a text, and a verdict without a verdict."""
    consensus = ("--strategy", "standard,plurality", "--consensus-model", "decider", "--tag", "faulty")
    mixed = _samples_of_three("kept-silent")
    command = _quick("kept-silent", "--datasets", "gsm8k", *mixed, *consensus, questions=_FAULTY)
    return KeptRun("kept-silent", (command,), (command,), complete=False)


def _killed(what: str, command: Command, killed: Kill) -> KeptRun:
    return KeptRun(f"kept-killed-{what}", ((*command, *_ONE_BY_ONE),), (command,), complete=False, killed=killed)


def _killed_runs() -> list[KeptRun]:
    judged = _evals("kept-killed-rejudging", "rakuda", judges=_BOTH, questions=_OWN)
    passes = _evals("kept-killed-passes", "rakuda", "--passes", "safety_check", *_SAFETY, questions=_OWN)
    ensemble = ("--datasets", "arc", "--consensus-model", "decider", "--tag", "killed")
    debate = ("--strategy", "standard,majority,elo,council")
    consensus, grading = "kept-killed-consensus", "kept-killed-grading"
    return [
        _killed(
            "answers",
            _evals("kept-killed-answers", "elyza,rakuda", questions=_OWN),
            Kill("kept-killed-answers", 4, torn=True),
        ),
        _killed("commit", _evals("kept-killed-commit", "rakuda", questions=_OWN), Kill()),
        KeptRun(
            "kept-killed-rejudging",
            (judged, _evals("kept-killed-rejudging", "rakuda", "--rejudge", *_ONE_BY_ONE, judges=_BOTH)),
            (judged,),
            complete=False,
            killed=Kill("judge-b", 2),
        ),
        _killed("passes", passes, Kill("guard", 3)),
        _killed("consensus", _quick(consensus, *ensemble, *_samples_of_three(consensus), *debate), Kill("decider", 12)),
        _killed(
            "grading",
            _quick(grading, *ensemble, *_samples_of_three(grading), "--strategy", "standard,plurality"),
            Kill("grader", 2),
        ),
    ]


RUNS = (
    *(_judged(), _multi_run(), _passes(), _failing()),
    *(_consensus(), _made_beforehand(), _failing_consensus()),
    KeptRun("org__old", (_IMPORT, _REPROCESS), (_IMPORT, _REPROCESS)),
    *_killed_runs(),
)
"""In the order in which they were made."""
