"""What the tests of cubins share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sm_80", "sm_90a"])
def arch(request: pytest.FixtureRequest) -> str:
    """The architectures that kernels are compiled for."""
    return str(request.param)
