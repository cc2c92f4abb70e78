"""Fixtures of the tests of samples of the program counter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.native.cupti_programs import Fake
from tests.native.pc_programs import Sampling


@pytest.fixture
def sampling(stopped: Fake) -> Iterator[Sampling]:
    """The played library with nobody recording; nothing may be called in a wrong order."""
    with Sampling(stopped).ended() as sampling:
        yield sampling
