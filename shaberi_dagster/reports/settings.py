"""The settings that made the scores of runs, and their differences.

Scores of different settings are not averaged, and not compared in silence.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from shaberi_dagster.lake.statements import Catalog, fetch
from shaberi_dagster.reports.blocks import Row, grouped
from shaberi_dagster.tasks.benchmarks.registry import RULE

_HASH = re.compile("[0-9a-f]{64}")
_UNKNOWN, _NOT_SENT, _UNSET, _PROMPTS = "not recorded", "not sent", "not set", "prompts of judge"
_BY_DATES = "by dates "
_COUNTED = ("one", "another", "a third", "a fourth", "a fifth")
_QUESTION_SETTINGS = {
    "question_set": "question set",
    "n_questions": "number of questions",
    "samples": "samples of a question",
}
_GENERATION_SETTINGS = {
    "prompt_hash": "prompt of answers",
    "temperature": "temperature of answers",
    "max_tokens": "max_tokens of answers",
    "frequency_penalty": "frequency_penalty of answers",
}
QUESTIONS = frozenset(_QUESTION_SETTINGS.values())
"""Names of the settings that say which questions a run was asked."""


class Setting(NamedTuple):
    """Something that is the same for scores that go together.

    Attributes:
        benchmark: For which benchmark.
        name: What it is, in words.
        follows: Name of the setting that this one follows from: where that differs, this is not said as well.
        decides: Whether scores that differ in it do not compare: it is of the judges or passes, not of the answers.
    """

    benchmark: str
    name: str
    follows: str = ""
    decides: bool = False


SettingDifference = tuple[Setting, str]
"""A setting that is not the same for some runs, and who has what: `0.2 (A), 0.7 (B)`."""
SettingsByRun = Mapping[Setting, Mapping[str, frozenset[str]]]
"""The values by run id: several where a run was judged in parts; a run that has none is left out."""


def _values(spec: Row, settings: Row, parameters: Iterable[str], not_sent: Iterable[str]) -> Row:
    """Map the settings of a run's answers to a benchmark to their values; None is not known.

    Args:
        spec: The run's.
        settings: The benchmark's, in it.
        parameters: Names of those that not every run has.
        not_sent: Names of those that calls left out.
    """
    asked, limit = settings.get("n_questions"), settings.get("limit")
    unset = None if spec.get("origin") == "imported" else _UNSET
    values = {
        **settings,
        "n_questions": min(asked, limit) if asked and limit else asked,
        **dict.fromkeys(parameters, unset),
    }
    for name, value in settings.get("parameters", {}).items():
        values[name] = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return values | dict.fromkeys(values.keys() & set(not_sent), _NOT_SENT)


def read_settings(
    catalog: Catalog, run_ids: Sequence[str], benchmarks: Iterable[str], judges: Iterable[str], pipeline: str
) -> SettingsByRun:
    """Read the settings that made the scores of some runs: questions, settings of answers and judges, and of passes.

    Args:
        catalog: Where to read.
        run_ids: The runs.
        benchmarks: The benchmarks that matter.
        judges: The judges that matter.
        pipeline: The passes, or baseline.
    """
    found: dict[Setting, dict[str, set[str]]] = {}
    labels = {row["prompt_hash"]: row["label"] for row in fetch(catalog, "prompts")}

    def add(run_id: str, value: object, setting: Setting) -> None:
        words = _UNKNOWN if value is None else labels.get(value, str(value))
        found.setdefault(setting, {}).setdefault(run_id, set()).add(words)

    wanted = sorted(benchmarks)
    specs = [(row, json.loads(row["spec"])) for row in fetch(catalog, "runs", run_ids=run_ids)]
    for benchmark in wanted:
        of_runs = ((row, spec, spec.get("benchmarks", {}).get(benchmark)) for row, spec in specs)
        asked = [(row, spec, settings) for row, spec, settings in of_runs if settings]
        parameters = {name for *_, settings in asked for name in settings.get("parameters", {})}
        names = _QUESTION_SETTINGS | _GENERATION_SETTINGS | {name: f"{name} of answers" for name in sorted(parameters)}
        for row, spec, settings in asked:
            values = _values(spec, settings, parameters, row["not_sent"] or ())
            for key, name in names.items():
                add(row["run_id"], values.get(key), Setting(benchmark, name))
    for row in fetch(catalog, "judge_versions", run_ids=run_ids, judges=sorted(judges)):
        if row["benchmark"] in wanted:
            prompts = f"{_PROMPTS} {row['judge']}"
            of_judge = Setting(row["benchmark"], f"settings of judge {row['judge']}", prompts, decides=True)
            add(row["run_id"], row["prompts"], Setting(row["benchmark"], prompts, decides=True))
            add(row["run_id"], row["settings"], of_judge)
    for row in fetch(catalog, "pass_versions", run_ids=run_ids, pipeline=pipeline):
        if row["benchmark"] in wanted:
            passes = Setting(row["benchmark"], f"settings of the passes {pipeline}", decides=True)
            add(row["run_id"], row["pipeline_hash"], passes)
    return {
        setting: {run_id: frozenset(values) for run_id, values in by_run.items()} for setting, by_run in found.items()
    }


def differences(settings: SettingsByRun, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Say where some runs differ, setting by setting, like `tengu: temperature of answers: 0.2 (A), 0.7 (B)`."""
    found = find_differences(settings, groups)
    return [f"{setting.benchmark}: {setting.name}: {words}" for setting, words in found]


def folded(found: Iterable[SettingDifference]) -> list[str]:
    """Say the same with a line for each setting: `prompts of judge j differ on elyza, tengu: p (A), q (B)`.

    Who has what is left out where it is not the same on all benchmarks.
    """
    lines = []
    for name, of_setting in grouped(found, lambda difference: difference[0].name):
        words = {who for _, who in of_setting}
        verb = "differ" if name.partition(" ")[0].endswith("s") else "differs"
        where = ", ".join(setting.benchmark for setting, _ in of_setting)
        lines.append(f"{name} {verb} on {where}" + (f": {words.pop()}" if len(words) == 1 else ""))
    return lines


def changed_questions(catalog: Catalog, sets: Iterable[tuple[str, str, str]]) -> list[str]:
    """Say where two versions of questions ask the same, but have another answer for right.

    Args:
        catalog: Where to read.
        sets: Benchmarks, each with the question sets of both sides.
    """
    unlike = [versions for versions in sets if versions[1] != versions[2]]
    if not unlike:
        return []
    benchmarks, first, second = map(list, zip(*unlike, strict=True))
    found = fetch(catalog, "changed_questions", benchmarks=benchmarks, first=first, second=second)
    return [f"reference answers differ on {row['benchmark']} ({row['n']:,})" for row in found]


def not_recorded(settings: SettingsByRun, run_ids: Iterable[str]) -> list[str]:
    """Say which prompts of judges no one has recorded of any of some runs, and what dates tell of them."""
    judges: dict[str, dict[str, None]] = {}
    for setting, by_run in settings.items():
        values = [by_run.get(run_id, frozenset()) for run_id in run_ids]
        has_prompts = setting.name.startswith(_PROMPTS) and not setting.name.startswith(f"{_PROMPTS} {RULE}")
        known = frozenset().union(*values)
        if has_prompts and known and all(value == _UNKNOWN or value.startswith(_BY_DATES) for value in known):
            dated = "; ".join(sorted(known - {_UNKNOWN}))
            judges.setdefault(f" ({dated})" if dated else "", {})[setting.name.removeprefix(f"{_PROMPTS} ")] = None
    return [f"{_PROMPTS} {', '.join(names)} are not recorded{dated}" for dated, names in judges.items()]


def find_differences(
    settings: SettingsByRun, groups: Mapping[str, Sequence[str]], ignored: Collection[str] = ()
) -> list[SettingDifference]:
    """Find the settings in which some runs differ.

    Prompts have their labels; settings that only a hash tells apart are `one (A), another (B)`.

    Args:
        settings: From `read_settings`.
        groups: What to call some runs, and their ids.
        ignored: Names of settings that may differ.
    """
    found: dict[tuple[str, str], SettingDifference] = {}
    for setting, by_run in settings.items():
        benchmark, name = setting.benchmark, setting.name
        if name in ignored or (benchmark, setting.follows) in found:
            continue
        values = {
            label: frozenset().union(*(by_run.get(run_id, frozenset()) for run_id in run_ids))
            for label, run_ids in groups.items()
        }
        known = [label for label in values if values[label]]
        different = frozenset().union(*values.values())
        if len(known) > 1 and len(different) > 1:
            words = _in_words(different)
            parts = (
                f"{' and '.join(word for value, word in words.items() if value in values_of)} ({', '.join(names)})"
                for values_of, names in grouped(known, values.__getitem__)
            )
            found[benchmark, name] = setting, ", ".join(parts)
    return list(found.values())


def _in_words(values: Iterable[str]) -> dict[str, str]:
    """Name each value, in order: by itself, or `one`, `another` where it is a hash that has no label."""
    hashes = sorted(value for value in values if _HASH.fullmatch(value))
    numbered = [*_COUNTED, *(f"number {number + 1}" for number in range(len(_COUNTED), len(hashes)))]
    names = numbered if len(hashes) > 1 else ["unnamed"]
    return {value: value for value in sorted(values)} | dict(zip(hashes, names, strict=False))


def listed(values: Iterable[str]) -> str:
    """The values in order."""
    return ", ".join(sorted(values))
