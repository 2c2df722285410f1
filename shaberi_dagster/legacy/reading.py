"""Reading the files of many models: in parts that fit into memory, by several processes when there is much."""

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from shaberi_dagster.benchmarks.questions import QuestionSet
from shaberi_dagster.legacy.assemble import Batch, concatenated, read_model
from shaberi_dagster.legacy.questions import QuestionIndex
from shaberi_dagster.legacy.tree import LegacyFile

_PART_BYTES = 24_000_000
_WORTH_A_PROCESS = 96_000_000  # starting one takes as long as reading half of that
_MOST_PROCESSES = 2  # one reads while the other one commits; each takes half a gigabyte


@dataclass(frozen=True)
class Reading:
    """What is the same for all models of an import.

    Attributes:
        sets: The question sets known beforehand.
        tag: Tag of the runs.
        imported_at: `created_at` of the rows.
    """

    sets: Sequence[QuestionSet]
    tag: str
    imported_at: datetime


@dataclass(frozen=True)
class Part:
    """Some models, read.

    Attributes:
        models: Their file names.
        size: Of their files, in bytes.
        batch: All their rows.
        sets: The question sets of the rows.
    """

    models: Sequence[str]
    size: int
    batch: Batch
    sets: Sequence[QuestionSet]


def read_models(
    models: Mapping[str, Sequence[LegacyFile]], reading: Reading, *, processes: int | None = None
) -> Iterator[Part]:
    """Read models, nearly in their order.

    Args:
        models: Their files in the order of precedence.
        reading: What is the same for all of them.
        processes: How many, this one included; None: as many as are worth it.
    """
    parts = list(_parts(models))
    size = sum(_size(files) for files in models.values())
    if processes is None:
        processes = min(_MOST_PROCESSES, os.cpu_count() or 1, size // _WORTH_A_PROCESS)
    if processes <= 1:
        yield from (_read(part, reading) for part in parts)
        return
    helpers = processes - 1
    # Not forked: the engine and Dagster have threads.
    pool = ProcessPoolExecutor(helpers, multiprocessing.get_context("spawn"), initializer=_begin)
    waiting, pending = deque(parts), deque[Future[Part]]()
    try:
        while waiting or pending:
            while waiting and len(pending) < 2 * helpers:  # what is read waits in memory
                pending.append(pool.submit(_read, waiting.popleft(), reading))
            if waiting and not pending[0].done():
                yield _read(waiting.popleft(), reading)
            else:
                yield pending.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _parts(models: Mapping[str, Sequence[LegacyFile]]) -> Iterator[dict[str, Sequence[LegacyFile]]]:
    part: dict[str, Sequence[LegacyFile]] = {}
    size = 0
    for model, files in models.items():
        part[model] = files
        size += _size(files)
        if size >= _PART_BYTES:
            yield part
            part, size = {}, 0
    if part:
        yield part


def _size(files: Sequence[LegacyFile]) -> int:
    return sum(file.size or 0 for file in files)


def _read(part: Mapping[str, Sequence[LegacyFile]], reading: Reading) -> Part:
    index = QuestionIndex(reading.sets)
    # Rows are made by the ten thousands and freed by their count; looking for cycles among them costs a tenth.
    gc.disable()
    try:
        batches = [
            read_model(model, files, index, tag=reading.tag, imported_at=reading.imported_at)
            for model, files in part.items()
        ]
    finally:
        gc.enable()
    batch = concatenated(batches)
    names = set(batch.answers["question_set"])
    sets = [questions for name, questions in index.sets.items() if name in names]
    return Part(list(part), sum(_size(files) for files in part.values()), batch, sets)


def _begin() -> None:
    """Make this process end when it must, and only then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot stop its workers."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
