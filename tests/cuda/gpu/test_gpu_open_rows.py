"""Copies of tiles whose rows are known at launch only, on a real GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tileprof
from tests.cuda.test_open_rows import product

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


def test_each_launch_takes_the_variant_that_its_rows_allow() -> None:
    """One compiled kernel; aligned and ragged rows in turns, and none at all."""
    kernel = tileprof.compile(product())
    for m, n, k in ((512, 1024, 256), (70, 72, 80), (70, 70, 76), (513, 1023, 255)) * 2:
        a, b = (torch.randint(-4, 5, s).half().cuda() for s in ((m, k), (k, n)))
        c = torch.full((m, n), 7.0, device="cuda", dtype=torch.float16)
        kernel(a, b, c)
        assert torch.equal(c, (a.float() @ b.float()).half())
