"""Fixtures of the tests of the `cpu` device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tileprof.runtime.cpu import pool as cpu_pool


@pytest.fixture(autouse=True)
def _as_users_get_them(optimised: None) -> None:
    """Compile kernels as users get them."""


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Launches share their blocks between two threads, whatever the machine has."""
    cpu_pool.set_threads(2)
    yield
    cpu_pool.set_threads(None)
