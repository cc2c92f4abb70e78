"""A compiled kernel on a device, and what happens at each of its launches."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tileprof import ir
from tileprof.compiler import Mode, Program
from tileprof.compiler.remarks import refuse_missed
from tileprof.compiler.work import Work
from tileprof.errors import (
    BuildError,
    InternalError,
    KernelError,
    Location,
    TileprofError,
    source_lines,
)
from tileprof.instrument import strip
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import OtherReason
from tileprof.remarks.measured import BatchedBlocks, DoesNotCompile, Samples, Unmeasured

from . import hooks
from .device import Executable, RunResult
from .hooks import KernelDescription, LateDescription, SiteDescription
from .selection import gpu_number

if TYPE_CHECKING:
    from tileprof.compiler.cuda.pipeline import CudaProgram

    from .cuda.binary import CudaBinary
    from .cuda.device import CudaDevice
    from .cuda.executable import CudaExecutable, Need

_MAX_WORK = 1024


def load(
    program: Program, device: str, build: Callable[[Need], CudaBinary | None] | None = None
) -> LoadedKernel:
    """Make a program ready on `cpu`, `cuda:N` or `interpreter`; `build` gives what is compiled for
    a GPU already, None for a need that it has nothing for."""
    if device.startswith("cuda:"):
        return LoadedKernel(program, device, _on_cuda(program, device, build))
    match device:
        case "cpu":
            from .cpu.executable import CpuExecutable

            if program.options.strict:
                refuse_missed(program.remarks)
            return LoadedKernel(program, device, CpuExecutable(program.kernel, program.cpp))
        case "interpreter":
            from .interpreter import InterpreterExecutable

            strict = os.environ.get("TILEPROF_CHECK") == "1"
            executable = InterpreterExecutable(program.kernel, strict_bounds=strict)
            return LoadedKernel(program, device, executable)
        case _:
            raise InternalError(f"there is no device `{device}`")


def _on_cuda(
    program: Program, name: str, build: Callable[[Need], CudaBinary | None] | None
) -> Executable:
    from .cuda.device import find_device
    from .cuda.executable import CudaExecutable

    device = find_device(gpu_number(name))

    def compiled(need: Need) -> CudaBinary:
        if program.options.instrument == "off":
            return _binary(program, device, need, "off")
        try:
            return _binary(program, device, need, program.options.instrument)
        except (KernelError, BuildError) as error:
            # If it is the kernel's own fault, this says so again.
            made = _binary(program, device, need, "off")
            return made.remarking(_not_measured(program.kernel, error))

    def made(need: Need) -> CudaBinary:
        return (build(need) if build is not None else None) or compiled(need)

    return CudaExecutable(program.kernel, made, device)


def _binary(program: Program, device: CudaDevice, need: Need, instrument: Mode) -> CudaBinary:
    from tileprof.compiler.cuda.pipeline import compile_cuda

    from .cuda.binary import CudaBinary

    unaligned, aliased = need
    options = program.options

    def lowered(instrument: Mode) -> CudaProgram:
        return compile_cuda(
            program.kernel, device.target, options.controls, unaligned, aliased=aliased,
            instrument=instrument,
        )  # fmt: skip

    made = lowered(instrument)
    # What slices and overlapping tensors cannot have is no fault of the kernel, nor is what marks
    # do to its registers.
    if options.strict and need == (frozenset(), False):
        refuse_missed(made.all_remarks if instrument == "off" else made.remarks)
    return CudaBinary.of(program.kernel, made, ptx=device.from_ptx, clean=lambda: lowered("off"))


def _not_measured(kernel: ir.Kernel, error: TileprofError) -> Remark:
    rejected = Rejection(DoesNotCompile(), OtherReason(error.message))
    return Remark(Unmeasured(), "measurement", "", kernel.location, (rejected,), "missed")


class LoadedKernel:
    """One variant of a kernel on one device."""

    __slots__ = (
        "_only_work", "_recording", "_scalars", "_work", "device", "executable", "key", "location",
        "name", "program",
    )  # fmt: skip

    def __init__(self, program: Program, device: str, executable: Executable) -> None:
        self.program = program
        self.device = device
        self.executable = executable
        self.name = program.kernel.name
        self.location = program.kernel.location
        self.key: Hashable = object()
        """Identity of the variant."""
        self._recording = _recording(executable)
        """The executable, where its launches can write about their inside."""
        self._work: dict[tuple[Any, ...], Work] = {}
        self._only_work: Work | None = None
        """The work of a kernel that depends on no symbol and no scalar, once it is known."""
        self._scalars = [
            (at, p.name)
            for at, p in enumerate(program.kernel.params)
            if not isinstance(p.type, ir.BufferType)
        ]

    def launch(self, values: Sequence[Any], symbols: Sequence[int]) -> RunResult:
        """Run to the end, and tell the listener where there is one (see `Executable.run`)."""
        listener = hooks.listener
        if listener is None:
            return self.executable.run(values, symbols)
        token = listener.begin(self)
        clock = hooks.clock
        start = clock()
        try:
            if self._recording is None:
                result = self.executable.run(values, symbols)
            else:
                result = self._recording.run(values, symbols, (listener.late, token))
        except BaseException:
            listener.abandon(token)
            raise
        wall = clock() - start
        work = self._only_work or self._work_of(values, symbols)
        listener.end(
            token,
            hooks.Launch(
                self,
                self.device,
                result.grid,
                result.blocks,
                result.time_ns,
                wall,
                work.flops,
                work.bytes,
                result.guarded,
                result.sites,
                result.samples,
            ),
        )
        return result

    def _work_of(self, values: Sequence[Any], symbols: Sequence[int]) -> Work:
        key = (*symbols, *(values[at] for at, _ in self._scalars))
        known = self._work.get(key)
        if known is None:
            if len(self._work) >= _MAX_WORK:
                self._work.clear()
            scalars = {name: values[at] for at, name in self._scalars}
            named = dict(zip(self.program.kernel.symbols, symbols, strict=True))
            known = self._work[key] = self.program.work.evaluate(scalars, named)
            if not key:
                self._only_work = known
        return known

    def info(self) -> KernelDescription:
        """Everything that a profile keeps about this variant."""
        kernel = self.program.kernel
        code, language, remarks = self._code()
        location = kernel.location
        own = strip(kernel) if self.device.startswith("cuda:") else kernel
        return KernelDescription(
            name=self.name,
            device=self.device,
            ir=ir.print_kernel(own),
            program=ir.plain_kernel(own),
            source=_source(location),
            source_file=location.file if location else "",
            source_line=location.line if location else 0,
            code=code,
            code_language=language,
            remarks=tuple(remarks),
            sites=_sites(self._sites()),
            attributes=self._attributes(),
            later=None if self._recording is None else partial(self._later, len(self._sites())),
        )

    def _sites(self) -> Sequence[ir.Site]:
        """All that are known by now: a variant for other arguments may have more."""
        if self._recording is not None:
            return self._recording.sites.sites
        if self.device == "cpu":
            return self.program.cpp.sites
        return () if self.device.startswith("cuda:") else self.program.kernel.sites

    def _later(self, known: int) -> LateDescription:
        """Return facts that became known since the first `known` sites were described."""
        assert self._recording is not None
        compared, cost = self._recording.compared, self._recording.record_cost()
        remarks = self._recording.told()
        attributes: dict[str, str | int | float] = {}
        if cost is not None:
            remarks = [*cost.remarks(), *remarks]
            attributes["record_cycles"] = cost.cycles
        if compared is not None:
            remarks = [*compared.remarks(), *remarks]
            attributes |= compared.attributes()
        return LateDescription(tuple(remarks), _sites(self._sites()[known:]), attributes)

    def _attributes(self) -> dict[str, str | int | float]:
        binary: CudaBinary | None = getattr(self.executable, "binary", None)
        made: dict[str, str | int | float] = {"instrument": self.program.options.instrument}
        if binary is not None:
            made["target"] = binary.target
            if controls := str(binary.controls):
                made["controls"] = controls
        return made

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The compiler's decisions for its device."""
        return tuple(self._code()[2])

    @property
    def source(self) -> str:
        """The text that was compiled; '' where the kernel is interpreted."""
        return self._code()[0]

    def _code(self) -> tuple[str, str, Sequence[Remark]]:
        """Return the text that runs, its language, and the compiler's decisions."""
        if self.device == "cpu":
            return self.program.cpp.text, "cpp", self.program.remarks
        binary: CudaBinary | None = getattr(self.executable, "binary", None)
        if binary is None:
            return "", "python", [*self.program.remarks, *self._not_sampled()]
        return binary.text, "cuda", binary.remarks

    def _not_sampled(self) -> Sequence[Remark]:
        """Return the remark that a kernel which is interpreted is not sampled."""
        if self.program.options.instrument != "sample":
            return ()
        rejected = Rejection(Samples(), BatchedBlocks())
        return (Remark(Unmeasured(), "measurement", "", self.location, (rejected,), "missed"),)


def _recording(executable: Executable) -> CudaExecutable | None:
    return cast("CudaExecutable", executable) if getattr(executable, "records", False) else None


def _sites(sites: Sequence[ir.Site]) -> tuple[SiteDescription, ...]:
    return tuple(SiteDescription(s.id, s.name, s.kind, s.location, s.parent) for s in sites)


def _source(location: Location | None) -> str:
    if location is None:
        return ""
    lines = source_lines(location.file)
    return "".join(lines[location.line - 1 : max(location.end_line, location.line)])
