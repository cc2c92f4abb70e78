"""Results of SASS opcodes of whole numbers and predicates.

In: an instruction.  Out: a function that runs it in some lanes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileprof.binary.instructions import Instruction

from .operands import (
    At,
    Get,
    Lanes,
    Source,
    UnknownOperandError,
    is_predicate,
    predicate,
    source,
    target,
    target_pair,
    target_predicate,
)

Run = Callable[[Lanes, At], None]
_MASK = 0xFFFFFFFF
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
    "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip


def parts(op: Instruction) -> tuple[str, list[str], list[Source], list[Get]]:
    """Return the register that is written, predicates that are written, sources, and predicates
    that are read."""
    first, *rest = op.operands
    out: list[str] = []
    while rest and is_predicate(rest[0]):
        out.append(rest.pop(0))
    read: list[Get] = []
    while rest and is_predicate(rest[-1]):
        read.insert(0, predicate(rest.pop()))
    return first, out, [source(each) for each in rest], read


def _three(held: Sequence[Source], lanes: Lanes, at: At) -> Any:
    total: Any = 0
    for each in held:
        total = total + each.whole(lanes, at)
    return total


def add(op: Instruction) -> Run:
    """IADD3, VIADD: a sum, with carries in and out."""
    first, out, held, read = parts(op)
    put, carries = target(first), [target_predicate(each) for each in out]
    extended = "X" in op.modifiers

    def run(lanes: Lanes, at: At) -> None:
        total = _three(held, lanes, at)
        for each in read if extended else ():
            total = total + np.asarray(each(lanes, at)).astype(np.int64)
        put(lanes, at, total)
        for number, carry in enumerate(carries):
            carry(lanes, at, np.asarray(total) >> 32 > number)

    return run


def multiply(op: Instruction) -> Run:
    """IMAD in all its forms."""
    first, out, (a, b, c), read = parts(op)
    words = op.modifiers
    signed, extended = "U32" not in words, "X" in words
    if "WIDE" in words or "HI" in words:
        wide = "WIDE" in words
        write = target_pair(first) if wide else target(first)
        carries = [target_predicate(each) for each in out]

        def run_wide(lanes: Lanes, at: At) -> None:
            one, two = ((each.signed if signed else each.bits)(lanes, at) for each in (a, b))
            product = np.asarray(one).astype(np.uint64) * np.asarray(two).astype(np.uint64)
            total = product + np.asarray(c.pair(lanes, at), np.uint64)
            for carry in carries:
                carry(lanes, at, total < product)
            for each in read if extended else ():
                total = total + np.asarray(each(lanes, at)).astype(np.uint64)
            if wide:
                write(lanes, at, total)
            elif signed:
                write(lanes, at, (total.astype(np.int64) >> 32))
            else:
                write(lanes, at, total >> np.uint64(32))

        return run_wide
    put = target(first)
    over = [target_predicate(each) for each in out]

    def run(lanes: Lanes, at: At) -> None:
        one, two = (np.asarray(each.signed(lanes, at)) for each in (a, b))
        total = (one * two & _MASK) + c.whole(lanes, at)
        for each in read if extended else ():
            total = total + np.asarray(each(lanes, at)).astype(np.int64)
        put(lanes, at, total)
        for carry in over:
            carry(lanes, at, np.asarray(total) >> 32 > 0)

    return run


def shift_add(op: Instruction) -> Run:
    """LEA: an operand that is shifted, and another one."""
    first, out, held, read = parts(op)
    put, carries = target(first), [target_predicate(each) for each in out]
    words = op.modifiers
    high, extended, from_sign = "HI" in words, "X" in words, "SX32" in words
    *operands, shift = held

    def run(lanes: Lanes, at: At) -> None:
        by = int(np.max(shift.bits(lanes, at))) & 31
        one = np.asarray(operands[0].bits(lanes, at), np.int64)
        if not high:
            moved = one << by & _MASK
        elif from_sign:
            moved = np.asarray(operands[0].signed(lanes, at), np.int64) << by >> 32 & _MASK
        else:
            above = np.asarray(operands[2].bits(lanes, at) if len(operands) > 2 else 0, np.int64)
            moved = (above << by | one >> (32 - by) if by else above) & _MASK
        if operands[0].negative:
            moved = -moved & _MASK
        total = moved + operands[1].whole(lanes, at)
        for each in read if extended else ():
            total = total + np.asarray(each(lanes, at)).astype(np.int64)
        put(lanes, at, total)
        for carry in carries:
            carry(lanes, at, np.asarray(total) >> 32 > 0)

    return run


def _table(number: int, a: Any, b: Any, c: Any, ones: Any) -> Any:
    """Return bits by a table of 8, the first operand's bit being the most significant one."""
    made: Any = 0
    for row in range(8):
        if number >> row & 1:
            made = made | (
                (a if row & 4 else a ^ ones) & (b if row & 2 else b ^ ones)
                & (c if row & 1 else c ^ ones)
            )  # fmt: skip
    return made


def logic(op: Instruction) -> Run:
    """LOP3: bits by a table; a predicate that says whether any is set."""
    operands = list(op.operands)
    out: list[str] = []
    while is_predicate(operands[0]):
        out.append(operands.pop(0))
    put = target(operands[0])
    flags = [target_predicate(each) for each in out]
    a, b, c = (source(each) for each in operands[1:4])
    number, more = int(operands[4], 16), predicate(operands[5]) if len(operands) > 5 else None
    joins = "PAND" in op.modifiers

    def run(lanes: Lanes, at: At) -> None:
        words = [each.bits(lanes, at) for each in (a, b, c)]
        made = _table(number, words[0], words[1], words[2], _MASK) & _MASK
        put(lanes, at, made)
        for each in flags:
            held = np.asarray(made) != 0
            if more is not None:
                other = more(lanes, at)
                held = held & other if joins else held | other
            each(lanes, at, held)

    return run


def predicate_logic(op: Instruction) -> Run:
    """PLOP3: predicates by tables."""
    first, second, *rest = op.operands
    puts = target_predicate(first), target_predicate(second)
    held = [predicate(each) for each in rest if is_predicate(each)]
    numbers = [int(each, 16) for each in rest if not is_predicate(each)]

    def run(lanes: Lanes, at: At) -> None:
        flags = [np.asarray(each(lanes, at)) for each in held[:3]]
        made = [_table(number, flags[0], flags[1], flags[2], np.True_) for number in numbers]
        for put, each in zip(puts, made):
            put(lanes, at, np.broadcast_to(np.asarray(each, np.bool_), flags[0].shape))

    return run


def shift(op: Instruction) -> Run:
    """SHF: a shift of two words, of which one is kept."""
    first, _, (low, by, high), _ = parts(op)
    put, words = target(first), op.modifiers
    left, upper, wraps = "L" in words, "HI" in words, "W" in words
    signed, wide = "S32" in words or "S64" in words, "U64" in words or "S64" in words

    def run(lanes: Lanes, at: At) -> None:
        held = np.asarray(low.bits(lanes, at)).astype(np.uint64)
        held = held | np.asarray(high.bits(lanes, at)).astype(np.uint64) << np.uint64(32)
        count = np.asarray(by.bits(lanes, at)).astype(np.int64)
        most = 63 if wide else 31
        count = count & most if wraps else np.minimum(count, most + 1)
        if left:
            small = np.minimum(count, 63).astype(np.uint64)
            made = np.where(count > 63, np.uint64(0), held << small)
        elif signed:
            made = (held.astype(np.int64) >> np.minimum(count, 63)).astype(np.uint64)
        else:
            small = np.minimum(count, 63).astype(np.uint64)
            made = np.where(count > 63, np.uint64(0), held >> small)
        put(lanes, at, made >> np.uint64(32) if upper else made & np.uint64(_MASK))

    return run


def compare(op: Instruction) -> Run:
    """ISETP: a comparison joined with a predicate; `EX` is the upper half of one of 64 bits."""
    first, second, a, b, *flags = op.operands
    puts = target_predicate(first), target_predicate(second)
    one, two = source(a), source(b)
    read = [predicate(each) for each in flags]
    words = op.modifiers
    kind, signed, extended = words[0], "U32" not in words, "EX" in words
    join = next((each for each in ("AND", "OR", "XOR") if each in words), "AND")

    def run(lanes: Lanes, at: At) -> None:
        left, right = ((each.signed if signed else each.bits)(lanes, at) for each in (one, two))
        if kind in ("T", "F"):
            held: Any = np.full(np.shape(left), kind == "T")
        elif extended:
            before = read[-1](lanes, at)
            if kind == "NE":
                held = (left != right) | before
            elif kind == "EQ":
                held = (left == right) & before
            else:
                held = _COMPARE[kind[0] + "T"](left, right) | ((left == right) & before)
        else:
            held = _COMPARE[kind](left, right)
        held = np.asarray(held, np.bool_)
        for put, each in zip(puts, (held, ~held)):
            put(lanes, at, joined(join, each, read[0](lanes, at)))

    return run


def joined(kind: str, one: Any, other: Any) -> Any:
    """Return two predicates joined."""
    if kind == "AND":
        return one & other
    return one | other if kind == "OR" else one ^ other


def select(op: Instruction) -> Run:
    """SEL, FSEL: one of two words."""
    first, _, (a, b), read = parts(op)
    put, is_float = target(first), op.name == "FSEL"

    def words(held: Source, lanes: Lanes, at: At) -> Any:
        return held.number(lanes, at).view(np.uint32) if is_float else held.bits(lanes, at)

    def run(lanes: Lanes, at: At) -> None:
        put(lanes, at, np.where(read[0](lanes, at), words(a, lanes, at), words(b, lanes, at)))

    return run


def least(op: Instruction) -> Run:
    """IMNMX, VIMNMX: the lesser where the predicate holds, else the greater; VIADDMNMX: of a sum
    and a number."""
    first, _, (a, b, *rest), read = parts(op)
    put, signed = target(first), "U32" not in op.modifiers

    def run(lanes: Lanes, at: At) -> None:
        one, two = ((each.signed if signed else each.bits)(lanes, at) for each in (a, b))
        if rest and op.name == "VIADDMNMX":
            total = (one + two) & _MASK
            one = total - ((total >> 31) << 32) if signed else total
            two = (rest[0].signed if signed else rest[0].bits)(lanes, at)
        put(lanes, at, np.where(read[0](lanes, at), np.minimum(one, two), np.maximum(one, two)))

    return run


def move(op: Instruction) -> Run:
    """MOV and what moves words between kinds of registers."""
    first, _, held, _ = parts(op)
    put = target(first)

    def run(lanes: Lanes, at: At) -> None:
        put(lanes, at, held[0].bits(lanes, at))

    return run


def load_constant(op: Instruction) -> Run:
    """LDC, ULDC: words of a constant bank."""
    held = source(op.operands[1])
    if "64" in op.modifiers:
        put_pair = target_pair(op.operands[0])
        return lambda lanes, at: put_pair(lanes, at, held.pair(lanes, at))
    put = target(op.operands[0])
    sizes = {"U8": (0xFF, 0), "S8": (0xFF, 0x80), "U16": (0xFFFF, 0), "S16": (0xFFFF, 0x8000)}
    mask, sign = next((sizes[each] for each in op.modifiers if each in sizes), (_MASK, 0))

    def run(lanes: Lanes, at: At) -> None:
        value = held.word(lanes, at)
        value = value & mask
        put(lanes, at, (value ^ sign) - sign if sign else value)

    return run


def load_special(op: Instruction) -> Run:
    """S2R, S2UR, CS2R: special registers."""
    name = op.operands[1]
    if op.name == "CS2R" and "32" not in op.modifiers:
        put_pair = target_pair(op.operands[0])
        return lambda lanes, at: put_pair(lanes, at, np.uint64(0))
    put = target(op.operands[0])

    def run(lanes: Lanes, at: At) -> None:
        put(lanes, at, lanes.special[name][at] if name in lanes.special else 0)

    return run


def permute(op: Instruction) -> Run:
    """PRMT: bytes of two words."""
    first, _, (a, chosen, b), _ = parts(op)
    put = target(first)

    def run(lanes: Lanes, at: At) -> None:
        held = np.asarray(a.bits(lanes, at)).astype(np.uint64)
        held = held | np.asarray(b.bits(lanes, at)).astype(np.uint64) << np.uint64(32)
        made: Any = np.uint64(0)
        table = np.asarray(chosen.bits(lanes, at)).astype(np.uint64)
        for place in range(4):
            digit = table >> np.uint64(4 * place) & np.uint64(15)
            byte = held >> (digit & np.uint64(7)) * np.uint64(8) & np.uint64(255)
            sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
            byte = np.where(digit & np.uint64(8), sign, byte)
            made = made | byte << np.uint64(8 * place)
        put(lanes, at, made)

    return run


def single(op: Instruction) -> Run:
    """POPC, FLO, BREV, IABS, SGXT: of one word."""
    first, _, held, _ = parts(op)
    put, signed = target(first), "U32" not in op.modifiers

    def run(lanes: Lanes, at: At) -> None:
        word = np.atleast_1d(np.asarray(held[0].bits(lanes, at), np.int64))
        match op.name.removeprefix("U"):
            case "POPC":
                made = np.bitwise_count(word)
            case "FLO":
                value = word ^ _MASK if signed else word
                value = np.where(signed & (word >> 31 == 0), word, value)
                made = np.where(value > 0, np.floor(np.log2(np.maximum(value, 1))), -1)
                made = made.astype(np.int64)
                if "SH" in op.modifiers:
                    made = np.where(made >= 0, 31 - made, made)
            case "BREV":
                made = np.array([int(f"{each:032b}"[::-1], 2) for each in word.tolist()], np.int64)
            case "IABS":
                made = np.abs(held[0].signed(lanes, at))
            case _:
                raise UnknownOperandError(op.text)
        put(lanes, at, made)

    return run


def extend_sign(op: Instruction) -> Run:
    """SGXT: the lowest bits, as a number with a sign or without."""
    first, _, (a, bits), _ = parts(op)
    put, signed = target(first), "U32" not in op.modifiers

    def run(lanes: Lanes, at: At) -> None:
        count = np.asarray(bits.bits(lanes, at)).astype(np.int64) & 31
        value = np.asarray(a.bits(lanes, at)) & ((1 << count) - 1)
        sign = np.where(signed & (count > 0), 1 << np.maximum(count - 1, 0), 0)
        put(lanes, at, (value ^ sign) - sign)

    return run


def to_register(op: Instruction) -> Run:
    """P2R: predicates as bits of a register; R2P is the other way."""
    if op.name in ("R2P", "UR2UP"):
        held, mask = source(op.operands[1]), int(op.operands[2], 16)
        byte = next((int(each[1]) for each in op.modifiers if each in ("B1", "B2", "B3")), 0)

        def back(lanes: Lanes, at: At) -> None:
            word = np.asarray(held.bits(lanes, at)) >> (8 * byte)
            for number in range(7):
                if mask >> number & 1:
                    lanes.predicates[number, at] = (word >> number & 1).astype(np.bool_)

        return back
    first, _, *rest = op.operands
    put, base, mask = target(first), source(rest[0]), int(rest[1], 16)
    byte = next((int(each[1]) for each in op.modifiers if each in ("B1", "B2", "B3")), 0)

    def run(lanes: Lanes, at: At) -> None:
        made: Any = 0
        for number in range(7):
            made = made | lanes.predicates[number, at].astype(np.int64) << number
        kept = np.asarray(base.bits(lanes, at)) & ~(mask << (8 * byte))
        put(lanes, at, kept | (made & mask) << (8 * byte))

    return run


TABLE: dict[str, Callable[[Instruction], Run]] = {
    "IADD3": add, "VIADD": add, "IADD": add, "IMAD": multiply, "LEA": shift_add, "LOP3": logic,
    "LOP": logic, "PLOP3": predicate_logic, "SHF": shift, "ISETP": compare, "SEL": select,
    "FSEL": select, "IMNMX": least, "VIMNMX": least, "VIADDMNMX": least,
    "MOV": move, "MOV32I": move, "R2UR": move,
    "LDC": load_constant, "ULDC": load_constant, "S2R": load_special, "S2UR": load_special,
    "CS2R": load_special, "PRMT": permute, "POPC": single, "FLO": single, "BREV": single,
    "IABS": single, "SGXT": extend_sign, "P2R": to_register, "R2P": to_register,
}  # fmt: skip
"""Functions by opcode; opcodes of uniform registers stand without their first letter, U."""
