"""One at a time for each request, among all processes."""

import asyncio
import subprocess
import sys

import pytest

from shaberi_dagster.lake.journal.claims import FileClaims

pytestmark = pytest.mark.unit
_FIRST, _SECOND = "0" * 63 + "1", "f" * 64
_HOLDER = f"""
import asyncio, sys
from pathlib import Path
from shaberi_dagster.lake.journal.claims import FileClaims
async def hold():
    async with FileClaims(Path(sys.argv[1])).of({_SECOND!r}):
        print("held", flush=True)
        await asyncio.sleep(600)
asyncio.run(hold())
"""


async def _is_free(claims, request_hash):
    try:
        async with asyncio.timeout(0.1), claims.of(request_hash):
            return True
    except TimeoutError:
        return False


def test_a_claim_is_one_request_s_and_free_after_its_context(tmp_path):
    async def work():
        with (
            FileClaims(tmp_path / "locks" / "calls.lock") as own,
            FileClaims(tmp_path / "locks" / "calls.lock") as others,
        ):
            async with own.of(_FIRST):
                held = await _is_free(others, _FIRST), await _is_free(others, _SECOND)
            return held, await _is_free(others, _FIRST)

    assert asyncio.run(work()) == ((False, True), True)


def test_the_claim_of_a_killed_process_is_free(tmp_path):
    async def work():
        with FileClaims(tmp_path / "calls.lock") as claims:
            before = await _is_free(claims, _SECOND)
            holder.kill()
            holder.wait()
            return before, await _is_free(claims, _SECOND)

    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, tmp_path / "calls.lock"], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    assert asyncio.run(work()) == (False, True)
    holder.stdout.close()
