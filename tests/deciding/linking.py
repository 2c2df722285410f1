"""An imported tree whose judge is at the mock endpoint, too, where it scores the same answers again."""

import re

from shaberi_dagster.deciding.link_request import LinkRequest
from shaberi_dagster.exchange.trees.importing import ImportRequest, import_trees
from shaberi_dagster.runs.spec import RunRequest
from shaberi_dagster.runs.stages.evaluation import materialize
from tests.deciding.deciding import noise
from tests.example_runs import stored_run
from tests.exchange.trees.trees import LegacyTree

MODELS = [f"org__model-{letter}" for letter in "abcdefg"]
SIZES = {"rakuda": 24, "tengu": 30}
_COLUMNS = {"tengu": {"Category": "分野", "Answer": "答え", "Criteria": "- 可"}, "rakuda": {"category": "分野"}}
_QUESTION = re.compile(r"(rakuda|tengu)の質問(\d+)は")
_ANSWER = re.compile(r"(rakuda|tengu)への(\S+)の答え(\d+)です")


def old_score(model, benchmark, number):
    """What the judge gave in the tree."""
    return round(5 + 1.5 * noise("difficulty", benchmark, number) + 1.5 * noise(model, benchmark, number))


def judging_again(offset=0.0, share_changed=0.25, seed=0):
    """A script for the mock endpoint: a share of the scores changes by one point, and some rise by one point."""

    def script(body, _):
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        if "FINAL SCORE" not in prompt:
            benchmark, number = _QUESTION.findall(prompt)[-1]
            return f"{benchmark}への{body['model']}の答え{number}です。"
        benchmark, model, number = _ANSWER.findall(prompt)[-1]
        change = noise("change", seed, model, benchmark, number)
        sign = 1 if change > 0 else -1
        rises = noise("rise", seed, model, benchmark, number) < 2 * offset - 1
        strength = 2 if model.startswith("strong") else 0
        score = old_score(model, benchmark, number) + strength + (sign if abs(change) < share_changed else 0) + rises
        return f"FINAL SCORE: {score}"

    return script


def imported(workspace, folder, models=MODELS, source="shisa", rising=(), *, judge="judge-a"):
    """Import a tree in which a judge judged the answers of some models, some numbers a point higher."""
    tree = LegacyTree(folder / source)
    for model in models:
        for benchmark, size in SIZES.items():
            rows = [
                _COLUMNS[benchmark]
                | {
                    "Question": f"{benchmark}の質問{n}は何ですか。",
                    "ModelAnswer": f"{benchmark}への{model}の答え{n}です。",
                }
                for n in range(size)
            ]
            judged = [row | {"score": old_score(model, benchmark, n) + (n in rising)} for n, row in enumerate(rows)]
            tree.answers(benchmark, rows, model=model)
            tree.judgements(benchmark, judged, judge, model=model)
    import_trees(ImportRequest({source: tree.root}), workspace)


def evaluated(model, workspace, mock, judge="judge-a", prompt="strict"):
    """Evaluate a model of today, by the judge that is linked, on the questions of the tree."""
    sets = workspace.lake.read("questions", columns=["question_set"])["question_set"].unique().to_list()
    own = {"model": model, "base_url": mock.base_url, "judge_base_url": mock.base_url, "benchmarks": list(SIZES)}
    asked = RunRequest(**own, question_sets=sets, judge_models=[judge], judge_prompt=prompt)
    spec = stored_run(workspace, asked)
    for stage in ("answers", "judgements", "scores", "metrics"):
        materialize(stage, spec.run_id, list(SIZES), workspace)


def request(mock, **values):
    """A link of judge-a with the prompt variant `strict`."""
    own = {"judge": "judge-a", "preset": "strict", "judge_base_url": mock.base_url, "questions": 20}
    return LinkRequest(**(own | values))
