"""Every example of the help texts and every command of the pages, run as a reader types it.

They run in a copy of one folder, which has the runs, trees, caches and files that they speak of.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands import make_programs
from tests.ensembles import prompt_of
from tests.exchange.caches import ensemble, response, write
from tests.exchange.trees.trees import LegacyTree
from tests.mock_endpoint import MockEndpoint, content_for, running_mock
from tests.test_docs import PAGES, ROOT, fences

pytestmark = pytest.mark.e2e

_NOT_RUN = {
    "make ": "the Makefile is what runs the tests",
    "shaberi view": "serves until Ctrl-C: tests/viewer/test_command.py",
    "shaberi ui": "serves until Ctrl-C: tests/defs/test_ui.py",
    "shaberi cluster": "serves until Ctrl-C: tests/defs/cluster",
    ".cluster/environment": "a cluster: tests/defs/cluster",
    "--submit": "a cluster: tests/defs/cluster",
    "s3://": "an object store: tests/lake",
    "SHABERI_DATABASE_URL": "a database server: tests/journal/test_postgres.py",
    "shaberi copy-lake backup": "an object store: tests/lake",
    "vllm serve": "another program",
    "duckdb -readonly": "another program",
    "curl ": "another program",
    "openssl ": "another program",
    "git ": "another program",
    "shaberi adopt": "a checkout of the old suite: tests/exchange/suite",
    "google:gemini": "a provider: tests/exchange/test_caches_corpus.py",
    "shaberi baseline import": "a file of the other program: tests/cli/test_baseline.py",
    "--preset old": "a checkout of the old suite: tests/exchange/suite/test_history_goes_on.py",
}
"""Parts of commands that cannot run here, and why."""
_TYPED_OTHERWISE = {
    "--questions hub": "",
    "--tag TAG": "--tag legacy-3x-t0.7",
    "score<3 sort": "score<6 sort",
    "vllm run-batch": "python $PROJECT/tests/run_batch.py --url {mock}",
    "http://localhost:8000/v1": "{mock}",
    "http://localhost:8001/v1": "{mock}",
    "2026-07-01T12:00": "$(date +%FT%T)",
    "tengu@115": "$(shaberi sql 'select max(question_set) from questions' | grep -o 'tengu@[^ ]*')",
}
"""What a command here is given for what it cannot reach."""
_NOT_ZERO = {"--baseline main": {0, 1, 4}, "shaberi link --judge": {0, 4}}
"""Exit codes that are promised where 0 is not the only one: worse is 1, too little to tell, or not linked, is 4."""
_JUDGED = "run-evals --base-url {mock} --judge-model gpt-5.1 --tag july --model"
_NIGHTLY = "quick-eval --model my-model --base-url {mock} --datasets gsm8k --strategy standard --tag nightly"
_SMALL = "quick-eval --model gpt-4.1-mini --datasets gsm8k,arc --strategy standard"
_ANSWERED = "shaberi export --format requests --model my-model --tag far --benchmark elyza --output requests.jsonl && python $PROJECT/tests/run_batch.py --url {mock} -i requests.jsonl -o "
_STRICT = "export SHABERI_PROMPTS=prompts; cp -r $PROJECT/prompts . && mkdir -p prompts/variants/strict/judging && (echo strict; cat prompts/judging/answer_rule.jinja) > prompts/variants/strict/judging/answer_rule.jinja"
_LINK = "shaberi link --judge gpt-5.1 --source shisa --preset strict"
_AUDIT = "shaberi graders audit 200 --judge-model gpt-5-mini"
_BEFORE = {
    _AUDIT: _NIGHTLY,
    f"{_AUDIT} --dry-run": _NIGHTLY,
    "shaberi graders --settle settle.csv": f"{_NIGHTLY}; {_AUDIT}; shaberi graders disagreements --format csv > settle.csv",
    f"{_LINK} --dry-run": _STRICT,
    f"{_LINK} --max-cost 10": _STRICT,
    "shaberi import-answers answers.jsonl --model my-model --benchmark elyza": f"{_ANSWERED} answers.jsonl",
    "shaberi import-answers batch-output.jsonl --model my-model --tag vllm": f"{_ANSWERED} batch-output.jsonl",
    "run-evals --config july.yaml --tag august": "run-evals --model gpt-4.1-mini --judge-model gpt-5.1 --print-config > july.yaml",
    "run-evals --model my-model --tag july --rejudge --judge-model gpt-5.1 --judge-prompt strict": _STRICT,
    "mkdir -p prompts/variants/strict/judging": "cp -r $PROJECT/prompts .; export SHABERI_PROMPTS=prompts",
    "quick-eval --model gpt-4.1-mini --strategy elo --baseline main --json > elo.json": "quick-eval --model gpt-4.1-mini && shaberi baseline promote main --model gpt-4.1-mini",
    "shaberi report --html report.html --model a --model b": f"{_JUDGED} a --benchmark elyza; {_JUDGED} b --benchmark elyza",
    "shaberi compare my-model@@july my-model@@august": f"{_JUDGED} my-model".replace("july", "august"),
    "shaberi new benchmark trivia": "unset SHABERI_DATASETS",
    "SHABERI_PRICES=prices.yaml shaberi prices --refresh": "echo '- {model: my-model*, input: 0.2, output: 0.6}' > prices.yaml",
    "shaberi report --ci results/standard.json results/elo.json --output report.md": f"mkdir -p results; {_SMALL} --output results/standard.json && {_SMALL},elo --output results/elo.json",
    "shaberi report quick.json": f"{_SMALL},plurality --json > quick.json",
    "shaberi baseline promote main-2026-07 --model my-model --tag nightly": _NIGHTLY,
    'shaberi baseline promote main-2026-07 my-model@@nightly --note "before the new prompts"': _NIGHTLY,
}
"""What a reader has done who types this example."""

_TAKES_LONG = re.compile(
    "run-evals(?!.*(--dry-run|--print-config))|quick-eval|shaberi decide|shaberi link |graders (?:audit|--settle)|generate-cache|reprocess|import-"
)
_N_TENGU = 12
_WORLD = [
    f"{_JUDGED} my-model",
    f"{_JUDGED} other-model",
    "shaberi import-legacy shisa=~/shaberi umiyuki=~/fork",
]
"""How the folder of the examples is made."""
_EXAMPLE = re.compile(
    r"^  ((?:[A-Z_]+=\S+ |\. )?(?:run-evals|view-scores|inspect-output|quick-eval|shaberi|\.cluster).*)$",
    re.MULTILINE,
)
_SECTION = re.compile(r"^### ([\w -]+)\n+```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """Commands that a reader types one after the other.

    Attributes:
        place: Where they stand.
        lines: The commands, each on a line, without what is said of them.
    """

    place: str
    lines: tuple[str, ...]


def _help_examples() -> Iterator[Example]:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")  # test_reference.py: it is the help
    for command, text in _SECTION.findall(reference):
        _, _, examples = text.partition("\nExamples:\n")
        for line in _EXAMPLE.findall(examples):
            yield Example(f"{command} --help", (re.split(r"\s{2,}", line)[0],))


def _page_examples() -> Iterator[Example]:
    for page in PAGES:
        if page.name in {"reference.md", "tutorial.md"}:  # help, and test_tutorial.py
            continue
        for number, (language, text) in enumerate(fences(page)):
            if language in {"bash", "sh", "console"}:
                lines = text.replace("\\\n", "").splitlines()
                commands = [re.sub(r"\s+#\s.*", "", line) for line in lines if not line.lstrip().startswith("#")]
                yield Example(f"{page.relative_to(ROOT)} {number}", tuple(filter(None, commands)))


EXAMPLES = [*_help_examples(), *_page_examples()]


def _runs_here(line: str) -> bool:
    return not any(part in line for part in _NOT_RUN)


@dataclass(frozen=True)
class World:
    """A folder as the examples expect it, and the endpoint that its runs have asked.

    Attributes:
        folder: Where a reader is.
        mock: The endpoint.
    """

    folder: Path
    mock: MockEndpoint

    def type(self, lines: list[str]) -> list[tuple[str, int, str]]:
        """Run commands in one shell; each with its exit code, and all that they said."""
        typed = [self._reachable(line) for line in lines]
        script = "\n".join(f"{line}\necho $? >&9" for line in typed)
        codes, path = self.folder / ".codes", f"{self.folder}/.venv/bin:{os.environ['PATH']}"
        environment = {"HOME": str(self.folder), "PATH": path, "LANG": "C.UTF-8", "COLUMNS": "120"}
        environment |= {"SHABERI_DATASETS": "questions", "SHABERI_PRICES": "known-prices.yaml", "PROJECT": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; exec 9>{codes}\n{script}"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=200,
            check=False,
        )
        exits = [int(code) for code in codes.read_text(encoding="utf-8").split()]
        return [(line, code, done.stdout) for line, code in zip(lines, exits, strict=True)]

    def _reachable(self, line: str) -> str:
        for written, typed in _TYPED_OTHERWISE.items():
            line = line.replace(written, typed)
        return line.replace("{mock}", self.mock.base_url)


def _reply(body: dict, _: int) -> str:
    """An answer that a judge or a rule can tell, or a verdict."""
    prompt = prompt_of(body)
    if "# Reference answer" in prompt:
        return '{"extracted": "something", "verdict": "incorrect"}'
    if re.search("[ぁ-ん]", prompt):
        return content_for(body)
    return f"The answer is {'A' if 'Options:' in prompt else 42}."


def _tree(folder: Path, model: str, scores: list[float]) -> None:
    """A tree of the old suite: one benchmark and two judges."""
    tree, rows = LegacyTree(folder), []
    for number in range(_N_TENGU + 1):
        question = {
            "Category": f"分野{number % 5}",
            "Question": f"古い質問{number}は何ですか。",
            "Answer": "答え",
            "Criteria": "- 可",
        }
        rows.append(question | {"ModelAnswer": f"{model}の答え{number}です。"})
    tree.answers("tengu", rows, model=model)
    for judge, shift in (("gpt-4-turbo-preview", 0.0), ("gpt-5.1", 1.0)):
        judged = [row | {"score": scores[number % len(scores)] - shift} for number, row in enumerate(rows)]
        tree.judgements("tengu", judged, judge, model=model)


@pytest.fixture(scope="session")
def made_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The folder of which each example has a copy."""
    folder = tmp_path_factory.mktemp("world")
    make_programs(folder / ".venv")
    for path in (ROOT / "shaberi_dagster" / "tasks" / "benchmarks" / "starter").glob("*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        more = [line.replace(b'"question": "', b'"question": "%d: ' % n) for n, line in enumerate(lines * 2)]
        write(folder / "questions" / path.name, b"".join([*lines, *more][: _N_TENGU if path.stem == "tengu" else 2]))
    for number, model in enumerate(("imported__model", "old__model", "Qwen__small", "old__large", "old__tiny")):
        _tree(folder / "shaberi", model, [8 - number % 3, 6, 9])
    _tree(folder / "fork", "old__model", [5, 7])
    shutil.copytree(folder / "shaberi", folder / "path/to/tree")
    shutil.copytree(folder / "fork", folder / "path/to/other")
    samples = {f"q-{n}": [response(f"The answer is {n % m}.") for m in (2, 3, 2)] for n in range(4)}
    for cache in (".cache/ensemble/gsm8k.json", "path/to/.cache/gsm8k.json"):
        write(folder / cache, ensemble(samples))
    (importer,) = (text for _, text in fences(ROOT / "docs" / "extending.md") if "class ArenaLog" in text)
    write(folder / "plugins" / "importers" / "arena.py", importer.encode())
    write(folder / "logs" / "july.arena", b"alpha | 1+1? | 2 | 8\nbeta | 1+1? | 3 | 2\n")
    with running_mock(script=_reply) as mock:
        endpoint = f"base_url: {mock.base_url}\nmodels: ['gpt-*', 'gemini-*', 'embedded/*']\nkey_required: false\n"
        write(folder / "plugins" / "endpoints" / "mock.yaml", endpoint.encode())
        write(folder / "known-prices.yaml", b"- {model: 'g*', input: 1, output: 2}\n")
        world = World(folder, mock)
        for line, code, said in world.type(_WORLD):
            assert code == 0, f"{line}\n{said}"
        yield world


@pytest.fixture
def world(made_world: World, tmp_path: Path) -> World:
    """A copy that an example may change."""
    return World(shutil.copytree(made_world.folder, tmp_path / "world", symlinks=True), made_world.mock)


def _parameters() -> Iterator[Any]:
    """The examples with a name each; those that ask models or read whole trees take long.

    What help shows and a page, too, runs where the page has it.
    """
    on_pages = {line.removeprefix(".venv/bin/") for example in _page_examples() for line in example.lines}
    for example in EXAMPLES:
        lines = [line for line in example.lines if _runs_here(line)]
        if lines and not (example.place.endswith("--help") and on_pages.issuperset(lines)):
            takes_long = _TAKES_LONG.search("\n".join([*lines, *(_BEFORE.get(line, "") for line in lines)]))
            marks = [pytest.mark.long] if takes_long else []
            yield pytest.param(lines, id=f"{example.place}: {lines[0]}", marks=marks)


@pytest.mark.parametrize("lines", list(_parameters()))
def test_an_example_does_what_it_says(lines: list[str], world: World) -> None:
    before = [command for line in lines for command in filter(None, [_BEFORE.get(line)])]

    for line, code, said in world.type([*before, *lines]):
        wanted = next((codes for part, codes in _NOT_ZERO.items() if part in line), {0})
        assert code in wanted, f"{line}\nended with {code}\n{said}"
        assert "Traceback" not in said, said


def test_what_is_not_run_stands_somewhere() -> None:
    lines = [line for example in EXAMPLES for line in example.lines]
    known = [*_NOT_RUN, *_TYPED_OTHERWISE, *_NOT_ZERO, *_BEFORE]
    assert [part for part in known if not any(part in line for line in lines)] == []
