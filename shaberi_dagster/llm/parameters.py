"""Parameters of calls beyond temperature, penalty and token limit: as people write them, and as they are sent."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import orjson

from shaberi_dagster.llm.types import Message
from shaberi_dagster.util.errors import ConfigurationError

SYSTEM_PROMPT = "system_prompt"
"""The parameter that is a message."""
NAMED = ("top_p", "seed", "stop", "reasoning_effort", "thinking", SYSTEM_PROMPT)
"""Parameters that have options of their own."""
_OF_JUDGES = "--judge-param"
_ALIKE = 0.88
"""Likeness from which on a name is taken for a misspelt other one; that of max_tokens and min_tokens is 0.8."""
_ELSEWHERE = {
    **{name: name.replace("_", "-") for name in ("temperature", "max_tokens", "frequency_penalty")},
    **dict.fromkeys(("model", "messages", "stream", "n", "tools"), ""),
}


def as_settings(value: Any) -> Any:
    """Return `KEY=VALUE` texts as they are, and a mapping as such texts."""
    if not isinstance(value, Mapping):
        return value
    return [f"{name}={orjson.dumps(of_name).decode()}" for name, of_name in value.items()]


def read_settings(texts: Sequence[str], option: str) -> dict[str, Any]:
    """Map the names in `KEY=VALUE` texts to their values: JSON, or else text; null stands for a parameter to drop.

    Args:
        texts: Of one option.
        option: Its name, for messages.

    Raises:
        ConfigurationError: A text has no name or no value, or names what has an option of its own.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name := name.strip()) or not separator:
            raise ConfigurationError(f"{option} {text}: write it as KEY=VALUE, such as top_k=20")
        try:
            values[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            values[name] = value
        own = (*NAMED, *_ELSEWHERE)
        if name not in own and (meant := get_close_matches(name, own, 1, _ALIKE)):
            raise ConfigurationError(f"{option} {name}: did you mean {meant[0]}?")
        is_only_here = (option, name) == (_OF_JUDGES, "frequency_penalty")
        if name in _ELSEWHERE and not (is_only_here or (_ELSEWHERE[name] and values[name] is None)):
            of_its_own = option.replace("param", _ELSEWHERE[name])
            raise ConfigurationError(
                f"{option} {name}: {f'use {of_its_own}' if _ELSEWHERE[name] else 'the project sets it itself'}"
            )
    return values


def read_of_judge(texts: Sequence[str], judge: str) -> dict[str, Any]:
    """Map names to values as `read_settings` does, of those texts that are about a judge.

    Args:
        texts: `JUDGE:KEY=VALUE`, or `KEY=VALUE` of all judges; names of judges may have colons, too.
        judge: The judge's name.
    """
    of_all = [text for text in texts if ":" not in text.partition("=")[0]]
    prefix = f"{judge}:"
    of_judge = [text.removeprefix(prefix) for text in texts if text.startswith(prefix)]
    return read_settings([*of_all, *of_judge], _OF_JUDGES)


def check_judges_named(texts: Sequence[str], judges: Collection[str]) -> None:
    """Refuse settings of judges that no one has named.

    Raises:
        ConfigurationError: There are some.
    """
    for text in texts:
        name = text.partition("=")[0]
        if ":" in name and not any(name.startswith(f"{judge}:") for judge in judges):
            raise ConfigurationError(
                f"--judge-param {name}: no judge {name.rpartition(':')[0]} judges here; there are {', '.join(judges)}"
            )


def sent(parameters: Mapping[str, Any]) -> str | None:
    """Return the parameters that are no message as canonical JSON; None where there are none."""
    own = {name: value for name, value in parameters.items() if name != SYSTEM_PROMPT}
    return orjson.dumps(own, option=orjson.OPT_SORT_KEYS).decode() if own else None


def with_system_prompt(messages: tuple[Message, ...], parameters: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages with the system prompt that is asked for in the place of their own, if one is; "": none."""
    text = parameters.get(SYSTEM_PROMPT)
    if text is None:
        return messages
    others = tuple(message for message in messages if message.role != "system")
    return (Message("system", text), *others) if text else others
