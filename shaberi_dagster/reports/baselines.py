"""The baselines of a lake, as they are listed and as a promotion shows them."""

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import Column, Result, Row, Rows, Sentences, Table, counted, percent, text


def baselines(catalog: Catalog) -> Rows:
    """Read the baselines, oldest first: the rows of the view `baseline_list`."""
    return fetch(catalog, "baselines")


_LIST = Table(
    [
        Column("name"),
        Column("run", "run_id", folds=True),
        Column("datasets", folds=True),
        Column("questions", "n_questions"),
        text("right", lambda row: ", ".join(f"{name} {percent(share)}" for name, share in row["accuracy"].items())),
        Column("promoted", "promoted_at"),
        Column("note", null="", folds=True),
    ]
)


def list_result(baselines: Rows) -> Result:
    """List baselines, a line for each.

    Args:
        baselines: From `baselines`.
    """
    none = Sentences(["no baselines; `shaberi baseline promote NAME --model MODEL` makes one"])
    return Result([_LIST.of(baselines) if baselines else none], [_plain(row) for row in baselines])


def promotion_result(promoted: Rows) -> Result:
    """Say what new baselines have; the document of one stands alone."""
    documents = [*map(_plain, promoted)]
    return Result([Sentences([*map(_promoted, promoted)])], document=documents[0] if len(documents) == 1 else documents)


def _promoted(baseline: Row) -> str:
    covers = f"{counted(len(baseline['datasets']), 'dataset')}, {counted(baseline['n_questions'], 'question')}"
    strategies = f"{len(baseline['strategies'])} strategies with single"
    return f"baseline {baseline['name']}: {baseline['run_id']}, {covers}, {strategies}"


def _plain(baseline: Row) -> Row:
    return {**baseline, "promoted_at": str(baseline["promoted_at"])}
