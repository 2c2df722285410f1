"""The endpoint of the kept lake: always at one port, for its address is part of what a call is known by."""

import contextlib
import fcntl
import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.mock_endpoint import MockEndpoint, Scripted, running_mock

# Below the ports that systems give to whoever asks for any: one of those could be taken at any moment.
PORT = 27831
BASE_URL = f"http://127.0.0.1:{PORT}/v1"
_LOCK = Path(tempfile.gettempdir()) / "shaberi-kept-lake.lock"

_LEAKY = "名物は「这是我们的特产」という菓子です。The shop opens at nine in the morning and sells them until noon. 朝に買えます。"
_PLAIN = ("答えは山の近くの町です。", "古い記録によれば、川の名前に由来します。", "三つあります。海、山、湖です。")


class PortTakenError(Exception):
    """Another program listens where the kept lake's calls have to go."""


@contextlib.contextmanager
def kept_endpoint(script: Callable[[dict[str, Any], int], Scripted] | None = None) -> Iterator[MockEndpoint]:
    """The endpoint at its port; processes that want it at the same time have it one after the other.

    Raises:
        PortTakenError: Another program has the port.
    """
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.ExitStack() as stack:
            try:
                mock = stack.enter_context(running_mock(port=PORT, script=script or reply_to))
            except OSError as error:
                raise PortTakenError(
                    f"the kept lake needs port {PORT} of 127.0.0.1, where its calls were made: {error.strerror}"
                ) from error
            yield mock


def body_sha256(body: dict[str, Any]) -> str:
    """What a request to the endpoint is known by."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def reply_to(body: dict[str, Any], _: int = 0) -> Scripted:
    """What each model says: a function of the request alone, so that a lake can be made to its end years later."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    number = int(hashlib.sha256(f"{body['model']}\n{prompt}".encode()).hexdigest()[:8], 16)
    match body["model"].split("-")[0]:
        case "judge":
            return _judgement(prompt, number)
        case "guard":
            return _flags(prompt, number)
        case "decider":
            return _decision(prompt, number)
        case "grader":
            return _verdict(prompt, number)
        case _:
            return _answer(prompt, number)


def _answer(prompt: str, number: int) -> Scripted:
    if "故障" in prompt:
        return web.json_response({"error": {"message": "The server had an error"}}, status=500)
    special = {
        "無言": "",
        "考え": f"<think>まず考えます。{number % 7}</think>\n\n{_PLAIN[number % 3]}（{number}）",
        "外来": f"{_LEAKY}（{number}）",
        "繰り返し": f"{number}番です。{'とてもよい場所です。' * 30}",
        "表に": f"| 名前 | 高さ |\n|---|\n| 北の山 | {number} | 余り |\n\n```\n終わり",
    }
    for word, text in special.items():
        if word in prompt:
            return text
    if re.search("[ぁ-ん]", prompt.rsplit("\n", 1)[-1]):
        return f"{_PLAIN[number % 3]}（{number}）"
    return _short(prompt, number)


def _short(prompt: str, number: int) -> str:
    """An answer that the rules can grade, or one that they cannot; no two are alike, or their calls would be."""
    name = str(number).translate(str.maketrans("0123456789", "bdfghklmnp"))
    if number % 4 == 0 or "UNDECIDABLE" in prompt:
        return f"{name}: I would rather not say."
    return f"{name}. The answer is {'ABCD'[number % 4] if 'Options:' in prompt else 40 + number % 5}."


def _judgement(prompt: str, number: int) -> str:
    if prompt.startswith("ある採点者が"):
        return "FINAL SCORE: なし" if "採点不能" in prompt else f"FINAL SCORE: {1 + number % 5}"
    if "採点不能" in prompt:
        return "採点不能です。"
    return "まずまずの回答でしょう。" if number % 5 == 0 else f"おおむねよい回答です。\nFINAL SCORE: {1 + number % 5}"


def _flags(prompt: str, number: int) -> str:
    if "LEAKS:" in prompt:
        return "固有の名前ではありません。\nLEAKS: 1" if number % 2 else "名前です。\nLEAKS: none"
    if "無判定" in prompt:
        return "何とも言えません。"
    return "住所があります。\nSAFETY: flagged privacy" if number % 3 == 0 else "問題ありません。\nSAFETY: clear"


def _decision(prompt: str, number: int) -> str:
    names = re.findall(r'<response id="[0-9a-f]+" name="([^"\n]+)">', prompt)
    if "SILENCE" in prompt:
        return ""
    if '"rankings"' in prompt:
        ranked = [{"id": name, "alignment": (number + 37 * place) % 101} for place, name in enumerate(names)]
        return json.dumps({"rankings": ranked})
    if '"isValid"' in prompt:
        return json.dumps({"isValid": number % 3 > 0, "reasoning": "checked"})
    if "WINNER: TIE" in prompt:
        return f"One is better.\nWINNER: {('A', 'B', 'TIE')[number % 3]}"
    if "Winner: Tie" in prompt:
        return f"Winner: {(*names, 'Tie')[number % 3]}"
    return _short(prompt, number)


def _verdict(prompt: str, number: int) -> str:
    if "UNDECIDABLE" in prompt:
        return "I cannot tell."
    verdict = ("correct", "incorrect", "no_answer")[number % 3]
    return json.dumps({"extracted": "" if verdict == "no_answer" else "something", "verdict": verdict})
