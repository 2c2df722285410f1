"""The examples of forms, tried: a right one is read as it says, of a wrong one nothing is read."""

from collections.abc import Iterator, Mapping

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.commitments import AnswerKind
from shaberi_dagster.tasks.judges.rules.forms import Form
from shaberi_dagster.tasks.judges.rules.registry import GRADERS

_QUESTIONS: Mapping[str, GradedQuestion] = {
    "numeric": GradedQuestion("How many apples are there? りんごは何個ですか。", "42"),
    "math": GradedQuestion("How many apples are there?", "42"),
    "mcq": GradedQuestion("Which planet has the most moons?", "C", ("Mars", "Venus", "Saturn", "Pluto", "Ceres")),
    "match": GradedQuestion("Who?", "42"),
    "yes_no": GradedQuestion("Is it?", "yes"),
}


def failed_examples(form: Form) -> Iterator[str]:
    """Say which examples of a form are not read as it says."""
    for reply, says in form.right.items():
        kinds = {"yes": "yes_no", "no": "yes_no"} | dict.fromkeys("ABCDE", "mcq")
        name = kinds.get(says, "numeric")
        name = name if not form.rules or name in form.rules else form.rules[0]
        rule = GRADERS[f"rule:{name}"]
        said = rule.extract(reply, _QUESTIONS[name])
        if said is None or not (isinstance(rule, AnswerKind) and rule.same(said, says)):
            yield f"{form.name}: rule:{name} reads {said or 'nothing'} out of {reply!r}, not {says}"
    for name in form.rules or ("numeric", "mcq"):
        for reply in form.wrong:
            if said := GRADERS[f"rule:{name}"].extract(reply, _QUESTIONS[name]):
                yield f"{form.name}: rule:{name} reads {said} out of {reply!r}, which says no answer"
