"""Reading of a version of the old suite: prompts from its source, the rest by the hashes of what is known.

A function that scores or asks is looked up by the hash of its structure (`generations.csv`), so its code is neither run
nor understood. Prompts, examples, lists of models and system messages are literals and texts with fields, and are read.
"""

import ast
import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from shaberi_dagster.exchange.suite.checkout import FILES
from shaberi_dagster.exchange.suite.prompts import PromptReader, RefusedError, escaped, refused
from shaberi_dagster.exchange.suite.structure import structure
from shaberi_dagster.plugins.discovery import load_yaml
from shaberi_dagster.tasks.judges.sets import AdoptedBenchmark, AdoptedMessage
from shaberi_dagster.tasks.judges.suite_calls import AdoptedAnswers, AdoptedJudging

_CONFIG, _CALLS, *_ = FILES
_TABLE, _LEFT_OUT, _EVALUATOR = "EVAL_MODEL_CONFIGS", "EXCLUDED_QUESTION_IDS_BY_DATASET", "evaluator_function"
_EXAMPLE, _EXAMPLE_EVALUATION = "tengu_example_question_answer", "tengu_example_evaluation"
_SECOND_CALL = "_fallback_score_from_analysis"
_NAMES = {"tengu": "tengu", "elyza": "elyza", "mt-bench": "mt_bench", "mt_bench": "mt_bench", "rakuda": "rakuda"}
"""Parts of the names of the suite's data sets, and our benchmarks."""
_FUNCTIONS = {
    "tengu": ("get_tengu_prompt", "tengu_bench_evaluator"),
    "elyza": ("get_elyza_prompt", "elyza_evaluator"),
    "mt_bench": ("get_mt_prompt", "mt_evaluator"),
    "rakuda": ("get_rakuda_prompt", "rakuda_evaluator"),
}
"""What makes a benchmark's prompt, and what asks and scores."""
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "tengu": {"Answer": "reference", "Criteria": "criteria", "Category": "category"},
    "elyza": {"output": "reference", "eval_aspect": "criteria"},
    "mt_bench": {"id": "upstream_id", "category": "category"},
    "rakuda": {"category": "category", "question_id": "upstream_id"},
}
"""Columns of the data sets beside the question's, and our fields."""
_WITHOUT_SYSTEM = frozenset({"G0", "G1", "G2"})
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass
class ReadSuite:
    """All that was read of a checkout.

    Attributes:
        benchmarks: By our names.
        judging: How judges are asked; None where it is not known.
        answers: How answers are asked for; None where it is not known.
        refused: What was not read or is not known, and why.
    """

    benchmarks: dict[str, AdoptedBenchmark] = field(default_factory=dict)
    judging: AdoptedJudging | None = None
    answers: AdoptedAnswers | None = None
    refused: list[str] = field(default_factory=list)

    @contextmanager
    def noting(self, what: str) -> Iterator[None]:
        """Note the reason where something is refused."""
        try:
            yield
        except RefusedError as error:
            self.refused.append(f"{what}: {error}")


def read_suite(files: Mapping[str, str]) -> ReadSuite:
    """Read a checkout.

    Args:
        files: Texts of the suite's files by path.

    Raises:
        RefusedError: It has no table of data sets.
    """
    source = _Source(files)
    suite = ReadSuite(refused=list(source.unreadable))
    for dataset, evaluator in source.datasets():
        benchmark = next((name for part, name in _NAMES.items() if part in dataset.lower()), None)
        if benchmark is None:
            suite.refused.append(f"{_CONFIG}: this project has no benchmark {dataset}")
            continue
        with suite.noting(benchmark):  # without a known parser, its prompts stay
            read = suite.benchmarks[benchmark] = source.prompts(benchmark, dataset)
            suite.benchmarks[benchmark] = read.model_copy(update=source.scoring(benchmark, evaluator))
    with suite.noting("judges"):
        suite.judging = source.judging()
    with suite.noting("answers"):
        suite.answers = source.answers()
    return suite


@cache
def known(part: str) -> Mapping[tuple[str, str], Mapping[str, str]]:
    """Return the known definitions of a part (`score`, `judge`, `thinking`, `answers`).

    They are behaviours by hash, by file and name.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    with Path(__file__).with_name("generations.csv").open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            if row["part"] == part:
                found.setdefault((row["file"], row["name"]), {})[row["structure"]] = row["behaviour"]
    return found


@cache
def parameters() -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of all generations, of `answers` and of `judges`."""
    values: Mapping[str, Mapping[str, Any]] = load_yaml(Path(__file__).with_name("parameters.yaml").read_text("utf-8"))
    return values


class _Source:
    """The suite's four files, parsed: those of the folder that has the table of data sets."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.unreadable: list[str] = []
        self._paths: dict[str, str] = {}
        self._definitions: dict[tuple[str, str], ast.stmt] = {}
        configs = (path for path in files if PurePosixPath(path).name == _CONFIG)
        config = min(configs, key=lambda path: (path.count("/"), path), default=_CONFIG)
        for file in FILES:
            path = self._paths[file] = str(PurePosixPath(config).with_name(file))
            try:
                tree = ast.parse(files.get(path, ""))
                ast.unparse(tree)  # which fails where something lies too deep to be read
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                line = getattr(error, "lineno", None)
                self.unreadable.append(f"{path}{f':{line}' if line else ''}: does not parse")
                continue
            for statement in tree.body:
                self._definitions |= {(file, name): statement for name in _defined(statement)}

    def datasets(self) -> list[tuple[str, str]]:
        """Return the names of the data sets and of what evaluates them."""
        table = getattr(self._definitions.get((_CONFIG, _TABLE)), "value", None)
        if not isinstance(table, ast.Dict):
            reason = "; ".join((f"no {_TABLE}, the table of data sets, was found", *self.unreadable))
            raise RefusedError(self._paths[_CONFIG], reason)
        found = []
        for key, entry in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(entry, ast.Dict):
                names = {ast.unparse(name): value for name, value in zip(entry.keys, entry.values, strict=True) if name}
                found.append((str(key.value), ast.unparse(names.get(repr(_EVALUATOR), entry))))
        return found

    def prompts(self, benchmark: str, dataset: str) -> AdoptedBenchmark:
        """Read the prompts of a benchmark."""
        column_of = {"Question": "question", "ModelAnswer": "answer", **_COLUMNS[benchmark]}
        row: dict[str, str | None] = {column: f"{{{name}}}" for column, name in column_of.items()}
        without = {column: None if column_of[column] == "reference" else text for column, text in row.items()}
        reader = PromptReader(self._paths[_CONFIG], {"remove_think_tag": self._behaviour("score", "remove_think_tag")})
        function = self._function(_FUNCTIONS[benchmark][0])
        asked = AdoptedMessage(role="user", content=reader.text(function, row))
        other = reader.text(function, without)
        return AdoptedBenchmark(
            dataset=dataset,
            left_out=tuple(sorted(map(int, self._literal(_LEFT_OUT, {}).get(dataset, ())))),
            messages=(*(self._example(reader, function) if benchmark == "tengu" else ()), asked),
            without_reference=None if other == asked.content else other,
        )

    def _example(self, reader: PromptReader, function: ast.FunctionDef) -> tuple[AdoptedMessage, ...]:
        """Return the example of Tengu: a row, and its evaluation."""
        if not self._behaviour("score", "make_tengu_conversation"):
            raise RefusedError(self._paths[_CONFIG], "has no make_tengu_conversation")
        values = self._literal(_EXAMPLE, {})
        example = {name: None if value is None else escaped(str(value)) for name, value in values.items()}
        evaluation = escaped(self._literal(_EXAMPLE_EVALUATION, ""))
        return (
            AdoptedMessage(role="user", content=reader.text(function, example)),
            AdoptedMessage(role="assistant", content=evaluation),
        )

    def scoring(self, benchmark: str, evaluator: str) -> dict[str, Any]:
        """Return the parser of a benchmark, and the second call that it makes."""
        expected = _FUNCTIONS[benchmark][1]
        if evaluator != expected:
            raise RefusedError(self._paths[_CONFIG], f"{evaluator} is no known parser")
        flow = self._behaviour("score", expected)
        parser = self._behaviour("score", "get_tengu_eval_score") if benchmark == "tengu" else flow
        if not parser or not flow:
            raise RefusedError(self._paths[_CONFIG], f"has no {expected} that parses scores")
        asks_again = flow in {"F1", "S6"} and self._behaviour("score", _SECOND_CALL)
        return {"parser": parser, "second_call": self._second_call(expected) if asks_again else None}

    def _second_call(self, evaluator: str) -> str:
        """Return the text of the second call: that of the function, with the scale that the evaluator names."""
        function, caller = self._function(_SECOND_CALL), self._function(evaluator)
        called = (node for node in ast.walk(caller) if isinstance(node, ast.Call))
        scale = next(call.args[3] for call in called if ast.unparse(call.func) == _SECOND_CALL)
        texts = (node.value for node in ast.walk(function) if isinstance(node, ast.Assign))
        prompt = next(text for text in texts if isinstance(text, ast.JoinedStr))
        reader = PromptReader(self._paths[_CONFIG], {})
        fields = {"question_text": "{question}", "answer_text": "{answer}", "analysis_text": "{judgement}"}
        return reader.value_text(prompt, fields | {"scale_description": reader.value_text(scale, {})})

    def judging(self) -> AdoptedJudging:
        """Return how judges are asked."""
        found, thinking = self._behaviours("judge"), self._behaviours("thinking")
        eras = [set(behaviour.split()) for behaviour in ({"get_response_func": "K0"} | found).values()]
        (era, *others) = sorted(set.intersection(*eras)) or [""]
        if not found or others or not era or "evaluate" not in thinking:
            raise RefusedError(self._paths[_CALLS], "its functions are of no known generation together")
        gemini = "get_response_from_litellm_gemini"
        rules = [
            rule | ({"system": self._system(gemini)} if "model" in rule else {}) for rule in parameters()["judges"][era]
        ]
        return AdoptedJudging.model_validate({"removes_thinking": thinking["evaluate"] == "H2", "rules": rules})

    def answers(self) -> AdoptedAnswers:
        """Return how answers are asked for."""
        found = self._behaviours("answers")
        name = found.get("get_answer", found.get("get_answerer", ""))
        era = parameters()["answers"].get(name)
        if era is None or not {"main", "load_model_dataset"} <= found.keys():
            raise RefusedError(self._paths[_CALLS], "its functions are of no known generation together")
        own = {
            "system": "" if name in _WITHOUT_SYSTEM else self._system("get_answer"),
            "frequency_penalty": float(found["main"]),
            "openai_names": self._list("get_answer", "openai_prefixes"),
            "thinking_models": self._list("get_answer", "thinking_models"),
        }
        return AdoptedAnswers.model_validate(era | own)

    def _behaviours(self, part: str) -> dict[str, str]:
        """Return the behaviours of the definitions of a part that are there."""
        found = {name: self._behaviour(part, name) for _, name in known(part)}
        return {name: behaviour for name, behaviour in found.items() if behaviour}

    def _behaviour(self, part: str, name: str) -> str:
        """Return the behaviour of a definition; "" without one of that name.

        Raises:
            RefusedError: It is not one of those that are known.
        """
        (file,) = (file for file, other in known(part) if other == name)
        if (statement := self._definitions.get((file, name))) is None:
            return ""
        behaviour = known(part)[file, name].get(structure(statement))
        if behaviour is None:
            place = f"{self._paths[file]}:{statement.lineno}"
            raise RefusedError(place, f"{name} is not known: it differs from that of every known version")
        return behaviour

    def _function(self, name: str) -> ast.FunctionDef:
        statement = self._definitions.get((_CONFIG, name))
        if not isinstance(statement, ast.FunctionDef):
            raise RefusedError(self._paths[_CONFIG], f"has no function {name}")
        return statement

    def _literal(self, name: str, usual: Any) -> Any:
        """Return a literal; one of another type is refused."""
        value = getattr(self._definitions.get((_CONFIG, name)), "value", None)
        return usual if value is None else literal(self._paths[_CONFIG], value, type(usual))

    def _system(self, function: str) -> str:
        """Return the system message of a function.

        Raises:
            RefusedError: It sends none that can be read.
        """
        for node in self._within(function):
            if isinstance(node, ast.Dict):
                entry = {ast.unparse(key): value for key, value in zip(node.keys, node.values, strict=True) if key}
                if ast.unparse(entry.get("'role'", node)) == "'system'" and "'content'" in entry:
                    content = entry["'content'"]
                    text: str = literal(
                        self._paths[_CALLS], self._assigned(function, ast.unparse(content), content), str
                    )
                    return text
        raise RefusedError(self._paths[_CALLS], f"{function} sends no system message that is read")

    def _list(self, function: str, name: str) -> tuple[str, ...]:
        """Return a list of texts that a function begins with; () where it has none of that name."""
        return tuple(dict.fromkeys(literal(self._paths[_CALLS], self._assigned(function, name, ast.List([])), list)))

    def _assigned(self, function: str, name: str, usual: ast.expr) -> ast.expr:
        """Return what a function first assigns to a name."""
        assigned = (node for node in self._within(function) if isinstance(node, ast.Assign))
        return next((node.value for node in assigned if ast.unparse(node.targets[0]) == name), usual)

    def _within(self, function: str) -> list[ast.AST]:
        statement = self._definitions.get((_CALLS, function))
        return list(ast.walk(statement)) if statement else []


def literal(path: str, node: ast.expr, kind: type) -> Any:
    """Return the value of a literal.

    Raises:
        RefusedError: It is not valid, or of another type.
    """
    with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        if isinstance(value := ast.literal_eval(node), kind):
            return value
    raise refused(path, node, f"is no literal {kind.__name__}")


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines."""
    is_definition = isinstance(statement, _DEFINITIONS)
    for node in [statement] if is_definition else ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (*_DEFINITIONS, ast.alias)):
            yield getattr(node, "asname", None) or node.name
