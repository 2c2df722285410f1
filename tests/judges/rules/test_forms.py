"""The table of forms: every example is read as it says, and a user's file adds to it."""

import pytest

from shaberi_dagster.judges.rule import RuleJudge  # noqa: F401  (its identity has the added forms)
from shaberi_dagster.judges.rules.base import GradedQuestion
from shaberi_dagster.judges.rules.commitments import AnswerKind
from shaberi_dagster.judges.rules.forms import FORMS, Form, Role, added_forms_sha256
from shaberi_dagster.judges.rules.registry import GRADERS
from shaberi_dagster.plugins.discovery import PluginError

pytestmark = pytest.mark.unit

OWN = [form for name in ("english", "japanese", "languages", "notation") for form in FORMS.use(name)]
QUESTIONS = {
    "numeric": GradedQuestion("How many apples are there? りんごは何個ですか。", "42"),
    "math": GradedQuestion("How many apples are there?", "42"),
    "mcq": GradedQuestion("Which planet has the most moons?", "C", ("Mars", "Venus", "Saturn", "Pluto", "Ceres")),
    "match": GradedQuestion("Who?", "42"),
    "yes_no": GradedQuestion("Is it?", "yes"),
}


def rule_of(form: Form, says: str) -> AnswerKind:
    """The rule that knows the form and the kind of answer."""
    kinds = {"yes": "yes_no", "no": "yes_no"} | dict.fromkeys("ABCDE", "mcq")
    rule = kinds.get(says, "numeric")
    rule = GRADERS[f"rule:{rule if not form.rules or rule in form.rules else form.rules[0]}"]
    assert isinstance(rule, AnswerKind)
    return rule


@pytest.mark.parametrize(
    ("form", "reply", "says"),
    [pytest.param(form, *example, id=f"{form.name}-{example[0]}") for form in OWN for example in form.right.items()],
)
def test_a_form_reads_its_right_examples(form, reply, says):
    rule = rule_of(form, says)
    found = rule.find(reply, QUESTIONS[rule.name.removeprefix("rule:")])
    assert found is not None
    assert found.said is not None
    assert rule.same(found.said, says)
    start, end = found.span
    assert 0 <= start < end <= len(reply)


@pytest.mark.parametrize(
    ("form", "reply"), [pytest.param(form, reply, id=f"{form.name}-{reply}") for form in OWN for reply in form.wrong]
)
def test_a_form_reads_nothing_out_of_its_wrong_examples(form, reply):
    names = form.rules or ("numeric", "mcq")
    assert [GRADERS[f"rule:{name}"].extract(reply, QUESTIONS[name]) for name in names] == [None] * len(names)


def test_every_form_that_announces_an_answer_has_an_example_and_a_name_of_its_own():
    announcing = {Role.MARKER, Role.WHOLE, Role.REVERSED}
    assert [
        form.name for form in OWN if form.role in announcing and not form.right and "heading" not in form.name
    ] == []
    assert len({form.name for form in OWN}) == len(OWN)


def test_a_verdict_names_its_form_and_marks_it_in_the_reply():
    reply = "<think>Perhaps 41?</think>14 × 3 is needed.\n\n**The answer is 42 apples.** Hope this helps!"
    verdict = GRADERS["rule:numeric"].grade(reply, GradedQuestion("How many apples are there?", "42"))
    assert (verdict.correct, verdict.form) == (True, "answer_is")
    assert verdict.span is not None
    assert reply[slice(*verdict.span)].startswith("The answer is 42")


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    folder = tmp_path / "plugins" / "forms"
    folder.mkdir(parents=True)
    monkeypatch.setenv("SHABERI_PLUGINS", str(folder.parent))
    return folder


def test_a_user_s_file_adds_forms(plugins):
    question = GradedQuestion("How many?", "42")
    assert GRADERS["rule:numeric"].extract("Zzz 17. My tally reads 42 now.", question) is None
    (plugins / "mine.yaml").write_text(
        "words: {my: My}\nforms:\n  - {name: tally, role: marker, pattern: '{my} tally reads '}\n", encoding="utf-8"
    )
    verdict = GRADERS["rule:numeric"].grade("Zzz 17. My tally reads 42.", question)
    assert (verdict.correct, verdict.form) == (True, "tally")
    assert len(added_forms_sha256()) == 1


def test_a_broken_file_is_an_error_that_says_why(plugins):
    (plugins / "broken.yaml").write_text("forms:\n  - {name: bad, role: marker, pattern: '('}\n", encoding="utf-8")
    with pytest.raises(PluginError, match="pattern of bad is no regular expression"):
        GRADERS["rule:numeric"].extract("The answer is 42.", GradedQuestion("How many?", "42"))
