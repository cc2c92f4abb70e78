"""Text of kernels for prompts and notebooks: a few lines, without tracing or compiling anything.

In: a kernel, or a function under `@tileprof.jit`.  Out: text, and the same for a notebook.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tileprof import ir
from tileprof.errors import Location

if TYPE_CHECKING:
    from tileprof.lang.calls import Variant
    from tileprof.lang.compiled import Kernel
    from tileprof.lang.functions import Kernelized

_STYLE = "font:13px/1.5 ui-monospace,monospace;margin:0;overflow-x:auto"
_WIDTH = 160
"""Most characters of a line."""


def kernel_text(kernel: Kernel, variants: Iterable[Variant]) -> str:
    """Return its name and arguments, on which devices it was loaded, and where to read on."""
    made = list(variants)
    if not made:
        return f"Kernel {kernel.__name__}({', '.join(kernel.arguments)}), not traced yet"
    traced = made[0].traced.kernel
    held = ", ".join(_param(each) for each in traced.params if each.role != "out")
    results = ", ".join(_type(each.type) for each in traced.params if each.role == "out")
    title = f"Kernel {kernel.__name__}({held}){f' → {results}' if results else ''}"
    devices = dict.fromkeys(device for each in made for device in each.devices)
    return "\n".join([
        _short(title),
        _short(f"{_place(traced.location)}; loaded on: {', '.join(devices) or 'no device yet'}"),
        "More: .remarks (decisions and their reasons), .get_kernel_source(), .ir, .program",
    ])  # fmt: skip


def function_text(function: Kernelized, arguments: str, kernels: int) -> str:
    """Return the function's name and arguments, and how many kernels were made from it."""
    made = f"{kernels} kernel{'s' * (kernels != 1)} made of it so far"
    return "\n".join([
        _short(f"Function {function.__name__}{arguments} under @tileprof.jit"),
        _short(f"{_place(function.location)}; {made}"),
        "More: call it with arrays, or .compile(…) for a kernel",
    ])  # fmt: skip


def in_notebook(text: str) -> str:
    """Return text as one element of a page that stands for itself."""
    return f'<pre style="{_STYLE}">{html.escape(text)}</pre>'


def _param(param: ir.Param) -> str:
    return f"{param.name}: {_type(param.type)}"


def _type(held: ir.BufferType | ir.DType) -> str:
    if isinstance(held, ir.DType):
        return held.name
    return f"{held.dtype.name}[{', '.join(map(str, held.shape))}]"


def _place(location: Location | None) -> str:
    return location.short if location is not None else "unknown place"


def _short(text: str) -> str:
    shown = "".join(each if each.isprintable() else "?" for each in text)
    return shown if len(shown) <= _WIDTH else f"{shown[: _WIDTH - 1]}…"
