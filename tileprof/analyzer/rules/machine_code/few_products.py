"""Loops of matrix products that multiply what they load too few times.

Static: of a loop's turn, the bytes that a block's threads load, and the multiplications of its
products, by the machine code. A tile of m rows and n columns multiplies each element m n / (m + n)
times. One that is small, or thin, or is loaded twice, does so less often than tiles do that fit
into registers, and takes loads, addresses, barriers and turns in proportion. Dynamic: the kernel's
time beside what tensor cores take for its products.

The gain is a part of the distance to what products reach that were not tuned for their shape: with
larger tiles loads come in fewer turns, and products of warp groups take the place of those of
warps. The samples of what comes in proportion to loads say which part, as for other causes. What
the loop computes of each result beside them (exponentials, factors) is issued as before, so the
kernel is no faster than that takes (`reach`).

No larger tile loads less than each byte once, as where one extent is as small as the tile: where
loops do that already, nothing goes.

Rows that are found by numbers in memory (blocks of a sparse matrix, rows of an expert) come in
tiles whose edge the numbers set, so only the other edge can grow.

Where a loop copies tiles by `LDGSTS`, its other loads are numbers that threads need, not tiles;
where it does not, tiles are no more than what it stores to shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.by_hand import MATRIX
from tileprof.analyzer.kernel.global_memory import block_of, width_of
from tileprof.analyzer.kernel.launches import Launch, launch_of
from tileprof.analyzer.machine.arithmetic import is_of_results
from tileprof.analyzer.machine.by_number import is_found_by_number
from tileprof.analyzer.machine.code import Instruction, KernelCode
from tileprof.analyzer.machine.issued_products import element_of, operations_of
from tileprof.analyzer.machine.lanes import addresses
from tileprof.analyzer.machine.loops import is_innermost, loops_with
from tileprof.analyzer.machine.repeats import alike
from tileprof.analyzer.numbers.kernels import PRODUCTS_UNTUNED
from tileprof.analyzer.numbers.shared import HALFWAY, LONGEST_SAVING
from tileprof.analyzer.rules.machine_code.numbers import (
    FEW_PRODUCTS_EACH,
    FEW_PRODUCTS_FEWER,
    FEW_PRODUCTS_LONG,
    FEW_PRODUCTS_SHARE,
    FEW_PRODUCTS_SHORT,
)

_COPY, _LOAD, _STORE = "LDGSTS", "LDG", "STS"
_FEW = "a loop of products uses what it loads {:.0f} times only"
_TWICE = "a loop of products loads the same bytes twice"
_LARGER = (
    "Take a larger tile, as nearly square as it fits (128 × 128, for example): each element that is"
    " loaded is then multiplied more often."
)
_ONCE = "Load each operand once, and use the value twice; a volatile load is not merged."
_COMPILER = "See how many bytes the loop's loads ask for beside what its products multiply."


@dataclass(frozen=True)
class _Turn:
    """Of a block, in a turn of a loop."""

    loop: range
    loads: tuple[Instruction, ...]
    elements: float
    """That are loaded."""
    products: float
    size: float
    """Bytes of an element."""
    dtype: str

    @property
    def each(self) -> float:
        """How often an element is multiplied."""
        return self.products / self.elements


def few_products(case: KernelCase) -> Iterator[Draft]:
    """A loop of products that loads much for them, in a kernel that is far from their roof."""
    code, launch = case.sampled, launch_of(case)
    if code is None or launch is None or case.ir or not case.time:
        return
    turn = _turn(case, code, launch)
    if turn is None:
        return
    again = {later for _, later in alike(code, _COPY) if later in turn.loop}
    aim = _aim(code, turn, again)
    if turn.each * (1 if again else FEW_PRODUCTS_FEWER) > aim:
        return
    peak, flops = case.roofs.peaks.get(f"tensor_{turn.dtype}"), case.total("flops")
    share = code.n(turn.loop) / code.whole
    if peak is None or not flops or share < FEW_PRODUCTS_SHARE:
        return
    taken = flops / peak.value * 1e9 / case.time
    saving = _down_to(case, code, turn, aim, taken)
    if saving.mid <= 0:
        return
    hot = code.hottest([each.index for each in turn.loads])
    assert hot is not None
    static = (
        f"an iteration of the loop multiplies each element that it loads {turn.each:.0f} times; a "
        f"tile of"
        f" 128 × 128 does so {FEW_PRODUCTS_EACH} times"
    )
    if again:
        static += f"; {len(again)} of its {len(turn.loads)} loads are of an address loaded before"
    measured = (
        f"tensor cores need {percent(taken, 0)} of the time for the products, as measured"
        f" ({peak.name})"
    )
    sampled = f"{percent(share, 0)} of the samples are in that loop"
    yield Draft(
        "suggestion", _TWICE if again else _FEW.format(turn.each),
        case.at(hot),
        (
            Evidence("static", static), Evidence("activities", measured),
            Evidence("samples", sampled, code.n(turn.loop)),
        ),
        _ONCE if again else _LARGER, _COMPILER, saving,
    )  # fmt: skip


def _turn(case: KernelCase, code: KernelCode, launch: Launch) -> _Turn | None:
    """The loop of products with the most samples; None where its loads are not threads' own."""
    loops = [loop for loop in loops_with(code, MATRIX) if is_innermost(code, loop)]
    loop = max(loops, key=code.n, default=None)
    if loop is None:
        return None
    inside = [code.instructions[index] for index in loop]
    copies, loads, stores = (
        tuple(each for each in inside if each.name == name and code.n([each.index]))
        for name in (_COPY, _LOAD, _STORE)
    )
    products = [each for each in inside if operations_of(each.opcode)]
    elements = {element_of(each.opcode) for each in products}
    if (
        not (copies or loads)
        or len(elements) != 1
        or any(e.name in ("UTMALDG", "UBLKCP") for e in inside)
    ):
        return None
    ((dtype, size),) = elements
    done = sum(operations_of(each.opcode) for each in products) / 2 * launch.warps
    block = block_of(case)
    lanes = addresses(code, block, launch.threads) if block else {}

    def moved(held: Collection[Instruction]) -> int:
        """Bytes; threads that load the same, as factors of a row, load it once."""
        return sum(
            width_of(each.opcode)
            * (len(np.unique(lanes[each.index][-1])) if each.index in lanes else launch.threads)
            for each in held
        )

    bytes_ = moved(copies) if copies else min(map(moved, (loads, stores)))
    if not (size and bytes_):
        return None
    return _Turn(loop, copies or loads, bytes_ / size, done, size, dtype)


def _aim(code: KernelCode, turn: _Turn, again: Collection[int]) -> float:
    """Return how often a better loop would multiply each element that it loads.

    Where rows are found by numbers in memory, who made these numbers chose the edge of the tile on
    that side, and only the other one can grow.
    """
    if again:
        widths = {each.index: width_of(each.opcode) for each in turn.loads}
        once = sum(width for index, width in widths.items() if index not in again)
        return min(FEW_PRODUCTS_EACH, turn.each * sum(widths.values()) / max(once, 1))
    if any(is_found_by_number(code, each.index) for each in turn.loads):
        short = FEW_PRODUCTS_SHORT * turn.each
        return min(FEW_PRODUCTS_EACH, short * FEW_PRODUCTS_LONG / (short + FEW_PRODUCTS_LONG))
    return FEW_PRODUCTS_EACH


def _again(case: KernelCase, turn: _Turn) -> float:
    """Of the bytes that all iterations load, the part beyond each byte of the tensors once; 1 where
    their bytes are not known."""
    asked = case.total("flops") / 2 / turn.products * turn.elements * turn.size
    return max(0.0, 1 - case.roofs.needed_bytes / asked)


def _down_to(case: KernelCase, code: KernelCode, turn: _Turn, aim: float, taken: float) -> Saving:
    """To what products take that are not tuned for their shape, from a share of the time; no lower
    than what the rest of its work leaves."""
    best, likely, least = (min(1.0, taken / reached) for reached in PRODUCTS_UNTUNED)
    goes = [i for i in turn.loop if not is_of_results(code.instructions[i].name)]
    left = reach.left(case, code.taken(code.rows(goes))) or Saving(0, 1, 1)
    mid = min(1 - likely, left.mid, LONGEST_SAVING)
    high = min(1 - best, left.high, LONGEST_SAVING)
    # Loads, addresses, barriers and turns go in proportion; the rest of the distance has other
    # causes as well.
    own = min(1 - turn.each / aim, _again(case, turn)) * code.n(goes) / code.whole
    mid = min(mid, own)
    low = min(HALFWAY * mid, max(1 - least, HALFWAY * HALFWAY * mid))
    return Saving(max(0.0, min(low, mid)), max(0.0, mid), max(0.0, mid, high))
