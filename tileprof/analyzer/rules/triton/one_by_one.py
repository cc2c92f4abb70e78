"""Why a Triton kernel accesses neighbours one by one, by its text: a part of `narrow-access`.

Static: the program's text. Triton gives a thread 16 bytes where it can prove that addresses are
multiples of that, and that a mask has the same value for neighbours. It can not where

- the kernel is given a slice of a flat tensor that leaves elements out at its begin, so that its
  address is no multiple of 16 bytes (`program/tensor_faults`; the recorder tells how wide elements
  are),
- the pointer was loaded as a number, from a table of tensors (`machine/triton_addresses`), or
- a mask says `at <= n - 1`: what is known of n, that it is a multiple of 16, is lost by the
  subtraction. The recorder tells that n is one.

Dynamic: samples on the lines of such accesses of less than 16 bytes, addresses and exchanges
between threads included; accesses whose place another load found are narrow for that reason. Of
these samples the part (1 - w / 16) goes that accesses of w bytes are too many, but no more than the
kernel's work leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Cause, Draft, sampled
from tileprof.analyzer.estimates import Saving, eliminated
from tileprof.analyzer.findings import Evidence
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS, STORES, width_of
from tileprof.analyzer.machine.by_number import is_found_by_number
from tileprof.analyzer.machine.triton_addresses import loaded_pointers
from tileprof.analyzer.numbers.shared import COOL, WIDEST
from tileprof.analyzer.program.seen_tensors import seen_kernel, seen_tensors

_ODD = (
    "Let `{parameter}` begin at a multiple of {most} bytes: give the kernel a tensor that has its"
    " memory to itself, or begins at a multiple of {count} elements. Triton then compiles another"
    " version of the kernel, which moves 16 bytes a thread."
)
_LAST = (
    "Write `at < {n}` for `at <= {n} - 1` in the mask, which says the same. Triton knows that {n}"
    " is a multiple of 16, so it proves that the mask has one value for neighbours, and moves 16"
    " bytes a thread."
)
_LOADED = (
    "Tell Triton what the address is a multiple of: `tl.multiple_of(pointer, 16)` where it is"
    " loaded; or give the kernel the tensor itself, where it is the same for all programs."
)


@dataclass(frozen=True, slots=True)
class _Reason:
    lines: tuple[int, ...]
    """Lines of the accesses."""
    title: str
    static: str
    author: str
    loaded: bool = False
    """Whether the pointer itself is a number that another load found."""


def one_by_one(case: KernelCase) -> Draft | None:
    """The reason that costs most; None where none costs anything."""
    drafts = [found for each in _reasons(case) if (found := _draft(case, each)) is not None]
    return max(drafts, key=lambda each: each.saving.mid if each.saving else 0.0, default=None)


def _reasons(case: KernelCase) -> Iterator[_Reason]:
    tables = case.program.profile.tables
    for each, tensor, _ in seen_tensors(tables, case.name, "unaligned"):
        offset = each.offset * tensor.width
        if offset % WIDEST:
            yield _Reason(
                each.accesses, f"{each.tensor} begins at an odd address",
                f"{each.call} begins {offset} bytes behind its memory's begin",
                _ODD.format(
                    parameter=each.parameter, most=WIDEST, count=WIDEST // tensor.width
                ),
            )  # fmt: skip
    if found := loaded_pointers(case.code.ttgir) if case.code else ():
        yield _Reason(
            found, "a pointer is loaded as a number",
            "the pointer comes from a tensor of addresses, so nothing is known of its alignment",
            _LOADED, True,
        )  # fmt: skip
    kernel, launches = seen_kernel(tables, case.name)
    by_last = dict[str, list[int]]()
    for line, name in kernel.inclusive.items() if kernel else ():
        by_last.setdefault(name, []).append(line)
    for name, lines in by_last.items():
        given = [each.number(name) for each in launches]
        if all(n is not None and n.low % WIDEST == n.high % WIDEST == 0 for n in given):
            yield _Reason(
                tuple(lines), f"a mask says `<= {name} - 1`",
                f"the mask compares with {name} - 1, and {name} is a multiple of {WIDEST}",
                _LAST.format(n=name),
            )  # fmt: skip


def _draft(case: KernelCase, reason: _Reason) -> Draft | None:
    code = case.sampled
    if code is None:
        return None
    narrow = [
        index for index in case.at_lines(code, reason.lines, code.named(*LOADS, *STORES))
        if width_of(code.instructions[index].opcode) < WIDEST
        if reason.loaded or not is_found_by_number(code, index)
    ]  # fmt: skip
    hot = code.hottest(narrow)
    if hot is None:
        return None
    places = (case.user_line(code.instructions[index].place) for index in narrow)
    taken = code.taken(code.rows(case.at_lines(code, {each.line for each in places if each})))
    width = min(width_of(code.instructions[index].opcode) for index in narrow)
    saving = eliminated(taken, code.whole, part=1 - width / WIDEST)
    if left := reach.left(case, taken):
        mid = min(saving.mid, left.high)
        high = max(mid, min(saving.high, left.high))
        saving = Saving(min(saving.low, mid), mid, high, samples=saving.samples)
    if saving.mid < COOL:
        return None
    title = f"{reason.title}, so accesses are of {width} bytes a thread"
    cause = Cause(title, case.at(hot), (Evidence("static", reason.static),), reason.author)
    return cause.costs(
        saving, sampled(code, taken, "are on the lines of these accesses"), known=True
    )
