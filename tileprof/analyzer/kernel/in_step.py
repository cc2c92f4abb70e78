"""Warp groups that meet at barriers in each turn of a loop, so that they do the same at a time.

In: a loop of products.  Out: samples of warp groups that wait for their products while nobody
issues, and how much of that the loop's other work covers once the barriers are gone.

    in step     A  product ······ softmax | product ······ softmax |
                B  product ······ softmax | product ······ softmax |
    free        A  product ······ softmax product ······ softmax
                B          product ······ softmax product ······ softmax

One group computes while the other waits: no more is covered than is issued (GPA, section 5.2).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.estimates import Weights
from tileprof.analyzer.kernel.tensor_use import groups_of
from tileprof.analyzer.machine.code import ISSUED, PRODUCTS, KernelCode
from tileprof.analyzer.numbers.kernels import IN_STEP_FEWEST_GROUPS

_WAITS = ("barrier", "warpgroup_arrive")
"""Why a warp group waits at its products."""


def in_step(case: KernelCase, code: KernelCode, loop: range) -> Weights:
    """By row, waits for products, as far as nobody issues; nothing where there is one group."""
    where = [i for i in loop if code.instructions[i].name in ("WARPGROUP", *PRODUCTS)]
    waited = code.n(where, _WAITS)
    if not waited or groups_of(case, code, loop) < IN_STEP_FEWEST_GROUPS:
        return np.zeros(len(code.counts))
    part = code.n(where, _WAITS, idle=True) / waited
    return np.asarray(code.taken(code.rows(where, _WAITS)) * min(part, 1.0))


def covered(code: KernelCode, loop: range, waits: Weights, gone: Collection[int] = ()) -> Weights:
    """Of these waits, what the loop issues covers; the instructions `gone` do not count."""
    lost, stay = float(waits.sum()), [index for index in loop if index not in set(gone)]
    return waits * min(1.0, code.n(stay, (ISSUED,)) / lost) if lost else waits
