import pytest

from shaberi_dagster.exchange.trees.rows import legacy_judge

pytestmark = pytest.mark.unit


def test_the_old_prompt_is_another_configuration_of_the_same_model():
    new, old = legacy_judge("gpt-5.1-2025-11-13"), legacy_judge("gpt-5.1-2025-11-13-oldjudgeprompt")
    assert new.model == old.model == "gpt-5.1-2025-11-13"
    assert (new.prompt_version, old.prompt_version) == ("P3", "P2")
    assert new.prompt_version_source == old.prompt_version_source == "inferred"
    assert new.config_hash != old.config_hash
    assert new.judge != old.judge


def test_nothing_is_claimed_of_a_judge_that_is_not_known():
    judge = legacy_judge("someone-oldjudgeprompt")
    assert (judge.judge, judge.model) == ("someone-oldjudgeprompt", "someone")
    assert (judge.prompt_version, judge.prompt_version_source) == (None, "unknown")
    assert judge.temperature is judge.max_tokens is None


def test_self_hosted_judges_have_their_models_name():
    assert legacy_judge("llmjudge-athenev2").model == "Athene-V2-Chat"
