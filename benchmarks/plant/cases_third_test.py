"""The third test split: kernels that no split before had, other defects and shapes; run once.

Its result is in `benchmarks/results/plant-third-test.json`; since then rules are tuned on it too.
"""

from __future__ import annotations

from .cases_dev import TILE
from .twins import Case, Swap

__all__ = ["CASES"]

_BYTES = "rows, columns, depth = 128, 256, 128"
_SQUARE = "rows, columns, depth = 128, 128, 128"
_MIDDLE = "128, 192, 64"
_GRID = "T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), batch, threads=256) as (bx, by, bz)"
_BATCH_FIRST = (
    "T.Kernel(batch, T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bz, bx, by)"
)
_STORE = Swap(
    "T.copy(sums, C[bz, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])",
    "for i, j in T.Parallel(rows, columns): C[bz, by * rows + i, bx * columns + j] = sums[i, j]",
)
_COLUMNS = "scores, transpose_B=True, clear_accum=True"
_POWERS = Swap("scores[i, j] = T.__exp2(", "scores[i, j] = T.pow(2.0, ", "slow-math")
_ROUNDED = "T.Parallel(rows, N):\n            Y["
_ONE_WIDE = "T.Parallel(rows, columns, coalesced_width=1)"
_NARROW = Swap(_ROUNDED, _ROUNDED.replace("N)", "N, coalesced_width=1)"), "narrow-access")
_ALONE = Swap("rows, lanes = 4, 64", "rows, lanes = 4, 2", "barrier-imbalance")
_ALONG = ("T.Parallel(rows, lanes)", "T.reduce_max(", "tile[i, j * lanes", "tops[i, lane] =")

_GEMM = (
    Case("residual", "pipeline-too-shallow", {"M": 8448, "N": 5120, "K": 5120},
         (Swap("num_stages=4", "num_stages=2"),),
         why="A turn takes some 500 cycles, a load of its tiles twice as long."),
    Case("residual", "missed-async-copy", {"M": 5632, "N": 3072, "K": 4096},
         (Swap("A_shared)\n", 'A_shared, prefer_instruction="sync")\n'),),
         static="copy A → A_shared: loads and stores"),
    Case("residual", "epilogue-drain", {"M": 16896, "N": 4096, "K": 640},
         (Swap("T.copy(sums, C[by * rows, bx * columns])",
               "for i, j in T.Parallel(rows, columns): "
               "C[by * rows + i, bx * columns + j] = sums[i, j]"),),
         also=("uncoalesced-global", "narrow-access"), static="store C: 4-byte accesses",
         why="Ten turns of 500 cycles a tile."),
    Case("w8a8", "small-grid", {"M": 1024, "N": 2048, "K": 28672},
         (Swap(_SQUARE, _BYTES),),
         base=(Swap(_BYTES, _SQUARE), Swap("num_stages=3", "num_stages=4")),
         why="64 blocks; of narrow tiles there are 128."),
    Case("w8a8", "epilogue-drain", {"M": 16896, "N": 8192, "K": 1024},
         (Swap("out = T.alloc_shared((rows, columns), T.bfloat16)",
               "out = T.alloc_fragment((rows, columns), T.float32)"),),
         also=("uncoalesced-global", "narrow-access"), at=("T.copy(out, C",),
         static="store C: 4-byte accesses",
         why="Eight turns a tile; stores of 4 bytes that nothing overlaps with take half as long."),
    Case("scores", "tail-wave", {"batch": 11, "M": 512, "N": 768, "K": 12288},
         (Swap(TILE, _MIDDLE),), why="176 tiles on 132 multiprocessors; of wide ones 132."),
    Case("scores", "tensor-core-missed", {"batch": 11, "M": 1536, "N": 1024, "K": 1024},
         (Swap("(columns, depth), T.float16", "(columns, depth), T.bfloat16"),),
         also=("missed-async-copy",), at=("T.gemm(",), static="gemm: fma"),
    Case("scores", "wasted-lanes", {"batch": 33, "M": 4096, "N": 128, "K": 2048},
         (Swap("128, 128, 64", TILE),), base=(Swap(TILE, "128, 128, 64"),),
         why="Half of each tile is outside of B."),
    Case("scores", "wgmma-serialized", {"batch": 11, "M": 3072, "N": 1920, "K": 1536},
         (Swap("threads=256", "threads=128"),), base=(Swap(TILE, "128, 240, 64"),),
         also=("spill-hot",), at=("T.gemm(",),
         static="each wgmma waits for the one before it"),
    Case("scores", "excess-traffic", {"batch": 66, "M": 2048, "N": 2048, "K": 1024},
         (Swap(_GRID, _BATCH_FIRST),), at=("T.copy(A", "T.copy(B"),
         why="Blocks that run together are of all products, whose 550 MB the L2 does not hold: "
             "each row of tiles reads all of B again."),
)  # fmt: skip

_ATTENTION = (
    Case("causal", "layout-convert", {"heads": 32, "groups": 8, "length": 4096, "dim": 128},
         (Swap(_COLUMNS, f"{_COLUMNS}, policy=T.GemmWarpPolicy.FullCol"),),
         at=("T.copy(scores, weights)", "* before[i]", "T.reduce_"),
         static="buffer weights: converted to"),
    Case("causal", "slow-math", {"heads": 64, "groups": 8, "length": 3072, "dim": 64},
         (Swap(_POWERS.fixed, _POWERS.planted),), also=("wgmma-serialized",),
         why="Registers that the power takes keep products from running on, too."),
    Case("causal", "wasted-lanes", {"heads": 48, "groups": 6, "length": 4096, "dim": 64},
         (Swap("rows, columns, width = 128, 128, dim", "rows, columns, width = 128, 128, 128"),),
         why="Half of each product is zeros."),
    Case("causal", "pipeline-too-shallow", {"heads": 28, "groups": 4, "length": 4096, "dim": 128},
         (Swap("num_stages=2", "num_stages=1"),), also=("missed-async-copy",),
         static="loop k: two stages: shared memory has room for them"),
)  # fmt: skip

_ROWS = (
    Case("log_softmax", "slow-math", {"M": 20480, "N": 6144},
         (Swap("T.__exp2((x", "T.pow(2.0, (x"),), at=("e[i, j] =",),
         why="Some 60 instructions an element; memory has time for 40."),
    Case("log_softmax", "spill-hot", {"M": 40960, "N": 4096}, (Swap("rows = 1", "rows = 32"),),
         also=("occupancy-limited",), at=("x[i, j]", "e[i, j]", "T.reduce_"),
         static="bytes of registers are spilled"),
    Case("quantise", "narrow-access", {"M": 131072, "N": 2048},
         (Swap(_NARROW.fixed, _NARROW.planted),), at=("Y[block",),
         static="store Y: 1-byte accesses"),
    Case("quantise", "barrier-imbalance", {"M": 98304, "N": 2048},
         (Swap(_ALONE.fixed, _ALONE.planted),), at=_ALONG,
         why="Eight threads go along the rows, the others wait."),
    Case("quantise", "occupancy-limited", {"M": 101376, "N": 2048},
         (Swap("rows, lanes = 4, 64", "rows, lanes = 48, 64"),),
         static="occupancy: 1 block of"),
)  # fmt: skip

_REDUCTIONS = (
    Case("cosine", "small-grid", {"M": 1056, "N": 65536},
         (Swap("rows, columns = 8, 512", "rows, columns = 32, 128"),),
         base=(Swap("rows, columns = 32, 128", "rows, columns = 8, 512"),), why="33 blocks."),
    Case("cosine", "missed-async-copy", {"M": 4224, "N": 32768},
         (Swap(", x)\n", ', x, prefer_instruction="sync")\n'),), also=("pipeline-too-shallow",),
         static="copy X → x: loads and stores"),
    Case("moments", "spill-hot", {"M": 67584, "N": 6144},
         (Swap("4, 1024, 64", "64, 1024, 4"),), also=("occupancy-limited",),
         at=("held[i, j] +=", "squares[i, j] +=", "part)"),
         static="bytes of registers are spilled"),
)  # fmt: skip

_POINTS = (
    Case("swiglu", "narrow-access", {"M": 32768, "both": 16384},
         (Swap("T.Parallel(rows, columns)", _ONE_WIDE),), at=("X[row", "Y[row"),
         static="load X: 2-byte accesses"),
    Case("swiglu", "uncoalesced-global", {"M": 16384, "both": 24576},
         (Swap("rows, columns = 4, 1024", "rows, columns = 1024, 4"),),
         also=("narrow-access", "excess-traffic"), at=("X[row", "Y[row"),
         static="32 sectors a request, 8 needed"),
    Case("neurons", "icache-unroll", {"N": 132 * 4 * 4 * 4096},
         (Swap("T.serial(64)", "T.unroll(64)"),), why="A body of more than 128 KB of code."),
    Case("neurons", "tail-wave", {"N": 176 * 16384},
         (Swap("block = 2048", "block = 16384"),), base=(Swap("block = 4096", "block = 2048"),),
         also=("occupancy-limited",), why="176 blocks on 132 multiprocessors, one on each."),
    Case("channels_last", "bank-conflict", {"batch": 64, "C": 256, "P": 3136},
         (Swap("columns + 1", "columns"),), at=("tile[",), static="8-way bank conflict"),
    Case("channels_last", "occupancy-limited", {"batch": 22, "C": 768, "P": 4096},
         (Swap("rows, columns = 64, 64", "rows, columns = 192, 256"),),
         static="occupancy: 1 block of"),
    Case("bag", "narrow-access", {"V": 2_000_000, "N": 128, "M": 168960, "L": 16},
         (Swap("T.Parallel(rows, columns)", _ONE_WIDE),), at=("Table[", "row = Items", "Out[by"),
         static="load Table: 2-byte accesses"),
    Case("bag", "uncoalesced-global", {"V": 1_000_000, "N": 256, "M": 67584, "L": 20},
         (Swap("rows, columns = 32, 128", "rows, columns = 1024, 4"),),
         also=("narrow-access", "excess-traffic"), at=("Table[", "Out[by"),
         static="load Table: 8-byte accesses, 32 sectors a request, 8 needed"),
)  # fmt: skip

_COMPOUND = (
    Case("causal", "missed-async-copy", {"heads": 40, "groups": 8, "length": 2560, "dim": 128},
         (Swap("V_shared)\n            T.gemm",
               'V_shared, prefer_instruction="sync")\n            T.gemm', "missed-async-copy"),
          _POWERS), "compound", also=("wgmma-serialized",),
         static="copy V → V_shared: loads and stores"),
    Case("scores", "tail-wave", {"batch": 4, "M": 1408, "N": 768, "K": 10240},
         (Swap(TILE, _MIDDLE, "tail-wave"),
          Swap("num_stages=4", "num_stages=2", "pipeline-too-shallow")), "compound"),
    Case("quantise", "narrow-access", {"M": 81920, "N": 2560}, (_NARROW, _ALONE), "compound",
         at=(*_ALONG, "Y[block"), static="store Y: 1-byte accesses"),
)  # fmt: skip

_DECOYS = (
    Case("residual", "missed-async-copy", {"M": 2816, "N": 1536, "K": 32768},
         (Swap("R_shared)\n", 'R_shared, prefer_instruction="sync")\n'),), "decoy",
         static="copy R → R_shared: loads and stores", why="Once a tile, before 512 turns."),
    Case("scores", "epilogue-drain", {"batch": 2, "M": 1408, "N": 3072, "K": 24576}, (_STORE,),
         "decoy", also=("uncoalesced-global", "narrow-access"),
         static="store C: 4-byte accesses", why="Stores of 4 bytes, once in 384 turns."),
    Case("log_softmax", "slow-math", {"M": 24576, "N": 8192},
         (Swap("T.log(total[i])", "T.log(T.cast(total[i], T.float64))"),), "decoy",
         static="DMUL|DFMA", why="A logarithm of float64 a row, of 48 KB each."),
    Case("cosine", "occupancy-limited", {"M": 33792, "N": 4096},
         (Swap("rows, columns = 32, 128", "rows, columns = 64, 128"),), "decoy",
         static="occupancy: 1 block of", why="One block, with 128 KB under way."),
    Case("swiglu", "narrow-access", {"M": 24576, "both": 20480},
         (Swap("T.Parallel(rows, columns)", "T.Parallel(rows, columns, coalesced_width=4)"),),
         "decoy", static="load X: 8-byte accesses", why="Eight bytes keep up with memory."),
)  # fmt: skip

_CLEAN = (
    Case("scores", "near-roof", {"batch": 4, "M": 4224, "N": 4096, "K": 6144}, (), "clean"),
    Case("log_softmax", "near-roof", {"M": 49152, "N": 4096}, (), "clean"),
    Case("swiglu", "near-roof", {"M": 16384, "both": 28672}, (), "clean"),
    Case("cosine", "near-roof", {"M": 25344, "N": 8192}, (), "clean"),
)

CASES = (
    *_GEMM, *_ATTENTION, *_ROWS, *_REDUCTIONS, *_POINTS, *_COMPOUND, *_DECOYS, *_CLEAN,
)  # fmt: skip
