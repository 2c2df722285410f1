import csv
import io
import json
import math
import re
from dataclasses import dataclass

import pytest
from rich.cells import cell_len
from rich.console import Console

from shaberi_dagster.reports.blocks import Document, Heading, Sentences, number, table_of, text
from shaberi_dagster.reports.terminal import draw
from shaberi_dagster.reports.write import FORMATS, write
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit

HOSTILE = "=cmd|'x'!A1[bold]\x1b[31m|<b>`\u202e"


@dataclass(frozen=True)
class Scores(Document):
    """A document with something of everything."""

    rows: tuple

    def blocks(self, width):
        yield Heading("scores", "of some models")
        columns = [
            text("model", lambda row: row[0], folds=True),
            number(("mean", "score"), lambda row: f"{row[1]:.2f}"),
            text("bar", lambda _: "#" * 30, optional=True),
        ]
        yield table_of(self.rows, columns, bold={0}, notes=["best first"])
        yield Sentences(["b was asked less"], "warning")
        yield Sentences([f"as wide as {width}"], "note")

    def records(self):
        return [{"model": model, "score": score} for model, score in self.rows]

    def data(self):
        return {"rows": self.records()}


def written(output_format, *rows, width=80):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    write(Scores(rows), output_format, console)
    return console.file.getvalue()


def test_a_table_on_a_terminal_has_its_numbers_aligned_and_its_notes_below():
    assert [line.rstrip() for line in written("table", ("a", 9.5), ("日本語", 10)).splitlines()] == [
        "scores  of some models",
        "         mean",
        "model   score  bar",
        "a        9.50  " + "#" * 30,
        "日本語  10.00  " + "#" * 30,
        "best first",
        "",
        "Warning: b was asked less",
        "",
        "as wide as 80",
    ]


def test_where_it_is_narrow_an_optional_column_goes_and_a_name_folds_but_no_number_is_cut():
    shown = written("table", ("x" * 40, 9.5), width=30)
    assert "#" not in shown
    assert "9.50" in shown
    assert "".join(re.findall("x+", shown)) == "x" * 40
    assert max(map(cell_len, shown.splitlines())) <= 30
    assert "9.50" in written("table", ("x" * 40, 9.5), width=5)


def test_where_it_is_narrow_titles_are_broken_then_spare_columns_go_the_last_first_and_are_named():
    def shown(width):
        columns = [
            text("model", lambda row: row),
            number("prompt tokens", lambda _: "1,234"),
            number(("adjusted for", "leniency"), lambda _: "5.00", spare=True),
            number("excluded", lambda _: "0", spare=True),
        ]
        console = Console(file=io.StringIO(), width=width, force_terminal=False)
        draw([table_of(["a-model"], columns)], console)
        return [line.rstrip() for line in console.file.getvalue().splitlines()]

    assert shown(46)[1:] == [
        "model    prompt tokens      leniency  excluded",
        "a-model          1,234          5.00         0",
    ]
    assert shown(40)[-2:] == ["model    tokens  leniency  excluded", "a-model   1,234      5.00         0"]
    assert shown(24)[3] == "a-model  1,234     5.00"
    assert " ".join(shown(24)[4:]) == "Not shown for want of room: excluded."
    assert " ".join(shown(15)[2:]) == "a-model   1,234 Not shown for want of room: adjusted for leniency, excluded."


def test_what_does_not_fit_a_page_of_text_is_cut_on_a_terminal_only():
    def shown(is_terminal):
        columns = [text("model", lambda row: row, cuts="middle", narrowest=8)]
        columns += [number(f"number {place}", lambda _: "1,234,567") for place in range(8)]
        console = Console(file=io.StringIO(), width=60, force_terminal=is_terminal, color_system=None)
        draw([table_of(["a-model-with-a-long-name"], columns)], console)
        return console.file.getvalue()

    assert "a-model-with-a-long-name  1,234,567  1,234,567" in shown(is_terminal=False)
    assert "a-model-with-a-long-name" not in shown(is_terminal=True)


def test_markdown_has_the_same_without_what_is_only_for_terminals():
    assert written("md", ("a|b", 9.5)).split("\n\n") == [
        "**scores** of some models",
        "| model | mean score |\n| ----- | ---------: |\n| a\\|b  |       9.50 |",
        "best first",
        "- Warning: b was asked less",
        "- as wide as None\n",
    ]


def test_csv_and_json_have_all_digits_and_nothing_for_what_is_no_number():
    (first, second) = csv.DictReader(io.StringIO(written("csv", ("a", 1 / 3), ("b", math.nan))))
    assert (first, second["score"]) == ({"model": "a", "score": str(1 / 3)}, "")
    assert json.loads(written("json", ("a", math.inf)))["rows"] == [{"model": "a", "score": None}]


@pytest.mark.parametrize("output_format", FORMATS)
def test_names_steer_nothing_in_any_format(output_format):
    shown = written(output_format, (HOSTILE, 1.0), ("two\nlines", 2.0))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]" in shown.replace("\\", "")
    assert not re.search("^lines", shown, re.MULTILINE)


def test_a_format_that_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match=r"--format must be one of table, json, csv, md, not 'xml'"):
        written("xml")
