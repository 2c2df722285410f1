"""Many items at once, but not too many: workers that pull from one iterator."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
_NO_MORE: Final = object()


def _raise(_: Any, error: Exception) -> Any:
    raise error


async def _worker(
    taken: Callable[[], Awaitable[Any]],
    work: Callable[[Item], Awaitable[Result]],
    failed: Callable[[Item, Exception], Result],
    finished: "asyncio.Queue[tuple[bool, tuple[Item, Result] | BaseException | None]]",
) -> None:
    try:
        while (item := await taken()) is not _NO_MORE:
            try:
                result = await work(item)
            except Exception as error:  # noqa: BLE001 - raised again unless it is of this item
                result = failed(item, error)
            await finished.put((True, (item, result)))
    except Exception as error:  # noqa: BLE001 - handed to the taker of the results
        await finished.put((False, error))
    else:
        await finished.put((False, None))


async def run_all(
    items: AsyncIterator[Item],
    work: Callable[[Item], Awaitable[Result]],
    workers: int,
    failed: Callable[[Item, Exception], Result] = _raise,
) -> AsyncIterator[tuple[Item, Result]]:
    """Work on all items with a bounded number of workers, which take them from one iterator as they get free.

    Args:
        items: What to work on; taken one by one, so that they need not all be there at once.
        work: Makes an item's result.
        workers: Items in work at once; results wait to be taken, so the next ones are not begun too early.
        failed: Returns the result of an item whose work raised, or raises what ends all work.

    Yields:
        Items with their results, as they are finished.

    Raises:
        Exception: The first one that `work` or `items` raise; all other work is cancelled before.
    """
    taking = asyncio.Lock()  # a generator gives its items to one worker at a time
    finished: asyncio.Queue[tuple[bool, tuple[Item, Result] | BaseException | None]] = asyncio.Queue(maxsize=workers)

    async def taken() -> Any:
        async with taking:
            return await anext(items, _NO_MORE)

    tasks = [asyncio.create_task(_worker(taken, work, failed, finished)) for _ in range(workers)]
    try:
        working = workers
        while working:
            has_result, outcome = await finished.get()
            if has_result:
                yield outcome  # type: ignore[misc]
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                working -= 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
