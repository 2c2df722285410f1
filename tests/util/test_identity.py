import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import (
    check_model_name,
    check_run_tag,
    names_of,
    run_id_of,
    safe_name,
    sha256_json,
    sha256_text,
)

pytestmark = pytest.mark.unit

# Names made of the characters that the encoding itself uses meet far more often than random ones.
_NAMES = st.text(alphabet="a_/%.5F2E", min_size=1, max_size=8) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20
)


@given(_NAMES, _NAMES)
@example("a/b", "a__b")
@example("a_/b", "a/_b")
@example("a%5F", "a__")
@example("_", "%5F")
def test_two_names_never_share_a_folder(one: str, other: str) -> None:
    assert (safe_name(one) == safe_name(other)) == (one == other)


@given(_NAMES)
@example("..")
@example(".")
@example("../../etc/passwd")
@example("C:\\x")
def test_a_safe_name_is_one_plain_folder_name(name: str) -> None:
    folder = safe_name(name)
    assert folder.isascii()
    assert folder.isprintable()
    assert folder not in {"", ".", ".."}
    assert not set(folder) & set("/\\:@\0 '\"*?<>|=")


def test_usual_names_stay_readable() -> None:
    assert safe_name("meta-llama/Llama-3.1_8B") == "meta-llama__Llama-3.1_8B"
    assert run_id_of("org/model", "july-run1") == "org__model@@july-run1"


@given(_NAMES, _NAMES)
def test_runs_of_different_models_never_share_an_identity(one: str, other: str) -> None:
    assert (run_id_of(one, "t") == run_id_of(other, "t")) == (one == other)


@given(_NAMES)
@example("a_/b")
@example("a%5F")
def test_a_run_tells_its_model_and_tag(name: str) -> None:
    assert names_of(run_id_of(name, "july-run1")) == (name, "july-run1")


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "a ", "\ta", "a\nb", "a\0b", "a\x1b[31m", "a\u200bb", "a\u202eb", "\ud800"),
        *("..", "a/../b", "./a", "a/.", "a\\b", "x" * 201, "模" * 23, "/" * 101),
    ],
)
def test_a_hostile_model_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="judge name"):
        check_model_name(name, "judge")


@pytest.mark.parametrize("name", ["gpt-5.1", "org/model", "モデル 7B", "o'brien/模型 %2F", "a:b@c", "...", "x" * 200])
def test_an_unusual_but_harmless_model_name_is_taken(name: str) -> None:
    assert check_model_name(name) == name


@pytest.mark.parametrize("tag", ["", ".", "..", "-x", "a/b", "a b", "a\n", "日本", "a@b", "x" * 101, "a\\b", "a%2F"])
def test_a_hostile_tag_is_refused(tag: str) -> None:
    with pytest.raises(ConfigurationError, match="run tag"):
        check_run_tag(tag)


@pytest.mark.parametrize("tag", ["default", "2025-07.1_a+b", "x" * 100])
def test_a_usual_tag_is_taken(tag: str) -> None:
    assert check_run_tag(tag) == tag


def test_the_hash_of_a_text_is_that_of_its_exact_utf8() -> None:
    assert sha256_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert sha256_text("日本 \r\n") == hashlib.sha256("日本 \r\n".encode()).hexdigest()
    assert sha256_text("が") != sha256_text("か\u3099")


def test_the_hash_of_a_json_value_ignores_the_order_of_keys_but_not_of_lists() -> None:
    assert sha256_json({"a": 1, "b": {"c": 2, "d": 3}}) == sha256_json({"b": {"d": 3, "c": 2}, "a": 1})
    assert sha256_json([1, 2]) != sha256_json([2, 1])
    assert sha256_json(None) != sha256_json("null")
