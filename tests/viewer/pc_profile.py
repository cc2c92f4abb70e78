"""A profile with samples of program counters, written by hand: a loop that waits, a library."""

from __future__ import annotations

from tests.viewer.samples import node, profile_of
from tileprof.errors import Location
from tileprof.profile import (
    PcBlame,
    PcFunction,
    PcInstruction,
    PcRecording,
    PcRows,
    PcSamples,
    Profile,
    Tables,
)

SOURCE = """\
__global__ void scale(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k++)
    sum += square(a[i + k]);
  b[i] = sum;
}
"""
FILE = "/w/scale.cu"
STALLS = ("selected", "long_scoreboard", "long_scoreboard_not_issued", "wait", "imc_miss", "odd")

_LOAD = Location(FILE, 5, function="scale(float const*, float*, int)")
_SQUARE = Location("/lib/math.cuh", 40, function="square(float)", caller=_LOAD)


def _at(line: int) -> Location:
    return Location(FILE, line, function="scale(float const*, float*, int)")


CODE = (
    PcInstruction(0x00, "LDC R1, c[0x0][0x28]", _at(1)),
    PcInstruction(0x10, "S2R R0, SR_TID.X", _at(2)),
    PcInstruction(0x20, "S2UR UR4, SR_CTAID.X", _at(2)),
    PcInstruction(0x30, "IMAD R0, R3, UR4, R0", _at(2)),
    PcInstruction(0x40, "MOV R5, RZ", _at(3)),
    PcInstruction(0x50, "LDG.E R4, desc[UR6][R2.64]", _LOAD, 1),
    PcInstruction(0x60, "IADD3 R7, R7, 0x1, RZ", _at(4), 1),
    PcInstruction(0x70, "FFMA R5, R4, R4, R5", _SQUARE, 1),
    PcInstruction(0x80, "ISETP.GE.AND P0, PT, R7, R8, PT", _at(4), 1),
    PcInstruction(0x90, "@!P0 BRA 0x50", _at(4), 1),
    PcInstruction(0xA0, "STG.E desc[UR6][R10.64], R5", _at(6)),
    PcInstruction(0xB0, "EXIT", _at(7)),
)
BLAMES = (
    PcBlame(0x70, "long_scoreboard", 0x50, "R4, scoreboard 0"),
    PcBlame(0x70, "wait", 0x50, "R4, scoreboard 0"),
    PcBlame(0x90, "wait", 0x80, "P0"),
)
ROWS = (
    (0, 0x00, "imc_miss", 12), (0, 0x50, "selected", 400), (0, 0x60, "wait", 30),
    (0, 0x70, "long_scoreboard", 8200), (0, 0x70, "long_scoreboard_not_issued", 6000),
    (0, 0x70, "wait", 1000), (0, 0x70, "selected", 300), (0, 0x90, "wait", 150),
    (0, 0x90, "odd", 20), (0, 0xC8, "selected", 3), (1, 0x40, "long_scoreboard", 800),
    (1, 0x140, "selected", 40), (2, 0x0, "selected", 9),
)  # fmt: skip


def pc_profile(**provenance: str) -> Profile:
    """Two kernels in 10 ms; 10,964 samples, 90 % of them in the first."""
    columns = zip(*((f, offset, STALLS.index(stall), -1, n) for f, offset, stall, n in ROWS))
    held = PcSamples(
        (
            PcFunction(
                "_Z5scalePKfPfi", "scale(float const*, float*, int)", "ab" * 32, "sm_90a", CODE,
                BLAMES,
            ),
            PcFunction("library_gemm", "library_gemm", note="its cubin is not known"),
            PcFunction("tiny", "tiny", note="its cubin is not known"),
        ),
        STALLS,
        PcRows.typed(*columns),
        (PcRecording(4096, "continuous", 11_000, dropped=36),),
    )  # fmt: skip
    return profile_of(
        node("kernel", "scale(float const*, float*, int)", time=9_000_000, count=1),
        node("kernel", "library_gemm", time=1_000_000, count=1),
        tables=Tables(pc=held, sources={FILE: SOURCE}, provenance=provenance),
    )
