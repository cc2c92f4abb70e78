"""Results of SASS opcodes of floats, of conversions and of exchanges between lanes.

In: an instruction.  Out: a function that runs it in some lanes.  Floats are rounded as NumPy rounds
them, which differs from a GPU's in the last bit of fast functions: they decide no address here but
by comparisons of very near numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tileprof.binary.instructions import Instruction

from .arithmetic import Run, joined, parts
from .operands import (
    At,
    Lanes,
    Source,
    UnknownOperandError,
    float_of,
    is_float,
    is_predicate,
    predicate,
    source,
    target,
    target_predicate,
)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
    "EQ": np.equal, "NE": lambda a, b: (a < b) | (a > b),
    "LTU": lambda a, b: ~(a >= b), "LEU": lambda a, b: ~(a > b), "GTU": lambda a, b: ~(a <= b),
    "GEU": lambda a, b: ~(a < b), "EQU": lambda a, b: ~((a < b) | (a > b)),
    "NEU": np.not_equal,
    "NAN": lambda a, b: np.isnan(a) | np.isnan(b), "NUM": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
}  # fmt: skip


_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "": np.rint,
}  # fmt: skip


def _words(value: Any) -> Any:
    return np.asarray(value, np.float32).view(np.uint32)


def single(op: Instruction) -> Run:
    """FADD, FMUL, FFMA, FMNMX: float32."""
    first, _, held, read = parts(op)
    put = target(first)

    def run(lanes: Lanes, at: At) -> None:
        given = [np.asarray(each.number(lanes, at), np.float32) for each in held]
        match op.name:
            case "FADD":
                made = given[0] + given[1]
            case "FMUL":
                made = given[0] * given[1]
            case "FFMA":
                wide = given[0].astype(np.float64) * given[1].astype(np.float64)
                made = (wide + given[2].astype(np.float64)).astype(np.float32)
            case _:
                lesser = read[0](lanes, at)
                made = np.where(lesser, np.fmin(*given[:2]), np.fmax(*given[:2]))
        if "SAT" in op.modifiers:
            made = np.clip(made, 0, 1)
        put(lanes, at, _words(made))

    return run


def compare(op: Instruction) -> Run:
    """FSETP: a comparison joined with a predicate."""
    first, second, a, b, *flags = op.operands
    puts = target_predicate(first), target_predicate(second)
    one, two, read = source(a), source(b), predicate(flags[0])
    kind = op.modifiers[0]
    join = next((each for each in ("AND", "OR", "XOR") if each in op.modifiers), "AND")

    def run(lanes: Lanes, at: At) -> None:
        left, right = one.number(lanes, at), two.number(lanes, at)
        held = np.asarray(_COMPARE[kind](left, right), np.bool_)
        for put, each in zip(puts, (held, ~held)):
            put(lanes, at, joined(join, each, read(lanes, at)))

    return run


def function(op: Instruction) -> Run:
    """MUFU: a function of float32."""
    put, held = target(op.operands[0]), source(op.operands[1])
    functions: dict[str, Callable[[Any], Any]] = {
        "RCP": lambda x: 1 / x, "RSQ": lambda x: 1 / np.sqrt(x), "SQRT": np.sqrt, "EX2": np.exp2,
        "LG2": np.log2, "SIN": np.sin, "COS": np.cos, "TANH": np.tanh,
    }  # fmt: skip
    if op.modifiers[0] not in functions:
        raise UnknownOperandError(op.text)
    made = functions[op.modifiers[0]]
    return lambda lanes, at: put(lanes, at, _words(made(np.asarray(held.number(lanes, at)))))


def halves(op: Instruction) -> Run:
    """HADD2, HMUL2, HFMA2, HMNMX2: two halves at once; the lower one as float32 where asked for."""
    first, _, held, read = parts(op)
    put = target(first)
    held = _joined_immediates(held)
    brain, to_float = any(each.startswith("BF16") for each in op.modifiers), "F32" in op.modifiers

    def run(lanes: Lanes, at: At) -> None:
        given = [each.halves(lanes, at, brain) for each in held]
        made = []
        for part in range(2):
            one = [np.asarray(each[part], np.float32) for each in given]
            match op.name:
                case "HADD2":
                    made.append(one[0] + one[1])
                case "HMUL2":
                    made.append(one[0] * one[1])
                case "HFMA2":
                    made.append(one[0] * one[1] + one[2])
                case _:
                    least = np.fmin(one[0], one[1]), np.fmax(one[0], one[1])
                    made.append(np.where(read[0](lanes, at), *least))
        put(lanes, at, _words(made[0]) if to_float else _packed(made[1], made[0], brain))

    return run


class _Immediate(Source):
    """Two halves that are written as one operand each."""

    pair_: tuple[Any, Any]

    def halves(self, lanes: Lanes, at: At, brain: bool = False) -> tuple[Any, Any]:
        """Return both."""
        return self.pair_


def _joined_immediates(held: Sequence[Source]) -> list[Source]:
    """Return operands with those that are two halves, the upper one first, as one."""
    made: list[Source] = []
    rest = list(held)
    while rest:
        one = rest.pop(0)
        if is_float(one.text) and rest and is_float(rest[0].text):
            other = rest.pop(0)
            both = _Immediate(one.text, False, False, False, "", one.word, one.upper)
            object.__setattr__(both, "pair_", (float_of(other.text), float_of(one.text)))
            one = both
        made.append(one)
    return made


def _packed(high: Any, low: Any, brain: bool) -> Any:
    def half(value: Any) -> Any:
        given = np.asarray(value, np.float32)
        if not brain:
            return given.astype(np.float16).view(np.uint16).astype(np.uint32)
        word = given.view(np.uint32)
        even = word + np.uint32(0x7FFF) + (word >> np.uint32(16) & np.uint32(1))
        return np.where(np.isnan(given), np.uint32(0x7FFF), even >> np.uint32(16))

    return half(high) << np.uint32(16) | half(low)


def convert(op: Instruction) -> Run:
    """I2F, I2FP, F2I, FRND, F2F, F2FP: conversions."""
    words, name = op.modifiers, op.name
    first, _, held, _ = parts(op)
    wide = "F64" in words or "64" in words or "S64" in words or "U64" in words
    if wide:
        raise UnknownOperandError(op.text)
    put = target(first)

    def run(lanes: Lanes, at: At) -> None:
        given = held[0]
        if name in ("I2F", "I2FP"):
            small = next(
                (each for each in words if each in ("U8", "S8", "U16", "S16", "U32")), "S32"
            )
            value = np.asarray(given.signed(lanes, at) if small == "S32" else given.bits(lanes, at))
            if small[1:] in ("8", "16"):
                bits = int(small[1:])
                byte = next((int(e[-1]) for e in given.text.split(".") if e[:1] == "B"), 0)
                value = value >> 8 * byte & ((1 << bits) - 1)
                value = value - ((value >> (bits - 1) & 1) << bits) if small[0] == "S" else value
            up = "RP" in words
            made = value.astype(np.float32)
            if up:
                made = np.where(
                    made.astype(np.float64) < value, np.nextafter(made, np.float32(np.inf)), made
                )
            put(lanes, at, _words(made))
        elif name == "F2I":
            number = np.nan_to_num(np.asarray(given.number(lanes, at), np.float64))
            way = next((e for e in words if e in ("TRUNC", "FLOOR", "CEIL")), "")
            number = {"TRUNC": np.trunc, "FLOOR": np.floor, "CEIL": np.ceil, "": np.rint}[way](
                number
            )
            low, high = (0, 2**32 - 1) if "U32" in words else (-(2**31), 2**31 - 1)
            put(lanes, at, np.clip(number, low, high).astype(np.int64))
        elif name == "FRND":
            way = next((e for e in words if e in ("TRUNC", "FLOOR", "CEIL")), "")
            number = np.asarray(given.number(lanes, at))
            put(lanes, at, _words(_ROUNDED[way](number)))
        elif (
            name == "F2FP"
            and "PACK_AB" in words
            and "F8" not in op.opcode
            and "E4M3" not in op.opcode
        ):
            high, low = (each.number(lanes, at) for each in held[:2])
            put(lanes, at, _packed(high, low, "BF16" in words))
        elif name == "F2F":
            number = given.number(lanes, at)
            put(lanes, at, _packed(np.float32(0), number, "BF16" in words[:1]))
        else:
            raise UnknownOperandError(op.text)

    return run


def vote(op: Instruction) -> Run:
    """VOTE: which lanes of a warp hold a predicate."""
    held = predicate(op.operands[-1])
    flags = [target_predicate(each) for each in op.operands[:-1] if is_predicate(each)]
    words = [target(each) for each in op.operands[:-1] if not is_predicate(each)]

    def run(lanes: Lanes, at: At) -> None:
        active = np.zeros(lanes.count, np.bool_)
        active[at] = True
        holds = np.zeros(lanes.count, np.bool_)
        holds[at] = held(lanes, at)
        bits = (holds.reshape(-1, 32) << np.arange(32, dtype=np.int64)).sum(axis=1)
        shown = (active.reshape(-1, 32) << np.arange(32, dtype=np.int64)).sum(axis=1)
        made = {"ANY": bits != 0, "ALL": bits == shown, "EQ": (bits == shown) | (bits == 0)}
        for put in words:
            put(lanes, at, np.repeat(bits, 32)[at])
        for put in flags:
            put(lanes, at, np.repeat(made[op.modifiers[0]], 32)[at])

    return run


def shuffle(op: Instruction) -> Run:
    """SHFL: a word of another lane of the warp."""
    flag, first, *rest = op.operands
    put_flag, put = target_predicate(flag), target(first)
    held, chosen, limit = (source(each) for each in rest)
    kind = op.modifiers[0]

    def run(lanes: Lanes, at: At) -> None:
        numbers = np.arange(lanes.count)[at]
        lane, first_lane = numbers % 32, numbers - numbers % 32
        lanes.shuffles += len(np.unique(first_lane))
        word = np.zeros(lanes.count, np.int64)
        word[at] = held.bits(lanes, at)
        by = np.asarray(chosen.bits(lanes, at)) & 31
        clamp = np.asarray(limit.bits(lanes, at))
        mask, end = clamp >> 8 & 31, clamp & 31
        least, most = lane & mask, (lane & mask) | (end & ~mask & 31)
        match kind:
            case "IDX":
                other = least | (by & ~mask & 31)
                good = other <= most
            case "BFLY":
                other = lane ^ by
                good = other <= most
            case "DOWN":
                other = lane + by
                good = other <= most
            case _:
                other = lane - by
                good = other >= least
        other = np.where(good, other, lane)
        put(lanes, at, word[first_lane + other])
        put_flag(lanes, at, good)

    return run


def reduce_warp(op: Instruction) -> Run:
    """REDUX: a sum or another combination of whole numbers over a warp."""
    put, held = target(op.operands[0]), source(op.operands[1])
    kinds = {"SUM": (np.add, 0), "MAX": (np.maximum, -(2**31)), "MIN": (np.minimum, 2**32 - 1),
             "OR": (np.bitwise_or, 0), "AND": (np.bitwise_and, 2**32 - 1)}  # fmt: skip
    function_, empty = next((kinds[e] for e in op.modifiers if e in kinds), kinds["SUM"])

    def run(lanes: Lanes, at: At) -> None:
        word = np.full(lanes.count, empty, np.int64)
        word[at] = held.signed(lanes, at) if "S32" in op.modifiers else held.bits(lanes, at)
        put(lanes, at, np.repeat(function_.reduce(word.reshape(-1, 32), axis=1), 32)[at])

    return run


def elect(op: Instruction) -> Run:
    """ELECT: the first lane of a warp that takes part."""
    flags = [target_predicate(each) for each in op.operands if is_predicate(each)]

    def run(lanes: Lanes, at: At) -> None:
        active = np.zeros(lanes.count, np.bool_)
        active[at] = True
        first = active.reshape(-1, 32).argmax(axis=1)
        chosen = np.zeros((len(first), 32), np.bool_)
        chosen[np.arange(len(first)), first] = True
        flags[0](lanes, at, chosen.reshape(-1)[at])

    return run


TABLE: dict[str, Callable[[Instruction], Run]] = {
    "FADD": single, "FMUL": single, "FFMA": single, "FMNMX": single, "FSETP": compare,
    "MUFU": function, "HADD2": halves, "HMUL2": halves, "HFMA2": halves, "HMNMX2": halves,
    "VHMNMX": halves, "I2F": convert, "I2FP": convert, "F2I": convert, "FRND": convert,
    "F2F": convert, "F2FP": convert, "VOTE": vote, "VOTEU": vote, "SHFL": shuffle,
    "REDUX": reduce_warp, "ELECT": elect,
}  # fmt: skip
