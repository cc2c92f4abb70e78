"""Regressions that were written down, with their true levels, before any of them was run.

The other plants were in use while the command was built, and some were written anew because they
changed nothing. Of these no text and no rule was changed after their first run; one that turned out
to change nothing that a GPU runs is counted apart.
"""

from __future__ import annotations

from .plants import Edit, Plant

_OURS, _TRITON = "benchmarks/bisecting/kernels_ours.py", "benchmarks/bisecting/kernels_triton.py"
_GEMM, _SOFTMAX = f"{_OURS}:gemm", f"{_OURS}:softmax"
_MATMUL = "case_studies/matmul.py:matmul"
_FLASH = "case_studies/flash_attention.py:flash_attention"
_ATTENTION = "case_studies/attention.py:attention"
_SIZES = {"M": 2048, "N": 2048, "K": 2048}
_ROWS = {"M": 2048, "N": 2048}
_HEADS = {"batch": 1, "length": 1024, "heads": 8, "dim": 64, "keys": 1024, "groups": 8}
_FACTORY = {"batch": 1, "heads": 8, "length": 1024, "dim": 64, "causal": True}
_CUDA = "compiler/cuda"
_COMPILER = "backends/nvidia/compiler.py"
_ROW = {"X": "*fp32:16", "Y": "*fp32:16", "N": "i32", "stride": "i32:16", "BLOCK": 2048}
_PRODUCT = {
    **{name: "*bf16:16" for name in "ABC"}, **{name: "i32:16" for name in "MNK"},
    **{f"stride_{name}": "i32:16" for name in "abc"},
    "BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 4,
}  # fmt: skip

PLANTS: tuple[Plant, ...] = (
    Plant("smaller blocks of keys", "tileprof", _ATTENTION, "python",
          kernel=(Edit("attention.py", "block_N: int = 128, stages", "block_N: int = 64, stages"),),
          values=_HEADS),
    Plant("two stages for three", "tileprof", _MATMUL, "python",
          kernel=(Edit("matmul.py", "num_stages=3", "num_stages=2"),), values=_SIZES),
    Plant("late sums do nothing in another kernel", "tileprof", _FLASH, "ir", ("late_sums",),
          (Edit(f"{_CUDA}/pipeline.py", 'Pass("late_sums", delay_sums)',
                'Pass("late_sums", lambda kernel, lowering: kernel)'),), values=_FACTORY),
    Plant("blocks are numbered in other groups", "tileprof", _MATMUL, "ir", ("persist",),
          (Edit(f"{_CUDA}/tuning.py", "RASTER_ROWS = 8", "RASTER_ROWS = 2"),), values=_SIZES),
    Plant("no warp-group products", "tileprof", _GEMM, "ir", ("choose",),
          (Edit(f"{_CUDA}/passes/choice/gemms.py",
                "if not (controls.wgmma and controls.tensor_cores):", "if True:"),),
          values=_SIZES),
    Plant("loops over tiles are unrolled twice", "tileprof", _ATTENTION, "code", (),
          (Edit(f"{_CUDA}/emit/statements.py", '"#pragma unroll 1" if works',
                '"#pragma unroll 2" if works'),), values=_HEADS),
    Plant("fast functions by a flag", "tileprof", _SOFTMAX, "flags", (),
          (Edit(f"{_CUDA}/build.py", '    "-lineinfo",\n',
                '    "-lineinfo", "--use_fast_math",\n'),),
          values=_ROWS),
    Plant("fast functions by another NVRTC", "tileprof", _SOFTMAX, "ptx", (),
          (Edit(f"{_CUDA}/nvrtc.py", "given = [each.encode() for each in options]",
                'given = [each.encode() for each in options] + [b"--use_fast_math"]'),),
          values=_ROWS),
    Plant("one option of two acts", "tileprof", _GEMM, "options", ("swizzle",),
          options="swizzle=off,peel=off", values=_SIZES),
    Plant("another value for what is masked", "triton", f"{_TRITON}:softmax", "python",
          kernel=(Edit("kernels_triton.py", 'other=-float("inf")', "other=-1e30"),), values=_ROW),
    Plant("twice the warps", "triton", f"{_TRITON}:softmax", "options", ("num_warps",),
          options="num_warps=8", values=_ROW),
    Plant("the result is not aligned", "triton", f"{_TRITON}:aligned", "specialisation", (),
          kernel=(Edit("kernels_triton.py", "scale[(64,)](Pointer(4096), Pointer(8192)",
                       "scale[(64,)](Pointer(4096), Pointer(8196)"),)),
    Plant("loops are not scheduled", "triton", f"{_TRITON}:gemm", "code",
          ("TritonGPUScheduleLoops",),
          (Edit(_COMPILER, "            passes.ttgpuir.add_schedule_loops(pm)\n",
                "            pass\n"),), values=_PRODUCT),
    Plant("rows are not coalesced", "triton", f"{_TRITON}:softmax", "code",
          ("TritonGPUCoalesce",),
          (Edit(_COMPILER, "        passes.ttgpuir.add_coalesce(pm)\n", ""),), values=_ROW),
    Plant("the assembler has few registers", "triton", f"{_TRITON}:gemm", "sass", (),
          (Edit(_COMPILER, "'-v', *disable_opt", "'-v', '--maxrregcount', '96', *disable_opt"),),
          values=_PRODUCT),
)  # fmt: skip
