"""Reports for tests of their page: a small one, one with hostile names, one of 10,000 nodes."""

from __future__ import annotations

import numpy as np

from tests.analyzer.made import Made, program
from tests.viewer.pc_profile import FILE, pc_profile
from tests.viewer.samples import node, profile_of, with_children
from tileprof.analyzer import Evidence, Finding, Gain, Place, Report
from tileprof.analyzer.account import account
from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.report import Answers
from tileprof.analyzer.together import Claim
from tileprof.errors import Location
from tileprof.profile import (
    STANDARD,
    KernelInfo,
    Metric,
    PcFunction,
    PcInstruction,
    PcRecording,
    PcRows,
    PcSamples,
    Profile,
    Symbol,
    Tables,
    build,
)

__all__ = [
    "HOSTILE",
    "SCALE",
    "below_roofs",
    "finding",
    "hostile",
    "large",
    "report",
    "sited",
    "small",
]

SCALE = "scale(float const*, float*, int)"
HOSTILE = "</script><script>window.bad = 1</script><!-- <b onclick='bad()'>&amp; \u2028 \udc80"


def finding(severity: str = "suggestion", kernel: str = SCALE, line: int = 5) -> Finding:
    """A finding at a line of the profile by hand."""
    gain = Gain(1.5, 2.0, 4.0) if severity == "suggestion" else None
    return Finding(
        "made-up", severity, f"a {severity} at line {line}",  # type: ignore[arg-type] # of a test
        Place(kernel, (kernel,), "copy A → A_shared", Location(FILE, line), (0x50, 0x70)),
        (
            Evidence("static", "a load in a loop"),
            Evidence("samples", "90 % wait for it", 8200),
        ),
        "load it once, with `ld.v4`", "the pass gave up", "high", gain, gain,
    )  # fmt: skip


def report(profile: Profile, *findings: Finding) -> Report:
    """The report with these findings, whatever rules would say."""
    program = Program(profile)
    answers = tuple(
        Answers(case, tuple(f for f in findings if f.place.kernel == case.name), None)
        for case in program.kernels
    )
    claims = [
        Claim(
            each, tuple(n for c in program.kernels if c.name == each.place.kernel for n in c.nodes)
        )
        for each in findings
        if each.severity == "suggestion"
    ]
    held = account(Contexts(program), claims)
    return Report(
        program, findings, answers, (("counters", "`tileprof run` counts", ("made-up",)),), held
    )


def small() -> Report:
    """Two kernels, samples of one, a suggestion and a warning."""
    profile = pc_profile(command="python train.py", device="cuda:0", **{"cuda:0": "NVIDIA H200"})
    return report(profile, finding(), finding("warning", "library_gemm", 6))


def below_roofs() -> Report:
    """Two kernels whose work is known, and what their device does at most."""
    kernels = (
        Made("matmul", metrics={"flops": 4e11, "bytes": 1e9}),
        Made("add", time=5e5, metrics={"flops": 1e8, "bytes": 1.2e9}),
    )
    return report(program(*kernels, peaks={"hbm_copy": 4e12, "tensor_bfloat16": 8e14}))


def hostile() -> Report:
    """Every text that comes from a program is one that tries to break out."""
    symbols = [Symbol(kind, HOSTILE, Location(HOSTILE, 2)) for kind in ("frame", "kernel")]
    code = (PcInstruction(0, f"FADD {HOSTILE}", Location(HOSTILE, 2)),)
    pc = PcSamples(
        (PcFunction(HOSTILE, HOSTILE, "m", HOSTILE, code),), ("wait",),
        PcRows.typed((0,), (0,), (0,), (1,), (500,)), (PcRecording(4096, "continuous", 500),),
    )  # fmt: skip
    info = KernelInfo(
        HOSTILE, "cuda:0", ir=HOSTILE, source_file=HOSTILE, source_line=1,
        code=HOSTILE, code_language="cuda", attributes={"limited_by": HOSTILE},
    )  # fmt: skip
    tables = Tables(
        kernels=(info,), node_kernels={1: 0}, pc=pc, provenance={"command": HOSTILE},
        sources={HOSTILE: f"one\n{HOSTILE}"},
    )  # fmt: skip
    metrics = {"time": STANDARD["time"]}
    profile = build(symbols, [0, 1], [-1, 0], metrics, {"time": [0, 900]}, tables=tables)
    place = Place(HOSTILE, (HOSTILE, HOSTILE), HOSTILE, Location(HOSTILE, 2))
    facts = (Evidence("samples", HOSTILE, 500),)
    return report(profile, Finding("r", "symptom", HOSTILE, place, facts, HOSTILE, HOSTILE))


def sited() -> Report:
    """A kernel that was measured inside, by its sites' time."""
    kernel = with_children(
        node("kernel", "k", "k.py:1", time=100),
        with_children(
            node("site", "loop", "k.py:2", block_time=5.0),
            node("site", "a", "k.py:3", block_time=60.0),
        ),
        node("site", "b", "k.py:3", block_time=15.0),
    )
    tables = Tables(
        kernels=(KernelInfo("k", "cuda:0", source="def k():\n  for\n    a\n", source_file="k.py"),),
        node_kernels={0: 0},
    )
    metrics = {"block_time": Metric("block_time", "ns")}
    return report(profile_of(kernel, tables=tables, metrics=metrics))


def large(nodes: int = 10_000, functions: int = 40, instructions: int = 500) -> Report:
    """A tree of so many nodes with names as long as C++ ones, eight metrics, and machine code."""
    random = np.random.default_rng(1)
    kinds = ("frame", "scope", "op", "api", "kernel")
    symbols = [
        Symbol(kinds[i % 5], f"{kinds[i % 5]}_{i}<{'at::native::Vectorised, ' * 6}>",
               Location(f"/code/site-packages/model/layer_{i % 90}.py", i))
        for i in range(1500)
    ]  # fmt: skip
    parents = [-1, *(int(random.integers(max(0, i - 400), i)) for i in range(1, nodes))]
    leaf = ~np.isin(np.arange(nodes), parents)
    numbers = {
        "time": np.where(leaf, random.integers(1_000, 10**9, nodes), 0),
        "cpu_time": random.integers(0, 10**7, nodes), "count": random.integers(1, 9999, nodes),
        "flops": np.where(leaf, random.random(nodes) * 1e12, 0.0),
        "bytes": np.where(leaf, random.random(nodes) * 1e9, 0.0),
        "time_min": random.random(nodes) * 1e6, "time_max": random.random(nodes) * 1e7,
        "samples": random.integers(0, 999, nodes),
    }  # fmt: skip
    metrics = {name: STANDARD[name] for name in numbers}
    tables = Tables(
        pc=_machine_code(functions, instructions), provenance={"command": "python train.py"},
        sources={"/code/kernels.cu": "  float x = a[i] * b[i] + c[threadIdx.x];\n" * 3000},
    )  # fmt: skip
    symbol = random.integers(0, len(symbols), nodes)
    profile = build(symbols, symbol, parents, metrics, numbers, tables=tables)
    return report(profile, *(finding("symptom", line=1 + i) for i in range(60)))


def _machine_code(functions: int, instructions: int) -> PcSamples:
    code = tuple(
        PcInstruction(
            16 * i, f"@!P0 LDG.E.128 R{i % 200}, desc[UR4][R{i % 50}.64+0x{i:x}]",
            Location("/code/kernels.cu", 1 + i % 900), i % 3,
        )
        for i in range(instructions)
    )  # fmt: skip
    held = tuple(
        PcFunction(f"kernel_{f}", f"kernel_{f}", f"m{f}", "sm_90a", code) for f in range(functions)
    )
    rows = [
        (f, 16 * i, s, -1, 1 + (f * i * s) % 977)
        for f in range(functions) for i in range(0, instructions, 2) for s in range(3)
    ]  # fmt: skip
    columns = PcRows.typed(*zip(*rows, strict=True))
    total = int(columns.samples.sum())
    stalls = ("selected", "wait", "long_scoreboard")
    return PcSamples(held, stalls, columns, (PcRecording(4096, "continuous", total),))
