"""Content of `manifest.json`: how a run was made, how far it is, what it used and what came out.

Everything is read from the lake, so the same lake gives the same manifest; what was not recorded is null.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import orjson
import polars as pl

from shaberi_dagster.lake.schemas import ANSWERS, CALLS, CONSENSUS, JUDGEMENTS, METRICS, PASS_OUTPUTS, QUESTIONS, SCORES
from shaberi_dagster.lake.store import Keys, Lake
from shaberi_dagster.llm.endpoints import may_be_sent
from shaberi_dagster.llm.types import Sampling
from shaberi_dagster.runs.spec import PassSpec, RunSpec
from shaberi_dagster.tasks.benchmarks.registry import RULE
from shaberi_dagster.tasks.judges.rule import rule_sampling
from shaberi_dagster.tasks.judges.spec import JudgeSpec
from shaberi_dagster.tasks.passes.pipeline import BASELINE, pipeline_hash
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.progress import failures_in_words

FORMAT = "shaberi-results/1"
STAGES = {
    ANSWERS.name: "generation",
    JUDGEMENTS.name: "judging",
    PASS_OUTPUTS.name: "passes",
    CONSENSUS.name: CONSENSUS.name,
}
"""Names of the stages in the manifest by those of the lake."""
SHABERI, ENSEMBLE = "artifacts/shaberi", "artifacts/ensemble"
"""Folders of files: of one answer to each question, and of several."""
RUNNING = "running"
_KEY_DIGITS = 12
_SETTINGS = ("temperature", "max_tokens", "frequency_penalty", "samples")
_METRIC_ORDER = ("benchmark", "judge", "pipeline", "null_policy", "strategy")
_METRICS = (
    *("benchmark", "question_set", "judge", "strategy", "pipeline", "null_policy", "score", "score_upper"),
    *(
        "sd_questions",
        "n_planned",
        "n_scored",
        "n_failed",
        "n_undecided",
        "n_excluded",
        "n_out_of_scale",
        "reported_multiplier",
    ),
    *("judge_config_hash", "judge_prompt_hash", "pipeline_hash"),
)
_STATE = ("benchmark", "status", "error_class")
_FAILED = ("error", "skipped")
_COLUMNS = {
    ANSWERS.name: (*_STATE, "question_id", "answer_hash"),
    CONSENSUS.name: (*_STATE, "question_id", "strategy", "answer_hash"),
    JUDGEMENTS.name: (
        *(*_STATE, "question_id", "strategy", "answer_hash", "judge", "superseded"),
        *("judge_model", "judge_config_hash", "judge_prompt_hash", "created_at"),
        *("judge_prompt_tokens", "judge_completion_tokens"),
    ),
    PASS_OUTPUTS.name: (
        *(*_STATE, "pass", "pass_version", "pass_config", "pass_config_hash", "pass_prompt_hash"),
        *("pass_prompt_tokens", "pass_completion_tokens"),
    ),
    SCORES.name: ("benchmark", "pipeline", "pipeline_hash", "deltas"),
    METRICS.name: _METRICS,
    CALLS.name: (
        *("stage", "benchmark", "status", "created_at", "cost_usd", "price_source"),
        *("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"),
    ),
    QUESTIONS.name: ("benchmark", "source", "source_revision"),
}
"""All that a manifest is made of, beside the run's row: no text of a question, an answer, an output or a call."""
SUPERSEDED = pl.col("superseded").fill_null(value=False)
"""Condition for a judgement that a newer one has replaced."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """The rows that the lake has of a run, without texts and what else a manifest does not need, in any order.

    Attributes:
        run: Its row of `runs`.
        spec: Its settings, as of today's version.
        answers: Its rows of `answers`.
        consensus: Its rows of `consensus`.
        judgements: Those of its judgements that are in force.
        pass_outputs: Its rows of `pass_outputs`.
        scores: Its rows of `scores`.
        metrics: Its rows of `metrics`, in the order of the files.
        calls: Its rows of `calls`.
        questions: The questions of its sets.
    """

    run: Document
    spec: RunSpec
    answers: pl.DataFrame
    consensus: pl.DataFrame
    judgements: pl.DataFrame
    pass_outputs: pl.DataFrame
    scores: pl.DataFrame
    metrics: pl.DataFrame
    calls: pl.DataFrame
    questions: pl.DataFrame

    @property
    def is_imported(self) -> bool:
        """True if another system made it."""
        return self.spec.origin == "imported"

    @cached_property
    def artifacts(self) -> dict[str, str]:
        """By benchmark, the folder of its files beside the manifest.

        It is another where a question has several samples, answers are consensuses of samples, or both came from
        caches of the ensemble evaluation.
        """
        several = {name for name, settings in self.spec.benchmarks.items() if settings.samples > 1}
        several |= set(self.consensus["benchmark"])
        of_caches = self.spec.imported is not None and self.spec.imported.form == "caches"
        return {name: ENSEMBLE if of_caches or name in several else SHABERI for name in self.spec.benchmarks}

    @property
    def passes(self) -> list[PassSpec]:
        """The passes of all its pipelines."""
        return [planned for pipeline in self.spec.passes for planned in pipeline]

    def settings_of(self, judge: str) -> Document:
        """The settings of a judge as they were sent, as far as they are known; none of a rule alone."""
        if found := self.spec.judge(judge):
            own = _as_sent(found) if judge.startswith(RULE) else found
            sent = {name: getattr(own, name, None) for name in ("temperature", "max_tokens")}
            left_out = {f"judge_{name}{of}": name for name in sent for of in ("", f" of {found.name}")}
            dropped = [name for entry, name in left_out.items() if entry in (self.run["not_sent"] or ())]
            return found.model_dump(mode="json") | sent | dict.fromkeys(dropped) | {"not_sent": dropped}
        known = self.spec.imported.judges if self.spec.imported else ()
        return next((settings.model_dump() for settings in known if settings.judge == judge), {})


def stored_run(lake: Lake, run_id: str) -> Document:
    """Read the row of one run.

    Raises:
        ConfigurationError: There is no such run.
    """
    run = lake.read("runs", {"run_id": run_id})
    if run.is_empty():
        raise ConfigurationError(f'no run {run_id} in the lake: `shaberi sql "select run_id from runs"` lists them')
    return run.row(0, named=True)


def read_records(lake: Lake, run_id: str) -> Records:
    """Read one run.

    Args:
        lake: What to read.
        run_id: The run.

    Raises:
        ConfigurationError: There is no such run.
    """
    keys = {"run_id": run_id}
    run = stored_run(lake, run_id)
    spec = RunSpec.read(run["spec"])
    rows_of = dict.fromkeys(_COLUMNS, keys) | {QUESTIONS.name: question_sets(spec)}
    scans = {table: lake.scan(table, which, _COLUMNS[table]) for table, which in rows_of.items()}
    scans[JUDGEMENTS.name] = scans[JUDGEMENTS.name].filter(~SUPERSEDED)
    scans[METRICS.name] = scans[METRICS.name].sort(_METRIC_ORDER)
    # All at once, in half the time.
    frames = dict(zip(scans, pl.collect_all(scans.values()), strict=True))
    return Records(run=run, spec=spec, **frames)


def question_sets(spec: RunSpec) -> Keys:
    """Return the keys of the questions of a run in the lake."""
    return {"question_set_sha256": [settings.question_set_sha256 for settings in spec.benchmarks.values()]}


def manifest_of(records: Records, environment: Mapping[str, str]) -> Document:
    """The content of `manifest.json`.

    Args:
        records: The run.
        environment: Where the API key is read from, for its fingerprint.
    """
    run, spec, imported = records.run, records.spec, records.spec.imported
    tokens, cost = _usage(records)
    settings = {name: _sent_settings(records, name) for name in spec.benchmarks}
    python, _, platform = (run["platform"] or "").partition(" on ")
    return {
        "format": FORMAT,
        "run_id": run["run_id"],
        "model": _model(records, settings, environment),
        "run_tag": run["run_tag"],
        "base_tag": run["base_tag"],
        "run_number": run["run_number"],
        "is_imported": records.is_imported,
        "not_recorded": imported.not_recorded if imported else None,
        "status": run["status"],
        "benchmarks": _benchmarks(records),
        "generation": {
            "limit": spec.limit,
            "by_benchmark": {
                name: sent | {"prompt_hash": spec.benchmarks[name].prompt_hash} for name, sent in settings.items()
            },
        },
        "not_sent": run["not_sent"],
        "reused_replies": orjson.loads(run["reused_replies"] or "{}"),
        "judges": _judges(records),
        "passes": _passes(records),
        "question_sets": {name: _question_set(records, name) for name in spec.benchmarks},
        "tokens": tokens,
        "cost": {"currency": "USD"} | cost,
        "summary": summary_of(records),
        "metrics": metric_rows(records.metrics.filter(null_policy="legacy")),
        "artifacts": max(records.artifacts.values()),
        "git_commit": run["git_commit"],
        "git_dirty": run["git_dirty"],
        "package_version": run["package_version"],
        "python": python.removeprefix("Python ") or None,
        "platform": platform or None,
        "created_at": run["created_at"],
        "created_by": run["created_by"],
        "updated_at": run["updated_at"],
        "finished_at": run["finished_at"],
    }


def metric_rows(metrics: pl.DataFrame) -> list[Document]:
    """Rows of `metrics` without what the whole file is about."""
    return metrics.select(_METRICS).to_dicts()


def _as_sent(judge: JudgeSpec) -> Sampling | None:
    """Return how a model that decides for a rule is asked; None where its endpoint is a plugin's that is gone."""
    try:
        return rule_sampling(judge.endpoint)
    except ConfigurationError:
        return None


def _sent_settings(records: Records, benchmark: str) -> Document:
    """Return the settings of the calls for answers; null is one that calls left out, or that is not known."""
    asked, not_sent = records.spec.benchmarks[benchmark], records.run["not_sent"] or ()
    return {name: None if name in not_sent else getattr(asked, name) for name in _SETTINGS}


def _model(records: Records, settings: Mapping[str, Document], environment: Mapping[str, str]) -> Document:
    endpoint, imported = records.spec.endpoint, records.spec.imported
    variable, base_url = (endpoint.api_key_variable or "", endpoint.base_url) if endpoint else ("", "")
    # A spec that somebody made up must not have any variable hashed.
    key = environment.get(variable, "").strip()
    key = key if key and may_be_sent(variable, base_url, environment) else ""
    values = {name: {sent[name] for sent in settings.values()} for name in _SETTINGS}
    return {
        "name": records.run["model"],
        "display_name": imported.display_name if imported else None,
        # Null where benchmarks differ as well: then `generation` tells.
        "parameters": {name: next(iter(sent)) if len(sent) == 1 else None for name, sent in values.items()},
        "base_url": endpoint.base_url if endpoint else None,
        "api_key_sha256": hashlib.sha256(key.encode()).hexdigest()[:_KEY_DIGITS] if key else None,
    }


_Tally = Counter[tuple[str, str | None]]
"""Number of rows by status and class of failure."""


def _tallies(rows: pl.DataFrame, *by: str) -> defaultdict[tuple[str, ...], _Tally]:
    """The rows of each benchmark and `by`."""
    found = defaultdict[tuple[str, ...], _Tally](Counter)
    for *group, status, error_class, n in rows.group_by("benchmark", *by, "status", "error_class").len().iter_rows():
        found[tuple(group)][status, error_class] += n
    return found


def _of_benchmark(rows: pl.DataFrame, value: pl.Expr) -> Counter[str]:
    """A count by benchmark."""
    return Counter(dict(rows.group_by("benchmark").agg(value).iter_rows()))


def _benchmarks(records: Records) -> dict[str, Document]:
    """By benchmark, how far it is, and which parts of it are not complete."""
    states = orjson.loads(records.run["status_by_benchmark"] or "{}")
    answers, consensus = _tallies(records.answers), _tallies(records.consensus, "strategy")
    judgements, stale = _tallies(records.judgements, "judge"), _stale(records)
    asked = _of_benchmark(records.answers, pl.col("question_id").n_unique())
    passes, texts = _pass_tallies(records), Counter[str]()
    for rows in (records.answers, records.consensus):
        texts += _of_benchmark(rows, pl.col("answer_hash").count())
    found = {}
    for name, settings in records.spec.benchmarks.items():
        state, _, error = str(states.get(name, RUNNING)).partition(": ")
        planned = records.spec.n_planned(name)
        merged = {strategy: tally for (of, strategy), tally in sorted(consensus.items()) if of == name}
        # Where answers are merged, what is judged is the consensus.
        made = sum(n for tally in merged.values() for (status, _), n in tally.items() if status != "error")
        to_judge = made if merged else planned
        parts = {
            "answers": {"": _part(answers[name,], planned)},
            CONSENSUS.name: {strategy: _part(tally, asked[name]) for strategy, tally in merged.items()},
            "judgements": {
                judge: _part(judgements[name, judge], to_judge) | {"stale": stale[name, judge]}
                for judge in settings.all_judges
            },
            "passes": {label: _part(tallies[name,], texts[name]) for label, tallies in passes.items()},
        }
        found[name] = {
            "status": state,
            "artifacts": records.artifacts[name],
            "error": error or _failed_parts(parts) or None,
            "incomplete_parts": [
                f"{stage} {part}".rstrip()
                for stage, stage_parts in parts.items()
                for part, counts in stage_parts.items()
                if counts["status"] != "complete"
            ],
            **parts,
            "answers": parts["answers"][""],
        }
    return found


def _failed_parts(parts: Mapping[str, Mapping[str, Document]]) -> str:
    """Say which parts of a benchmark failed, and of what."""
    failed = {
        f"{stage} {part}".rstrip(): counts["failures"]
        for stage, stage_parts in parts.items()
        for part, counts in stage_parts.items()
        if counts["failures"]
    }
    return "; ".join(f"{part}: {failures_in_words(sum(n.values()), Counter(n))}" for part, n in failed.items())


def summary_of(records: Records, benchmarks: Collection[str] | None = None) -> Document:
    """Return overall scores, tokens by judge and by pass, and statistics of passes.

    An overall score is the mean of the scores of the benchmarks under the policy legacy. `total` are the scores that
    a pass looked at, `penalized` those that it lowered, and `avg_penalty` is the mean of what it took off these.

    Args:
        records: The run.
        benchmarks: Only these; None means all.
    """
    own = pl.lit(value=True) if benchmarks is None else pl.col("benchmark").is_in(list(benchmarks))
    by = ["judge", "strategy", "pipeline"]
    scored = records.metrics.filter(own, pl.col("score").is_not_null(), null_policy="legacy")
    overall = scored.group_by(by, maintain_order=True).agg(pl.col("score").mean(), n_benchmarks=pl.len())
    lowered = pl.col("delta") < 0
    passes = (
        records.scores.filter(own)
        .explode("deltas")
        .drop_nulls("deltas")
        .unnest("deltas")
        # A pass takes the same off in every pipeline that it is in: the shortest one has them once.
        .filter(
            pl.col("pipeline") == pl.col("pipeline").sort_by(pl.col("pipeline").str.len_chars()).first().over("pass")
        )
        .group_by("pass")
        .agg(total=pl.len(), penalized=lowered.sum(), avg_penalty=pl.col("delta").filter(lowered).mean())
        .sort("pass")
    )
    return {
        "overall": overall.to_dicts(),
        "tokens_by_judge": _tokens_by("judge", records.judgements.filter(own)),
        "tokens_by_pass": _tokens_by("pass", records.pass_outputs.filter(own)),
        "passes": {row.pop("pass"): row for row in passes.to_dicts()},
    }


def _tokens_by(column: str, rows: pl.DataFrame) -> dict[str, Document]:
    kinds = ("prompt_tokens", "completion_tokens")
    sums = rows.group_by(column).agg(pl.col(f"{column}_{kind}").sum().alias(kind) for kind in kinds).sort(column)
    return {row.pop(column): row | {"total_tokens": row[kinds[0]] + row[kinds[1]]} for row in sums.to_dicts()}


def _part(tally: _Tally, planned: int) -> Document:
    n_rows = tally.total()
    by_status = Counter[str]()
    failures = Counter[str]()
    for (status, error_class), n in sorted(tally.items(), key=lambda one: one[0][1] or ""):
        by_status[status] += n
        if status in _FAILED:
            failures[str(error_class)] += n
    complete = n_rows >= planned and not failures
    return {
        "status": "complete" if complete else "partial" if by_status["ok"] + by_status["excluded"] else "error",
        "planned": planned,
        "ok": by_status["ok"],
        "excluded": by_status["excluded"],
        "failed": failures.total(),
        "missing": max(planned - n_rows, 0),
        "failures": dict(failures),
    } | ({"status": "missing"} if planned and not n_rows else {})


def _stale(records: Records) -> Counter[tuple[str, str]]:
    """By benchmark and judge, judgements of another text than those that stand now."""
    key = ["benchmark", "question_id", "strategy", "answer_hash"]
    plain = records.answers.with_columns(strategy=pl.lit(None, dtype=pl.String))
    now = pl.concat([plain.select(key), records.consensus.select(key)])
    stale = records.judgements.join(now, on=key, how="anti", nulls_equal=True)
    return Counter(stale.select("benchmark", "judge").iter_rows())


def _judges(records: Records) -> list[Document]:
    """The settings of each judge, and by which of them its judgements were made."""
    hashes = [pl.col(name).drop_nulls().unique() for name in ("judge_config_hash", "judge_prompt_hash")]
    times = [pl.col("created_at").min().alias("first"), pl.col("created_at").max().alias("last")]
    judged = records.judgements.group_by("judge", "benchmark").agg(*hashes, *times)
    by_place = {(judge, name): values for judge, name, *values in judged.iter_rows()}
    names = dict.fromkeys(judge for settings in records.spec.benchmarks.values() for judge in settings.all_judges)
    return [_judge(records, judge, by_place) for judge in names]


def _judge(records: Records, judge: str, judged: Mapping[tuple[str, str], Sequence[Any]]) -> Document:
    settings, by_benchmark = records.settings_of(judge), {}
    for name, benchmark in records.spec.benchmarks.items():
        if judge in benchmark.all_judges:
            configs, prompts, first, last = judged.get((judge, name), ([], [], None, None))
            by_benchmark[name] = {
                # Several while a judge whose settings changed has not judged everything again.
                "config_hashes": sorted(configs),
                "prompt_hashes": sorted(prompts),
                "round": (settings.get("rounds") or {}).get(name, 0),
                "first_judged_at": first,
                "last_judged_at": last,
            }
    return {
        "name": judge,
        "model": settings.get("model"),
        "base_url": (settings.get("endpoint") or {}).get("base_url"),
        "temperature": settings.get("temperature"),
        "max_tokens": settings.get("max_tokens"),
        "not_sent": settings.get("not_sent"),
        "score_rounding": settings.get("score_rounding"),
        "prompt_version": settings.get("prompt_version") or settings.get("prompt"),
        "by_benchmark": by_benchmark,
    }


def pipelines_of(records: Records) -> list[dict[str, str]]:
    """The pipelines that there are scores of, longest first: hashes of their passes' settings by name, in order.

    One is there once for each combination of versions that looked at an answer.
    """
    settings: dict[str, list[tuple[str, str]]] = {}
    looked = records.pass_outputs.select("pass", "pass_config_hash", "pass_version").unique().sort(pl.all())
    for name, config_hash, version in looked.iter_rows():
        settings.setdefault(name, []).append((config_hash, version))
    scored = records.scores.filter(pl.col("pipeline") != BASELINE).select("pipeline", "pipeline_hash").unique()
    found: list[dict[str, str]] = []
    for pipeline, sha256 in sorted(scored.iter_rows(), key=lambda row: (-row[0].count(","), row[0])):
        names = pipeline.split(",")
        # Only its hash tells which settings a pass has in a pipeline.
        combinations = product(*(settings.get(name, []) for name in names))
        found += [
            {name: config_hash for name, (config_hash, _) in zip(names, chosen, strict=True)}
            for chosen in combinations
            if pipeline_hash(chosen) == sha256
        ]
    return found


def _known_passes(records: Records) -> list[Document]:
    """Every pass with every settings: those that have looked at answers, and those that are planned to."""
    base_urls = {planned.name: planned.endpoint.base_url if planned.endpoint else None for planned in records.passes}
    columns = [f"pass{name}" for name in ("", "_version", "_config", "_config_hash", "_prompt_hash")]
    known = [
        {
            "name": name,
            "version": version,
            "config": orjson.loads(config),
            "config_hash": config_hash,
            "prompt_hash": prompt_hash,
            "base_url": base_urls.get(name),
        }
        for name, version, config, config_hash, prompt_hash in (
            records.pass_outputs.select(columns)
            .sort(columns)
            .unique(["pass_config_hash", "pass_version"], maintain_order=True)
            .sort(columns)
            .iter_rows()
        )
    ]
    unknown = dict.fromkeys(("version", "prompt_hash"))
    for planned in records.passes:
        if not _is_among(known, planned):
            own = {"name": planned.name, "config": planned.config, "config_hash": planned.config_hash}
            known.append(own | {"base_url": base_urls[planned.name]} | unknown)
    return known


def _is_among(known: list[Document], planned: PassSpec) -> bool:
    """Return whether a planned pass has looked at answers with its settings."""
    if planned.config_hash:
        return any(examined["config_hash"] == planned.config_hash for examined in known)
    return any((examined["name"], examined["config"]) == (planned.name, planned.config) for examined in known)


def _passes(records: Records) -> list[Document]:
    orders = [list(names) for names in pipelines_of(records)]
    orders += [[planned.name for planned in pipeline] for pipeline in records.spec.passes]
    places: dict[str, int] = {}
    for names in sorted(orders, key=len, reverse=True):
        for place, name in enumerate(names, start=1):
            places.setdefault(name, place)
    passes = [examined | {"order": places.get(examined["name"])} for examined in _known_passes(records)]
    return sorted(
        passes, key=lambda examined: (examined["order"] or 0, examined["name"], examined["config_hash"] or "")
    )


def _pass_tallies(records: Records) -> dict[str, defaultdict[tuple[str, ...], _Tally]]:
    """Count what each pass has seen, in all its versions; several settings are told apart by a part of the hash."""
    known = {(settings["name"], settings["config_hash"]): settings for settings in _known_passes(records)}
    often = Counter(name for name, _ in known)
    tallies = {}
    for (name, config_hash), settings in known.items():
        label = name if often[name] == 1 else f"{name} {(settings['config_hash'] or 'planned')[:_KEY_DIGITS]}"
        tallies[label] = _tallies(records.pass_outputs.filter(pl.col("pass_config_hash").eq_missing(config_hash)))
    return tallies


def _question_set(records: Records, benchmark: str) -> Document:
    settings = records.spec.benchmarks[benchmark]
    stored = records.questions.filter(benchmark=benchmark)
    source = settings.source or next(iter(stored["source"]), None)
    kind, _, dataset = (source or "").partition(":")
    return {
        "name": settings.question_set,
        "sha256": settings.question_set_sha256,
        "n_questions": settings.n_questions,
        "source": source,
        "dataset": dataset if kind == "hub" else None,
        "revision": settings.source_revision or next(iter(stored["source_revision"]), None),
    }


def _usage(records: Records) -> tuple[Document, Document]:
    """Tokens and cost of the run's calls in total, per stage, and per stage and benchmark."""
    calls = records.calls.with_columns(pl.col("stage").replace(STAGES))
    anywhere = pl.lit(None, dtype=pl.String)
    of_stages = calls.with_columns(benchmark=anywhere)
    levels = (calls, of_stages, of_stages.with_columns(stage=anywhere))
    rows = [row for level in levels for row in level.group_by("stage", "benchmark").agg(**_USED).to_dicts()]
    used = {(row["stage"], row["benchmark"]): row for row in rows}
    # An imported run can have calls of judges that were added to it.
    known = not records.is_imported or not calls.is_empty()
    stages = list(dict.fromkeys([*STAGES.values(), *sorted(stage for stage, _ in used if stage)]))

    def by_stage(count: Callable[[Document, bool], Document]) -> Document:
        def at(stage: str | None, benchmark: str | None) -> Document:
            return count(used.get((stage, benchmark), _UNUSED), known)

        return {
            "total": at(None, None),
            "by_stage": {
                stage: {
                    "total": at(stage, None),
                    "by_benchmark": {name: at(stage, name) for name in records.spec.benchmarks},
                }
                for stage in stages
            },
        }

    return by_stage(_tokens), by_stage(_cost)


_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")
_answered = pl.col("status") == "ok"
_USED = {
    "calls": pl.len(),
    "answered": _answered.sum(),
    **{name: pl.col(name).filter(_answered).sum() for name in _TOKENS},
    **{f"{name}_said": pl.col(name).filter(_answered).count() for name in _TOKENS},
    "cost_usd": pl.col("cost_usd").filter(_answered).sum(),
    "priced": pl.col("cost_usd").filter(_answered).count(),
    "first_day": pl.col("created_at").filter(_answered).min().dt.date(),
    "last_day": pl.col("created_at").filter(_answered).max().dt.date(),
    "price_sources": pl.col("price_source").filter(_answered).drop_nulls().unique(),
}
"""Sums over calls; all but their number over those that were answered."""
_UNUSED: Document = dict.fromkeys(_USED, 0) | {"first_day": None, "last_day": None, "price_sources": []}


def _tokens(used: Document, known: bool) -> Document:
    said = {name: used[name] if used[f"{name}_said"] else None for name in _TOKENS}
    if known and not used["answered"]:
        said |= {"prompt_tokens": 0, "completion_tokens": 0}
    prompt, completion = said["prompt_tokens"], said["completion_tokens"]
    return {
        "calls": used["calls"] if known else None,
        "failed_calls": used["calls"] - used["answered"] if known else None,
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": None if prompt is None or completion is None else prompt + completion,
        "cached_tokens": said["cached_tokens"],
        "reasoning_tokens": said["reasoning_tokens"],
        "calls_without_usage": used["answered"] - used["prompt_tokens_said"] if known else None,
    }


def _cost(used: Document, known: bool) -> Document:
    unpriced = used["answered"] - used["priced"]
    return {
        # Half a sum would look like a price.
        "cost_usd": float(used["cost_usd"]) if known and not unpriced else None,
        "calls_without_price": unpriced if known else None,
        "first_price_date": used["first_day"],
        "last_price_date": used["last_day"],
        "price_sources": sorted(used["price_sources"]),
    }
