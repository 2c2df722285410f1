"""A link: a random sample of stored answers is judged again by the same judge, to measure how far its scores moved."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, cast

import numpy as np
import polars as pl

from shaberi_dagster.deciding.link_request import LinkRequest
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.schemas import ANSWERS, LINK_ANSWERS, LINKS
from shaberi_dagster.lake.statements import fetch
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.runs.forecast import Forecast
from shaberi_dagster.runs.planning import plan_run
from shaberi_dagster.runs.spec import BenchmarkSpec, RunSpec
from shaberi_dagster.runs.stages.evaluation import check_endpoints, check_keys, materialize
from shaberi_dagster.runs.stages.forecast import forecast
from shaberi_dagster.runs.stages.imported import OF_TREE
from shaberi_dagster.runs.stages.judgements import Judgements
from shaberi_dagster.runs.stages.metrics import set_status
from shaberi_dagster.runs.stored import load_run, store_run
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.statistics.comparison import OVERALL
from shaberi_dagster.statistics.intervals import Interval
from shaberi_dagster.statistics.linking import (
    FEWEST_MODELS,
    Offset,
    chance_granted,
    error_needed,
    offsets,
    planned_error,
)
from shaberi_dagster.tasks.benchmarks.registry import ALL_BENCHMARKS, get_benchmark
from shaberi_dagster.tasks.judges.sets import ADOPTED
from shaberi_dagster.tasks.judges.spec import judge_name
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import check_run_tag, run_id_of, sha256_json
from shaberi_dagster.util.names import check_known

PARTIAL_TAG = "link-"
"""Beginning of the tags of runs that have only what links had judged again."""
_MODELS = 8
_MOST_MISSING = 0.05
"""Share of the answers without a new score: these could be others than the rest."""
_USUAL_SPREADS = {"elyza": 0.45, "tengu": 0.46, "mt_bench": 0.62, "rakuda": 0.64}
"""Of scores that gpt-4.1 gave the same 3,200 answers twice: they differ on 4, 15, 27 and 29 % of them."""
_OTHER_SPREAD = 0.65
_KEY = ("run_id", "benchmark", "question_id")
_OF_OLD = ("strategy", "status", "superseded", "score", "judge_round")
_VERSION = ("judge_prompt_hash", "judge_config_hash")


@dataclass(frozen=True)
class Link:
    """A link to be measured; `measure` does it.

    Attributes:
        request: What was asked for.
        source: The tree of the imported scores.
        specs: The parts of the models' evaluations that are judged again.
        answers: The sample, a row of each answer: run_id (of the import), model, benchmark, question_id, answer_hash,
            inclusion_probability, and its old score on the reported scale.
        repeated: Old scores of answers that the judge judged twice: benchmark, first, second.
        seed: Of the sample.
        generation: Generation of the prompts of the imported scores; None is unknown.
    """

    request: LinkRequest
    source: str
    specs: tuple[RunSpec, ...]
    answers: pl.DataFrame
    repeated: pl.DataFrame
    seed: int
    generation: str | None

    @property
    def judge(self) -> str:
        """The judge that judges again."""
        return _new_judge(self.request)

    @property
    def models(self) -> list[str]:
        """The models whose answers are judged again."""
        return [spec.model for spec in self.specs]

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks that are linked."""
        return self.answers["benchmark"].unique(maintain_order=True).to_list()

    @property
    def link_id(self) -> str:
        """Identity of the link: its judge, sample, and how small the offset has to be."""
        sample = self.answers.select(_KEY).sort(_KEY).rows()
        facts = {"judge": self.request.judge, "new": self.judge, "margin": self.request.margin, "source": self.source}
        return sha256_json(facts | {"answers": [list(answer) for answer in sample]})[:16]

    @property
    def sizes(self) -> dict[str, int]:
        """Answers of each model, by benchmark."""
        counts = self.answers.group_by("benchmark", maintain_order=True).len()
        return {name: max(round(n / len(self.specs)), 1) for name, n in counts.iter_rows()}

    @property
    def spreads(self) -> dict[str, float]:
        """Standard deviation of new - old by benchmark that is to be expected of the judge's own noise alone."""
        own = self.repeated.group_by("benchmark").agg(sd=(pl.col("second") - pl.col("first")).pow(2).mean().sqrt())
        measured = dict(own.iter_rows())
        return {name: measured.get(name) or _USUAL_SPREADS.get(name, _OTHER_SPREAD) for name in self.benchmarks}

    def chances(self, offset: float = 0.0) -> dict[str, float]:
        """Map each benchmark, and overall if they are several, to the chance that it is granted."""
        sizes, spreads, n, margin = self.sizes, self.spreads, len(self.specs), self.request.margin
        parts = {name: {name: sizes[name]} for name in sizes} | ({OVERALL: sizes} if len(sizes) > 1 else {})
        return {
            name: chance_granted(planned_error(spreads, part, n), n, margin, offset) for name, part in parts.items()
        }


def prepare(request: LinkRequest, workspace: Workspace) -> Link:
    """Choose models and answers; nothing is written.

    Raises:
        ConfigurationError: The judge has no imported scores, or too few models have; or what is named is not there.
    """
    runs = _runs_judged(request, workspace.lake)
    source = _source(request, runs)
    specs = [spec for spec, tree in runs if tree == source]
    seed = int(sha256_json([request.judge, request.preset])[:12], 16) if request.seed is None else request.seed
    generation = _generation_of_imported(request, source, workspace.lake)
    chosen = _chosen(request, specs, seed)
    benchmarks = _benchmarks(request, chosen)
    planned = [plan_run(request.run_request(spec.model, spec.run_tag, benchmarks), workspace) for spec in chosen]
    scored = _scored(chosen, benchmarks, request.judge, workspace.lake)
    sample = sampled(scored.filter(is_in_force=True), request.questions, benchmarks, seed)
    parts = tuple(_part(spec, request, sample, workspace.lake) for spec in planned)
    return Link(request, source, parts, sample, _repeated(scored), seed, generation)


def _generation_of_imported(request: LinkRequest, source: str, lake: Lake) -> str | None:
    """Return the generation of the prompts of the imported scores; None is unknown.

    Raises:
        ConfigurationError: That of the new ones is known, and is another.
    """
    with connect(lake) as catalog:
        (known,) = fetch(catalog, "prompt_generation", judge=request.judge, source=source)
    old, new = known["prompt_generation"], generation_of(request.preset)
    if old and new and old != new:
        raise ConfigurationError(
            f"the prompts of {request.preset} are of generation {new}, and those of the imported scores of "
            f"{request.judge} of {old}: no link could be granted; adopt a commit with {old} (docs/legacy.md)"
        )
    return cast("str | None", old)


def generation_of(preset: str) -> str | None:
    """Return the generation of the old suite's prompts that a prompt set is of; None where it does not say."""
    return ADOPTED[preset].generation if preset in ADOPTED else None


def _runs_judged(request: LinkRequest, lake: Lake) -> list[tuple[RunSpec, str]]:
    """Read the imported runs that the judge has judged, each with its tree."""
    runs = lake.read("runs", columns=["run_id", "spec", "source", "superseded_by"])
    runs = runs.filter(OF_TREE, pl.col("source").is_not_null(), pl.col("superseded_by").is_null()).sort("run_id")
    found = [(RunSpec.read(spec), source) for spec, source in runs.select("spec", "source").iter_rows()]
    judges = {judge for spec, _ in found for settings in spec.benchmarks.values() for judge in settings.imported_judges}
    if not judges:
        raise ConfigurationError("nothing was imported that could be linked: `shaberi import-legacy` comes first")
    check_known("imported judge", [request.judge], judges, where="--judge")
    return [(spec, source) for spec, source in found if _judged(spec, request.judge)]


def _judged(spec: RunSpec, judge: str) -> list[str]:
    """Return the benchmarks of an imported run that a judge has judged, and whose answers can be judged again."""
    return [
        name
        for name, settings in spec.benchmarks.items()
        if judge in settings.imported_judges and settings.question_texts == "known" and name in ALL_BENCHMARKS
    ]


def _source(request: LinkRequest, runs: Iterable[tuple[RunSpec, str]]) -> str:
    sources = sorted({source for _, source in runs})
    if request.source:
        check_known("source", [request.source], sources, where="--source")
        return request.source
    if len(sources) > 1:
        raise ConfigurationError(
            f"{request.judge} has scores in several trees, each perhaps with prompts of its own: "
            f"name one with --source: {', '.join(sources)}"
        )
    return sources[0]


def _chosen(request: LinkRequest, specs: Sequence[RunSpec], seed: int) -> list[RunSpec]:
    """Return the runs of the models that are named, or of some at random: of each the first answers."""
    wanted = {name for name in request.benchmarks or () if name != "all"}
    by_model: dict[str, RunSpec] = {}
    for spec in sorted(specs, key=lambda spec: len(spec.run_tag)):
        if wanted <= set(_judged(spec, request.judge)):
            by_model.setdefault(spec.model, spec)
    names = list(dict.fromkeys(request.models or ()))
    most = max((len(_judged(spec, request.judge)) for spec in by_model.values()), default=0)
    if names:
        check_known("model", names, by_model, where="--models")
    else:
        whole = sorted(name for name, spec in by_model.items() if wanted or len(_judged(spec, request.judge)) == most)
        names = np.random.default_rng(seed).permutation(whole)[:_MODELS].tolist()
    if len(names) < FEWEST_MODELS:
        judged = f"there that {request.judge} has judged on {', '.join(sorted(wanted)) or f'all {most} benchmarks'}"
        raise ConfigurationError(
            f"a link takes stored answers of {FEWEST_MODELS} or more models, and {len(names)} are "
            + ("named" if request.models else f"{judged}: name fewer benchmarks (--benchmark), or models (--models)")
        )
    return [by_model[name] for name in names]


def _benchmarks(request: LinkRequest, chosen: Sequence[RunSpec]) -> list[str]:
    shared = [name for name in _judged(chosen[0], request.judge) if all(name in spec.benchmarks for spec in chosen)]
    shared = [name for name in shared if all(name in _judged(spec, request.judge) for spec in chosen)]
    names = [name for name in request.benchmarks or () if name != "all"] or shared
    if not names:
        raise ConfigurationError(f"{request.judge} has judged no benchmark of all these models")
    return names


def _scored(chosen: Sequence[RunSpec], benchmarks: Sequence[str], judge: str, lake: Lake) -> pl.DataFrame:
    """Read the judge's imported scores of answers with a text, on the reported scale; of several the last in force."""
    keys = {"benchmark": list(benchmarks), "run_id": [spec.run_id for spec in chosen]}
    same = [*_KEY, "sample_index", "answer_hash"]
    judged = lake.read("judgements", keys | {"judge": judge}, ["model", *same, *_OF_OLD]).filter(
        pl.col("status") == "ok", pl.col("strategy").is_null(), pl.col("sample_index") == 0
    )
    texts = lake.read("answers", keys, [*same, "status", "answer_state"]).filter(status="ok", answer_state="text")
    reported = _reported("score", benchmarks).alias("old")
    rows = judged.join(texts.select(same), on=same, how="semi").with_columns(reported).drop_nulls("old")
    if rows["run_id"].n_unique() < FEWEST_MODELS:
        raise ConfigurationError(f"{judge} has scored answers of fewer than {FEWEST_MODELS} of these models")
    rows = rows.sort(*_KEY, ~pl.col("superseded"), "judge_round")
    return rows.with_columns(is_in_force=pl.int_range(pl.len()).over(_KEY) == pl.len().over(_KEY) - 1)


def _reported(column: str, benchmarks: Iterable[str]) -> pl.Expr:
    factors = {name: float(get_benchmark(name).reported_multiplier) for name in benchmarks}
    return pl.col(column) * pl.col("benchmark").replace_strict(factors, return_dtype=pl.Float64)


def _repeated(scored: pl.DataFrame) -> pl.DataFrame:
    """Return the scores of answers that were judged several times: benchmark, first, second."""
    pairs = scored.with_columns(first=pl.col("old").shift(1).over(*_KEY, "answer_hash")).drop_nulls("first")
    return pairs.select("benchmark", "first", second="old")


def sampled(scored: pl.DataFrame, n_questions: int, benchmarks: Sequence[str], seed: int) -> pl.DataFrame:
    """Draw answers of each model at random, of each benchmark as many as possible of equal shares.

    A larger sample with the same seed has the smaller one in it.

    Args:
        scored: A row of each answer: run_id, benchmark, question_id.
        n_questions: Answers of each model.
        benchmarks: Those that are dealt to.
        seed: Of the draw.

    Returns:
        The drawn rows with their inclusion_probability.
    """
    order = {name: place for place, name in enumerate(benchmarks)}
    parts = scored.sort(_KEY).partition_by("run_id", "benchmark", as_dict=True, maintain_order=True)
    drawn = []
    for run_id in scored["run_id"].unique().sort():
        pools = {name: parts[run_id, name] for name in benchmarks if (run_id, name) in parts}
        for name, size in shares({name: pool.height for name, pool in pools.items()}, n_questions).items():
            pool = pools[name]
            own = np.random.default_rng([seed, int(sha256_json([run_id, name])[:8], 16)])
            rows = pool[np.sort(own.permutation(pool.height)[:size])]
            drawn.append(rows.with_columns(inclusion_probability=pl.lit(size / pool.height)))
    return pl.concat(drawn).sort(pl.col("benchmark").replace_strict(order, return_dtype=pl.Int64), *_KEY)


def shares(pools: Mapping[str, int], total: int) -> dict[str, int]:
    """Deal a number out evenly to pools of some sizes; what one cannot take goes to the others."""
    dealt: dict[str, int] = {}
    left = total
    for place, name in enumerate(sorted(pools, key=lambda name: pools[name])):
        dealt[name] = min(pools[name], math.ceil(left / (len(pools) - place)))
        left -= dealt[name]
    return {name: dealt[name] for name in pools if dealt[name]}


def _part(spec: RunSpec, request: LinkRequest, sample: pl.DataFrame, lake: Lake) -> RunSpec:
    """Return the part of an imported run that is judged again, with what earlier links had judged of it.

    Its answers are there from the beginning, and no one can be asked for others.
    """
    tag, judge = check_run_tag(f"{PARTIAL_TAG}{request.preset}-{spec.run_tag}"), _new_judge(request)
    before = load_run(lake, run_id_of(spec.model, tag))
    present = before.benchmarks if before else {}
    drawn = sample.filter(run_id=spec.run_id).group_by("benchmark").agg("question_id")
    asked = {name: {*questions, *_asked(present.get(name))} for name, questions in drawn.iter_rows()}
    own = {"imported_judges": (), "imported_samples": None, "samples": 1, "strategies": (), "single": None}
    benchmarks = present | {
        name: spec.benchmarks[name].model_copy(update=own | {"asked": tuple(sorted(questions)), "judges": (judge,)})
        for name, questions in asked.items()
    }
    judges = tuple(known.model_copy(update={"rounds": {}}) for known in spec.judges if known.name == judge)
    update = {"run_tag": tag, "benchmarks": benchmarks, "judges": judges, "passes": ()}
    return spec.model_copy(update=update | {"origin": "own", "imported": None, "consensus": None})


def _asked(settings: BenchmarkSpec | None) -> tuple[str, ...]:
    return (settings.asked or ()) if settings else ()


def _new_judge(request: LinkRequest) -> str:
    return judge_name(request.judge_model or request.judge, request.preset)


# --- its calls -------------------------------------------------------------------------------------------------------


def _copied(link: Link, lake: Lake) -> pl.DataFrame:
    """Return the answers of the sample as rows of the parts that are judged again."""
    keys = {"benchmark": link.benchmarks, "run_id": link.answers["run_id"].unique().to_list()}
    tags = {spec.model: (spec.run_id, spec.run_tag) for spec in link.specs}
    of_parts = pl.DataFrame([(name, *part) for name, part in tags.items()], ["model", "part", "tag"], orient="row")
    rows = lake.read("answers", keys).filter(sample_index=0)
    rows = rows.join(link.answers, on=[*_KEY, "answer_hash"], how="semi").join(of_parts, on="model")
    return rows.with_columns(run_id="part", run_tag="tag").select(ANSWERS.names)


def expected_calls(link: Link, workspace: Workspace, now: datetime) -> list[Forecast]:
    """Forecast the calls of a link; nothing is changed and no model is called."""
    answers, stages = _copied(link, workspace.lake), [Judgements.name]
    return forecast(link.specs, link.benchmarks, stages, workspace, now=now, answers=answers)


def measure(link: Link, workspace: Workspace) -> None:
    """Have the sample judged again, and store what comes of it; what was judged before is not asked again.

    Raises:
        ConfigurationError: It would send a key where it does not belong.
        EndpointError: The endpoint cannot be reached or refuses us; the same link continues where it was.
    """
    lake = workspace.lake
    for spec in link.specs:
        check_keys(spec, workspace)
    copied = _copied(link, lake)
    pending = not lake.read("links", {"link_id": link.link_id}, ["link_id"]).height
    if pending:
        check_endpoints(link.specs[0], workspace, answers=[], judges=[link.judge], stages=[Judgements.name])
    for spec in link.specs:
        store_run(spec, workspace)
        own = copied.filter(run_id=spec.run_id)
        there = lake.read("answers", {"run_id": spec.run_id}, list(_KEY))
        if (missing := own.join(there, on=_KEY, how="anti")).height:
            lake.append("answers", missing)
        materialize(Judgements.name, spec.run_id, list(spec.benchmarks), workspace)
        set_status(spec, workspace)
        workspace.changed(spec.run_id)
    _store(link, lake)


def read_link(link_id: str, lake: Lake) -> list[dict[str, Any]]:
    """Read the rows of a link, overall last; none if it was not measured."""
    rows = lake.read("links", {"link_id": link_id})
    return rows.sort(pl.col("benchmark") == OVERALL, "benchmark").to_dicts()


# --- its result ------------------------------------------------------------------------------------------------------


def _store(link: Link, lake: Lake) -> None:
    keys = {"link_id": link.link_id}
    judged = _judged_anew(link, lake)
    both = link.answers.join(judged, on=["model", "benchmark", "question_id", "answer_hash"], how="left")
    sample = both.with_columns(link_id=pl.lit(link.link_id)).select(LINK_ANSWERS.names)
    lake.replace("link_answers", sample, keys)
    versions = {row["benchmark"]: row for row in judged.unique("benchmark").iter_rows(named=True)}
    found = {offset.benchmark: offset for offset in offsets(both.drop_nulls("new"))} if judged.height else {}
    names = [*link.benchmarks, *([OVERALL] if len(link.benchmarks) > 1 else [])]
    rows = [_row(link, name, both, found.get(name), versions.get(name, {})) for name in names]
    lake.replace("links", pl.DataFrame(rows, schema=LINKS.schema), keys)


def _judged_anew(link: Link, lake: Lake) -> pl.DataFrame:
    keys = {"run_id": [spec.run_id for spec in link.specs], "judge": link.judge, "benchmark": link.benchmarks}
    columns = ["model", "benchmark", "question_id", "answer_hash", "status", "superseded", "score", *_VERSION]
    rows = lake.read("judgements", keys, columns).filter(pl.col("status") == "ok", ~pl.col("superseded"))
    new = _reported("score", link.benchmarks).alias("new")
    return rows.with_columns(new).select("model", "benchmark", "question_id", "answer_hash", "new", *_VERSION)


def _row(link: Link, name: str, both: pl.DataFrame, found: Offset | None, version: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a benchmark, or of their mean."""
    of_it = pl.lit(value=True) if name == OVERALL else pl.col("benchmark") == name
    sample, repeated = both.filter(of_it), link.repeated.filter(of_it)
    changes = repeated["second"] - repeated["first"]
    n_scored = len(sample) - sample["new"].null_count()
    reason = _why_refused(link, found, n_scored, len(sample))
    numbers = (
        {
            "score_offset": found.offset,
            **_ends("", found.interval),
            "standard_error": found.standard_error,
            "slope": found.slope,
            **_ends("slope_", found.slope_interval),
            "spread": found.spread,
            "share_equal": found.share_equal,
        }
        if found
        else {}
    )
    return {
        "link_id": link.link_id,
        "judge": link.request.judge,
        "linked_judge": link.judge,
        "source": link.source,
        "prompt_generation": link.generation,
        "new_generation": generation_of(link.request.preset),
        "models": link.models,
        "benchmark": name,
        "n_answers": len(sample),
        "n_scored": n_scored,
        **numbers,
        "n_repeated": len(changes),
        "repeat_spread": math.sqrt(fmean(changes**2)) if len(changes) else None,
        "repeat_share_equal": fmean(changes == 0) if len(changes) else None,
        "margin": link.request.margin,
        "granted": reason is None,
        "reason": reason,
        **{column: version.get(column) for column in _VERSION},
        "seed": link.seed,
        "created_at": datetime.now(UTC),
    }


def _ends(prefix: str, interval: Interval | None) -> dict[str, float]:
    return {f"{prefix}lower": interval.lower, f"{prefix}upper": interval.upper} if interval else {}


def _why_refused(link: Link, found: Offset | None, n_scored: int, n_answers: int) -> str | None:
    """Say why a link is not granted, and what it would take; None where it is."""
    if found is None or found.interval is None or n_scored < (1 - _MOST_MISSING) * n_answers:
        return f"{n_answers - n_scored:,} of {n_answers:,} answers have no new score: the same command tries them again"
    margin, interval = link.request.margin, found.interval
    if found.is_granted(margin):
        return None
    where = f"the offset's interval {interval.lower:+.2f} to {interval.upper:+.2f}"
    if interval.lower > margin or interval.upper < -margin:
        return f"{where} is outside of the margin {margin:g}: these are not the same scores, whatever the sample"
    needed = error_needed(found.n_models, margin, found.offset)
    if needed is None:
        return f"{where} and the offset itself reach beyond the margin {margin:g}: a larger sample hardly helps"
    questions = math.ceil(link.request.questions * (found.standard_error / needed) ** 2)
    return (
        f"{where} reaches beyond the margin {margin:g}: about {questions:,} answers of each model, "
        "or more models, would be enough"
    )
