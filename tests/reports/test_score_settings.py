import duckdb
import pytest

from shaberi_dagster.reports.settings import QUESTIONS, Setting, differences, find_differences, read_settings

pytestmark = pytest.mark.unit

PROMPTS, JUDGING = "prompts of judge j", "settings of judge j"


def by_run(**values):
    return {run_id: frozenset([value] if isinstance(value, str) else value) for run_id, value in values.items()}


def test_each_setting_that_differs_is_one_sentence_with_who_has_what():
    settings = {
        Setting("tengu", "temperature of answers"): by_run(r1="0.2", r2="0.7", r3="0.2"),
        Setting("elyza", "temperature of answers"): by_run(r1="0.2", r2="0.2", r3="0.2"),
    }
    groups = {"one": ["r1"], "two": ["r2"], "three": ["r3"]}
    assert differences(settings, groups) == ["tengu: temperature of answers: 0.2 (one, three), 0.7 (two)"]
    assert differences(settings, {"A": ["r1", "r3"], "B": ["r2"]}) == [
        "tengu: temperature of answers: 0.2 (A), 0.7 (B)"
    ]
    assert differences(settings, {"A": ["r1"], "B": ["r3"]}) == []


def test_one_group_alone_differs_from_nothing_and_a_run_without_a_value_has_none():
    settings = {Setting("tengu", PROMPTS): by_run(r1=("p", "q"), r2="p")}
    assert differences(settings, {"one": ["r1"]}) == []
    assert differences(settings, {"one": ["r1"], "absent": ["r9"]}) == []
    assert differences(settings, {"one": ["r1"], "two": ["r2"]}) == [f"tengu: {PROMPTS}: p and q (one), p (two)"]


def test_what_follows_from_another_difference_is_not_said_as_well():
    prompts, settings = by_run(r1="p", r2="q"), by_run(r1="c", r2="d")
    groups = {"one": ["r1"], "two": ["r2"]}
    follows = Setting("tengu", JUDGING, follows=PROMPTS)
    assert differences({Setting("tengu", PROMPTS): prompts, follows: settings}, groups) == [
        f"tengu: {PROMPTS}: p (one), q (two)"
    ]
    assert differences({follows: settings}, groups) == [f"tengu: {JUDGING}: c (one), d (two)"]


@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_settings_can_be_ignored_by_name(name):
    settings = {Setting("tengu", name): by_run(r1="a", r2="b")}
    assert find_differences(settings, {"A": ["r1"], "B": ["r2"]}, ignored=QUESTIONS) == []


def test_what_only_a_hash_tells_apart_is_said_in_words():
    first, second = "a" * 64, "b" * 64
    settings = {Setting("tengu", JUDGING): by_run(r1=first, r2=(second, first), r3="not recorded")}
    assert differences(settings, {"A": ["r1"], "B": ["r2"], "C": ["r3"]}) == [
        f"tengu: {JUDGING}: one (A), one and another (B), not recorded (C)"
    ]


def test_a_prompt_is_called_by_its_label():
    catalog = duckdb.connect()
    names = ["model", "run_tag", "status", "source", "status_by_benchmark", "superseded_by", "max_cost_usd"]
    columns = ", ".join(f"'' as {name}" for name in [*names, "created_at", "updated_at", "finished_at"])
    catalog.execute(
        f"create table runs as select 'r1' as run_id, '{{}}' as spec, null::varchar[] as not_sent, {columns}"
    )
    catalog.execute("create macro selected_runs(models, tags, sources) as table select '' as run_id")
    hashes = {"r1": "a" * 64, "r2": "b" * 64}
    catalog.execute(
        "create table judgements as select run_id, 'tengu' as benchmark, 'j' as judge, judge_prompt_hash, "
        "'c' as judge_config_hash, false as superseded, null as strategy, 'ok' as status, "
        "null as prompt_generation, null as generation_certainty "
        "from (values ('r1', $r1), ('r2', $r2)) as t(run_id, judge_prompt_hash)",
        hashes,
    )
    texts = "0 as position, '' as template, '' as source, '' as file, '' as variant, '' as purpose"
    label = "$r1 as prompt_hash, 'tengu-primary v3' as label"
    catalog.execute(f"create table prompts as select {label}, {texts}", {"r1": hashes["r1"]})
    catalog.execute("create table scores as select *, '' as pipeline, '' as pipeline_hash from judgements limit 0")
    catalog.execute("create table metrics as select *, 'legacy' as null_policy from scores")
    settings = read_settings(catalog, ["r1", "r2"], ["tengu"], ["j"], "baseline")
    assert differences(settings, {"A": ["r1"], "B": ["r2"]}) == [f"tengu: {PROMPTS}: tengu-primary v3 (A), unnamed (B)"]
