"""A `CudaBinary` as JSON and bytes, and back: what a file of a compiled kernel holds of it.

Images lie beside the JSON under names of their own; the host's program is in the text form of the
IR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.compiler.cuda.controls import controls_of
from tileprof.compiler.cuda.source import Argument, LaunchSpec, TensorMapSpec
from tileprof.compiler.remarks import Remark
from tileprof.errors import Location

from .cuda_binary import CudaBinary
from .cuda_host import HostProgram

__all__ = ["read_binary", "write_binary"]


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


def read_binary(held: Mapping[str, Any], image: bytes) -> CudaBinary:
    """The binary that was written; KeyError, TypeError or ValueError where it was not."""
    return CudaBinary(
        image,
        tuple(_launch(each) for each in held["launches"]),
        tuple(_place(each) for each in held["places"]),
        HostProgram(ir.parse(held["host"])),
        tuple(each["grid"] for each in held["launches"]),
        held["target"],
        held["text"],
        tuple(_remark(each) for each in held["remarks"]),
        controls_of({name: _tuple(v) for name, v in held.get("controls", {}).items()}),
    )


def _plain(value: Any) -> Any:
    """Dataclasses as objects, element types as their names."""
    if isinstance(value, ir.DType):
        return value.name
    if isinstance(value, ir.Value):
        return None
    if is_dataclass(value):
        # What is no part of a value (the scope of a place) is no part of a file.
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value


def _tuple(value: Any) -> Any:
    return tuple(_tuple(each) for each in value) if isinstance(value, list) else value


def _dtype(name: str | None) -> ir.DType | None:
    return None if name is None else ir.dtype(name)


def _launch(held: Mapping[str, Any]) -> LaunchSpec:
    given = {
        **held,
        "arguments": tuple(
            Argument(a["kind"], a["index"], _dtype(a["dtype"])) for a in held["arguments"]
        ),
        "maps": tuple(_map(each) for each in held["maps"]),
        "grid": (),
    }
    return LaunchSpec(**given)


def _map(held: Mapping[str, Any]) -> TensorMapSpec:
    given = {name: _tuple(value) for name, value in held.items()}
    return TensorMapSpec(**{**given, "dtype": ir.dtype(held["dtype"])})


def _place(held: Mapping[str, Any]) -> Place:
    given = {name: _tuple(value) for name, value in held.items()}
    given |= {"location": _location(held["location"]), "dtype": _dtype(held["dtype"])}
    return Place(**given)


def _remark(held: Mapping[str, Any]) -> Remark:
    given = {name: _tuple(value) for name, value in held.items()}
    return Remark(**{**given, "location": _location(held["location"])})


def _location(held: Mapping[str, Any] | None) -> Location | None:
    if held is None:
        return None
    return Location(**{**held, "caller": _location(held["caller"])})
