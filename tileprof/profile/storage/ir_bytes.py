"""Programs of kernels as bytes: compressed JSON, of which every part is checked when it is read.

In: `TileKernel`s, or what a file from anyone holds.  Out: the same, the other way round.  JSON of
version 1 has three tables; an op stands after the one that it is in:

    parameters   [[name, whether it is only written, type], …]
    blocks       [[its op, name, [argument, …]], …]; block 0 is the kernel's, and has op -1
    ops          [[its block, line, name, words, operands, lists, attributes, results, types], …]

A type is `[dtype]` or, of a buffer, `[dtype, space, [extent, …]]`.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tileprof.errors import ProfileFileError
from tileprof.kernel_ir import Attribute, Block, Op, Parameter, TileKernel, Type
from tileprof.profile.storage import ir_text, limits
from tileprof.profile.storage.inflate import inflated
from tileprof.profile.storage.plain_text import clean_text

VERSION: Final = 1
"""Version of the JSON.  A program of a later version is not read."""
_NAME: Final = re.compile(r"%\w+|_", re.ASCII)
"""A value, or `_` for an operand that is left out."""
_INTEGER: Final = 1 << 63


def rows(kernels: Sequence[TileKernel | None]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, version and content of each program, as far as a file has room for them."""
    room, ops = limits.IR_BYTES, limits.IR_OPS
    for number, kernel in enumerate(kernels):
        if kernel is not None and _depth(kernel) <= limits.NESTING:
            count, content = _plain(kernel)
            room, ops = room - len(content), ops - count
            if min(room, ops) < 0:
                return
            yield number, VERSION, zlib.compress(content)


def programs(
    texts: Sequence[str], stored: Mapping[int, tuple[int, bytes]]
) -> list[TileKernel | None]:
    """Return the program of each kernel: what is stored under its number, else what its text says.

    A file holds texts alone where it is from before programs were stored.  Raises
    `ProfileFileError` where what is stored is damaged.
    """
    found: list[TileKernel | None] = [None] * len(texts)
    room, ops = limits.IR_BYTES, limits.IR_OPS
    for number, text in enumerate(texts):
        version, content = stored.get(number, (0, b""))
        if version == VERSION:
            plain = inflated(content, "`kernel_ir.content`", room)
            kernel = found[number] = _kernel(plain, ops)
            room, ops = room - len(plain), ops - len(kernel.nested)
        elif not version and text and not stored:
            room, ops = room - len(text), ops - text.count("\n")
            if min(room, ops) >= 0:
                found[number] = _from_text(text)
    return found


def _from_text(text: str) -> TileKernel | None:
    """Return the program of a text; None where it has parts that no file may hold."""
    try:
        return _kernel(_plain(ir_text.read(text))[1], limits.IR_OPS)
    except ProfileFileError:
        return None


def _depth(kernel: TileKernel) -> int:
    """Most ops within each other."""
    return max((len(around) + 1 for _, around in kernel.nested), default=0)


def _plain(kernel: TileKernel) -> tuple[int, bytes]:
    """Return the number of a program's ops, and its JSON."""
    blocks: list[Any] = [[-1, kernel.body.name, kernel.body.arguments]]
    numbers, ops = {id(kernel.body): 0}, list[Any]()
    for block, op in _ops_of(kernel.body):
        for each in op.blocks:
            numbers[id(each)] = len(blocks)
            blocks.append([len(ops), each.name, each.arguments])
        ops.append(
            [
                numbers[id(block)], op.line, op.name, op.words, op.operands, op.lists,
                op.attributes, op.results, [_plain_type(each) for each in op.types],
            ]
        )  # fmt: skip
    held = kernel.parameters.items()
    parameters = [[name, each.out, _plain_type(each.type)] for name, each in held]
    made = {"parameters": parameters, "blocks": blocks, "ops": ops}
    return len(ops), json.dumps(made, separators=(",", ":"), allow_nan=False).encode()


def _ops_of(block: Block) -> Iterator[tuple[Block, Op]]:
    for op in block.ops:
        yield block, op
        for each in op.blocks:
            yield from _ops_of(each)


def _plain_type(type: Type) -> list[Any]:
    return [type.dtype, type.space, type.shape] if type.space else [type.dtype]


def _kernel(content: bytes, most_ops: int) -> TileKernel:
    try:
        held = json.loads(content)
    except (ValueError, RecursionError):
        raise ProfileFileError("`kernel_ir.content` is not JSON") from None
    try:
        parameters, blocks, ops = held["parameters"], held["blocks"], held["ops"]
        if len(ops) > most_ops:
            raise ProfileFileError(
                f"the programs of its kernels have more than {limits.IR_OPS:,} ops"
            )
        _check_nesting(blocks, ops)
        return TileKernel(dict(map(_parameter, _list(parameters))), _body(blocks, ops))
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise ProfileFileError("`kernel_ir.content` is not of the declared form") from None


def _check_nesting(blocks: Any, ops: Any) -> None:
    """Raise where an op is in no block that was opened before it, or too deep."""
    opened = defaultdict[int, list[int]](list)
    for number, block in enumerate(_list(blocks)):
        opened[_integer(block[0])].append(number)
    if opened[-1] != [0] or not isinstance(ops, list):
        raise ValueError
    depths = {0: 0}
    for number, op in enumerate(ops):
        depth = depths[_integer(op[0])] + 1
        if depth > limits.NESTING:
            raise ValueError
        depths.update(dict.fromkeys(opened.get(number, ()), depth))
    if len(depths) != len(blocks):
        raise ValueError


def _body(blocks: Any, ops: Any) -> Block:
    """Return the kernel's block; what is inside of an op is made before it."""
    inside = [list[Op]() for _ in blocks]
    opened = defaultdict[int, list[int]](list)
    for number, block in enumerate(blocks):
        opened[block[0]].append(number)

    def made(number: int) -> Block:
        _, name, arguments = blocks[number]
        return Block(_word(name), _names(arguments), tuple(reversed(inside[number])))

    for number in reversed(range(len(ops))):
        block, *parts = ops[number]
        own = tuple(map(made, opened.get(number, ())))
        inside[block].append(_op(parts, own))
    return made(0)


def _op(parts: Any, blocks: tuple[Block, ...]) -> Op:
    line, name, words, operands, lists, attributes, results, types = parts
    if len(results) != len(types) or _integer(line) < 0:
        raise ValueError
    return Op(
        _word(name),
        _names(results),
        tuple(_attribute(each) for each in _list(words)),
        _names(operands),
        tuple(map(_names, _list(lists))),
        {_word(key): _attribute(each) for key, each in attributes.items()},
        tuple(map(_type, _list(types))),
        blocks,
        line,
    )


def _parameter(held: Any) -> tuple[str, Parameter]:
    name, out, type = held
    if not isinstance(out, bool):
        raise TypeError
    return _names([name])[0], Parameter(_type(type), out)


def _type(held: Any) -> Type:
    dtype, *buffer = _list(held)
    if not buffer:
        return Type(_word(dtype))
    space, shape = buffer
    return Type(_word(dtype), _word(space), tuple(map(_extent, _list(shape))))


def _extent(held: Any) -> int | str:
    if isinstance(held, str):
        return _word(held)
    if _integer(held) < 0:
        raise ValueError
    return int(held)


def _attribute(held: Any, depth: int = 0) -> Attribute:
    if held is None or isinstance(held, bool):
        return held
    if isinstance(held, str):
        return clean_text(held)
    if isinstance(held, float):
        return held if math.isfinite(held) else repr(held)
    if isinstance(held, int):
        return _integer(held)
    if depth == limits.ATTRIBUTE_NESTING:
        raise ValueError
    return tuple(_attribute(each, depth + 1) for each in _list(held))


def _list(held: Any) -> list[Any]:
    if not isinstance(held, list):
        raise TypeError
    return held


def _integer(held: Any) -> int:
    if type(held) is not int or not -_INTEGER <= held < _INTEGER:
        raise ValueError
    return held


def _word(held: Any) -> str:
    if not isinstance(held, str):
        raise TypeError
    return clean_text(held)


def _names(held: Any) -> tuple[str, ...]:
    if not all(map(_NAME.fullmatch, _list(held))):
        raise ValueError
    return tuple(held)
