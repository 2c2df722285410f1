"""`shaberi compare`: two models or runs over the questions that both were asked, judge by judge."""

from typing import Annotated

from shaberi_dagster.cli.options import OutputFile, OutputFormat
from shaberi_dagster.reports.requests import ComparisonRequest
from shaberi_dagster.runs.option import option
from shaberi_dagster.settings import Settings

EPILOG = """Examples:
  shaberi compare my-model other-model
  shaberi compare my-model@@july my-model@@august            two runs of one model
  shaberi compare my-model other-model --html compared.html   with questions and answers, to send

Name TAG for the runs TAG-run1, TAG-run2, ...: a question's scores are averaged over them first. `no difference shown`
does not mean that the models are equal; `equal within` a margin does."""


def compare(
    request: ComparisonRequest,
    *,
    output_format: OutputFormat = "table",
    notes: Annotated[
        bool, option("how", "Each judge's benchmarks, which scores count, and how numbers are made")
    ] = False,
    html: Annotated[
        OutputFile, option("how", "Also write it as one HTML file, with the questions and answers that differ most")
    ] = None,
) -> None:
    """Compare two models or runs question by question."""
    from shaberi_dagster import api
    from shaberi_dagster.cli import output
    from shaberi_dagster.reports import comparison, write
    from shaberi_dagster.viewer import html as pages

    write.check_format(output_format)
    warehouse = Settings.from_environment().warehouse
    with output.waiting():
        report = api.LakeReader(warehouse).compare(**vars(request))
    output.show(comparison.comparison_result(report, brief=not notes), output_format)
    if html is not None:
        with output.waiting("reading questions and answers"):
            written = pages.write_file(html, warehouse, lambda source: pages.about_comparison(source, report))
        output.tell(written)
