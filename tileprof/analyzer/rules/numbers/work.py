"""Numbers of rules about what instructions do: products, functions, spills, code."""

from __future__ import annotations

from tileprof.analyzer.numbers.shared import SPECIAL, SPECIAL_CYCLES

# -- code_size

CODE_SIZE_AFTER_A_JUMP = 2
"""Instructions that come late because of it."""

CODE_SIZE_INSTRUCTION = 16
"""Bytes of an instruction."""

CODE_SIZE_NEAREST = 12 * 1024
"""Bytes of a scheduler's own cache: of Volta, by Jia et al. 2018 (arXiv 1804.06826), table 3.1; it
is not known of Hopper. Only what was measured tells a cost."""

CODE_SIZE_NEXT = 128 * 1024
"""Bytes of the cache behind it, from the same table: a longer loop is fetched anew each turn."""

CODE_SIZE_NOTABLE = 0.03
"""Share of the samples that wait for instructions from which a loop longer than the nearest cache
is a cause. By hand."""

CODE_SIZE_MUCH = 0.1
"""Share of the samples that wait for instructions from which that is reported without a cause. By
hand."""

CODE_SIZE_REACHED = 0.98
"""Of what its busiest pipe takes, what a loop of ready warps reaches."""

CODE_SIZE_CYCLES = {
    **dict.fromkeys(
        (
            "LOP3",
            "SHF",
            "IADD3",
            "ISETP",
            "FSETP",
            "SEL",
            "FSEL",
            "LEA",
            "PRMT",
            "FMNMX",
            "VIMNMX",
            "IABS",
            "PLOP3",
            "I2FP",
        ),
        ("alu", 2),
    ),
    "IMAD": ("fma", 2),
    **dict.fromkeys(("FFMA", "FADD", "FMUL"), ("floats", 1)),
    **dict.fromkeys(("DFMA", "DADD", "DMUL", "DSETP"), ("doubles", 2)),
    **dict.fromkeys(SPECIAL, ("special", SPECIAL_CYCLES)),
}
"""By opcode, its pipe, and for how many cycles a warp's instruction keeps that of a scheduler."""

# -- layout_converts

LAYOUT_CONVERTS_COMES_BACK = 0.85
"""Of that time: other instructions take some of the freed turns."""

LAYOUT_CONVERTS_OFTEN = 0.05
"""Of the samples, at an exchange that keeps warp groups in step all along a turn."""

LAYOUT_CONVERTS_ROWS = 16
"""Rows of a product's tile that one warp multiplies (`mma`, PTX ISA). Fewer rows for several warps
cannot be divided among them, so a gain would be stated for an exchange that has to be."""

LAYOUT_CONVERTS_LEAST_KEPT = 0.02
"""Of the time, what is left in any case."""

# -- precision

PRECISION_PACES = (0.3, 0.75, 1.0)
"""Of the part of its roof that a kernel reaches, the part of the tensor cores' that its successor
does: at least, likely, at most. Tiles of 32-bit operands are half as deep as those of 16 bits, of
which cuBLAS has 0.8 of the roof at best (docs/benchmarks.md); a BERT encoder on an H200 reached
0.36 (benchmarks/results/programs-1of3-2026-11-27.json, embed_texts)."""

PRECISION_MEMORY = (0.6, 0.8, 1.0)
"""Share of the memory's measured peak that a product on tensor cores reaches where its bytes are
the limit: at least, likely, at most. Two thin products of NetVLAD on an H200 came to 0.7 in TF32.
With 1.0 throughout, the gain of thin products is stated too high."""

PRECISION_HALVED = 0.25
"""Part of what halved bytes likely save of other kernels that goes at least. By hand: two models
that were made bfloat16 on an H200 came near the whole, one with many strided copies to about a
quarter (`benchmarks/results/problems-1of2.json`)."""

PRECISION_BETWEEN = 0.5
"""Part of what halved bytes save between products that autocast likely brings: sums with tensors of
32 bits, such as residuals, stay in 32. By hand: without it, the gain of an attention with ReLU on
an H200 was stated as 1.4 to 2.0 times, and was 2.57; a GPT block came near its estimate."""

PRECISION_OF_BYTES = (0.25, 0.85, 1.0)
"""Part of what halved bytes likely save that goes where products round to TF32 already: at least,
likely, at most. With the next number it fits four models of convolutions that bfloat16 made 1.28 to
1.35 times as fast on an H200 (2026-11)."""

PRECISION_OF_TF32 = (0.0, 0.33, 0.5)
"""Part of the time of TF32's products, and of changes of layout for them, that bfloat16 saves: at
least, likely, at most. It multiplies at twice the rate and moves half the bytes."""

PRECISION_BEYOND = 1.1
"""Multiple of the measured rate of multiply-adds above which a kernel has to use tensor cores: the
measurement of either may be a few percent off. Too low a number drops true products."""

PRECISION_HIDDEN = 0.5
"""Part of the products' time that passes before late launches, from which autocast is not advised:
most of it, by hand. Each cast is one launch more. Six trainings on an H200 whose launches come late
took 0.9 to 1.3 times as long with it (benchmarks/results/programs-?of3.json, 2026-11-29)."""

# -- roofline

ROOFLINE_NEAR = 0.9
"""Share of a roof from which on a kernel is at it. By hand."""

# -- slow_math

SLOW_MATH_PART = 0.04
"""Of a line's arithmetic, how much tells a slow form at least, where it owns the line."""

SLOW_MATH_SETUP = 0.05
"""Of the samples: below, nothing is said of what a block does once to find its tile, nor of what
most kernels have some of."""

SLOW_MATH_MOST = 2.0
"""Of what its own samples tell, how many times as much goes at most: others wait for what is slow.
By hand."""

SLOW_MATH_NOTABLE = 0.1
"""Of the samples: below, slow arithmetic costs nothing where memory gives nearly all it can."""

SLOW_MATH_BUSY = 0.3
"""Of the samples: from where special functions are what a kernel waits for."""

SLOW_MATH_SURE = 0.7
"""Share of the likely gain that is sure. By hand."""

SLOW_MATH_FULL = 1.05
"""Of a kernel's time, what tensor cores and special functions take in turn where nothing else
counts; above 1, as some of it overlaps."""

# -- spills

SPILLS_MAIN = 0.2
"""Of the samples, from which on spills are the main of what is waited for. Of a kernel of an H200
with 0.07 of them a seventh of the time came back, of one with 0.01 nothing
(`benchmarks/results/plant-dev-1.json`)."""

SPILLS_COVERING = 0.2
"""Of the likely part, what comes back at least where the loop waits for loads besides: 0.2 and 0.33
of it in two kernels of an H200 (`benchmarks/results/plant-dev-1.json`)."""

SPILLS_SURE = 0.7
"""Of the likely part, what comes back at least."""

# -- tensor_cores

TENSOR_CORES_SHEET = {
    "fma": 67e12,
    "tensor_tf32": 494e12,
    "tensor_bfloat16": 989e12,
    "tensor_int8": 1979e12,
}
"""Operations a second of an H100 or H200 (NVIDIA's data sheets, SXM, dense)."""

TENSOR_CORES_ROWS = 64
"""Of a tile, from which on there is a `wgmma`."""

TENSOR_CORES_MANY = 64
"""Multiply-adds in a loop from which it may be a product of matrices: 8 × 8 sums. By hand."""

TENSOR_CORES_MOSTLY = 0.5
"""Share of a loop's instructions that are multiply-adds, from which it may be a product. By
hand."""

TENSOR_CORES_AGAIN = 2.0
"""Multiply-adds for each operand, from which operands are used again: 8 × 8 sums have 16
operands."""

TENSOR_CORES_SURE = 0.8
"""Of the likely gain, what comes at least where the work is known."""

# -- corrected_sums

CORRECTED_SUMS_ALL = 1.5
"""All operations of a sum's correction, as a multiple of those whose lines are known: of three,
two are known."""
