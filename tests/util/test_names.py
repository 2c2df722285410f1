"""Which names may have been meant, as one function says it and as commands do; and that each means one thing."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import shaberi_dagster
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.names import check_known, did_you_mean

pytestmark = pytest.mark.unit

_PACKAGE = Path(shaberi_dagster.__file__).parent


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("tengi", ["tengu", "elyza"], "did you mean tengu?"),
        ("TENGU", ["tengu", "elyza"], "did you mean tengu?"),
        ("gpt", ["gpt-5.1", "gpt-4.1", "gemini"], "did you mean gpt-4.1 or gpt-5.1?"),
        ("x", ["tengu", "elyza"], "known: tengu, elyza"),
        ("x", [], "known: none"),
        ("", ["tengu"], "known: tengu"),
    ],
)
def test_names_that_are_alike_are_offered_and_else_all(name, known, said) -> None:
    assert did_you_mean(name, known) == said


def test_of_many_names_ten_are_shown() -> None:
    assert did_you_mean("a", [f"a{n:02}" for n in range(12)]).endswith("a08, a09 or 2 more?")


def test_the_first_unknown_name_is_refused_with_where_it_was_given() -> None:
    check_known("judge", ["a", "b"], {"a", "b"})
    with pytest.raises(ConfigurationError, match=r"^--judge: no judge 'c'; the lake has a and b$"):
        check_known("judge", ["a", "c"], ["b", "a"], where="--judge")


def test_each_public_class_has_a_name_of_its_own() -> None:
    names = Counter(
        node.name
        for path in _PACKAGE.rglob("*.py")
        if "example" not in path.parts  # templates of plugins
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, n in names.items() if n > 1] == []
