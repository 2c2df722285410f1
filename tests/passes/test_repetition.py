"""Loops are found, and what only looks like one is not; with invented texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shaberi_dagster.tasks.passes.base import Answer
from shaberi_dagster.tasks.passes.repetition import Repetition, RepetitionConfig

pytestmark = pytest.mark.unit

PROSE = (
    "川沿いの小さな町には古い橋が三つあります。朝は魚を売る人が集まり、昼は子どもたちが石段で遊びます。"
    "夕方になると灯台守だった老人が笛を吹き、遠くの丘から羊飼いが返事をするのが習わしです。"
)
SENTENCE = "窓辺の猫は今日も静かに海を見ていました。"
LONG = (
    "港の朝市では夜明け前から漁師たちが網を広げて魚を並べていました。",
    "丘の上の古い教会では毎週土曜日に子どもたちが合唱の練習をします。",
    "隣の村へ続く山道は冬になると雪に覆われて誰も通らなくなります。",
)
ENDING = "ところで別の話をします。"
TOLD = (
    "城下町の歴史は三百年前にさかのぼり、川の水運によって栄えたと伝えられています。多くの商人が集まり、"
    "市場には遠い国の品物が並びました。今では静かな通りに当時の蔵が残り、祭りの日には灯りがともされます。"
)


def varied(length, first=0):
    """That many letters in which nothing comes again."""
    return "".join(chr(0x4E00 + first + n) for n in range(length)) + "。"


def examined(text, question="町の様子を書いてください。", **settings):
    answer = Answer("rakuda", "0" * 64, question, None, None, None, text, None)
    return Repetition(RepetitionConfig(**settings)).examine(answer)


def kinds(finding):
    return {kind for _, _, kind in finding.details["spans"]}


def test_a_sentence_that_never_ends_is_a_tail_loop_with_its_place():
    text = PROSE + SENTENCE * 40
    finding = examined(text)
    assert finding.severity > 0.2
    assert kinds(finding) == {"tail_loop"}
    start, end, _ = max(finding.details["spans"], key=lambda span: span[1] - span[0])
    assert start >= len(PROSE)
    assert end > len(text) - len(SENTENCE)


def test_a_loop_that_the_answer_leaves_again_costs_less_than_one_that_never_ends():
    left = examined(PROSE + SENTENCE * 8 + PROSE[::-1])
    stuck = examined(PROSE + SENTENCE * 40)
    assert "loop" in kinds(left)
    assert 0 < left.severity < stuck.severity


def test_short_units_without_any_sentence_are_loops_too():
    for unit in ("有名な", "、それから", "ha ", "abc-"):
        assert examined(PROSE + unit * 200).severity > 0.1, unit


def test_marks_of_a_template_that_run_on_are_a_loop():
    assert kinds(examined(PROSE + "<|eot_id|>" * 7)) == {"tail_loop"}


def test_a_short_answer_can_be_all_loop():
    assert examined("うみ やま " * 12).severity > 0


def test_a_passage_that_comes_again_is_a_repeat():
    finding = examined(PROSE + "ところで別の話をします。天気は晴れで風はありません。" + PROSE)
    assert kinds(finding) == {"repeat"}
    assert finding.severity > 0


def test_sentences_of_several_places_are_a_repeat_when_they_come_again():
    first, second, third = (
        PROSE[:40],
        "峠の茶屋では団子と甘酒が名物で、週末には遠くから客が来て長い列を作ります。",
        PROSE[45:85],
    )
    elsewhere = "別の話ですが、冬の朝は霜が降りて畑が白くなり、鳥の声もしばらく聞こえません。"
    apart = first + elsewhere + second + elsewhere[::-1] + third
    again = "さて。" + second + third + first
    assert kinds(examined(apart + again)) == {"repeat"}


@pytest.mark.parametrize(("others", "least"), [(100, 26), (400, 40), (9000, 50)])
def test_how_much_has_to_come_again_grows_with_the_answer_up_to_a_limit(others, least):
    for letters in (least - 1, least):
        sentence = varied(letters, 12000)
        finding = examined(varied(others) + sentence + ENDING + sentence)
        assert (finding.severity > 0) == (letters == least), letters


def test_a_section_that_is_told_again_with_some_words_changed_is_a_repeat():
    again = TOLD.replace("三百年", "四百年").replace("多くの商人", "大勢の旅人").replace("静かな", "小さな")
    assert kinds(examined(varied(300) + TOLD + varied(200, 5000) + again)) == {"repeat"}


def test_what_is_quoted_or_stands_in_the_question_may_come_again_once():
    text = varied(60) + LONG[0]
    for again in (f"「{LONG[0]}」", f'"{LONG[0]}"', f"```\n{LONG[0]}\n```"):
        assert examined(text + ENDING + again).severity == 0, again
        assert examined(text + ENDING + again + varied(20, 7000) + again).severity > 0, again
    assert examined(text + ENDING + LONG[0], "次の文を説明してください。" + LONG[0]).severity == 0
    assert examined(text + ENDING + LONG[0]).severity > 0


def test_labels_of_list_items_are_not_what_comes_again():
    label, kinds_of = "この町で一年のうちに見られる主な花と樹木の名前", ("梅と松", "藤と桐", "菊と楓", "椿と杉")
    items = [f"- **{label}**: {name}\n" for name in kinds_of]
    assert examined(varied(100) + "\n" + "".join(items)).severity == 0
    assert examined(varied(100) + "\n" + "".join(f"{label}、{name}。\n" for name in kinds_of)).severity > 0


@pytest.mark.parametrize(("letters", "counts"), [(20, False), (24, True)])
def test_sentences_that_stand_there_three_times_count_and_phrases_do_not(letters, counts):
    sentences = [
        "窓辺の猫が今日も静かに遠い海の波を見ていましたとさ",
        "港の船が夕方になると一斉に白い帆を畳むのでしたとさ",
        "石段を登る子どもたちが三つ数えて笑っていましたとさ",
        "羊飼いが遠くの丘から笛の音に何度も返事をしましたが",
    ]
    units = [sentence[:letters] for sentence in sentences] * 3
    between = [f"。{chr(0x4E00 + 7 * n)}村の{chr(0x5100 + 11 * n)}岳、" for n in range(len(units))]
    finding = examined(PROSE + "".join(name + unit for name, unit in zip(between, units, strict=True)))
    assert (finding.severity > 0) == counts


IN_A_LINE = ("港の船は白い帆を畳むのでした、", "という事実上「それ」が正しいこと", "白い帆を畳むのでした。")


@pytest.mark.parametrize(
    ("unit", "times", "is_loop"),
    [
        *((unit, times, times > 1) for unit in IN_A_LINE for times in (1, 2, 3)),
        *(("（潮が満ちると港から白い船が出る、）\n", times, times > 2) for times in (1, 2, 3)),
        *(("白い帆の船\n", times, times > 3) for times in (2, 3, 4)),
        *((SENTENCE[:-1] + "、波と\n", times, times > 1) for times in (1, 2)),
        *(("the white sails of the boats in the harbour were folded, ", times, times > 1) for times in (1, 2)),
        ("the white sails were folded, ", 2, False),
    ],
)
def test_what_follows_itself_is_a_loop_from_fewer_letters_on_within_a_line(unit, times, is_loop):
    finding = examined(PROSE + "\n" + unit * times + "\n" + PROSE[::-1])
    assert (finding.severity > 0, kinds(finding)) == (is_loop, {"loop"} if is_loop else set())


def test_a_loop_may_begin_or_end_with_other_signs():
    for signs in ("。。。.", "（。。。"):
        text = "".join(f"港の船は白い帆を畳むのでした{sign}" for sign in signs) + "港の船"
        assert "loop" in kinds(examined(varied(500) + text + varied(500, 5000))), signs


def test_a_sentence_that_follows_itself_may_begin_otherwise():
    sentence = "灯台の明かりが岬の向こうを照らすと船は静かに港へ帰りました。"
    assert "loop" in kinds(examined(varied(500) + "そして" + sentence + "\n\nまた" + sentence + varied(500, 5000)))
    assert (
        examined(varied(500) + "そして" + sentence + "\n\nところがある日の夕方" + sentence + varied(500, 5000)).severity
        == 0
    )


def test_lines_of_other_labels_do_not_follow_themselves():
    values = "岬の灯台のそばの古い石造りの倉庫の二階の部屋"
    for first, second, is_loop in (("朝", "夕", False), ("朝", "朝", True)):
        lines = f"- **{first}の集合**: {values}\n- **{second}の集合**: {values}\n"
        assert (examined(varied(600) + "\n" + lines + varied(600, 5000)).severity > 0) == is_loop
    amounts = "".join(
        f"- {place}: 30万円くらい\n" for place in ("東の町", "西の町", "南の町", "北の町", "中の町", "谷の町")
    )
    assert examined(PROSE + "\n" + amounts).severity == 0


def test_beginnings_and_ends_of_sentences_that_go_on_otherwise_are_built_alike():
    places = ("岬の灯台", "丘の教会", "谷の水車", "峠の茶屋")
    alike = "".join(
        f"{n}. 海辺の町に昔から住む人々を助けるために{place}を使用する。\n" for n, place in enumerate(places, 1)
    )
    assert examined(varied(60) + "\n" + alike).severity == 0
    same = "".join(f"{n}. 海辺の町に昔から住む人々を助けるために岬の灯台を使用する。\n" for n in range(1, 5))
    assert examined(varied(60) + "\n" + same).severity > 0


def test_a_sentence_that_is_put_together_from_phrases_of_several_places_is_new():
    phrases = ("港の朝市で魚を売る漁師", "丘の教会で歌う子どもら", "冬の山道を歩く旅人たち")
    apart = "".join(varied(9, 3000 + 20 * n) + phrase + "、" for n, phrase in enumerate(phrases))
    assert examined(apart + varied(9, 4000) + "".join(phrases) + "。").severity == 0
    assert examined(apart + "".join(phrases) + "。" + varied(9, 4000) + "".join(phrases) + "。").severity > 0


def test_sentences_shorter_than_that_count_where_a_passage_comes_again():
    passage = "猫は海を見ていた。鳥は丘で鳴いた。羊は谷で眠った。犬は橋を渡った。"
    assert examined(varied(200) + passage + ENDING + passage).severity > 0
    apart = "".join(varied(12, 3000 + 40 * n) + part + "。" for n, part in enumerate(passage.split("。")[:-1]))
    assert examined(varied(200) + passage + apart).severity == 0


def test_three_lines_that_differ_in_their_signs_are_no_loop():
    lines = [f"{signs} の組はどれも正しく閉じられています。\n" for signs in ("`{}`", "`{[ ]}`", "`[ { } ]>`")]
    assert examined(PROSE + "".join(lines) + PROSE[::-1]).severity == 0
    assert examined(PROSE + lines[0] * 3 + PROSE[::-1]).severity > 0


def test_case_width_spacing_and_list_numbers_do_not_hide_a_repetition():
    second = "2. " + PROSE.replace("、", " ， ").replace("。", "．\n")
    assert examined(f"1. {PROSE}\n\n{second}").severity > 0


def test_lines_that_differ_in_their_numbers_only_are_numbered():
    assert "numbered" in kinds(examined("\n".join(f"{n}. 第{n + 3}地区の観測所" for n in range(1, 60))))


def test_counting_without_end_is_numbered():
    assert kinds(examined(PROSE + "\n".join(f"{n}." for n in range(1, 200)))) == {"numbered"}


def test_long_stretches_of_signs_are_filler():
    for filler in ("*\t \n" * 300, "* " * 300, "。" * 400):
        assert kinds(examined(PROSE + filler + "終わり")) == {"filler"}, filler[:4]


@pytest.mark.parametrize(
    "blank", ["\t \n", "\u200b", "\u00ad", "\ufeff", "\u3000", "\u00a0", "\u2060", "\u3164", "\ufe0f", "\u2800"]
)
def test_blanks_that_nobody_sees_are_no_repetition(blank):
    assert examined(f"{PROSE}{blank * 2000}{PROSE[::-1]}").severity == 0
    assert examined(blank.join(PROSE)).severity == 0
    assert kinds(examined(f"{PROSE}{(blank + '*') * 300}")) == {"filler"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "はい。",
        PROSE,
        "県,市\n" + "\n".join(f"{a}{b}県,{b}{a}市" for a in "東西南北上下" for b in "山川海森野原"),
        "| 品 | 値段 |\n|" + "-" * 300 + "|" + "-" * 300 + "|\n| 茶 | 300 |\n| 米 | 500 |",
        "\n".join(f"- 2024-{m:02}-{d:02}, {m * 31.5:.2f}, {d * 17.25:.2f}" for m in range(1, 13) for d in (1, 15)),
        "[\n" + ",\n".join(f'  {{"name": "item{n}", "properties": {{"size": {n}}}}}' for n in range(6)) + "\n]",
        "春は花\n花は散りゆく\n\n夏は風\n花は散りゆく\n\n秋は月\n花は散りゆく\n\n冬は雪\n花は散りゆく",
        "10 の 100 乗は 1" + "0" * 100 + " です。",
        "見出し\n" + "ー" * 60 + "\n本文です。\n" + "=" * 60,
        "".join(
            f"- **受賞**: 国際長編記録映画祭審査員特別部門最優秀賞（{n}年）\n  **監督**: {n}山{n}子\n"
            for n in "一二三四"
        ),
        "用語の一覧\n"
        + "".join(f"- 川{n}の流れる町{n}の旧い名:\n" for n in "一二三四五六七八九十東西南北上下左右前後") * 2,
        "直す前:\n```python\n"
        + 3 * "total = sum(prices)\n"
        + "```\n直した後:\n```python\n"
        + "total = sum(prices)\n```",
        "".join(f"- 目的{n}: [具体的な目標を書く]\n" for n in range(1, 9)),
        "[https://example.org/harbour/lighthouse/opening-hours](https://example.org/harbour/lighthouse/opening-hours)",
        "| 岬の灯台 | 朝から夕方まで見学できます | 朝から夕方まで見学できます |",
        '[{"name": "lighthouse", "place": "harbour"}, {"name": "lighthouse", "place": "harbour"}]',
        "3. Walks along the harbour in the early morning: Walks along the harbour in the early morning are quiet.",
        "面積は\n\\[ \\frac{\\sqrt{2} + \\sqrt{5}}{2} = \\frac{\\sqrt{2} + \\sqrt{5}}{2} \\]\nです。",
    ],
    ids=[
        "empty",
        "word",
        "prose",
        "csv",
        "table",
        "data",
        "json",
        "poem",
        "number",
        "rules",
        "records",
        "labels",
        "code",
        "form",
        "link",
        "cells",
        "braces",
        "english_label",
        "formula",
    ],
)
def test_what_only_looks_like_a_loop_costs_nothing(text):
    assert examined(text).severity == 0


@pytest.mark.timeout(20)
def test_marks_that_never_close_take_no_longer_than_other_text():
    for mark in ("「", "『", "“", '"', "`", "```\n", "a:\n"):
        examined(mark * 50_000)
    examined(PROSE, "1" * 50_000)


def test_what_the_question_asks_to_repeat_costs_nothing():
    text = "ありがとう。" * 100
    assert examined(text).severity > 0
    assert examined(text, "「ありがとう」と100回書いてください。").severity == 0
    assert examined(text, "Please repeat the word thank-you 100 times.").severity == 0


def test_the_curve_says_what_a_share_costs():
    text = SENTENCE * 60
    assert examined(text, curve=((0.0, 0.1), (1.0, 0.1))).severity == 0.1
    assert examined(text, curve=((0.0, 0.0), (0.5, 1.0))).severity == 1.0


@pytest.mark.parametrize("curve", [(), ((0.5, 0.1), (0.2, 0.3)), ((0.0, 1.5),)])
def test_a_curve_that_is_none_is_refused(curve):
    with pytest.raises(ValidationError):
        RepetitionConfig(curve=curve)


def test_other_settings_are_another_identity():
    assert Repetition(RepetitionConfig()).config_hash != Repetition(RepetitionConfig(least_letters=55)).config_hash


def test_evidence_is_bounded_however_much_there_is():
    sentences = [
        f"{chr(0x4E00 + n * 37)}{chr(0x5000 + n * 41)}の岬にある宿で三日を過ごしたと旅人は語った。" for n in range(90)
    ]
    text = "".join(sentences * 2) + "".join(sentences[::-1] * 2)
    assert len(examined(text).details["spans"]) <= 50


pieces = st.sampled_from([PROSE, SENTENCE, "a b ", "\n", "１２3", "```\n", "|--|", "\ud800", "\x00", "🙂", "م", "한국"])
texts = st.one_of(
    st.text(), st.lists(pieces, max_size=60).map("".join), st.text(max_size=30).map(lambda unit: unit * 20)
)


@given(texts, texts)
def test_any_text_has_a_finding_within_its_bounds(text, question):
    finding = examined(text, question)
    assert 0 <= finding.severity <= 1
    assert finding.reason or finding.severity == 0
    for start, end, kind in finding.details.get("spans", []):
        assert 0 <= start < end <= len(text)
        assert kind in {"tail_loop", "loop", "repeat", "numbered", "filler"}
    assert examined(text, question) == finding
