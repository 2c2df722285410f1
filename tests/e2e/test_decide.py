"""`shaberi decide` as a user meets it."""

import json

import pytest

from tests.commands import lake_of, run, run_without_dagster
from tests.deciding.deciding import judging
from tests.example_runs import write_questions
from tests.mock_endpoint import running_mock

pytestmark = pytest.mark.e2e


@pytest.mark.long
def test_two_models_are_decided_between_and_the_command_for_the_rest_pays_only_for_the_rest(tmp_path) -> None:
    questions = write_questions(tmp_path / "questions", 48)
    with running_mock(script=judging({"strong": 2.0})) as mock:
        where = ["--base-url", mock.base_url, "--judge-base-url", mock.base_url, "--questions", questions]
        asked = ["decide", "weak", "strong", "--judge", "judge-a", "--benchmark", "rakuda", *where, "--json"]

        plan = json.loads(run("shaberi", *asked, "--dry-run", environment=lake_of(tmp_path)).succeeded().out)
        assert mock.stats()["requests"] == 0
        found = json.loads(run("shaberi", *asked, environment=lake_of(tmp_path)).succeeded().out)
        made = mock.stats()["requests"]
        command, *_ = found["full_evaluation"]
        program, *arguments = command.split()
        run_without_dagster(program, *arguments, environment=lake_of(tmp_path)).succeeded()

        assert plan["decision_id"] == found["decision_id"]
        assert found["verdict"] == "strong@@default is better"
        assert made == found["calls"] == 4 * found["n_asked"]
        assert mock.stats()["requests"] - made == 2 * (48 - found["n_asked"])


def test_what_cannot_be_decided_is_said_in_one_line(tmp_path) -> None:
    finished = run("shaberi", "decide", "one", "--judge", "j", environment=lake_of(tmp_path))

    assert "between two or more" in finished.complaint
