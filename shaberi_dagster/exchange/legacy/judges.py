"""What is known of the judges of the legacy trees beyond the names of their folders.

Nothing of it stands in the files: settings are those of the suite's code, prompt versions are inferred from the
dates at which judgements were published. P1: from 2024-04, scores as `[点数]`, bare digits or `評価：[[N]]`. P2: from
2025-02, Tengu and ELYZA in `<score>`. P3: from 2025-11, all end in `FINAL SCORE: x`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal

from shaberi_dagster.util.identity import sha256_json

_OLD_PROMPT = "-oldjudgeprompt"


@dataclass(frozen=True)
class LegacyJudge:
    """One judge folder.

    Attributes:
        judge: The folder's name without `judge_`. Another prompt has another folder, hence another name.
        model: The judging model; the name itself where nothing else is known.
        prompt_version: P1, P2, P3 or a choice of them; None when nothing is known.
        prompt_version_source: `inferred` (from dates), or `unknown`.
        temperature: As the suite's code had it; None when nothing is known.
        max_tokens: Likewise.
    """

    judge: str
    model: str
    prompt_version: str | None
    prompt_version_source: Literal["inferred", "unknown"]
    temperature: float | None
    max_tokens: int | None

    @cached_property
    def config_hash(self) -> str:
        """Identity of the judge's settings as far as they are known."""
        return sha256_json({"legacy": asdict(self)})


_KNOWN: Mapping[str, tuple[str, str]] = {
    "gpt-4-turbo-preview": ("gpt-4-turbo-preview", "P1 or P2"),
    "gpt-4.1-2025-04-14": ("gpt-4.1-2025-04-14", "P2 or P3"),
    "gpt-5.1-2025-11-13": ("gpt-5.1-2025-11-13", "P3"),
    f"gpt-5.1-2025-11-13{_OLD_PROMPT}": ("gpt-5.1-2025-11-13", "P2"),
    "llmjudge-athenev2": ("Athene-V2-Chat", "P2"),
    "llmjudge-llama33": ("Llama-3.3-70B", "P2"),
    "llmjudge-tulu405": ("Llama-3.1-Tulu-3-405B-FP8", "P2"),
}


def legacy_judge(name: str) -> LegacyJudge:
    """The judge of a folder `judge_{name}`."""
    if name in _KNOWN:
        model, version = _KNOWN[name]
        return LegacyJudge(name, model, version, "inferred", temperature=0.0, max_tokens=1024)
    model = name.removesuffix(_OLD_PROMPT) or name
    return LegacyJudge(name, model, None, "unknown", temperature=None, max_tokens=None)
