"""Names that a user gives: whether they exist, and which may have been meant."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from shaberi_dagster.util.errors import ConfigurationError

_MOST_SHOWN = 10
_MOST_OF_A_KIND = 40
_PYDANTICS = "Input should be"


def check_known(what: str, given: Iterable[str], known: Collection[str], where: str = "") -> None:
    """Refuse names that the lake has not: they would find nothing, or leave something out in silence.

    Args:
        what: What they are the names of.
        given: As the user wrote them.
        known: All that there are.
        where: Where they were given.

    Raises:
        ConfigurationError: One is unknown; with the names that are most like it.
    """
    for name in given:
        if name not in known:
            option = f"{where}: " if where else ""
            raise ConfigurationError(f"{option}no {what} {name!r}; {did_you_mean(name, known, 'the lake has')}")


def message_of(problem: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, of one of pydantic's errors."""
    text = str(problem["msg"]).removeprefix("Value error, ")
    if text.startswith(_PYDANTICS) and isinstance(given := problem["input"], int | float | str):
        return f"must be{text.removeprefix(_PYDANTICS).partition(', unable')[0]}, not {given!r}"
    return text


def did_you_mean(name: str, known: Collection[str], there: str = "known:") -> str:
    """Suggest the names that may have been meant; without any, list the known ones.

    Args:
        name: As the user wrote it.
        known: All that there are.
        there: How the sentence about all of them begins.
    """
    by_plain = {candidate.casefold(): candidate for candidate in sorted(known)}
    plain = name.strip().casefold()
    alike = [candidate for candidate in by_plain if plain and plain in candidate] or get_close_matches(plain, by_plain)
    if alike:
        return f"did you mean {_listed([by_plain[candidate] for candidate in alike], 'or')}?"
    if there.endswith(":"):
        return f"{there} {_listed([*known], 'and') if len(known) > _MOST_OF_A_KIND else ', '.join(known) or 'none'}"
    return f"{there} {_listed(sorted(known), 'and') if known else 'none'}"


def _listed(names: Sequence[str], last: str) -> str:
    shown = list(names[:_MOST_SHOWN])
    if len(names) > _MOST_SHOWN:
        shown.append(f"{len(names) - _MOST_SHOWN} more")
    return f" {last} ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
