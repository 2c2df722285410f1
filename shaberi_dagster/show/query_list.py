"""The views and named queries, as they are listed."""

from shaberi_dagster.lake.statements import describe_sql
from shaberi_dagster.lake.views import VIEWS, public_views
from shaberi_dagster.reports.named_queries import QUERIES
from shaberi_dagster.reports.report import Table, table_of, text


def query_table() -> Table:
    """The views and the named queries with their parameters and the first sentence of their descriptions."""
    added = (file.path for file in VIEWS.added if VIEWS.file(file.name) == file)
    descriptions = {view.name: view.description for view in public_views()}
    descriptions |= {path.stem: describe_sql(path) for path in added}
    views = [("view", (name,), description) for name, description in descriptions.items()]
    queries = [
        ("query", (query.name, *(f"  {name}" for name in query.signature.split(", ") if name)), query.description)
        for query in QUERIES.values()
    ]
    columns = [
        text("kind", lambda row: row[0]),
        text("name and parameters", lambda row: row[1]),
        text("what it tells", lambda row: _first_sentence(row[2]), folds=True),
    ]
    return table_of([*views, *queries], columns)


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].removesuffix(".") + "."
