"""How far the loads of a kernel run ahead, and how much room there is for more.

In: a kernel with its launch; the code of a loop that was compiled elsewhere.
Out: whether nothing runs ahead; `Ring` of such a loop; bytes of shared memory that are free.
"""

from __future__ import annotations

import re

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.kernel.global_memory import width_of
from tileprof.analyzer.machine.code import KernelCode
from tileprof.analyzer.numbers.shared import RESERVED_BYTES, SHARED_BYTES
from tileprof.analyzer.tiles.rings import Ring, rings_of

_PENDING = re.compile(r"DEPBAR\.LE SB\d, (0x[0-9a-f]+)")


def single_stage(case: KernelCase) -> bool:
    """Whether its author wrote a pipelined loop of one stage: nothing runs ahead in it."""
    rings = rings_of(case.tiles)
    return bool(rings) and rings[0].stages == 1


def ring_in_code(case: KernelCase, code: KernelCode, loop: range) -> Ring | None:
    """The ring that the cp.async of a loop fill; None where it has none, or waits for no group.

    A wait that leaves N groups under way waits for the one before them. With `each` groups a turn,
    of which `before` are made ahead of the wait, that one was made so many turns ago.
    """
    inside = [code.instructions[index] for index in loop]
    groups = [each.index for each in inside if each.name == "LDGDEPBAR"]
    waits = [(each.index, int(m[1], 16)) for each in inside if (m := _PENDING.match(each.text))]
    taken = case.extent("block") * sum(
        width_of(each.opcode) for each in inside if each.name == "LDGSTS"
    )
    if not groups or not waits or not taken:
        return None
    ahead = min(_turns_ago(pending, groups, at) for at, pending in waits)
    return Ring("", ahead + 1, taken)


def _turns_ago(pending: int, groups: list[int], wait: int) -> int:
    before = sum(group < wait for group in groups)
    return 0 if before > pending else (pending - before) // len(groups) + 1


def spare_bytes(case: KernelCase) -> int | None:
    """Shared memory that a block can still take while as many blocks fit; None if not known."""
    blocks, taken = case.number("blocks_per_sm"), case.number("dynamic_shared_bytes")
    target = str(case.attributes.get("target", "sm_90")).rstrip("af")
    if not blocks or taken is None or target not in SHARED_BYTES:
        return None
    held = int(taken + (case.number("static_shared_bytes") or 0))
    return SHARED_BYTES[target] // int(blocks) - RESERVED_BYTES - held
