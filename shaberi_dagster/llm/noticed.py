"""What the replies of a stage have in common that makes them doubtful, said once at its end."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from shaberi_dagster.lake.journal.records import Call
from shaberi_dagster.llm.endings import is_unknown, without_end_tokens
from shaberi_dagster.llm.request import ChatRequest
from shaberi_dagster.llm.thinking import answer_of, only_thinking

_FEWEST_TOKENS = 500  # no server's window is smaller
_CHARACTERS_PER_TOKEN = 8  # more than texts of any language have
_UNLIKE = 1.25  # lengths of prompts that cannot have the same number of tokens


@dataclass
class _Replies:
    """The replies of one model at one address."""

    n: int = 0
    models: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    n_end_tokens: int = 0
    thinking: list[str] = field(default_factory=list)
    most_tokens: int = 0
    lengths: list[int] = field(default_factory=list)

    def count(self, call: Call, request: ChatRequest) -> None:
        self.n += 1
        self.models.update(filter(None, [call.reply_model]))
        self.states.update(filter(None, [call.system_fingerprint]))
        self.reasons.update([str(call.finish_reason)] if is_unknown(call.finish_reason) else [])
        self.n_end_tokens += without_end_tokens(call.content or "") != call.content
        if not answer_of(call).strip() and (why := only_thinking(call)):
            self.thinking.append(why)
        tokens = call.usage.prompt_tokens or 0
        if tokens > self.most_tokens:
            self.most_tokens, self.lengths = tokens, []
        if tokens == self.most_tokens:
            self.lengths.append(sum(len(message.content) for message in request.messages))

    def sentences(self) -> Iterator[str]:
        if len(self.models) > 1:
            yield f"more than one model answered: {_counted(self.models)}"
        if len(self.states) > 1:
            yield f"the server's system_fingerprint changed: {_counted(self.states)}"
        if self.reasons:
            yield f"replies ended for reasons that are not known: {_counted(self.reasons)}"
        if self.n_end_tokens:
            yield f"special tokens were taken off the end of {self.n_end_tokens} of {self.n} replies"
        if self.thinking:
            yield f"{len(self.thinking)} of {self.n} answers are empty, such as: {self.thinking[0]}"
        if self.most_tokens >= _FEWEST_TOKENS and len(self.lengths) > 1 and self._seems_cut():
            lengths = f"{len(self.lengths)} of {min(self.lengths):,} to {max(self.lengths):,} characters"
            cut = f"{lengths} count {self.most_tokens:,} tokens each"
            yield f"the server seems to cut prompts: {cut}; give it a longer context"

    def _seems_cut(self) -> bool:
        shortest, longest = min(self.lengths), max(self.lengths)
        is_same = len(set(self.lengths)) > 2 and longest >= _UNLIKE * shortest  # noqa: PLR2004
        return is_same or shortest > _CHARACTERS_PER_TOKEN * self.most_tokens


class Noticed:
    """The replies of a stage by model and address."""

    def __init__(self) -> None:
        self._replies: defaultdict[tuple[str, str], _Replies] = defaultdict(_Replies)

    def count(self, call: Call, request: ChatRequest) -> None:
        """Take note of a reply."""
        if call.status == "ok":
            self._replies[call.model, call.base_url].count(call, request)

    def __iter__(self) -> Iterator[str]:
        """Yield a sentence for each thing that was noticed."""
        for (model, base_url), replies in self._replies.items():
            for sentence in replies.sentences():
                yield f"{model} at {base_url}: {sentence}"


def _counted(names: Counter[str]) -> str:
    shown = {"".join(filter(str.isprintable, name)): count for name, count in names.most_common()}
    return ", ".join(f"{name} ({count})" for name, count in shown.items())
