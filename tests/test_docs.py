"""The pages for readers: their commands, their links, and what must not be in them."""

import ast
import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("docs", "prompts", "warehouse", "notebooks", "sql")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in _FOLDERS for page in (ROOT / folder).rglob("*.md"))])
_README = (ROOT / "README.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_OURS = r"(run-evals|view-scores|inspect-output|quick-eval|shaberi)\b"
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
# Home folders, temporary folders, this machine's folders, drives, and addresses of other private machines.
_MACHINE_PATH = re.compile(
    r"(?<![\w.~/])/(?:home|root|Users|tmp|work|mnt|opt|srv)/|\.\./shared|\b[A-Z]:\\|\b(?:192\.168|10\.\d+)\.\d+\.\d+"
)

_NOT_OURS = {"BackfillPolicy", "RunStorage", "ErrorCount"}
"""Names like those of our classes: of Dagster, and a column of the old suite."""


def fences(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    return [(language, text) for _, language, text in _FENCE.findall(page.read_text(encoding="utf-8"))]


def _shell_blocks() -> list[str]:
    return [text for language, text in fences(ROOT / "README.md") if language == "sh"]


def _prose(page: Path) -> str:
    """The page without its fenced blocks and inline code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text(encoding="utf-8")))


def _links(page: Path) -> list[str]:
    links = [markdown or html for markdown, html in _LINK.findall(_prose(page))]
    return [link for link in links if not re.match(r"[a-z]+:", link)]


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_the_first_two_commands_of_the_readme_are_one_line_each() -> None:
    first_two = _shell_blocks()[:2]

    assert len(first_two) == 2
    assert [block.count("\n") for block in first_two] == [1, 1]
    assert [block.strip() for block in first_two] == [block[:-1] for block in first_two]


def test_the_first_two_commands_of_the_readme_need_nothing_but_make() -> None:
    for block in _shell_blocks()[:2]:
        program, *targets = shlex.split(block)
        assert program == "make"
        subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / unquote(path)).resolve() if path else page
        inside = target.is_relative_to(ROOT)
        if not (inside and target.exists()) or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def _members() -> dict[str, set[str]]:
    """The names in each class of the package, those of its bases included."""
    nodes = (
        node for path in (ROOT / "shaberi_dagster").rglob("*.py") for node in ast.walk(ast.parse(path.read_bytes()))
    )
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    named = re.compile(r"\w+")

    def names(name: str) -> set[str]:
        own = classes[name]
        bases = {word for base in own.bases for word in named.findall(ast.unparse(base))} & classes.keys() - {name}
        return set(named.findall(ast.unparse(own))).union(*map(names, bases))

    return {name: names(name) for name in classes}


def test_pages_name_classes_members_and_files_that_are_there() -> None:
    """Spans such as `Class.member`, `ClassName` and `folder/module.py`; plugins are the reader's own."""
    members, files = _members(), [path.as_posix() for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    unknown = []
    for page in (
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    ):
        text = _FENCE.sub("", page.read_text(encoding="utf-8"))
        newest = "\n## ".join(text.split("\n## ")[:2]) if page.name == "CHANGELOG.md" else text
        for span in re.findall(r"`([^`\n]+)`", newest):
            if found := re.fullmatch(r"((?:[A-Z][a-z]+)+)\.(\w+)(?:\(.*\))?|((?:[A-Z][a-z]+){2,})", span):
                name, member = found[1] or found[3], found[2] or ""
                is_there = name in _NOT_OURS or (name in members and member in {"", *members[name]})
            elif re.fullmatch(r"(?:[a-z_]+/)*[a-z_0-9]+\.py", span) and page.name != "extending.md":
                is_there = any(file.endswith(f"/{span}") for file in files)
            else:
                continue
            if not is_there:
                unknown.append((page.name, span))
    assert unknown == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_path_of_somebodys_machine(page: Path) -> None:
    assert _MACHINE_PATH.findall(page.read_text(encoding="utf-8")) == []


def _commands(page: Path) -> list[list[str]]:
    """The words of each of the project's commands in the page's shell blocks."""
    blocks = [text for language, text in fences(page) if language == "bash"]
    lines = "".join(blocks).replace("\\\n", "").replace(".venv/bin/", "").splitlines()
    return [shlex.split(line, comments=True) for line in lines if re.match(_OURS, line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_have_the_options_that_it_shows(page: Path) -> None:
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### ([\w -]+)\n(.*?)(?=^#)", reference, re.MULTILINE | re.DOTALL))
    unknown = []
    for words in _commands(page):
        command = next(name for n in (3, 2, 1) if (name := " ".join(words[:n])) in sections)
        options = [word for word in words if re.fullmatch(r"--[a-z-]+", word)]
        unknown += [(command, option) for option in options if not re.search(rf"{option}\b", sections[command])]
        if command == "shaberi" and words[1:2]:
            unknown.append((" ".join(words[:2]), "is no command"))
    assert unknown == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        targets = {(page.parent / unquote(link.partition("#")[0])).resolve() for link in _links(page)}
        ahead += [target for target in targets - reached if target.suffix == ".md" and target.is_file()]

    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached] == []


def test_the_index_has_every_page_with_a_line() -> None:
    index = ROOT / "docs" / "README.md"
    rows = [line for line in index.read_text(encoding="utf-8").splitlines() if re.fullmatch(r"\| \[.+\|.{10,}\|", line)]
    listed = {
        (index.parent / link).resolve() for row in rows for _, link in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", row)
    }

    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in listed | {index}] == []


def test_the_readme_has_a_picture_and_fits_90_lines() -> None:
    assert re.search(r"!\[[^\]]+\]\(docs/images/", _README)
    assert _README.count("\n") <= 90
