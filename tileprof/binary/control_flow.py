"""The control-flow graph of a function: basic blocks, the edges between them, and its loops.

In: instructions, the jump tables of the cubin, entry points.  Out: `Block`s in order of address and
`Loop`s, outermost first.

Threads of a warp meet again at `BSYNC`, which goes on where the matching `BSSY` said; which one
matches follows from the flow of the barrier registers.  A `CALL` goes on behind itself; callees
that lie in the function's code are graphs of their own beside the kernel's.  ptxas also uses `CALL`
to jump, to code that never returns; that is an edge like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from . import limits
from .graph import natural_loops
from .instructions import BYTES, Instruction, words

INDIRECT = ("BRX", "BRXU", "JMX", "JMXU")
ENDS = ("EXIT", "KILL", "RET", "RTT")
JUMPS = ("BRA", "JMP")
WAIT_LOOP = words("SYNCS BRA NANOSLEEP YIELD NOP BSSY BSYNC WARPSYNC")


@dataclass(frozen=True, slots=True)
class Block:
    """A run of instructions that is entered at its start and left at its end."""

    index: int
    start: int
    """Offset of the first instruction."""
    end: int
    """Offset behind the last one."""
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]
    calls: int | None
    """The block that it ends by calling, where that lies in this function."""
    is_entry: bool
    """True where the function, or a procedure inside of it, starts."""
    is_reachable: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """Natural loop of the control-flow graph."""

    header: int
    """Index of the block that every round starts with."""
    blocks: frozenset[int]
    parent: int | None
    """Position of the enclosing loop in the list of loops."""
    depth: int
    """Number of loops of kind `loop` around its instructions, itself included."""
    kind: str
    """`loop`; `wait`, which only polls a barrier in shared memory; or `once`, which ptxas puts
    around a uniform instruction and runs through once for each distinct operand."""
    start: int
    """Offset of the header."""
    back_edges: tuple[int, ...]
    """Offsets of the instructions that go back to the header."""


def branch_target(instruction: Instruction, names: Mapping[str, int]) -> int | None:
    """Return the target of a direct branch or call; None outside of the function."""
    if not instruction.operands:
        return None
    last = instruction.operands[-1].strip("`()")
    if last.startswith("0x"):
        return int(last, 16)
    return names.get(last)


def find_blocks(
    code: Sequence[Instruction], tables: Mapping[int, tuple[int, ...]], names: Mapping[str, int]
) -> tuple[Block, ...]:
    """Return the blocks of a function; `names` are the procedures in it, by offset."""
    return _Builder(code, tables, names).blocks()


class _Builder:
    def __init__(
        self,
        code: Sequence[Instruction],
        tables: Mapping[int, tuple[int, ...]],
        names: Mapping[str, int],
    ) -> None:
        self.code, self.tables, self.names = code, tables, names
        self.size = len(code) * BYTES
        starts = sorted(self._starts())
        if len(starts) > limits.MOST_BLOCKS:
            raise limits.too_much(f"a function has {len(starts):,} basic blocks")
        self.meetings = self._meetings()
        self.spans = list(zip(starts, [*starts[1:], self.size], strict=True)) if starts else []
        self.at = {start: i for i, (start, _) in enumerate(self.spans)}
        self.lasts = [code[end // BYTES - 1] for _, end in self.spans]
        self.callees = self._callees()
        self.entries = {0, *self.callees, *(self.at[each] for each in names.values())}
        self.entries &= set(range(len(self.spans)))

    def blocks(self) -> tuple[Block, ...]:
        """Return blocks with their edges."""
        successors = [self._successors(i) for i in range(len(self.spans))]
        self._reconverge(successors)
        before: list[list[int]] = [[] for _ in self.spans]
        if sum(map(len, successors)) > limits.MOST_EDGES:
            raise limits.too_much("a function has jumps without end")
        for i, after in enumerate(successors):
            for each in after:
                before[each].append(i)
        reachable = _reachable(successors, self.entries)
        return tuple(
            Block(
                i,
                *span,
                tuple(successors[i]),
                tuple(before[i]),
                self._callee(self.lasts[i]),
                i in self.entries,
                i in reachable,
            )
            for i, span in enumerate(self.spans)
        )

    def _callees(self) -> set[int]:
        """Return the blocks that calls go to and that a `RET` ends, or that have a name."""
        named = set(self.names.values())
        called = {self._target(each) for each in self.lasts if each.name == "CALL"}
        blocks = {self.at[each] for each in called if each is not None}
        self.callees = blocks
        after = [self._successors(i) for i in range(len(self.spans))]
        return {i for i in blocks if self.spans[i][0] in named or self._returns(i, after)}

    def _returns(self, start: int, after: Sequence[Sequence[int]]) -> bool:
        return any(self.lasts[i].name == "RET" for i in _reachable(after, {start}))

    def _target(self, instruction: Instruction) -> int | None:
        target = branch_target(instruction, self.names)
        return target if target is not None and 0 <= target < self.size else None

    def _callee(self, last: Instruction) -> int | None:
        target = self._target(last) if last.name == "CALL" else None
        block = None if target is None else self.at[target]
        return block if block in self.callees else None

    def _starts(self) -> set[int]:
        found = {0, *self.names.values()} if self.code else set()
        for each in self.code:
            if each.name in INDIRECT:
                found.update(self.tables.get(each.offset, ()))
            elif each.name in (*JUMPS, "BSSY", "CALL") or _is_collective(each):
                target = self._target(each)
                found |= set() if target is None else {target}
            if _ends_block(each):
                found.add(each.offset + BYTES)
        return {offset for offset in found if 0 <= offset < self.size and offset % BYTES == 0}

    def _successors(self, index: int) -> list[int]:
        """Return the next blocks, but for those of `BSYNC`."""
        last, end = self.lasts[index], self.spans[index][1]
        found: list[int | None] = []
        if self._jumps(last):
            found.append(self._target(last))
        elif last.name in INDIRECT:
            found += self.tables.get(last.offset, ())
        if _falls_through(last) and (last.name != "CALL" or not found or last.predicate):
            found.append(end)
        return list(dict.fromkeys(self.at[each] for each in found if each in self.at))

    def _jumps(self, last: Instruction) -> bool:
        if last.name == "CALL":
            return self._target(last) is not None and self._callee(last) is None
        return last.name in JUMPS or _is_collective(last)

    def _reconverge(self, successors: list[list[int]]) -> None:
        """Add the edges of each `BSYNC`, to where the `BSSY`s that reach it said."""
        states: list[dict[str, frozenset[int]]] = [{} for _ in self.spans]
        work = sorted(self.entries)
        seen = set(work)
        while work:
            index = work.pop()
            state = self._after(index, states[index])
            last = self.lasts[index]
            if last.name == "BSYNC":
                for target in self._meeting_points(last, state):
                    if target not in successors[index]:
                        successors[index].append(target)
            for each in successors[index]:
                if _merge(states[each], state) or each not in seen:
                    seen.add(each)
                    work.append(each)

    def _after(self, index: int, state: dict[str, frozenset[int]]) -> dict[str, frozenset[int]]:
        """Return where the threads of each barrier register meet, behind a block."""
        start, end = self.spans[index]
        found = dict(state)
        for each in self.code[start // BYTES : end // BYTES]:
            if each.name == "BSSY":
                target = self._target(each)
                found[each.operands[0]] = frozenset() if target is None else frozenset({target})
            elif each.name == "BMOV" and each.operands[0].startswith("B"):
                found.pop(each.operands[0], None)
        return found

    def _meetings(self) -> dict[str, list[int | None]]:
        """Return where the threads of each barrier register meet, by every `BSSY` of it."""
        found: dict[str, list[int | None]] = {}
        for each in self.code:
            if each.name == "BSSY":
                found.setdefault(each.operands[0], []).append(self._target(each))
        return found

    def _meeting_points(self, sync: Instruction, state: dict[str, frozenset[int]]) -> list[int]:
        barrier = sync.operands[-1]
        found: Iterable[int | None] = state.get(barrier, ())
        if not found:
            # Restored from a register: any of those that the barrier was set up for.
            found = self.meetings.get(barrier, ())
        if not found:
            found = [sync.offset + BYTES]
        return sorted({self.at[each] for each in found if each in self.at})


def _merge(into: dict[str, frozenset[int]], state: dict[str, frozenset[int]]) -> bool:
    changed = False
    for barrier, targets in state.items():
        known = into.get(barrier, frozenset())
        if not targets <= known:
            into[barrier], changed = known | targets, True
    return changed


def _is_collective(instruction: Instruction) -> bool:
    """`WARPSYNC.COLLECTIVE R4, target`: the threads named go on at the target."""
    return instruction.name == "WARPSYNC" and len(instruction.operands) > 1


def _ends_block(instruction: Instruction) -> bool:
    name = instruction.name
    ends = name in JUMPS or name in INDIRECT or name in ENDS or name in ("BSYNC", "CALL")
    return ends or _is_collective(instruction)


def _falls_through(last: Instruction) -> bool:
    if last.predicate:
        return True
    if last.name in JUMPS:
        # A condition may stand as an operand too: `BRA.DIV UR4, 0x100`, `BRA !UP0, 0x100`.
        return len(last.operands) > 1
    return last.name not in INDIRECT and last.name not in ENDS and last.name != "BSYNC"


def _reachable(successors: Sequence[Sequence[int]], entries: Iterable[int]) -> set[int]:
    seen = set(entries)
    stack = list(seen)
    while stack:
        for each in successors[stack.pop()]:
            if each not in seen:
                seen.add(each)
                stack.append(each)
    return seen


def find_loops(blocks: Sequence[Block], code: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the natural loops, outer ones before inner ones, else by address."""
    root = [each.index + 1 for each in blocks if each.is_entry]
    edges = [root, *([each + 1 for each in block.successors] for block in blocks)]
    bodies = {h - 1: frozenset(n - 1 for n in body) for h, body in natural_loops(edges).items()}
    order = sorted(bodies, key=lambda header: (-len(bodies[header]), blocks[header].start))
    found: list[Loop] = []
    for header in order:
        found.append(_loop(header, bodies[header], found, blocks, code))
    return tuple(found)


def _loop(
    header: int,
    body: frozenset[int],
    found: Sequence[Loop],
    blocks: Sequence[Block],
    code: Sequence[Instruction],
) -> Loop:
    # Of the loops around it, the smallest comes last.
    parents = [i for i, outer in enumerate(found) if header in outer.blocks and body < outer.blocks]
    parent = parents[-1] if parents else None
    lasts = {i: code[blocks[i].end // BYTES - 1] for i in body}
    backs = [lasts[i] for i in sorted(body) if header in blocks[i].successors]
    inside = [
        each for i in body for each in code[blocks[i].start // BYTES : blocks[i].end // BYTES]
    ]
    kind = _kind(inside, backs)
    depth = (found[parent].depth if parent is not None else 0) + (kind == "loop")
    offsets = tuple(each.offset for each in backs)
    return Loop(header, body, parent, depth, kind, blocks[header].start, offsets)


def _kind(inside: Sequence[Instruction], backs: Sequence[Instruction]) -> str:
    if all(each.opcode == "BRA.U.ANY" for each in backs):
        return "once"
    names = {each.name for each in inside}
    polls = any(each.name == "SYNCS" and "PHASECHK" in each.modifiers for each in inside)
    return "wait" if polls and names <= WAIT_LOOP else "loop"
