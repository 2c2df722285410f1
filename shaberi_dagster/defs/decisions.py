"""Decisions between models, the calibration of judges' histories, links and audits: assets without partitions."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import polars as pl
from pydantic import Field

from shaberi_dagster.deciding.audit import prepare as prepare_audit
from shaberi_dagster.deciding.audit_request import AuditRequest
from shaberi_dagster.deciding.decision import Look, decide, prepare
from shaberi_dagster.deciding.history import calibrated, judged_pool, past_scores
from shaberi_dagster.deciding.link import measure, read_link
from shaberi_dagster.deciding.link import prepare as prepare_link
from shaberi_dagster.deciding.link_request import LinkRequest
from shaberi_dagster.deciding.request import DecisionRequest
from shaberi_dagster.defs.assets import operation
from shaberi_dagster.defs.imports import IMPORT
from shaberi_dagster.defs.metadata import markdown_table, rounded
from shaberi_dagster.defs.options import config_class, part_of
from shaberi_dagster.defs.resources import WorkspaceResource
from shaberi_dagster.lake.schemas import LINKS
from shaberi_dagster.runs.spec import CallOptions
from shaberi_dagster.statistics.calibration import FEWEST_MODELS, Calibration
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS

DECISION, CALIBRATION, LINK, AUDIT = "decisions", "decision_calibrations", "links", "audits"
_KEEPS = "keeps_its_promise"

DecisionConfig = config_class("DecisionConfig", "What to decide, and how to make calls.", DecisionRequest, CallOptions)


@operation(DECISION, table="decisions", deps=[CALIBRATION], group_name="decisions", kinds={"openai", "deltalake"})
def decisions(
    context: dg.AssetExecutionContext,
    workspace: WorkspaceResource,
    config: DecisionConfig,  # type: ignore[valid-type]
) -> dg.MaterializeResult[None]:
    """Decision about the better of some models, with as few questions as it takes; each materialization is one."""
    place = workspace.workspace(context.log, part_of(config, CallOptions))
    curve: list[dict[str, Any]] = []
    decision = prepare(part_of(config, DecisionRequest), place)
    names = [candidate.name for candidate in decision.candidates]

    def after_round(looks: Sequence[Look]) -> None:
        for look in looks:
            row: dict[str, Any] = {
                "questions asked": look.n_asked,
                "A": names[look.a],
                "B": names[look.b],
                "A - B": look.estimate,
                "lower": look.lower,
                "upper": look.upper,
                "decided": look.verdict,
            }
            curve.append(row)
            # Dagster takes no number that is NaN.
            numbers = {name: rounded(value) for name, value in row.items() if value == value}  # noqa: PLR0124
            context.log_event(dg.AssetObservation(DECISION, metadata=numbers))

    decide(decision, place, after_round)
    (row,) = place.lake.read("decisions", {"decision_id": decision.decision_id}).rows(named=True)
    metadata = {
        "decision_id": decision.decision_id,
        "state": row["state"],
        "best": ", ".join(row["best"] or []),
        "questions asked": row["n_asked"],
        "questions": row["n_questions"],
        "calls": row["calls"],
        "boundary": row["boundary"],
        "curve": dg.MetadataValue.md(markdown_table(pl.DataFrame(curve))),
    }
    return dg.MaterializeResult(metadata=metadata)


LinkConfig = config_class("LinkConfig", "What to link, and how to make calls.", LinkRequest, CallOptions)


@operation(LINK, table=LINK, deps=[IMPORT], group_name="decisions", kinds={"openai", "deltalake"})
def links(
    context: dg.AssetExecutionContext,
    workspace: WorkspaceResource,
    config: LinkConfig,  # type: ignore[valid-type]
) -> dg.MaterializeResult[None]:
    """Measured link between imported and new scores of a judge; each materialization is one."""
    place = workspace.workspace(context.log, part_of(config, CallOptions))
    link = prepare_link(part_of(config, LinkRequest), place)
    measure(link, place)
    rows = pl.DataFrame(read_link(link.link_id, place.lake), schema=LINKS.schema)
    offsets = rows.select("benchmark", "n_scored", "score_offset", "lower", "upper", "spread", "granted")
    overall = rows.row(-1, named=True)
    return dg.MaterializeResult(
        metadata={
            "link_id": link.link_id,
            "judges": f"{overall['judge']}, {overall['linked_judge']}",
            "granted": overall["granted"],
            "reason": overall["reason"] or "",
            "offsets": dg.MetadataValue.md(markdown_table(offsets)),
        }
    )


AuditConfig = config_class("AuditConfig", "What to audit, and how to make calls.", AuditRequest, CallOptions)


@operation(AUDIT, table=AUDIT, deps=["judgements"], group_name="decisions", kinds={"openai", "deltalake"})
def audits(
    context: dg.AssetExecutionContext,
    workspace: WorkspaceResource,
    config: AuditConfig,  # type: ignore[valid-type]
) -> dg.MaterializeResult[None]:
    """Audit of rule verdicts that were drawn at random: a model grades the same answers."""
    place = workspace.workspace(context.log, part_of(config, CallOptions))
    audit = prepare_audit(part_of(config, AuditRequest), place)
    audit.materialize()
    counts = audit.stored().group_by("benchmark", "rule_verdict", "verdict", "status").len().sort("benchmark")
    return dg.MaterializeResult(metadata={"verdicts": dg.MetadataValue.md(markdown_table(counts))})


class CalibrationConfig(dg.Config):
    """Whose history to replay."""

    judges: list[str] = Field(default=[], description="Judges; none: all that judged enough models.")
    error: float = Field(default=0.01, description="Wrong decisions that are allowed, as a share.")


@operation(
    CALIBRATION,
    table=CALIBRATION,
    checks={_KEEPS: "Wrong decisions of the replay stay within what is promised."},
    deps=["scores"],
    group_name="decisions",
    kinds={"numpy", "deltalake"},
)
def decision_calibrations(
    context: dg.AssetExecutionContext, workspace: WorkspaceResource, config: CalibrationConfig
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks, Dagster wants the bare class
    """Calibrate, by replays with families held out, how sure a judge's history has to be before a decision stops."""
    place = workspace.workspace(context.log)
    rows = place.lake.read("metrics", {"benchmark": list(BENCHMARKS)}, ["judge", "model"])
    counts = rows.group_by("judge").agg(n=pl.col("model").n_unique())
    judges = config.judges or counts.filter(pl.col("n") >= FEWEST_MODELS)["judge"].sort().to_list()
    found: dict[str, Calibration | None] = {}
    for judge in judges:
        pool = judged_pool(judge, list(BENCHMARKS), place.lake)
        found[judge] = calibrated(pool, past_scores(pool, place.lake), pool.margin, config.error, place)
    broken = [judge for judge, calibration in found.items() if calibration and not calibration.holds]
    small = [judge for judge, calibration in found.items() if calibration is None]
    said = [
        *(f"{judge} cannot be calibrated: its decisions use the anytime-valid boundary" for judge in broken),
        *(f"{judge} has too little history" for judge in small),
    ]
    replays = [
        {
            "judge": judge,
            "models": calibration.n_models,
            "constant": calibration.constant,
            "pairs of class": row.name,
            "n": row.n_pairs,
            "mean questions": row.mean_questions,
            "share wrong": row.share_wrong,
            "share equal": row.share_equal,
        }
        for judge, calibration in found.items()
        if calibration
        for row in calibration.classes
    ]
    table = markdown_table(pl.DataFrame(replays, infer_schema_length=None))
    return dg.MaterializeResult(
        metadata={"judges": len(judges), "replays": dg.MetadataValue.md(table)},
        check_results=[
            dg.AssetCheckResult(
                check_name=_KEEPS,
                passed=not broken,
                severity=dg.AssetCheckSeverity.WARN,
                description="; ".join(said) or "all judges keep what is promised",
            )
        ],
    )
