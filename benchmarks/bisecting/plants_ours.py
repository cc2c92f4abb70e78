"""Regressions planted in tileprof's compiler, in kernels, and in options."""

from __future__ import annotations

from .plants import Edit, Null, Plant

_OURS = "benchmarks/bisecting/kernels_ours.py"
_GEMM, _SOFTMAX = f"{_OURS}:gemm", f"{_OURS}:softmax"
_ATTENTION = "case_studies/attention.py:attention"
_PIPELINE = "compiler/cuda/pipeline.py"
_SIZES = {"M": 4096, "N": 4096, "K": 4096}
_ROWS = {"M": 4096, "N": 1024}
_HEADS = {"batch": 1, "length": 1024, "heads": 8, "dim": 64, "keys": 1024, "groups": 8,
          "causal": True}  # fmt: skip


def _kernel(name: str, suite: str, old: str, new: str, values: dict[str, object]) -> Plant:
    file = suite.partition(":")[0].rpartition("/")[2]
    return Plant(name, "tileprof", suite, "python", kernel=(Edit(file, old, new),), values=values)


def _off(step: str, call: str, suite: str, values: dict[str, object]) -> Plant:
    """A pass that is in the list and does nothing."""
    edit = Edit(_PIPELINE, f'Pass("{step}", {call})',
                f'Pass("{step}", lambda kernel, lowering: kernel)')  # fmt: skip
    return Plant(f"pass {step} does nothing", "tileprof", suite, "ir", (step,), (edit,),
                 values=values)  # fmt: skip


def _pass(
    name: str, step: str, file: str, old: str, new: str, suite: str, values: dict[str, object]
) -> Plant:
    return Plant(name, "tileprof", suite, "ir", (step,), (Edit(file, old, new),), values=values)


def _option(given: str, suite: str, values: dict[str, object]) -> Plant:
    names = tuple(each.partition("=")[0] for each in given.split(","))
    return Plant(f"option {given}", "tileprof", suite, "options", names, options=given,
                 values=values)  # fmt: skip


def _code(name: str, file: str, old: str, new: str, suite: str, values: dict[str, object]) -> Plant:
    return Plant(name, "tileprof", suite, "code", (), (Edit(file, old, new),), values=values)


def _flags(name: str, old: str, new: str, suite: str, values: dict[str, object]) -> Plant:
    edit = Edit("compiler/cuda/build.py", old, new)
    return Plant(name, "tileprof", suite, "flags", (), (edit,), values=values)


_NVRTC = "compiler/cuda/nvrtc.py"
_GIVEN = "given = [each.encode() for each in options]"

PLANTS: tuple[Plant, ...] = (
    # -- the kernel's source
    _kernel("smaller tiles", _GEMM, "block_M: int = 128", "block_M: int = 64", _SIZES),
    _kernel("no stages", _GEMM, "num_stages=3", "num_stages=0", _SIZES),
    _kernel("fewer threads", _GEMM, "threads=256", "threads=128", _SIZES),
    _kernel("more rows in a block", _SOFTMAX, "block_M: int = 4", "block_M: int = 16", _ROWS),
    _kernel("a function that the kernel calls", _SOFTMAX, "T.exp(row[i, j] - top[i])",
            "T.exp2((row[i, j] - top[i]) * 1.4426950408889634)", _ROWS),
    _kernel("an extra copy", _GEMM, "        T.clear(C_local)\n",
            "        T.clear(C_local)\n        T.copy(A[by * block_M, 0], A_shared)\n", _SIZES),
    # -- lowering from Python
    Plant("the frontend forgets the number of stages", "tileprof", _GEMM, "ir", ("frontend",),
          (Edit("lang/loops.py", "num_stages=int(num_stages)", "num_stages=1"),), values=_SIZES),
    Plant("the frontend forgets fast functions", "tileprof", _ATTENTION, "ir", ("frontend",),
          (Edit("lang/trace/scalars.py", "ir.Unary(kind, held, fast)", "ir.Unary(kind, held)"),),
          values=_HEADS),
    # -- passes for all devices
    _pass("simplify does nothing", "simplify", "compiler/pipeline.py",
          "lambda kernel, options: simplify(kernel)", "lambda kernel, options: kernel", _ATTENTION,
          _HEADS),
    _pass("accesses outside are taken for inside", "bounds", "compiler/passes/bounds.py",
          "inside = next(order) in prover.inside", "inside = next(order) is not None", _SOFTMAX,
          {"M": 4094, "N": 1000}),
    # -- passes for a GPU
    _pass("no tensor maps", "choose", "compiler/cuda/passes/choice/choose.py",
          'return wish_against(op, "tma") or bulk_reason(',
          'return __import__("tileprof.remarks.common", fromlist=["x"]).OtherReason("planted")'
          ' or bulk_reason(',
          _GEMM, _SIZES),
    _pass("no matrix instructions for copies", "expand", "compiler/cuda/passes/expand.py",
          "return held.buffer.rank == 2 and", "return held.buffer.rank == 9 and", _ATTENTION,
          _HEADS),
    _off("overlap", "overlap", _ATTENTION, _HEADS),
    _off("peel", "peel", _ATTENTION, _HEADS),
    _off("masks", "narrow_masks", _ATTENTION, _HEADS),
    _pass("no wide accesses", "layouts", "compiler/cuda/passes/layout/layouts.py",
          "solve(graph, lowering.controls.vectorize)", "solve(graph, False)", _SOFTMAX, _ROWS),
    _pass("no swizzles", "layouts", "compiler/cuda/passes/layout/shared.py",
          "uses.alloc, self.lowering.controls.swizzle", "uses.alloc, False", _GEMM, _SIZES),
    _off("late_sums", "delay_sums", _ATTENTION, _HEADS),
    _off("persist", "persist", _GEMM, _SIZES),
    _pass("a stage less than asked for", "pipeline", "compiler/cuda/lowering.py",
          "return loop.num_stages if asked is None else asked",
          "return max(loop.num_stages - 1, 1) if asked is None else asked", _GEMM, _SIZES),
    _pass("products are waited for at once", "waits", "compiler/cuda/passes/waits/waits.py",
          "min(g.younger for g in needed)", "0", _ATTENTION, _HEADS),
    _pass("buffers share no bytes", "memory", "compiler/cuda/passes/memory.py",
          "placed if p.meets(span)", "placed", _ATTENTION, _HEADS),
    _pass("each barrier twice", "barriers", "compiler/cuda/passes/barriers.py",
          "        made.ops.append(ir.Barrier(reason, span=op.span))\n        state.pass_barrier",
          "        made.ops.append(ir.Barrier(reason, span=op.span))\n"
          "        made.ops.append(ir.Barrier(reason, span=op.span))\n        state.pass_barrier",
          _ATTENTION, _HEADS),
    _off("turns", "hand_over", _ATTENTION, _HEADS),
    Plant("a pass is left out", "tileprof", _ATTENTION, "ir", ("masks",),
          (Edit(_PIPELINE, '    Pass("masks", narrow_masks),\n', ""),), values=_HEADS),
    Plant("a pass among edits that change nothing", "tileprof", _ATTENTION, "ir", ("peel",),
          (Edit(_PIPELINE, 'Pass("peel", peel)', 'Pass("peel", lambda kernel, lowering: kernel)'),
           Edit("compiler/cuda/prelude/functions.cuh", "// One instruction each",
                "// Each is one instruction")),
          (Edit("attention.py", "factor", "shrinking"),), values=_HEADS),
    # -- CUDA C++
    _code("loops are not unrolled", "compiler/cuda/prelude/base.cuh", '_Pragma("unroll")',
          '_Pragma("unroll 1")', _SOFTMAX, _ROWS),
    _code("registers for other blocks are kept free", "compiler/cuda/emit/unit.py",
          'minimum = max(int(dict(op.hints).get("blocks", 1)), op.schedule.residents, 1)',
          "minimum = 16", _SOFTMAX, _ROWS),
    _code("a slower function of the prelude", "compiler/cuda/prelude/functions.cuh",
          'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));', "y = exp2f(x);", _ATTENTION,
          _HEADS),
    # -- flags of NVRTC
    _flags("exact quotients", '"--prec-div=false"', '"--prec-div=true"', _SOFTMAX, _ROWS),
    _flags("no fused multiplications", '    "-lineinfo",\n',
           '    "-lineinfo",\n    "--fmad=false",\n', _ATTENTION, _HEADS),
    _flags("ptxas is told to optimise less", '    "-lineinfo",\n',
           '    "-lineinfo",\n    "--ptxas-options=-O1",\n', _GEMM, _SIZES),
    # -- another NVRTC, another ptxas
    Plant("NVRTC multiplies and adds apart", "tileprof", _ATTENTION, "ptx", (),
          (Edit(_NVRTC, _GIVEN, f'{_GIVEN} + [b"--fmad=false"]'),), values=_HEADS),
    Plant("ptxas optimises less", "tileprof", _GEMM, "sass", (),
          (Edit(_NVRTC, _GIVEN, f'{_GIVEN} + [b"--ptxas-options=-O1"]'),), values=_SIZES),
    # -- launches
    Plant("more shared memory than is used", "tileprof", _SOFTMAX, "launch", (),
          (Edit("compiler/cuda/emit/unit.py", "tuple(f.spec for f in functions)",
                "tuple(__import__('dataclasses').replace(f.spec, shared=98304)"
                " for f in functions)"),), values=_ROWS),
    # -- options
    _option("tma=off", _GEMM, _SIZES),
    _option("wgmma=off", _GEMM, _SIZES),
    _option("stages=1", _GEMM, _SIZES),
    _option("registers=96", _GEMM, _SIZES),
    _option("vectorize=off", _SOFTMAX, _ROWS),
    _option("peel=off", _ATTENTION, _HEADS),
)  # fmt: skip

NULLS: tuple[Null, ...] = (
    Null("the same compiler in another folder", "tileprof", _GEMM, values=_SIZES),
    Null("the same compiler in another folder", "tileprof", _SOFTMAX, values=_ROWS),
    Null("the same compiler in another folder", "tileprof", _ATTENTION, values=_HEADS),
    Null("comments in the kernel", "tileprof", _GEMM,
         kernel=(Edit("kernels_ours.py", "        T.clear(C_local)\n",
                      "        # Sums start at zero.\n\n\n        T.clear(C_local)\n"),),
         values=_SIZES),
    Null("other names in the kernel", "tileprof", _GEMM,
         kernel=(Edit("kernels_ours.py", "C_local", "sums"),), values=_SIZES),
    Null("lines above the kernel", "tileprof", _SOFTMAX,
         kernel=(Edit("kernels_ours.py", "import tileprof.lang as T\n",
                      "import tileprof.lang as T\n\nSEVEN = 7\n\n\n"),), values=_ROWS),
    Null("a docstring in the kernel", "tileprof", _SOFTMAX,
         kernel=(Edit("kernels_ours.py", '    M, N = T.const("M, N")\n',
                      '    """Rows that sum to one."""\n    M, N = T.const("M, N")\n'),),
         values=_ROWS),
    Null("comments in the prelude", "tileprof", _ATTENTION,
         compiler=(Edit("compiler/cuda/prelude/functions.cuh", "// One instruction each",
                        "// Each is one instruction"),), values=_HEADS),
    Null("a function of the prelude that nobody calls", "tileprof", _ATTENTION,
         compiler=(Edit("compiler/cuda/prelude/functions.cuh",
                        "TP_INLINE double tp_exp2_flush(double x) { return exp2(x); }",
                        "TP_INLINE double tp_exp2_flush(double x) { return exp2(x) * 1.0; }"),),
         values=_HEADS),
    Null("a pass that does nothing for this kernel", "tileprof", _SOFTMAX,
         compiler=(Edit(_PIPELINE, 'Pass("peel", peel)',
                        'Pass("peel", lambda kernel, lowering: kernel)'),), values=_ROWS),
    Null("two passes in the other order", "tileprof", _SOFTMAX,
         compiler=(Edit(_PIPELINE, '    Pass("overlap", overlap),\n', ""),
                   Edit(_PIPELINE, '    Pass("peel", peel),\n',
                        '    Pass("peel", peel),\n    Pass("overlap", overlap),\n')),
         values=_ROWS),
    Null("an option without effect on this kernel", "tileprof", _SOFTMAX, options="wgmma=off",
         values=_ROWS),
    Null("other names in the compiler's IR", "tileprof", _SOFTMAX,
         compiler=(Edit("compiler/cuda/passes/expand.py", 'as_parallel(op, builder, symbols)',
                        "as_parallel(op, builder, dict(symbols))"),), values=_ROWS),
)  # fmt: skip
