"""A terminal browser of answers: runs, their questions page by page, and one question with models side by side.

Everything is read through `reports.questions`, a page or a question at a time. Texts of models are shown as text:
no cell and no label is read as markup.
"""

from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, HelpPanel, Input, Static

from shaberi_dagster.lake.statements import Catalog
from shaberi_dagster.reports.blocks import Row, Rows, decimals
from shaberi_dagster.reports.questions import (
    PAGE,
    SORTS,
    Filter,
    answers_texts,
    check_filter,
    question_text,
    read_questions,
    read_texts,
)
from shaberi_dagster.util.errors import ConfigurationError
from shaberi_dagster.util.text import printable, truncate, truncate_apart, width_of

_NAME_WIDTH, _TAG_WIDTH, _BESIDE_NAMES = 16, 16, 43  # the latter: mark, score, counts and status, never cut
_CATEGORY_WIDTH, _QUESTION_WIDTH = 16, 60
_LETTERS = "ABCD"
_MOST_RUNS = len(_LETTERS)
_QUIT = Binding("q", "app.quit", "quit")
_BACK = Binding("escape,u", "app.pop_screen", "back")


class _ListScreen(Screen[None]):
    """A list, below a field that is there while one writes a filter.

    Attributes:
        HINT: What stands in the empty field.
        written: What stands in it when one writes.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter"),
        Binding("s", "sort", "sort"),
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
    ]
    HINT: ClassVar[str]
    written = ""

    def compose(self) -> ComposeResult:
        """Lay out the state, the filter while one writes it, a table and the keys."""
        yield Static(id="state")
        yield Input(placeholder=self.HINT)
        yield DataTable(cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Show the list."""
        self.query_one(Input).display = False
        self.show()
        self.query_one(DataTable).focus()

    def show(self) -> None:
        """Make the list again."""
        raise NotImplementedError

    def say(self, *lines: str) -> None:
        """Write the lines above the list."""
        self.query_one("#state", Static).update(Text("\n".join(map(printable, lines)), style="bold"))

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        table = self.query_one(DataTable)
        table.move_cursor(row=table.cursor_row + rows)

    def action_filter(self) -> None:
        """Write another filter."""
        field = self.query_one(Input)
        field.display, field.value = True, self.written
        field.focus()

    def action_leave_field(self) -> None:
        """Go on in the list."""
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()


class RunsScreen(_ListScreen):
    """The runs, to open one or to mark several that are shown side by side."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "mark for side by side"),
        Binding("escape", "leave_field", "leave the filter", show=False),
        _QUIT,
    ]
    HINT = "words of model and tag"

    def __init__(self, runs: Rows, chosen: Filter) -> None:
        super().__init__()
        self._runs, self._chosen = runs, chosen
        self._marked: list[int] = []
        self._names: list[tuple[str, str]] = []
        self._by_score = False
        self._shown: list[int] = []

    def show(self) -> None:
        """Show the runs."""
        if not self._names:
            tags = truncate_apart([printable(run["run_tag"]) for run in self._runs], _TAG_WIDTH, "middle")
            room = max(self.app.size.width - _BESIDE_NAMES - max(map(width_of, tags)), _NAME_WIDTH)
            models = truncate_apart([printable(run["model"]) for run in self._runs], room, "middle")
            self._names = [*zip(models, tags, strict=True)]
        table = self.query_one(DataTable)
        table.clear(columns=True)
        for title in ("", "model", "tag", "score", "answers", "failed", "status", "benchmarks"):
            table.add_column(title, key=title)
        words = self.written.lower().split()
        named = [f"{run['model']} {run['run_tag']}".lower() for run in self._runs]
        self._shown = [index for index, name in enumerate(named) if all(word in name for word in words)]
        if self._by_score:
            self._shown.sort(key=lambda index: -(self._runs[index]["score"] or 0.0))
        how = [f"{len(self._shown):,} of {len(self._runs):,}"] if words else []
        how += ["by score, each by its own judges"] if self._by_score else []
        self.say("runs: enter opens one, space marks up to four for side by side", *([" · ".join(how)] if how else []))
        for index in self._shown:
            run = self._runs[index]
            numbers = decimals(run["score"]), f"{run['n_answers']:,}", str(run["n_failed"])
            cells = [*map(Text, self._names[index]), *(Text(number, justify="right") for number in numbers)]
            more = Text(run["status"]), Text(", ".join(run["benchmarks"]))
            table.add_row(self._letter(index), *cells, *more, key=str(index))

    def _letter(self, index: int) -> Text:
        return Text(_LETTERS[self._marked.index(index)] if index in self._marked else "")

    def action_mark(self) -> None:
        """Mark the run, or take its mark away."""
        if not self._shown:
            return
        table = self.query_one(DataTable)
        index = self._shown[table.cursor_row]
        if index in self._marked:
            self._marked.remove(index)
        elif len(self._marked) < _MOST_RUNS:
            self._marked.append(index)
        for row in {index, *self._marked} & {*self._shown}:
            table.update_cell(str(row), "", self._letter(row), update_width=True)

    def action_sort(self) -> None:
        """By score, or as they were."""
        self._by_score = not self._by_score
        self.show()

    @on(Input.Submitted)
    def filtered(self, event: Input.Submitted) -> None:
        """Show the runs with these words."""
        self.written = event.value
        self.show()
        self.action_leave_field()

    @on(DataTable.RowSelected)
    def open(self, event: DataTable.RowSelected) -> None:
        """The questions of the marked runs, or of this one."""
        indexes = self._marked or [self._shown[event.cursor_row]]
        self.app.push_screen(QuestionsScreen([self._runs[index] for index in indexes], self._chosen))


class QuestionsScreen(_ListScreen):
    """The questions of some runs, which are read page by page while one scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "failed", "failures"),
        Binding("l", "loses", "where A loses"),
        Binding("escape,u", "back", "back"),
        _QUIT,
    ]
    HINT = "benchmark:elyza judge:gpt score<5 failed loses sort:difference words"

    def __init__(self, runs: Rows, chosen: Filter) -> None:
        super().__init__()
        self.runs = runs
        self._chosen = chosen
        self.questions: list[Row] = []
        self.n_questions = 0

    @property
    def written(self) -> str:  # type: ignore[override]
        """The filter as one writes it."""
        return str(self._chosen)

    def show(self) -> None:
        """The first page."""
        table = self.query_one(DataTable)
        table.clear(columns=True)
        heads = [*_LETTERS[: len(self.runs)]] if len(self.runs) > 1 else ["score"]
        several = ["A-B" if len(self.runs) == 2 else "apart"] if len(self.runs) > 1 else []  # noqa: PLR2004
        for title in ("set", "#", *heads, *several, "judges apart", "failed", "question", "category"):
            table.add_column(Text(title))
        self.questions, self.n_questions = [], 0
        self._read_page()

    def _read_page(self) -> None:
        app = _app(self)
        page = read_questions(app.catalog, self.runs, self._chosen, offset=len(self.questions), limit=PAGE)
        self.n_questions = page[0]["n_questions"] if page else self.n_questions
        table = self.query_one(DataTable)
        for question in page:
            table.add_row(*self._cells(question))
        self.questions += page
        said = f"{self.n_questions:,} questions" + (f" · {self._chosen}" if str(self._chosen) else "")
        names = [f"{run['model']} {run['run_tag']}" for run in self.runs]
        if len(names) > 1:
            names = [f"{letter} {name}" for letter, name in zip(_LETTERS, names, strict=False)]
        self.say(said, *names)

    def _cells(self, question: Row) -> list[Text]:
        scores = question["scores"]
        numbers = [*scores, *([question["difference"]] if len(scores) > 1 else []), question["disagreement"]]
        if len(scores) == 2 and question["difference"] is not None:  # noqa: PLR2004
            numbers[2] = (scores[0] or 0.0) - (scores[1] or 0.0)
        place = question["question_set"].partition("-")[0], str(question["position"] or question["question_id"][:8])
        texts = (
            truncate(printable(question["question"] or ""), _QUESTION_WIDTH),
            truncate(printable(question["category"] or ""), _CATEGORY_WIDTH),
        )
        shown = [*map(decimals, numbers), str(question["n_failed"] or "")]
        return [*map(Text, place), *(Text(number, justify="right") for number in shown), *map(Text, texts)]

    def read_up_to(self, index: int) -> bool:
        """Read pages until there is a question at that place; whether there is one."""
        while index >= len(self.questions) and len(self.questions) < self.n_questions:
            self._read_page()
        return 0 <= index < len(self.questions)

    @on(DataTable.RowHighlighted)
    def read_ahead(self, event: DataTable.RowHighlighted) -> None:
        """The next page before the cursor is at the end."""
        self.read_up_to(event.cursor_row + PAGE // 2)

    @on(DataTable.RowSelected)
    def open(self, event: DataTable.RowSelected) -> None:
        """The texts of a question."""
        self.app.push_screen(AnswersScreen(self, event.cursor_row))

    @on(Input.Submitted)
    def filtered(self, event: Input.Submitted) -> None:
        """Show what the filter leaves, or say what is wrong with it."""
        try:
            chosen = Filter.parse(event.value)
            check_filter(_app(self).catalog, chosen, self.runs)
        except ConfigurationError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._chosen = chosen
        self.show()
        self.action_leave_field()

    def action_sort(self) -> None:
        """The next order."""
        place = SORTS.index(self._chosen.sort) + 1
        self._chosen = replace(self._chosen, sort=SORTS[place % len(SORTS)])
        self.show()

    def action_back(self) -> None:
        """Leave the filter that one writes as it was, or the questions."""
        if self.query_one(Input).has_focus:
            self.action_leave_field()
        else:
            self.app.pop_screen()

    def action_failed(self) -> None:
        """Only what failed, or everything."""
        self._chosen = self._chosen.with_other_flag("failed")
        self.show()

    def action_loses(self) -> None:
        """Only where A is below another run, or everything."""
        self._chosen = self._chosen.with_other_flag("loses")
        self.show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002
        """One run alone loses nowhere."""
        return action != "loses" or len(self.runs) > 1


class AnswersScreen(Screen[None]):
    """A question with the answers and judgements of each run, side by side."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,right", "next(1)", "next"),
        Binding("k,left", "next(-1)", "previous"),
        Binding("t", "judgements", "judges' texts"),
        Binding("r", "reference", "reference"),
        Binding("y", "copy", "copy", show=False),
        _BACK,
        _QUIT,
    ]
    AUTO_FOCUS = ".answer"
    CSS = """
    #question { height: auto; max-height: 35%; border-bottom: solid $primary; }
    .answer { width: 1fr; border-right: solid $primary; }
    """

    def __init__(self, questions: QuestionsScreen, index: int) -> None:
        super().__init__()
        self._questions, self._index = questions, index
        self._with_judgements, self._with_reference = True, False
        self._question: Row | None = None

    def compose(self) -> ComposeResult:
        """The question above, a column for each run below."""
        with VerticalScroll(id="question"):
            yield Static()
        with Horizontal():
            for _ in self._questions.runs:
                with VerticalScroll(classes="answer"):
                    yield Static()
        yield Footer()

    def on_mount(self) -> None:
        """Show the question."""
        self._read()

    def _read(self) -> None:
        runs = self._questions.runs
        (self._question,) = read_texts(_app(self).catalog, runs, [self._questions.questions[self._index]])
        for column in self.query(VerticalScroll):
            column.scroll_home(animate=False)
        self._show()

    def _show(self) -> None:
        if self._question is None:
            return
        question = self.query_one("#question Static", Static)
        place = Text(f"{self._index + 1:,} of {self._questions.n_questions:,}\n", style="dim")
        question.update(place + question_text(self._question, in_full=self._with_reference))
        answers = answers_texts(self._questions.runs, self._question, judgements=self._with_judgements)
        for text, column in zip(answers, self.query(".answer Static").results(Static), strict=True):
            column.update(text)

    def action_next(self, places: int) -> None:
        """Another question."""
        if self._questions.read_up_to(self._index + places):
            self._index += places
            self._questions.query_one(DataTable).move_cursor(row=self._index)  # where `u` leads back to
            self._read()

    def action_judgements(self) -> None:
        """With or without the judges' texts."""
        self._with_judgements = not self._with_judgements
        self._show()

    def action_reference(self) -> None:
        """With or without reference and criteria."""
        self._with_reference = not self._with_reference
        self._show()

    def action_copy(self) -> None:
        """Copy everything of the question, as text, into the clipboard of the terminal."""
        if self._question:
            whole = [question_text(self._question), *answers_texts(self._questions.runs, self._question)]
            self.app.copy_to_clipboard("\n\n".join(text.plain for text in whole))
            self.notify("copied")


class Inspector(App[None]):
    """The browser.

    Args:
        catalog: The public views.
        runs: What there is to choose from.
        chosen: Which of their questions.
        together: Whether the runs are meant to be side by side, if they are not too many.

    Attributes:
        catalog: The public views.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "keys", "keys")]
    ENABLE_COMMAND_PALETTE = False
    CSS = "#state { height: auto; } Input { height: 3; } DataTable { height: 1fr; }"

    def __init__(self, catalog: Catalog, runs: Rows, chosen: Filter, *, together: bool = False) -> None:
        super().__init__()
        self.catalog = catalog
        self._runs, self._chosen = runs, chosen
        self._at_once = len(runs) == 1 or (together and len(runs) <= _MOST_RUNS)

    def on_mount(self) -> None:
        """The runs first; above them the questions, if it is clear of which."""
        self.push_screen(RunsScreen(self._runs, self._chosen))
        if self._at_once:
            self.push_screen(QuestionsScreen(self._runs, self._chosen))

    def action_keys(self) -> None:
        """Show all keys of the screen beside it, or hide them."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()


def _app(screen: Screen[None]) -> Inspector:
    app = screen.app
    if not isinstance(app, Inspector):
        raise TypeError("a screen of the inspector")
    return app
