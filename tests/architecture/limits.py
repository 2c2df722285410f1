"""What the house may measure. Each limit is only lowered, at the end of a step; there is no list of reasons.

`python -m tests.architecture.limits` prints the table.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.architecture import house

_PROJECT = house.ROOT.parent
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.comprehension, ast.BoolOp, ast.match_case)


def _files(pattern: str) -> list[Path]:
    return [path for path in _PROJECT.glob(pattern) if "__pycache__" not in path.parts]


def _code_lines() -> list[str]:
    """List the package's lines of code."""
    texts = ((path.read_text(encoding="utf-8").splitlines(), house.lines_in(path)) for path in house.paths().values())
    return [lines[number - 1] for lines, numbers in texts for number in numbers]


def _mean_line() -> float:
    lengths = [len(line.strip()) for line in _code_lines()]
    return round(sum(lengths) / len(lengths), 1)


def _long_functions() -> int:
    functions = house.nodes_of(*_FUNCTIONS)
    return sum(node.end_lineno - node.lineno >= 50 for node in functions)  # type: ignore[attr-defined]


def _branching_functions() -> int:
    branches = (sum(isinstance(inner, _BRANCHES) for inner in ast.walk(node)) for node in house.nodes_of(*_FUNCTIONS))
    return sum(number > 10 for number in branches)


def _options(flag: str) -> int:
    """Count the options that a help of `run-evals` shows."""
    command = [Path(sys.executable).parent / "run-evals", flag]
    text = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    return sum(line.startswith("  --") for line in text.splitlines())


def _results() -> int:
    """Count the lines of what is written of runs, which stands with the exchange."""
    return sum(len(house.lines_in(path)) for path in _files("shaberi_dagster/runs/results/*.py"))


_OUT_OF_USE = re.compile(
    r"\b(anew|nobody|whoever|whomever|thereof|is none|of theirs|of ours|such a one|goes on|is told)\b"
)


def _words_out_of_use() -> int:
    """Count words that other words replace, in the package and on pages; the history of changes keeps its own."""
    pages = [path for path in (*_files("docs/**/*.md"), *_files("*.md")) if path.name != "CHANGELOG.md"]
    return sum(
        len(_OUT_OF_USE.findall(path.read_text(encoding="utf-8")))
        for path in (*_files("shaberi_dagster/**/*.py"), *pages)
    )


_LIFE_OF_A_RUN = ("runs", "defs", "doctor", "cli")

LIMITS: Mapping[str, tuple[Callable[[], float], float, float]] = {
    "lines of code": (house.lines_of_code, 38_528, 33_000),
    "lines of runs, defs, doctor, cli": (lambda: house.lines_of_code(*_LIFE_OF_A_RUN) - _results(), 9_338, 7_100),
    "lines of reports": (lambda: house.lines_of_code("reports"), 6_321, 5_150),
    "lines of exchange": (lambda: house.lines_of_code("exchange") + _results(), 5_049, 4_900),
    "classes": (lambda: len(house.nodes_of(ast.ClassDef)), 422, 380),
    "functions": (lambda: len(house.nodes_of(*_FUNCTIONS)), 3_280, 2_900),
    "packages": (lambda: len(house.packages()), 14, 15),
    "floors": (lambda: max(house.floors(house.needs_of_rooms()).values()), 10, 10),
    "modules with private names of a library": (lambda: len(house.modules_with_private_names()), 2, 2),
    "lines of tests": (lambda: sum(len(house.lines_in(path)) for path in _files("tests/**/*.py")), 42_820, 40_000),
    "SQL files": (lambda: len(_files("sql/**/*.sql")), 150, 150),
    "scripts in perf": (lambda: len(_files("perf/*.py")), 12, 12),
    "options of run-evals --help": (lambda: _options("--help"), 26, 40),
    "options of run-evals --help-all": (lambda: _options("--help-all"), 60, 60),
    "words out of use": (_words_out_of_use, 0, 0),
    "mean length of a line": (_mean_line, 44.7, 0),
    "longest line": (lambda: max(map(len, _code_lines())), 136, 0),
    "functions of more than 50 lines": (_long_functions, 15, 0),
    "functions with more than 10 branches": (_branching_functions, 156, 0),
}
"""Each figure: how it is measured, its limit, and what is asked for.

The last four stand beside the others, so that these are not met by longer lines or packed functions.
"""


def main() -> None:
    """Print what is measured beside its limit and what is asked for."""
    for name, (measure, limit, asked) in LIMITS.items():
        print(f"{name:<50} {measure():>9,} {limit:>9,} {asked or '':>9}")  # noqa: T201


if __name__ == "__main__":
    main()
