"""Matrix products that do not use the device's fastest instruction.

Static: the compiler chose `mma` or `fma` where the target has `wgmma`, or `fma` where it has `mma`,
and says why; Triton's `tt.dot` whose result is in a blocked layout, which it does by `fma`, or
whose operands are converted to a wider type for it; and where no compiler says anything, a loop of
many FFMA that multiplies all of some registers by all of others, which it loads from shared memory.
Dynamic: samples at the product's line, and in the loop
that is all its own, waits for data left out: those stay.

Where the product's work is known, all of its samples go, and the roof of the faster instruction
says how much comes instead. Then waits for operands go too, where no other product has them: tiles
for tensor cores come while others are multiplied. Else the product takes as much less time as the
peaks of the two instructions differ: (1 - old / new) of its samples goes. Where `mma` does it
already, what keeps that from its own roof may stay or go: likely it is halfway between the two. A
product of a kernel whose work is not told and that is done by `fma` is counted by what was issued:
an instruction that waits for its operands is far from its own roof, and tensor cores take as long
as the operations take at theirs.
Where a tile is a part of a shared buffer, or its rows are too long, not only the product is
slower: copies to it are made by all threads, and nothing runs ahead. With a tile of its own the
kernel gains what its work leaves (`reach`).
Where a tile has too few rows for the faster instruction, and they are all that its tensor has, as
the heads of one group of a decoding step, no tile fits: it would multiply more zeros than numbers.

Peaks are the device's measured ones, else those of its data sheet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, KernelRule, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Confidence, Evidence, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.product_samples import flops_issued, saving_by, taken_by
from tileprof.analyzer.kernel.triton_dots import dots_of
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.machine.issued_products import element_of
from tileprof.analyzer.machine.loops import is_innermost, loops_of
from tileprof.analyzer.numbers.kernels import PRODUCT_SAMPLES_REACHED
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, MMA_OF_WGMMA
from tileprof.analyzer.rules.numbers.work import (
    TENSOR_CORES_AGAIN,
    TENSOR_CORES_MANY,
    TENSOR_CORES_MOSTLY,
    TENSOR_CORES_ROWS,
    TENSOR_CORES_SHEET,
    TENSOR_CORES_SURE,
)
from tileprof.analyzer.rules.precision import set_by_libraries
from tileprof.analyzer.rules.tile_program.hand_products import hand_products
from tileprof.analyzer.tiles.whole_extents import is_whole
from tileprof.errors import Location
from tileprof.remarks import Reason, Remark
from tileprof.remarks.common import PartOfTile, TargetHasNone, TurnedOff
from tileprof.remarks.copies import LoadsAndStores
from tileprof.remarks.products import (
    ExtentMultiple,
    FragmentOperand,
    GemmInstruction,
    InstructionCandidate,
    LiesAcross,
    NoFloat64,
    OperandShape,
    SwizzleOff,
    Tf32Off,
    ThreadsMultiple,
    TypeOnTarget,
    TypesUnsupported,
)

_FASTEST_FIRST = ("wgmma", "mma", "fma")
_FOR_GOOD = (TargetHasNone, NoFloat64, TypeOnTarget)
"""Reasons that nobody can do anything about."""
_SUM = re.compile(r"FFMA(?:\.\w+)* (R\d+), -?(R\d+)(?:\.reuse)?, -?(R\d+)(?:\.reuse)?, (R\d+)")
_AS_THEY_ARE = (
    "Multiply the {0} operands as they are: a product of two of them is exact in float32, in which"
    " tensor cores add up (`tl.dot` of the loaded tiles, without `.to(tl.float32)`)."
)
_WAYS: tuple[tuple[tuple[type[Reason], ...], str], ...] = (
    ((TurnedOff, SwizzleOff), "Remove the control that turns it off"),
    ((Tf32Off,), "Allow tf32, which keeps 10 bits of mantissa, or multiply bfloat16"),
    ((TypesUnsupported,), "Convert the operands to one 16-bit type, and accumulate in float32"),
    ((ThreadsMultiple,), "Launch as many threads as it needs"),
    ((FragmentOperand,), "Keep B in shared memory"),
    ((LiesAcross,), "Store the operand transposed"),
    ((ExtentMultiple,), "Take a tile whose extents fit"),
    ((OperandShape,), "Give the operand a buffer of its own shape"),
)
"""Maps reasons against an instruction to the suggested change; the first match wins."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product by a slower instruction."""

    chosen: str
    wanted: str
    reason: str
    evidence: Evidence
    author: str
    location: Location | None
    op: str
    where: list[int]
    """Its instructions; none where there are no samples."""
    dtype: str = ""
    """Of the faster product; empty for that of the kernel."""
    confidence: Confidence = "medium"


def find(case: KernelCase) -> Iterator[Draft]:
    """Products for which there is a faster instruction that could be had."""
    for remark, chosen in case.decided(GemmInstruction, "gemm"):
        missed = _missed(remark, chosen)
        if missed and not _is_all_there_is(case, remark, missed[1]):
            yield _draft(case, _of_remark(case, remark, chosen, *missed))
    yield from hand_products(case)
    code = case.code
    if code is None or case.remarks or set_by_libraries(case):  # which `precision` reports
        return
    if product := _dot(case, code) or _by_hand(case, code):
        yield _draft(case, product)
    elif draft := _widened(case):
        yield draft


def _missed(remark: Remark, chosen: GemmInstruction) -> tuple[str, Reason] | None:
    """The fastest instruction that could be had, and what is against it; None where none could."""
    faster = _FASTEST_FIRST[: _FASTEST_FIRST.index(chosen.instruction)]
    for each in remark.rejected:
        candidate = each.candidate
        if not isinstance(candidate, InstructionCandidate) or candidate.instruction not in faster:
            continue
        if not any(isinstance(why, _FOR_GOOD) for why in each.reason.within()):
            return candidate.instruction, each.reason
    return None


def _is_all_there_is(case: KernelCase, remark: Remark, reason: Reason) -> bool:
    """Whether the extent that does not fit is that of a tensor, and half of what fits at most."""
    line = remark.location.line if remark.location else 0
    return any(
        isinstance(why, ExtentMultiple)
        and 2 * why.extent <= why.multiple
        and is_whole(case.tiles, line, why.dimension)
        for why in reason.within()
    )


def _of_remark(
    case: KernelCase, remark: Remark, chosen: GemmInstruction, wanted: str, reason: Reason
) -> _Product:
    code = case.sampled
    text = f"gemm: {chosen}, not {wanted}: {reason}"
    return _Product(
        chosen.instruction, wanted, str(reason), Evidence("static", text, remark=remark),
        f"{_way(reason)}: {reason}.", remark.location, remark.subject,
        _at(case, code, remark.location) if code else [],
    )  # fmt: skip


def _draft(case: KernelCase, product: _Product) -> Draft:
    chosen, wanted = product.chosen, product.wanted
    title = f"a matrix product uses {chosen}, not {wanted}"
    static = product.evidence
    compiler = f"The choice of instructions rejected {wanted}: {product.reason}."
    code, where = case.sampled, product.where
    hot = code.hottest(where) if code else None
    if code is None or hot is None:
        place = case.place(product.location, product.op)
        return Cause(title, place, (static,), product.author, compiler).warning()
    place = case.place(product.location, product.op, (hot.offset, hot.offset))
    told = case.roofs.tensor_floor > 0
    taken = taken_by(code, where, told)
    times = _peak(case, wanted, product.dtype) / _peak(case, chosen)
    cause = Cause(title, place, (static,), product.author, compiler)
    what = f"are at the product; {wanted} is up to {times:.1f} times as fast"
    seen = sampled(code, taken, what)
    if code.share(taken) * (1 - 1 / times) < COLD:
        leave = "Leave it: the product takes no time."
        return cause.ignored(", off the critical path", leave, seen)
    if told and chosen == "mma":
        # Both are tensor cores: what keeps `mma` from its own roof may keep `wgmma` from it too, or
        # go with it, as operands that go through registers do.
        comes = case.roofs.tensor_floor / case.time / PRODUCT_SAMPLES_REACHED[1]
        least = 1 - 1 / times
        most = max(least, 1 - comes / code.share(taken))
        saving = eliminated(taken, code.whole, least + HALFWAY * (most - least), HALFWAY)
        left = reach.left(case)
        if left is not None and left.mid > saving.mid and (copy := _in_part(case)):
            text = f"{copy.subject}: {copy.decision}, because it fills a part of a shared tile:"
            more = Evidence(
                "static", f"{text} the parts of which the tile is made prevent both", remark=copy
            )
            saving = Saving(min(saving.low, left.low), left.mid, left.high)
            return cause.costs(saving, seen, more, confidence=product.confidence)
        return cause.costs(saving, seen, confidence=product.confidence)
    if told:
        saving = eliminated(taken, code.whole, 1.0, TENSOR_CORES_SURE)
        return cause.costs(saving, seen, confidence=product.confidence)
    done = flops_issued(case, code) if chosen == "fma" else 0.0
    if done:
        at_peak = done * case.launches / _peak(case, wanted, product.dtype) * 1e9
        saving = saving_by(case, taken_by(code, where, told=True), at_peak)
        return cause.costs(saving, seen, confidence=product.confidence)
    saving = eliminated(taken, code.whole, 1 - 1 / times)
    return cause.costs(saving, seen, most=times, confidence=product.confidence)


def _in_part(case: KernelCase) -> Remark | None:
    """A copy that could not be made ahead because its target is a part of a shared buffer."""
    for remark, _ in case.decided(LoadsAndStores, "copy"):
        whys = (why for each in remark.rejected for why in each.reason.within())
        if any(isinstance(why, PartOfTile) for why in whys):
            return remark
    return None


def _at(case: KernelCase, code: KernelCode, location: Location | None) -> list[int]:
    """The instructions of the product's line."""
    line = location.line if location else 0
    return case.at_lines(code, (line,))


def _dot(case: KernelCase, code: KernelCode) -> _Product | None:
    """A product that Triton does by `fma`: at the line where most of these are."""
    blocked = [each for each in dots_of(code.ttgir) if not each.by_tensor_cores]
    hot = code.hottest(code.named("FFMA"))
    if not blocked or hot is None:
        return None
    dot = blocked[0]
    # wgmma takes tf32 only where K is contiguous: elsewhere tiles are turned, which costs as much.
    wanted = "wgmma" if dot.held != "tf32" and dot.rows >= TENSOR_CORES_ROWS else "mma"
    here = case.user_line(hot.place)
    reason = (
        f"{dot.held} operands are converted to float32 for it" if dot.is_widened
        else "float32 operands, and tf32 is not allowed" if dot.dtype == "tf32"
        else f"its tile is {dot.shape}, or its operands are of two types"
    )  # fmt: skip
    return _Product(
        "fma", wanted, reason,
        Evidence("static", f"tt.dot of a tile of {dot.shape} in a blocked layout: {reason}"),
        _AS_THEY_ARE.format(dot.held) if dot.is_widened
        else "Allow tf32 (`input_precision=\"tf32\"`), which keeps 10 bits of mantissa, or convert"
        " the operands to bfloat16." if dot.dtype == "tf32"
        else "Convert the operands to one 16-bit type, and use a tile of at least 16 × 16 × 16.",
        here, case.op_at(here), _at(case, code, here), dot.held,
    )  # fmt: skip


def _widened(case: KernelCase) -> Draft | None:
    """A product by tensor cores of operands that are converted to a wider type for it: the loop
    with the most samples of those that multiply that type."""
    code = case.sampled
    wide = [e for e in dots_of(code.ttgir) if e.by_tensor_cores and e.is_widened] if code else []
    if code is None or not wide:
        return None
    dtype, held = wide[0].dtype, wide[0].held
    loops = [
        (loop, products) for loop in loops_of(code) if is_innermost(code, loop)
        and (products := [i for i in loop if element_of(code.instructions[i].opcode)[0] == dtype])
    ]  # fmt: skip
    loop, products = max(loops, key=lambda each: code.n(each[0]), default=(None, []))
    hot = code.hottest(products)
    flops = case.total("flops")
    if loop is None or hot is None or not flops or not case.time:
        return None
    here = case.user_line(hot.place)
    place = case.place(here, case.op_at(here), (hot.offset, hot.offset))
    static = f"both operands of a product of {wide[0].shape} are {held}, converted to float32"
    cause = Cause(
        f"a product of {held} operands is multiplied as {dtype}", place,
        (Evidence("static", static),), _AS_THEY_ARE.format(held), "",
    )  # fmt: skip
    share = code.n(loop) / code.whole
    seen = Evidence("samples", f"{percent(share)} of the samples are in its loop", code.n(loop))
    if share < COLD:
        return cause.ignored(", off the critical path", "Leave it: it takes no time.", seen)
    at_peak = flops / _peak(case, "wgmma", held) * 1e9
    taken, issued = (code.taken(code.rows(each)) for each in (loop, products))
    saving = saving_by(case, taken, at_peak, issued)
    return cause.costs(saving, seen) if saving.mid >= COLD else None


def _by_hand(case: KernelCase, code: KernelCode) -> _Product | None:
    """The loop with the most samples that is one product by FFMA."""
    found = [loop for loop in loops_of(code) if _is_product(code, loop)]
    loop = max(found, key=code.n, default=None)
    if loop is None:
        return None
    many = [index for index in loop if code.instructions[index].name == "FFMA"]
    hot = code.hottest(many)
    here = case.user_line(hot.place) if hot else None
    reason = "it is written as scalar multiplications and additions"
    text = f"a loop of {len(many)} FFMA multiplies registers by registers, read from shared memory"
    return _Product(
        "fma", "mma", reason, Evidence("static", text),
        "If this is a product of matrices, compute it with tensor cores (`mma`, `wgmma`, a "
        "library): tf32"
        " keeps 10 bits of mantissa; bfloat16 and float16 are faster still.",
        here, case.op_at(here), list(loop), "tf32", "low",
    )  # fmt: skip


def _is_product(code: KernelCode, loop: range) -> bool:
    """Whether a loop is mostly FFMA that each add to one register, the operands used again."""
    if not is_innermost(code, loop):
        return False
    names = [code.instructions[index].name for index in loop]
    texts = (code.instructions[i].text for i, name in zip(loop, names) if name == "FFMA")
    sums = [found for text in texts if (found := _SUM.match(text)) and found[1] == found[4]]
    operands = {found[which] for found in sums for which in (2, 3)}
    reads = names.count("LDS")
    return (
        len(sums) >= max(TENSOR_CORES_MANY, TENSOR_CORES_MOSTLY * len(loop)) and reads > 0
        and len(sums) >= TENSOR_CORES_AGAIN * len(operands)
    )  # fmt: skip


def _peak(case: KernelCase, instruction: str, dtype: str = "") -> float:
    """Operations a second, measured or of the data sheet."""
    if instruction == "fma":
        measured = case.roofs.peaks.get("fma_float32")
        return measured.value if measured else TENSOR_CORES_SHEET["fma"]
    dtype = dtype or case.roofs.matrix_dtype or "bfloat16"
    name = f"tensor_{'tf32' if dtype == 'float32' else dtype}"
    held = case.roofs.peaks.get(name)
    eight = "8" in dtype.partition("_")[0]
    sheet = TENSOR_CORES_SHEET.get(
        name, TENSOR_CORES_SHEET["tensor_int8" if eight else "tensor_bfloat16"]
    )
    return (held.value if held else sheet) * (MMA_OF_WGMMA if instruction == "mma" else 1.0)


def _way(reason: Reason) -> str:
    within = tuple(reason.within())
    fits = (way for kinds, way in _WAYS if any(isinstance(each, kinds) for each in within))
    return next(fits, "Remove what prevents it")


RULE = KernelRule("tensor-core-missed", find)
