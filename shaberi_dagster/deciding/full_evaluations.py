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
    """The commands that ask for the rest, one a run.

    Args:
        lacking: Candidates that lack scores.
        benchmarks: What is decided about.
        request: What was asked for.
    """
    specs = {candidate.spec.run_id: candidate.spec for candidate in lacking}
    same = [(f"--{name.replace('_', '-')}", getattr(request, name)) for name in _SAME_OPTIONS]
    options = [
        *(("--judge-model", judge) for judge in request.judge_models or []),
        *([("--strategy", ",".join(request.strategies))] if request.strategies else []),
        *((name, str(value)) for name, value in same if value is not None),
    ]
    return tuple(
        shlex.join(
            [
                *("run-evals", "--model", spec.model, "--tag", spec.run_tag, "--benchmark", ",".join(benchmarks)),
                *(word for option in options for word in option),
            ]
        )
        for spec in specs.values()
    )
