"""One tiny call of a model: whether it answers, what that cost, and which parameters its server took."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import httpx2

from shaberi_dagster.journal.records import Call
from shaberi_dagster.llm.endpoints import check_parameters, loaded_url, named_pairs, not_sent, resolve_endpoint
from shaberi_dagster.llm.engine import Engine, RetrySettings
from shaberi_dagster.llm.keys import keys_named
from shaberi_dagster.llm.parameters import read_settings, sent, with_system_prompt
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.stopping import refused_parameter
from shaberi_dagster.llm.types import Message, Sampling

_QUESTION = (Message("user", "Say OK."),)
_USUAL = Sampling(temperature=0.2, max_tokens=4096)
_SECONDS = 120.0
_SOON = 5.0


@dataclass(frozen=True)
class EndpointCheck:
    """The outcome of a check.

    Attributes:
        call: The last call.
        taken: Parameters that were sent and not refused.
        refused: Parameters that the server refused, each of which took one more call.
        not_sent: Parameters that the endpoint's entry leaves out.
        loaded: The models in the server's memory; None where it does not tell.
    """

    call: Call
    taken: Sequence[str]
    refused: Sequence[str]
    not_sent: Sequence[str]
    loaded: Sequence[str] | None


def check_model(
    model: str, base_url: str | None, parameters: Sequence[str], environment: Mapping[str, str]
) -> EndpointCheck:
    """Ask a model one tiny question, once more for each parameter that its server refuses.

    Args:
        model: Its name, see `resolve_endpoint`.
        base_url: Its address, where the name does not say it.
        parameters: `KEY=VALUE`, sent beside temperature and token limit.
        environment: Where keys are read from.

    Raises:
        ConfigurationError: There is no such endpoint, its key is missing, or a parameter cannot be sent.
    """
    endpoint, asked = resolve_endpoint(model, base_url), read_settings(parameters, "--param")
    sampling = replace(_USUAL, parameters=sent(asked))
    check_parameters(endpoint, model, sampling)
    left_out = not_sent(endpoint, model, sampling)
    wanted = {"temperature": _USUAL.temperature, "max_tokens": _USUAL.max_tokens} | asked
    names = [name for name, value in wanted.items() if value is not None and name not in left_out]
    messages = with_system_prompt(_QUESTION, asked)

    async def ask() -> EndpointCheck:
        refused: list[str] = []
        retry = RetrySettings(transient_attempts=2, deadline_seconds=_SECONDS)
        async with Engine(environment, retry=retry) as engine:
            while True:
                own = sent(asked | dict.fromkeys(refused))
                call = await engine.call(ChatRequest(endpoint, model, messages, replace(_USUAL, parameters=own)))
                name = refused_parameter(call.error_message or "")
                if name is None or name not in names or name in refused:
                    taken = [name for name in names if name not in refused] if call.status == "ok" else []
                    return EndpointCheck(call, taken, refused, left_out, await _loaded(endpoint.base_url))
                refused.append(name)

    with keys_named(named_pairs((base_url, None))):
        return asyncio.run(ask())


async def _loaded(base_url: str) -> list[str] | None:
    """Read which models are in a server's memory; no key is sent."""
    url = loaded_url(base_url)
    if url is None:
        return None
    try:
        async with httpx2.AsyncClient(timeout=_SOON) as client:
            return [str(model["name"]) for model in (await client.get(url)).json()["models"]]
    except (httpx2.HTTPError, ValueError, LookupError, TypeError):
        return None  # an older server, or another one at its address
