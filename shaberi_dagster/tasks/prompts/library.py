"""Prompts: Jinja templates in a folder, rendered in a sandbox, identified by the hash of their source."""

import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from shaberi_dagster.llm.types import Message
from shaberi_dagster.tasks.benchmarks.questions import Question
from shaberi_dagster.tasks.benchmarks.registry import Benchmark
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.identity import sha256_json, sha256_text
from shaberi_dagster.util.names import did_you_mean

VARIANTS = "variants"
"""The folder of the variants, inside the templates' folder."""
_VARIANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SUFFIX = ".jinja"
_BOUNDARY_DIGITS = 16


def parse_template(path: Path) -> None:
    """See that a file is a template.

    Raises:
        PromptError: It is not valid, or cannot be read.
    """
    try:
        SandboxedEnvironment().parse(path.read_text(encoding="utf-8"))
    except jinja2.TemplateSyntaxError as error:
        raise PromptError(f"prompt {path}:{error.lineno}: {error.message}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"prompt {path}: cannot be read: {error}") from error


class PromptError(ConfigurationError):
    """A prompt template is missing, broken, or uses a variable that it is not given."""


@dataclass(frozen=True)
class Template:
    """A template that a prompt is made of.

    Attributes:
        name: Its name.
        file: Its path in the folder that it is from, with `/`.
        source: Its exact text.
    """

    name: str
    file: str
    source: str


class PromptLibrary:
    """The templates of several folders, one over the other.

    A template is named by its path without `.jinja` (`judging/elyza/primary`), in includes too, and taken from the
    first folder that has it. Each file is read once per library, so what is rendered always is what was hashed. Values
    are inserted as they are: never escaped, never read as a template. One newline at the end of a file belongs to the
    file, not to the prompt.

    Args:
        folders: Where the templates are, the first over the second and so on; nothing outside of them can be rendered
            or included.
        variant: Name of a folder in `variants/` of some of them, of the same shape, that is over all of them.
    """

    def __init__(self, *folders: Path, variant: str | None = None) -> None:
        self._roots = [folder.resolve() for folder in folders]
        over = [folder / VARIANTS / variant for folder in self._roots] if variant else []
        self._folders = [*over, *self._roots]
        self._sources: dict[str, str] = {}
        self._hashes: dict[tuple[str, ...], str] = {}
        self._chosen: dict[tuple[str, ...], str] = {}
        self._variants: dict[str, PromptLibrary] = {}
        self._environment = SandboxedEnvironment(
            loader=jinja2.FunctionLoader(self._load),
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # prompts are plain text; escaping would change the answers
            finalize=_refuse_none,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )

    @property
    def variants(self) -> list[str]:
        """Names of the variants: the folders in `variants/` whose names are of `[A-Za-z0-9._-]`."""
        folders = (folder for root in self._roots for folder in (root / VARIANTS).glob("*/"))
        return sorted({folder.name for folder in folders if _VARIANT.fullmatch(folder.name)})

    def variant(self, name: str | None) -> "PromptLibrary":
        """The library with the templates of a variant in the place of its own; itself for None.

        Raises:
            PromptError: There is no such variant, or it replaces no template.
        """
        if name is None:
            return self
        if name not in self._variants:
            places = " and ".join(str(root / VARIANTS) for root in self._roots if (root / VARIANTS).is_dir())
            known = f"variants in {places or self._roots[0] / VARIANTS}:"
            if name not in self.variants:
                raise PromptError(f"there is no prompt variant {name!r}; {did_you_mean(name, self.variants, known)}")
            changed = PromptLibrary(*self._roots, variant=name)
            if not any(
                (root / path.relative_to(over)).is_file()
                for over in changed._folders[: len(self._roots)]
                for path in over.rglob(f"*{_SUFFIX}")
                for root in self._roots
            ):
                there = ", ".join(self.variants)
                raise PromptError(f"prompt variant {name!r} replaces no template; {known} {there}")
            self._variants[name] = changed
        return self._variants[name]

    def first(self, *names: str) -> str:
        """The first of these names that there is a template of, or the last."""
        if names not in self._chosen:
            self._chosen[names] = next((name for name in names if self._path(name).is_file()), names[-1])
        return self._chosen[names]

    def render(self, name: str, **variables: object) -> str:
        """The template's text with the variables in their places.

        Raises:
            PromptError: The template is missing or broken, or needs a variable that is not given.
        """
        try:
            return self._environment.get_template(name).render(variables)
        except jinja2.TemplateSyntaxError as error:
            raise PromptError(f"prompt {error.filename or name}:{error.lineno}: {error.message}") from error
        except jinja2.TemplateNotFound as error:
            raise PromptError(f"prompt {self._path(str(error.name or name))}: there is no such template") from error
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise PromptError(f"prompt {self._place(name, error)}: {error}") from error

    def prompt_hash(self, *names: str) -> str:
        """The version of the prompts: sha256 over the sources of the templates and of all they include.

        Raises:
            PromptError: A template is missing or broken.
        """
        if names not in self._hashes:
            self._hashes[names] = sha256_json([self._source(name) for top in names for name in self._closure(top)])
        return self._hashes[names]

    def templates(self, *names: str) -> list[Template]:
        """The templates and all they include, in the order in which `prompt_hash` is made of them.

        What two of them include is there twice.

        Raises:
            PromptError: A template is missing or broken.
        """
        return [Template(name, self._file(name), self._source(name)) for top in names for name in self._closure(top)]

    def _load(self, name: str) -> tuple[str, str, None]:
        path = self._path(name)
        if not path.is_file():
            raise jinja2.TemplateNotFound(name)
        return self._source(name), str(path), None

    def _file(self, name: str) -> str:
        path = self._path(name)
        root = next(root for root in self._roots if path.is_relative_to(root))
        return path.relative_to(root).as_posix()

    def _path(self, name: str) -> Path:
        for folder in self._folders:
            path = (folder / f"{name}{_SUFFIX}").resolve()
            if not path.is_relative_to(folder):
                raise PromptError(f"prompt {name!r} is outside of {folder}")
            if path.is_file():
                break
        return path

    def _source(self, name: str) -> str:
        if name not in self._sources:
            path = self._path(name)
            try:
                self._sources[name] = path.read_text(encoding="utf-8")
            except OSError as error:
                raise PromptError(f"prompt {path}: {error.strerror or error}") from error
            except UnicodeDecodeError as error:
                raise PromptError(f"prompt {path}: is not UTF-8 at byte {error.start + 1}") from error
        return self._sources[name]

    def _closure(self, name: str) -> Iterator[str]:
        """The template and what it includes, each once, in the order of first mention."""
        found, waiting = dict[str, None](), [name]
        while waiting:
            current = waiting.pop(0)
            if current in found:
                continue
            found[current] = None
            try:
                included = _included(self._source(current))
            except jinja2.TemplateSyntaxError as error:
                raise PromptError(f"prompt {self._path(current)}:{error.lineno}: {error.message}") from error
            for template in included:
                if template is None:
                    raise PromptError(f"prompt {self._path(current)}: an include must name its template literally")
                waiting.append(template)
        yield from found

    def _place(self, name: str, error: Exception) -> str:
        """File and line of the innermost template frame; Jinja maps its frames back to template lines."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(_SUFFIX)]
        return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(self._path(name))


def generation_messages(library: PromptLibrary, benchmark: Benchmark, question: Question) -> tuple[Message, ...]:
    """Write what a model is asked: the system message, if the benchmark has one, and the question."""
    generation = benchmark.generation
    user = Message("user", library.render(_user_template(library, benchmark), question=question.question))
    if generation.system_template is None:
        return (user,)
    return (Message("system", library.render(generation.system_template)), user)


def judge_messages(
    library: PromptLibrary, benchmark: Benchmark, question: Question, answer: str
) -> tuple[Message, ...]:
    """Write what a judge is asked: the worked example, if the benchmark has one, and the item.

    Args:
        library: The templates.
        benchmark: Scale and template names.
        question: The question, with reference and criteria.
        answer: The text to be judged.
    """
    judging = benchmark.judging
    scale = _scale(benchmark)
    item = library.render(
        judging.primary_template,
        question=question.question,
        reference=question.reference,
        criteria=question.criteria,
        category=question.category,
        answer=answer,
        boundary=boundary_of(answer),
        **scale,
    )
    example: tuple[Message, ...] = ()
    if judging.example_templates is not None:
        user, assistant = judging.example_templates
        example = (
            Message("user", library.render(user, category=None, **scale)),
            Message("assistant", library.render(assistant, **scale)),
        )
    return (*example, Message("user", item))


def fallback_messages(library: PromptLibrary, benchmark: Benchmark, judge_output: str) -> tuple[Message, ...]:
    """The second call, which reads the score out of the judge's own text.

    It is given neither question nor answer: it reads a score, it does not judge.
    """
    text = library.render(
        fallback_template(library, benchmark),
        judge_output=judge_output,
        boundary=boundary_of(judge_output),
        **_scale(benchmark),
    )
    return (Message("user", text),)


def generation_templates(library: PromptLibrary, benchmark: Benchmark) -> tuple[str, ...]:
    """List the templates of the prompts that ask for an answer."""
    generation = benchmark.generation
    system = () if generation.system_template is None else (generation.system_template,)
    return (*system, _user_template(library, benchmark))


def _user_template(library: PromptLibrary, benchmark: Benchmark) -> str:
    return library.first(f"generation/{benchmark.name}/user", "generation/user")


def fallback_template(library: PromptLibrary, benchmark: Benchmark) -> str:
    """Name the template of the prompt that reads a score out of a judge's text: the benchmark's own, if it has one."""
    return library.first(f"judging/{benchmark.name}/fallback", "judging/fallback")


def judge_templates(benchmark: Benchmark) -> tuple[str, ...]:
    """List the templates of the prompts that ask for a judgement."""
    judging = benchmark.judging
    return (*(judging.example_templates or ()), judging.primary_template)


def generation_prompt_hash(library: PromptLibrary, benchmark: Benchmark) -> str:
    """The version of the prompts that ask for an answer."""
    return library.prompt_hash(*generation_templates(library, benchmark))


def judge_prompt_hash(library: PromptLibrary, benchmark: Benchmark) -> str:
    """The version of the prompts that ask for a judgement (the fallback has its own)."""
    return library.prompt_hash(*judge_templates(benchmark))


def fallback_prompt_hash(library: PromptLibrary, benchmark: Benchmark) -> str:
    """The version of the prompt that reads a score out of a judge's text."""
    return library.prompt_hash(fallback_template(library, benchmark))


def judges_alike(library: PromptLibrary, other: PromptLibrary, benchmark: Benchmark) -> bool:
    """Return whether a judge of the benchmark gets the same from both libraries."""
    first, second = (
        [judge_prompt_hash(templates, benchmark), fallback_prompt_hash(templates, benchmark)]
        for templates in (library, other)
    )
    return first == second


def boundary_of(text: str) -> str:
    """Hex digits that mark where the text begins and ends in a prompt.

    They derive from the text's hash, so the same text gives the same prompt, and a text that contains its own
    boundary would have to be found among 2**64.
    """
    return sha256_text(text)[:_BOUNDARY_DIGITS]


@cache
def _included(source: str) -> tuple[str | None, ...]:
    """The templates that a template includes; None for one that only its rendering would tell.

    Raises:
        jinja2.TemplateSyntaxError: It is broken.
    """
    return tuple(meta.find_referenced_templates(SandboxedEnvironment().parse(source)))


def _refuse_none(value: object) -> object:
    """Jinja would write the word None into the prompt; what may be missing has to be asked for with `if`."""
    if value is None:
        raise TypeError("a value to be inserted is null; test it with 'is not none'")
    return value


def _scale(benchmark: Benchmark) -> Mapping[str, Any]:
    return {"scale_minimum": benchmark.scale_minimum, "scale_maximum": benchmark.scale_maximum}
