"""An LLM evaluation lakehouse: evaluations as Dagster assets, Delta tables and SQL.

`open_lake` and `evaluate` are the library; the classes are what plugins are made of. All are loaded when they are used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shaberi_dagster.api import evaluate as evaluate
    from shaberi_dagster.api import open_lake as open_lake
    from shaberi_dagster.benchmarks.registry import Benchmark as Benchmark
    from shaberi_dagster.benchmarks.upstream import Asked as Asked
    from shaberi_dagster.consensus.base import Ask as Ask
    from shaberi_dagster.consensus.base import Candidate as Candidate
    from shaberi_dagster.consensus.base import Consensus as Consensus
    from shaberi_dagster.consensus.base import Strategy as Strategy
    from shaberi_dagster.consensus.base import anonymous_names as anonymous_names
    from shaberi_dagster.consensus.prompts import Response as Response
    from shaberi_dagster.exchange.importer import Entry as Entry
    from shaberi_dagster.exchange.importer import ImportedSample as ImportedSample
    from shaberi_dagster.exchange.importer import ImportedVerdict as ImportedVerdict
    from shaberi_dagster.exchange.importer import Importer as Importer
    from shaberi_dagster.exchange.importer import RunPart as RunPart
    from shaberi_dagster.exchange.logs import import_logs as import_logs
    from shaberi_dagster.exchange.rejected import Rejected as Rejected
    from shaberi_dagster.judges.base import Judge as Judge
    from shaberi_dagster.judges.own import ModelJudge as ModelJudge
    from shaberi_dagster.judges.rules.base import GradedQuestion as GradedQuestion
    from shaberi_dagster.judges.rules.base import Grader as Grader
    from shaberi_dagster.llm.providers.base import Provider as Provider
    from shaberi_dagster.llm.reply import MalformedReplyError as MalformedReplyError
    from shaberi_dagster.llm.reply import ReceivedReply as ReceivedReply
    from shaberi_dagster.llm.types import CallRange as CallRange
    from shaberi_dagster.llm.types import Message as Message
    from shaberi_dagster.passes.base import Answer as Answer
    from shaberi_dagster.passes.base import Finding as Finding
    from shaberi_dagster.passes.base import Pass as Pass
    from shaberi_dagster.passes.base import PassConfig as PassConfig
    from shaberi_dagster.reports.report import Column as Column
    from shaberi_dagster.reports.report import Report as Report
    from shaberi_dagster.reports.report import Table as Table
    from shaberi_dagster.reports.report import When as When
    from shaberi_dagster.reports.requests import RunSelection as RunSelection
    from shaberi_dagster.settings import VERSION as __version__  # noqa: F401, N811
    from shaberi_dagster.stages.base import Stage as Stage

_PLACES = {
    "api": "evaluate open_lake",
    "benchmarks.registry": "Benchmark",
    "benchmarks.upstream": "Asked",
    "consensus.base": "Ask Candidate Consensus Strategy anonymous_names",
    "consensus.prompts": "Response",
    "exchange.importer": "Entry ImportedSample ImportedVerdict Importer RunPart",
    "exchange.logs": "import_logs",
    "exchange.rejected": "Rejected",
    "judges.base": "Judge",
    "judges.own": "ModelJudge",
    "judges.rules.base": "GradedQuestion Grader",
    "llm.providers.base": "Provider",
    "llm.reply": "MalformedReplyError ReceivedReply",
    "llm.types": "CallRange Message",
    "passes.base": "Answer Finding Pass PassConfig",
    "reports.report": "Column Report Table When",
    "reports.requests": "RunSelection",
    "stages.base": "Stage",
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
