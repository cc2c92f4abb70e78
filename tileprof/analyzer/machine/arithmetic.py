"""Slow forms of arithmetic, as machine code shows them.

In: a kernel's code, and the CUDA that a tile kernel became.  Out: for each form, the places of the
instructions that tell of it, and the lines that call it by name.

Functions with all digits are known by constants of their polynomials, as `nvcc` 13 compiles CUDA's
mathematical library for sm_90a (Triton takes them from the same library); others have them too, as
long as the compiler keeps them in instructions, and not in registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from tileprof.analyzer.findings import Confidence
from tileprof.analyzer.machine.code import ISSUED, KernelCode
from tileprof.analyzer.machine.jumps import called_by_name, subroutines
from tileprof.analyzer.machine.loops import loop_around
from tileprof.analyzer.machine.repeats import parsed, width_in
from tileprof.analyzer.numbers.machine import ARITHMETIC_DIVISION

_DOUBLES = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX")
_FLOATS = ("FADD", "FMUL", "FFMA")
_OF_RESULTS = re.compile(r"F[A-Z]|H(?!GMMA|MMA)|D(ADD|MUL|FMA)|MUFU|I2F")
_LOG2_E = re.compile(r"\b1\.44269\d*")
_LINE = re.compile(r"#line (\d+)")
_HIGH_HALF = re.compile(r"(?:@!?P\d )?IMAD\.HI(?:\.U32)? R\w+, R\w+(?:\.reuse)?, R\w+")
_ROUNDED = ("I2F", "MUFU", "F2I")
"""What a division of whole numbers has: the reciprocal of a float that is rounded up."""
WITHIN = (
    ISSUED, "mio_throttle", "math_pipe_throttle", "dispatch_stall", "wait", "not_selected",
    "branch_resolving", "no_instructions", "no_instruction",
)  # fmt: skip
"""Reasons at the arithmetic of a line that are its own, and not those of what it works on."""
FOR_RESULTS = ("short_scoreboard", "wait")
"""Reasons of what waits for the results of arithmetic."""
NO_ARITHMETIC = (
    "LD", "ST", "ATOM", "RED", "BAR", "SHFL", "HGMMA", "QGMMA", "IGMMA", "HMMA", "WARPGROUP",
    "UTMA", "UBLKCP", "SYNCS", "DEPBAR", "MEMBAR", "EXIT",
)  # fmt: skip
"""Opcodes, by their beginning, that are no arithmetic."""


@dataclass(frozen=True, slots=True)
class Form:
    """A way to be slow."""

    title: str
    where: Callable[[KernelCode], list[int]]
    part: float
    """Of its samples, what the faster form does not need."""
    author: str
    confidence: Confidence = "medium"
    calls: tuple[str, ...] = ()
    """Functions of the tile language that are it."""
    spread: bool = False
    """Whether all arithmetic of its lines is part of it."""
    once: bool = False
    """Whether it is usual in what a block does once, to find its tile."""
    quiet: bool = False
    """Whether nothing is said of it where nothing was measured, or it costs nothing."""
    whole: bool = False
    """Whether all samples at its instructions are its own, waits for operands included."""
    is_wide: bool = False
    """Whether it is work that stays, in numbers of half the width."""
    in_tiles: str = ""
    """Advice for tile kernels where their language has no faster form of the function, so that no
    author can take one; empty where it has."""


def _doubles(code: KernelCode) -> list[int]:
    """Arithmetic of doubles, and conversions, in code that turns floats into doubles, or floats of
    doubles."""
    wide = code.where(lambda each: each.name == "F2F" and ".F64" in each.opcode)
    if not any(".F32" in code.instructions[each].opcode for each in wide):
        return []
    special = code.where(lambda each: each.name == "MUFU" and "64" in each.opcode)
    return sorted([*wide, *special, *code.named(*_DOUBLES)])


def staying(code: KernelCode, where: Collection[int]) -> Iterator[tuple[list[int], float]]:
    """Of arithmetic of doubles, the instructions that stay as some of floats, and what part.

    Each number that is converted takes part in one operation at least; floats stay what they are.
    """
    doubles, floats, turned = (
        sorted({*code.named(*names)}.intersection(where)) for names in (_DOUBLES, _FLOATS, ("F2F",))
    )
    yield floats, 1.0
    if issued := code.n(doubles, (ISSUED,)):
        yield doubles, min(1.0, code.n(turned, (ISSUED,)) / issued)


def _divisions(code: KernelCode) -> list[int]:
    """Of whole numbers: the reciprocal of the divisor, which may be made once, and the products by
    it, of which only the high half counts."""
    floats = code.where(lambda each: each.name == "I2F" and ".RP" in each.opcode)
    back = code.where(lambda each: each.name == "F2I" and ".TRUNC" in each.opcode)
    parts = [*floats, *_reciprocals(code, floats), *back]
    names = {code.instructions[each].name for each in parts}
    rounded = any(".RP" in code.instructions[each].opcode for each in parts)
    if not rounded or names != {*_ROUNDED}:
        return []
    return sorted([*parts, *code.where(lambda each: bool(_HIGH_HALF.match(each.text)))])


def _reciprocals(code: KernelCode, floats: list[int]) -> set[int]:
    """Of these floats, each the first behind it; that of any other float is no whole number's."""
    every = code.where(lambda each: each.opcode.startswith("MUFU.RCP"))
    found = set[int]()
    for index in floats:
        register = code.instructions[index].text.replace(",", " ").split()[-2]
        behind = (each for each in every if each > index)
        source = rf", {register}(?:\.reuse)?$"
        found.update([e for e in behind if re.search(source, code.instructions[e].text)][:1])
    return found


def _conversions(code: KernelCode) -> list[int]:
    """Conversions in loops, but where each byte that a loop loads has one at most: what memory
    holds in another type has to be converted once."""
    others = {*_doubles(code), *_divisions(code)}
    found = code.where(lambda each: each.name in ("I2F", "F2I", "F2F", "FRND") and each.depth > 0)
    by_loop = dict[range | None, list[int]]()
    for index in found:
        by_loop.setdefault(loop_around(code, index), []).append(index)
    lines = parsed(code)
    return [
        each for loop, held in by_loop.items() for each in held
        if each not in others and len(held) > sum(
            int(width_in(lines[at]).lstrip("US")) / 8 for at in loop or ()
            if lines[at].name in ("LDG", "LDS")
        )
    ]  # fmt: skip


def _scalings(code: KernelCode) -> list[int]:
    """Products by log2(e) before an exponential to the base of 2."""
    if not code.named("MUFU.EX2"):
        return []
    return code.where(lambda each: each.name == "FMUL" and bool(_LOG2_E.search(each.text)))


def _with(constants: str, code: KernelCode) -> list[int]:
    """Arithmetic of floats with one of these numbers, told by their first digits."""
    pattern = re.compile("|".join(rf"\b{re.escape(each)}" for each in constants.split()))
    return code.where(lambda each: each.name.startswith("F") and bool(pattern.search(each.text)))


def _function(title: str, calls: str, constants: str, author: str, in_tiles: str = "") -> Form:
    """A function of CUDA's library that takes some thirty instructions where few would do."""
    where, names = partial(_with, constants), tuple(calls.split())
    return Form(title, where, 0.95, author, calls=names, spread=True, in_tiles=in_tiles)


def _roots(code: KernelCode) -> list[int]:
    """Square roots that are corrected, and have a path for small numbers."""
    return code.where(lambda each: each.name == "ISETP" and "0x727fffff" in each.text)


def _float_divisions(code: KernelCode) -> list[int]:
    """Divisions of floats whose operands are checked, and the subroutine for those that fail it.

    A check stands before the corrections of a quotient, which end where lanes come together.
    """
    found, ends = called_by_name(code, "_div_rn_"), code.named("BSYNC")
    for check in code.named("FCHK"):
        end = next((each for each in ends if each > check), check)
        found += range(check, end + 1 if end - check < ARITHMETIC_DIVISION else check + 1)
    return sorted(found) if code.named("FCHK") else []


def lines_calling(source: str, names: Collection[str]) -> frozenset[int]:
    """The lines of a tile kernel whose CUDA calls one of these functions."""
    if not names:
        return frozenset()
    called, line = re.compile(rf"\btp_(?:{'|'.join(names)})\("), 0
    found = set[int]()
    for text in source.splitlines():
        if told := _LINE.match(text):
            line = int(told[1])
            continue
        if called.search(text):
            found.add(line)
        line += 1
    return frozenset(found)


FORMS = (
    Form(
        "arithmetic of doubles, on values that are floats", _doubles, 0.95,
        "Write the literal as a float (`1.0f`), or cast it: a literal without a suffix, or a"
        " function of `math.h`, turns floats into doubles. Where a sum needs more precision, keep"
        " only the sum in double.",
        spread=True, is_wide=True,
    ),
    _function(
        "powers in full precision", "pow",
        "0.00133913534 0.00961883924 0.0555035881 0.00321816536 0.0180337186 0.120224587"
        " 1.92513667 0.240226447",
        "Use `exp2` for a power of a constant (x to the base of b is `exp2(x * log2(b))`), and"
        " multiply for a small whole exponent.",
    ),
    _function(
        "sines or cosines in full precision", "sin cos tan",
        "0.636619746 1.57079625 7.54978941 5.39030295 0.0416667275 0.499999970 0.00138878601"
        " 0.00833307",
        "Use the approximate form (`__sinf`, `sin.approx`) where the argument is small, or compute"
        " a table of them once.",
        "The language has no approximate form: compute a table of them once, or turn by a fixed"
        " angle with products and sums.",
    ),
    _function(
        "hyperbolic tangents in full precision", "tanh",
        "0.0523039624 0.133152976 0.333327680 2.88539004",
        "Use the one instruction for it (`tanh.approx`), which is right to 11 bits.",
        "The language has no approximate form: compute it on fewer elements, or once for each.",
    ),
    _function(
        "error functions in full precision", "erf",
        "0.112840048 8.48349445 0.000821309164 0.00521348882 0.0268687736 0.128379151",
        "Use the form with `tanh` that stands for it, where its error is allowed.",
        "The language has no approximate form: compute it on fewer elements, or once for each.",
    ),
    _function(
        "logarithms in full precision", "log log2 log10 log1p",
        "0.140846103 0.121486276 0.139806106 0.166842356 0.168453931 0.171688705 0.179009482"
        " 0.205123722 0.105468884 0.132297039 0.144914463 0.166415646",
        "Use the approximate logarithm to the base of 2 (`lg2.approx`), and scale it. Near 1 only"
        " its absolute error is small: keep the full precision where a logarithm is divided by, or"
        " taken the logarithm of.",
        "The language has no approximate form: take one logarithm of a product in place of a sum of"
        " logarithms, or compute it on fewer elements.",
    ),
    Form(
        "square roots in full precision", _roots, 0.8,
        "Use the approximate reciprocal of the root (`x * rsqrt(x)`), where 2 units in the last"
        " place are enough.",
        spread=True,
        in_tiles="The language has no approximate form: compare squares in place of roots, or"
        " compute it on fewer elements.",
    ),
    Form(
        "integer division by a divisor that is not constant", _divisions, 0.9,
        "Make the divisor a constant, or a power of two; or count along instead of dividing.",
        spread=True, once=True,
    ),
    Form(
        "a slow path is called", subroutines, 0.9,
        "Use the approximate form (`__fdividef`, `rsqrt`, fast arithmetic), or keep numbers out of"
        " the range that needs it.",
        whole=True,
    ),
    Form(
        "divisions in full precision", _float_divisions, 0.9,
        "Use the approximate division (in Triton `/`, not `tl.div_rn`; in CUDA `__fdividef`), or"
        " multiply by the reciprocal, made once where the divisor is one number. In the precise"
        " form zeros, and numbers far from 1, call a subroutine.",
        quiet=True, whole=True,
    ),
    Form(
        "exponentials in full precision",
        partial(_with, "1.925963 0.0057249 12583039"), 1.0,
        "Use `exp2` of a scaled argument, or the approximate exponential, where 2 units in the last"
        " place are enough.",
    ),
    Form(
        "a product by log2(e) before each exponential", _scalings, 1.0,
        "Use `exp2`, and put log2(e) into a factor that is there already, as that of the scores.",
        quiet=True,
    ),
    Form(
        "conversions between kinds of numbers", _conversions, 0.5,
        "Keep a value in both kinds and count both along, or convert outside of the loop.",
        "low", quiet=True,
    ),
)  # fmt: skip
"""Those that own whole lines first: what is theirs is no other's."""


def is_of_results(name: str) -> bool:
    """Return whether an opcode computes on floats, as on results of products; no product does."""
    return bool(_OF_RESULTS.match(name))
