"""The test split: seven kernels that no split before had, and other defects and shapes. Frozen.

Nothing is tuned on it: `frozen.json` holds the hash of each case, and a test compares. Expected
ratios are of bytes at 4.3 TB/s, 132 multiprocessors and 4096 operations of bfloat16 a cycle.
"""

from __future__ import annotations

from .cases_dev import TILE
from .twins import Case, Swap

__all__ = ["CASES"]

_WIDTH = "rows, columns, width = 128, 128, dim"
_WIDER = "rows, columns, width = 128, 128, 128"
_ONE_WIDE = "T.Parallel(rows, columns, coalesced_width=1)"
_COLUMNS = "scores, transpose_B=True, clear_accum=True"
_DECAY = Swap("T.__exp2(gates", "T.pow(2.0, gates")
_GRID = "T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), batch, threads=256) as (bx, by, bz)"
_BATCH_FIRST = (
    "T.Kernel(batch, T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bz, bx, by)"
)
_STRIPS = "T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, columns), threads=256) as (by, bx)"
_ROWS_FIRST = "T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by)"
_STORE = Swap(
    "T.copy(sums, C[by * rows, bx * columns])",
    "for i, j in T.Parallel(rows, columns): C[by * rows + i, bx * columns + j] = sums[i, j]",
)
_PIECES = "lane * (N // lanes) + j"

_GEMM = (
    Case("split_k", "small-grid", {"M": 1024, "N": 1024, "K": 65536},
         (Swap("splits = 4", "splits = 1"),),
         why="32 blocks; of four parts along K there are 128."),
    Case("split_k", "tail-wave", {"M": 1408, "N": 1536, "K": 30720},
         (Swap("splits = 2", "splits = 3"),), base=(Swap("splits = 4", "splits = 2"),),
         why="198 blocks of a third of K on 132 multiprocessors; of halves there are 132: 1.3×."),
    Case("split_k", "epilogue-drain", {"M": 2816, "N": 1536, "K": 16384},
         (Swap("splits = 1", "splits = 16"),), base=(Swap("splits = 4", "splits = 1"),),
         also=("excess-traffic",), at=("T.atomic_add(",),
         why="Each 16 turns, some 10 µs, end in 128 KB of atomics, some 7 µs: 1.5× or more."),
    Case("row_bias", "tail-wave", {"M": 1536, "N": 2816, "K": 12288},
         (Swap(TILE, "128, 192, 64"),),
         why="180 tiles on 132 multiprocessors; of wide ones there are 132: 1.5×."),
    Case("row_bias", "tensor-core-missed", {"M": 4224, "N": 2048, "K": 1024},
         (Swap("(columns, depth), T.bfloat16", "(columns, depth), T.float16"),),
         also=("missed-async-copy",), at=("T.gemm(",), static="gemm: fma"),
    Case("outer", "pipeline-too-shallow", {"M": 8448, "N": 4096, "K": 3072},
         (Swap("num_stages=4", "num_stages=2"),), why="Loads take longer than one turn."),
    Case("w8a8", "missed-async-copy", {"M": 4224, "N": 4096, "K": 6144},
         (Swap("B_shared)\n", 'B_shared, prefer_instruction="sync")\n'),),
         static="copy B → B_shared: loads and stores"),
    Case("w8a8", "wasted-lanes", {"M": 67584, "N": 128, "K": 8192},
         (Swap("128, 128, 128", "128, 256, 128"),),
         base=(Swap("128, 256, 128", "128, 128, 128"),),
         why="Half of each tile is outside of B: 0.2 ms of products where A takes 0.13: 1.5×."),
    Case("batched", "excess-traffic", {"batch": 64, "M": 2048, "N": 2048, "K": 1024},
         (Swap(_GRID, _BATCH_FIRST),), at=("T.copy(A", "T.copy(B"),
         why="Blocks that run together are of all products: each tile reads its 512 KB from "
             "memory, 8 GB in all: 2×."),
)  # fmt: skip

_ATTENTION = (
    Case("retention", "slow-math", {"heads": 32, "length": 4096, "dim": 128}, (_DECAY,),
         also=("wgmma-serialized", "spill-hot"), at=("scores[i, j] = T.if_then_else",),
         why="Some 60 instructions a weight: 8000 cycles a turn; its products take 2000."),
    Case("retention", "layout-convert", {"heads": 48, "length": 3072, "dim": 128},
         (Swap(_COLUMNS, f"{_COLUMNS}, policy=T.GemmWarpPolicy.FullCol"),),
         at=("T.copy(scores, weights)", "scores[i, j] = T.if_then_else"),
         static="buffer weights: converted to"),
    Case("retention", "pipeline-too-shallow", {"heads": 20, "length": 6144, "dim": 128},
         (Swap("num_stages=2", "num_stages=1"),), also=("missed-async-copy",),
         static="loop k: two stages: shared memory has room for them"),
    Case("causal", "wgmma-serialized", {"heads": 64, "groups": 8, "length": 4096, "dim": 64},
         (Swap("threads=256", "threads=128"),), also=("spill-hot",), at=("T.gemm(",),
         static="each wgmma waits for the one before it"),
    Case("alibi", "wasted-lanes", {"heads": 44, "length": 3072, "dim": 64},
         (Swap(_WIDTH, _WIDER),), why="Half of each product is zeros."),
)  # fmt: skip

_ROWS = (
    Case("softmax_grad", "narrow-access", {"M": 49152, "N": 4096},
         (Swap("T.Parallel(rows, N)", "T.Parallel(rows, N, coalesced_width=1)"),),
         at=("dX[block",), static="store dX: 2-byte accesses"),
    Case("softmax_grad", "barrier-imbalance", {"M": 65536, "N": 2048},
         (Swap("rows, lanes = 4, 64", "rows, lanes = 4, 2"),),
         at=("T.Parallel(rows, lanes)", "T.reduce_sum(", "here = T.cast(y", "dots[i, lane] +="),
         why="Eight threads go along the rows, the others wait."),
    Case("softmax_grad", "bank-conflict", {"M": 98304, "N": 2048},
         (Swap("here = T.cast(y[i, j * lanes + lane]", f"here = T.cast(y[i, {_PIECES}]"),
          Swap("T.cast(d[i, j * lanes + lane]", f"T.cast(d[i, {_PIECES}]")),
         static="bank conflict"),
    Case("quantise", "slow-math", {"M": 114688, "N": 2048},
         (Swap("T.float32) * top[i]", "T.float32) * T.float64(top[i])"),),
         static="DMUL|DFMA",
         why="Conversions of float64, 16 a cycle; memory brings six elements: 1.3× or more."),
    Case("layer_norm", "occupancy-limited", {"M": 135168, "N": 768},
         (Swap("rows, lanes = 16, 16", "rows, lanes = 48, 16"),),
         static="occupancy: 1 block of", why="Nothing is loaded while a block adds up its rows."),
    Case("log_softmax", "occupancy-limited", {"M": 50688, "N": 3072},
         (Swap("rows = 1", "rows = 12"),), static="occupancy: 1 block of"),
)  # fmt: skip

_REDUCTIONS = (
    Case("matvec", "small-grid", {"M": 4096, "N": 53248},
         (Swap("rows, columns = 16, 512", "rows, columns = 128, 256"),),
         also=("occupancy-limited",), why="32 blocks."),
    Case("matvec", "missed-async-copy", {"M": 29568, "N": 8192},
         (Swap(", tile)\n", ', tile, prefer_instruction="sync")\n'),),
         also=("pipeline-too-shallow",), static="copy A → tile: loads and stores"),
    Case("row_top", "uncoalesced-global", {"M": 135168, "N": 1024},
         (Swap("T.max(top[i], tile[i * stride + j])",
               "T.max(top[i], X[bx * rows + i, k * columns + j])"),),
         static="load X: 4-byte accesses, 32 sectors a request"),
)  # fmt: skip

_POINTS = (
    Case("swiglu", "slow-math", {"M": 24576, "both": 16384},
         (Swap("T.__exp2(gate", "T.pow(2.0, gate"),),
         why="Some 75 instructions an element; memory has time for 40."),
    Case("adam", "uncoalesced-global", {"M": 12288, "N": 4096},
         (Swap("rows, columns = 2, 1024", "rows, columns = 1024, 2"),),
         also=("narrow-access", "excess-traffic"), at=("G[row", "Mean[row", "Square[row", "Out["),
         static="load G: 8-byte accesses, 32 sectors a request",
         why="The L2 moves 112 bytes an element, memory 28."),
    Case("neurons", "spill-hot", {"N": 132 * 3 * 32768},
         (Swap("block = 4096", "block = 32768"),), also=("occupancy-limited",),
         at=("v[i] += ", "w[i] += "), static="bytes of registers are spilled",
         why="384 numbers a thread."),
    Case("balance", "icache-unroll", {"M": 5280, "N": 10240},
         (Swap("T.serial(64)", "T.unroll(64)"),), why="A body of more than 128 KB of code."),
    Case("cast_transpose", "bank-conflict", {"M": 8192, "N": 14336},
         (Swap("T.alloc_shared((rows, columns), T.float32)",
               "T.reshape(T.alloc_shared((rows * columns,), T.float32), (rows, columns))"),),
         base=(Swap("rows, columns = 64, 64", "rows, columns = 128, 64"),), at=("tile[",),
         why="A reshaped tile lies in rows: 0.5 wavefronts an element, three come a cycle: 1.5×."),
    Case("cast_transpose", "uncoalesced-global", {"M": 14336, "N": 8192},
         (Swap("rows, columns = 64, 64", "rows, columns = 2048, 2"),),
         also=("excess-traffic", "narrow-access"), at=("= X[", "Y[bx"),
         static="32 sectors a request, 8 needed"),
    Case("pages", "narrow-access",
         {"P": 16384, "size": 16, "N": 1024, "batch": 64, "L": 160},
         (Swap("T.Parallel(rows, columns)", _ONE_WIDE),), at=("Cache[", "Out[bz"),
         static="load Cache: 2-byte accesses"),
    Case("pair_gather", "narrow-access", {"V": 50304, "P": 4096, "N": 2048, "M": 65536},
         (Swap("T.Parallel(rows, columns)", _ONE_WIDE),),
         at=("Tokens[", "Places[", "Out[row"), static="load Tokens: 2-byte accesses"),
    Case("pair_gather", "excess-traffic", {"V": 8192, "P": 2048, "N": 16384, "M": 40960},
         (Swap(_STRIPS, _ROWS_FIRST),), base=(Swap(_ROWS_FIRST, _STRIPS),),
         at=("Tokens[", "Places["),
         why="Rows that are read again are of 336 MB, a strip of columns is of 21 MB: 2×."),
)  # fmt: skip

_COMPOUND = (
    Case("split_k", "small-grid", {"M": 1024, "N": 1024, "K": 49152},
         (Swap("splits = 4", "splits = 2", "small-grid"),
          Swap("num_stages=4", "num_stages=2", "pipeline-too-shallow")), "compound"),
    Case("retention", "wasted-lanes", {"heads": 64, "length": 3072, "dim": 64},
         (Swap(_WIDTH, _WIDER, "wasted-lanes"),
          Swap(_COLUMNS, f"{_COLUMNS}, policy=T.GemmWarpPolicy.FullCol", "layout-convert")),
         "compound", at=("T.copy(scores, weights)", "T.gemm(", "T.Kernel("),
         static="buffer weights: converted to"),
    Case("cross_entropy", "slow-math", {"M": 101376, "N": 1024},
         (Swap("+= T.exp2(", "+= T.pow(2.0, ", "slow-math"),
          Swap("rows, lanes = 8, 128", "rows, lanes = 48, 128", "occupancy-limited")), "compound",
         at=("T.Kernel(",), static="occupancy: 1 block of"),
)  # fmt: skip

_DECOYS = (
    Case("row_bias", "epilogue-drain", {"M": 2816, "N": 1536, "K": 28672}, (_STORE,), "decoy",
         also=("uncoalesced-global", "narrow-access"),
         static="store C: 4-byte accesses", why="Stores of 4 bytes, once in 448 turns."),
    Case("causal", "missed-async-copy", {"heads": 6, "groups": 2, "length": 24576, "dim": 128},
         (Swap("Q_shared)\n", 'Q_shared, prefer_instruction="sync")\n'),), "decoy",
         static="copy Q → Q_shared: loads and stores",
         why="Once a block, before 96 turns on average."),
    Case("adam", "slow-math", {"M": 8192, "N": 5120},
         (Swap("* 0.001", "* T.float64(0.001)"),), "decoy", static="DMUL|DFMA",
         why="Of the 1.5 cycles that 28 bytes of an element take, conversions need 0.2."),
    Case("matvec", "occupancy-limited", {"M": 16896, "N": 24576},
         (Swap("rows, columns = 16, 512", "rows, columns = 64, 512"),), "decoy",
         static="occupancy: 1 block of", why="One block, with 128 KB under way."),
    Case("pages", "narrow-access", {"P": 32768, "size": 16, "N": 1024, "batch": 96, "L": 128},
         (Swap("T.Parallel(rows, columns)", "T.Parallel(rows, columns, coalesced_width=4)"),),
         "decoy", static="load Cache: 8-byte accesses", why="Eight bytes keep up with memory."),
)  # fmt: skip

_CLEAN = (
    Case("outer", "near-roof", {"M": 8448, "N": 8192, "K": 6144}, (), "clean"),
    Case("adam", "near-roof", {"M": 16384, "N": 4096}, (), "clean"),
    Case("softmax_grad", "near-roof", {"M": 40960, "N": 4096}, (), "clean"),
    Case("matvec", "near-roof", {"M": 33792, "N": 8192}, (), "clean"),
)

CASES = (
    *_GEMM, *_ATTENTION, *_ROWS, *_REDUCTIONS, *_POINTS, *_COMPOUND, *_DECOYS, *_CLEAN,
)  # fmt: skip
