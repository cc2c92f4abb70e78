"""Controls by which an experiment forces or forbids steps in the lowering of a kernel.

In: wishes of an author, as `Controls`, as a mapping, or as `NAME=VALUE` of a command line.  Out:
`Controls`.  Everything is left to the compiler by default.  The controls of a kernel are recorded
with its binary, so that a profile says under which of them it was made.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from tileprof.compiler.cuda.target import LARGEST_CLUSTER
from tileprof.errors import UsageError

_SWITCH = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
_LEAST = {"registers": 24, "stages": 1, "cluster": 1}
_MOST = {"registers": 255, "cluster": LARGEST_CLUSTER}
_CHOICES = {"tile_order": ("static", "dynamic"), "hand_over": ("issued", "complete")}


@dataclass(frozen=True, slots=True)
class Controls:
    """Controls that force or forbid decisions of the GPU compiler for one kernel.

    The default of each control leaves the decision to the compiler. Pass them to `tileprof.jit` or
    `tileprof.compile` as `controls=`, as an object or a dict. Raise UsageError for a value that a
    control cannot have.

        kernel = tileprof.compile(function, target="sm_90a", controls=tileprof.Controls(stages=3))
    """

    registers: int | None = None
    """Largest number of registers per thread (`maxrregcount`)."""
    stages: int | None = None
    """Stages of every pipelined loop, instead of its `num_stages`."""
    swizzle: bool = True
    """Whether shared memory may be swizzled."""
    async_copy: bool = True
    """Whether copies may be asynchronous (TMA and cp.async)."""
    synchronous: tuple[str, ...] = ()
    """Names of tensors and shared buffers whose copies must not be asynchronous."""
    tma: bool = True
    wgmma: bool = True
    tensor_cores: bool = True
    """Whether matrix products may use mma.sync or wgmma."""
    tf32: bool = True
    """Whether float32 products may be rounded to tf32 operands."""
    warp_specialization: bool = True
    persistent: bool | None = None
    """Whether blocks loop over tiles of the grid."""
    tile_order: str | None = None
    """Order in which a block that loops over tiles gets them: `static`, at a fixed distance;
    `dynamic`, the next tile that no block has taken."""
    cluster: int | None = None
    """Number of blocks in a cluster, which load shared tiles once."""
    vectorize: bool = True
    """Whether accesses may be wider than one element."""
    rasterize: bool = True
    """Whether blocks may be renumbered for reuse in L2."""
    delayed_release: bool = True
    """Whether a wait may leave the youngest matrix product running."""
    overlap: bool | None = None
    """Whether the last product of a loop's iteration overlaps with the arithmetic of the next one,
    or the use of that product with the first product of the next one."""
    peel: bool = True
    """Whether iterations that no mask changes may run in a separate loop."""
    late_sums: bool = True
    """Whether sums of a loop may be reduced across threads once, after it."""
    ping_pong: bool | None = None
    """Whether consumer warp groups hand the tensor cores over to each other, so that products of
    one run under the exponentials of the other."""
    hand_over: str | None = None
    """When such a group hands the tensor cores over: `issued`, once it has issued its products;
    `complete`, once the product that its exponentials wait for is complete."""
    fast_math: bool = False
    """Whether exponentials may use one instruction each: denormal results become 0, and `exp` is
    less exact."""
    early_launch: bool | None = None
    """Whether a launch may start while the one before it on its stream ends, and waits for it."""

    def __post_init__(self) -> None:
        if isinstance(self.synchronous, str | list):
            held = self.synchronous
            names = (held,) if isinstance(held, str) else tuple(held)
            object.__setattr__(self, "synchronous", names)
        for field in fields(self):
            value = getattr(self, field.name)
            if not _fits(field.name, str(field.type), value):
                raise UsageError(
                    f"the control `{field.name}` cannot be {value!r:.40}",
                    hint=f"It is {_wanted(field.name, str(field.type))}.",
                )

    def changed(self) -> dict[str, object]:
        """Return what differs from the default, by name."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }

    def __str__(self) -> str:
        """Return what differs from the default, as the command line takes it."""
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.changed().items())


def _fits(name: str, kind: str, value: object) -> bool:
    if value is None:
        return "None" in kind
    if isinstance(value, bool):
        return "bool" in kind
    if name in _CHOICES:
        return value in _CHOICES[name]
    if isinstance(value, int):
        return "int" in kind and _LEAST[name] <= value <= _MOST.get(name, value)
    return "tuple" in kind and isinstance(value, tuple) and all(type(v) is str for v in value)


def _wanted(name: str, kind: str) -> str:
    if "tuple" in kind:
        return "a tuple of names"
    if "bool" in kind:
        wanted = "true or false"
    elif name in _CHOICES:
        wanted = ", ".join(f"`{choice}`" for choice in _CHOICES[name])
    elif name in _MOST:
        wanted = f"a whole number from {_LEAST[name]} to {_MOST[name]}"
    else:
        wanted = "a positive whole number"
    return f"{wanted} or none" if "None" in kind else wanted


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def controls_of(given: Controls | Mapping[str, Any] | None) -> Controls:
    """Controls as an author gave them; UsageError for a name that is none, or a value that does
    not fit."""
    if isinstance(given, Controls):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"controls cannot be {given!r:.40}",
            hint='They are `tileprof.Controls(tma=False)`, or a dict like `{"tma": False}`.',
        )
    for name in given or {}:
        _check_name(name)
    return Controls(**(given or {}))


def parse_controls(given: Iterable[str]) -> Controls:
    """The controls that `NAME=VALUE`… of a command line ask for; the last of several wins."""
    kinds = {f.name: str(f.type) for f in fields(Controls)}
    values: dict[str, Any] = {}
    for each in given:
        name, _, text = each.partition("=")
        _check_name(name)
        values[name] = _value(each, text, name, kinds[name])
    return Controls(**values)


def _check_name(name: str) -> None:
    known = [f.name for f in fields(Controls)]
    if name in known:
        return
    near = difflib.get_close_matches(str(name), known, 1)
    meant = f"Did you mean `{near[0]}`? " if near else ""
    raise UsageError(
        f"there is no control `{name}`", hint=f"{meant}Controls are: {', '.join(known)}."
    )


def _value(given: str, text: str, name: str, kind: str) -> Any:
    value: object = text
    if "None" in kind and text == "none":
        value = None
    elif "bool" in kind and text in _SWITCH:
        value = _SWITCH[text]
    elif "int" in kind and text.isascii() and text.isdigit():
        value = int(text)
    elif "tuple" in kind and text:
        value = tuple(text.split("+"))
    if not _fits(name, kind, value):
        raise UsageError(
            f"`--control {given}` gives no value", hint=f"It is {_wanted(name, kind)}."
        )
    return value
