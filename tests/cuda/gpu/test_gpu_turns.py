"""Warp groups that take turns, on a real GPU: the same results, launch after launch."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tileprof

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

SHAPES = [(1, 4096, 8, 128), (2, 1000, 16, 64), (1, 100, 2, 64)]


def attention(ping_pong: bool) -> Any:
    """Attention, with turns or without."""
    study: Any = importlib.import_module("case_studies.attention")
    return tileprof.jit(study.attention.function, controls=tileprof.Controls(ping_pong=ping_pong))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_many_launches(causal: bool, shape: tuple[int, ...]) -> None:
    """Turns change no number, only when products start; a turn that nobody passed would hang."""
    generator = torch.Generator("cuda").manual_seed(0)
    made = (torch.randn(shape, generator=generator, device="cuda") for _ in range(3))
    given = [x.to(torch.bfloat16) for x in made]

    def result(kernel: Any) -> torch.Tensor:
        out: torch.Tensor = kernel(*given, causal=causal)[0]
        return out

    want = result(attention(False)).clone()
    kernel = attention(True)
    for _ in range(20):
        out = result(kernel)
        torch.cuda.synchronize()
        assert torch.equal(out, want)
        out.fill_(7.0)
