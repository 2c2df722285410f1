"""Content of submitted runs: hashes of prompts and plugins travel with a run to the worker, which compares them.

A worker that has others refuses it.
"""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import orjson

from shaberi_dagster.plugins.discovery import PluginRegistry
from shaberi_dagster.runs.plan import RunPlan
from shaberi_dagster.runs.spec import RunSpec
from shaberi_dagster.runs.stages.ordered import STAGES
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.settings import VERSION
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS
from shaberi_dagster.tasks.consensus.registry import STRATEGIES
from shaberi_dagster.tasks.judges.rules.registry import GRADERS
from shaberi_dagster.tasks.passes.registry import PASSES
from shaberi_dagster.util.errors import ConfigurationError

CONTENT_TAG = "shaberi/content"
"""The hashes of what a submitted run is to be made with, as JSON."""
_KINDS: tuple[PluginRegistry[Any], ...] = (ALL_BENCHMARKS, GRADERS, STRATEGIES, PASSES)
_HASH_LENGTH = 12


def content_of(spec: RunSpec, benchmarks: Sequence[str], workspace: Workspace) -> dict[str, str]:
    """Return the hashes of a run's prompts and plugins as they are on this machine, by names that people know.

    Args:
        spec: The run.
        benchmarks: Some of its benchmarks.
        workspace: Where prompts are.
    """
    plan = RunPlan(spec, benchmarks, workspace)
    used = (prompt for stage in STAGES for prompt in stage.prompts(plan))
    prompts = {f"prompt {prompt.name} ({prompt.purpose})": prompt.prompt_hash for prompt in used}
    kinds = {kind.noun: kind for kind in _KINDS}
    files = {plugin: kinds[plugin.kind].file(plugin.name) for plugin in spec.plugins if plugin.kind in kinds}
    plugins = {f"{plugin.kind} {plugin.name}": (file and file.sha256) or "none" for plugin, file in files.items()}
    hashes = {"version of shaberi-dagster": VERSION, **prompts, **plugins}
    return {name: value[:_HASH_LENGTH] for name, value in sorted(hashes.items())}


def refuse_other_content(run: dg.DagsterRun, run_id: str, benchmarks: Sequence[str], workspace: Workspace) -> None:
    """Let a run that was submitted with other prompts, plugins or another version not be made here.

    Args:
        run: The Dagster run; one that was not submitted is made with whatever is here.
        run_id: One of its partitions.
        benchmarks: Those that it is about.
        workspace: Where its spec and the prompts are.

    Raises:
        ConfigurationError: They differ.
    """
    if CONTENT_TAG not in run.tags:
        return
    spec = stored_spec(run_id, workspace)
    asked: dict[str, str] = orjson.loads(run.tags[CONTENT_TAG])
    here = content_of(spec, [name for name in spec.benchmarks if name in benchmarks], workspace)
    if unlike := sorted(name for name in asked.keys() | here.keys() if asked.get(name) != here.get(name)):
        raise ConfigurationError(
            f"this worker has another {unlike[0]} than the run was submitted with"
            f"{f' ({len(unlike)} differ in all)' if len(unlike) > 1 else ''}: "
            "give all hosts the same prompts, plugins and version, and submit it again"
        )
