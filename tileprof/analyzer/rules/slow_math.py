"""Arithmetic that takes longer than it has to: doubles by accident, conversions, slow paths.

Static: opcodes, and constants that tell what they are part of. Dynamic: samples at them whose pipe
or queue was busy, and of what waits for their results.

Samples at such an instruction that wait for its operands are not its own: on an H200 a conversion
behind a load from memory has 96 % of a kernel's samples, all of them the load's. A multiprocessor
of it does 64 products of doubles a cycle, beside 128 of floats (CUDA programming guide, arithmetic
throughput, 9.0), so doubles by accident cost by their conversions, and one half of the rest; they
are told only where floats are turned into doubles, as by a literal. Exponentials that keep their
unit busy are work, not a fault: they are a symptom, of whose cause nothing is known.

Of the samples the part goes away that the faster form does not need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import ISSUED, Instruction, KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import Weights, eliminated
from tileprof.analyzer.findings import Confidence, Evidence, Place, percent
from tileprof.analyzer.jumps import subroutines

__all__ = ["RULE"]

_OWN = (ISSUED, "mio_throttle", "math_pipe_throttle", "dispatch_stall")
"""Reasons at an instruction that are its own, and not those of its operands."""
_FOR_RESULTS = ("short_scoreboard", "wait")
_COLD = 0.01
_BUSY = 0.2
"""Of the samples: from where special functions are what a kernel waits for."""
_COMPILER = "See which op of the program this comes from, and whether a cheaper form is allowed."
_DOUBLES = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_HALF = 0.5
"""Of the time of a double, what a float takes."""
_LOG2_E = re.compile(r"\b1\.44269\d*")
_EXACT_EXP = re.compile(r"\b1\.925963\d*e-0?8|\b0\.0057249\d*|\b12583039")
"""Constants of `expf` as CUDA computes it without fast arithmetic."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A way to be slow."""

    title: str
    where: Callable[[KernelCode], list[int]]
    part: float
    """Of its samples, what the faster form does not need."""
    author: str
    confidence: Confidence = "medium"
    quiet: bool = False
    """Whether nothing is said of it where nothing was measured, or it costs nothing."""


def _doubles(code: KernelCode) -> list[int]:
    return code.named(*_DOUBLES) if _widened(code) else []


def _widened(code: KernelCode) -> list[int]:
    """Conversions from and to doubles, in code that makes doubles of floats."""
    wide = code.where(lambda each: each.name == "F2F" and ".F64" in each.opcode)
    made = [each for each in wide if ".F64.F32" in code.instructions[each].opcode]
    return wide if made else []


def _divisions(code: KernelCode) -> list[int]:
    """Of whole numbers: by the reciprocal of a float that is rounded up."""
    parts = code.where(
        lambda each: (
            (each.name == "I2F" and ".RP" in each.opcode)
            or each.opcode.startswith("MUFU.RCP")
            or (each.name == "F2I" and ".TRUNC" in each.opcode)
        )
    )
    names = {code.instructions[each].name for each in parts}
    rounded = any(".RP" in code.instructions[each].opcode for each in parts)
    return parts if rounded and names == {"I2F", "MUFU", "F2I"} else []


def _conversions(code: KernelCode) -> list[int]:
    others = {*_widened(code), *_divisions(code)}
    found = code.where(lambda each: each.name in ("I2F", "F2I", "F2F", "FRND") and each.depth > 0)
    return [each for each in found if each not in others]


def _scalings(code: KernelCode) -> list[int]:
    """Products by log2(e) before an exponential to the base of 2."""
    if not code.named("MUFU.EX2"):
        return []
    return code.where(lambda each: each.name == "FMUL" and bool(_LOG2_E.search(each.text)))


def _exact(code: KernelCode) -> list[int]:
    return code.where(lambda each: each.name.startswith("F") and bool(_EXACT_EXP.search(each.text)))


_KINDS = (
    _Kind(
        "floats are turned into doubles", _widened, 1.0,
        "Write the literal as a float (`1.0f`), or cast it: a literal without a suffix, or a"
        " function of `math.h`, makes doubles of floats.",
    ),
    _Kind(
        "arithmetic of doubles, on values that are floats", _doubles, _HALF,
        "Compute it in floats; where a sum needs more digits, keep only the sum in doubles.",
    ),
    _Kind(
        "a division of whole numbers that are not constant", _divisions, 0.9,
        "Make the divisor a constant, or a power of two; or count along instead of dividing.",
    ),
    _Kind(
        "a slow path is called", subroutines, 0.9,
        "Use the approximate form (`__fdividef`, `rsqrt`, fast arithmetic), or keep numbers out of"
        " the range that needs it.",
    ),
    _Kind(
        "exponentials with all digits", _exact, 1.0,
        "Use `exp2` of a scaled argument, or the approximate exponential, where 2 units in the last"
        " place are enough.",
    ),
    _Kind(
        "a product by log2(e) before each exponential", _scalings, 1.0,
        "Use `exp2`, and put log2(e) into a factor that is there already, as that of the scores.",
        quiet=True,
    ),
    _Kind(
        "conversions between kinds of numbers", _conversions, 0.5,
        "Keep a value in both kinds and count both along, or convert outside of the loop.",
        "low", quiet=True,
    ),
)  # fmt: skip


def find(case: KernelCase) -> Iterator[Draft]:
    """Slow arithmetic in a kernel, of each kind."""
    code = case.code
    if code is None:
        return
    for kind in _KINDS:
        if where := kind.where(code):
            yield from _told(case, code, kind, where)
    yield from _special(case, code)


def _told(case: KernelCase, code: KernelCode, kind: _Kind, where: list[int]) -> Iterator[Draft]:
    looped = [each for each in where if code.instructions[each].depth > 0]
    static = Evidence("static", f"{len(where)} instructions of it, {len(looped)} of them in loops")
    place = _place(case, code, where)
    if not code.whole:
        if looped and not kind.quiet:
            yield Draft("warning", kind.title, place, (static,), kind.author, _COMPILER)
        return
    taken = _taken(code, where, kind.where is subroutines)
    share = float(taken.sum()) / code.whole
    text = f"{percent(share)} of the samples are theirs, or wait for their results"
    evidence = (static, Evidence("samples", text, int(taken.sum())))
    if share >= _COLD:
        yield Draft(
            "suggestion", kind.title, place, evidence, kind.author, _COMPILER,
            eliminated(taken, code.whole, kind.part), confidence=kind.confidence,
        )  # fmt: skip
    elif not kind.quiet:
        yield Draft(
            "ignore", f"{kind.title}, where it costs nothing", place, evidence,
            "Leave it: this code hardly runs.", confidence="high",
        )  # fmt: skip


def _taken(code: KernelCode, where: list[int], every: bool = False) -> Weights:
    """Samples of these; `every` one at them, where all of the code would go."""
    at = code.taken(code.rows(where, None if every else _OWN))
    return np.maximum(at, code.waiting_for(where, _FOR_RESULTS))


def _place(case: KernelCase, code: KernelCode, where: list[int]) -> Place:
    hot: Instruction | None = code.hottest(where)
    assert hot is not None
    return case.place(case.user_line(hot.place), case.op_at(hot.place), (hot.offset, hot.offset))


def _special(case: KernelCase, code: KernelCode) -> Iterator[Draft]:
    """Special functions that keep their unit busy: the work itself, as far as is known."""
    where = code.named("MUFU")
    taken = _taken(code, where) if where and code.whole else np.zeros(1)
    share = float(taken.sum()) / max(code.whole, 1)
    if share < _BUSY:
        return
    hot = code.hottest(where)
    name = hot.opcode if hot else "MUFU"
    text = f"{percent(share)} of the samples are at {name} and its like, or wait for their results"
    yield Draft(
        "symptom", "special functions are what the kernel waits for", _place(case, code, where),
        (Evidence("samples", text, int(taken.sum())),),
        "If the kernel can do with fewer of them, that is what helps: compute them once for several"
        " uses, in pairs of halves (`ex2` of f16x2), or some by a polynomial on the other units.",
        confidence="low",
    )  # fmt: skip


RULE = KernelRule("slow-math", find)
