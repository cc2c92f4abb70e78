"""Regressions planted in Triton 3.9's compiler, in kernels, in launches and in options."""

from __future__ import annotations

from typing import Any

from tileprof.bisecting import Level

from .plants import Edit, Null, Plant

VERSION = "3.9.0"
"""Version whose files are edited."""
_FILE = "benchmarks/bisecting/kernels_triton.py"
_GEMM, _SOFTMAX, _SCALE = f"{_FILE}:gemm", f"{_FILE}:softmax", f"{_FILE}:scale"
_TOTAL = f"{_FILE}:total"
_COMPILER = "backends/nvidia/compiler.py"
_ROWS: dict[str, Any] = {"X": "*fp32:16", "Y": "*fp32:16", "N": "i32", "stride": "i32:16",
                         "BLOCK": 1024}  # fmt: skip
_LINE: dict[str, Any] = {"X": "*fp32:16", "Y": "*fp32:16", "n": "i32:16", "BLOCK": 1024}
_SIZES: dict[str, Any] = {
    **{name: "*bf16:16" for name in "ABC"}, **{name: "i32:16" for name in "MNK"},
    **{f"stride_{name}": "i32:16" for name in "abc"},
    "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8,
}  # fmt: skip
_FLOATS = {**_SIZES, "A": "*fp32:16", "B": "*fp32:16"}


def _kernel(name: str, suite: str, old: str, new: str, values: dict[str, Any]) -> Plant:
    return Plant(name, "triton", suite, "python", kernel=(Edit("kernels_triton.py", old, new),),
                 values=values)  # fmt: skip


def _options(given: str, suite: str, values: dict[str, Any]) -> Plant:
    name = given.partition("=")[0]
    return Plant(f"option {given}", "triton", suite, "options", (name,), options=given,
                 values=values)  # fmt: skip


def _compiler(
    name: str, level: Level, steps: tuple[str, ...], old: str, new: str, suite: str,
    values: dict[str, Any], file: str = _COMPILER,
) -> Plant:  # fmt: skip
    return Plant(name, "triton", suite, level, steps, (Edit(file, old, new),), values=values)


PLANTS: tuple[Plant, ...] = (
    # -- kernels
    _kernel("sums of few bits", _GEMM, "tl.dot(left, right, total)",
            "(total + tl.dot(left, right)).to(tl.bfloat16).to(tl.float32)", _SIZES),
    _kernel("a mask more", _SCALE, "inside = at < n", "inside = (at < n) & (at % 3 < 3)", _LINE),
    _kernel("a function that the kernel calls", _SOFTMAX, "tl.exp(x - top)",
            "tl.exp2((x - top) * 1.4426950408889634)", _ROWS),
    # -- types of arguments: the caller's doing
    Plant("a pointer that is not aligned", "triton", f"{_FILE}:aligned", "specialisation", (),
          kernel=(Edit("kernels_triton.py", "scale[(64,)](Pointer(4096)",
                       "scale[(64,)](Pointer(4100)"),)),
    Plant("an extent that is no multiple of 16", "triton", f"{_FILE}:aligned", "specialisation", (),
          kernel=(Edit("kernels_triton.py", "Pointer(8192), 65536, BLOCK=1024)\n\n\ndef launched",
                       "Pointer(8192), 65537, BLOCK=1024)\n\n\ndef launched"),)),
    Plant("doubles in place of floats", "triton", f"{_FILE}:aligned", "specialisation", (),
          kernel=(Edit("kernels_triton.py", "scale[(64,)](Pointer(4096), Pointer(8192)",
                       'scale[(64,)](Pointer(4096, "fp64"), Pointer(8192)'),)),
    # -- options
    _options("num_warps=4", _GEMM, {n: v for n, v in _SIZES.items() if n != "num_warps"}
             | {"num_warps": 8}),
    _options("num_stages=1", _GEMM, _SIZES),
    _options("maxnreg=96", _GEMM, _SIZES),
    _options("enable_fp_fusion=off", _SCALE, _LINE),
    # -- lowering from Python: the standard library of Triton is part of its compiler
    _compiler("maxima that care for NaN", "ir", ("frontend",),
              "def _elementwise_max(a, b):\n    return core.maximum(a, b)",
              "def _elementwise_max(a, b):\n    return core.where(a > b, a, b)",
              _SOFTMAX, _ROWS, "language/standard.py"),
    # -- passes
    _compiler("loops are not unrolled", "ir", ("TritonLoopUnroll",),
              "        passes.ttir.add_loop_unroll(pm)\n", "", _TOTAL, _LINE),
    _compiler("accesses are not coalesced", "code", ("TritonGPUCoalesce",),
              "        passes.ttgpuir.add_coalesce(pm)\n", "", _GEMM, _SIZES),
    _compiler("products without tensor cores", "code", ("TritonGPUAccelerateMatmul",),
              "        passes.ttgpuir.add_accelerate_matmul(pm)\n", "", _GEMM, _FLOATS),
    _compiler("loops are not pipelined", "code", ("TritonGPUPipeline",),
              "            passes.ttgpuir.add_pipeline(pm, opt.num_stages, dump_enabled)\n"
              "        elif", "            pass\n        elif", _GEMM, _SIZES),
    _compiler("a stage less than asked for", "code", ("TritonGPUAssignLatencies",),
              "            passes.ttgpuir.add_assign_latencies(pm, opt.num_stages)\n"
              "            passes.ttgpuir.add_schedule_loops(pm)\n"
              "            passes.ttgpuir.add_pipeline(pm, opt.num_stages, dump_enabled)\n"
              "        elif",
              "            passes.ttgpuir.add_assign_latencies(pm, 2)\n"
              "            passes.ttgpuir.add_schedule_loops(pm)\n"
              "            passes.ttgpuir.add_pipeline(pm, opt.num_stages, dump_enabled)\n"
              "        elif", _GEMM, _SIZES),
    _compiler("layouts are converted back and forth", "code",
              ("TritonGPURemoveLayoutConversions",),
              "        passes.ttgpuir.add_remove_layout_conversions(pm)\n", "", _GEMM, _SIZES),
    # -- LLVM, PTX, SASS
    _compiler("LLVM optimises nothing", "code", ("LLVM IR",), "llvm.OPTIMIZE_O3",
              "llvm.OPTIMIZE_O0",
              _SOFTMAX, _ROWS),
    _compiler("LLVM makes no fused multiplications", "ptx", (),
              "flags, opt.enable_fp_fusion, False", "flags, False, False", _SCALE, _LINE),
    _compiler("ptxas optimises less", "sass", (), "'-v', *disable_opt",
              "'-v', '--opt-level', '1', *disable_opt", _GEMM, _SIZES),
    Plant("another ptxas", "triton", _GEMM, "sass", (),
          (Edit(_COMPILER, "if arch < 90:\n        return knobs.nvidia.ptxas\n",
                "if arch < 100:\n        return knobs.nvidia.ptxas\n"),
           Edit(_COMPILER, "reg_alloc = ['--regAllocOptLevel=2']", "reg_alloc = []")),
          values=_SIZES),
    # -- launches
    Plant("another grid", "triton", f"{_FILE}:launched", "launch", (),
          kernel=(Edit("kernels_triton.py", "scale[(64, 1)]", "scale[(64, 2)]"),)),
)  # fmt: skip

NULLS: tuple[Null, ...] = (
    Null("the same compiler in another folder", "triton", _GEMM, values=_SIZES),
    Null("the same compiler in another folder", "triton", _SOFTMAX, values=_ROWS),
    Null("the same compiler in another folder", "triton", f"{_FILE}:aligned"),
    Null("comments in the kernel", "triton", _GEMM,
         kernel=(Edit("kernels_triton.py", "    total = tl.zeros",
                      "    # Sums start at zero.\n\n    total = tl.zeros"),), values=_SIZES),
    Null("other names in the kernel", "triton", _GEMM,
         kernel=(Edit("kernels_triton.py", "along", "inner"),), values=_SIZES),
    Null("lines above the kernel", "triton", _SOFTMAX,
         kernel=(Edit("kernels_triton.py", "import triton.language as tl\n",
                      "import triton.language as tl\n\nSEVEN = 7\n\n\n"),), values=_ROWS),
    Null("a docstring in the kernel", "triton", _SOFTMAX,
         kernel=(Edit("kernels_triton.py", "    row = tl.program_id(0)\n",
                      '    """Rows that sum to one."""\n    row = tl.program_id(0)\n'),),
         values=_ROWS),
    Null("a pass that does nothing for this kernel", "triton", _SCALE,
         compiler=(Edit(_COMPILER, "        passes.ttgpuir.add_accelerate_matmul(pm)\n", ""),),
         values=_LINE),
    Null("an option without effect on this kernel", "triton", _SCALE, options="num_stages=2",
         values=_LINE),
)  # fmt: skip
