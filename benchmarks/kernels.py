"""The speed of our kernels beside the fastest others, in one process on one GPU.

    python benchmarks/kernels.py [--quick] [--only RE] [--budget SECONDS] [-o FILE]

Writes a JSON file with every pair, the device, its clocks and all versions, after each row.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

sys.path.insert(0, str(Path(__file__).parent))

import gpu_costs
import gpu_kernels as kernels
import measuring
from measuring import Work, compare, fastest, replayed

RESULTS = Path(__file__).parent / "results"
Call = Callable[[], Any]
Spec = tuple[Any, ...]
"""A kernel of TileLang: the function of `tilelang_peers` and its arguments."""
Maker = Callable[[torch.Tensor], Callable[[], torch.Tensor]]
"""From the weights to a call."""


class Row(Protocol):
    """What is printed and kept."""

    def row(self) -> dict[str, Any]:
        """For the results file."""
        ...


@dataclass(frozen=True)
class Group:
    """Rows that are measured together, and the kernels of TileLang that they need."""

    name: str
    measure: Callable[[], Iterator[Row]]
    peers: tuple[Spec, ...] = ()


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random normal numbers on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype)


class WrongResult(Exception):
    """A kernel that is not measured, since it computes something else."""


def check(what: str, found: torch.Tensor, expected: torch.Tensor, limit: float) -> None:
    """The relative error in the Frobenius norm has to stay below a limit."""
    difference, size = found.double() - expected.double(), expected.double().norm()
    error = float(difference.norm() / size.clamp_min(1e-30))
    if not error < limit:
        raise WrongResult(f"{what} is wrong: relative error {error:.2e}")


# -- TileLang


TILELANG: dict[Spec, Any] = {}
"""Its compiled kernels; what is not here cannot be measured."""


def compile_peers(specs: Sequence[Spec]) -> str:
    """Fill `TILELANG`; what went wrong, if something did."""
    try:
        import tilelang_peers

        programs = [getattr(tilelang_peers, name)(*arguments) for name, *arguments in specs]
        made = tilelang_peers.compiled(programs)
    except Exception as error:
        return f"TileLang is not measured: {type(error).__name__}: {error}"[:300]
    TILELANG.update({s: kernel for s, kernel in zip(specs, made) if kernel is not None})
    missing = [str(s) for s in specs if s not in TILELANG]
    return f"TileLang does not compile {', '.join(missing)}" if missing else ""


REGISTERS = "registers"
"""How the names of calls begin that give their result transposed."""


def usable(calls: dict[str, Callable[[], torch.Tensor]], expected: torch.Tensor, limit: float,
           problems: list[str]) -> dict[str, Call]:  # fmt: skip
    """The calls whose result is right; the others are said."""
    found: dict[str, Call] = {}
    for name, run in calls.items():
        try:
            made = run()
            check(name, made.t() if name.startswith(REGISTERS) else made, expected, limit)
            found[name] = run
        except Exception as error:
            torch.cuda.synchronize()  # where the device is lost, nothing else can be measured
            problems.append(f"{name}: {type(error).__name__}: {error}"[:200])
    return found


# -- matrix products

POLICIES = ("Square", "FullRow")
LIMIT = 4e-3
"""Relative error of products that are rounded to bfloat16: the rounding alone gives 1.7e-3."""


def gemm_bf16_peers(size: int, layout: str) -> tuple[Spec, ...]:
    """One for each way to share a tile among warp groups."""
    return tuple(("matmul", size, size, size, layout, p) for p in POLICIES)


def gemm_bf16(size: int, layout: str) -> Iterator[Work]:
    """A square product in bfloat16 beside cuBLAS and TileLang."""
    a, b = normal(size, size), normal(size, size)
    left = a.t() if layout[0] == "T" else a
    right = b.t() if layout[1] == "T" else b
    ours = {"NN": kernels.matmul, "NT": kernels.matmul_nt, "TN": kernels.matmul_tn}[layout]
    out = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    expected = torch.mm(left, right)
    check(f"GEMM {size} {layout}", ours(a, b), expected, LIMIT)

    def called(kernel: Any) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            kernel(a, b, out)
            return out

        return run

    work = Work(f"GEMM bf16 {size}³ {layout}", 2.0 * size**3, "TFLOP/s", 0.95, 1.03)
    specs = [s for s in gemm_bf16_peers(size, layout) if s in TILELANG]
    problems: list[str] = []
    found = usable({s[-1]: called(TILELANG[s]) for s in specs}, expected, LIMIT, problems)
    peers: dict[str, Call] = {"cuBLAS": lambda: torch.mm(left, right, out=out)}
    if found:
        best = fastest(found)
        peers["TileLang"] = found[best]
        problems.append(f"TileLang's policy {best}")
    work.note = "; ".join(problems)
    work.results = compare(lambda: ours(a, b), peers)
    yield work


def gemm_fp8(size: int) -> Iterator[Work]:
    """A square product of e4m3 in bfloat16 beside cuBLASLt."""
    a, b = (normal(size, size).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    truth = torch.mm(a.float(), b.float().t())

    def peer() -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    def ours() -> torch.Tensor:
        return kernels.matmul_nt(a, b, dtype="float8_e4m3", block_K=128)  # type: ignore[no-any-return]

    # The hardware adds products of 8-bit floats with 14 bits or so.
    check(f"GEMM fp8 {size}", ours(), truth, 2e-2)
    check(f"cuBLASLt's fp8 {size}", peer(), truth, 2e-2)
    del truth
    work = Work(f"GEMM fp8 {size}³", 2.0 * size**3, "TFLOP/s", 0.9, 1.0)
    work.results = compare(ours, {"cuBLASLt": peer})
    yield work


Tile = tuple[str, dict[str, int]]
"""The kernel and its options."""
_PLAIN, _SWAPPED = "matmul_nt", "matmul_skinny"


def _plain(rows: int, columns: int, depth: int, stages: int, threads: int) -> Tile:
    return _PLAIN, {"block_M": rows, "block_N": columns, "block_K": depth, "stages": stages,
                    "threads": threads}  # fmt: skip


def _swapped(tokens: int, columns: int, depth: int, stages: int, shift: int) -> Tile:
    return _SWAPPED, {"tokens": tokens, "block_N": columns, "block_K": depth, "stages": stages,
                      "threads": 2 * columns, "shift": shift}  # fmt: skip


SKINNY: dict[int, tuple[Tile, ...]] = {
    16: (
        _swapped(16, 64, 256, 4, 1), _swapped(16, 64, 64, 12, 0), _swapped(16, 128, 128, 6, 1),
        _swapped(16, 64, 128, 6, 1),
    ),
    32: (
        _swapped(16, 128, 128, 6, 1), _swapped(32, 64, 64, 12, 0), _swapped(32, 64, 256, 4, 1),
        _swapped(16, 128, 128, 6, 0),
    ),
    64: (
        _plain(64, 64, 128, 6, 128), _swapped(64, 64, 64, 8, 0), _plain(64, 64, 64, 8, 128),
        _swapped(32, 128, 64, 8, 0),
    ),
    128: (
        _plain(64, 128, 128, 4, 128), _plain(64, 128, 64, 8, 128), _swapped(64, 128, 64, 8, 0),
        _swapped(64, 128, 128, 4, 0),
    ),
    256: (
        _swapped(128, 128, 64, 6, 0), _swapped(128, 128, 64, 6, 1), _plain(128, 128, 64, 6, 256),
    ),
}  # fmt: skip
"""By rows of A the tiles that are tried."""


def gemm_skinny(m: int, size: int = 8192) -> Iterator[Work]:
    """Few rows times a square matrix of weights: the rate at which weights are read.

    Four matrices in turn, since one of them alone would partly stay in L2.
    """
    a = normal(m, size)
    weights = [normal(size, size) for _ in range(4)]
    problems: list[str] = []

    def ours(tile: Tile) -> Maker:
        kernel = getattr(kernels, tile[0])
        return lambda w: lambda: kernel(a, w, **tile[1])

    def peer(w: torch.Tensor) -> Call:
        return lambda: torch.mm(a, w.t())

    makers = {" ".join(map(str, (t[0], *t[1].values()))): ours(t) for t in SKINNY[m]}
    expected = peer(weights[0])()
    right = usable({n: make(weights[0]) for n, make in makers.items()}, expected, LIMIT, problems)
    if not right:
        raise WrongResult("; ".join(problems))
    calls = {n: replayed([makers[n](w) for w in weights]) for n in right}
    best = fastest(calls)
    work = Work(f"GEMM bf16 M={m} N=K={size}", 4 * 2.0 * size * size, "GB/s", 0.95, 1.02)
    work.note = "; ".join([best, *problems])
    work.results = compare(calls[best], {"cuBLAS": replayed([peer(w) for w in weights])})
    yield work


# -- int4 weights

Tiling = tuple[str, tuple[int, int, int], int, int]
"""Kernel, tile (rows of A, rows of weights, K), stages, threads."""
INT4_OURS: dict[int, tuple[Tiling, ...]] = {
    8192: (
        ("matmul_int4", (256, 128, 64), 4, 256), ("matmul_int4", (128, 256, 64), 4, 256),
        ("matmul_int4_t", (256, 128, 128), 3, 256), ("matmul_int4_t", (256, 128, 64), 4, 256),
    ),
    16: (
        ("matmul_int4_split", (16, 128, 256), 4, 256),
        ("matmul_int4_split", (16, 128, 512), 2, 256),
        ("matmul_int4_split", (16, 128, 256), 6, 256),
        ("matmul_int4_split", (16, 128, 128), 8, 256),
        ("matmul_int4_t", (16, 64, 512), 3, 128),
    ),
}  # fmt: skip
INT4_THEIRS: dict[int, tuple[Tiling, ...]] = {
    8192: (
        ("matmul_int4", (256, 128, 128), 2, 256), ("matmul_int4", (128, 256, 64), 4, 256),
        ("matmul_int4_t", (128, 128, 128), 2, 256), ("matmul_int4_t", (256, 128, 64), 4, 256),
    ),
    16: (
        ("matmul_int4_t", (16, 64, 128), 8, 128), ("matmul_int4_t", (16, 64, 256), 4, 128),
        ("matmul_int4_t", (16, 128, 128), 6, 256),
    ),
}  # fmt: skip


def int4_peers(m: int, size: int = 8192) -> tuple[Spec, ...]:
    """TileLang's kernels in the tiles above."""
    return tuple((name, m, size, size, *rest) for name, *rest in INT4_THEIRS[m])


def unpacked(packed: torch.Tensor) -> torch.Tensor:
    """N×K weights in -8…7, as float32."""
    halves = torch.stack((packed & 15, packed >> 4), dim=-1)
    return halves.flatten(1).float() - 8


def gemm_int4(m: int, size: int = 8192) -> Iterator[Work]:
    """bfloat16 times packed int4 weights, each side in the fastest of its tilings."""
    a, scales = normal(m, size), torch.rand(size, device="cuda") + 0.5
    shape = (size, size // 2)
    weights = [
        torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8)
        for _ in range(1 if m > 256 else 4)
    ]
    expected = torch.mm(a.float(), unpacked(weights[0]).t()) * scales
    problems: list[str] = []
    sides = {}
    for side, makers in (("ours", our_int4(a, scales, m)), ("TileLang", their_int4(a, scales, m))):
        right = usable({n: make(weights[0]) for n, make in makers.items()}, expected, LIMIT,
                       problems)  # fmt: skip
        calls = right
        if len(weights) > 1:
            calls = {n: replayed([makers[n](w) for w in weights]) for n in right}
        if calls:
            best = fastest(calls)
            sides[side] = calls[best]
            problems.append(f"{side}: {best}")
    many = m > 256
    amount = 2.0 * m * size * size if many else len(weights) * size * size / 2
    name = f"int4 bf16 GEMM {size}³" if many else f"int4 M={m} N=K={size}"
    work = Work(name, amount, "TFLOP/s" if many else "GB/s", 1.0, 1.1, note="; ".join(problems))
    if "ours" not in sides:
        raise WrongResult(work.note)
    peers = {"TileLang": sides["TileLang"]} if "TileLang" in sides else {}
    if many:
        dense = unpacked(weights[0]).to(torch.bfloat16)
        cublas = measuring.batch_ms(lambda: torch.mm(a, dense.t()), 5)
        work.note += f"; cuBLAS on bf16 weights {work.rate(cublas):.0f}"
    work.results = compare(sides["ours"], peers)
    yield work


def our_int4(a: torch.Tensor, scales: torch.Tensor, m: int) -> dict[str, Maker]:
    """By tiling; each takes the weights."""

    def maker(tiling: Tiling) -> Maker:
        name, (bm, bn, bk), stages, threads = tiling
        kernel = getattr(kernels, name)
        options = {"block_M": bm, "block_N": bn, "block_K": bk, "stages": stages}

        def run(w: torch.Tensor) -> torch.Tensor:
            made = kernel(a, w, scales, threads=threads, **options)
            return made[0] if isinstance(made, tuple) else made

        return lambda w: lambda: run(w)

    return {shown(t): maker(t) for t in INT4_OURS[m]}


def their_int4(a: torch.Tensor, scales: torch.Tensor, m: int) -> dict[str, Maker]:
    """The same for TileLang."""

    def maker(spec: Spec) -> Maker:
        kernel, size = TILELANG[spec], len(scales)
        shape = (size, m) if spec[0].endswith("_t") else (m, size)
        out = torch.empty(shape, device="cuda", dtype=torch.bfloat16)

        def make(w: torch.Tensor) -> Callable[[], torch.Tensor]:
            def run() -> torch.Tensor:
                kernel(a, w, scales, out)
                return out

            return run

        return make

    return {
        shown(t): maker(s)
        for t, s in zip(INT4_THEIRS[m], int4_peers(m, len(scales)))
        if s in TILELANG
    }


_PLACES = {
    "matmul_int4": "shared",
    "matmul_int4_t": REGISTERS,
    "matmul_int4_split": f"{REGISTERS}, parts of K,",
}
"""Where weights are multiplied from; those in registers alone give the result transposed."""


def shown(tiling: Tiling) -> str:
    """`registers 16×64×128, 8 stages`."""
    name, tile, stages, _ = tiling
    place = _PLACES[name]
    return f"{place} {'×'.join(map(str, tile))}, {stages} stages"


# -- memory-bound work


def device_copy(size: float) -> Call:
    """A copy within device memory that reads and writes so many bytes together."""
    source = torch.empty(int(size // 2), device="cuda", dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def bandwidth(
    name: str,
    size: float,
    ours: Callable[[], torch.Tensor],
    peers: dict[str, Callable[[], torch.Tensor]],
    limit: float = LIMIT,
) -> Work:
    """Work that moves `size` bytes, beside a device copy that moves as many; the first of the
    peers says what is right."""
    made, wanted = ours(), next(iter(peers.values()))()
    for part, truth in zip(made.flatten().split(1 << 27), wanted.flatten().split(1 << 27)):
        check(name, part, truth, limit)
    del made, wanted, part, truth
    work = Work(name, size, "GB/s", 0.92, 0.97)
    work.results = compare(ours, {"copy": device_copy(size)})
    work.note = ", ".join(
        f"{p.peer} {work.rate(p.peer_ms):.0f}" for p in compare(ours, peers, pairs=7)
    )
    return work


def normalisations(quick: bool) -> Iterator[Work]:
    """Softmax and RMSNorm over rows; 1.07 GB each."""
    rows, columns = 32768, 8192
    x, weight = normal(rows, columns), normal(columns)
    size = 4.0 * rows * columns

    def norm(t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(t, (columns,), weight, 1e-6)

    def soft(t: torch.Tensor) -> torch.Tensor:
        return torch.softmax(t, -1)

    cases: list[tuple[str, Callable[..., Any], Call, float]] = [
        ("softmax", soft, lambda: kernels.softmax(x), LIMIT),
        ("RMSNorm", norm, lambda: kernels.rms_norm(x, weight), 6e-3),
    ]
    for name, theirs, ours, limit in cases:
        peers: dict[str, Callable[[], torch.Tensor]] = {"eager": partial(theirs, x)}
        if not quick:
            peers["compile"] = partial(torch.compile(theirs), x)
        yield bandwidth(f"{name} {rows}×{columns} bf16", size, ours, peers, limit)


def elementwise() -> Iterator[Work]:
    """Transpose, sum and conversion; at least 1.07 GB each."""
    rows, columns = 32768, 8192
    x, other = normal(rows, columns), normal(rows * columns)
    yield bandwidth(
        f"transpose {rows}×{columns} bf16", 4.0 * x.numel(), lambda: kernels.transpose(x),
        {"eager": lambda: x.t().contiguous()},
    )  # fmt: skip
    flat = x.view(-1)
    yield bandwidth(
        "add 268 M bf16", 6.0 * flat.numel(), lambda: kernels.add(flat, other),
        {"eager": lambda: flat + other},
    )  # fmt: skip
    wide = torch.randn(rows * columns, device="cuda")
    yield bandwidth(
        "cast 268 M f32 → bf16", 6.0 * wide.numel(), lambda: kernels.cast(wide),
        {"eager": lambda: wide.to(torch.bfloat16)},
    )  # fmt: skip


# -- everything


def groups(quick: bool) -> Iterator[Group]:
    """All of them, what says most first."""

    def square(size: int) -> Iterator[Group]:
        for layout in ("NT", "NN", "TN"):
            yield Group(
                f"gemm {size} {layout}",
                partial(gemm_bf16, size, layout),
                gemm_bf16_peers(size, layout),
            )

    yield from square(8192)
    yield Group("memory normalisations", partial(normalisations, quick))
    yield Group("memory elementwise", elementwise)
    yield Group("launch", gpu_costs.launch_costs)
    yield Group("compile", gpu_costs.compile_costs)
    yield from square(4096)
    for m in (16, 32, 64, 128, 256):
        yield Group(f"gemm skinny {m}", partial(gemm_skinny, m))
    yield Group("gemm fp8", partial(gemm_fp8, 8192))
    for m in (8192, 16):
        yield Group(f"int4 {m}", partial(gemm_int4, m), int4_peers(m))
    if not quick:
        yield from square(16384)


class Report:
    """What was measured so far, on the screen and in the file."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.rows: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.held: dict[str, Any] = {"circumstances": measuring.circumstances(), "rows": self.rows}

    def add(self, row: dict[str, Any], line: str) -> None:
        """A row, or why there is none."""
        self.rows.append(row)
        self.lines.append(line)
        print(line, flush=True)
        self.write()

    def write(self) -> None:
        """The file as a whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.held, indent=1))

    def measure(self, group: Group) -> bool:
        """All rows of a group; whether the device can still be used."""
        before = measuring.clocks()
        try:
            for work in group.measure():
                after = measuring.clocks()
                self.add({**work.row(), "clocks": [before, after]}, str(work))
                before = after
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            self.add({"work": group.name, "error": told}, f"{group.name}: {told}"[:600])
            try:
                torch.cuda.synchronize()
            except Exception:
                return False
        torch.cuda.empty_cache()
        return True


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and peers")
    parser.add_argument("--only", default="", help="a regular expression over the groups")
    parser.add_argument("--budget", type=float, default=0.0, metavar="SECONDS",
                        help="start no group after so long")  # fmt: skip
    parser.add_argument("--without-tilelang", action="store_true")
    parser.add_argument("-o", "--output", default=str(RESULTS / "kernels.json"))
    args = parser.parse_args()
    start = time.perf_counter()
    torch.manual_seed(0)
    chosen = [g for g in groups(args.quick) if re.search(args.only, g.name)]
    report = Report(args.output)
    specs = [s for g in chosen for s in g.peers]
    if specs and not args.without_tilelang:
        report.held["tilelang"] = compile_peers(specs)
        print(report.held["tilelang"], f"{time.perf_counter() - start:.0f} s", flush=True)
    skipped = report.held["skipped"] = []
    usable_device = True
    for group in chosen:
        late = args.budget and time.perf_counter() - start > args.budget
        if late or not usable_device:
            skipped.append(group.name)
            continue
        began = time.perf_counter()
        usable_device = report.measure(group)
        print(f"  {group.name}: {time.perf_counter() - began:.1f} s", flush=True)
    report.held["seconds"] = time.perf_counter() - start
    report.write()
    print("\n" + "\n".join(line[:150] for line in report.lines))
    if skipped:
        print("not measured:", ", ".join(skipped))
    return 0 if usable_device and not skipped else 1


if __name__ == "__main__":
    sys.exit(main())
