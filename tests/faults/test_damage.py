"""Damaged files of a lake: the line that names them, what goes on, the repair, and that nothing is paid for twice."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path

import polars as pl
import pytest

from perf.same_tables import differences, tables_of
from shaberi_dagster.lake.repair import ASIDE
from shaberi_dagster.lake.store import Lake
from tests.commands import Finished, lake_of, run, run_without_dagster
from tests.exchange.trees.trees import LegacyTree, rows_of
from tests.mock_endpoint import MockEndpoint, running_mock
from tests.object_storage import running_store
from tests.sizes import FULL, some

pytestmark = [pytest.mark.e2e, pytest.mark.long]


def _half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flipped(first: int, count: int = 8) -> Callable[[Path], None]:
    def flip(file: Path) -> None:
        content = bytearray(file.read_bytes())
        place = slice(first, first + count or None)
        content[place] = bytes(~byte & 0xFF for byte in content[place])
        file.write_bytes(content)

    return flip


def _flipped_footer(file: Path) -> None:
    """Flip where the footer begins; at its end there is text that says nothing of the rows."""
    size = file.stat().st_size
    length = int.from_bytes(file.read_bytes()[-8:-4], "little")
    _flipped(size - 8 - length, 64)(file)


KINDS: dict[str, Callable[[Path], object]] = {
    "cut in half": _half,
    "all zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "empty": lambda file: file.write_bytes(b""),
    "missing": Path.unlink,
    "flipped magic": _flipped(0, 4),
    "flipped first page": _flipped(4),
    "flipped footer": _flipped_footer,
    "flipped length of the footer": _flipped(-8, 4),
}
TABLES = (
    *("answers", "judgements", "pass_outputs", "scores", "metrics"),
    *("runs", "calls", "questions", "prompts", "limit_changes"),
)
_PAIRS = list(product(KINDS, TABLES) if FULL else zip(cycle(KINDS), TABLES, strict=False))


@dataclass(frozen=True)
class Home:
    """A lake with its Dagster home, and the endpoint that its runs were made with."""

    folder: Path
    mock: MockEndpoint

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def command(self, name: str, *arguments: str) -> Finished:
        environment = lake_of(self.folder) | {"SHABERI_RESULTS": str(self.folder / "results")}
        return (run if name == "shaberi" else run_without_dagster)(name, *arguments, environment=environment)

    def evaluate(self, model: str, *more: str) -> Finished:
        url = self.mock.base_url
        asked = ["--model", model, "--base-url", url, "--judge-model", "j", "--judge-base-url", url]
        return self.command("run-evals", *asked, "--benchmark", "elyza,tengu", "--passes", "repetition", *more)

    def paid(self) -> int:
        return int(self.mock.stats()["answered"])

    def file_of(self, table: str, run_id: str) -> tuple[Path, int]:
        """A file with rows of a run, or any file of a table that no run is in; and the number of its rows."""
        lake = Lake(self.warehouse)
        files = pl.DataFrame(lake.delta(table).get_add_actions())
        if "run_id" in lake.read(table).columns:
            files = files.filter(pl.col("min").struct.field("run_id") == run_id)
        path, count = files.select("path", "num_records").row(0)
        return lake.path(table) / path, count

    def copy(self, folder: Path) -> "Home":
        shutil.copytree(self.folder, folder)
        return Home(folder, self.mock)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """Two runs that nothing has disturbed."""
    with running_mock() as mock:
        home = Home(tmp_path_factory.mktemp("whole") / "home", mock)
        for model in ("m", "n"):
            home.evaluate(model).succeeded()
        yield home


@pytest.fixture
def home(whole: Home, tmp_path: Path) -> Home:
    """A copy of it."""
    return whole.copy(tmp_path / "home")


@pytest.mark.acceptance
@pytest.mark.parametrize(("kind", "table"), _PAIRS)
def test_a_damaged_file_is_named_put_aside_and_its_rows_are_made_again_unpaid(
    kind: str, table: str, whole: Home, home: Home
) -> None:
    file, count = home.file_of(table, "m@@default")
    KINDS[kind](file)
    before = home.paid()

    told = home.command("shaberi", "doctor")
    assert told.code == 3, told.out
    assert f"{file.name} of table {table} is damaged" in told.out
    assert "shaberi doctor --repair" in told.out
    repaired = home.command("shaberi", "doctor", "--repair")
    assert "ok    repair: " in repaired.out, repaired.out
    assert "FAIL  table" not in repaired.out
    assert (home.warehouse / ASIDE / f"{file.relative_to(home.warehouse)}.json").is_file()
    home.evaluate("m").succeeded()

    assert home.paid() == before
    lost = count if table == "calls" else 0
    assert Lake(home.warehouse).read("calls").height == Lake(whole.warehouse).read("calls").height - lost
    found, expected = tables_of(Lake(home.warehouse)), tables_of(Lake(whole.warehouse))
    if table == "calls":
        found.pop(table), expected.pop(table)
    assert list(differences(found, expected)) == []


def test_what_does_not_need_the_damaged_file_goes_on_and_the_rest_is_one_line(home: Home) -> None:
    file, _ = home.file_of("judgements", "m@@default")
    leaderboard = home.command("shaberi", "sql", "from leaderboard").succeeded().out
    _half(file)
    (home.warehouse / "catalog.duckdb").unlink()  # so that its views must be made with the file as it is

    assert home.command("shaberi", "sql", "from leaderboard").succeeded().out == leaderboard
    for query in ("select count(*) from judgements", "select max(length(judge_output)) from judgements"):
        line = home.command("shaberi", "sql", query).complaint
        assert f"{file.name} of table judgements is damaged: it has " in line
        assert "it held 5 rows of run m@@default (benchmark " in line
        assert "`shaberi doctor --repair`" in line
    assert file.name in home.evaluate("m").err.splitlines()[-1]


_ENTRIES: dict[str, tuple[int, Callable[[Path], object]]] = {
    "a hole": (2, Path.unlink),
    "no beginning": (0, Path.unlink),
    "no end": (4, Path.unlink),
    "an empty entry": (2, lambda entry: entry.write_bytes(b"")),
    "an empty last entry": (4, lambda entry: entry.write_bytes(b"")),
    "half an entry": (4, _half),
    "zeros": (3, lambda entry: entry.write_bytes(bytes(100))),
    "nothing at all": (0, lambda entry: shutil.rmtree(entry.parent)),
}


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", some(_ENTRIES, 4))
def test_a_damaged_log_is_one_line_and_is_written_anew_without_losing_a_row(kind: str, whole: Home, home: Home) -> None:
    version, damage = _ENTRIES[kind]
    damage(home.warehouse / f"calls/_delta_log/{version:020}.json")
    before = home.paid()

    told = home.command("shaberi", "doctor")
    assert told.code == 3
    assert "of table calls is damaged" in told.out
    home.command("shaberi", "sql", "from leaderboard").succeeded()
    if kind != "no end":  # which only the catalog can tell of
        assert "of table calls is damaged" in home.evaluate("m", "--rejudge").complaint

    assert "the log was rewritten" in home.command("shaberi", "doctor", "--repair").succeeded().out
    assert list(differences(tables_of(Lake(home.warehouse)), tables_of(Lake(whole.warehouse)))) == []
    home.command("shaberi", "compact").succeeded()
    home.evaluate("m").succeeded()
    assert home.paid() == before
    assert list(differences(tables_of(Lake(home.warehouse)), tables_of(Lake(whole.warehouse)))) == []


def test_a_log_that_nothing_tells_of_is_left_as_it_is(home: Home) -> None:
    log = home.warehouse / "calls" / "_delta_log"
    (log / f"{2:020}.json").unlink()
    (home.warehouse / "catalog.duckdb").unlink()
    before = {path.name: path.read_bytes() for path in log.iterdir()}

    told = home.command("shaberi", "doctor", "--repair")

    assert told.code == 3
    assert "put it back from a backup; nothing was changed" in told.out
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


@pytest.mark.acceptance
@pytest.mark.parametrize("table", some(["answers", "judgements", "calls", "runs", "scores"], 3))
def test_a_damaged_file_that_compaction_made_comes_back_from_the_files_before_it(
    table: str, whole: Home, home: Home
) -> None:
    home.command("shaberi", "compact").succeeded()
    lake = Lake(home.warehouse)
    file = home.warehouse / max(lake.files(table), key=lambda name: (home.warehouse / name).stat().st_size)
    _half(file)

    told = home.command("shaberi", "doctor", "--repair").succeeded().out

    assert "rows came back from an earlier version" in told
    assert list(differences(tables_of(Lake(home.warehouse)), tables_of(Lake(whole.warehouse)))) == []
    assert (home.warehouse / ASIDE / file.relative_to(home.warehouse)).is_file()


def test_a_garbled_catalog_is_made_anew(home: Home) -> None:
    scores = home.command("view-scores").succeeded().out
    (home.warehouse / "catalog.duckdb").write_bytes(b"garbage" * 10_000)
    assert home.command("view-scores").succeeded().out == scores


def test_a_damaged_file_of_a_mirror_is_fetched_again(whole: Home, tmp_path: Path) -> None:
    with running_store(tmp_path / "store") as store:
        place = store.environment | {
            "SHABERI_WAREHOUSE": store.uri,
            "SHABERI_MIRRORS": str(tmp_path / "mirrors"),
            "SHABERI_RESULTS": str(tmp_path / "results"),
        }
        run("shaberi", "copy-lake", whole.warehouse, store.uri, environment=place).succeeded()
        judgements = run("shaberi", "sql", "from judgements order by all", environment=place).succeeded().out
        (mirror,) = (log.parent for log in (tmp_path / "mirrors").rglob("judgements/_delta_log"))
        _half(next(mirror.rglob("part-*.parquet")))
        (mirror / "_delta_log" / f"{1:020}.json").write_bytes(b"")

        assert run("shaberi", "doctor", environment=place).code == 3
        told = run("shaberi", "doctor", "--repair", environment=place).succeeded().out
        assert told.count("fetched again from s3://") == 2
        assert run("shaberi", "sql", "from judgements order by all", environment=place).succeeded().out == judgements


@pytest.mark.acceptance
@pytest.mark.parametrize("table", some(["answers", "judgements", "runs", "scores", "metrics", "legacy_files"], 3))
def test_what_was_imported_and_lost_is_imported_again(table: str, tmp_path: Path) -> None:
    tree, place = LegacyTree(tmp_path / "shisa"), lake_of(tmp_path)
    for model in ("first", "second"):
        tree.answers("rakuda", rows_of("rakuda", ["一", "二", "三"]), model=model)
        tree.judgements("rakuda", rows_of("rakuda", ["一", "二", "三"], [7, 8, 9]), "a", model=model)
    run("shaberi", "import-legacy", tree.root, environment=place).succeeded()
    lake = Lake(tmp_path / "warehouse")
    before = tables_of(lake)
    _half(lake.folder / lake.files(table)[0])

    assert "ok    repair: " in run("shaberi", "doctor", "--repair", environment=place).out
    run("shaberi", "import-legacy", tree.root, environment=place).succeeded()

    found, expected = (
        {name: rows.drop("imported_at", strict=False) for name, rows in tables.items()}
        for tables in (tables_of(Lake(tmp_path / "warehouse")), before)
    )
    assert list(differences(found, expected)) == []
