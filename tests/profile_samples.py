"""Profiles that several tests share."""

from __future__ import annotations

from tileprof.errors import Location
from tileprof.profile import KernelInfo, Profile, RemarkInfo, SiteInfo, Sketch, Tables, TreeBuilder


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
        ir="kernel @matmul {}",
        source="def matmul(): ...",
        source_file="m.py",
        source_line=8,
        code="void matmul() {}",
        code_language="cpp",
        remarks=(
            RemarkInfo(
                "gemm", macro, "blocked", (("blas", "odd shape"), ("amx", "none")), "missed"
            ),
            RemarkInfo("copy", None, "vector"),
        ),
        sites=(SiteInfo(0, "load", "scope", macro), SiteInfo(1, "mma", "op", None, 0)),
        attributes={"threads": 128, "occupancy": 0.5, "target": "x86-64", "hash": 2**64 - 1},
    )
    tables = Tables(
        kernels=(info, KernelInfo("unused", "interpreter")),
        node_kernels={kernel: 0},
        sources={"m.py": "def main(): ...\n", "naïve.py": "# ×\n"},
        provenance={"command": "tileprof run m.py", "git": "abc (dirty)"},
    )
    return builder.snapshot(tables)
