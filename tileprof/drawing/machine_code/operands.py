"""Operands of machine code: what they give in some lanes, and where results go.

In: the text of an operand.  Out: functions of the lanes' registers.  Registers have 32 bits; a
uniform register is kept for each lane, as if it were one of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Flags = NDArray[np.bool_]
At = slice | NDArray[np.int64]
"""Lanes that take part: all of them, or their numbers."""
_REGISTER = re.compile(r"^(U?)R(\d+|Z)$")
_PREDICATE = re.compile(r"^(!?)(U?)P(\d|T)$")
_CONSTANT = re.compile(r"^c\[(0x[0-9a-f]+)\]\[([^\]]+)\]$")
_NUMBER = re.compile(r"^-?0x[0-9a-f]+$|^-?\d+$")
_MASK = 0xFFFFFFFF


@dataclass(eq=False)
class Lanes:
    """Registers of all threads that run together."""

    count: int
    constants: dict[int, bytes]
    """Constant banks by number."""
    special: dict[str, Words]
    """Special registers by name."""
    registers: Words = field(init=False)
    uniform: Words = field(init=False)
    predicates: Flags = field(init=False)
    uniform_predicates: Flags = field(init=False)
    shuffles: int = 0
    """Instructions of warps that passed words between lanes."""

    def __post_init__(self) -> None:
        self.registers = np.zeros((257, self.count), np.uint32)
        self.uniform = np.zeros((65, self.count), np.uint32)
        self.predicates = np.zeros((8, self.count), np.bool_)
        self.uniform_predicates = np.zeros((8, self.count), np.bool_)
        self.predicates[7] = self.uniform_predicates[7] = True

    def constant(self, bank: int, offset: int) -> int:
        """Return a word of a constant bank."""
        data = self.constants.get(bank, b"")[offset : offset + 4]
        return int.from_bytes(data.ljust(4, b"\0"), "little")


Get = Callable[[Lanes, At], Any]
"""Function that reads an operand: 32-bit words by lane, or one number for all lanes."""
Set = Callable[[Lanes, At, Any], None]


class UnknownOperandError(Exception):
    """An operand that is not read here."""


@dataclass(frozen=True)
class Source:
    """An operand that is read."""

    text: str
    negative: bool
    inverted: bool
    absolute: bool
    half: str
    """`H0_H0`, `H1_H1` or nothing."""
    word: Get
    """Its 32 bits, as they are."""
    upper: Get
    """Those of the next register, of a pair."""

    def whole(self, lanes: Lanes, at: At) -> Any:
        """Return the operand as int64, from 0 to 2³²: what is negative is a complement, whose carry
        out is that of a subtraction."""
        value = self.word(lanes, at)
        value = value.astype(np.int64) if isinstance(value, np.ndarray) else int(value)
        if self.inverted:
            return _MASK - value
        return (_MASK + 1) - value if self.negative else value

    def bits(self, lanes: Lanes, at: At) -> Any:
        """Return the operand as int64 below 2³²."""
        return self.whole(lanes, at) & _MASK

    def signed(self, lanes: Lanes, at: At) -> Any:
        """Return the operand as a number with a sign, int64."""
        value = self.bits(lanes, at)
        return value - ((value >> 31) << 32)

    def pair(self, lanes: Lanes, at: At) -> Any:
        """Return two registers as one number, uint64."""
        low, high = self.word(lanes, at), self.upper(lanes, at)
        made = np.asarray(low, np.uint64) | (np.asarray(high, np.uint64) << np.uint64(32))
        if self.negative:
            made = np.uint64(0) - made
        return ~made if self.inverted else made

    def number(self, lanes: Lanes, at: At) -> Any:
        """Return the operand as float32."""
        if self.half:
            return self.halves(lanes, at)[self.half == "H1_H1"]
        if is_float(self.text):
            return np.float32(float_of(self.text))
        value = np.asarray(self.word(lanes, at), np.uint32).view(np.float32)
        return self.with_sign(value)

    def halves(self, lanes: Lanes, at: At, brain: bool = False) -> tuple[Any, Any]:
        """Return the two halves of the word as float32: float16, or bfloat16 (`brain`)."""
        word = np.asarray(self.word(lanes, at), np.uint32)
        parts = word & np.uint32(0xFFFF), word >> np.uint32(16)
        if brain:
            found = [(each << np.uint32(16)).view(np.float32) for each in parts]
        else:
            found = [each.astype(np.uint16).view(np.float16).astype(np.float32) for each in parts]
        low, high = (self.with_sign(each) for each in found)
        if self.half:
            low = high = high if self.half == "H1_H1" else low
        return low, high

    def with_sign(self, value: Any) -> Any:
        """Return a float with the operand's signs."""
        value = np.abs(value) if self.absolute else value
        return -value if self.negative else value


def source(text: str) -> Source:
    """Read an operand."""
    shown = text.replace(".reuse", "")
    negative = inverted = absolute = False
    if shown.startswith(("-", "~", "!")) and not _NUMBER.match(shown) and not is_float(shown):
        negative, inverted, shown = shown[0] == "-", shown[0] == "~", shown[1:]
    if shown.startswith("|"):
        absolute, shown = True, shown.replace("|", "")
    half = ""
    for each in ("H0_H0", "H1_H1", "H0_NH1", "H0", "H1"):
        if shown.endswith(f".{each}"):
            half, shown = (
                {"H0": "H0_H0", "H1": "H1_H1", "H0_NH1": ""}.get(each, each),
                shown[: -len(each) - 1],
            )
    for each in (".64", ".U32", ".S32"):
        shown = shown.removesuffix(each)
    return Source(text, negative, inverted, absolute, half, *_words(shown))


def _words(text: str) -> tuple[Get, Get]:
    if found := _REGISTER.match(text):
        uniform, number = found[1] == "U", found[2]
        if number == "Z":
            return _fixed(0), _fixed(0)
        return _register(uniform, int(number)), _register(uniform, int(number) + 1)
    if found := _CONSTANT.match(text):
        bank, inner = int(found[1], 16), found[2]
        if _NUMBER.match(inner):
            place = int(inner, 16)
            return _constant(bank, place), _constant(bank, place + 4)
        return _indexed(bank, inner, 0), _indexed(bank, inner, 4)
    if _NUMBER.match(text):
        value = int(text, 0)
        return _fixed(value & _MASK), _fixed(value >> 32 & _MASK if value >= 0 else _MASK)
    if is_float(text):
        word = int(np.float32(float_of(text)).view(np.uint32))
        return _fixed(word), _fixed(0)
    raise UnknownOperandError(text)


def is_float(text: str) -> bool:
    """Return whether an operand is a float."""
    return bool(re.match(r"^[-+]?(\d+\.?\d*(e[-+]?\d+)?|INF|QNAN|SNAN)(\s*,.*)?$", text))


def float_of(text: str) -> float:
    """Return the number that an operand is."""
    return float(text.replace("QNAN", "nan").replace("SNAN", "nan").replace("INF", "inf"))


def _fixed(value: int) -> Get:
    return lambda lanes, at: value


def _register(uniform: bool, number: int) -> Get:
    if uniform:
        return lambda lanes, at: lanes.uniform[number, at]
    return lambda lanes, at: lanes.registers[number, at]


def _constant(bank: int, place: int) -> Get:
    return lambda lanes, at: lanes.constant(bank, place)


def _indexed(bank: int, text: str, more: int) -> Get:
    terms = address_terms(text)

    def get(lanes: Lanes, at: At) -> Any:
        places = np.asarray(terms(lanes, at), np.int64) + more
        table = np.frombuffer(lanes.constants.get(bank, b"").ljust(65536, b"\0")[:65536], np.uint32)
        return table[(places & 0xFFFF) // 4]

    return get


def address_terms(text: str, wide: bool = False) -> Get:
    """Read the sum inside of brackets; `wide`: of addresses of 64 bits."""
    parts: list[Get] = []
    for term in text.replace("+-", "+-").split("+"):
        if not term:
            continue
        if _NUMBER.match(term):
            parts.append(_fixed(int(term, 0)))
            continue
        scale, name = 1, term
        if found := re.match(r"^(.*)\.X(\d+)$", term):
            name, scale = found[1], int(found[2])
        pair = name.endswith(".64") or (wide and name.startswith("UR"))
        parts.append(_term(source(name), pair, scale, name.endswith(".U32") or not wide))

    def get(lanes: Lanes, at: At) -> Any:
        total: Any = 0
        for each in parts:
            total = total + each(lanes, at)
        return total

    return get


def _term(held: Source, pair: bool, scale: int, unsigned: bool) -> Get:
    if pair:
        return lambda lanes, at: held.pair(lanes, at).astype(np.int64)
    if unsigned:
        return lambda lanes, at: held.bits(lanes, at) * scale
    return lambda lanes, at: held.signed(lanes, at) * scale


def is_predicate(text: str) -> bool:
    """Return whether an operand is a predicate."""
    return bool(_PREDICATE.match(text.replace(".reuse", "")))


def predicate(text: str) -> Get:
    """Read a predicate."""
    found = _PREDICATE.match(text.replace(".reuse", ""))
    if found is None:
        raise UnknownOperandError(text)
    no, uniform, number = found[1] == "!", found[2] == "U", 7 if found[3] == "T" else int(found[3])

    def get(lanes: Lanes, at: At) -> Any:
        held = (lanes.uniform_predicates if uniform else lanes.predicates)[number, at]
        return ~held if no else held

    return get


def target(text: str) -> Set:
    """Return what writes a register."""
    found = _REGISTER.match(text.replace(".reuse", "").removesuffix(".64"))
    if found is None:
        raise UnknownOperandError(text)
    uniform, number = found[1] == "U", found[2]

    def put(lanes: Lanes, at: At, value: Any) -> None:
        if number != "Z":
            held = lanes.uniform if uniform else lanes.registers
            held[int(number), at] = (
                np.asarray(value).astype(np.uint32, copy=False)
                if not isinstance(value, int)
                else np.uint32(value & _MASK)
            )

    return put


def following(text: str, more: int) -> str:
    """Return the name of a register behind another one."""
    found = _REGISTER.match(text.replace(".reuse", "").removesuffix(".64"))
    if found is None:
        raise UnknownOperandError(text)
    return text if found[2] == "Z" else f"{found[1]}R{int(found[2]) + more}"


def target_pair(text: str) -> Set:
    """Return what writes two registers with one number, uint64."""
    low, high = target(text), target(following(text, 1))

    def put(lanes: Lanes, at: At, value: Any) -> None:
        held = np.asarray(value).astype(np.uint64, copy=False)
        low(lanes, at, held & np.uint64(_MASK))
        high(lanes, at, held >> np.uint64(32))

    return put


def target_predicate(text: str) -> Set:
    """Return what writes a predicate; PT stays."""
    found = _PREDICATE.match(text)
    if found is None or found[1]:
        raise UnknownOperandError(text)
    uniform, number = found[2] == "U", found[3]

    def put(lanes: Lanes, at: At, value: Any) -> None:
        if number != "T":
            (lanes.uniform_predicates if uniform else lanes.predicates)[int(number), at] = value

    return put
