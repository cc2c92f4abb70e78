"""A page's requests beside the instructions of the machine code, line by line, without a GPU.

In: cases.  Out: for each line the requests of a warp, and the loads and stores of NVRTC's code
there, by how many loops are around.  How often a loop runs is not known here: a person reads it;
where no loop is around and nothing guards, the two are equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from benchmarks.show_counters.kernels import Case
from benchmarks.show_counters.pages import drawn
from tileprof import binary
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.drawing.machine_code.memory import OPCODES, Key


@dataclass
class Beside:
    """One kind of request at one line."""

    requests: Fraction = Fraction(0)
    """Requests of the page for each warp of the launch."""
    instructions: Counter[int] = field(default_factory=Counter)
    """Instructions, by number of loops around."""
    guarded: int = 0
    """Those of them with a predicate."""

    @property
    def differs(self) -> bool:
        """Whether instructions outside of loops and guards are not the requests."""
        plain = not self.guarded and set(self.instructions) <= {0}
        return plain and self.instructions.total() != self.requests


def beside_code(case: Case) -> dict[tuple[int, Key], Beside]:
    """Return the requests of a kernel's page beside its instructions, by line and kind; line 0 has
    what comes from no line of the kernel's file."""
    drawing = drawn(case, machine_code=False)
    found = defaultdict[tuple[int, Key], Beside](Beside)
    program = compile_cuda(drawing.watch.kernels[0], find_target(drawing.target))
    codes = {each.name: each for each in binary.read(program.cubin.bytes).kernels}
    for launch, made in zip(drawing.watch.launches, program.source.launches, strict=True):
        span, code = launch.op.span, codes[made.function]
        warps = launch.blocks * launch.op.block_threads // 32
        for place, moved in (launch.traffic.places if launch.traffic else {}).items():
            if place.way != "TMA" and not (place.way == "cp.async" and place.space == "shared"):
                held = found[place.line, (place.space, place.access, place.way)]
                held.requests += Fraction(moved.requests, warps)
        for each in code.instructions:
            if each.name in OPCODES:
                lines = (n.line for n in code.chain(each.offset) if span and n.file == span.file)
                held = found[next(lines, 0), OPCODES[each.name]]
                held.instructions[code.depth(each.offset)] += 1
                held.guarded += bool(each.predicate)
    return dict(found)


def text(cases: Sequence[Case]) -> Iterator[str]:
    """Yield lines of text: `!` marks what differs although no loop and no guard is around."""
    for case in cases:
        yield case.name
        for (line, (space, access, way)), held in sorted(beside_code(case).items()):
            loops = ", ".join(f"{n} in {depth} loops" for depth, n in held.instructions.items())
            mark = "!" if held.differs else " "
            guards = f", {held.guarded} guarded" if held.guarded else ""
            yield (
                f" {mark} line {line}: {space} {access}, {way}: {float(held.requests):g} requests"
                f" a warp; {loops or 'no instruction'}{guards}"
            )
