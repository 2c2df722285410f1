import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Footer, Input, KeyPanel, Static
from textual.widgets._footer import FooterKey

from shaberi_dagster.lake.catalog import open_catalog
from shaberi_dagster.reports.questions import PAGE, Filter, read_runs
from shaberi_dagster.viewer.terminal import Inspector, QuestionsScreen
from tests.inspected import made

pytestmark = pytest.mark.integration

LOW = (80, 24)
"""Columns and lines of a small terminal."""
Acts = Callable[[Pilot[None]], Awaitable[None]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(tmp_path_factory.mktemp("inspected")).folder


@pytest.fixture
def drive(folder):
    def driven(acts: Acts, filter_text: str = "", *, together: bool = False, size: tuple[int, int] = (140, 40)) -> None:
        async def play() -> None:
            with open_catalog(folder) as catalog:
                runs = read_runs(catalog, benchmark=None)
                app = Inspector(catalog, runs, Filter.parse(filter_text), together=together)
                async with app.run_test(size=size) as pilot:
                    await acts(pilot)

        asyncio.run(play())

    return driven


def on_screen(*arguments, **options):
    """Make a test of what is done on the screen of the browser of two runs."""

    def made_of(acts):
        def test(drive):
            drive(acts, *arguments, **options)

        test.__name__ = acts.__name__
        return test

    return made_of


def texts(pilot) -> str:
    return "\n".join(str(one.render()) for one in pilot.app.screen.query(Static).results(Static))


def rows(pilot) -> list[list[str]]:
    table = pilot.app.screen.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(index)] for index in range(table.row_count)]


async def both(pilot) -> None:
    await pilot.press("space", "j", "space", "enter")
    await pilot.pause()


def test_of_many_runs_all_can_be_chosen_and_the_title_stays(folder):
    async def play() -> None:
        with open_catalog(folder) as catalog:
            runs = read_runs(catalog)
            many = [run | {"run_ids": [f"{index}"]} for index in range(150) for run in runs]
            async with Inspector(catalog, many, Filter()).run_test(size=(140, 40)) as pilot:
                await pilot.pause()
                await pilot.pause()
                table, title = pilot.app.screen.query_one(DataTable), pilot.app.screen.query(Static).first()
                assert table.row_count == len(many) > 2 * PAGE
                await pilot.press("ctrl+end")
                assert table.cursor_row == len(many) - 1
                assert (title.region.y, pilot.app.screen.max_scroll_y) == (0, 0)

    asyncio.run(play())


@on_screen(together=True)
async def test_runs_that_are_named_together_are_side_by_side_at_once(pilot):
    await pilot.pause()
    assert rows(pilot)[9][:5] == ["tengu@230", "10", "9.00", "1.00", "8.00"]
    await pilot.press("escape")
    assert len(rows(pilot)) == 2


@on_screen()
async def test_two_marked_runs_are_shown_side_by_side_with_their_difference(pilot):
    await both(pilot)
    assert rows(pilot)[9][:5] == ["tengu@230", "10", "9.00", "1.00", "8.00"]
    await pilot.press("enter")
    await pilot.pause()
    shown = texts(pilot)
    assert "質問1：犬は何匹いますか？" in shown
    assert "alphaの答え1" in shown
    assert "betaの答え1" in shown
    assert "▸ a  9" in shown
    await pilot.press("j", "j")
    assert "error: transient" in texts(pilot)
    await pilot.press("k")
    assert "betaの答え2" in texts(pilot)


@pytest.mark.long
@on_screen(size=LOW)
async def test_a_question_mark_lists_all_keys_on_each_screen(pilot):
    for opens, has in (([], "mark for side by side"), (["enter"], "failures"), (["enter"], "copy")):
        await pilot.press(*opens)
        await pilot.pause()
        await pilot.press("question_mark")
        await pilot.pause()
        keys = pilot.app.screen.query_one("BindingsTable", Static).render()
        list_of_keys = " ".join(str(cell) for column in keys.columns for cell in column.cells)
        assert has in list_of_keys
        assert "where A loses" not in list_of_keys  # of one run
        await pilot.press("question_mark")
        await pilot.pause()
        assert not pilot.app.screen.query(KeyPanel)
    await pilot.press("u", "u")
    await pilot.pause()
    assert len(rows(pilot)) == 2


@on_screen(size=LOW)
async def test_on_80_columns_each_key_of_the_footer_is_whole(pilot):
    for opens in ("space", "enter", "enter"):  # the runs, the questions, the answers of both
        await pilot.press(*(["space", "j"] if opens == "space" else []), opens)
        await pilot.pause()
        footer = pilot.app.screen.query_one(Footer)
        keys = [key.description for key in footer.query("FooterKey").results(FooterKey)]
        assert "keys" in keys
        assert footer.max_scroll_x == 0, keys


def test_on_80_columns_each_run_has_its_whole_score_and_a_name_of_its_own(folder):
    async def play() -> None:
        with open_catalog(folder) as catalog:
            (run, *_) = read_runs(catalog)
            long = [run | {"model": f"vendor__{number}-{'m' * 60}-instruct"} for number in range(20)]
            async with Inspector(catalog, long, Filter()).run_test(size=LOW) as pilot:
                await pilot.pause()
                shown, table = rows(pilot), pilot.app.screen.query_one(DataTable)
                assert len({model for _, model, *_ in shown}) == len(long)
                assert {row[3] for row in shown} == {"9.00"}
                up_to_score = list(table.columns.values())[:4]
                assert sum(column.get_render_width(table) for column in up_to_score) <= LOW[0]

    asyncio.run(play())


@on_screen()
async def test_where_a_loses_is_a_key_and_a_filter(pilot):
    await pilot.press("j", "space", "k", "space", "enter")  # beta is A
    await pilot.pause()
    assert "A beta july\nB alpha july" in texts(pilot)
    await pilot.press("l")
    assert "229 questions · loses" in texts(pilot)
    assert "3" not in [row[1] for row in rows(pilot)]  # it failed there
    await pilot.press("l")
    assert "230 questions\n" in texts(pilot)


async def alpha_is_a(pilot):
    await pilot.pause()
    assert "0 questions · loses\nA alpha july\nB beta july" in texts(pilot)
    drive(alpha_is_a, "loses", together=True)


@on_screen()
async def test_escape_leaves_a_filter_that_one_writes_as_it_was(pilot):
    await both(pilot)
    await pilot.press("slash", "x", "escape")
    assert isinstance(pilot.app.screen, QuestionsScreen)
    assert pilot.app.screen.focused is pilot.app.screen.query_one(DataTable)
    assert "230 questions\n" in texts(pilot)
    await pilot.press("escape")
    await pilot.pause()
    assert len(rows(pilot)) == 2


@on_screen()
async def test_marked_runs_have_the_letters_that_their_columns_will_have(pilot):
    await pilot.press("j", "space", "k", "space")
    await pilot.pause()
    table = pilot.app.screen.query_one(DataTable)
    assert [row[0] for row in rows(pilot)] == ["B", "A"]
    assert table.columns[""].content_width == 1
    await pilot.press("j", "space")
    assert [row[0] for row in rows(pilot)] == ["A", ""]


@on_screen()
async def test_runs_are_found_by_words_and_ordered_by_score_and_marks_stay(pilot):
    def models() -> list[str]:
        return [row[1] for row in rows(pilot)]

    await pilot.press("j", "space", "slash", *"JULY bet", "enter")
    await pilot.pause()
    assert (models(), "1 of 2" in texts(pilot)) == (["beta"], True)
    assert rows(pilot)[0][0] == "A"
    await pilot.press("space", "space", "slash", *["backspace"] * 8, "enter", "s")
    await pilot.pause()
    assert (models(), "by score" in texts(pilot)) == (["alpha", "beta"], True)
    assert [row[0] for row in rows(pilot)] == ["", "A"]
    await pilot.press("space", "slash", "escape", "enter")
    await pilot.pause()
    assert [run["model"] for run in pilot.app.screen.runs] == ["beta", "alpha"]


@on_screen()
async def test_a_filter_without_a_run_does_no_harm(pilot):
    await pilot.press("slash", *"nobody", "enter", "space")
    assert rows(pilot) == []


@on_screen()
async def test_arrows_scroll_the_first_answer(pilot):
    await both(pilot)
    await pilot.press("enter")
    await pilot.pause()
    assert pilot.app.screen.focused is pilot.app.screen.query(".answer").first()


@on_screen()
async def test_a_hostile_answer_shows_as_text(pilot):
    await both(pilot)
    await pilot.press(*"jjjjjj", "enter")
    await pilot.pause()
    shown = texts(pilot)
    assert "[/INST] [red]赤[/] ␛[2J␇‹U+202E›[@click=app.quit]x[/]\n二行目" in shown
    assert "[b]評価[/b]" in shown
    assert "\x1b" not in shown


@on_screen()
async def test_questions_are_read_page_by_page_while_one_scrolls(pilot):
    await pilot.press("enter")
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, QuestionsScreen)
    assert len(screen.questions) == PAGE
    pilot.app.screen.query_one(DataTable).move_cursor(row=60)
    await pilot.pause()
    assert len(screen.questions) == 2 * PAGE


@on_screen()
async def test_a_filter_is_written_and_a_wrong_one_is_said(pilot):
    await pilot.press("enter")
    await pilot.pause()
    await pilot.press("slash", *"score<1", "enter")
    await pilot.pause()
    assert any("no question matches" in one.message for one in pilot.app._notifications)
    await pilot.press("slash")
    pilot.app.screen.query_one(Input).value = "category:敬語"
    await pilot.press("enter")
    await pilot.pause()
    assert len(rows(pilot)) == 23
    assert "23 questions · category:敬語" in texts(pilot)
    await pilot.press("slash")
    pilot.app.screen.query_one(Input).value = "sort:nothing"
    await pilot.press("enter")
    assert pilot.app.screen.query_one(Input).display
    assert any("sort:" in one.message for one in pilot.app._notifications)


@on_screen()
async def test_one_leads_back_from_a_question_to_its_own_line(pilot):
    await both(pilot)
    await pilot.press("j", "enter")
    await pilot.pause()
    assert "2 of 230" in texts(pilot)
    await pilot.press("j", "j", "k", "u")
    await pilot.pause()
    assert pilot.app.screen.query_one(DataTable).cursor_row == 2
    heads = [str(column.label) for column in pilot.app.screen.query_one(DataTable).columns.values()]
    assert heads[2:5] == ["A", "B", "A-B"]


@pytest.mark.long
@on_screen()
async def test_failures_orders_references_and_judges_texts_have_a_key(pilot):
    await both(pilot)
    await pilot.press("f")
    assert [row[1] for row in rows(pilot)] == ["3", "5"]
    await pilot.press("f", "s")
    assert rows(pilot)[0][1] == "9"
    await pilot.press("enter")
    await pilot.pause()
    assert "評価" in texts(pilot)
    assert "9匹" not in texts(pilot)
    await pilot.press("t", "r")
    assert "評価" not in texts(pilot)
    assert "9匹" in texts(pilot)
    await pilot.press("y")
    assert "betaの答え9" in pilot.app.clipboard


@on_screen()
async def test_a_filter_finds_what_a_row_shows(pilot):
    await both(pilot)
    for words, n in (("tengu@230 22", 11), ("敬語", 23)):
        await pilot.press("slash")
        pilot.app.screen.query_one(Input).value = words
        await pilot.press("enter")
        await pilot.pause()
        assert len(rows(pilot)) == n
