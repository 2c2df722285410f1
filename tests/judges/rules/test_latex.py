"""One spelling for all LaTeX that means the same."""

import threading

import pytest

from shaberi_dagster.tasks.judges.rules.base import GradedQuestion
from shaberi_dagster.tasks.judges.rules.latex import canonical
from shaberi_dagster.tasks.judges.rules.maths import MathGrader
from tests.sizes import FULL

pytestmark = pytest.mark.unit

GRADER = MathGrader()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\frac{3}{8}", "3/8"),
        (r"\frac38", r"\dfrac{3}{8}"),
        ("0.375", r"\frac{3}{8}"),
        (r"-\frac{3}{8}", r"\frac{-3}{8}"),
        (r"1\frac{4}{5}", r"\frac{9}{5}"),
        (r"10,\!080", "10080"),
        ("10,080", "10{,}080"),
        (r"11\sqrt2", r"11 \sqrt{2}"),
        (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
        (r"\sqrt{12}", "2√3"),
        (r"2\pi + 18", r"18+2\pi"),
        ("6+9i", "9i + 6"),
        (r"(a+5)(b+2)", "ab + 2a + 5b + 10"),
        ("x=5", "5"),
        (r"x \in [-2,7]", "[-2, 7]"),
        (r"-2 \le x \le 7", "[-2, 7]"),
        ("x > 5", r"(5,\infty)"),
        ("5 < x", r"(5, \infty)"),
        (r"x \leq 0", r"(-\infty, 0]"),
        (r"(-\infty, 2) \cup (3, \infty)", r"(3,\infty)\cup(-\infty,2)"),
        (r"(2,12) \cup (12,102)", r"(2, 12) \cup (12, 102)"),
        ("1,-2", r"\{-2, 1\}"),
        ("x = 1 or x = -2", "1,-2"),
        (r"x=1 \text{ or } x=-2", "-2, 1"),
        (r"1 \pm \sqrt{19}", r"1-\sqrt{19}, 1+\sqrt{19}"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
        (r"\begin{pmatrix} 1/5 \\ -18/5 \end{pmatrix}", r"\begin{bmatrix} \frac{1}{5} \\ -\frac{18}{5} \end{bmatrix}"),
        (r"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}", r"\begin{pmatrix}1&0\\0&1\end{pmatrix}"),
        ("52_8", "52_{8}"),
        ("52_8", "52"),
        (r"145^\circ", "145"),
        ("145°", r"145^{\circ}"),
        (r"15\mbox{ cm}^2", "15"),
        (r"15 \text{ cm}^2", "15 cm^2"),
        (r"864 \mbox{ inches}^2", "864 square inches"),
        (r"\$18.90", "18.90"),
        (r"\frac{270}7\text{ degrees}", r"\frac{270}{7}"),
        (r"5.4 \text{ cents}", "5.4"),
        (r"10\%", "10"),
        (r"\text{east}", "East"),
        (r"\text{(C)}", "C"),
        ("y = 2x + 3", "2x+3"),
        ("y = -2x", "2x + y = 0"),
        ("5x - 7y + 11z + 4 = 0", "-10x + 14y - 22z - 8 = 0"),
        (r"2^{10}", "1024"),
        ("4.472136", r"2\sqrt{5}"),
        (r"\cot x", r"\frac{\cos x}{\sin x}"),
        (r"x^3+3x-6", "x^3 + 3x - 6"),
        ("211 + 420 + 267", "898"),
        (r"0.\overline{3}", r"\frac{1}{3}"),
        (r"0.1\overline{6}", "1/6"),
        (r"\sin 30^\circ", r"\frac{1}{2}"),
        (r"\frac{\pi}{6}", r"30^\circ"),
        (r"x<-1 \text{ or } x>2", r"(-\infty,-1)\cup(2,\infty)"),
        (r"2\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\4\end{pmatrix}"),
        (r"\frac{1}{5}\begin{pmatrix}1\\-18\end{pmatrix}", r"\begin{pmatrix}1/5\\-18/5\end{pmatrix}"),
        ("1011_2", r"1011_{\text{two}}"),
        ("x=1, y=2", "y=2, x=1"),
        (r"10:45 \text{ a.m.}", "10:45 am"),
        (r"\emptyset", r"\varnothing"),
        (r"\mathbb{R}", r"(-\infty,\infty)"),
        (r"\left|3-x\right|", "|x-3|"),
    ],
)
def test_these_mean_the_same(first, second):
    assert GRADER.same(first, second)
    assert GRADER.same(second, first)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r"\frac{3}{8}", "8"),
        ("(2,4)", "24"),
        ("(2,4)", "(4,2)"),
        ("(2,4)", "[2,4]"),
        ("(2,4]", "[2,4)"),
        ("1,-2", "1,2"),
        ("x > 5", "x < 5"),
        (r"x \ge 5", "x > 5"),
        ("52_8", "52_9"),
        ("x+1", "y+1"),
        ("x^2", "x^3"),
        (r"\text{east}", r"\text{west}"),
        (r"\sqrt{2}", "1.41"),
        (r"\pi", "3.14"),
        ("6+9i", "6-9i"),
        ("2x+3", "2x-3"),
        ("y=2x", "y=3x"),
        (r"\begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}", r"\begin{pmatrix} 0 & 1 \\ 1 & 0 \end{pmatrix}"),
        (r"\frac{1}{0}", "0"),
        ("5", ""),
        (r"\infty", r"-\infty"),
        (r"10:45\text{ a.m.}", r"10:45\text{ p.m.}"),
        ("10:45", "10:54"),
        ("x=1,y=2", "x=2,y=1"),
        ("x=5", "y=5"),
        ("|x|", "x"),
        (r"\lfloor x\rfloor", "x"),
        (r"\lceil x\rceil", r"\lfloor x\rfloor"),
        (r"3\text{ m}", r"3\text{ cm}"),
        (r"5\text{ hours}", r"5\text{ minutes}"),
        (r"10\text{ km/h}", r"10\text{ m/s}"),
        (r"90^\circ", r"90\text{ radians}"),
        (r"\sin 30^\circ", r"\sin 30"),
        (r"0.\overline{3}", "0.3"),
        (r"x<-1 \text{ or } x>2", "-1<x<2"),
        (r"2\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("x'", "x"),
        ("10:45", "2:09"),
        (r"\sqrt{x^2}", "x"),
        (r"\sqrt{(x-1)^2}", "x-1"),
        (r"\ln(x^2)", r"2\ln x"),
        ("AB", "BA"),
        ("AB+BA", "2AB"),
        (r"2\pi r", r"2\pi R"),
        (r"3\frac{1}{2}", r"3\cdot\frac12"),
        ("0.5", r"50\%"),
        ("(1,2)", r"\{1,2\}"),
    ],
)
def test_these_mean_different_things(first, second):
    assert not GRADER.same(first, second)
    assert not GRADER.same(second, first)


def test_an_integral_without_a_value_is_read_as_it_is_written():
    assert GRADER.same(r"\int_0^1 x^x dx", r"\int_0^1 x^xdx")
    assert not GRADER.same(r"\int_0^1 x^x dx", "0.78")


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "latex",
    [
        "9^{9^{9}}",
        "9^9^9^9",
        "((9^{999})^{999})^{999}",
        "99^{9^{9}}",
        "9^{9^{9^{9}}x}",
        "100000!",
        "(9^9)!",
        "9!!!!",
        r"\sum_{n=1}^{10000000} n^2",
        r"\int_0^1 \sin(\sin x) dx",
        *([r"\int_0^1 \frac{\sin x}{x^5+3x+1} dx"] if FULL else []),
        r"\prod_{k=1}^{100000} k",
        "(x+1)^{50000}-(x-2)^{30000}",
        r"\binom{100000}{50000}",
        "{" * 500,
        "(" * 500,
        r"\frac{" * 100,
        r"\sqrt{" * 60 + "2" + "}" * 60,
        "1" * 500,
        ",".join("x" * 1) * 200,
        "^" * 300,
        "\\" * 300,
        "∞∞∞",
        "=",
        ",",
        "()",
        "",
    ],
)
def test_what_would_take_long_is_refused(latex):
    spellings: list[str] = []
    work = threading.Thread(target=lambda: spellings.append(canonical(latex)), daemon=True)
    work.start()
    work.join(timeout=60)
    assert len(spellings) == 1, "still at work after a minute"


def test_it_works_in_any_thread():
    results: list[bool] = []
    work = threading.Thread(target=lambda: results.append(GRADER.same(r"\sqrt{12}", r"2\sqrt{3}")))
    work.start()
    work.join()
    assert results == [True]


@pytest.mark.parametrize(
    ("question", "first", "second", "correct"),
    [
        ("What is the probability?", r"50\%", "0.5", True),
        ("How long is it?", r"50\%", "0.5", None),
        ("Simplify.", r"\sqrt{x^2}", "x", None),
        ("Find the product.", "AB", "BA", None),
        ("What is the circumference?", r"2\pi R", r"2\pi r", None),
        ("What is the ratio?", "10:45", "2:9", None),
        ("What is it?", "3", "4", False),
    ],
)
def test_what_is_equal_only_for_some_kinds_of_answers_depends_on_what_is_asked(question, first, second, correct):
    assert GRADER.grade(f"Answer: ${first}$", GradedQuestion(question, second)).correct is correct
