"""What a reply's body says."""

import orjson
import pytest

from shaberi_dagster.lake.journal.records import Usage
from shaberi_dagster.llm.endings import without_end_tokens
from shaberi_dagster.llm.reply import MalformedReplyError, ReceivedReply, decoded, error_details, parsed

pytestmark = pytest.mark.unit


def document(message=None, **more):
    return {"choices": [{"message": message or {"content": "答え"}, "finish_reason": "stop"}], **more}


def test_a_reply_has_its_text_exactly_and_its_finish_reason():
    reply = parsed(document({"content": "  答え\n"}))
    assert (reply.content, reply.finish_reason, reply.reasoning) == ("  答え\n", "stop", None)


@pytest.mark.parametrize("message", [{"content": None}, {"content": ""}, {"role": "assistant"}])
def test_no_text_is_empty_text(message):
    assert parsed(document(message)).content == ""


def test_text_in_parts_is_joined():
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "答"}, {"type": "text", "text": "え"}]
    assert parsed(document({"content": parts})).content == "答え"


def test_parts_of_the_responses_form_are_text():
    assert parsed(document({"content": [{"type": "output_text", "text": "答え", "annotations": []}]})).content == "答え"


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "お答えできません。"},
        {"content": "", "refusal": "お答えできません。"},
        {"content": [{"type": "refusal", "refusal": "お答えできません。"}]},
    ],
)
def test_a_refusal_is_the_text_where_there_is_no_other(message):
    reply = parsed(document(message))
    assert (reply.content, reply.refusal) == ("お答えできません。", "お答えできません。")


def test_a_refusal_beside_a_text_leaves_the_text_as_it_is():
    parts = [{"type": "output_text", "text": "途中まで"}, {"type": "refusal", "refusal": "やめます。"}]
    for message in ({"content": parts}, {"content": "途中まで", "refusal": "やめます。"}):
        reply = parsed(document(message))
        assert (reply.content, reply.refusal) == ("途中まで", "やめます。")


@pytest.mark.parametrize("refusal", [None, "", 5, {}])
def test_what_is_no_text_is_no_refusal(refusal):
    reply = parsed(document({"content": "答え", "refusal": refusal}))
    assert (reply.content, reply.refusal, reply.tool_calls) == ("答え", None, None)


@pytest.mark.parametrize("name", ["tool_calls", "function_call"])
def test_tool_calls_are_kept(name):
    called = [{"id": "1", "type": "function", "function": {"name": "検索", "arguments": "{}"}}]
    reply = parsed(document({"content": None, name: called}))
    assert (reply.content, orjson.loads(reply.tool_calls)) == ("", called)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_found_under_both_names(name):
    assert parsed(document({"content": "x", name: "why"})).reasoning == "why"


def test_usage_is_as_reported():
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    assert parsed(document(usage=usage)).usage == Usage(10, 20, 4, 5)


@pytest.mark.parametrize(
    ("completion", "reasoning", "total", "paid", "thought"),
    [
        (20, 15, 30, 20, 15),  # among them, as most count
        (20, 15, 45, 35, 15),  # beside them, as xAI counts
        (20, 15, None, 20, 15),
        (20, 150, None, 170, 150),  # more than there are cannot be among them
        (0, 150, 160, 150, 150),
        (20, 0, 30, 20, 0),
        (20, None, 45, 35, 15),  # only in the total, as Gemini counts
        (20, None, 25, 20, None),  # a total that is too small says nothing
        (None, 15, 45, 35, 15),  # all of it was thinking
        (None, None, None, None, None),
    ],
)
def test_reasoning_that_is_counted_beside_the_completion_is_completion(completion, reasoning, total, paid, thought):
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": completion,
        "total_tokens": total,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    assert parsed(document(usage=usage)).usage == Usage(10, paid, None, thought)


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6}, 4),  # DeepSeek
        ({"prompt_cache_hit_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}, 3),
        ({"prompt_cache_hit_tokens": 40, "total_tokens": 30}, 10),
        (
            {"prompt_tokens_details": {"cached_tokens": 40}, "total_tokens": 47},
            10,
        ),  # what does not add up is no thinking
    ],
)
def test_cached_tokens_are_a_part_of_the_prompt(usage, cached):
    reported = {"prompt_tokens": 10, "completion_tokens": 20} | usage
    assert parsed(document(usage=reported)).usage == Usage(10, 20, cached, None)


@pytest.mark.parametrize(
    ("details", "total", "prompt"),
    [
        ({"cached_tokens": 400, "cache_creation_tokens": 25}, 455, 435),
        ({"cached_tokens": 400, "cache_creation_tokens": 25}, 430, 410),
        ({"cached_tokens": 400}, None, 410),
        ({"cached_tokens": 400}, 460, 410),
        ({"cached_tokens": 0, "cache_write_tokens": 400}, 430, 410),
    ],
)
def test_cached_tokens_that_are_counted_beside_the_prompt_are_prompt(details, total, prompt):
    usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": total, "prompt_tokens_details": details}
    assert parsed(document(usage=usage)).usage == Usage(prompt, 20, details["cached_tokens"], None)


@pytest.mark.parametrize(
    ("reasons", "ending"),
    [
        (
            ["length", "MAX_TOKENS", "max_output_tokens", "model_length", "model_context_window_exceeded", "limit"],
            "length",
        ),
        (["pause_turn"], "length"),
        (["content_filter", "SAFETY", "content-filtered", "BLOCKLIST", "guardrail_intervened"], "content_filter"),
        (["error", "network_error", "insufficient_system_resource", "abort", "server_overloaded", "TIMEOUT"], "error"),
        (["rate_limit_exceeded", "RateLimited", "quota_exceeded", "throttled"], "error"),
        (["stop", "STOP", "end_turn", "eos_token", "stop_sequence", "completed", "endoftext"], "stop"),
        (["tool_calls", "tool_use", "function_call"], "tool_calls"),
        (["FINISH_REASON_UNSPECIFIED"], "FINISH_REASON_UNSPECIFIED"),
    ],
)
def test_reasons_of_all_servers_are_in_one_table(reasons, ending):
    assert {ReceivedReply("x", None, reason).finish_reason for reason in reasons} == {ending}


def test_a_choice_is_taken_by_its_index():
    choices = [{"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}}]
    assert parsed({"choices": choices}).content == "a"


@pytest.mark.parametrize(
    "content",
    [["答", "え"], {"type": "text", "text": "答え"}, {"parts": [{"text": "答え"}]}, [{"text": {"value": "答え"}}]],
)
def test_content_as_a_list_or_object_is_read(content):
    assert parsed(document({"content": content})).content == "答え"


@pytest.mark.parametrize(
    "end", ["<|im_end|>", "</s>", "\n<|eot_id|><|end_of_text|>", "<end_of_turn>\n", "<｜end▁of▁sentence｜>"]
)
def test_special_tokens_at_the_end_are_no_answer(end):
    assert without_end_tokens(f"a <|im_end|> b{end}") == "a <|im_end|> b"
    assert without_end_tokens("<b>x</b>") == "<b>x</b>"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens_details": None}])
def test_usage_that_is_not_reported_is_unknown(usage):
    assert parsed(document(usage=usage)).usage == Usage()
    assert parsed(document()).usage.source == "unknown"


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"\xff\xfe", b'"text"', b"[]", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_malformed(body):
    with pytest.raises(MalformedReplyError):
        decoded(body)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        document({"content": 5}),
    ],
)
def test_a_reply_without_a_message_is_malformed(odd):
    with pytest.raises(MalformedReplyError):
        parsed(odd)


def test_half_a_surrogate_pair_becomes_a_replacement_character():
    body = rb'{"choices":[{"message":{"content":"a\ud83dz \ud83d\ude00"}}]}'
    reply = parsed(decoded(body))
    assert reply.content == "a\ufffdz \U0001f600"
    assert orjson.dumps(reply.content)


@pytest.mark.parametrize(
    ("body", "message", "codes"),
    [
        ({"error": {"message": "no", "code": "c", "type": "t"}}, "no", {"c", "t"}),
        ({"message": "no", "code": 429}, "no", {"429"}),
        ([{"error": {"message": "no"}}], "no", set()),
        ({"error": "no"}, "no", set()),
        ("plain", "plain", set()),
        (None, "", set()),
        ({"detail": "no"}, "no", set()),
    ],
)
def test_an_error_body_of_any_form_has_a_message(body, message, codes):
    details = error_details(body)
    assert (details.message, details.codes) == (message, codes)
