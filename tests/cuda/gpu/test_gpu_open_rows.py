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


@pytest.mark.parametrize("offset", [0, 1])
def test_the_variant_for_one_tensor_may_ask_for_more(offset: int) -> None:
    """Rows of A begin at multiples of 16 bytes and do not end there, while B is ragged or begins
    elsewhere."""
    kernel = tileprof.compile(product(apart=True))
    for m, n, k in ((70, 70, 76), (70, 72, 76)):
        a = torch.randint(-4, 5, (m, 80)).half().cuda()[:, :k]
        b = torch.randint(-4, 5, (k * n + 1,)).half().cuda()[offset:][: k * n].view(k, n)
        c = torch.full((m, n), 7.0, device="cuda", dtype=torch.float16)
        kernel(a, b, c)
        assert torch.equal(c, (a.float() @ b.float()).half())
