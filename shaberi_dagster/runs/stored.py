"""Runs as the lake has them: found, widened by what is asked, stored before their first call."""

import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.lake.schemas import RUNS, STAGE_TABLES
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.llm.endpoints import changed_parameters, not_sent
from shaberi_dagster.llm.request import Endpoint
from shaberi_dagster.runs.questions import load_questions, store_question_set
from shaberi_dagster.runs.spec import PassSpec, RunSpec, contradictions, pipeline_name, widened
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import VERSION
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import (
    FURTHER_ANSWERS,
    NUMBERED,
    RUN_NUMBER,
    check_model_name,
    check_run_tag,
    run_id_of,
)


def stored_spec(run_id: str, workspace: Workspace) -> RunSpec:
    """Return the spec of a registered run.

    Raises:
        ConfigurationError: There is no such run.
    """
    spec = load_run(workspace.lake, run_id)
    if spec is None:
        raise ConfigurationError(f"run {run_id} has no RunSpec: start it with run-evals or the job new_run")
    return spec


def load_run(lake: Lake, run_id: str) -> RunSpec | None:
    """Return the stored RunSpec of a run; None if there is no such run."""
    specs = lake.read("runs", {"run_id": run_id}, ["spec"])["spec"]
    return RunSpec.read(specs[0]) if len(specs) else None


def find_run(lake: Lake, model: str, tag: str) -> RunSpec | None:
    """Find the run of a model under a tag, or else the one that was imported under it from whatever tree.

    Args:
        lake: Where it is.
        model: The model.
        tag: Its tag, or the tag of its import.

    Raises:
        ConfigurationError: It was imported from several trees: the message names their runs.
    """
    stored = load_run(lake, run_id_of(check_model_name(model), check_run_tag(tag)))
    if stored is not None:
        return stored
    imported = lake.read("runs", {"model": model, "import_tag": tag}, ["run_id", "run_tag", "superseded_by"])
    imported = imported.filter(pl.col("superseded_by").is_null()).sort("run_tag")
    first = imported.filter(~pl.col("run_tag").str.contains(FURTHER_ANSWERS))
    found = imported if first.is_empty() else first
    if found.height > 1:
        raise ConfigurationError(
            f"{model} was imported under the tag {tag!r} from several trees: "
            f"name one run of them by its tag, {' or '.join(found['run_tag'])}"
        )
    return load_run(lake, found["run_id"][0]) if found.height else None


def numbered_tags(lake: Lake, model: str, tag: str) -> list[str]:
    """Return the tags of the runs `TAG-run1`, `TAG-run2` … of a model, by their number."""
    runs = lake.read("runs", {"model": model, "base_tag": tag}, ["run_tag", "run_number"])
    return runs.drop_nulls("run_number").sort("run_number")["run_tag"].to_list()


def named_tags(lake: Lake, model: str, tag: str) -> list[str]:
    """Return the tags of the stored runs that a tag means: its own run or import, else its numbered runs.

    `TAG-run*` means the numbered ones alone.

    Raises:
        ConfigurationError: It was imported from several trees.
    """
    base = tag.removesuffix(NUMBERED)
    if base == tag and (found := find_run(lake, model, tag)):
        return [found.run_tag]
    return numbered_tags(lake, model, base)


def run_before(lake: Lake, model: str, tag: str) -> RunSpec | None:
    """Find the run of a tag; for a new one among numbered runs, return the settings that it has from the first."""
    if (found := find_run(lake, model, tag)) or not (numbered := RUN_NUMBER.fullmatch(tag)):
        return found
    tags = numbered_tags(lake, model, numbered["base"])
    first = load_run(lake, run_id_of(model, tags[0])) if tags else None
    if first is None:
        return None
    judges = tuple(judge.model_copy(update={"rounds": {}}) for judge in first.judges)
    return first.model_copy(update={"run_tag": tag, "judges": judges, "added_pipelines": ()})


def store_run(spec: RunSpec, workspace: Workspace) -> None:
    """Store the spec, the question sets it names and what may be spent, and say which addresses changed.

    Nothing changes when they are already there.
    """
    for name in (name for name, settings in spec.benchmarks.items() if settings.question_texts == "known"):
        store_question_set(workspace.lake, load_questions(spec, name, workspace))
    now = datetime.now(UTC)
    stored = workspace.lake.read("runs", {"run_id": spec.run_id})
    of_now: dict[str, Any] = {"max_cost_usd": workspace.options.max_cost}
    if (names := _not_sent(spec)) is not None:
        of_now["not_sent"] = names
    before = RunSpec.read(stored["spec"][0]) if len(stored) else None
    if before == spec:
        if stored.select(*of_now).row(0, named=True) != of_now:
            columns = (pl.Series(name, [value], RUNS.schema[name]) for name, value in of_now.items())
            workspace.lake.replace("runs", stored.with_columns(*columns), {"run_id": spec.run_id})
        return
    if before:
        if differences(before, spec) and not has_begun(before, workspace):
            for table in STAGE_TABLES:  # failures of what is not asked any more
                workspace.lake.update(table.name, table.schema.to_frame(), {"run_id": spec.run_id})
        was, now_at = _addresses(before), _addresses(spec)
        for name in (name for name in now_at if was.get(name, now_at[name]) != now_at[name]):
            change = f"the address of {name} changed from {was[name]} to {now_at[name]}"
            workspace.reporter.note(f"run {spec.run_id}: {change}")
    row: dict[str, Any] = {
        "run_id": spec.run_id,
        "model": spec.model,
        "run_tag": spec.run_tag,
        "base_tag": spec.base_tag,
        "run_number": spec.run_number,
        "spec": spec.model_dump_json(),
        "spec_hash": spec.spec_hash,
        "status": "running",
        "status_by_benchmark": orjson.dumps(dict.fromkeys(spec.benchmarks, "running")).decode(),
        "created_at": stored["created_at"][0] if len(stored) else now,
        "created_by": stored["created_by"][0] if len(stored) else workspace.settings.user,
        "updated_at": now,
        **of_now,
        "package_version": VERSION,
        "platform": f"Python {platform.python_version()} on {platform.platform()}",
        **code_version(),
        **(stored.select("import_tag", "source", "superseded_by").row(0, named=True) if len(stored) else {}),
    }
    workspace.lake.replace("runs", pl.DataFrame([row], infer_schema_length=None), {"run_id": spec.run_id})


def differences(stored: RunSpec, asked: RunSpec) -> list[str]:
    """Say in words what of a run cannot change once it has begun, and is asked to be otherwise."""
    found = contradictions(stored, asked)
    if any(settings.samples > 1 for settings in stored.benchmarks.values()):
        found += _other_models("samples of", stored.sampled_models, asked.sampled_models)
    if stored.has_consensus and (stored.consensus or stored.endpoint):  # of an imported run no one has been asked yet
        found += _other_models("consensus model", [stored.consensus_model], [asked.consensus_model])
    return found


def _other_models(what: str, stored: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Say which models are others, wherever they are served."""
    return [] if stored == asked else [f"{what} {', '.join(stored)}, not {', '.join(asked)}"]


def merged(stored: RunSpec, asked: RunSpec) -> RunSpec:
    """Return the stored run, widened by what is asked: more benchmarks, other judges, a higher limit.

    Raises:
        ConfigurationError: They differ in something that cannot change; the message names it.
    """
    if unlike := differences(stored, asked):
        raise ConfigurationError(
            f"run {stored.run_id} was made with {'; '.join(unlike)}: give another --tag, or the same settings"
        )
    # Those that are asked for come last: where the beginning of one has another's name, the later one counts.
    again = {pipeline_name(pipeline) for pipeline in asked.passes}
    judged_before = {judge.name: judge.endpoint.base_url for judge in stored.judges}
    moved = {judged_before[judge.name]: judge.endpoint for judge in asked.judges if judge.name in judged_before}
    kept = (_moved_along(pipeline, moved) for pipeline in stored.passes if pipeline_name(pipeline) not in again)
    new = again - {pipeline_name(pipeline) for pipeline in stored.passes}
    added = (*stored.added_pipelines, *sorted(new))
    return widened(stored, asked).model_copy(update={"passes": (*kept, *asked.passes), "added_pipelines": added})


def has_begun(spec: RunSpec, workspace: Workspace) -> bool:
    """Return whether a call of a run has succeeded, or an answer of it was there already."""
    if workspace.journals.finished_calls(spec.run_id, "answers"):
        return True
    keys = {"run_id": spec.run_id, "status": "ok"}
    return any(workspace.lake.read(table, keys, ["run_id"]).height for table in ("answers", "calls"))


def _addresses(spec: RunSpec) -> dict[str, str]:
    """Map each model, judge and pass, in words, to its address."""
    models = [*([spec.itself] if spec.endpoint else []), *spec.members, *([spec.consensus] if spec.consensus else [])]
    passes = [settings for pipeline in spec.passes for settings in pipeline]
    return {
        **{f"model {model.model}": model.endpoint.base_url for model in models},
        **{f"judge {judge.name}": judge.endpoint.base_url for judge in spec.judges},
        **{f"pass {settings.name}": settings.endpoint.base_url for settings in passes if settings.endpoint},
    }


def _moved_along(pipeline: Sequence[PassSpec], moved: Mapping[str, Endpoint]) -> tuple[PassSpec, ...]:
    """Return a stored pipeline whose passes call the judges' servers; `moved` has the new endpoint by old address."""
    return tuple(
        settings.model_copy(update={"endpoint": moved.get(settings.endpoint.base_url, settings.endpoint)})
        if settings.endpoint
        else settings
        for settings in pipeline
    )


def _not_sent(spec: RunSpec) -> list[str] | None:
    """Name the parameters of answers, and of judges as `judge_NAME`, that are asked for and that calls leave out.

    Where only some of the models, or of the judges, are not sent one, it is `NAME of MODEL`. None is not known.
    """
    answers, judges = dict[str, set[str]](), dict[str, set[str]]()
    try:
        for benchmark, settings in spec.benchmarks.items() if spec.origin == "own" else ():
            for asked in (spec.sampled(benchmark, index) for index in range(settings.samples)):
                dropped = not_sent(asked.endpoint, asked.model, settings.sampling)
                answers.setdefault(asked.model, set()).update(dropped)
        for judge in spec.judges:
            dropped = not_sent(judge.endpoint, judge.model, judge.sampling)
            judges[judge.name] = {f"judge_{name}" for name in dropped}
    except ConfigurationError:  # the endpoint is a plugin's that is gone or broken
        return None
    if not answers and not judges:
        return None
    names: list[str] = []
    for parties in (answers, judges):
        for name in sorted(set[str]().union(*parties.values())):
            without = [party for party, dropped in parties.items() if name in dropped]
            names += [name] if len(without) == len(parties) else [f"{name} of {party}" for party in without]
    return names


def parameters_in_words(spec: RunSpec) -> list[str]:
    """Say what is sent otherwise than the run asks for it, by model or judge and endpoint."""
    asked = [
        (f"{model.model} at {model.endpoint.name}", model.endpoint, model.model, settings.sampling)
        for benchmark, settings in (spec.benchmarks.items() if spec.origin == "own" else ())
        for model in (spec.sampled(benchmark, index) for index in range(settings.samples))
    ]
    asked += [(f"judge {judge.name}", judge.endpoint, judge.model, judge.sampling) for judge in spec.judges]
    said = ((name, changed_parameters(endpoint, model, sampling)) for name, endpoint, model, sampling in asked)
    return list(dict.fromkeys(f"{name}: {', '.join(changes)}" for name, changes in said if changes))


@cache
def code_version() -> dict[str, Any]:
    """Commit of this code and whether it is modified; nulls outside a git checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    try:
        commit, status = (
            subprocess.run(["git", "-C", root, *command], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603, S607
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.CalledProcessError):
        return {"git_commit": None, "git_dirty": None}
    return {"git_commit": commit, "git_dirty": bool(status)}
