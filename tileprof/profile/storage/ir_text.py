"""The text of a tile kernel's IR, read as records: for files from before these were stored.

In: text as `tileprof.ir.printer` writes it, after any pass: one op a line, blocks in braces.
Out: `TileKernel`.

An op that nobody knows is an op like any other, and text that is cut off ends its blocks.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import numpy as np

from tileprof.kernel_ir import Attribute, Block, Op, Parameter, TileKernel, Type
from tileprof.profile.storage.limits import NESTING

_RESULTS = re.compile(r"(%\w+(?:, %\w+)*) = ")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|%\w+|[\[\]{}=,:]|[^\s\[\]{}=,:"%]+')
_OPENS = re.compile(r"(.*?) ?\b([a-z]\w*)(?:\(([^()]*)\))? \{")
"""The end of a line that opens a block: what is before it, the block's name, its arguments."""
_TYPE = re.compile(r"(\w+)(?:<([^<>]*)>)?")
_STRIDES = re.compile(r", strides = \[[^\]]*\]")
_PARAMETER = re.compile(r"(%\w+): (out )?(\w+(?:<[^<>]*>)?)")
_NOT_OPS = ("}", "site ", "state ")
_WORDS: dict[str, Attribute] = {"true": True, "false": False, "none": None}
_NUMBER = re.compile(r"(-?[0-9]{1,19})|-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,3})?")
_BRACKET = re.compile(r"[\[\]{}]")
_SSA = re.compile(r"%\w+")


def read(ir: str) -> TileKernel:
    """Return the kernel of a text; an empty one where it nests deeper than any compiler writes."""
    if _nesting(ir) > NESTING:
        return TileKernel()
    lines = filter(None, map(str.strip, ir.splitlines()))
    parameters, ops = dict[str, Parameter](), list[Op]()
    for line in lines:
        if line.startswith("kernel "):
            found = _PARAMETER.findall(line)
            parameters = {name: Parameter(_type(text), bool(out)) for name, out, text in found}
        elif not line.startswith(_NOT_OPS):
            ops.append(_op(line, lines))
    return TileKernel(parameters, Block("", (), tuple(ops)))


def _nesting(ir: str) -> int:
    """Most blocks and brackets that are open at once; what reads them recurses as deep."""
    steps = np.cumsum([1 if each in "{[" else -1 for each in _BRACKET.findall(ir)])
    return int(steps.max(initial=0))


def _op(line: str, lines: Iterator[str]) -> Op:
    opened = _OPENS.fullmatch(line)
    head, blocks = opened[1] if opened else line, list[Block]()
    while opened:
        ops, last = list[Op](), ""
        for each in lines:
            if each.startswith("}"):
                last = each[1:].strip()
                break
            ops.append(_op(each, lines))
        blocks.append(Block(opened[2], tuple(_SSA.findall(opened[3] or "")), tuple(ops)))
        opened = _OPENS.fullmatch(last)  # `} otherwise {`
    return _head(head, tuple(blocks))


def _head(text: str, blocks: tuple[Block, ...]) -> Op:
    named = _RESULTS.match(text)
    results = tuple(named[1].split(", ")) if named else ()
    words, operands, lists = list[Attribute](), list[str](), list[tuple[str, ...]]()
    attributes, types = dict[str, Attribute](), tuple[Type, ...]()
    tokens = (each[0] for each in _TOKEN.finditer(text, named.end() if named else 0))
    for token in tokens:
        if token == "[":
            lists.append(tuple(each for each in _bracketed(tokens) if isinstance(each, str)))
        elif token == "{":
            attributes = _attributes(tokens)
        elif token == ":":
            shown = _STRIDES.sub("", text.rpartition(" : ")[2])
            types = tuple(_type(each[0]) for each in _TYPE.finditer(shown))
            break
        elif token[0] == "%" or token == "_":
            operands.append(token)
        elif token != ",":
            words.append(_value(token) if words else token)
    name = str(words.pop(0)) if words else ""
    return Op(name, results, tuple(words), tuple(operands), tuple(lists), attributes, types, blocks)


def _attributes(tokens: Iterator[str]) -> dict[str, Attribute]:
    """Up to the brace that closes them."""
    found, name = dict[str, Attribute](), ""
    for token in tokens:
        if token == "}":
            break
        if token == "=":
            found[name] = _attribute(next(tokens, ""), tokens)
        name = token
    return found


def _attribute(token: str, tokens: Iterator[str]) -> Attribute:
    return _bracketed(tokens) if token == "[" else _value(token)


def _value(token: str) -> Attribute:
    """Return a number, a truth value or a text; a number that no type holds stays a text."""
    if token[:1] == '"':
        try:
            return str(json.loads(token))
        except ValueError:
            return token.strip('"')
    if token in _WORDS:
        return _WORDS[token]
    found = _NUMBER.fullmatch(token)
    if found is None:
        return token
    if found[1]:
        return number if abs(number := int(token)) < 1 << 63 else token
    return real if math.isfinite(real := float(token)) else token


def _bracketed(tokens: Iterator[str]) -> tuple[Attribute, ...]:
    """Up to the bracket that closes them."""
    found = list[Attribute]()
    for token in tokens:
        if token == "]":
            break
        if token != ",":
            found.append(_attribute(token, tokens))
    return tuple(found)


def _type(text: str) -> Type:
    found = _TYPE.match(text)
    if found is None or found[2] is None:
        return Type(found[1] if found else "")
    *shape, dtype = _STRIDES.sub("", found[2]).split(", ")
    extents = (int(each) if each.isdecimal() and len(each) < 19 else each for each in shape)
    return Type(dtype, found[1], tuple(extents))
