"""Products of matrices in Triton's text, and the types that their operands were loaded in.

In: a module's TTGIR.  Out: `Dot`: the shape of the result, the type that is multiplied, that of the
operands before they were converted, and whether tensor cores do it.

    %x = arith.extf %a : tensor<128x64xf16, #b> to tensor<128x64xf32, #b>
    %s = ttg.local_alloc %x : (tensor<128x64xf32, #b>) -> !ttg.memdesc<128x64xf32, #s, #smem>
    %d = tt.dot %s, %t, %acc : … -> tensor<128x128xf32, #blocked>

A layout named `blocked` gives each thread a block of the result: tensor cores have layouts of their
own. `tl.sum` of a product of two tensors comes as a dot as well, in the type of its sums.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_DOT = re.compile(
    r"= (?:tt\.dot|ttng\.warp_group_dot) %(?P<a>\w+), %(?P<b>\w+),[^\n]*? : "
    r"(?:tensor|!ttg\.memdesc)<[\dx]+x(?P<type>\w+), #[^\n]*"
    r"-> tensor<(?P<rows>\d+)x(?P<columns>\d+)x\w+, #(?P<layout>[a-z]+)"
)
_SAME = re.compile(
    r"%(\w+) = (?:ttg\.local_alloc|ttg\.local_load|ttg\.convert_layout|ttg\.memdesc_\w+|tt\.trans)"
    r" %(\w+)"
)
"""An operand of another layout or place, with the same values."""
_WIDER = re.compile(
    r"%(\w+) = arith\.extf %\w+ : tensor<[\dx]+x(\w+), #[^\n]* to tensor<[\dx]+x(\w+), #"
)
_TYPES = {"f32": "tf32", "f16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class Dot:
    """A product of two tiles."""

    rows: int
    columns: int
    dtype: str
    """Type in which tensor cores would multiply what is written; `tf32` of float32."""
    held: str
    """Type of both operands before they were converted to it, which holds them exactly."""
    by_tensor_cores: bool

    @property
    def shape(self) -> str:
        """Rows and columns, as Triton writes them."""
        return f"{self.rows}x{self.columns}"

    @property
    def is_widened(self) -> bool:
        """Whether operands are converted to a wider type for it."""
        return self.held != self.dtype


@lru_cache(maxsize=4)
def dots_of(text: str) -> tuple[Dot, ...]:
    """All of a module whose type tensor cores have."""
    return tuple(_found(text))


def _found(text: str) -> Iterator[Dot]:
    same: dict[str, str] = dict(_SAME.findall(text))
    wider = {name: (held, made) for name, held, made in _WIDER.findall(text)}
    for each in _DOT.finditer(text):
        if each["type"] not in _TYPES:
            continue
        types = {_held(each[side], each["type"], same, wider) for side in "ab"}
        held = types.pop() if len(types) == 1 else each["type"]
        yield Dot(
            int(each["rows"]), int(each["columns"]), _TYPES[each["type"]],
            _TYPES.get(held, _TYPES[each["type"]]), each["layout"] != "blocked",
        )  # fmt: skip


def _held(name: str, dtype: str, same: dict[str, str], wider: dict[str, tuple[str, str]]) -> str:
    """The type of an operand before its conversion."""
    seen = set[str]()
    while name not in wider and name in same and name not in seen:
        seen.add(name)
        name = same[name]
    held, made = wider.get(name, (dtype, dtype))
    return held if made == dtype else dtype
