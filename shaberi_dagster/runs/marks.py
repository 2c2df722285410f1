"""Marks that say what a later request may change in stored settings, and generic functions that apply them.

A field says it by a mark, as in `temperature: Annotated[float, IDENTITY]`; one without a mark stays as it was stored.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

SettingsT = TypeVar("SettingsT", bound=BaseModel)
_SHA256_LENGTH, _SHOWN_LENGTH = 64, 12


@dataclass(frozen=True, slots=True)
class Identity:
    """The field never changes: another value contradicts what is stored.

    Attributes:
        unset: The value that None stands for.
    """

    unset: Any = None


@dataclass(frozen=True, slots=True)
class Grows:
    """More may come: new keys of a mapping, new elements of a tuple; an element of the same name is replaced.

    Attributes:
        together: Puts a stored and an asked value of another kind together.
    """

    together: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """The latest value counts, such as an address."""


IDENTITY, GROWS, MOVES = Identity(), Grows(), Moves()


def contradictions(stored: BaseModel, asked: BaseModel | None, of: str = "") -> list[str]:
    """Say in words which fields cannot be what is asked.

    Args:
        stored: The settings as they are.
        asked: The settings as somebody wants them; None has none of them.
        of: Whose fields they are, as the words begin.
    """
    found: list[str] = []
    for name, field in type(stored).model_fields.items():
        before: Any = getattr(stored, name)
        now: Any = getattr(asked, name, None)
        for mark in field.metadata:
            if isinstance(mark, Identity):
                before, now = (mark.unset if value is None else value for value in (before, now))
                if before != now:
                    found.append(f"{of}{name.replace('_', ' ')} {_in_words(before)}, not {_in_words(now)}")
            elif isinstance(mark, Grows) and isinstance(before, Mapping):
                for key in (key for key in before if key in now):
                    found += contradictions(before[key], now[key], f"{key} ")
            elif isinstance(mark, Moves) and isinstance(before, BaseModel):
                found += contradictions(before, now, of)
    return found


def widened(stored: SettingsT, asked: SettingsT) -> SettingsT:
    """Return the stored settings with what is added to them, and with the latest of what may move."""
    update: dict[str, Any] = {}
    for name, field in type(stored).model_fields.items():
        before, now = getattr(stored, name), getattr(asked, name)
        for mark in field.metadata:
            if isinstance(mark, Moves):
                update[name] = now
            elif isinstance(mark, Grows):
                update[name] = (mark.together or _grown)(before, now)
    return stored.model_copy(update=update)


def _grown(before: Any, now: Any) -> Any:
    if isinstance(before, Mapping):
        return now | {key: widened(value, now[key]) if key in now else value for key, value in before.items()}
    return tuple({getattr(value, "name", value): value for value in (*before, *now)}.values())


def _in_words(value: Any) -> str:
    text = str(value.model_dump() if isinstance(value, BaseModel) else value)
    return text[:_SHOWN_LENGTH] if len(text) == _SHA256_LENGTH else text
