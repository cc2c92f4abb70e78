"""Trial compiles of configurations: what each asks of the machine, or why it cannot be compiled.

In: a kernel as it was traced with a configuration, the lowering controls, a target.  Out: its
facts, or a `Refused` with the resource that there is too little of.  A trial needs no GPU and no
state of the process, so `workers` runs it in processes of their own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.compiler import Options, compile_kernel
from tileprof.compiler.cuda.controls import Controls
from tileprof.errors import MissingDependencyError, Resource, TileprofError, TooLarge
from tileprof.runtime.cuda.binary import CudaBinary

from .facts import KernelFacts
from .reading import facts_of


@dataclass(frozen=True, slots=True)
class Order:
    """One trial."""

    kernel: ir.Kernel
    """The kernel as it was traced."""
    controls: Controls
    target: str
    """Name of a GPU's target; '' for the processor."""
    sms: int
    """Multiprocessors of the device that traffic is counted for."""
    compiled: bool
    """Whether machine code is made."""
    binary: bool = False
    """Whether the machine code is wanted too, to be run."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A configuration that cannot be compiled."""

    message: str
    hint: str
    resource: Resource | None = None
    """Resource that there is too little of; None where the fault is another one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Findings of a trial."""

    facts: KernelFacts | None
    refused: Refused | None
    seconds: float
    compiled: bool
    """Whether the facts are those of machine code."""
    binary: CudaBinary | None = None


def tried(order: Order) -> Trial:
    """Compile as ordered; errors of the kernel are part of the result."""
    began = time.perf_counter()

    def trial(facts: KernelFacts | None, refused: Refused | None, compiled: bool) -> Trial:
        return Trial(facts, refused, time.perf_counter() - began, compiled)

    try:
        program = compile_kernel(order.kernel, Options(controls=order.controls))
        lowered = program.lowered(order.target) if order.target else None
        running = (order.sms,) if order.target else ()
        try:
            facts = facts_of(program, lowered, compiled=order.compiled, running=running)
            made = trial(facts, None, order.compiled and lowered is not None)
            if order.binary and lowered is not None:
                binary = CudaBinary.of(program.kernel, lowered, ptx=False).settled()
                made = replace(made, binary=binary)
            return made
        except MissingDependencyError:
            # Without NVRTC registers are an estimate.
            facts = facts_of(program, lowered, compiled=False, running=running)
            return trial(facts, None, False)
    except TooLarge as error:
        return trial(None, Refused(error.message, error.hint, error.resource), False)
    except TileprofError as error:
        return trial(None, Refused(error.message, error.hint), False)
    except Exception as error:
        # A fault of the compiler about one configuration is no reason to give up on all others.
        fault = Refused(f"a fault of the compiler: {type(error).__name__}: {error}", "")
        return trial(None, fault, False)
