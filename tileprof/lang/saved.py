"""Compiled kernels as files: `kernel.save(path)` and `tileprof.load_kernel(path)`.

A file is a zip archive: `kernel.json` (version, signature, launches, remarks, digests of the other
members), `kernel.ir` (the program after all passes) and the machine code of each variant.  A kernel
from a file runs on a GPU without the source that it was written in, without a compiler and without
NVRTC.

A file is code, as a wheel is: whoever wrote it decides what runs.  So files that others can write
are refused, bounds are proved anew and never believed, and everything that a file says is compared
with its program (`untrusted`, `images`, `cuda_file`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprof import ir
from tileprof.compiler import Options, Program
from tileprof.compiler.remarks import refuse_missed
from tileprof.compiler.untrusted import prove_anew
from tileprof.errors import ArgumentError, OutputError, TileprofError, UsageError
from tileprof.files import file_risk, folder_risk, is_own, replace_file
from tileprof.remarks.older import with_codes
from tileprof.runtime import hooks
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.launch import LoadedKernel, load
from tileprof.runtime.typed_json import read_as

from .calls import Variant
from .compiled import Kernel
from .trace import Evaluator, Traced

_VERSION = 4
"""1: the report of a kernel had no word for notes.  2: no digests."""
_JSON, _IR = "kernel.json", "kernel.ir"
_ADVICE = "Write it anew with `kernel.save(path)`."
_TRUST = "Copy it to a folder of your own, or pass `trust=True` if you trust all who can write it."

MOST_FILE_BYTES = 256 << 20
"""Bytes of a file.  Each variant takes 10 to 200 kB."""
MOST_MEMBERS = 64
MOST_TEXT_BYTES = 16 << 20
"""Bytes of `kernel.json` and of `kernel.ir`, uncompressed."""
MOST_BYTES = 512 << 20
"""Bytes of all members, uncompressed."""
MOST_EXTENT = 1 << 48
"""Extents that proofs of bounds assume; what a file computes has to be below."""


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
    members = {_IR: ir.print_kernel(program.kernel).encode(), **images}
    held["sha256"] = {name: hashlib.sha256(each).hexdigest() for name, each in members.items()}
    place = Path(path)
    try:
        with replace_file(place) as file:
            # Nobody else may write what `load_kernel` runs, whatever the umask is.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and mode & 0o022:
                os.chmod(file.fileno() if os.chmod in os.supports_fd else file.name, mode & ~0o022)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_JSON, json.dumps(held, indent=1))
                for name, content in members.items():
                    archive.writestr(name, content)
    except OSError as error:
        raise OutputError(
            f"the kernel cannot be written to {place}: {error.strerror or error}",
            hint="Choose a folder that exists and can be written.",
        ) from error


def _default_target() -> str:
    from tileprof.runtime.cuda.device import find_device

    try:
        return find_device(0).target.name
    except TileprofError:
        return "sm_90a"


def _variants(program: Program, target: str, images: dict[str, bytes]) -> list[dict[str, Any]]:
    """Return the variant for aligned tensors that do not overlap and the one for all others; sm_80
    also as PTX, which drivers finish for later GPUs.
    """
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target
    from tileprof.runtime.cuda.binary_file import write_binary

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
    """Return how an extent follows from others, in the text form of the IR."""
    from tileprof.runtime.cuda.host_values import HostProgram

    evaluator = traced.derived[name]
    assert isinstance(evaluator, Evaluator)
    return ir.print_kernel(HostProgram.of(traced.kernel, [evaluator.value]).kernel)


# -- reading


class SavedKernel(Kernel):
    """A kernel from a file; it is called as the kernel that was saved."""

    def __init__(self, file: _File) -> None:
        self._saved = SavedVariant(file)
        super().__init__(
            file.kernel.name,
            lambda given: file.traced,
            _no_source,
            names=file.traced.params,
            options=file.program.options,
        )

    def _variant(self, strided: frozenset[str]) -> Variant:
        return self._saved


class SavedVariant(Variant):
    """A variant of a saved kernel, made ready on the device of a call."""

    __slots__ = ("_file",)

    def __init__(self, file: _File) -> None:
        super().__init__(file.traced, file.program.options)
        self._file = file

    def program(self, instrument: hooks.Instrument = "off") -> Program:
        """Return the kernel as it was saved."""
        return self._file.program

    def loaded(self, device: str, instrument: hooks.Instrument) -> LoadedKernel:
        """Return the kernel ready on a device; on the host it is compiled, or interpreted."""
        if not device.startswith("cuda"):
            return super().loaded(device, "off")
        key = (device, "off")
        return self._loaded.made(
            key, lambda: load(self._file.program, device, self._file.builder(device))
        )


def _no_source(arguments: Mapping[str, Any]) -> tuple[Any, BaseException | None]:
    return None, UsageError(
        "a kernel from a file cannot run as plain Python",
        hint="Unset TILEPROF_DEBUG, or call the function that it was compiled from.",
    )


@dataclass(frozen=True, slots=True)
class _Signature:
    """Content of `kernel.json` besides its variants."""

    arguments: tuple[str, ...]
    returned: tuple[int, ...]
    derived: dict[str, str]


class _File:
    """Content of a file that `save` wrote, checked."""

    def __init__(self, path: Path, members: Mapping[str, bytes]) -> None:
        self.path = path
        held = _stated(path, members)
        self.kernel = prove_anew(ir.parse(members[_IR].decode(), file=str(path)))
        self._binaries: list[tuple[bool, bool, Any]] = []
        for variant in held["variants"]:
            self._binaries.append(_binary(variant, members, self.kernel))
        if not self._binaries:
            raise ValueError("it has no variant")
        if held["version"] < 2 and any(_reports(binary) for _, _, binary in self._binaries):
            raise UsageError(
                f"{path} was written by an earlier version of tileprof, and its kernel checks"
                " indices, asserts or prints",
                hint=_ADVICE,
            )
        controls = self._binaries[0][2].controls
        self.program = Program(self.kernel, self.kernel, Options(controls=controls))
        fields = {name: held.get(name) for name in ("arguments", "returned", "derived")}
        signature = read_as(_Signature, fields, _JSON)
        self.traced = _traced(self.kernel, signature)

    def builder(self, device: str) -> Callable[[Any], Any]:
        """Return the function that gives the binary of a variant on a device."""
        from tileprof.runtime.cuda.device import find_device

        found = find_device(int(device.removeprefix("cuda:")))
        target, ptx = found.target.name, found.from_ptx
        if not any(b.target == target for _, _, b in self._binaries):
            # What was saved for older GPUs runs on later ones, by way of PTX.
            target, ptx = "sm_80", found.capability[0] != 8
        fitting = {
            general: b
            for general, is_ptx, b in self._binaries
            if b.target == target and is_ptx == ptx
        }
        if set(fitting) != {False, True}:
            held = sorted({b.target for _, _, b in self._binaries})
            raise UsageError(
                f"{self.path} is for {', '.join(held)}, and {found.name} needs {found.target.name}",
                hint=f"Save it with `targets=[…, '{found.target.name}']`.",
            )
        return lambda need: fitting[bool(need[0]) or need[1]]


def _stated(path: Path, members: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the content of `kernel.json`; UsageError where it is of another format or version,
    ValueError where members are not those that it names."""
    held = json.loads(members[_JSON])
    if not isinstance(held, dict) or held.get("format") != "tileprof kernel":
        raise UsageError(f"{path} is not a kernel of tileprof", hint=_ADVICE)
    version = read_as(int, held.get("version"), "version")
    if version > _VERSION:
        raise UsageError(
            f"{path} was written by a later version of tileprof", hint="Update tileprof."
        )
    if not isinstance(held.get("variants"), list):
        raise ValueError("it has no list of variants")
    if version < 4:
        _with_codes(held["variants"])
    if version >= 3:
        digests = read_as(dict[str, str], held.get("sha256"), "sha256")
        for name, content in members.items():
            if name != _JSON and digests.get(name) != hashlib.sha256(content).hexdigest():
                raise ValueError(f"`{name:.80}` is not what was saved with it")
    return held


def _with_codes(variants: list[Any]) -> None:
    """Give remarks of earlier versions, which are sentences, the codes that carry these."""
    for each in variants:
        if isinstance(each, dict) and isinstance(each.get("remarks"), list):
            each["remarks"] = [with_codes(remark) for remark in each["remarks"]]


def _binary(
    held: Any, members: Mapping[str, bytes], kernel: ir.Kernel
) -> tuple[bool, bool, CudaBinary]:
    """Return a variant: whether it is the general one, whether it is PTX, and its binary."""
    from tileprof.compiler.cuda.images import check_image
    from tileprof.runtime.cuda.binary_file import read_binary
    from tileprof.runtime.cuda.launch import layout_of

    if not isinstance(held, dict):
        raise ValueError("a variant is not an object")
    general, ptx = (read_as(bool, held.get(name), name) for name in ("general", "ptx"))
    image = members.get(read_as(str, held.get("image"), "image"))
    if image is None:
        raise ValueError("a variant has no machine code")
    made = read_binary(held, image, kernel)
    layouts = {spec.function: layout_of(kernel, spec) for spec in made.launches}
    check_image(image, made.target, ptx, layouts)
    return general, ptx, made


def _traced(kernel: ir.Kernel, signature: _Signature) -> Traced:
    """Return the kernel with its signature; ValueError where a call could not be made of it."""
    inputs = [p for p in kernel.params if p.role == "in"]
    if sorted(signature.arguments) != sorted(p.name for p in inputs):
        raise ValueError("its arguments are not those of its program")
    if not all(0 <= at < len(kernel.params) for at in signature.returned):
        raise ValueError("it returns what it does not have")
    types = [p.type for p in inputs if isinstance(p.type, ir.BufferType)]
    bound = {d for t in types for d in (*t.shape, *(t.strides or ()))} | {*signature.derived}
    if not bound.issuperset(kernel.symbols) or not {*signature.derived} <= {*kernel.symbols}:
        raise ValueError("its extents do not follow from its arguments")
    if any(isinstance(p.type, ir.DType) and p.role == "out" for p in kernel.params):
        raise ValueError("an output is not an array")
    derived = {n: _evaluator(n, text, kernel) for n, text in signature.derived.items()}
    return Traced(kernel, derived, signature.returned, signature.arguments)


def _evaluator(
    name: str, text: str, kernel: ir.Kernel
) -> Callable[[Sequence[Any], Mapping[str, int]], int]:
    from tileprof.runtime.cuda.host_values import HostProgram, check_host

    parsed = ir.parse(text)
    check_host(parsed, kernel)
    if [v.type for v in parsed.body.ops[-1].operand_values()] != [ir.index]:
        raise ValueError(f"extent `{name:.80}` is computed as something else")
    program, names = HostProgram(parsed), parsed.symbols

    def evaluate(values: Sequence[Any], known: Mapping[str, int]) -> int:
        # A symbol that is not known yet is none that this one follows from.
        found = int(program.run(values, [known.get(n, 0) for n in names])[0])
        if not 0 <= found < MOST_EXTENT:
            raise ArgumentError(
                f"extent `{name}` of `{kernel.name}` would be {found}",
                hint="It follows from the arguments: check their shapes.",
            )
        return found

    return evaluate


def load_kernel(path: str | Path, *, trust: bool = False) -> Kernel:
    """Load a kernel that `kernel.save(path)` wrote, and return it, to be called with arrays.

    The file is code. It is refused if somebody else could have written it: if it belongs to a user
    other than you or root, or if others can write to it or replace it in its folder. `trust=True`
    skips this check. UsageError for a file that is refused, missing, damaged, or from an
    incompatible version.
    """
    place = Path(path)
    try:
        return SavedKernel(_File(place, _members(read_trusted(place, trust))))
    except FileNotFoundError:
        raise UsageError(f"there is no file {place}", hint="Check the path.") from None
    except UsageError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"{place} cannot be read: {why}", hint="Check the path.") from None
    except KeyError as error:
        raise _damaged(place, f"it lacks {error}") from None
    except RecursionError:
        raise _damaged(place, "what it holds nests too deeply") from None
    except TileprofError as error:
        raise _damaged(place, error.message) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise _damaged(place, str(error)) from None


def _damaged(place: Path, why: str) -> UsageError:
    return UsageError(f"{place} is not a kernel of tileprof, or damaged: {why:.400}", hint=_ADVICE)


def read_trusted(place: Path, trust: bool) -> bytes:
    """Return the bytes of a file; UsageError where others could have written them, unless `trust`
    says that these are trusted; ValueError for what is no file, OSError."""
    # What is no file, such as a pipe, is not waited for.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(place, flags), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a file")
        if not trust:
            risk = file_risk(found)
            why = f"{place} {risk}" if risk else _folder_risk(place)
            if why:
                raise UsageError(
                    f"{place} may come from somebody else, and a saved kernel is code: {why}",
                    hint=_TRUST,
                )
        content = file.read(MOST_FILE_BYTES + 1)
    if len(content) > MOST_FILE_BYTES:
        raise ValueError(f"it has more than {MOST_FILE_BYTES:,} bytes")
    return content


def _folder_risk(place: Path) -> str:
    """Why others could put another file in the place of this one; '' where they cannot.  In a
    sticky folder, such as /tmp, only the owner of a file can."""
    folder = os.path.dirname(os.path.realpath(place))
    found = os.stat(folder)
    if found.st_mode & stat.S_ISVTX and is_own(found):
        return ""
    return folder_risk(folder)


def _members(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive, within limits; ValueError or what `zipfile` raises
    elsewhere.
    """
    made: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        if len(infos) > MOST_MEMBERS:
            raise ValueError(f"it has {len(infos):,} members")
        if len({each.filename for each in infos}) < len(infos):
            raise ValueError("two members have one name")
        left = MOST_BYTES
        for each in infos:
            if each.flag_bits & 1:
                raise ValueError("it is encrypted")
            if each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is compressed in a way that `kernel.save` does not use")
            limit = min(left, MOST_TEXT_BYTES if each.filename in (_JSON, _IR) else left)
            with archive.open(each) as member:
                # What the archive says of sizes is not believed.
                found = member.read(limit + 1)
            if len(found) > limit:
                raise ValueError(f"`{each.filename:.80}` is larger than {limit:,} bytes")
            left -= len(found)
            made[each.filename] = found
    return made


def _reports(binary: CudaBinary) -> bool:
    """Return whether some launch has something to say to the host."""
    return any(each.kind == "report" for spec in binary.launches for each in spec.arguments)
