"""Reading records takes nothing from the heap again and again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.cupti_programs import FAKE, RECORDER, compile_cpp, joined
from tests.native.sanitized_programs import READERS

PROGRAM = Path(__file__).parent / "steady_heap"
BATCHES, RECORDS = 100, 5000


@pytest.mark.sweep
def test_reading_takes_nothing_from_the_heap_once_all_was_met(tmp_path: Path) -> None:
    """What a batch needs is kept from the one before, or is in pages of its own, which end with the
    totals that they hold; so the heaps of CUPTI's threads do not grow for as long as they read."""
    if shutil.which("g++") is None:
        pytest.skip("could not import 'g++': no compiler")
    sources = (PROGRAM, *(RECORDER / each for each in READERS))
    program = tmp_path / "steady_heap"
    flags = ("-O1", f"-I{RECORDER}", f"-I{FAKE}", "-ldl")
    compile_cpp([joined(tmp_path / "all.cpp", *sources)], program, *flags)
    done = subprocess.run(
        [str(program), str(BATCHES)], capture_output=True, text=True, timeout=60, check=True
    )
    records, idle, reading, handing, drains, held = map(int, done.stdout.split())
    assert records == BATCHES * RECORDS
    assert idle > RECORDS
    assert drains == BATCHES // 10
    assert (reading, handing, held) == (0, 0, 0)
