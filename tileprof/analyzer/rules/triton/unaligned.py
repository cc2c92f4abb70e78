"""Tensors of a Triton kernel that begin at an odd place: a part of `narrow-access`.

Static: the program's text. A kernel is given a slice of a flat tensor that leaves elements out at
its begin, so that its address is no multiple of 16 bytes (`program/host_passes`; the recorder tells
how wide elements are). Triton compiles a kernel for that: it accesses the elements one by one, in a
layout in which a thread has single elements, where it would have given each thread 16 bytes.

Dynamic: samples on the lines of these accesses, addresses and exchanges between threads included.
Of those the part (1 - w / 16) goes that accesses of w bytes are too many, but no more than the
kernel's work leaves.
"""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS, STORES, width_of
from tileprof.analyzer.numbers.shared import COOL, WIDEST
from tileprof.analyzer.program.seen_tensors import seen_tensors

_AUTHOR = (
    "Let `{parameter}` begin at a multiple of {most} bytes: give the kernel a tensor that has its"
    " memory to itself, or begins at a multiple of {count} elements. Triton then compiles another"
    " version of the kernel, which moves 16 bytes a thread."
)


def unaligned(case: KernelCase) -> Draft | None:
    """The first such tensor, where its accesses are narrow; None where they cost nothing."""
    code = case.sampled
    for each, tensor, _ in seen_tensors(case.program.profile.tables, case.name, "unaligned"):
        where = case.at_lines(code, each.accesses) if code is not None else []
        if code is None or each.offset * tensor.width % WIDEST == 0:
            continue
        narrow = [
            index for index in where
            if code.instructions[index].name in (*LOADS, *STORES)
            and width_of(code.instructions[index].opcode) <= max(tensor.width, 4)
        ]  # fmt: skip
        hot = code.hottest(narrow)
        if hot is None:
            continue
        taken = code.taken(code.rows(where))
        width = min(width_of(code.instructions[index].opcode) for index in narrow)
        saving = eliminated(taken, code.whole, part=1 - width / WIDEST)
        if left := reach.left(case, taken):
            mid = min(saving.mid, left.high)
            high = max(mid, min(saving.high, left.high))
            saving = Saving(min(saving.low, mid), mid, high, samples=saving.samples)
        if saving.mid < COOL:
            continue
        text = f"{each.call} begins {each.offset * tensor.width} bytes behind its memory's begin"
        title = f"{each.tensor} begins at an odd address, so accesses are of {width} bytes a thread"
        author = _AUTHOR.format(
            parameter=each.parameter, most=WIDEST, count=WIDEST // tensor.width
        )  # fmt: skip
        cause = Cause(title, case.at(hot), (Evidence("static", text),), author)
        seen = sampled(code, taken, "are on the lines of these accesses")
        return cause.costs(saving, seen, known=True)
    return None
