"""Matrix products whose operands cannot be read 16 bytes at a time.

Static: names of libraries' kernels: `align1` and `align2` say how many elements an access has,
where one of 16 bytes has 8 of 16 bits or 4 of 32. A library takes such a kernel where a dimension
is odd, a vocabulary of 50,257 for one. Dynamic: their time, beside the least time of their work at
measured roofs. A product of aligned operands takes somewhat longer than that; what is above goes.
Of a training step of GPT-2 on an H200, whose launches were late, such kernels took a quarter, and
padding the vocabulary made it 1.037 times as fast. Where the work is not known, likely is what that
one measurement gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.floors import Floors
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.program.numbers import ALIGNMENT_PARTS, ALIGNMENT_REACHED

_NARROW = re.compile(r"(tensorop|s16816|s1688|h16816|h1688).*align(1|2)(?!\d)")
_ADVICE = (
    "Pad the unaligned dimension (a vocabulary, classes, features, channels) to a multiple of 8,"
    " better of 64, with rows that are never used. Then tiles are read in accesses of 16 bytes."
)


def find(program: Program) -> Iterator[Draft]:
    """All such products together."""
    narrow = [each for each in program.kernels if is_narrow(each.name) and each.nodes]
    if not narrow:
        return
    tree = Contexts(program)
    time = sum(tree.in_steps(each) for each in narrow)
    if tree.share(time) < COLD:
        return
    nodes = tuple(node for each in narrow for node in each.nodes)
    operations = dict.fromkeys(tree.told(each.nodes[0]) for each in narrow)
    text = f"{len(narrow)} such kernels take {percent(tree.share(time))} of {tree.whose}"
    evidence = (
        Evidence("static", f"{_named(narrow[0])} reads an operand by one or two elements"),
        Evidence("activities", f"{text}, most of it at {next(iter(operations))}"),
    )
    title = f"{len(narrow)} kernels multiply matrices whose rows are not aligned to 16 bytes"
    saving = tree.saving(*_saved(tree, nodes))
    place = tree.place(narrow[0].nodes[0])
    yield Draft("suggestion", title, place, evidence, _ADVICE, "", saving, confidence="low",
                nodes=nodes)  # fmt: skip


def is_narrow(name: str) -> bool:
    """Return whether a library's product reads an operand by one or two elements, by its name."""
    return bool(_NARROW.search(name))


def _named(case: KernelCase) -> str:
    """The part of a kernel's name that says how it reads, which is among what C++ puts around."""
    return re.split(r"[<>(]", case.name[: case.name.index("align") + 6])[-1]


def _saved(tree: Contexts, nodes: Sequence[int]) -> tuple[float, float, float]:
    """Return what goes of their time at least, likely, and at most, ns."""
    floors = Floors(tree)
    likely = most = 0.0
    for node in nodes:
        time = float(tree.time[node])
        if floors.limits.get(node) in ("arithmetic", "memory"):
            above = max(time - floors.floor[node] / ALIGNMENT_REACHED, 0.0)
            likely, most = likely + above, most + above
        else:
            _, part, all_of_it = ALIGNMENT_PARTS
            likely, most = likely + part * time, most + all_of_it * time
    return 0.0, min(likely, most), most


RULE = ProgramRule("alignment", find)
