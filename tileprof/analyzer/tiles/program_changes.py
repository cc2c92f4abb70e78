"""What changed from one tile kernel's program to another: which ops, and which of their fields.

In: two programs.  Out: `OpChange` for each op that was added, removed or changed, in the order of
the new program, outer before inner.  Names of values and lines are no change, and the number of a
constant is a change of the ops that use it.

Ops are paired as lines of text are in a diff: block by block, first those that are equal without
their operands, then those of one name in what is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from tileprof.kernel_ir import EXPLANATIONS, Attribute, Block, Op, TileKernel, Type

_Pair = tuple[Op | None, Op | None]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of an op, before and after."""

    name: str
    """An attribute, `dtype`, `space` or `shape` of the result, `operand 1`, `index 1`, …"""
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.name} {self.old} → {self.new}"


@dataclass(frozen=True, slots=True)
class OpChange:
    """An op that is not as before."""

    op: str
    """Its mnemonic; `parameter` for a parameter of the kernel, `kernel` for what no op shows."""
    value: str
    """Its first result in the new program, or nothing."""
    line: int
    """Line in the new source, of a removed op in the old one; 0 where it is not known."""
    what: str
    """`added`, `removed` or `changed`."""
    fields: tuple[FieldChange, ...] = ()
    """What changed of it; empty where it was added or removed."""

    def __str__(self) -> str:
        name = f"{self.op} `{self.value}`" if self.value else self.op
        place = f"{name} in line {self.line}" if self.line else name
        return f"{place}: {', '.join(map(str, self.fields)) or self.what}"


def program_changes(old: TileKernel, new: TileKernel) -> tuple[OpChange, ...]:
    """Return the ops that changed; nothing for programs of one identity."""
    if old.identity == new.identity:
        return ()
    found = _Comparison(_constants(old), _constants(new))
    changes = (*found.parameters(old, new), *found.blocks(old.body, new.body))
    # Such as an extent at launch that was one and is two.
    return changes or (OpChange("kernel", "", 0, "changed"),)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Two programs while their ops are paired."""

    old_constants: Mapping[str, str]
    """Numbers, keyed by value."""
    new_constants: Mapping[str, str]
    renamed: dict[str, str] = field(default_factory=dict)
    """Values of the new program, keyed by those of the old that they stand for."""

    def parameters(self, old: TileKernel, new: TileKernel) -> Iterator[OpChange]:
        """Compare parameters by their place."""
        pairs = list(zip(old.parameters.items(), new.parameters.items()))
        self.renamed.update((before, after) for (before, _), (after, _) in pairs)
        for (_, before), (name, after) in pairs:
            fields = [*self._types((before.type,), (after.type,))]
            if before.out != after.out:
                fields.append(FieldChange("out", _shown(before.out), _shown(after.out)))
            if fields:
                yield OpChange("parameter", name, 0, "changed", tuple(fields))
        count = len(pairs)
        for what, kernel in (("removed", old), ("added", new)):
            for name in list(kernel.parameters)[count:]:
                yield OpChange("parameter", name, 0, what)

    def blocks(self, old: Block, new: Block) -> Iterator[OpChange]:
        """Compare the ops of two blocks, and those inside them."""
        self.renamed.update(zip(old.arguments, new.arguments))
        for before, after in _paired(_steps(old), _steps(new)):
            if before and after:
                yield from self._ops(before, after)
            elif after:
                yield OpChange(after.name, after.result, after.line, "added")
            elif before:
                inside = [name for op in before.walk() for name in op.results]
                self.renamed.update(dict.fromkeys(inside, ""))  # no value of the new program
                yield OpChange(before.name, before.result, before.line, "removed")

    def _ops(self, old: Op, new: Op) -> Iterator[OpChange]:
        self.renamed.update(zip(old.results, new.results))
        # An `alloc` says its shape twice: as an attribute and as a type.
        if fields := tuple(dict.fromkeys(self._fields(old, new))):
            yield OpChange(new.name, new.result, new.line, "changed", fields)
        for before, after in zip(old.blocks, new.blocks):
            yield from self.blocks(before, after)

    def _fields(self, old: Op, new: Op) -> Iterator[FieldChange]:
        if repr(old.words) != repr(new.words):
            yield FieldChange("kind", _shown(old.words), _shown(new.words))
        names = dict.fromkeys((*old.attributes, *new.attributes))
        for name in (each for each in names if each not in EXPLANATIONS):
            before, after = (each.attributes.get(name) for each in (old, new))
            if repr(before) != repr(after):
                yield FieldChange(name, _shown(before), _shown(after))
        yield from self._types(old.types, new.types)
        yield from self._values("operand", old.operands, new.operands)
        before_listed, after_listed = (
            [name for listed in op.lists for name in listed] for op in (old, new)
        )
        yield from self._values("index", before_listed, after_listed)
        blocks = [[(b.name, len(b.arguments)) for b in op.blocks] for op in (old, new)]
        if blocks[0] != blocks[1]:
            yield FieldChange("blocks", *(", ".join(name for name, _ in held) for held in blocks))

    def _types(self, old: Sequence[Type], new: Sequence[Type]) -> Iterator[FieldChange]:
        for before, after in zip(old, new):
            pairs = {
                "dtype": (before.dtype, after.dtype),
                "space": (before.space, after.space),
                "shape": tuple("×".join(map(str, each.shape)) for each in (before, after)),
            }
            # Names of extents are no change where they stand for one another.
            if len(before.shape) == len(after.shape) and all(
                a == b or (isinstance(a, str) and isinstance(b, str) and self._extent(a, b))
                for a, b in zip(before.shape, after.shape)
            ):
                del pairs["shape"]
            yield from (
                FieldChange(name, a or "none", b or "none")
                for name, (a, b) in pairs.items()
                if a != b
            )

    def _extent(self, old: str, new: str) -> bool:
        """Whether two extents that are known at launch are one, as the first use pairs them."""
        return self.renamed.setdefault(f"%{old}", f"%{new}") == f"%{new}"

    def _values(self, what: str, old: Sequence[str], new: Sequence[str]) -> Iterator[FieldChange]:
        for at in range(max(len(old), len(new))):
            before, after = (held[at] if at < len(held) else "none" for held in (old, new))
            numbers = self.old_constants.get(before), self.new_constants.get(after)
            if numbers != (None, None):
                same = numbers[0] == numbers[1]
            else:
                same = self.renamed.get(before, before) == after
            if not same:
                yield FieldChange(f"{what} {at + 1}", numbers[0] or before, numbers[1] or after)


def _constants(kernel: TileKernel) -> dict[str, str]:
    return {op.result: _shown(op.words) for op in kernel.named("constant")}


def _steps(block: Block) -> list[Op]:
    return [op for op in block.ops if op.name != "constant"]


def _paired(old: list[Op], new: list[Op]) -> Iterator[_Pair]:
    """Pair equal ops, and between them those of one name."""
    for same, before, after in _runs(old, new, [_key(op) for op in old], [_key(op) for op in new]):
        if same:
            yield from zip(before, after)
            continue
        names = [op.name for op in before], [op.name for op in after]
        for of_one_name, removed, added in _runs(before, after, *names):
            if of_one_name:
                yield from zip(removed, added)
            else:
                yield from ((op, None) for op in removed)
                yield from ((None, op) for op in added)


def _runs(
    old: list[Op], new: list[Op], old_keys: Sequence[Hashable], new_keys: Sequence[Hashable]
) -> Iterator[tuple[bool, list[Op], list[Op]]]:
    """Yield runs of ops, whether their keys are the same, in order."""
    for tag, a, b, c, d in SequenceMatcher(None, old_keys, new_keys).get_opcodes():
        yield tag == "equal", old[a:b], new[c:d]


def _key(op: Op) -> Hashable:
    """What an op is, without values and lines."""
    said = sorted((k, repr(v)) for k, v in op.attributes.items() if k not in EXPLANATIONS)
    types = tuple((t.dtype, t.space, tuple(filter(_is_known, t.shape))) for t in op.types)
    return op.name, repr(op.words), tuple(said), types


def _is_known(extent: int | str) -> bool:
    """Whether an extent is a number when the kernel is compiled."""
    return isinstance(extent, int)


def _shown(held: Attribute) -> str:
    """An attribute as it is told: extents as `128×64`, other lists in brackets."""
    match held:
        case None:
            return "none"
        case bool():
            return "yes" if held else "no"
        case tuple() if len(held) > 1 and not all(type(each) is int for each in held):
            return f"[{', '.join(map(_shown, held))}]"
        case tuple():
            return "×".join(map(_shown, held))
        case _:
            return str(held)
