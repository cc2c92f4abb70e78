"""Compiled kernels as files: `kernel.save(path)` and `tileprof.load_kernel(path)`.

A file is a zip archive: `kernel.json` (version, signature, launches, remarks), `kernel.ir` (the
program after all passes) and the machine code of each variant.  A kernel from a file runs on a GPU
without the source that it was written in, without a compiler and without NVRTC.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tileprof import ir
from tileprof.compiler import Options, Program
from tileprof.compiler.cuda.controls import controls_of
from tileprof.compiler.remarks import refuse_missed
from tileprof.errors import OutputError, TileprofError, UsageError
from tileprof.runtime import hooks
from tileprof.runtime.arguments import TensorSpec
from tileprof.runtime.launch import LoadedKernel, load

from .calls import Variant
from .compiled import Kernel
from .trace import Evaluator, Traced

__all__ = ["load_kernel", "save"]

_VERSION = 2
"""1: the report of a kernel had no word for notes."""
_JSON, _IR = "kernel.json", "kernel.ir"
_ADVICE = "Write it anew with `kernel.save(path)`."


def save(kernel: Kernel, path: str | Path, targets: Sequence[str] = ()) -> None:
    """Compile for each of `targets` and write a file.  Without any: for the GPU of this machine,
    or sm_90a where there is none.

    OutputError where it cannot be written; errors of the compiler as for a call.
    """
    traced, program = kernel.variant.traced, kernel.program
    images: dict[str, bytes] = {}
    held = {
        "format": "tileprof kernel",
        "version": _VERSION,
        "arguments": list(kernel.arguments),
        "returned": list(traced.returned),
        "derived": {n: _expression(traced, n) for n in traced.derived},
        "variants": [
            made
            for target in targets or (_default_target(),)
            for made in _variants(program, target, images)
        ],
    }
    place = Path(path)
    partial = place.with_name(f"{place.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_JSON, json.dumps(held, indent=1))
            archive.writestr(_IR, ir.print_kernel(program.kernel))
            for name, image in images.items():
                archive.writestr(name, image)
        os.replace(partial, place)
    except OSError as error:
        raise OutputError(
            f"the kernel cannot be written to {place}: {error.strerror or error}",
            hint="Choose a folder that exists and can be written.",
        ) from error


def _default_target() -> str:
    from tileprof.runtime.cuda_device import find_device

    try:
        return find_device(0).target.name
    except TileprofError:
        return "sm_90a"


def _variants(program: Program, target: str, images: dict[str, bytes]) -> list[dict[str, Any]]:
    """The variant for aligned tensors that do not overlap and the one for all others; sm_80 also as
    PTX, which drivers finish for later GPUs."""
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target
    from tileprof.runtime.cuda_binary import CudaBinary
    from tileprof.runtime.cuda_file import write_binary

    kernel, controls = program.kernel, program.options.controls
    tensors = {at for at, p in enumerate(kernel.params) if isinstance(p.type, ir.BufferType)}
    made = []
    for general in (False, True):
        unaligned = frozenset(tensors if general else ())
        compiled = compile_cuda(kernel, find_target(target), controls, unaligned, aliased=general)
        # What slices and overlapping tensors cannot have is no fault of the kernel.
        if program.options.strict and not general:
            refuse_missed(compiled.all_remarks)
        for ptx in (False, True) if target == "sm_80" else (False,):
            binary = CudaBinary.of(kernel, compiled, ptx=ptx)
            name = f"{len(images)}.{'ptx' if ptx else 'cubin'}"
            images[name] = binary.image
            made.append({"general": general, "ptx": ptx, "image": name, **write_binary(binary)})
    return made


def _expression(traced: Traced, name: str) -> str:
    """How an extent follows from others, in the text form of the IR."""
    from tileprof.runtime.cuda_host import HostProgram

    evaluator = traced.derived[name]
    assert isinstance(evaluator, Evaluator)
    return ir.print_kernel(HostProgram.of(traced.kernel, [evaluator.value]).kernel)


# -- reading


class SavedKernel(Kernel):
    """A kernel from a file; it is called as the kernel that was saved."""

    def __init__(self, file: _File) -> None:
        super().__init__(
            file.kernel.name,
            lambda given: file.traced,
            _no_source,
            names=file.traced.params,
            options=file.program.options,
        )
        self.variant: Variant = SavedVariant(file)

    def _variant_for(self, specs: Sequence[TensorSpec | None]) -> Variant:
        return self.variant


class SavedVariant(Variant):
    """What a file holds, made ready on the device of a call."""

    __slots__ = ("_file",)

    def __init__(self, file: _File) -> None:
        super().__init__(file.traced, file.program.options)
        self._file = file

    def program(self, instrument: hooks.Instrument = "off") -> Program:
        """The kernel as it was saved."""
        return self._file.program

    def loaded(self, device: str, instrument: hooks.Instrument) -> LoadedKernel:
        """The kernel ready on a device; on the host it is compiled, or interpreted."""
        if not device.startswith("cuda"):
            return super().loaded(device, "off")
        key = (device, "off")
        if key not in self._loaded:
            build = self._file.builder(device)
            self._loaded[key] = load(self._file.program, device, build)
        return self._loaded[key]


def _no_source(arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
    return None, UsageError(
        "a kernel from a file cannot run as plain Python",
        hint="Unset TILEPROF_DEBUG, or call the function that it was compiled from.",
    )


class _File:
    """What `save` wrote."""

    def __init__(self, path: Path, held: Mapping[str, Any], text: str, images: Any) -> None:
        self.path = path
        self.kernel = ir.parse(text, file=str(path))
        controls = controls_of(held["variants"][0].get("controls"))
        self.program = Program(self.kernel, self.kernel, Options(controls=controls))
        self._variants, self._images = held["variants"], images
        derived = {n: _evaluator(e) for n, e in held["derived"].items()}
        self.traced = Traced(
            self.kernel, derived, tuple(held["returned"]), tuple(held["arguments"])
        )

    def builder(self, device: str) -> Callable[[Any], Any]:
        """What gives the binary of a variant on a device."""
        from tileprof.runtime.cuda_device import find_device
        from tileprof.runtime.cuda_file import read_binary

        found = find_device(int(device.removeprefix("cuda:")))
        target, ptx = found.target.name, found.from_ptx
        if not any(v["target"] == target for v in self._variants):
            # What was saved for older GPUs runs on later ones, by way of PTX.
            target, ptx = "sm_80", found.capability[0] != 8
        fitting = {
            v["general"]: v for v in self._variants if v["target"] == target and v["ptx"] == ptx
        }
        if not fitting:
            held = sorted({v["target"] for v in self._variants})
            raise UsageError(
                f"{self.path} is for {', '.join(held)}, and {found.name} needs {found.target.name}",
                hint=f"Save it with `targets=[…, '{found.target.name}']`.",
            )

        def build(need: tuple[frozenset[int], bool]) -> Any:
            variant = fitting[bool(need[0]) or need[1]]
            return read_binary(variant, self._images[variant["image"]])

        return build


def _evaluator(text: str) -> Callable[[Sequence[Any], Mapping[str, int]], int]:
    from tileprof.runtime.cuda_host import HostProgram

    program = HostProgram(ir.parse(text))
    names = program.kernel.symbols

    def evaluate(values: Sequence[Any], known: Mapping[str, int]) -> int:
        # A symbol that is not known yet is none that this one follows from.
        return int(program.run(values, [known.get(n, 0) for n in names])[0])

    return evaluate


def load_kernel(path: str | Path) -> Kernel:
    """The kernel in a file that `kernel.save(path)` wrote, to be called with arrays.

    UsageError for a file that is none, is damaged, or comes from a version that is too different.
    """
    place = Path(path)
    try:
        with zipfile.ZipFile(place) as archive:
            held = json.loads(archive.read(_JSON))
            if held.get("format") != "tileprof kernel":
                raise UsageError(f"{place} is no kernel of tileprof", hint=_ADVICE)
            if held["version"] > _VERSION:
                raise UsageError(
                    f"{place} was written by a later version of tileprof", hint="Update tileprof."
                )
            if held["version"] < _VERSION and _reports(held):
                raise UsageError(
                    f"{place} was written by an earlier version of tileprof, and its kernel checks"
                    " indices, asserts or prints",
                    hint=_ADVICE,
                )
            images = {v["image"]: archive.read(v["image"]) for v in held["variants"]}
            return SavedKernel(_File(place, held, archive.read(_IR).decode(), images))
    except FileNotFoundError:
        raise UsageError(f"there is no file {place}", hint="Check the path.") from None
    except UsageError:
        raise
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError, TileprofError) as error:
        raise UsageError(f"{place} is no kernel of tileprof, or damaged", hint=_ADVICE) from error


def _reports(held: Mapping[str, Any]) -> bool:
    """Whether some launch has something to say to the host."""
    launches = [launch for variant in held["variants"] for launch in variant["launches"]]
    return any(a["kind"] == "report" for launch in launches for a in launch["arguments"])
