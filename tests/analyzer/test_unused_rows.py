"""Parts of tiles in shared memory that no statement reads, and copies that bring them."""

from __future__ import annotations

import pytest

from tests.analyzer import written
from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, only, program
from tileprof.analyzer.kernel.threads.unused_rows import partly_read, unused_bytes
from tileprof.profile.storage.ir_text import read

KERNEL = """\
kernel @taps(%X: global<4096, float32>, %N: global<64, int32>, %Y: out global<4096, float32>) {{
  %c16 = constant 16 : index
  launch [%c16] {{threads = [128]}} body(%block: index) {{
    %x = alloc shared {{shape = [1024, 2]}} : shared<1024, 2, float32>
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c256 = constant 256 : index
    %sum = add %c256, %c16 : index
    %part = view %x, [%c0, %c0] {{sizes = [256, 2], in_bounds = true}} : shared<256, 2, float32>
    %at = view %X, [%c0] {{sizes = [256], in_bounds = true}} : global<256, float32>
    for serial %c0, %c16, %c1 body(%tap: index) {{
      parallel [%c256] body(%i: index) {{
        %row = add %i, %tap : index
        {access}
      }}
    }}
  }}
}}
"""
LOAD = "%v = load %x, [%row, %c1] {in_bounds = true} : float32"


@pytest.mark.parametrize(
    ("access", "rows"),
    [
        (LOAD, 1024 - 271),
        ("%v = load %x, [%i, %c1] {in_bounds = true} : float32", 1024 - 256),
        ("%far = mul %row, %c16 : index\n%v = load %x, [%far, %c0] : float32", 0),
        ("%n = load %N, [%tap] : int32\n%v = load %x, [%n, %c0] : float32", 0),
        ("fill %x, %c0", 0),
    ],
    ids=["two loops", "one loop", "all of it", "rows that memory names", "the tile as a whole"],
)  # fmt: skip
def test_rows_behind_the_last_one_that_is_accessed(access: str, rows: int) -> None:
    """Eight bytes a row; nothing where some use is not known."""
    kernel = read(KERNEL.format(access=access))
    assert kernel is not None
    assert sum(unused_bytes(kernel).values()) == 8 * rows


def test_blocks_that_an_unread_part_keeps_away() -> None:
    """Two blocks of 96 KB fit, of which nothing reads all but 2; with three the third part of idle
    cycles goes, though passes of shared memory are reckoned to fill the time."""
    code = [
        ("LDS R0, [R2]", {"selected": 5000, "mio_throttle": 1000}, 1, 5),
        ("FADD R0, R0, R1", {"short_scoreboard": 6000, "short_scoreboard_not_issued": 6000}, 1, 5),
    ]
    ir = KERNEL.format(access=LOAD).replace("1024, 2]", "12288, 2]")
    ir = ir.replace("<1024, 2,", "<12288, 2,").replace("%c16]", "%c4096]")
    ir = ir.replace("  launch", "  %c4096 = constant 4096 : index\n  launch")
    facts = launch(4096, held=2, threads=512, registers=40, dynamic_shared_bytes=98304)
    made = Made(ir=ir, code=code, attributes=facts | {"limited_by": "shared memory"})
    finding = only(on_h200(made), "occupancy-limited")
    assert finding.title.endswith("larger in shared memory than what is used of it")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.5 / 3), rel=0.01)


@pytest.mark.parametrize(
    ("product", "unread"),
    [
        ("gemm %part, %b, %s", 0.75),
        ("gemm %a, %b, %s", 0.0),
        ("gemm %part, %b, %s\ncopy %a, %x", 0.0),
        ("gemm %near, %b, %s", 0.0),
        ("%n = load %S, [%c0] : int32\n%v = load %a, [%n, %c0] : float16\ngemm %part, %b, %s", 0.0),
    ],
    ids=["a part", "all", "all by another statement", "all but padding", "where data say"],
)
def test_copies_of_which_a_part_is_never_read(product: str, unread: float) -> None:
    """A quarter of the tile of A is multiplied; the last 16 columns may keep banks apart."""
    part = "%part = view %a, [%c0, %c0] {sizes = [32, 64]} : shared<32, 64, float16>"
    near = "%near = view %a, [%c0, %c0] {sizes = [128, 48]} : shared<128, 48, float16>"
    tiles = read(written.kernel(part, near, *product.splitlines()))
    assert tiles is not None
    found = {each.buffer: each for each in partly_read(tiles)}
    assert {name: each.unread for name, each in found.items()} == ({"%a": unread} if unread else {})
    if unread:
        assert found["%a"].bytes == 4 * 8 * 96 * 64 * 2  # blocks, iterations, elements
        assert unused_bytes(tiles) == {"%a": 2 * 96 * 64 * 2}  # stages


def test_waits_for_bytes_that_nobody_reads_go() -> None:
    """Of 8,000 of 10,000 samples that wait for memory the part goes that three quarters of A's
    tiles are of all bytes that blocks ask for."""
    part = "%part = view %a, [%c0, %c0] {sizes = [32, 64]} : shared<32, 64, float16>"
    code = [
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2", {"long_scoreboard": 8000}, 1, 5),
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", {"selected": 2000}, 1, 6),
    ]
    asked = 4 * 8 * (128 * 64 + 64 * 128) * 2
    made = Made(ir=written.kernel(part, "gemm %part, %b, %s"), code=code, metrics={"bytes": asked})
    finding = only(program(made), "redundant-traffic")
    assert finding.title == "75 % of what is copied from `A` is never read"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * 0.375))
