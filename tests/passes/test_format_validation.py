"""Rules of a file and the generic ones, with invented questions and answers."""

from itertools import count

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shaberi_dagster.tasks.benchmarks.questions import load_question_set
from shaberi_dagster.tasks.benchmarks.registry import BENCHMARKS
from shaberi_dagster.tasks.passes.base import Answer
from shaberi_dagster.tasks.passes.format_validation import (
    RULES_FILE,
    FormatValidation,
    FormatValidationConfig,
    read_rules,
)
from shaberi_dagster.util.errors import ConfigurationError

pytestmark = pytest.mark.unit

ID = "ab" * 32
LONG = "港の朝は早く、漁師は三時に起きます。" * 12


@pytest.fixture
def with_rule(tmp_path):
    """Makes a pass whose only rule, for question `ID`, is this one; each has a file of its own."""
    numbers = count()

    def made(**rule):
        path = tmp_path / f"rules{next(numbers)}.yaml"
        path.write_text(yaml.safe_dump({ID: [rule]}, allow_unicode=True), encoding="utf-8")
        return FormatValidation(FormatValidationConfig(rules_file=path))

    return made


def answered(text, question="質問です。", truncated=None, question_id=ID):
    return Answer("elyza", question_id, question, None, None, None, text, truncated)


def violations(one, text, **answer):
    return set(one.examine(answered(text, **answer)).details.get("violations", {}))


def generic(text, **answer):
    return violations(FormatValidation(FormatValidationConfig()), text, **answer)


JSON_TEXT = '{"名前": "林", "値": [1, 2]}'


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"kind": "json"}, f"次のとおりです。\n```json\n{JSON_TEXT}\n```\n以上です。", '```json\n{"名前": "林",}\n```'),
        ({"kind": "json"}, f"答えは {JSON_TEXT} です。", "名前は林です。"),
        ({"kind": "json"}, "[1]", '{\n  "a": [1, 2],\n  // 注\n  "b": [3]\n}'),
        ({"kind": "json", "type": "array", "length": 3}, "```\n[5, 1, 3]\n```", "[5, 1]"),
        ({"kind": "json", "type": "object"}, JSON_TEXT, "[1, 2]"),
        ({"kind": "json", "keys": ["name", "properties"]}, '[{"name": 1, "properties": {}}]', '{"name": 1}'),
        ({"kind": "json", "whole": True}, f"```json\n{JSON_TEXT}\n```", f"どうぞ。\n{JSON_TEXT}"),
        ({"kind": "items", "exactly": 3}, "案です。\n1. 海\n   - 泳ぐ\n2. 山\n3. 川\n", "1. 海\n2. 山\n"),
        ({"kind": "items", "exactly": 3}, "① 海\n② 山\n③ 川", "- 海\n- 山\n- 川\n- 空"),
        ({"kind": "items", "exactly": 2}, "### 案1：海\n- a\n- b\n- c\n### 案2：山\n", "1) 海\n2) 山\n3) 川"),
        (
            {"kind": "items", "exactly": 2},
            "| 地 | 名 |\n|---|---|\n| a | b |\n| c | d |",
            "| 地 |\n|---|\n| a |\n| b |\n| c |",
        ),
        ({"kind": "items", "at_least": 2, "at_most": 3}, "文章だけで答えます。", "1. a\n2. b\n3. c\n4. d"),
        ({"kind": "characters", "at_most": 10}, "十文字 まで です。", "十文字までと言われたのに長い。"),
        ({"kind": "characters", "at_least": 10, "tolerance": 0.2}, "あいうえおかきく", "あいう"),
        ({"kind": "csv", "columns": 3, "at_least": 2}, "a,b,c\n1,2,3", "a,b\n1,2"),
        ({"kind": "csv", "at_least": 2, "separators": ["、"]}, "海、青\n山、緑", "海と、山です。\n川と、空です。"),
        ({"kind": "contains", "all": ["海"], "any": ["ABC", "山"]}, "海でabcと言う", "海だけ"),
        ({"kind": "choice", "options": ["はい", "いいえ"]}, "いいえ、違います。", "違います。"),
        ({"kind": "lines", "at_most": 2}, "一行目\n\n二行目", "一\n二\n三"),
        (
            {"kind": "lines", "starting_with": ["太郎"], "at_least": 2},
            "**太郎**：やあ\n「太郎」\n",
            "太郎：やあ\n花子：どうも",
        ),
        ({"kind": "paragraphs", "at_most": 1}, f"# 題\n\n{LONG}", f"{LONG}\n\n{LONG}"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_a_rule_tells_an_answer_that_meets_it_from_one_that_does_not(with_rule, rule, good, bad):
    one = with_rule(**rule)
    assert violations(one, good) == set()
    assert violations(one, bad) == {rule["kind"]}
    assert violations(one, bad, question_id="cd" * 32) == set()


def test_a_demanded_beginning_must_be_in_the_answer(with_rule):
    one = with_rule(kind="quote")
    question = "次の一文で始めてください：「霧の中で鐘が鳴った。」"
    assert violations(one, "霧の中で鐘が鳴った。誰もいない。", question=question) == set()
    assert violations(one, "鐘は鳴らなかった。", question=question) == {"quote"}


def test_a_severity_is_that_of_the_kinds_together_and_never_above_the_most(with_rule):
    one = with_rule(kind="json")
    assert one.examine(answered("いいえ")).severity == 0.3
    assert one.examine(answered("いいえ", truncated=True)).severity == 0.5
    path = one.config.rules_file
    mild = FormatValidation(FormatValidationConfig(rules_file=path, severities={"json": 0.0}, most=0.1))
    assert mild.examine(answered("いいえ")).severity == 0
    assert mild.examine(answered("いいえ")).details["violations"] == {"json": 1}
    assert mild.examine(answered("いいえ", truncated=True)).severity == 0.1


def test_an_answer_without_a_fault_has_no_reason():
    finding = FormatValidation(FormatValidationConfig()).examine(answered("海は青いです。"))
    assert (finding.severity, finding.reason, finding.details["spans"]) == (0, "", [])


def test_a_fence_that_nothing_closes_is_pointed_at():
    text = "例です。\n```python\nprint(1)\n"
    finding = FormatValidation(FormatValidationConfig()).examine(answered(text))
    assert finding.details["violations"] == {"unclosed_fence": 1}
    start, end, _ = finding.details["spans"][0]
    assert text[start:end] == "```python"


def test_closed_fences_of_any_kind_are_fine():
    for text in ("```\na\n```", "~~~\n```\n~~~", "````md\n```\n````", "1. 例\n   ```\n   a\n   ```\n", "`` ` ``"):
        assert generic(text) == set(), text


def test_the_token_limit_is_a_fault_only_where_it_is_known():
    assert generic("海は", truncated=True) == {"truncated"}
    assert generic("海は青い。", truncated=False) == set()


@pytest.mark.parametrize(
    "end",
    [
        "そして、",
        "それは「青い",
        "次の点です。\n\n2.",
        "### 結",
        "**重要",
        "ところで、海",
        "\n- **名",
        "\n続いて次の点を挙げます：",
        "\n- 波の高い日には海へ出るのを",
        "\nThe lighthouse keeper walked along the shore and looked for the",
        "海は青く、波は静かに、海は青く、波は静かに、海は青く、波は静",
    ],
)
def test_a_text_that_breaks_off_is_unfinished_if_it_is_not_known_whether_it_was_cut(end):
    assert generic(LONG + end) == {"unfinished"}
    assert generic(LONG + end, truncated=False) == set()
    assert generic(LONG + end, truncated=True) == {"truncated"}


@pytest.mark.parametrize(
    "end",
    [
        "",
        "\n- 早起きの習慣",
        "\n敬具\n山田",
        "\n```\na = [\n```",
        "\n| a | b、|",
        "以上、よろしくね",
        "\n（完）",
        "\nSee you",
        "\n### 答え：**12個**",
        "\n答えは次のとおりです。**「海」が二回です。",
        "\nBest regards,",
        "\n- 海\n- 山\n- 川",
        "\n#海 #山",
    ],
)
def test_an_end_that_can_be_one_is_left_alone(end):
    assert generic(LONG + end) == set()


def test_tokens_of_chat_templates_hide_no_end():
    assert generic(LONG + "\n### 2. 費用<|im_end|>\n") == {"unfinished", "debris"}
    assert generic(LONG + "よろしくお願いいたします。</s>") == {"debris"}


_SAID = "".join(f"{n}日目は{n * 7}人が{n % 9}つの島を訪ねました。\n\n" for n in range(1, 120))


def test_a_long_text_ends_as_its_other_lines_do():
    assert generic(f"{_SAID}それ") == {"unfinished"}
    assert generic(f"{_SAID}答え: 十二の島") == set()
    assert generic(_SAID.replace("。", "") + "それ") == set()
    items = "".join(f"- {n}日目の島{n * 7}\n" for n in range(1, 200))
    assert generic(f"{_SAID}{items}- 最後の島") == set()
    assert generic(f"{_SAID}{items.replace(chr(10), '。' + chr(10))}- 最後の島") == {"unfinished"}


@pytest.mark.parametrize(
    "text",
    [
        "海です。<|im_end|>",
        "海です。</s>",
        "[INST] 海 [/INST]",
        "海です。\n### Assistant: 山",
        "<think>\n\n</think>\n海です。",
        "<s>海",
    ],
)
def test_tokens_of_chat_templates_are_debris(text):
    assert generic(text) == {"debris"}


def test_turns_that_nobody_asked_for_are_faults():
    assert generic("海です。\nUser: では山は？\n") == {"next_turn"}
    assert generic("user\n海です。") == {"next_turn"}


def test_what_the_question_itself_has_is_no_debris():
    assert generic("<|im_end|> は終わりの印です。", question="<|im_end|> とは何ですか。") == set()
    assert generic("User: やあ", question="User: こんにちは\nに続けてください。") == set()
    assert generic("```\nUser: やあ\n```") == set()
    assert generic("古い<s>値段</s>です。") == set()


def test_the_packaged_rules_are_valid_and_speak_of_no_text():
    rules = read_rules(RULES_FILE)
    assert len(rules) >= 50
    longest = max(
        len(word)
        for found in rules.values()
        for rule in found
        for value in rule.model_dump().values()
        if isinstance(value, tuple)
        for word in value
    )
    assert longest <= 10


def test_the_starter_questions_with_a_demand_have_their_rules():
    sets = [load_question_set(benchmark, "starter") for benchmark in BENCHMARKS.values()]
    asked = {question.question_id for found in sets for question in found.questions}
    assert len(asked & set(read_rules(RULES_FILE))) == 5


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("nothex: [{kind: json}]", "nothex"),
        (f"{ID}: [{{kind: jsn}}]", "kind"),
        (f"{ID}: [{{kind: items}}]", "at_least"),
        (f"{ID}: [{{kind: items, exactly: 2, at_most: 3}}]", "exactly"),
        (f"{ID}: [{{kind: json, typo: 1}}]", "typo"),
        (f"{ID}: {{kind: json}}", ID),
        ("a: [", "YAML"),
        ("- 1", "top level"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(tmp_path, content, place):
    path = tmp_path / "rules.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=place) as raised:
        FormatValidation(FormatValidationConfig(rules_file=path))
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        read_rules(tmp_path / "none.yaml")


def test_an_unknown_kind_of_severity_is_refused():
    with pytest.raises(ValidationError):
        FormatValidationConfig(severities={"colour": 0.1})


def test_its_identity_is_what_the_rules_say_and_not_where_they_are(with_rule):
    first, same, other = with_rule(kind="json"), with_rule(kind="json"), with_rule(kind="json", length=2)
    assert first.config_hash == same.config_hash
    assert len({first.config_hash, other.config_hash, FormatValidation(FormatValidationConfig()).config_hash}) == 3


pieces = st.sampled_from(
    ["[", '{"a":', "}", "```\n", "1. a\n", "| a |\n|--|\n", "</s>", "「", "**", "、", "\ud800", "９" * 5000, "\r\n"]
)
texts = st.one_of(st.text(), st.lists(pieces, max_size=40).map("".join))
ALL_RULES = sorted(read_rules(RULES_FILE))


@given(texts, texts, st.sampled_from(ALL_RULES), st.sampled_from([None, True, False]))
def test_any_text_has_a_finding_within_its_bounds(text, question, question_id, truncated):
    one = FormatValidation(FormatValidationConfig())
    answer = answered(text, question=question, truncated=truncated, question_id=question_id)
    finding = one.examine(answer)
    assert 0 <= finding.severity <= 1
    assert bool(finding.reason) == bool(finding.details.get("violations"))
    for start, end, kind in finding.details.get("spans", []):
        assert 0 <= start < end <= len(text)
        assert kind in finding.details["violations"]


def test_deeply_nested_text_is_no_json_and_no_crash(with_rule):
    one = with_rule(kind="json")
    for text in ("[" * 100_000, '{"a":' * 20_000, "[" * 5000 + "]" * 5000):
        assert violations(one, text) <= {"json", "unfinished"}
