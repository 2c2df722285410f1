"""The table of forms: every example is read as it says, and a user's file adds to it."""

import pytest

from shaberi_dagster.plugins.discovery import PluginError
from shaberi_dagster.tasks.judges.rule import RuleJudge  # noqa: F401  (its identity has the added forms)
from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.examples import failed_examples
from shaberi_dagster.tasks.judges.rules.forms import FORMS, Form, Role, added_forms_sha256
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

pytestmark = pytest.mark.unit

OWN = [form for name in ("english", "japanese", "languages", "notation") for form in FORMS.use(name)]


@pytest.mark.parametrize("form", [pytest.param(form, id=form.name) for form in OWN])
def test_a_form_reads_its_right_examples_and_nothing_out_of_its_wrong_ones(form):
    assert list(failed_examples(form)) == []


def test_examples_that_are_not_read_as_a_form_says_are_named():
    examples = {"right": {"My tally reads 42.": "41"}, "wrong": ("The answer is 42.",)}
    form = Form(name="tally", role=Role.MARKER, pattern="my tally reads ", rules=("numeric",), **examples)
    read, unread = failed_examples(form)
    assert "reads nothing out of 'My tally reads 42.', not 41" in read
    assert "reads 42 out of 'The answer is 42.', which says no answer" in unread


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
