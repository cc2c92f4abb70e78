"""A `CudaBinary` as JSON and bytes, and back: what a file of a compiled kernel holds of it.

Images lie beside the JSON under names of their own; the host's program is in the text form of the
IR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.compiler.cuda.controls import controls_of
from tileprof.compiler.cuda.source import Argument, LaunchSpec, TensorMapSpec
from tileprof.compiler.cuda.target import find_target
from tileprof.remarks import Remark, Statement, plain
from tileprof.runtime.typed_json import read_as

from .binary import CudaBinary
from .host_values import HostProgram, check_host


def write_binary(binary: CudaBinary) -> dict[str, Any]:
    """Everything but the image, as JSON has it."""
    return {
        "launches": [
            {**_plain(each), "grid": axes} for each, axes in zip(binary.launches, binary.axes)
        ],
        "places": _plain(binary.places),
        "host": ir.print_kernel(binary.host.kernel),
        "target": binary.target,
        "text": binary.text,
        "remarks": _plain(binary.remarks),
        "controls": _plain(binary.controls.changed()),
    }


def read_binary(held: Mapping[str, Any], image: bytes, kernel: ir.Kernel) -> CudaBinary:
    """Return the binary that was written; ValueError where this is none, or none of `kernel`;
    KernelError where the host's program is not valid."""
    stated = read_as(_Stated, {name: held.get(name) for name in _STATED}, "a variant")
    stated_launches = read_as(tuple[dict[str, Any], ...], held.get("launches"), "launches")
    axes = [read_as(int, each.get("grid"), "grid") for each in stated_launches]
    launches = [read_as(LaunchSpec, {**each, "grid": []}, "launch") for each in stated_launches]
    made = CudaBinary(
        image,
        tuple(launches),
        stated.places,
        HostProgram(ir.parse(stated.host)),
        tuple(axes),
        stated.target,
        stated.text,
        stated.remarks,
        controls_of({name: _tuple(v) for name, v in stated.controls.items()}),
    )
    check_host(made.host.kernel, kernel)
    _check(made, kernel)
    return made


@dataclass(frozen=True, slots=True)
class _Stated:
    """Values of a variant that stand directly in its JSON."""

    places: tuple[Place, ...]
    host: str
    target: str
    text: str
    remarks: tuple[Remark, ...]
    controls: dict[str, Any]


_STATED = tuple(f.name for f in fields(_Stated))


def _check(made: CudaBinary, kernel: ir.Kernel) -> None:
    """ValueError where a binary asks for what its kernel does not have."""
    target = find_target(made.target)
    launches = kernel.launches()
    if [len(op.grid) for op in launches] != list(made.axes):
        raise ValueError("its launches are not those of its program")
    results = made.host.kernel.body.ops[-1].values  # type: ignore[attr-defined]
    if len(results) < sum(made.axes):
        raise ValueError("its host program gives fewer values than its grids have extents")
    hosted = [v.type for v in results[: len(results) - sum(made.axes)]]
    if any(v.type != ir.index for v in results[len(hosted) :]):
        raise ValueError("an extent of its grid is not an index")
    for spec in made.launches:
        if not (
            1 <= spec.threads <= target.threads_per_block
            and spec.threads % 32 == 0
            and 0 <= spec.shared <= target.shared_per_block
            and 1 <= spec.cluster <= 16
            and 0 <= spec.persistent <= 32
            and 0 <= spec.consumer_warps <= spec.warps
            and spec.sampled_warps == 0
        ):
            raise ValueError(f"`{spec.function:.80}` cannot be launched as it says")
        for each in spec.arguments:
            _check_argument(each, spec, kernel, hosted)
        for each_map in spec.maps:
            _check_map(each_map, kernel)
        for rows in spec.rows:
            names = {d for d in _flat(rows.counts) if isinstance(d, str)}
            if rows.chunk < 1 or not names <= set(kernel.symbols):
                raise ValueError("rows that are copied in chunks are not those of its tensors")


def _check_argument(
    argument: Argument, spec: LaunchSpec, kernel: ir.Kernel, hosted: Sequence[ir.Type]
) -> None:
    at, dtype, fits = argument.index, argument.dtype, False
    typed = dtype is not None and dtype.bytes in (1, 2, 4, 8)
    match argument.kind:
        case "pointer" | "scalar" if 0 <= at < len(kernel.params):
            held = kernel.params[at].type
            if argument.kind == "pointer":
                fits = isinstance(held, ir.BufferType)
            else:
                fits = isinstance(held, ir.DType) and dtype in (None, held)
        case "symbol":
            fits = 0 <= at < len(kernel.symbols) and typed
        case "host":
            fits = 0 <= at < len(hosted) and typed
        case "map":
            fits = 0 <= at < len(spec.maps)
        case "counter" | "report" | "notes":
            fits = True
    if not fits:
        raise ValueError(f"argument {argument.kind} {at} does not belong to its kernel")


def _check_map(held: TensorMapSpec, kernel: ir.Kernel) -> None:
    """The tile that hardware copies lies within a tensor of the kernel."""
    if not 0 <= held.param < len(kernel.params):
        raise ValueError("a tensor map is of no parameter")
    type_ = kernel.params[held.param].type
    names = {d for d in _flat((held.shape, held.strides)) if isinstance(d, str)}
    numbers = [d for d in _flat((held.shape, held.strides)) if isinstance(d, int)]
    if (
        not isinstance(type_, ir.BufferType)
        or held.dtype.bits != type_.dtype.bits
        or not names <= set(kernel.symbols)
        or any(not 0 <= n < 1 << 48 for n in numbers)
        or not 1 <= len(held.box) <= 5
        or not len(held.box) == len(held.shape) == len(held.strides)
        or any(not 1 <= n <= 256 for n in held.box)
    ):
        raise ValueError("a tensor map does not fit its tensor")


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _plain(value: Any) -> Any:
    """Dataclasses as objects, element types as their names."""
    if isinstance(value, ir.DType):
        return value.name
    if isinstance(value, ir.Value):
        return None
    if isinstance(value, Statement):
        return plain(value)
    if is_dataclass(value):
        # What is no part of a value (the scope of a place) is no part of a file.
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _tuple(value: Any) -> Any:
    return tuple(_tuple(each) for each in value) if isinstance(value, list) else value
