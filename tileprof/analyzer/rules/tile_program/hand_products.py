"""Products of matrices that a tile program writes as loops of multiplications and additions.

Static: index expressions say that a loop is a product (`tiles/contractions`), whatever it is called
and however it was compiled. Dynamic: samples at its lines, in the loops that are all its own, and
waits for its operands; FFMA that were issued say how much of it was done, where a condition leaves
out a part.

All of these samples go, and what tensor cores take for as many operations comes instead. What is
left beside them was made for a slow loop, and overlaps with a fast one, so likely a part stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving, Weights
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel.product_samples import flops_issued, saving_by, taken_by
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.numbers.work import TENSOR_CORES_SHEET
from tileprof.analyzer.tiles.contractions import Contraction, contractions

_COMPILER = "Loops that multiply and add are not taken for a product of tiles."


def hand_products(case: KernelCase) -> Iterator[Draft]:
    """Loops of a tile program that are products of matrices."""
    for each in contractions(case.tiles):
        yield _draft(case, each)


def _draft(case: KernelCase, product: Contraction) -> Draft:
    exact = product.dtype != "tf32"
    title = "a matrix product is written as loops and does not use tensor cores"
    text = (
        f"`{product.target}` adds {product.rows} × {product.columns} products of elements in each"
        f" iteration; each element is used {min(product.rows, product.columns)} times or more"
    )
    author = (
        "Write it as `T.gemm` of tiles in shared memory"
        + ("" if exact else ", if tf32 is exact enough, which keeps 10 bits of mantissa")
        + f": tensor cores multiply {product.dtype}."
    )
    place = case.place(case.line(product.op.line))
    cause = Cause(title, place, (Evidence("static", text),), author, _COMPILER)
    code = case.sampled
    if code is None or not case.time or not case.launches:
        return cause.warning()
    where = case.at_lines(code, product.lines)
    if not where:
        return cause.warning()  # lines of its statements are not known
    taken = taken_by(code, where, told=True)
    done = product.flops
    if not product.certain:
        done = min(done, flops_issued(case, code) or done)
    if not math.isfinite(done):
        return cause.symptom()  # neither the program nor samples say how many there are
    seen = sampled(code, taken, f"are at the product, {done / 1e9:,.3g} GFLOP per launch")
    if code.share(taken) < COLD:
        return cause.ignored(", off the critical path", "Leave it: it takes no time.", seen)
    saving = _saving(case, product, taken, done)
    return cause.costs(saving, seen, confidence="medium" if exact else "low")


def _saving(case: KernelCase, product: Contraction, gone: Weights, done: float) -> Saving:
    name = f"tensor_{product.dtype}"
    held = case.roofs.peaks.get(name)
    peak = (
        held.value if held else TENSOR_CORES_SHEET.get(name, TENSOR_CORES_SHEET["tensor_bfloat16"])
    )
    return saving_by(case, gone, done * case.launches / peak * 1e9)
