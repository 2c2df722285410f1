"""Reading of the suite's benchmarks from its sources: what judges and models are sent, and how scores are found."""

import ast
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shaberi_dagster.exchange.suite.evaluate import Reader, SuiteWalk, read_source
from shaberi_dagster.exchange.suite.sources import Sources
from shaberi_dagster.exchange.suite.values import (
    Closure,
    External,
    Outside,
    RefusedError,
    Symbol,
    SymbolicRow,
    SymbolicRows,
)
from shaberi_dagster.judges.programs import SuiteError, nodes, run
from shaberi_dagster.judges.sets import AdoptedBenchmark

_NAMES = {"tengu": "tengu", "elyza": "elyza", "mt-bench": "mt_bench", "mt_bench": "mt_bench", "rakuda": "rakuda"}
"""Parts of the names of the suite's data sets, and our benchmarks."""
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "tengu": {"Answer": "reference", "Criteria": "criteria", "Category": "category"},
    "elyza": {"output": "reference", "eval_aspect": "criteria"},
    "mt_bench": {"id": "upstream_id", "category": "category"},
    "rakuda": {"category": "category", "question_id": "upstream_id"},
}
"""Columns of the data sets beside the question's, and our fields."""
_QUESTION, _ANSWER = "Question", "ModelAnswer"
_EVALUATOR, _COLUMN = "evaluator_function", "question_column"
_MOST_POSITIONS = 500
_LOADERS = ("datasets.load_dataset", "load_dataset", "datasets.Dataset.from_json", "datasets.load_from_disk")
_MODEL = Symbol({"input": "model"})


@dataclass
class ReadSuite:
    """All that was read of a checkout.

    Attributes:
        benchmarks: By our names. Inputs of a judge's program are an answer, its question and the judge's model; it
            returns `score`.
        answers: Program of an answer: inputs are question and model; it returns what is kept of the reply.
        refused: What was not read, and why.
    """

    benchmarks: dict[str, AdoptedBenchmark] = field(default_factory=dict)
    answers: Mapping[str, Any] | None = None
    refused: list[str] = field(default_factory=list)


def read_suite(files: Mapping[str, str]) -> ReadSuite:
    """Read a checkout.

    Args:
        files: Texts of its Python files by path.

    Raises:
        RefusedError: It has no table of data sets.
    """
    sources = Sources(files)
    suite = ReadSuite(refused=list(sources.unreadable.values()))
    table_file, table_name, datasets = _table(sources)
    places = _Places(sources, table_file, table_name)
    for dataset in datasets:
        benchmark = next((name for part, name in _NAMES.items() if part in dataset.lower()), None)
        if benchmark is None:
            suite.refused.append(f"{table_file}: {dataset} is none of this project's benchmarks")
            continue
        read = places.benchmark(dataset, benchmark)
        suite.refused.extend(f"{benchmark}: {reason}" for reason in refusals(read.judge) or _silent(read.judge))
        if _is_whole(read.judge):
            suite.benchmarks[benchmark] = read
    answers = places.answers()
    suite.refused.extend(f"answers: {reason}" for reason in refusals(answers) or _silent(answers))
    if _makes_calls(answers):
        suite.answers = answers
    return suite


def refusals(program: Mapping[str, Any]) -> list[str]:
    """Return why parts of a program were refused; each reason once."""
    return list(dict.fromkeys(node["refused"] for node in nodes(program) if "refused" in node))


def _is_whole(judge: Mapping[str, Any]) -> bool:
    """Return whether a judge's program makes calls, and no refusal depends on anything but the model that is asked."""
    own = nodes(judge, with_calls=False)
    return _makes_calls(judge) and not any("refused" in node for node in own)


def _silent(program: Mapping[str, Any]) -> list[str]:
    errors = ", ".join(sorted({node["raise"] for node in nodes(program) if "raise" in node}))
    return [] if _makes_calls(program) else [f"its code asks no model{f' and raises {errors}' if errors else ''}"]


def _makes_calls(program: Mapping[str, Any]) -> bool:
    return any("ask" in node for node in nodes(program))


def _table(sources: Sources) -> tuple[str, str, list[str]]:
    """Return the file, the name and the keys of the table of data sets."""
    for path, tree in sources.trees.items():
        for statement in tree.body:
            value = getattr(statement, "value", None)
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if not isinstance(value, ast.Dict) or not isinstance(targets[0], ast.Name):
                continue
            entries = [entry for entry in value.values if isinstance(entry, ast.Dict)]
            keys = {key.value for entry in entries for key in entry.keys if isinstance(key, ast.Constant)}
            if _EVALUATOR in keys:
                names = [key.value for key in value.keys if isinstance(key, ast.Constant)]
                return path, targets[0].id, [str(name) for name in names]
    unreadable = "".join(f"; {reason}" for reason in sources.unreadable.values())
    reason = f"no table of data sets (a dict whose entries have {_EVALUATOR}) was found{unreadable}"
    raise RefusedError("the checkout", reason)


@dataclass(frozen=True)
class _Places:
    """The places of a checkout where reading begins."""

    sources: Sources
    table_file: str
    table_name: str

    def benchmark(self, dataset: str, benchmark: str) -> AdoptedBenchmark:
        """Read a benchmark."""
        selection = self._selection(dataset, benchmark)
        judge = self._judge(dataset, benchmark)
        return AdoptedBenchmark(dataset=dataset, judge=judge, left_out=_left_out(selection))

    def _entry(self, walk: SuiteWalk, dataset: str) -> Mapping[str, Any]:
        entry: Mapping[str, Any] = walk.named(self.table_file, self.table_name)[dataset]
        return entry

    def _row(self, walk: SuiteWalk, dataset: str, benchmark: str) -> SymbolicRow:
        """Return a row as its publisher has it."""
        column = self._entry(walk, dataset).get(_COLUMN) or _QUESTION
        nullable = {"reference", "criteria", "category", "upstream_id"}
        return SymbolicRow(
            {column: Symbol({"input": "question"})}
            | {
                name: Symbol({"input": of_ours}, "any" if of_ours == "upstream_id" else "text", of_ours in nullable)
                for name, of_ours in _COLUMNS[benchmark].items()
            }
        )

    def _judge(self, dataset: str, benchmark: str) -> dict[str, Any]:
        """Return the program of a judgement."""
        place = self._function(lambda node: _mentions(node, _EVALUATOR))
        if place is None and (path := self._file(_EVALUATOR)):
            refused = f"{path}: works when it is imported, and does more with answers than to judge them"
            if any(isinstance(node, ast.Attribute) and node.attr in {"sub", "split"} for node in self._nodes(path)):
                return {"refused": refused}

        def read(walk: SuiteWalk) -> Any:
            entry, row = self._entry(walk, dataset), self._row(walk, dataset, benchmark)
            column = entry.get(_COLUMN) or _QUESTION
            row = SymbolicRow({_QUESTION if name == column else name: value for name, value in row.items()})
            row[_ANSWER] = Symbol({"input": "answer"}, nullable=True)
            if place is None:
                result = walk.call(entry[_EVALUATOR], [row, _MODEL], {})
                return {"score": result["score"] if isinstance(result, Mapping) else result, "stored": row[_ANSWER]}
            rows[0] = SymbolicRows(row)
            function = walk.named(*place)
            walk.call(function, [], _arguments(function, dataset))
            done = rows[0].written or rows[0].row
            if "score" not in done:
                walk.refuse("no score is written")
            return {"score": done["score"], "stored": done[_ANSWER]}

        rows: list[SymbolicRows] = [SymbolicRows(SymbolicRow())]
        return self._program(read, rows)

    def _selection(self, dataset: str, benchmark: str) -> dict[str, Any]:
        """Return a program that raises for rows that are not asked."""
        place = self._function(lambda node: _mentions(node, _COLUMN) and _mentions(node, "rename_column"))
        if place is None:
            return {"return": None}

        def read(walk: SuiteWalk) -> Any:
            row = self._row(walk, dataset, benchmark)
            rows[0] = SymbolicRows(row, selects=True)
            function = walk.named(*place)
            walk.call(function, [], _arguments(function, dataset))

        rows: list[SymbolicRows] = [SymbolicRows(SymbolicRow())]
        return self._program(read, rows)

    def answers(self) -> dict[str, Any]:
        """Return the program of an answer."""
        answerer = self._function(lambda node: node.name == "get_answerer")
        mapper = self._function(lambda node: node.name == "get_model_answer")
        if answerer is None and mapper is None:
            return {"refused": "the checkout: no function get_answerer or get_model_answer"}
        try:
            command = self._command(answerer or mapper)
        except RefusedError as error:
            return {"refused": str(error)}

        def read(walk: SuiteWalk) -> Any:
            if command:
                walk.run_command(command)
            question = Symbol({"input": "question"})
            if answerer:
                function = walk.call(walk.named(*answerer), [_MODEL], {})
                return {"stored": walk.call(function, [question, _MODEL], {})}
            assert mapper is not None  # noqa: S101  (one of them is there)
            answered = SymbolicRows(SymbolicRow({_QUESTION: question}))
            walk.call(walk.named(*mapper), [answered, _MODEL, 1], {})
            return {"stored": answered.row[_ANSWER]}

        return self._program(read, [SymbolicRows(SymbolicRow())])

    def _program(self, read: Reader, rows: list[SymbolicRows]) -> dict[str, Any]:
        def externals() -> Mapping[str, External]:
            return {**dict.fromkeys(_LOADERS, lambda *_, **__: rows[0]), "textwrap.dedent": _dedent}

        return read_source(self.sources, read, externals)

    def _nodes(self, path: str) -> Iterable[ast.AST]:
        return ast.walk(self.sources.trees[path])

    def _file(self, word: str) -> str | None:
        """Return a file beside the table's that mentions a word."""
        paths = (path for path in self.sources.trees if path != self.table_file)
        return next((path for path in paths if word in self.sources.texts[path]), None)

    def _function(self, wanted: Callable[[ast.FunctionDef], bool]) -> tuple[str, str] | None:
        """Return file and name of the first function of a top level that is wanted."""
        for path, tree in self.sources.trees.items():
            for statement in tree.body:
                if isinstance(statement, ast.FunctionDef) and wanted(statement):
                    return path, statement.name
        return None

    def _command(self, answerer: tuple[str, str] | None) -> str | None:
        """Return the file whose command asks for answers: it has options and names the module that asks.

        Raises:
            RefusedError: It works when it is imported, and tells the other module of its options.
        """
        module = answerer[0].rpartition("/")[2].removesuffix(".py") if answerer else ""
        texts, trees = self.sources.texts, self.sources.trees
        for path in (path for path in trees if "add_argument" in texts[path] and module in texts[path]):
            if "__main__" in texts[path]:
                return path
            for statement in (node for node in ast.walk(trees[path]) if isinstance(node, ast.Assign)):
                if isinstance(statement.targets[0], ast.Attribute):
                    raise RefusedError(f"{path}:{statement.lineno}", "sets an option when it is imported")
        return None


def _mentions(node: ast.AST, word: str) -> bool:
    """Return whether a node has a name, attribute or text."""
    return any(
        word in (getattr(inner, "id", None), getattr(inner, "attr", None), getattr(inner, "value", None))
        for inner in ast.walk(node)
    )


def _dedent(text: Any) -> Any:
    return textwrap.dedent(text) if isinstance(text, str) else Outside("a text without indentation")


def _arguments(function: Any, dataset: str) -> dict[str, Any]:
    """Return what the suite's command would give a function, by the names of its parameters."""
    if not isinstance(function, Closure):
        raise RefusedError("the checkout", "what evaluates a data set is no function")
    form = function.node.args
    values: dict[str, Any] = {}
    for argument in (*form.posonlyargs, *form.args, *form.kwonlyargs):
        name = argument.arg
        if "dataset" in name:
            values[name] = dataset
        elif "model" in name and ("eval" in name or "judge" in name):
            values[name] = _MODEL
        elif "model" in name:
            values[name] = Outside("the model that is evaluated")
        elif "proc" in name or "batch" in name:
            values[name] = 1
        elif name in {"rerun", "overwrite", "force"}:
            values[name] = False
    return values


def _left_out(selection: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the positions of the rows that a selection leaves out."""
    positions = []
    for position in range(1, _MOST_POSITIONS + 1):
        try:
            next(run(selection, {"position": position, "index": position - 1, "question": "?", "upstream_id": None}))
        except SuiteError as error:
            if str(error) == "LeftOut":
                positions.append(position)
        except StopIteration:
            pass
    return tuple(positions)
