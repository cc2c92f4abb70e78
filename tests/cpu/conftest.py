"""What the tests of the `cpu` device share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_users_get_them(optimised: None) -> None:
    """Compile kernels as users get them."""
