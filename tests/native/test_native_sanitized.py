"""The thread pool, and what reads bytes in C++, under sanitizers; forks at awkward moments.

`benchmarks/reliability/sanitizers.py` runs the same for longer, and the pool, the launcher and what
else is compiled under AddressSanitizer too.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.native.sanitized_programs import THREAD, UNDEFINED, build, run

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None, reason="could not import 'g++': no compiler"
)


@pytest.mark.sweep
def test_launches_of_the_pool_are_clean(tmp_path: Path) -> None:
    """Eight threads launch at once and every launch gives the results that were asked for."""
    launched, wrong, _ = run(build("pool_stress", tmp_path, THREAD), 0, 60, 0)
    assert (launched, wrong) == (8 * 60, 0)


def test_child_that_is_forked_while_others_fail_goes_on(tmp_path: Path) -> None:
    """A thread of the parent that notes a failure holds nothing that a child waits for."""
    assert run(build("fork_stress", tmp_path, UNDEFINED), 100) == [0]


@pytest.mark.sweep
def test_states_of_threads_are_those_of_the_calling_thread(tmp_path: Path) -> None:
    """Threads that begin where others have ended find their own state, and no race is reported."""
    assert run(build("states_stress", tmp_path, THREAD, "-O0"), 20) == [8 * 20 * 200, 0]


@pytest.mark.sweep
def test_torn_and_foreign_records_are_not_read_beyond_their_end(tmp_path: Path) -> None:
    """Buffers of records that are cut, short or of unknown length are read within their bounds."""
    assert run(build("records_fuzz", tmp_path, "address", "-O0"), 500, 1) == [500]
