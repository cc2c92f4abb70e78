"""Profiles that several tests share."""

from __future__ import annotations

import math
import zlib
from dataclasses import replace

from tileprof.errors import Location
from tileprof.profile import (
    CounterSeries,
    DeviceInfo,
    DevicePeak,
    InstructionCounts,
    KernelInfo,
    LaunchVariant,
    NumberArgument,
    Origin,
    PcBlame,
    PcFunction,
    PcInstruction,
    PcRecording,
    PcRows,
    PcSamples,
    Profile,
    SeriesMetric,
    SiteInfo,
    Sketch,
    Tables,
    TensorArgument,
    TreeBuilder,
)
from tileprof.profile.storage.ir_text import read
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import TurnedOff
from tileprof.remarks.copies import CpAsync
from tileprof.remarks.products import (
    ExtentMultiple,
    Float32Operands,
    GemmInstruction,
    InstructionCandidate,
    Several,
    Tf32Rounds,
)

MATMUL = """kernel @matmul(%A: global<m, 64, float16>, %C: out global<64, float32>) symbols(%m) {
  %c8 = constant 8 : index
  launch [%c8] {threads = [128], hints = [[order, row]]} body(%bx: index) {
    %tile = view %A, [%bx] {sizes = [1, 64], in_bounds = true} : global<1, 64, float16>
    %top = constant -1.5 : float32
  }
}
"""
"""The program of a kernel, as text."""


def full_profile() -> Profile:
    """Return a profile with something in every table."""
    builder = TreeBuilder()
    macro = Location("m.py", 2, 4, 2, 9, "helper", caller=Location("m.py", 9, function="matmul"))
    top = builder.child(-1, "frame", "main", Location("m.py", 20, function="main"))
    kernel = builder.child(top, "kernel", "matmul", Location("m.py", 8, function="matmul"))
    site = builder.child(kernel, "site", "load", macro, "forward")
    builder.add(kernel, "time", 1500)
    builder.add(kernel, "time_min", 700.5)
    builder.add(kernel, "count", 2)
    builder.sketch(kernel, "time", Sketch.of([700, 800]))
    builder.add(site, "count", 2)
    builder.add(site, "flops", 0.5)
    info = KernelInfo(
        name="matmul",
        device="cpu",
        ir=MATMUL,
        program=read(MATMUL),
        source="def matmul(): ...",
        source_file="m.py",
        source_line=8,
        code="void matmul() {}",
        code_language="cpp",
        remarks=(
            Remark(
                GemmInstruction("mma", "m16n8k16 warps=2x2", tf32=True),
                "gemm",
                "",
                macro,
                (
                    Rejection(InstructionCandidate("wgmma"), ExtentMultiple("M", 32, 64)),
                    Rejection(Float32Operands(), Several((Tf32Rounds(), TurnedOff()))),
                ),
                "missed",
            ),
            Remark(CpAsync(16), "copy", "A → A_shared"),
        ),
        sites=(SiteInfo(0, "load", "scope", macro), SiteInfo(1, "mma", "op", None, 0)),
        attributes={"threads": 128, "occupancy": 0.5, "target": "x86-64", "hash": 2**64 - 1},
    )
    tables = Tables(
        kernels=(info, KernelInfo("unused", "interpreter")),
        node_kernels={kernel: 0},
        sources={"m.py": "def main(): ...\n", "naïve.py": "# ×\n"},
        provenance={"command": "tileprof run m.py", "git": "abc (dirty)"},
        devices=(
            DeviceInfo("cuda:0", "NVIDIA H200", 9, 0, 132, 150_000_000_000, 1980.0, 3201.0, "13.0"),
        ),
        device_peaks=(
            DevicePeak(
                "cuda:0",
                "GPU-1",
                "2026-11-20",
                "hbm_copy",
                4.2e12,
                "bytes/s",
                4.3e12,
                0.002,
                1980.0,
                "bytes / time",
            ),
            DevicePeak(
                "cuda:0",
                "GPU-1",
                "2026-11-20",
                "launch_gap",
                1200.5,
                "ns",
                1150.0,
                0.01,
                0.0,
                "time / launches",
            ),
        ),
        pc=replace(pc_samples(kernel), counts=instruction_counts()),
        series=(
            CounterSeries.of(
                "cuda:0",
                200_000,
                [1_000, 201_000, 900_000],
                [200_000, 200_000, 200_000],
                (SeriesMetric("dram_use", "share"), SeriesMetric("dram_read", "bytes/s")),
                [[0.5, 0.25, math.nan], [2e12, 1e12, 0.0]],
            ),
        ),
        launches=(
            LaunchVariant("none", Location("m.py", 4), 1, 2, ()),
            LaunchVariant(
                "scale",
                Location("m.py", 7),
                8,
                0,
                (
                    TensorArgument("x", "bfloat16", 2**40, 2, 0, Origin("fill", 6, "out")),
                    NumberArgument("part", -1.5, 7.0),
                    TensorArgument("out", "float32", 0, 4, 1),
                ),
            ),
        ),
    )
    return builder.snapshot(tables)


def pc_samples(node: int) -> PcSamples:
    """Return samples of a function with code at a kernel's node, and of one without."""
    inlined = Location("m.py", 2, function="helper", caller=Location("m.py", 9, function="matmul"))
    code = (
        PcInstruction(0, "S2R R0, SR_TID.X", Location("m.py", 9, function="matmul")),
        PcInstruction(16, "LDG.E R4, [R2.64]", inlined, 1),
        PcInstruction(32, "FADD R4, R4, R4", inlined, 1),
        PcInstruction(48, "EXIT"),
    )
    matmul = PcFunction(
        "_Z6matmulPf", "matmul(float*)", "ab" * 32, "sm_90a", code,
        (PcBlame(32, "long_scoreboard", 16, "R4, scoreboard 0"),),
    )  # fmt: skip
    library = PcFunction("gemm_kernel", "gemm_kernel", note="its cubin is not known")
    return PcSamples(
        (matmul, library),
        ("selected", "long_scoreboard", "long_scoreboard_not_issued"),
        PcRows.typed([0, 0, 0, 1], [16, 32, 32, 64], [0, 1, 2, 1], [node, node, node, -1],
                     [3, 90, 60, 7]),
        (PcRecording(4096, "exact", 160, dropped=2, non_user=1),),
        {"ab" * 32: zlib.compress(b"ELF")},
    )  # fmt: skip


def instruction_counts() -> InstructionCounts:
    """Return counts of the functions of `pc_samples`, in one run."""
    metrics = ("executions", "global_requests")
    return InstructionCounts.added(
        metrics, [metrics], [0, 0, 0, 1], [16, 16, 32, 64], [0, 1, 0, 0], [10, 10, 2**40, 5]
    )
