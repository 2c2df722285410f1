"""Commands that evaluate in full what a decision leaves out."""

import shlex
from collections.abc import Sequence

from shaberi_dagster.deciding.candidates import Contender
from shaberi_dagster.deciding.request import DecisionRequest

_SAME_OPTIONS = ("samples", "questions", "base_url", "judge_base_url", "api_key_variable", "judge_api_key_variable")
"""Settings of a request that are options of `run-evals` by the same names."""


def full_evaluations(
    lacking: Sequence[Contender], benchmarks: Sequence[str], request: DecisionRequest
) -> tuple[str, ...]:
    """Return the commands that ask for the rest, one a run, or one for all settings of a model.

    Args:
        lacking: Candidates that lack scores.
        benchmarks: The benchmarks of the decision.
        request: The decision that was asked for.
    """
    runs = dict.fromkeys((candidate.spec.model, candidate.spec.run_tag) for candidate in lacking)
    if request.sweep:  # whose runs have settings of their own
        runs = dict.fromkeys(map(request.swept_run, request.candidates if lacking else ()))
    same = [(f"--{name.replace('_', '-')}", getattr(request, name)) for name in _SAME_OPTIONS]
    options = [
        *(("--judge-model", judge) for judge in request.judge_models or []),
        *([("--strategy", ",".join(request.strategies))] if request.strategies else []),
        *(("--sweep", sweep) for sweep in request.sweep or ()),
        *((name, str(value)) for name, value in same if value is not None),
    ]
    return tuple(
        shlex.join(
            [
                *("run-evals", "--model", model, "--tag", tag, "--benchmark", ",".join(benchmarks)),
                *(word for option in options for word in option),
            ]
        )
        for model, tag in runs
    )
