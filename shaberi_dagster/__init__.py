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
    from shaberi_dagster.stages.base import Stage as Stage

    __version__: str

_PLACES = {
    "__version__": "shaberi_dagster.settings:VERSION",
    "open_lake": "shaberi_dagster.api:open_lake",
    "evaluate": "shaberi_dagster.api:evaluate",
    "Benchmark": "shaberi_dagster.benchmarks.registry:Benchmark",
    "Asked": "shaberi_dagster.benchmarks.upstream:Asked",
    "Pass": "shaberi_dagster.passes.base:Pass",
    "PassConfig": "shaberi_dagster.passes.base:PassConfig",
    "Answer": "shaberi_dagster.passes.base:Answer",
    "Finding": "shaberi_dagster.passes.base:Finding",
    "Judge": "shaberi_dagster.judges.base:Judge",
    "ModelJudge": "shaberi_dagster.judges.own:ModelJudge",
    "Grader": "shaberi_dagster.judges.rules.base:Grader",
    "GradedQuestion": "shaberi_dagster.judges.rules.base:GradedQuestion",
    "Strategy": "shaberi_dagster.consensus.base:Strategy",
    "Consensus": "shaberi_dagster.consensus.base:Consensus",
    "Candidate": "shaberi_dagster.consensus.base:Candidate",
    "Ask": "shaberi_dagster.consensus.base:Ask",
    "anonymous_names": "shaberi_dagster.consensus.base:anonymous_names",
    "Response": "shaberi_dagster.consensus.prompts:Response",
    "CallRange": "shaberi_dagster.llm.types:CallRange",
    "Message": "shaberi_dagster.llm.types:Message",
    "Provider": "shaberi_dagster.llm.providers.base:Provider",
    "ReceivedReply": "shaberi_dagster.llm.reply:ReceivedReply",
    "MalformedReplyError": "shaberi_dagster.llm.reply:MalformedReplyError",
    "Importer": "shaberi_dagster.exchange.importer:Importer",
    "Entry": "shaberi_dagster.exchange.importer:Entry",
    "RunPart": "shaberi_dagster.exchange.importer:RunPart",
    "ImportedSample": "shaberi_dagster.exchange.importer:ImportedSample",
    "ImportedVerdict": "shaberi_dagster.exchange.importer:ImportedVerdict",
    "Rejected": "shaberi_dagster.exchange.rejected:Rejected",
    "import_logs": "shaberi_dagster.exchange.logs:import_logs",
    "Stage": "shaberi_dagster.stages.base:Stage",
    "Report": "shaberi_dagster.reports.report:Report",
    "Column": "shaberi_dagster.reports.report:Column",
    "Table": "shaberi_dagster.reports.report:Table",
    "When": "shaberi_dagster.reports.report:When",
    "RunSelection": "shaberi_dagster.reports.requests:RunSelection",
}
"""The place of each name that users import from here."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)
