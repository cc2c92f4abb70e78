"""Matrix products that are not done by the fastest instruction the device has.

Static: the compiler chose `mma` or `fma` where the target has `wgmma`, or `fma` where it has `mma`,
and says why. Dynamic: samples at the product's line, waits for data left out: those stay. The
product takes as much less time as the peaks of the two instructions differ: (1 - old / new) of its
samples goes. Peaks are the device's measured ones, else those of its data sheet.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence, percent
from tileprof.profile import RemarkInfo

__all__ = ["RULE"]

_COLD = 0.01
_FASTEST_FIRST = ("wgmma", "mma", "fma")
_FOR_GOOD = ("has none", "multiplies no")
"""In reasons that nobody can do anything about."""
_MMA = 0.62
"""Of the peak of wgmma, what mma reaches on Hopper (Luo et al., "Benchmarking and Dissecting the
Nvidia Hopper GPU Architecture via Microbenchmarking", IPDPS 2024)."""
_SHEET = {"fma": 67e12, "tensor_tf32": 494e12, "tensor_bfloat16": 989e12, "tensor_int8": 1979e12}
"""Operations a second of an H100 or H200 (NVIDIA's data sheets, SXM, dense)."""
_DATA = {"long_scoreboard", "barrier", "membar"}
"""Reasons of waits for the operands, or for other warps."""
_WAYS = (
    ("turned off", "Take back the control that turns it off"),
    ("tf32 is off", "Allow tf32, which keeps 10 bits after the point, or multiply bfloat16"),
    ("not supported", "Bring the operands to one 16-bit type, and sum in float32"),
    ("threads=", "Launch as many threads as it needs"),
    ("lies in a fragment", "Keep B in shared memory"),
    ("transpose_", "Store the operand the other way round"),
    ("not a multiple of", "Take a tile whose extents fit"),
    ("seen under another shape", "Give the operand a buffer of its own shape"),
)
"""What of a reason asks for which change; the first that fits."""


def find(case: KernelCase) -> Iterator[Draft]:
    """Products whose remark names a faster instruction that could be had."""
    for remark in case.remarks:
        wanted, reason = _missed(remark)
        if wanted:
            yield _draft(case, remark, wanted, reason)


def _missed(remark: RemarkInfo) -> tuple[str, str]:
    """The fastest instruction that could be had, and what is against it; '' for none."""
    chosen = remark.chosen.partition(" ")[0]
    if remark.op != "gemm" or chosen not in _FASTEST_FIRST:
        return "", ""
    faster = _FASTEST_FIRST[: _FASTEST_FIRST.index(chosen)]
    for name, reason in remark.rejected:
        if name in faster and not any(part in reason for part in _FOR_GOOD):
            return name, reason
    return "", ""


def _draft(case: KernelCase, remark: RemarkInfo, wanted: str, reason: str) -> Draft:
    chosen = remark.chosen.partition(" ")[0]
    title = f"a matrix product is done by {chosen}, not by {wanted}"
    static = Evidence("static", f"gemm: {remark.chosen}, not {wanted}: {reason}")
    author = f"{_way(reason)}: {reason}."
    compiler = f"The choice of instructions turned {wanted} down: {reason}."
    code = case.sampled
    where = _at(case, code, remark) if code else []
    hot = code.hottest(where) if code else None
    if code is None or hot is None:
        place = case.place(remark.location, remark.op)
        return Draft("warning", title, place, (static,), author, compiler)
    place = case.place(remark.location, remark.op, (hot.offset, hot.offset))
    reasons = [each for each in code.by_reason(where) if each not in _DATA]
    taken = code.taken(code.rows(where, reasons))
    share = float(taken.sum()) / code.whole
    times = _peak(case, wanted) / _peak(case, chosen)
    text = f"{percent(share)} of the samples multiply; {wanted} is up to {times:.1f} times as fast"
    evidence = (static, Evidence("samples", text, int(taken.sum())))
    if share * (1 - 1 / times) < _COLD:
        author = "Leave it: the product takes no time."
        return Draft("ignore", f"{title}, which costs nothing", place, evidence, author,
                     confidence="high")  # fmt: skip
    saving = eliminated(taken, code.whole, 1 - 1 / times)
    return Draft("suggestion", title, place, evidence, author, compiler, saving, times)


def _at(case: KernelCase, code: KernelCode, remark: RemarkInfo) -> list[int]:
    """The instructions of the product's line."""
    line = remark.location.line if remark.location else 0
    return code.where(
        lambda each: (here := case.user_line(each.place)) is not None and here.line == line
    )


def _peak(case: KernelCase, instruction: str) -> float:
    """Operations a second, measured or of the data sheet."""
    if instruction == "fma":
        measured = case.peaks.get("fma_float32")
        return measured.value if measured else _SHEET["fma"]
    dtype = case.matrix_dtype or "bfloat16"
    name = f"tensor_{'tf32' if dtype == 'float32' else dtype}"
    held = case.peaks.get(name)
    eight = "8" in dtype.partition("_")[0]
    sheet = _SHEET.get(name, _SHEET["tensor_int8" if eight else "tensor_bfloat16"])
    return (held.value if held else sheet) * (_MMA if instruction == "mma" else 1.0)


def _way(reason: str) -> str:
    return next((way for part, way in _WAYS if part in reason), "Change what is against it")


RULE = KernelRule("tensor-core-missed", find)
