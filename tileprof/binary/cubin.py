"""A cubin and its functions; what costs time is computed when it is first asked for.

In: a file or its bytes.  Out: `Cubin`, with a `Function` for each section of code.  Resources and
lines are read from the ELF; instructions need nvdisasm, which runs once for a cubin (or once for a
function, where the cubin is large).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from tileprof.errors import CubinError
from tileprof.once import cached_property

from . import limits
from .addresses import Constants
from .attributes import Resources, architecture, jump_tables, resources, spill_offsets
from .control_flow import Block, Loop, find_blocks, find_loops
from .disassembly import disassemble
from .elf import Elf, Section, Symbol, parse_elf
from .instructions import BYTES, Instruction
from .line_table import Chain, Line, LineTable, line_tables
from .opcodes import opcode_mix
from .slices import Dependence, Flow
from .spills import Spill, SpillSite, find_spills

KERNEL = 0x10
"""The bit of a symbol that marks what a host can launch."""
OLDEST = 70
"""The first architecture with instructions of 16 bytes."""
AT_ONCE = 1 << 20
"""Bytes of code up to which a cubin is disassembled as a whole."""


def read(source: str | os.PathLike[str] | bytes) -> Cubin:
    """Return the cubin in a file, or in bytes.

    Raises `CubinError` where it is none; the same bytes give the same object, so that nothing is
    disassembled twice.
    """
    if isinstance(source, bytes):
        return _parse(source)
    path = Path(source)
    try:
        data = _content(path)
    except OSError as error:
        raise CubinError(
            f"cannot read {path}: {error.strerror}", hint="Give the path of a .cubin file."
        ) from None
    try:
        return _parse(data)
    except CubinError as error:
        raise CubinError(f"{path}: {error.message}", hint=error.hint) from None


def _content(path: Path) -> bytes:
    # A pipe or a device would be waited for, or never end.
    if path.exists() and not path.is_file():
        raise CubinError(f"{path} is not a file", hint="Give the path of a .cubin file.")
    with path.open("rb") as file:
        data = file.read(limits.MOST_FILE_BYTES + 1)
    if len(data) > limits.MOST_FILE_BYTES:
        raise CubinError(
            f"{path} has more than {limits.MOST_FILE_BYTES:,} bytes",
            hint="Split it: link fewer kernels into one cubin.",
        )
    return data


@lru_cache(maxsize=64)
def _parse(data: bytes) -> Cubin:
    elf = parse_elf(data)
    target = architecture(elf)
    if int(target[3:].rstrip("af")) < OLDEST:
        raise CubinError(
            f"the cubin is for {target}; those since sm_{OLDEST} can be read",
            hint="Compile it for a newer architecture.",
        )
    return Cubin(data, target, elf)


@dataclass(frozen=True, eq=False)
class Cubin:
    """The machine code of a module."""

    data: bytes = field(repr=False)
    architecture: str
    elf: Elf = field(repr=False)

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """Name -> function, kernels first, in the order of the file."""
        found = [Function(self, *each) for each in self._code()]
        found.sort(key=lambda each: not each.is_kernel)
        return MappingProxyType({each.name: each for each in found})

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The functions that a host can launch."""
        return tuple(each for each in self.functions.values() if each.is_kernel)

    @cached_property
    def sha256(self) -> str:
        """The digest of the bytes, a name that holds anywhere."""
        return hashlib.sha256(self.data).hexdigest()

    def read_code(self) -> None:
        """Disassemble all functions at once, which takes less than one by one; needs nvdisasm."""
        if len(self._disassembled) < len(self.functions):
            self._disassembled.update(disassemble(self.data, self._code_of_all()))

    def _code_of_all(self) -> dict[str, bytes]:
        return {each.name: each._section.data for each in self.functions.values()}

    def _code(self) -> Iterator[tuple[Section, Symbol]]:
        by_section = self.elf.functions
        for section in self.elf.sections:
            if section.name.startswith(".text."):
                name = section.name.removeprefix(".text.")
                for symbol in by_section.get(section.index, ()):
                    if symbol.name == name:
                        yield section, symbol

    @cached_property
    def _lines(self) -> dict[int, LineTable]:
        return line_tables(self.elf)

    @cached_property
    def _disassembled(self) -> dict[str, tuple[Instruction, ...]]:
        return {}

    def _instructions(self, function: Function) -> tuple[Instruction, ...]:
        known = self._disassembled
        if function.name not in known:
            code = self._code_of_all()
            whole = sum(map(len, code.values())) <= AT_ONCE
            known.update(disassemble(self.data, code, None if whole else function._symbol.index))
        if function.name not in known:
            raise CubinError(
                f"nvdisasm printed nothing for `{function.name}`",
                hint="Update nvdisasm: pip install --upgrade nvidia-cuda-nvdisasm",
            )
        return known[function.name]


@dataclass(frozen=True, eq=False)
class Function:
    """A kernel, or a function that is called from others."""

    cubin: Cubin = field(repr=False)
    _section: Section = field(repr=False)
    _symbol: Symbol

    @property
    def name(self) -> str:
        """The name in the symbol table, mangled where the compiler mangles."""
        return self._symbol.name

    @property
    def is_kernel(self) -> bool:
        """True where a host can launch the function."""
        return bool(self._symbol.other & KERNEL)

    @cached_property
    def resources(self) -> Resources:
        """Resources of a thread or a block, from the ELF alone."""
        return resources(self.cubin.elf, self.name, self._symbol.index, self._section)

    @cached_property
    def procedures(self) -> Mapping[str, int]:
        """Name -> offset of the functions that lie in this one's code and were not inlined."""
        found = {e.name: e.value for e in self.cubin.elf.functions.get(self._section.index, ())}
        return MappingProxyType(dict(sorted(found.items(), key=lambda item: item[1])))

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions, padding included; needs nvdisasm."""
        return self.cubin._instructions(self)

    @cached_property
    def lines(self) -> LineTable:
        """The source lines by offset; `chain` of this class adds the function's own name."""
        return self.cubin._lines.get(self._section.index, LineTable())

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The basic blocks, by offset."""
        tables = jump_tables(self.cubin.elf, self.name)
        return find_blocks(self.instructions, tables, self.procedures)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops, outer ones first."""
        return find_loops(self.blocks, self.instructions)

    @cached_property
    def flow(self) -> Flow:
        """Definitions and uses of registers."""
        return Flow(self.instructions, self.blocks)

    @cached_property
    def constants(self) -> Constants:
        """The constant parts of addresses."""
        return Constants(self)

    def instruction(self, offset: int) -> Instruction:
        """Return the instruction at an offset."""
        return self.instructions[offset // BYTES]

    def chain(self, offset: int) -> Chain:
        """Return the lines of an instruction, from the innermost outwards to this function."""
        found = self.lines.chain(offset)
        if not found:
            return ()
        last = found[-1]
        return (*found[:-1], Line(last.file, last.line, last.function or self._enclosing(offset)))

    def block(self, offset: int) -> Block:
        """Return the block that holds an offset."""
        return self.blocks[self._block_of[offset // BYTES]]

    def loop(self, offset: int) -> Loop | None:
        """Return the innermost loop around an instruction."""
        index = self.block(offset).index
        return next((each for each in reversed(self.loops) if index in each.blocks), None)

    def depth(self, offset: int) -> int:
        """Return how many loops of kind `loop` are around an instruction."""
        return self._depths[self.block(offset).index]

    @cached_property
    def mix(self) -> Mapping[str, int]:
        """Class of instruction -> how many that can be reached; see `opcode_class`."""
        return MappingProxyType(opcode_mix(self.reachable()))

    def count(self, name: str) -> int:
        """Return how many instructions of a class (`LDG.128`) or an opcode (`LDG`) there are."""
        return sum(n for each, n in self.mix.items() if name in (each, each.partition(".")[0]))

    def reachable(self) -> Iterator[Instruction]:
        """Yield the instructions without the padding behind the last one."""
        for block in self.blocks:
            if block.is_reachable:
                yield from self.instructions[block.start // BYTES : block.end // BYTES]

    def inside(self, loop: Loop) -> Iterator[Instruction]:
        """Yield the instructions of a loop, with those of the loops in it."""
        for index in sorted(loop.blocks):
            block = self.blocks[index]
            yield from self.instructions[block.start // BYTES : block.end // BYTES]

    def spills(self) -> tuple[Spill, ...]:
        """Return the spill stores and reloads, by offset."""
        return self._spills

    def slice(
        self, offset: int, registers: Iterable[str] | None = None, limit: int | None = None
    ) -> tuple[Dependence, ...]:
        """Return where the values that an instruction reads come from; see `Flow.slice`."""
        return tuple(self.flow.slice(offset, registers, limit))

    @cached_property
    def _spills(self) -> tuple[Spill, ...]:
        local = (each for each in self.reachable() if each.name in ("LDL", "STL"))
        sites = [
            SpillSite(each, self.depth(each.offset), self.chain(each.offset))
            for each in local
            if not each.never_executes
        ]
        if not sites:
            return ()
        nested = len(self.procedures) > 1 or not self.is_kernel
        marked = spill_offsets(self.cubin.elf, self.name)
        return find_spills(sites, marked, self.flow, nested=nested)

    @cached_property
    def _block_of(self) -> tuple[int, ...]:
        """Index of the block of each instruction."""
        return tuple(
            block.index for block in self.blocks for _ in range(block.start, block.end, BYTES)
        )

    @cached_property
    def _depths(self) -> tuple[int, ...]:
        """Loop depth of each block."""
        found = [0] * len(self.blocks)
        for loop in self.loops:
            for index in loop.blocks:
                found[index] = max(found[index], loop.depth)
        return tuple(found)

    def _enclosing(self, offset: int) -> str:
        names = [name for name, start in self.procedures.items() if start <= offset]
        return names[-1] if names else self.name
