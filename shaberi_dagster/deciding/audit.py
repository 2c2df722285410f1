"""An audit: verdicts of rules, drawn at random, are graded again by a model, to measure how often the rules err."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.deciding.link import shares
from shaberi_dagster.lake.catalog import connect
from shaberi_dagster.lake.schemas import AUDITS
from shaberi_dagster.lake.statements import fetch_frame
from shaberi_dagster.llm.endpoints import check_bound, resolve_endpoint
from shaberi_dagster.llm.request import CallMaker
from shaberi_dagster.llm.thinking import answer_of
from shaberi_dagster.reports.blocks import (
    UNKNOWN,
    Block,
    Column,
    Heading,
    Result,
    Sentences,
    Table,
    counted,
    number,
    text,
)
from shaberi_dagster.runs.forecast import sum_if_known
from shaberi_dagster.runs.questions import load_questions
from shaberi_dagster.runs.selection import chosen_runs
from shaberi_dagster.runs.stages import judged_texts
from shaberi_dagster.runs.stages.base import Caller, Item, RowStage, StageResult, Survey
from shaberi_dagster.runs.stages.forecast import rough_tokens
from shaberi_dagster.runs.stages.paid import Sharing
from shaberi_dagster.runs.stored import stored_spec
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.tasks.benchmarks.files import read_table
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import get_benchmark
from shaberi_dagster.tasks.judges.rule import RuleJudge, read_verdict
from shaberi_dagster.tasks.judges.spec import JudgeSpec, judge_defaults
from shaberi_dagster.tasks.prompts.library import PromptLibrary
from shaberi_dagster.util.errors import ConfigurationError

AUDIT = "audit"
"""The run that calls of audits are recorded under, and their purpose."""
_ALL = 1 << 40
_VERDICT = ("run_id", "benchmark", "question_id", "sample_index", "strategy", "answer_hash")
_WORDS = {"correct": "right", "incorrect": "wrong", "no_answer": "no_answer"}
_TEXTS = (*judged_texts.KEY, "run_id", "answer_hash", "answer")


class Audits(RowStage[Item]):
    """The verdicts of a sample, graded by a model; what was graded before is not asked again.

    A verdict that is drawn again with another probability is another row, made of the same call.

    Args:
        sample: The drawn verdicts, columns of the table `audits`.
        auditor: The model that grades.
        workspace: Where to read and write.
    """

    name = "audits"
    key = (*_VERDICT, "judge", "judge_config_hash", "inclusion_probability", "auditor", "audit_prompt_hash")
    identity = ()
    final_statuses = ("ok", "excluded")
    label = "auditor"
    result_columns: ClassVar[tuple[str, ...]] = ()

    def __init__(self, sample: pl.DataFrame, auditor: JudgeSpec, workspace: Workspace) -> None:
        self.workspace, self.rows, self.lines = workspace, workspace.lake, {}
        self.run_ids, self.benchmarks = [AUDIT], sample["benchmark"].unique(maintain_order=True).to_list()
        self.judges = {name: RuleJudge(get_benchmark(name), workspace.prompts, auditor) for name in self.benchmarks}
        self.auditor, self._sets = auditor, dict[str, Mapping[str, Question]]()
        hashes = {name: judge.prompt_hash for name, judge in self.judges.items()}
        prompt = pl.col("benchmark").replace_strict(hashes, return_dtype=pl.String())
        self.sample = sample.with_columns(auditor=pl.lit(auditor.name), audit_prompt_hash=prompt)

    @cached_property
    def sharing(self) -> Sharing:
        """Which calls of runs count for it."""
        return Sharing(None, AUDIT, {self.auditor.endpoint.base_url}, self.workspace, of_samples=False)

    @property
    def keys(self) -> Mapping[str, Sequence[str]]:
        """Keys of all its rows."""
        return {"benchmark": self.benchmarks, "auditor": [self.auditor.name]}

    def planned(self) -> pl.DataFrame:
        """Return the drawn verdicts."""
        return self.sample.select(self.key)

    def survey(self) -> Survey:
        """See what of the sample is there; rows of other samples stay."""
        found = super().survey()
        return replace(found, outdated=found.outdated.join(found.planned, on=self.key, how="semi", nulls_equal=True))

    def items(self, pending: pl.DataFrame) -> Iterator[Item]:
        """Yield the verdicts with the requests to the auditor."""
        drawn = self.sample.join(pending, on=self.key, how="semi", nulls_equal=True)
        keys = {name: drawn[name].unique().to_list() for name in ("run_id", "benchmark", "question_id")}
        questions = cache(self._questions)
        for block in judged_texts.blocks(self.rows, keys, _TEXTS):
            for row in drawn.join(block, on=_VERDICT, nulls_equal=True).iter_rows(named=True):
                asked = questions(row["run_id"], row["benchmark"])[row["question_id"]]
                judge, columns = self.judges[row["benchmark"]], {name: row[name] for name in self.sample.columns}
                request = judge.request_for(asked, row["answer"])
                yield Item(columns=columns, request=request, calls=judge.of_unmade)

    def _questions(self, run_id: str, benchmark: str) -> Mapping[str, Question]:
        spec = stored_spec(run_id, self.workspace)
        name = spec.benchmarks[benchmark].question_set_sha256
        if name not in self._sets:  # most runs were asked the same
            found = load_questions(spec, benchmark, self.workspace)
            self._sets[name] = {question.question_id: question for question in found.questions}
        return self._sets[name]

    async def make(self, item: Item, make_call: CallMaker) -> dict[str, Any]:
        """Make the row of a verdict: what the auditor says of the answer."""
        assert item.request is not None  # noqa: S101  (each has one)
        call, _ = await make_call(item.request, AUDIT)
        row = {**item.columns, "by_person": False, "request_hash": call.request_hash, "audit_output": call.content}
        row["created_at"] = datetime.now(UTC)
        if call.status == "error":
            return row | {"status": "error", "error_class": call.error_class, "error_message": call.error_message}
        reply = read_verdict(answer_of(call))
        if reply is None:
            return row | {"status": "excluded", "error_class": "no_verdict", "error_message": "it gave no one verdict"}
        return row | {"status": "ok", "verdict": _WORDS[reply.verdict]}

    def caller(self, columns: Mapping[str, Any]) -> Caller | None:
        """Return the auditor."""
        judge = self.judges[columns["benchmark"]]
        return Caller(self.auditor.name, self.auditor.model, self.auditor.endpoint, judge.max_tokens)

    def stored(self) -> pl.DataFrame:
        """Read its rows, whichever sample they are of."""
        return self.workspace.lake.read(self.name, self.keys)

    def results(self) -> list[StageResult]:
        """Return nothing: reports read the table."""
        return []

    def result(self, benchmark: str, rows: pl.DataFrame) -> StageResult:
        """Describe the rows of a benchmark by nothing but them."""
        return StageResult(run_id=AUDIT, stage=self.name, benchmark=benchmark, facts={}, preview=rows)


def prepare(request: AuditRequest, workspace: Workspace) -> Audits:
    """Draw the sample; nothing is written.

    Raises:
        ConfigurationError: No auditor is named, or no rule has given a verdict of which a number could be drawn.
    """
    if not request.judge_model or not (request.audit or request.share):
        raise ConfigurationError("an audit takes a number and a model: shaberi graders audit 200 --judge-model MODEL")
    for name in request.benchmarks or ():
        get_benchmark(name)
    endpoint = resolve_endpoint(request.judge_model, request.judge_base_url, request.judge_api_key_variable)
    check_bound(endpoint, workspace.environment)
    auditor = JudgeSpec(model=request.judge_model, endpoint=endpoint, **judge_defaults(endpoint))
    runs = chosen_runs(workspace.lake, request.models or (), request.tags or (), request.sources or ())
    sample = drawn(request, runs["run_id"].to_list(), workspace)
    if request.audit and sample.is_empty():
        raise ConfigurationError("no rule has given a verdict on these runs and benchmarks: there is nothing to audit")
    return Audits(sample, auditor, workspace)


def drawn(request: AuditRequest, run_ids: Sequence[str], workspace: Workspace) -> pl.DataFrame:
    """Draw verdicts of rules at random: the same share of each benchmark, or as many of each as possible.

    Args:
        request: How many, of which benchmarks.
        run_ids: Of these runs.
        workspace: Whose lake.

    Returns:
        Columns of the table `audits`; within a benchmark all have the same inclusion_probability.
    """
    values = {"run_ids": list(run_ids), "benchmarks": request.benchmarks, "most": request.audit or _ALL}
    with connect(workspace.lake, "judgements") as catalog:
        found = fetch_frame(catalog, "audit_sample", **values)
    pools = dict(found.select("benchmark", "pool").unique(maintain_order=True).iter_rows())
    of_share = {name: math.ceil((request.share or 0) * pool) for name, pool in pools.items()}
    sizes = shares(pools, request.audit) if request.audit else of_share
    parts = [
        part.head(sizes[name]).with_columns(inclusion_probability=sizes[name] / pl.col("pool"))
        for (name,), part in found.partition_by("benchmark", as_dict=True, maintain_order=True).items()
        if name in sizes
    ]
    sample = pl.concat([found.clear().with_columns(inclusion_probability=pl.lit(0.0)), *parts])
    versions = [_versions(name, workspace.prompts) for name in sample["benchmark"].unique()]
    numbers = {name: version for known in versions for name, version in known.items()}
    version = pl.col("judge_config_hash").replace_strict(numbers, default=None, return_dtype=pl.Int64)
    return sample.with_columns(rule_version=version).drop("place", "pool")


def _versions(benchmark: str, prompts: PromptLibrary) -> dict[str, int]:
    """Map the hashes of all versions of a benchmark's rule to their numbers."""
    judge = RuleJudge(get_benchmark(benchmark), prompts)
    hashes = [*judge.older_config_hashes, judge.config_hash]
    return {name: number for number, name in enumerate(hashes, start=1)}


def audit_plan(audits: Audits, now: datetime) -> Result:
    """Say what an audit draws and what it may cost; nothing is changed and no model is called.

    Args:
        audits: From `prepare`.
        now: The date of the prices.
    """
    survey, workspace = audits.survey(), audits.workspace
    items = list(audits.items(survey.pending))
    paid = audits.paid_calls(survey.stored)
    known = set(workspace.journals.finished_calls(AUDIT, audits.name))
    requests = {item.request.request_hash: item for item in items if item.request}
    known |= paid.find(list(requests)).keys()
    missing = [item for name, item in requests.items() if name not in known]
    rows = []
    for (name,), part in audits.sample.partition_by("benchmark", as_dict=True, maintain_order=True).items():
        asked = [item for item in missing if item.columns["benchmark"] == name]
        cost = sum_if_known(_most_cost(item, audits, now) for item in asked)
        row = {"benchmark": name, "verdicts": part.height, "share": part["inclusion_probability"][0]}
        rows.append(row | {"calls": len(asked), "cost_usd": cost})
    said: list[Block] = [
        Heading("plan; no call is made", audits.auditor.name),
        _PLAN.of(rows),
        Sentences(["The cost is the most there can be: each reply as long as its limit."], "note"),
    ]
    return Result(said, rows, {"auditor": audits.auditor.name, "expected": rows})


def _most_cost(item: Item, audits: Audits, now: datetime) -> float | None:
    request = item.request
    assert request is not None  # noqa: S101  (each has one)
    facts = {"model": request.model, "base_url": request.endpoint.base_url, "created_at": now, "cached_tokens": 0}
    tokens = {"prompt_tokens": round(rough_tokens(request.messages)), "completion_tokens": request.sampling.max_tokens}
    cost = audits.workspace.prices.cost(facts | tokens)
    return cost.usd if cost else None


_PLAN = Table(
    [
        text("benchmark"),
        Column("verdicts", total=True),
        number("share", form="{:.1%}"),
        number("calls", total=True),
        number("cost in USD at most", "cost_usd", form="{:,.4f}", null=UNKNOWN),
    ]
)


def settle(file: Path, workspace: Workspace) -> str:
    """Store what a person says of disagreements, from the filled-in CSV of `shaberi graders disagreements`.

    Args:
        file: Its column `person` has right, wrong or no_answer; lines without are left out.
        workspace: Where the verdicts are, and who says so.

    Returns:
        A sentence about what was settled.

    Raises:
        ConfigurationError: The file cannot be read, says something else, or names a verdict that was not audited.
    """
    try:
        given = read_table(file, file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from error
    columns = [*_VERDICT, "judge"]
    if lacking := [name for name in (*columns, "person") if name not in given.columns]:
        raise ConfigurationError(
            f"{file} has no column {lacking[0]}: fill in what `shaberi graders disagreements --format csv` wrote"
        )
    given = given.select(pl.col(*columns, "person").str.strip_chars().replace("", None)).drop_nulls("person")
    given = given.with_columns(pl.col("sample_index").cast(pl.Int64, strict=False))
    if unknown := sorted(set(given["person"]) - set(_WORDS.values())):
        raise ConfigurationError(f"{file}: the person says {unknown[0]!r}, which is not right, wrong or no_answer")
    stored = workspace.lake.read("audits").sort("created_at").unique(columns, keep="last")
    found = given.join(stored, on=columns, nulls_equal=True)
    if found.height < given.height:
        raise ConfigurationError(f"{file} names {given.height - found.height} verdicts that no audit has drawn")
    person = workspace.settings.user or "a person"
    own = {"auditor": person, "by_person": True, "status": "ok", "created_at": datetime.now(UTC)}
    nothing = ("audit_prompt_hash", "audit_output", "error_class", "error_message", "request_hash")
    rows = found.with_columns(verdict="person", **{name: pl.lit(value) for name, value in own.items()})
    rows = rows.with_columns(pl.lit(None, dtype=pl.String()).alias(name) for name in nothing)
    if rows.height:
        workspace.lake.append("audits", rows.select(AUDITS.names))
    return f"{counted(rows.height, 'verdict')} settled"
