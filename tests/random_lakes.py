"""Random lakes: imported trees whose judges, missing scores and prompts differ, and ensembles with strategies."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from shaberi_dagster.deciding.promotion import promote
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.lake.catalog import write_catalog
from shaberi_dagster.runs.stages.evaluation import materialize
from shaberi_dagster.runs.workspace import Workspace
from tests.exchange.trees.trees import LegacyTree
from tests.judged_ensembles import judged_ensemble

BASELINE = "before"
_COLUMNS = {
    "tengu": {"Category": "分野", "Answer": "答え", "Criteria": "- 可"},
    "rakuda": {"category": "分野"},
    "elyza": {"output": "答え", "eval_aspect": "- 可"},
}
_HIGHEST = {"tengu": 10, "rakuda": 10, "elyza": 5}
_STRATEGIES = ("single", "plurality", "elo")


def make_lake(random: Random, workspace: Workspace, folder: Path) -> list[str]:
    """Fill an empty lake.

    Args:
        random: Decides everything.
        workspace: Of the lake.
        folder: Where the trees are made.

    Returns:
        The runs of two ensembles, the first of them promoted to `BASELINE`; none if the lake has no ensembles.
    """
    sizes = {name: random.randint(6, 24) for name in random.sample(list(_COLUMNS), random.randint(1, 3))}
    names = ["shisa", "umiyuki", "lightblue"][: random.randint(1, 3)]
    trees = {name: _tree(random, folder / name, sizes) for name in names}
    import_trees(ImportRequest(trees), workspace)
    _give_prompts(random, workspace)
    runs = _ensembles(random, workspace) if random.random() < 0.7 else []
    write_catalog(workspace.lake)
    return runs


def _tree(random: Random, folder: Path, sizes: Mapping[str, int]) -> Path:
    """A tree of some models, benchmarks with so many questions, and judges, of which each misses little or much."""
    tree, missing = LegacyTree(folder), random.choice([0, 0, 0.05, 0.3])
    judges = random.sample(["judge-a", "judge-b", "judge-c"], random.randint(1, 3))
    for model in random.sample(["model-a", "model-b", "model-c", "model-d"], random.randint(2, 4)):
        quality = random.uniform(0.3, 0.9)
        for benchmark, size in sizes.items():
            n_questions = size if random.random() < 0.9 else size - 2
            rows = [
                _COLUMNS[benchmark]
                | {"Question": f"{benchmark}の質問{number}は何ですか。", "ModelAnswer": f"{model}の答え{number}です。"}
                for number in range(n_questions)
            ]
            tree.answers(benchmark, rows, model=model)
            for judge in judges:
                if random.random() < 0.95:
                    scores = [_score(random, quality * _HIGHEST[benchmark], benchmark, missing) for _ in rows]
                    judged = [row | {"score": score} for row, score in zip(rows, scores, strict=True)]
                    tree.judgements(benchmark, judged, judge, model=model)
    return tree.root


def _score(random: Random, mean: float, benchmark: str, missing: float) -> Any:
    if random.random() < missing:
        return random.choice([None, None, {"score": 3}])
    score = round(random.gauss(mean, 1.0) * 2) / 2
    if random.random() < 0.005:  # out of scale
        return _HIGHEST[benchmark] + 2
    return min(max(score, 1), _HIGHEST[benchmark])


def _give_prompts(random: Random, workspace: Workspace) -> None:
    """Let some judgements be by prompts that are known, most of a judge's by the same."""
    used = workspace.lake.read("judgements", None, ["run_id", "judge"]).unique().sort("run_id", "judge")
    known = {judge: random.choice([None, "1" * 64]) for judge in used["judge"].unique().sort()}
    hashes = [known[judge] if random.random() < 0.85 else "2" * 64 for judge in used["judge"]]
    prompts = used.with_columns(judge_prompt_hash=pl.Series(hashes, dtype=pl.String))
    for table in ("judgements", "scores", "metrics"):
        rows = workspace.lake.read(table)
        given = rows.drop("judge_prompt_hash").join(prompts, on=["run_id", "judge"], how="left")
        for run_id in rows["run_id"].unique():
            of_run = given.filter(run_id=run_id).select(rows.columns)
            workspace.lake.replace(table, of_run, {"run_id": run_id})


def _ensembles(random: Random, workspace: Workspace) -> list[str]:
    """Two runs of the same questions, the second somewhat better or worse, with verdicts that are missing."""
    datasets = random.sample(["gsm8k", "math500"], random.randint(1, 2))
    n_questions, missing, runs = random.randint(8, 30), random.choice([0, 0, 0.05]), []
    for tag in ("before", "after"):
        share = random.choice([0.2, 0.5, 0.8])
        verdicts = {
            dataset: {
                strategy: [None if random.random() < missing else random.random() < share for _ in range(n_questions)]
                for strategy in _STRATEGIES
            }
            for dataset in datasets
        }
        spec = judged_ensemble(workspace, verdicts, tag=tag, model="ensemble")
        complete = workspace.lake.read("runs", {"run_id": spec.run_id})
        materialize("metrics", spec.run_id, datasets, workspace)
        workspace.lake.replace("runs", complete, {"run_id": spec.run_id})  # it has no answers, only verdicts
        runs.append(spec.run_id)
    promote(workspace.lake, runs[0], BASELINE)
    return runs
