"""Rows that a Triton kernel takes by the numbers 0, 1, 2, …: a part of `needless-pass`.

Static: the program's text. The kernel is given `torch.arange(n)`, or a name that holds it, and
makes addresses of the numbers that it loads there (`program/tensor_faults`). Each number is its own
place, so the kernel needs no list. But no compiler knows that, so elements that are side by side
are accessed one by one, behind a load. In the machine code these are accesses of less than 16 bytes
whose addresses come from a load; wider ones are rows, which cost no more than their numbers.

Dynamic: samples at such accesses, and of what waits for them, as a part of what the kernel's work
leaves (`estimates.drawn`); and the time of the kernel that makes the numbers, which goes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, sampled
from tileprof.analyzer.estimates import Saving, drawn, eliminated
from tileprof.analyzer.findings import Evidence, Place, percent
from tileprof.analyzer.kernel import reach
from tileprof.analyzer.kernel.global_memory import LOADS, STORES, width_of
from tileprof.analyzer.machine.by_number import is_found_by_number
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.numbers.shared import COLD, HALFWAY, WIDEST
from tileprof.analyzer.program.seen_tensors import seen_tensors
from tileprof.analyzer.program.tensor_faults import TensorFault
from tileprof.errors import Location

_AUTHOR = (
    "Use the place where a number stands in its stead, and leave the list out ({accesses}): it"
    " holds 0, 1, 2, …, so `{parameter}` gives what its index is. Then the compiler knows which"
    " elements are side by side, and moves 16 bytes a thread. Keep the list where other launches"
    " have another order, and compile the kernel for both."
)


def find(tree: Contexts) -> Iterator[Draft]:
    """Each such list."""
    for case in tree.program.kernels:
        if case.sampled is not None:
            for each, _, file in seen_tensors(tree.profile.tables, case.name, "counted"):
                yield from _draft(tree, each, case, case.sampled, file)


def _makers(tree: Contexts, each: TensorFault, case: KernelCase, file: str) -> list[int]:
    """Nodes of the kernels that make a list, by its line; where none was recorded, the only such
    node, if it ran as often as the kernel."""
    named = tree.where(lambda symbol: symbol.kind == "kernel" and "arange" in symbol.name)
    nodes = np.flatnonzero(named & (tree.time > 0)).tolist()
    known = {node: tree.line(node) for node in nodes}
    at = [
        node for node, place in known.items()
        if place is not None and place.file == file and place.line in each.lines
    ]  # fmt: skip
    alone = len(nodes) == 1 and not any(known.values())
    return at or [node for node in nodes if alone and tree.count[node] == case.launches]


def _draft(
    tree: Contexts, each: TensorFault, case: KernelCase, code: KernelCode, file: str
) -> Iterator[Draft]:
    accesses = code.where(
        lambda one: one.name in (*LOADS, *STORES) and width_of(one.opcode) < WIDEST
    )
    one_by_one = [index for index in accesses if is_found_by_number(code, index)]
    taken = np.maximum(code.taken(code.rows(one_by_one)), code.waiting_for(one_by_one))
    own = eliminated(taken, code.whole)
    left = reach.left(case, taken)
    saving = drawn(own, left) if left else Saving(0, HALFWAY * own.mid, own.high)
    made = _makers(tree, each, case, file)
    kernel, list_ = (float(tree.time[[*held]].sum()) for held in (case.nodes, made))
    if not one_by_one or tree.share(saving.mid * kernel + list_) < COLD:
        return
    static = Evidence(
        "static",
        f"{each.kernel} is given {each.call} as {each.parameter}, and makes addresses of what it"
        f" loads there: {len(one_by_one)} accesses of less than {WIDEST} bytes come behind it",
    )
    evidence = [static, sampled(code, taken, "are at them or wait for them")]
    if list_:
        text = f"making the list takes {percent(tree.share(list_))} of {tree.whose}"
        evidence.append(Evidence("activities", text))
    lines = ", ".join(map(str, each.accesses))
    low, mid, high = (part * kernel + list_ for part in (saving.low, saving.mid, saving.high))
    location = case.location and Location(case.location.file, each.accesses[0])
    yield Draft(
        "suggestion", f"{each.kernel} takes its elements by a list that is 0, 1, 2, …",
        Place(each.kernel, case.path, "", location), tuple(evidence),
        _AUTHOR.format(accesses=f"line {lines}", parameter=each.parameter), "",
        tree.saving(low, mid, high), nodes=(*case.nodes, *made),
    )  # fmt: skip
