"""The text form of a kernel: one op a line, `%name`s for values, regions in braces.

    kernel @scale(%x: global<m, 128, float32>, %y: out global<m, 128, float32>) symbols(%m) {
      %0 = constant 128 : index
      launch [%m] {threads = [128]} body(%bx: index) {
        parallel [%0] body(%i: index) {
          %1 = load %x, [%bx, %i] : float32
          store %1, %y, [%bx, %i]
        }
      }
    }

`parser.py` reads it back: `parse(print_kernel(k))` is the same kernel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tileprof.errors import Location

from .core import Block, OpBase, Value
from .kernel import Kernel, Param, Site, State
from .names import ValueNames, said
from .types import DType

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_RESERVED = frozenset({"true", "false", "none", "inf", "nan", "loc"})


def print_kernel(kernel: Kernel, *, locations: bool = False) -> str:
    """Return the kernel as text; with `locations`, every op says which source it came from."""
    return "\n".join(_Printer(locations).kernel(kernel)) + "\n"


def print_location(location: Location) -> str:
    """`"file":line:column-line:column "function"`, and where it was inlined from after `<-`."""
    span = f"{location.line}:{location.column}-{location.end_line}:{location.end_column}"
    own = f"{json.dumps(location.file)}:{span} {json.dumps(location.function)}"
    return own if location.caller is None else f"{own} <- {print_location(location.caller)}"


class _Printer:
    def __init__(self, locations: bool) -> None:
        self._locations = locations
        self._names = ValueNames()

    def kernel(self, kernel: Kernel) -> Iterator[str]:
        values = kernel.param_values()
        shown = [self._param(p, v) for p, v in zip(kernel.params, values, strict=True)]
        symbols = [self._names.of(v) for v in kernel.symbol_values().values()]
        tail = f" symbols({', '.join(symbols)})" if symbols else ""
        yield f"kernel @{kernel.name}({', '.join(shown)}){tail}{self._loc(kernel.location)} {{"
        for site in kernel.sites:
            yield "  " + self._site(site)
        for number, state in enumerate(kernel.states):
            yield f"  {_state(number, state)}"
        yield from self._ops(kernel.body, "  ")
        yield "}"

    def _param(self, param: Param, value: Value) -> str:
        role = "out " if param.role == "out" else ""
        safe = f" safe({_attribute(param.safe_value)})" if param.safe_value != 0 else ""
        return f"{self._names.of(value)}: {role}{param.type}{safe}"

    def _site(self, site: Site) -> str:
        parent = "" if site.parent is None else f" in {site.parent}"
        queues = f" issues {_quoted(site.issues)}" if site.issues else ""
        if site.retires:
            queues += f" retires {_quoted(site.retires)}"
            queues += f" pending {site.pending}" if site.pending else ""
        return (
            f"site {site.id} {site.kind} {_quoted(site.name)}{parent}{queues}"
            f"{self._loc(site.location)}"
        )

    def _ops(self, block: Block, indent: str) -> Iterator[str]:
        for each in block.ops:
            yield from self._op(each, indent)

    def _op(self, op: OpBase, indent: str) -> Iterator[str]:
        # Operands are named before results: a result's name must not be taken by its own line.
        parts = [op.mnemonic, *(_attribute(getattr(op, n)) for n in op.SPEC.positional)]
        shown = (
            each if isinstance(each, str) else f"[{', '.join(each)}]"
            for each in self._names.operands(op)
        )
        if held := ", ".join(shown):
            parts.append(held)
        if held := _attributes(op):
            parts.append("{" + held + "}")
        head = " ".join(parts)
        if op.results:
            names = ", ".join(self._names.of(v) for v in op.results)
            head = f"{names} = {head} : {', '.join(str(v.type) for v in op.results)}"
        head += self._loc(op.span)
        if not op.SPEC.regions:
            yield indent + head
            return
        lead = indent + head
        for name in op.SPEC.regions:
            block: Block = getattr(op, name)
            args = ", ".join(f"{self._names.of(a)}: {a.type}" for a in block.args)
            yield f"{lead} {name}({args}) {{" if args else f"{lead} {name} {{"
            yield from self._ops(block, indent + "  ")
            lead = indent + "}"
        yield lead

    def _loc(self, location: Location | None) -> str:
        if location is None or not self._locations:
            return ""
        return f" loc({print_location(location)})"


def _state(number: int, state: State) -> str:
    """`state 3 in 2 from 1`: in site 2, of whose path the outermost one goes on."""
    site = "" if state.site < 0 else f" in {state.site}"
    return f"state {number}{site}{f' from {state.fresh}' if state.fresh else ''}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _attributes(op: OpBase) -> str:
    return ", ".join(f"{name} = {_attribute(held)}" for name, held in said(op))


def _attribute(held: Any) -> str:
    match held:
        case None:
            return "none"
        case bool():
            return "true" if held else "false"
        case int() | float():
            return repr(held)
        case str():
            bare = _BARE.fullmatch(held) and held not in _RESERVED
            return held if bare else json.dumps(held, ensure_ascii=False)
        case DType():
            return held.name
        case tuple() | list():
            return "[" + ", ".join(_attribute(v) for v in held) + "]"
        case _:
            raise TypeError(f"an attribute cannot hold {held!r}")
