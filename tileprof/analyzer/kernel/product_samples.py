"""Which samples go with a product that a faster instruction does.

In: code with samples, the instructions at a product's line.  Out: samples, by row.

    loop k:  cp.async A, B;  barrier         waits for operands: go where no other product has them
      loop:  LDS, FFMA × 32   (line 26)      go
             IADD3, SHF       (line 7)       go as well: the product's own addresses
"""

from __future__ import annotations

from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.machine.code import COPIES, KernelCode
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.numbers import PRODUCT_SAMPLES_OWN

_DATA = {"long_scoreboard", "barrier", "membar"}
"""Reasons of waits for the operands, or for other warps."""


def taken_by(code: KernelCode, where: list[int], told: bool) -> Weights:
    """By row, samples that go with the product.

    All of an innermost loop that is mostly the product, and loads nothing from memory, does: what
    else stands there is its own addresses. Where roofs tell what comes instead, waits for operands
    in the loops around it go as well: tiles that tensor cores read come by themselves, while others
    are multiplied. Where some are already, these waits are theirs too.
    """
    loops = [each for each in loops_of(code) if set(where) & set(each)]
    loading = set(code.named(*COPIES, *LOADS))
    inner = [each for each in loops if is_innermost(code, each) and not loading & set(each)]
    own = [
        each
        for each in inner
        if code.n(set(where) & set(each)) >= PRODUCT_SAMPLES_OWN * code.n(each)
    ]
    product = sorted({*where, *(index for each in own for index in each)})
    rows = code.rows(product, [each for each in code.by_reason(product) if each not in _DATA])
    if told and not code.named(*MATRIX):
        rows = rows | code.rows(sorted({i for each in loops for i in each}), tuple(_DATA))
    return code.taken(rows)
