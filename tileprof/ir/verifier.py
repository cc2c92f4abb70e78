"""Rules that every kernel obeys between two passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from tileprof.errors import InternalError

from .control import Break, Continue, For, If, Launch, Parallel, Scope, While, Yield
from .core import Block, OpBase, Value
from .device import Mark
from .kernel import Kernel
from .memory import Alloc, Atomic, Load, Reinterpret, Store, View
from .printer import print_kernel
from .scalar import ScalarOp
from .tile import TILE_OPS, Fill
from .turns import misplaced_turns
from .types import DTYPES, BufferType, DType, Type, index


def verify(kernel: Kernel) -> None:
    """Raise InternalError with the whole kernel's text where a rule is broken."""
    found = list(problems(kernel))
    if found:
        shown = "\n".join(f"  {each}" for each in found)
        raise InternalError(
            f"kernel `{kernel.name}` is not valid:\n{shown}",
            hint=f"Please report this with the kernel's text:\n{print_kernel(kernel)}",
        )


def problems(kernel: Kernel) -> Iterator[str]:
    """Yield what is wrong with a kernel, whoever wrote it, as sentences."""
    if [a.type for a in kernel.body.args] != [
        *(p.type for p in kernel.params),
        *(index for _ in kernel.symbols),
    ]:
        yield "the body's arguments are not the parameters followed by one index for each symbol"
    for names in ([p.name for p in kernel.params], kernel.symbols):
        if len(set(names)) < len(names):
            yield "two parameters, or two symbols, have one name"
    for param in kernel.params:
        if isinstance(param.type, BufferType):
            if param.type.space != "global":
                yield f"parameter {param.name} is {param.type}, and no caller has such memory"
            named = [d for d in (*param.type.shape, *(param.type.strides or ()))]
            for dim in named:
                if isinstance(dim, str) and dim not in kernel.symbols:
                    yield f"parameter {param.name} uses symbol {dim}, which is not declared"
    yield from _states(kernel)
    yield from misplaced_turns(kernel.body)
    yield from _block(kernel.body, (), set())


def _states(kernel: Kernel) -> Iterator[str]:
    """States name sites that are there, and marks states."""
    depths: list[int] = []
    for at, site in enumerate(kernel.sites):
        if site.id != at or (site.parent is not None and not 0 <= site.parent < at):
            yield f"site {site.id} stands at {at}, or before the site that it lies in"
            return
        depths.append(1 if site.parent is None else depths[site.parent] + 1)
    for number, state in enumerate(kernel.states):
        if not -1 <= state.site < len(depths):
            yield f"state {number} names site {state.site}, which is not there"
        elif state.fresh > (depths[state.site] if state.site >= 0 else 0):
            yield f"state {number} goes on with {state.fresh} sites, more than are around it"
    for op in kernel.ops():
        if isinstance(op, Mark) and not 0 <= op.state < len(kernel.states):
            yield f"{op!r} names state {op.state}, which is not there"


def _block(block: Block, path: tuple[OpBase, ...], defined: set[Value]) -> Iterator[str]:
    # What a block defines ends with it.
    own = {value for value in block.args if value not in defined}
    defined |= own
    for at, op in enumerate(block.ops):
        for value in op.operand_values():
            if value not in defined:
                yield f"{op!r} uses %{value.name or '?'}, which is not defined before it"
        for sentence in _undeclared(op):
            yield f"{op!r}: {sentence}"
        kinds = list(_operands(op))
        yield from kinds
        if not kinds:
            for sentence in _own(op):
                yield f"{op!r}: {sentence}"
        yield from _place(op, path, last=at == len(block.ops) - 1)
        for inner in op.blocks():
            yield from _block(inner, (*path, op), defined)
        own.update(op.results)
        defined.update(op.results)
    defined -= own


def _undeclared(op: OpBase) -> Iterator[str]:
    """Yield what the op's declaration leaves open about memory and rings."""
    if not op.SPEC.declared:
        yield "its declaration does not say what it reads and writes"
    known = {each.field for each in op.SPEC.accesses}
    for name, many in op.SPEC.operands:
        held = getattr(op, name)
        for value in held if many else [held]:
            if name not in known and value is not None and not _is_scalar(value.type):
                yield f"its declaration does not say whether it reads or writes `{name}`"


def _own(op: OpBase) -> Iterator[str]:
    """Yield what the op itself reports as wrong; a rank or shape that breaks its check is wrong
    too."""
    try:
        yield from op.verify()
    except (TypeError, ValueError, IndexError) as error:
        yield str(error)


def _is_buffer(type: Type) -> bool:
    return isinstance(type, BufferType)


def _is_scalar(type: Type) -> bool:
    return isinstance(type, DType) and type.name in DTYPES


def _is_integer(type: Type) -> bool:
    return isinstance(type, DType) and type.is_integer


_KINDS: dict[type[OpBase], dict[str, Callable[[Type], bool]]] = {
    **{each: {"*": _is_scalar} for each in get_args(ScalarOp)},
    Load: {"buffer": _is_buffer, "indices": _is_integer},
    Store: {"value": _is_scalar, "buffer": _is_buffer, "indices": _is_integer},
    Atomic: {"value": _is_scalar, "buffer": _is_buffer, "indices": _is_integer},
    View: {"base": _is_buffer, "offsets": _is_integer},
    Reinterpret: {"base": _is_buffer},
    **{each: {"*": _is_buffer} for each in TILE_OPS},
    Fill: {"target": _is_buffer, "value": _is_scalar},
    Launch: {"grid": _is_integer},
    While: {},
    If: {"condition": _is_scalar},
    Yield: {"*": _is_scalar},
}
"""Required kind of each operand, by op and field; `*` stands for all fields."""


def _operands(op: OpBase) -> Iterator[str]:
    """Scalars where scalars are wanted, buffers where buffers are."""
    kinds = _KINDS.get(type(op), {})
    for name, many in op.SPEC.operands:
        fits = kinds.get(name) or kinds.get("*")
        held = getattr(op, name)
        for value in held if many else [held]:
            if fits is not None and value is not None and not fits(value.type):
                yield f"{op!r}: `{name}` is {value.type}"


def _place(op: OpBase, path: tuple[OpBase, ...], *, last: bool) -> Iterator[str]:
    """Yield the table of what may stand where."""
    launched = any(isinstance(o, Launch) for o in path)
    parallel = any(isinstance(o, Parallel) for o in path)
    match op:
        case Launch() if path:
            yield f"{op!r}: a launch stands at the top of the kernel"
        case For() | While() | Parallel() | Alloc() | Scope() if not launched:
            yield f"{op!r}: it stands inside a launch"
        case Mark() if not launched or parallel:
            yield f"{op!r}: a mark stands inside a launch and outside `parallel`"
        case _ if isinstance(op, TILE_OPS) and (not launched or parallel):
            yield f"{op!r}: a tile op stands inside a launch and outside `parallel`"
        case Break() | Continue():
            loops = (For, While) if isinstance(op, Break) else (For, While, Parallel)
            if not any(isinstance(o, loops) for o in path):
                yield f"{op!r}: there is no loop around it"
            inner = next((o for o in reversed(path) if isinstance(o, (For, While, Parallel))), None)
            if isinstance(op, Break) and isinstance(inner, Parallel):
                yield f"{op!r}: the points of a `parallel` have no order to break off"
            if not last:
                yield f"{op!r}: ops after it never run"
        case Yield():
            ends = path and (isinstance(path[-1], (If, While)) or _is_persistent(path[-1]))
            if not ends or not last:
                yield f"{op!r}: it ends a block of `if` or the condition of `while`"


def _is_persistent(op: OpBase) -> bool:
    return isinstance(op, For) and op.kind == "persistent"
