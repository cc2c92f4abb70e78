"""A kernel for a GPU with all that a launch needs, as plain data that can be written to a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.source import LaunchSpec
from tileprof.remarks import Remark

from .host_values import HostProgram
from .records.comparison import Comparison, compare

if TYPE_CHECKING:
    from tileprof.compiler.cuda.pipeline import CudaProgram


@dataclass(frozen=True, slots=True)
class CudaBinary:
    """Machine code or PTX, its launches, and what the host computes for them."""

    image: bytes
    """A cubin, or PTX that ends with a zero byte."""
    launches: tuple[LaunchSpec, ...]
    """Launches without the values of their grids, which `host` computes."""
    places: tuple[Place, ...]
    host: HostProgram
    """Gives the host values, then the extents of the grid of each launch."""
    axes: tuple[int, ...]
    """Extents of the grid of each launch."""
    target: str
    text: str = ""
    """The CUDA C++ that it was made from."""
    decided: tuple[Remark, ...] | Callable[[], tuple[Remark, ...]] = ()
    """The remarks, or what reads them from the messages of the assembler."""
    controls: Controls = field(default_factory=Controls)
    """Controls of the lowering."""
    sites: tuple[ir.Site, ...] = ()
    """Sites that its marks measure; `states` are what the marks name by position."""
    states: tuple[ir.State, ...] = ()
    compare: Callable[[], Comparison] | None = None
    """Tells what its marks cost beside the same kernel without them; compiles that one."""

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Return the compiler's decisions, and remarks from the binary."""
        return self.decided if isinstance(self.decided, tuple) else self.decided()

    def remarking(self, remark: Remark) -> CudaBinary:
        """Return the same with one more remark, in front."""
        before = self.decided
        return replace(
            self, decided=lambda: (remark, *(before if isinstance(before, tuple) else before()))
        )

    def settled(self) -> CudaBinary:
        """Return the same as values alone, for another process: its remarks are read now, and
        nothing is compared."""
        return replace(self, decided=self.remarks, compare=None)

    @classmethod
    def of(
        cls,
        kernel: ir.Kernel,
        program: CudaProgram,
        *,
        ptx: bool,
        clean: Callable[[], CudaProgram] | None = None,
    ) -> CudaBinary:
        """Return the binary of a compiled program; as PTX where the driver is to finish it.
        `clean` gives the same program without marks."""
        source = program.source
        results = [*source.host, *(v for launch in source.launches for v in launch.grid)]
        return cls(
            _ptx(program) if ptx else program.cubin.bytes,
            source.launches,
            source.places,
            HostProgram.of(program.kernel, results),
            tuple(len(launch.grid) for launch in source.launches),
            program.target.name,
            source.text,
            program.remarks if ptx else lambda: program.all_remarks,
            program.controls,
            source.sites,
            source.states,
            None if ptx or clean is None or not source.states else partial(compare, program, clean),
        )


def _ptx(program: CudaProgram) -> bytes:
    from tileprof.compiler.cuda.build import compile_ptx

    text = compile_ptx(program.source, program.target, program.controls)
    return text.rstrip("\0").encode() + b"\0"
