"""A kernel's launch as its machine code runs: requests by line, kind and tensor.

In: a compiled kernel and the arguments of a call.  Out: `Ran`.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileprof import binary
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.drawing.moved import Moved
from tileprof.emulator.driver import Call

from .memory import Asked, Memory, region
from .operands import Lanes
from .threads import EndlessError, Threads

_FIRST_SHARED = 0x400
_PARAMETERS = 0x210
_ALIGNMENT = 256
_TOGETHER = 1 << 14
"""Threads that run together."""


_MULTIPROCESSORS = 132
"""Multiprocessors of an H200: a persistent launch of more tiles has a block for each."""


@dataclass
class Ran:
    """Requests, sectors and wavefronts of all warps of a launch."""

    counted: dict[Asked, Moved] = field(default_factory=lambda: defaultdict(Moved))
    shuffles: int = 0
    """Instructions of warps that passed words between lanes."""
    tensors: Sequence[str] = ()
    """Parameters by the positions of their regions of memory."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Opcodes whose results are not known."""
    left: int = 0
    """Instructions of threads that might still have run."""
    results: list[Any] = field(default_factory=list)
    """The arguments as the launch left them."""


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy in rows as a device has it: it begins at a multiple of 256 bytes."""
    memory = np.zeros(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    made = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return np.asarray(made)


def ran(
    program: CudaProgram,
    values: Sequence[Any],
    symbols: Sequence[int],
    file: str,
    at: int = 0,
    code: binary.Function | None = None,
    most: int = 1 << 60,
) -> Ran:
    """Run launch number `at` of a kernel on copies of the arguments; lines are those of `file`.

    `code` is the launch's function, where that is compiled already, from a text with others; `most`
    instructions of threads may run, by what the first blocks take.  EndlessError where the launch
    does not come to its end; MisalignedError where a GPU would end it.
    """
    spec = program.source.launches[at]
    copied = [_aligned(each) if isinstance(each, np.ndarray) else each for each in values]
    call = Call(program.source, program.kernel, copied, dict(zip(program.kernel.symbols, symbols)))
    if code is None:
        every = binary.read(program.cubin.bytes).kernels
        code = next(each for each in every if each.name == spec.function)
    tiles = math.prod(int(each) for each in call.evaluate(spec.grid))
    grid = -(-tiles // spec.cluster)
    if spec.persistent:
        grid = min(grid, max(spec.persistent * _MULTIPROCESSORS // spec.cluster, 1))
    grid *= spec.cluster

    bank = bytearray(4096 + _PARAMETERS)
    bank[0x28:0x2C] = (0).to_bytes(4, "little")
    for number, part in enumerate((spec.threads, 1, 1, grid, 1, 1)):
        bank[4 * number : 4 * number + 4] = int(part).to_bytes(4, "little")
    for each, held in zip(spec.arguments, code.resources.parameters, strict=True):
        data = call.argument(spec, each).ljust(held.size, b"\0")[: held.size]
        place = _PARAMETERS + held.offset
        bank[place : place + held.size] = data
    own: dict[int, int] = {}
    for position, held_array in call.arrays.items():
        own.setdefault(id(held_array), position)
    tensors = [program.kernel.params[position].name or "" for position in own.values()]
    arrays = [call.arrays[position] for position in own.values()]
    regions = [region(array.address, array.size) for array in arrays]
    regions.append(region(ctypes.addressof(call.counter), 4))
    regions.append(region(ctypes.addressof(call.report), ctypes.sizeof(call.report)))
    regions.append(region(ctypes.addressof(call.noted), 4))

    ops = {each.offset: each for each in code.instructions}
    lines = {
        each.offset: next((n.line for n in code.chain(each.offset) if n.file == file), 0)
        for each in code.instructions
    }
    made = Ran(tensors=tensors)
    step = max(_TOGETHER // spec.threads // spec.cluster, 1) * spec.cluster
    for first in range(0, grid, step):
        blocks = min(step, grid - first)
        count = blocks * spec.threads
        thread, block = np.arange(count) % spec.threads, first + np.arange(count) // spec.threads
        rank = block % spec.cluster
        special = {
            "SR_TID.X": thread, "SR_CTAID.X": block, "SR_LANEID": thread % 32,
            "SR_CgaCtaId": rank, "SR_CgaCtaId.X": rank,
        }  # fmt: skip
        lanes = Lanes(count, {0: bytes(bank)}, {k: v.astype(np.uint32) for k, v in special.items()})
        shared = _FIRST_SHARED + spec.shared + code.resources.shared_bytes + 64
        memory = Memory(blocks, spec.threads, shared, regions)
        threads = Threads(ops, lines, lanes, memory, spec.threads, most)
        with np.errstate(all="ignore"):
            threads.run()
        if not first and (most - threads.most) * grid > most * blocks:
            raise EndlessError("the launch is too long to run on the processor")
        most = threads.most
        for key, moved in memory.counted.items():
            made.counted[key].add(moved)
        made.shuffles += lanes.shuffles
        made.unknown += threads.unknown
    for held_array in call.arrays.values():
        held_array.copy_back()
    made.left, made.results = most, copied
    return made
