"""Occupancy: how many blocks a multiprocessor holds at once, and what limits them.

In: what a kernel takes (threads, registers, shared memory, named barriers) and what a
multiprocessor has: of a compute capability from a table, of a device from its driver.  Out: the
blocks that fit, by resource.

The rules are those of NVIDIA's `cuda_occupancy.h` (CUDA 13.0); the numbers of the table are from
the CUDA C++ programming guide, "Technical Specifications per Compute Capability".
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
PARTITIONS = 4
"""Each has its own quarter of the registers and of the warps."""
REGISTER_UNIT = 256
"""Registers are given to a warp in multiples of this."""
_KB = 1024
_REGISTERS = 65536
_OLDEST, _NEWEST = (7, 5), (12, 1)
"""Compute capabilities for which the rules are known."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Resources that the blocks of a multiprocessor share; memory is in bytes."""

    threads: int
    blocks: int
    shared: int
    shared_per_block: int
    """The most that one block can have, static and dynamic."""
    reserved_shared: int
    """Shared memory that the system takes for each block."""
    shared_unit: int
    """Shared memory is given to a block in multiples of this."""
    barriers: int = 0
    """Named barriers; 0 where they limit nothing."""
    registers: int = _REGISTERS
    registers_per_block: int = _REGISTERS
    threads_per_block: int = 1024

    @property
    def warps(self) -> int:
        """Warps that it holds at once."""
        return self.threads // WARP


def multiprocessor(
    capability: tuple[int, int],
    threads: int,
    blocks: int,
    shared: int,
    shared_per_block: int,
    reserved_shared: int,
    registers: int = _REGISTERS,
    registers_per_block: int = _REGISTERS,
    threads_per_block: int = 1024,
) -> Multiprocessor | None:
    """Return a driver's limits, with the rules of a compute capability that it does not report.

    None for a capability whose rules are not known.
    """
    if not _OLDEST <= capability <= _NEWEST:
        return None
    return Multiprocessor(
        threads,
        blocks,
        shared,
        shared_per_block,
        reserved_shared,
        shared_unit=256 if capability < (8, 0) else 128,
        barriers=_barriers_for_a_block(capability) * blocks,
        registers=registers,
        registers_per_block=registers_per_block,
        threads_per_block=threads_per_block,
    )


def _barriers_for_a_block(capability: tuple[int, int]) -> int:
    """Named barriers of a multiprocessor for each block that it can hold; 0 for no limit."""
    if capability < (9, 0):
        return 0
    return 1 if capability == (10, 1) or capability >= (11, 0) else 2


_SPECIFICATIONS = {
    # threads, blocks, KB of shared memory, KB that the system reserves for a block
    (7, 5): (1024, 16, 64, 0),
    (8, 0): (2048, 32, 164, 1),
    (8, 6): (1536, 16, 100, 1),
    (8, 7): (1536, 16, 164, 1),
    (8, 9): (1536, 24, 100, 1),
    (9, 0): (2048, 32, 228, 1),
    (10, 0): (2048, 32, 228, 1),
    (11, 0): (1536, 24, 228, 1),
    (12, 0): (1536, 24, 100, 1),
}


def _specified(capability: tuple[int, int]) -> Multiprocessor:
    threads, blocks, shared, reserved = _SPECIFICATIONS[capability]
    made = multiprocessor(
        capability, threads, blocks, shared * _KB, (shared - reserved) * _KB, reserved * _KB
    )
    assert made is not None, capability
    return made


MULTIPROCESSORS = {capability: _specified(capability) for capability in _SPECIFICATIONS}
"""Multiprocessors by compute capability, for work without a device at hand."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks that a multiprocessor holds at once."""

    blocks: int
    limits: tuple[tuple[str, int], ...]
    """Blocks that each resource has room for, the scarcest first."""
    share: float
    """Part of the multiprocessor's warps that these blocks have, 0 to 1."""

    @property
    def scarce(self) -> tuple[str, ...]:
        """The resources that leave no room for another block."""
        return tuple(name for name, blocks in self.limits if blocks == self.blocks)


def occupancy(
    registers: int, shared: int, threads: int, of: Multiprocessor, barriers: int = 0
) -> Occupancy:
    """Return how many blocks fit, by resource; 0 where not even one does.

    `registers` of a thread; `shared`, static and dynamic, and `threads` of a block; `barriers`
    that a block names, its own included, 0 where that is not known.
    """
    warps = -(-threads // WARP)
    limits = [
        ("threads", of.warps // warps if threads <= of.threads_per_block else 0),
        ("registers", _by_registers(registers, warps, of)),
    ]
    if shared + of.reserved_shared:
        limits.append(("shared memory", _by_shared(shared, of)))
    limits.append(("blocks", of.blocks))
    if barriers and of.barriers:
        limits.append(("named barriers", of.barriers // barriers))
    limits.sort(key=lambda limit: limit[1])
    blocks = limits[0][1]
    return Occupancy(blocks, tuple(limits), blocks * warps / of.warps)


def _by_registers(registers: int, warps: int, of: Multiprocessor) -> int:
    each = round_up(registers * WARP, REGISTER_UNIT)
    # The hardware checks a block as if all partitions had as many warps as the fullest.
    if each * round_up(warps, PARTITIONS) > of.registers_per_block:
        return 0
    in_partition = of.registers // PARTITIONS // max(each, 1)
    return in_partition * PARTITIONS // warps if each else of.blocks


def _by_shared(shared: int, of: Multiprocessor) -> int:
    if shared > of.shared_per_block:
        return 0
    return of.shared // round_up(shared + of.reserved_shared, of.shared_unit)


def round_up(size: int, unit: int) -> int:
    """Return the next multiple of `unit`."""
    return -(-size // unit) * unit
