"""An LLM evaluation lakehouse: evaluations as Dagster assets, Delta tables and SQL.

`open_lake` and `evaluate` are the library; the classes are what plugins are made of. All are loaded when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shaberi_dagster.api import evaluate as evaluate
    from shaberi_dagster.api import open_lake as open_lake
    from shaberi_dagster.exchange.importer import Entry as Entry
    from shaberi_dagster.exchange.importer import ImportedSample as ImportedSample
    from shaberi_dagster.exchange.importer import ImportedVerdict as ImportedVerdict
    from shaberi_dagster.exchange.importer import Importer as Importer
    from shaberi_dagster.exchange.importer import RunPart as RunPart
    from shaberi_dagster.exchange.logs import import_logs as import_logs
    from shaberi_dagster.exchange.rejected import Rejected as Rejected
    from shaberi_dagster.llm.providers.base import Provider as Provider
    from shaberi_dagster.llm.reply import MalformedReplyError as MalformedReplyError
    from shaberi_dagster.llm.reply import ReceivedReply as ReceivedReply
    from shaberi_dagster.llm.types import CallRange as CallRange
    from shaberi_dagster.llm.types import Message as Message
    from shaberi_dagster.reports.blocks import Column as Column
    from shaberi_dagster.reports.blocks import Report as Report
    from shaberi_dagster.reports.blocks import Table as Table
    from shaberi_dagster.reports.blocks import When as When
    from shaberi_dagster.reports.requests import RunSelection as RunSelection
    from shaberi_dagster.runs.stages.base import Stage as Stage
    from shaberi_dagster.settings import VERSION as __version__  # noqa: F401, N811
    from shaberi_dagster.tasks.benchmarks.registry import Benchmark as Benchmark
    from shaberi_dagster.tasks.benchmarks.upstream import Asked as Asked
    from shaberi_dagster.tasks.consensus.base import Ask as Ask
    from shaberi_dagster.tasks.consensus.base import Candidate as Candidate
    from shaberi_dagster.tasks.consensus.base import Consensus as Consensus
    from shaberi_dagster.tasks.consensus.base import Strategy as Strategy
    from shaberi_dagster.tasks.consensus.base import anonymous_names as anonymous_names
    from shaberi_dagster.tasks.consensus.prompts import Response as Response
    from shaberi_dagster.tasks.judges.base import Judge as Judge
    from shaberi_dagster.tasks.judges.own import ModelJudge as ModelJudge
    from shaberi_dagster.tasks.judges.rules.base import GradedQuestion as GradedQuestion
    from shaberi_dagster.tasks.judges.rules.base import Grader as Grader
    from shaberi_dagster.tasks.passes.base import Answer as Answer
    from shaberi_dagster.tasks.passes.base import Finding as Finding
    from shaberi_dagster.tasks.passes.base import Pass as Pass
    from shaberi_dagster.tasks.passes.base import PassConfig as PassConfig

_PLACES = {
    "api": "evaluate open_lake",
    "tasks.benchmarks.registry": "Benchmark",
    "tasks.benchmarks.upstream": "Asked",
    "tasks.consensus.base": "Ask Candidate Consensus Strategy anonymous_names",
    "tasks.consensus.prompts": "Response",
    "exchange.importer": "Entry ImportedSample ImportedVerdict Importer RunPart",
    "exchange.logs": "import_logs",
    "exchange.rejected": "Rejected",
    "tasks.judges.base": "Judge",
    "tasks.judges.own": "ModelJudge",
    "tasks.judges.rules.base": "GradedQuestion Grader",
    "llm.providers.base": "Provider",
    "llm.reply": "MalformedReplyError ReceivedReply",
    "llm.types": "CallRange Message",
    "tasks.passes.base": "Answer Finding Pass PassConfig",
    "reports.blocks": "Column Report Table When",
    "reports.requests": "RunSelection",
    "runs.stages.base": "Stage",
}


def __getattr__(name: str) -> Any:
    """Import a name of the package when it is first used (PEP 562)."""
    if name == "__version__":
        from shaberi_dagster.settings import VERSION

        return VERSION
    for module, names in _PLACES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
