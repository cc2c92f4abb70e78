"""Machine code of the bodies, and whether each kernel has the instruction that it is about."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.access_patterns.bodies import BODIES, kernel_of, text
from tileprof import binary
from tileprof.compiler.cuda import nvrtc

ARCHITECTURE = "sm_90a"
_MEMORY = ("LDG", "LDS", "LDL", "STG", "STS", "STL", "ATOM", "RED", "UTMA", "UBLKCP")
"""Starts of the names of instructions that counters could see."""
_WAITS = ("LDGDEPBAR", "UTMACMDFLUSH")
"""Names that begin so, too, of instructions that access nothing."""


def compiled(copies: Mapping[str, str] | None = None) -> bytes:
    """Return the machine code of all kernels, and of `copies` of some, by name with their body;
    SystemExit with what the compiler says."""
    options = (f"--gpu-architecture={ARCHITECTURE}",)
    made = nvrtc.compile_text(text(BODIES, copies), (), options, name="patterns.cu")
    if not made.ok:
        raise SystemExit(made.log)
    return made.cubin


def unexpected(cubin: bytes) -> list[str]:
    """Return which kernels lack their instruction, or have others that access memory."""
    functions = binary.read(cubin).functions
    found = []
    for name, body in BODIES.items():
        code = [
            each.opcode
            for each in functions[kernel_of(name)].instructions
            # ptxas puts three loads that no lane makes before a copy by cp.async.
            if not each.never_executes and each.opcode.startswith(_MEMORY)
            and each.opcode not in _WAITS
        ]  # fmt: skip
        meant = [each for each in code if _is(each, body.opcode)]
        others = [each for each in code if not _is(each, body.opcode, *_beside(name))]
        if len(meant) != body.times or others:
            found.append(f"{name}: {', '.join(code) or 'none'} in place of {body.opcode}")
    return found


def _is(opcode: str, *names: str) -> bool:
    """Return whether an instruction has one of the names, with further modifiers or without."""
    return any(opcode == each or opcode.startswith(each + ".") for each in names)


def _beside(body: str) -> tuple[str, ...]:
    """Return what a body has beside its instruction."""
    if body.startswith("local"):
        return ("STL",)
    # Shared memory lacks some additions: they are a load, and an exchange that is tried again.
    return ("LDS",) if BODIES[body].opcode.startswith("ATOMS.CAST") else ()
