"""All graders by name; a benchmark's entry names its own."""

from shaberi_dagster.grading.base import Grader
from shaberi_dagster.grading.match import MatchGrader, YesNoGrader
from shaberi_dagster.grading.maths import MathGrader
from shaberi_dagster.grading.mcq import ChoiceGrader
from shaberi_dagster.grading.numeric import NumericGrader

GRADERS: dict[str, Grader] = {
    grader.name: grader for grader in (NumericGrader(), ChoiceGrader(), MathGrader(), MatchGrader(), YesNoGrader())
}
