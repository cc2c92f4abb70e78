"""A pipelined layer that is slow: what the timeline of a CTA says, the one change, and its gain.

    python case_studies/starved_pipeline/investigate.py [-o FILE]     on a GPU
    python case_studies/starved_pipeline/investigate.py --readme      the numbers of README.md

Times are medians of batches between two CUDA events, both versions in turns; the timelines and the
shares come from a profile with `instrument="ops"`, as `tileprof run --instrument ops` records it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import tileprof
import tileprof.lang as T

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
RESULTS = ROOT / "benchmarks" / "results" / "starved_pipeline.json"
README = HERE / "README.md"

TOKENS, WIDTH, HIDDEN = 4096, 4096, 14336
SLOW, FAST = 2, 4
"""Stages; more than four do not fit into shared memory."""
SPAN_US = 12.0
"""Of a CTA, from the middle of its time, that is drawn."""
SHOWN = ("Consumers wait", "While", "“wait for")
"""Of the remarks, those on the page."""
LIMIT = 5e-3


@tileprof.jit
def layer(
    X, W, bias, stages: int = SLOW, block_M: int = 128, block_N: int = 256, block_K: int = 64
):
    """silu(X Wᵀ + bias), as the first half of a gated layer has it."""
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    W: T.Tensor((N, K), T.bfloat16)
    bias: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        X_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        W_shared = T.alloc_shared((block_N, block_K), T.bfloat16)
        sums = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(X[by * block_M, k * block_K], X_shared)
            T.copy(W[bx * block_N, k * block_K], W_shared)
            T.gemm(X_shared, W_shared, sums, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            sums[i, j] = sums[i, j] + bias[bx * block_N + j]
            sums[i, j] = sums[i, j] / (1.0 + T.exp(-sums[i, j]))
        T.copy(sums, Y[by * block_M, bx * block_N])
    return Y


# -- what a profile says


def observed(profile: Any) -> dict[str, Any]:
    """How long loads are under way, how long a turn and its parts take, and a piece of a CTA."""
    from tileprof.viewer.ctas.ctas import Ctas

    ctas = Ctas(profile)
    cta = ctas.pick("layer")
    held = ctas.held
    mine = [w for w in ctas.warps(cta) if held.warps[w].role == "consumer"]
    visits, flights = held.visits, held.flights
    lasted: dict[str, list[int]] = {}
    for warp in mine:
        for at in ctas.visits(warp):
            path = ctas.path(cta, int(visits.site[at]))
            lasted.setdefault(path, []).append(int(visits.end[at] - visits.begin[at]))
    rings = [q for q, name in enumerate(held.queues) if name.startswith("ring")]
    loads = [
        int(flights.retired[f] - flights.issued[f])
        for f in range(len(flights))
        if int(flights.queue[f]) in rings and int(flights.waiter[f]) in mine
    ]
    inner = {path: values for path, values in lasted.items() if "loop k" in path}
    return {
        "load_ns": statistics.median(loads),
        "visits_ns": {path: statistics.mean(values) for path, values in inner.items()},
        "shares": shares(profile),
        "said": said(profile),
        "timeline": drawn(profile, ctas, cta),
    }


def shares(profile: Any) -> dict[str, float]:
    """Of the time of the consumers, by what they did, from 1 % on."""
    from instrument import path_of

    found: dict[str, float] = {}
    for node in map(profile.node, profile.find(None, "site")):
        path = path_of(node)
        if path.startswith("consumer"):
            found[path] = found.get(path, 0.0) + node.own("time")
    whole = sum(found.values())
    return {path: time / whole for path, time in found.items() if time >= 0.01 * whole}


def said(profile: Any) -> list[str]:
    """The remarks that came from what was recorded."""
    (kernel,) = [k for k in profile.tables.kernels if k.name == "layer"]
    told = [str(r.decision) for r in kernel.remarks if r.op == "inside"]
    return [text for text in told if "store" not in text]


def drawn(profile: Any, ctas: Any, cta: int) -> str:
    """Some µs from the middle of a CTA, as `tileprof view --timeline layer` draws them."""
    from tileprof.viewer import render_cta

    told = ctas.held.ctas[cta]
    middle = (told.end - told.begin) / 2000
    span = (middle, middle + SPAN_US)
    return str(render_cta(profile, "layer", told.block, span, width=100))


# -- the investigation


def investigated() -> dict[str, Any]:
    """Both versions: times in turns, what their profiles say."""
    import torch
    from measuring import batch_ms, circumstances, compare, replayed

    torch.manual_seed(0)
    x = torch.randn(TOKENS, WIDTH, device="cuda").bfloat16()
    w = torch.randn(HIDDEN, WIDTH, device="cuda").bfloat16() / WIDTH**0.5
    bias = torch.randn(HIDDEN, device="cuda")
    expected = torch.nn.functional.silu((x @ w.t()).float() + bias).double()

    def profiled(stages: int) -> dict[str, Any]:
        found = layer(x, w, bias, stages=stages)
        error = float((found.double() - expected).norm() / expected.norm())
        if not error < LIMIT:
            raise SystemExit(f"{stages} stages are wrong: relative error {error:.2e}")
        with tileprof.profile(instrument="ops", context="scopes") as session:
            for _ in range(20):
                layer(x, w, bias, stages=stages)
            torch.cuda.synchronize()
        return observed(session.profile)

    before, after = profiled(SLOW), profiled(FAST)
    slow, fast = (replayed([lambda s=s: layer(x, w, bias, stages=s)] * 8) for s in (SLOW, FAST))
    (pairs,) = compare(slow, {"gain": fast})
    work = 2 * TOKENS * WIDTH * HIDDEN
    times = [min(batch_ms(run, 3) for _ in range(5)) / 8 for run in (slow, fast)]
    return {
        "circumstances": circumstances(),
        "before": before | {"stages": SLOW, "ms": times[0], "tflops": work / times[0] / 1e9},
        "after": after | {"stages": FAST, "ms": times[1], "tflops": work / times[1] / 1e9},
        "time_ratio": {"ratio": pairs.ratio, "low": pairs.low, "high": pairs.high,
                       "pairs": pairs.pairs},
    }  # fmt: skip


# -- the page


def section(name: str, record: dict[str, Any]) -> str:
    """What README.md says of one version."""
    held = record[name]
    lines = [
        f"| {held['stages']} stages | |", "| --- | --- |",
        f"| time | {held['ms']:.3f} ms, {held['tflops']:.0f} TFLOP/s |",
        f"| a load, from its issue to the end of the wait | {held['load_ns'] / 1e3:.2f} µs |",
    ]  # fmt: skip
    for path, ns in held["visits_ns"].items():
        share = held["shares"].get(path)
        of = f", {share:.1%} of the consumers' time" if share else ""
        lines.append(f"| {path.removeprefix('consumer / ')} | {ns:.0f} ns a visit{of} |")
    remarks = [f"> {text}" for text in held["said"] if text.startswith(SHOWN)]
    drawing = ["```text", held["timeline"].rstrip(), "```"]
    return "\n".join([*lines, "", *remarks, "", *drawing])


def with_sections(page: str, record: dict[str, Any]) -> str:
    """The page with both versions' numbers between their marks."""
    told = record["time_ratio"]
    device = record["circumstances"]["device"]
    gain = (
        f"{told['ratio']:.3f} × the time [{told['low']:.3f}, {told['high']:.3f}], "
        f"{told['pairs']} pairs in turns, {device}, {record['circumstances']['date']}."
    )
    made = {"before": section("before", record), "after": section("after", record), "gain": gain}
    for name, text in made.items():
        before, mark, rest = page.partition(f"<!-- {name} -->")
        _, end, rest = rest.partition(f"<!-- end of {name} -->")
        page = f"{before}{mark}\n\n{text}\n\n{end}{rest}"
    return page


def main() -> None:
    """Investigate, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default=str(RESULTS))
    parser.add_argument("--readme", action="store_true", help="write README.md from the results")
    args = parser.parse_args()
    if args.readme:
        record = json.loads(RESULTS.read_text())
        README.write_text(with_sections(README.read_text(), record))
        return
    record = investigated()
    Path(args.output).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    for name in ("before", "after"):
        print(section(name, record), end="\n\n")
    print(json.dumps(record["time_ratio"]))


if __name__ == "__main__":
    main()
