"""Products of matrices in tiles so small, or so narrow, that L2 is what they wait for.

Static: a tile of m rows and n columns is asked for 1/m + 1/n of an element for each
multiplication; the tiles of other kernels, which fit into registers and shared memory, for less.
Dynamic: the time, beside what L2 takes for all that blocks ask for, and tensor cores for the
products.

With larger tiles L2 takes less in proportion, and the kernel as long as that, as its products, or
its bytes, whichever is longest. L2 gives up to 1.18 of its rate where blocks ask for a tile
together, so the least of the gain is half of the likely one.

An operand that all blocks have, and that stays while a loop multiplies it by others, is asked for
once a block, and each element of the others once: a larger tile saves nothing of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.kernel.launches import launch_of, launch_place
from tileprof.analyzer.kernel.pace import at_roof
from tileprof.analyzer.numbers.kernels import PACE_TOGETHER
from tileprof.analyzer.numbers.shared import HALFWAY, LONGEST_SAVING, MEMORY_REACHED
from tileprof.analyzer.rules.tile_program.numbers import (
    SMALL_TILES_BOUND,
    SMALL_TILES_FEWER,
    SMALL_TILES_LARGE,
    SMALL_TILES_WIDE,
)
from tileprof.analyzer.tiles.conditions import products_by_data
from tileprof.analyzer.tiles.effects import effects_of
from tileprof.kernel_ir import COPIES, PRODUCTS, TileKernel

_COMPILER = "The choice of tiles did not consider how often L2 is asked for each element."


def small_tiles(case: KernelCase) -> Iterator[Draft]:
    """A kernel of one product whose tiles ask L2 for more than it gives in the products' time."""
    tile, launch = _tile(case.tiles), launch_of(case)
    l2, asked = case.roofs.peaks.get("l2_read"), case.total("bytes")
    if tile is None or launch is None or not l2 or not asked or not case.time:
        return
    if products_by_data(case.tiles) or _operand_stays(case.tiles):
        return  # what is asked for is not known, or not the tile's doing
    (rows, columns), best = tile, _best(case, *tile)
    fewer = _asked(rows, columns) / _asked(*best)
    large = best[0] * best[1] / (rows * columns)
    share, products = asked / l2.value * 1e9 / case.time, at_roof(case)
    few = launch.pieces / large < launch.multiprocessors
    if few or fewer < SMALL_TILES_FEWER or share < max(SMALL_TILES_BOUND, products) or not products:
        return
    memory = case.roofs.copy_floor / case.time / MEMORY_REACHED[1]
    after = [max(products, memory, min(share, 1.0) / fewer / each) for each in (1.0, PACE_TOGETHER)]
    mid, high = (max(0.0, min(1 - each, LONGEST_SAVING)) for each in after)
    times = asked / case.roofs.needed_bytes if case.roofs.needed_bytes else 0.0
    static = (
        f"tiles of {rows} × {columns} ask L2 for {asked / case.launches / 1e9:,.3g} GB per launch,"
        f" {times:,.1f} times the tensors; tiles of {best[0]} × {best[1]} for {1 / fewer:.2f} of it"
    )
    measured = (
        f"L2 takes {percent(min(share, 1.0), 0)} of the time for that at {l2.value / 1e12:.3g}"
        f" TB/s, as measured, tensor cores {percent(products, 0)} for the products"
    )
    yield Draft(
        "suggestion", f"a tile of {rows} × {columns} is read too often from L2",
        launch_place(case), (Evidence("static", static), Evidence("activities", measured)),
        f"Take a larger tile, of {best[0]} × {best[1]} for example: each element that is loaded is"
        " then multiplied more often.", _COMPILER, Saving(HALFWAY * mid, mid, max(mid, high)),
    )  # fmt: skip


def _tile(kernel: TileKernel) -> tuple[int, int] | None:
    """Rows and columns of the sums of a kernel's only product; None where it has others."""
    targets = {op.operands[2] for op in kernel.named(*PRODUCTS) if len(op.operands) > 2}
    held = [kernel.types[name].extents for name in targets if name in kernel.types]
    if len(held) != 1 or held[0] is None or len(held[0]) != 2:
        return None
    return held[0][0], held[0][1]


def _operand_stays(kernel: TileKernel) -> bool:
    """Return whether the innermost loop around a product leaves one of its operands as it was, and
    all blocks have the same one."""
    effects = effects_of(kernel)
    blocks = {name for each in kernel.named("launch") for name in each.arguments}
    for op, around in kernel.nested:
        loops = [each for each in around if each.name == "for"]
        if op.name not in PRODUCTS or not loops:
            continue
        kept = {effects.root(each) for each in op.operands[:2]} - effects.of(loops[-1]).written
        copies = map(effects.of, kernel.named(*COPIES))
        if any(each.written & kept and not each.depends & blocks for each in copies):
            return True
    return False


def _best(case: KernelCase, rows: int, columns: int) -> tuple[int, int]:
    """The tile that other kernels of this element type have, along the longer edge."""
    wide = case.roofs.matrix_dtype in ("float32", "tf32")
    short, long = SMALL_TILES_WIDE if wide else SMALL_TILES_LARGE
    return (long, short) if rows > columns else (short, long)


def _asked(rows: int, columns: int) -> float:
    return 1 / rows + 1 / columns
