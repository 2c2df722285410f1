"""Plugin folders: what people add, one file each, found by kind and name, and read when it is used.

A plugin folder has a folder for each kind: `benchmarks/NAME.yaml`, `passes/NAME.py`, `judges/NAME.py`,
`llm_judges/NAME.py`, `adopted/NAME.yaml`, `strategies/NAME.py`, `providers/NAME.py`, `importers/NAME.py`,
`endpoints/NAME.yaml`, `sql/views/NAME.sql`, `sql/queries/NAME.sql`, `reports/NAME.py`, `sql/reports/NAME.sql` and
`prompts/`, where files lie as in the project's own. What the project has itself is found and read by the same code.
"""

import ast
import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

import yaml

from shaberi_dagster.util.errors import ConfigurationError, ShaberiError
from shaberi_dagster.util.folders import plugin_folders
from shaberi_dagster.util.names import did_you_mean, message_of

T = TypeVar("T")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Names that plugins can have: they are parts of asset keys, of Python modules and of SQL."""
_PACKAGE = Path(__file__).parents[1]
_MODULES = "shaberi_plugin_"
"""Beginning of the names of plugins' modules."""
_NAMED_IN_COMMANDS = {"benchmarks": ".yaml", "passes": ".py", "strategies": ".py"}
_RESERVED = frozenset({"all", "overall", "baseline", "single"})
"""Words that stand for something else where names are given."""


_MOST_DEPTH, _MOST_NODES = 100, 1_000_000


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML in which no name is there twice: of two only one would count."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Make the mapping of a node."""
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        names = [key.value for key in keys]
        if len(set(names)) < len(names):
            twice = next(key for key in keys if names.count(key.value) > 1)
            raise yaml.constructor.ConstructorError(None, None, f"{twice.value} is there twice", twice.start_mark)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Make the value of a node; what Python refuses, such as the 31st of June, is an error at its place."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, ArithmeticError, TypeError) as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


def load_yaml(text: str | bytes) -> Any:
    """Read plain data of YAML: the one reader of all files of users.

    Raises:
        yaml.YAMLError: It is not valid, has a name twice, is nested too deep, or contains itself.
    """
    try:
        _check_size(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a safe loader)
    except (ValueError, RecursionError) as error:  # of texts that are no text
        raise yaml.YAMLError(str(error)) from None


def _check_size(text: str | bytes) -> None:
    """Refuse nesting that the reader would die of, and aliases that make a small file very large."""
    sizes: dict[str | None, int] = {}
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, Loader=_Loader):
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((anchor, 1))
            size, anchor = 0, None
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_nodes.pop()
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor, _MOST_NODES)  # of one that is still open: it contains itself
            anchor = None
        else:
            size = 1
        if anchor:
            sizes[anchor] = size
        open_nodes[-1] = (open_nodes[-1][0], open_nodes[-1][1] + size)
        if len(open_nodes) > _MOST_DEPTH or open_nodes[-1][1] > _MOST_NODES:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                "nested too deep, too large, or containing itself",
                event.start_mark,  # type: ignore[arg-type]
            )


class PluginError(ConfigurationError):
    """A file of a plugin folder cannot be used.

    Args:
        path: The file.
        line: Its 1-based line; None when the whole file is at fault.
        reason: What is wrong with it.
    """

    def __init__(self, path: Path, line: int | None, reason: str) -> None:
        super().__init__(f"plugin {path}{f':{line}' if line else ''}: {' '.join(reason.split())}")


@dataclass(frozen=True)
class PluginFile:
    """A file that a plugin, or a built-in thing of the same kind, is made of.

    Attributes:
        name: What that is called.
        path: The file.
        is_own: Whether it is the project's.
    """

    name: str
    path: Path
    is_own: bool

    @property
    def sha256(self) -> str | None:
        """The hash of its bytes, a part of what a plugin's thing is; None for the project's, which has versions."""
        return None if self.is_own else hashlib.sha256(self.path.read_bytes()).hexdigest()


class PluginRegistry(Mapping[str, T], Generic[T]):
    """The things of one kind by name: the project's in its order, then those of plugin folders.

    Names come from file names, so listing them runs no code. What is looked up is read once. As a mapping it has what
    can be read, the first file of a name; `use` is for what is to be worked with, and says why something cannot be.

    Args:
        noun: What one is called, such as `pass`.
        folder: Where its files are in a plugin folder.
        suffix: How their names end.
        own: Names and files of the project's, relative to the package.
        read: Makes one of its file.
        prefix: What names begin with beyond the file's.
    """

    def __init__(
        self,
        noun: str,
        folder: str,
        suffix: str,
        own: Mapping[str, str | Path],
        *,
        read: Callable[[PluginFile], T],
        prefix: str = "",
    ) -> None:
        self.noun, self.folder, self._suffix, self._read, self._prefix = noun, folder, suffix, read, prefix
        self._own = {name: PluginFile(name, _PACKAGE / path, is_own=True) for name, path in own.items()}
        self._made: dict[PluginFile, T | PluginError] = {}

    @property
    def added(self) -> Sequence[PluginFile]:
        """The files of plugin folders, those of names that are taken included."""
        return [
            PluginFile(f"{self._prefix}{path.stem}", path, is_own=False)
            for folder in plugin_folders()
            for path in _files_in(folder / self.folder, self._suffix)
        ]

    def use(self, name: str) -> T:
        """The one of that name.

        Raises:
            ConfigurationError: It does not exist; the message lists the known ones.
            PluginError: Its file cannot be used, or several files have that name.
        """
        files = self._files(name)
        if not files:
            raise ConfigurationError(f"unknown {self.noun} {name!r}; {did_you_mean(name, list(self))}")
        if len(files) > 1:
            raise _contested(files)
        return self._get(files[0])

    def file(self, name: str) -> PluginFile | None:
        """The plugin's file of that name; None for the project's own and for unknown names."""
        first = next(iter(self._files(name)), None)
        return None if first is None or first.is_own else first

    @property
    def is_code(self) -> bool:
        """Return whether using one runs code of its file."""
        return self._suffix == ".py"

    def problems(self, *, run_code: bool = False) -> Iterator[PluginError]:
        """Find what of the plugin folders cannot be used; everything is read for it.

        Args:
            run_code: Also run the files that are code; otherwise they are only parsed.
        """
        for file in self.added:
            same = self._files(file.name)
            if same[0] != file:
                yield _contested([same[0], file])
            try:
                if run_code or not self.is_code:
                    self._get(file)
                else:
                    self._check_name(file)
                    parse_class(file)
            except PluginError as error:
                yield error

    def __getitem__(self, name: str) -> T:
        try:
            return self._get(self._files(name)[0])
        except (IndexError, PluginError) as error:
            raise KeyError(name) from error

    def __iter__(self) -> Iterator[str]:
        # Code is not run to list it.
        return (name for name, files in self._by_name().items() if self.is_code or self._can_be_read(files[0]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _files(self, name: str) -> list[PluginFile]:
        return self._by_name().get(name, [])

    def _by_name(self) -> dict[str, list[PluginFile]]:
        files = {name: [file] for name, file in self._own.items()}
        for file in self.added:
            files.setdefault(file.name, []).append(file)
        return files

    def _can_be_read(self, file: PluginFile) -> bool:
        try:
            self._get(file)
        except PluginError:
            return False
        return True

    def _get(self, file: PluginFile) -> T:
        if file not in self._made:
            try:
                self._check_name(file)
                self._made[file] = self._read(file)
            except PluginError as error:
                self._made[file] = error
        made = self._made[file]
        if isinstance(made, PluginError):
            raise made
        return made

    def _check_name(self, file: PluginFile) -> None:
        if not file.is_own and (not _NAME.fullmatch(file.path.stem) or file.path.stem in _RESERVED):
            raise PluginError(file.path, None, f"{file.path.stem!r} cannot be the name of a {self.noun}")


def _files_in(folder: Path, suffix: str) -> list[Path]:
    """List the files of a folder that end so, by name; none where it is missing."""
    try:
        paths = sorted(folder.iterdir())  # `glob` takes five times as long, and names are looked up hundreds of times
    except OSError:
        return []
    return [path for path in paths if path.name.endswith(suffix) and path.name[0] not in "._"]


def _contested(files: Sequence[PluginFile]) -> PluginError:
    first, *others = (file.path for file in files)
    return PluginError(others[0], None, f"{files[0].name} is the name of {first} too: rename the file")


def read_yaml(
    file: PluginFile, checked: Callable[[Any], T], complete: Callable[[dict[str, Any]], None] = lambda _: None
) -> T:
    """Read a YAML file.

    Args:
        file: It.
        checked: Makes something of its values, or raises a `ValueError`, such as one of pydantic.
        complete: Adds to the values what follows from others.

    Raises:
        PluginError: It is not valid YAML, or says something else.
    """
    text = _text(file.path)
    try:
        values = load_yaml(text)
        if not isinstance(values, dict):
            raise PluginError(file.path, 1, "must be a mapping (title: …)")
        complete(values)
        return checked(values)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise PluginError(file.path, line, f"is not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        if not hasattr(error, "errors"):  # pydantic's, whose import would cost start-up time
            raise PluginError(file.path, None, f"is not valid YAML: {error}") from error
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = message_of(first)
        raise PluginError(
            file.path, _line_of(text, first["loc"]), f"{place}: {message}" if place else message
        ) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(path, None, f"cannot be read: {error}") from error


def _line_of(text: str, place: Sequence[int | str]) -> int:
    """The line of a value in a YAML text, or of the innermost one around it that is there."""
    node, line = yaml.compose(text, Loader=_Loader), 1
    for step in place:
        if isinstance(node, yaml.MappingNode):
            inner = next(((key, value) for key, value in node.value if key.value == step), None)
            if inner is None:
                break
            line, node = inner[0].start_mark.line + 1, inner[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
    return line


def class_in(base: Callable[..., T]) -> Callable[[PluginFile], type[T]]:
    """Reads a Python file, and finds its subclass of `base` (an abstract class) whose `name` is the file's.

    The class gets the file's hash as `file_sha256`.
    """
    parent = cast("type[T]", base)

    def read(file: PluginFile) -> type[T]:
        module = load_module(file)
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, parent) and getattr(value, "name", None) == file.name:
                if lacking := ", ".join(sorted(getattr(value, "__abstractmethods__", ()))):
                    raise PluginError(file.path, inspect.getsourcelines(value)[1], f"{value.__name__} lacks {lacking}")
                if not file.is_own:
                    value.file_sha256 = file.sha256  # type: ignore[attr-defined]
                return value
        raise PluginError(file.path, None, f'has no subclass of {parent.__name__} with name = "{file.name}"')

    return read


def check_name(name: str) -> None:
    """See that a plugin can have this name.

    Raises:
        ConfigurationError: It cannot.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} cannot be a name: it takes a lower-case letter, then letters, digits and _")


def parse_module(path: Path) -> ast.Module:
    """Parse and compile a Python file without running it.

    Raises:
        PluginError: It is no Python, or cannot be read.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
        compile(tree, str(path), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Of a null byte Python before 3.11.4 says ValueError.
        kind = "SyntaxError" if isinstance(error, ValueError) else type(error).__name__
        raise PluginError(path, getattr(error, "lineno", None), f"{kind}: {error}") from error
    return tree


def parse_class(file: PluginFile) -> None:
    """See that a Python file, as far as its text tells, defines the class that `class_in` would find in it.

    Raises:
        PluginError: It is no Python, or has no such class.
    """
    nodes = list(ast.walk(parse_module(file.path)))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    if not classes and any(isinstance(node, ast.ImportFrom) for node in nodes):
        return  # it may come from elsewhere
    for line in (line for node in classes for line in node.body):
        targets = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        named = (node for target in targets if target for node in ast.walk(target))  # name, title = …
        if any(isinstance(node, ast.Name) and node.id == "name" for node in named):
            value = getattr(line, "value", None)
            if not isinstance(value, ast.Constant) or value.value == file.name:
                return
    raise PluginError(file.path, None, f'has no class with name = "{file.name}"')


def load_module(file: PluginFile) -> ModuleType:
    """The module that a Python file is.

    Raises:
        PluginError: The file cannot be run.
    """
    if file.is_own:
        return import_module(".".join([_PACKAGE.name, *file.path.relative_to(_PACKAGE).with_suffix("").parts]))
    # Classes find the names of their annotations in sys.modules.
    name = f"{_MODULES}{file.path.stem}_{hashlib.sha256(str(file.path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file.path)
    assert spec is not None  # noqa: S101  (the name ends with .py)
    assert spec.loader is not None  # noqa: S101
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PluginError(file.path, line_in(file.path, error), f"{type(error).__name__}: {error}") from error
    return module


def line_in(path: Path, error: BaseException) -> int | None:
    """Find the line of a file that an error comes from; None when it is from elsewhere."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return lines[-1] if lines else None


@contextmanager
def running(code: object, allowed: type[Exception] = ShaberiError) -> Iterator[None]:
    """Within this context an error of a plugin's code names the file and the line.

    Args:
        code: An object or a function of the plugin's; what the project has itself raises as it does.
        allowed: What it may raise.

    Raises:
        PluginError: The code raised something that is not our own error.
    """
    try:
        yield
    except allowed:
        raise
    except Exception as error:
        module = code.__module__ if callable(code) else type(code).__module__
        if not module.startswith(_MODULES):
            raise
        path = Path(sys.modules[module].__file__ or "")
        raise PluginError(path, line_in(path, error), f"{type(error).__name__}: {error}") from error


def added_names() -> dict[str, list[str]]:
    """The names of what plugin folders have that is named in commands, by the folder of its kind; nothing is read."""
    found = {
        kind: [path.stem for folder in plugin_folders() for path in _files_in(folder / kind, suffix)]
        for kind, suffix in _NAMED_IN_COMMANDS.items()
    }
    return {kind: names for kind, names in found.items() if names}
