"""The zero-call consensus."""

import pytest

from shaberi_dagster.tasks.judges.rules.plurality import Vote, plurality

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("extractions", "vote"),
    [
        (["A", "B", "B"], Vote(1, 2, 2 / 3, decided=True)),
        (["A", "B", "B", "A"], Vote(0, 2, 0.5, decided=True)),
        ([None, "B", None], Vote(1, 1, 1.0, decided=True)),
        ([None, None], Vote(0, 0, 0.0, decided=False)),
        (["7"], Vote(0, 1, 1.0, decided=True)),
    ],
)
def test_the_most_frequent_answer_wins_and_the_first_of_equals(extractions, vote):
    assert plurality(extractions) == vote


def test_without_samples_there_is_no_vote():
    with pytest.raises(ValueError, match="at least one sample"):
        plurality([])
