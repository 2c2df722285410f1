"""Results of work on a lake: plans, prices, endpoints, checks, samples, compaction and copies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from operator import itemgetter

from shaberi_dagster.lake.copying import Copied
from shaberi_dagster.lake.store import Lake
from shaberi_dagster.reports.blocks import (
    UNKNOWN,
    Block,
    Cell,
    Heading,
    Result,
    Row,
    Rows,
    Sentences,
    counted,
    grouped,
    megabytes,
    number,
    sum_of_known,
    table_of,
    text,
)
from shaberi_dagster.runs.forecast import NO_CALL, Forecast, sum_if_known
from shaberi_dagster.runs.spec import RunSpec

_NO_CALL_IS_MADE = "plan; no call is made"
_SUMMED = (
    *("rows_planned", "rows_there", "calls", "calls_most"),
    *("fallback_calls", "prompt_tokens", "completion_tokens", "cost_usd"),
)


def plan_result(estimates: Sequence[Forecast]) -> Result:
    """Say what a plan comes to: a row for each estimate and each total, None where a part is unknown."""
    rows, notes = [asdict(estimate) for estimate in estimates], _notes(estimates)
    by_stage = [*grouped(rows, itemgetter("stage")), ("all", rows)]
    totals = [
        {"stage": stage}
        | {name: sum_if_known(part[name] for part in parts) for name in _SUMMED}
        | {"upper_bound": any(part["upper_bound"] for part in parts)}
        for stage, parts in by_stage
    ]
    lines = [{**row, "parts": [row]} for row in rows]
    lines += [{**total, "parts": parts} for total, (_, parts) in zip(totals, by_stage, strict=True)]
    run_ids = {row["run_id"] for row in rows}
    names = {"run": "run_id"} if len(run_ids) > 1 else {}
    names |= {"question set": "question_set", "stage": "stage", "with": "model"}
    of_names = [text(title, partial(_name, name), cuts="middle", narrowest=10) for title, name in names.items()]
    said: list[Block] = [
        Heading(run_ids.pop(), _NO_CALL_IS_MADE) if len(run_ids) == 1 else Heading(_NO_CALL_IS_MADE),
        table_of(lines, [*of_names, *_PLAN], bold=range(len(rows), len(lines))),
        Sentences(notes, "note"),
    ]
    return Result(said, rows, {"rows": rows, "totals": totals, "notes": notes})


def _name(name: str, line: Row) -> str:
    return str(line.get(name, ""))


def _calls(line: Row) -> str:
    low, high = line["calls"], line["calls_most"]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _known(name: str, form: str, line: Row) -> Cell:
    """Sum what is known, and say whether something is not; nothing and something unknown is unknown."""
    values = [part[name] for part in line["parts"]]
    known = sum_of_known(values) or 0
    if None not in values:
        return f"{known:{form}}"
    return (f"{known:{form}} +", UNKNOWN) if known else UNKNOWN


def _basis(line: Row) -> str:
    """Say what a number is made of: measured averages, upper bounds, or both."""
    if "basis" in line:
        return str(line["basis"])
    kinds = dict.fromkeys(part["basis"].partition(":")[0] for part in line["parts"] if part["calls_most"])
    return " + ".join(kinds) or NO_CALL


_PLAN = (
    number(("rows", "there"), lambda line: f"{line['rows_there']:,}/{line['rows_planned']:,}"),
    number("calls", _calls),
    number(("prompt", "tokens"), "prompt_tokens"),
    number(("completion", "tokens"), "completion_tokens"),
    number(("cost", "in USD"), partial(_known, "cost_usd", ",.4f")),
    number(("fallback", "calls"), partial(_known, "fallback_calls", ",.0f"), spare=True),
    text("based on", _basis, folds=True, spare=True),
)
"""The columns of a plan below those of names."""


def _notes(estimates: Sequence[Forecast]) -> list[str]:
    asked = [estimate for estimate in estimates if estimate.calls_most]
    notes = ["What is paid for and retries are left out."]
    if any(estimate.calls < estimate.calls_most for estimate in asked):
        notes.append("a–b calls: the fewest and most. Tokens and cost: of the most, but the fewest fallbacks.")
    if any(estimate.upper_bound for estimate in asked):
        notes.append("Without history: replies count at the call's limit, prompts roughly.")
    if any(estimate.fallback_calls is None for estimate in asked):
        notes.append("Fallback calls (for judgements without a score) are not counted without history.")
    if any(estimate.cost_usd is None for estimate in asked):
        notes.append("Cost unknown: there is no list price for the model at its endpoint.")
    return notes


_DAY_SECONDS = 24 * 60 * 60


def price_result(known: Row) -> Result:
    """List prices and what has none, and say whether the table says the same."""
    columns = [
        text("model", folds=True),
        text("address", "base_url", folds=True),
        text("from", lambda price: _day(price["valid_from"])),
        text("until", lambda price: _day(price["valid_to"])),
        text("for", _condition, folds=True),
        number("input", "input_usd_per_million", form="{:g}"),
        number("cached", "cached_usd_per_million", form="{:g}"),
        number("output", "output_usd_per_million", form="{:g}"),
        text("source", folds=True),
    ]
    note = "US dollars for a million tokens; dates and hours are UTC."
    unknown = [{"model": model, "base_url": base_url} for model, base_url in known["unknown"]]
    lines = [f"unknown: {model} at {base_url}" for model, base_url in known["unknown"]]
    if not known["prices"] and not unknown:
        lines.append("The lake has no calls.")
    if not known["table_is_current"]:
        lines.append("The table prices says something else; `shaberi prices --refresh` writes these into it.")
    prices = [vars(price) for price in known["prices"]]
    table = [table_of(prices, columns, notes=[note])] if prices else []
    document = {"prices": prices, "unknown": unknown, "table_is_current": known["table_is_current"]}
    return Result([*table, Sentences(lines)], document=document)


def _day(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d}" if time else ""


def _condition(price: Row) -> str:
    """For which calls of those days the price is, where it is not for all; and what comes on top of it."""
    times = (price["day_seconds_from"], price["day_seconds_to"])
    parts = [] if times == (0, _DAY_SECONDS) else ["-".join(map(_clock, times))]
    if price["prompt_tokens_to"] is not None:
        parts.append(f"prompts below {price['prompt_tokens_to']:,} tokens")
    if price["prompt_tokens_from"]:
        parts.append(f"prompts from {price['prompt_tokens_from']:,} tokens")
    if price["usd_per_call"]:
        parts.append(f"+ {price['usd_per_call']:g} for each call")
    return ", ".join(parts)


def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}"


def check_result(checked: Row) -> Result:
    """Say how a check ended."""
    answered, usage, parameters = checked["status"] == "ok", checked["usage"], checked["parameters"]
    seconds, message = f"{checked['latency_seconds']:.2f} s", checked["error_message"]
    how = f"answered in {seconds}." if answered else f"did not answer: {message}"
    lines = [f"{checked['model']} at {checked['base_url']} {how}"]
    if answered:
        tokens = f"{usage['prompt_tokens']} prompt and {usage['completion_tokens']} completion tokens"
        cost = "unknown" if checked["cost_usd"] is None else f"{checked['cost_usd']:.6f} USD"
        lines.append(f"Cost: {cost} for {tokens}.")
    words = {"taken": "taken", "refused": "refused", "not_sent": "left out by its entry"}
    lines += [f"Parameters {words[state]}: {', '.join(names)}." for state, names in parameters.items() if names]
    if checked["loaded"] is not None:
        lines.append(f"In its memory: {', '.join(checked['loaded']) or 'no model'}.")
    return Result([Sentences(lines)], document=checked)


def endpoints_result(found: Sequence[Row]) -> Result:
    """List endpoints."""
    columns = [
        text("endpoint", "name"),
        text("form", folds=True, narrowest=9),
        text("address", "base_url", folds=True, narrowest=9),
        text("models", lambda row: " ".join(row["models"]) or f"{row['name']}:MODEL", folds=True, narrowest=9),
        text("key", folds=True, narrowest=9),
        text("tried"),
        text("parameters", lambda row: ", ".join(row["parameters"]), folds=True, narrowest=9),
    ]
    note = (
        "NAME:MODEL asks a model of an endpoint; a file endpoints/NAME.yaml in a plugin folder adds one "
        "(docs/extending.md). `shaberi endpoints check NAME:MODEL` tries one."
    )
    return Result([table_of(found, columns), Sentences([note])], document={"endpoints": found})


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        what: Its name.
        fine: Whether it is as it must be.
        detail: What was found.
    """

    what: str
    fine: bool
    detail: str


def findings_result(findings: Sequence[CheckResult]) -> Result:
    """Say whether all is fine and what is not, a line for each thing but for tables and for keys that are not set."""
    wrong = [f"FAIL  {found.what}: {found.detail}" for found in findings if not found.fine]
    fine, groups = [], dict[str, list[str]]()
    for found in filter(lambda one: one.fine, findings):
        if found.detail.startswith("not set"):
            groups.setdefault("keys that are not set", []).append(found.what)
        elif found.what.startswith("table "):
            groups.setdefault("tables", []).append(found.what.removeprefix("table "))
        else:
            fine.append(f"ok    {found.what}: {found.detail}")
    fine += [f"ok    {group}: {', '.join(names)}" for group, names in groups.items()]
    verdict = f"{counted(len(wrong), 'problem')}." if wrong else f"All is fine: {len(findings)} things looked at."
    return Result([Sentences([verdict], "verdict"), Sentences([*wrong, *fine])], [asdict(found) for found in findings])


def samples_of(spec: RunSpec, benchmarks: Sequence[str], lake: Lake) -> list[Row]:
    """Count the samples of some benchmarks of a run, in their order.

    Returns:
        Rows with the benchmark, its question set and number of questions, and samples `planned`, `made` and `failed`.
    """
    answers = lake.read("answers", {"run_id": spec.run_id, "benchmark": benchmarks}, ["benchmark", "status"])
    return [
        {
            "benchmark": name,
            "question_set": spec.benchmarks[name].question_set,
            "n_questions": spec.n_questions(name),
            "planned": spec.n_planned(name),
            "made": (made := answers.filter(benchmark=name, status="ok").height),
            "failed": spec.n_planned(name) - made,
        }
        for name in benchmarks
    ]


def samples_result(samples: Rows) -> Result:
    """Say how many samples there are, a line for each benchmark."""
    lines = [
        f"{row['benchmark']} ({row['question_set']}): {row['made']} of {row['planned']} samples of "
        f"{row['n_questions']} questions{', {failed} failed'.format(**row) if row['failed'] else ''}"
        for row in samples
    ]
    return Result([Sentences(lines)], samples)


def compaction_result(counts: Mapping[str, Mapping[str, int]]) -> Result:
    """Say how many files compaction has left, a line for each table.

    Args:
        counts: For each table, as `Lake.compact` counts them.
    """
    lines = [
        f"{table}: {files['files_before']} files -> {files['files_after']}, {files['files_deleted']} deleted"
        for table, files in counts.items()
    ]
    return Result([Sentences(lines)], document=counts)


def copy_result(copied: Copied, target: str) -> Result:
    """Say what a copy of a lake has, and where it is."""
    rows = f"{sum(copied.rows.values()):,} rows of {len(copied.rows)} tables"
    files = f"{copied.files:,} files ({megabytes(copied.size)})"
    line = f"{rows}, {files}, are the same in {target}"
    return Result([Sentences([line])], document=asdict(copied) | {"target": target})
