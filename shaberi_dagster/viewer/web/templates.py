"""Pages made of templates: everything in them is escaped, and characters that hide are made visible."""

import math
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shaberi_dagster.reports import blocks
from shaberi_dagster.reports.blocks import NOTHING, Heading, Sentences, Table
from shaberi_dagster.util.text import printable
from shaberi_dagster.viewer.web import texts
from shaberi_dagster.viewer.web.address import PageAddress

STATIC = Path(__file__).resolve().parent / "static"
_SHADES = 9
_A_DIME = 0.1
_FORMS = ("both_ends", "decimals", "whole_percent", "signed", "percent", "p_value", "between")


class Shown(NamedTuple):
    """The contents of a page.

    Attributes:
        template: File of `templates/`.
        title: Of the page.
        values: For the template.
    """

    template: str
    title: str
    values: Mapping[str, Any]


def render(shown: Shown, address: PageAddress, layout: str = "base.html", **more: Any) -> str:
    """A page as HTML.

    Args:
        shown: What it shows.
        address: Its address.
        layout: What is around it: a whole page, or a section of a file.
        more: What the layout needs.
    """
    values = {"title": shown.title, "address": address, "layout": layout, **shown.values, **more}
    return _environment().get_template(shown.template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("shaberi_dagster.viewer.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(blocks, name) for name in _FORMS}
    environment.filters |= {
        "shade": shade,
        "number": number,
        "quoted": shlex.quote,
        "dollars": dollars,
        "minute": lambda time: f"{time:%Y-%m-%d %H:%M}" if time else NOTHING,
        "lines": lambda cell: [cell] if isinstance(cell, str) else list(cell),
    }
    environment.globals |= {name: getattr(texts, name) for name in ("rendered", "marked", "spans_of", "difference")}
    environment.globals["interval_of"] = blocks.interval_of
    environment.tests |= {
        "heading": lambda block: isinstance(block, Heading),
        "sentences": lambda block: isinstance(block, Sentences),
        "table": lambda block: isinstance(block, Table),
    }
    return environment


def _harmless(value: Any) -> Any:
    """Make the value of an expression in a template harmless; an attribute or our own text stays as it is."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value, multiline=True)
    return value


def shade(score: float | None, scale: tuple[float, float] | None) -> str:
    """The class that colours a score by its place on the scale: s0 (lowest) to s9; none where either is not known."""
    lowest, highest = scale or (0.0, 0.0)
    if score is None or not math.isfinite(score) or highest <= lowest:
        return ""
    return f"s{min(max(round(_SHADES * (score - lowest) / (highest - lowest)), 0), _SHADES)}"


def number(value: float | None) -> str:
    """A count with separators; a dash where it is not known."""
    return NOTHING if value is None else f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """An amount, small ones with more digits; a dash where it is not known."""
    if value is None:
        return NOTHING
    return f"${value:,.2f}" if value >= _A_DIME or value == 0 else f"${value:.3g}"
