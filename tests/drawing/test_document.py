"""Every number of a page against the stream of accesses and the compiler."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tileprof
from benchmarks.studies import study
from tests.drawing.kernels import large, product, scattered, turned
from tests.drawing.reading import boxes, elements, unpacked
from tileprof import ir
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.drawing import Drawing, show
from tileprof.drawing.page import columns
from tileprof.drawing.page.document import document
from tileprof.errors import UsageError
from tileprof.remarks.layouts import GlobalAccess, SharedAccess
from tileprof.runtime.events.table import Events

ONES = np.ones((70, 100), np.float32), np.ones((100, 40), np.float32)
ROWS = np.arange(128, dtype=np.float32).reshape(16, 8), np.array([12, 15, 15, 2], np.int32)


RUNS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (product, ONES),
    "scattered": (scattered, ROWS),
    "attention": (partial(study("attention").main, length=70, heads=1, groups=1), ()),
    "softmax": (partial(study("softmax").main, m=10, n=70, repeat=1), ()),
}


def drawn(kernel: Callable[..., Any], *args: Any, **options: Any) -> tuple[Drawing, dict[str, Any]]:
    """A drawing and the data of its page, after JSON; arguments are copied."""
    made = show(kernel, *map(np.array, args), machine_code=False, **options)
    return made, json.loads(json.dumps(document(made.watch, made.machines)))


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Events]:
    """The data of the page of a run, and the events of all of its blocks."""
    kernel, args = RUNS[request.param]
    stream = tileprof.events(kernel, *(np.array(each) for each in args), blocks=1 << 20)
    return drawn(kernel, *args)[1], stream


def site_of(stream: Events) -> list[tuple[Any, ...]]:
    """Launch and place of every row."""
    names = ("launch", "line", "op", "buffer", "access")
    return list(zip(*(stream[name].tolist() for name in names)))


def test_sums_of_each_place_are_those_of_the_stream(run: tuple[dict[str, Any], Events]) -> None:
    """Bytes, elements, guarded elements, and points that take part."""
    page, stream = run
    summed = ("elements", "guarded", "bytes")
    expected: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for site, *numbers in zip(site_of(stream), *(stream[name].tolist() for name in summed)):
        if site[0] < 0:
            continue
        sums = expected[site]
        sums["rows"] += 1
        for name, number in zip(summed, numbers):
            sums[name] += number
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for at, launch in enumerate(page["launches"]):
        for each in launch["sites"]:
            place = (at, *(each[name] for name in ("line", "op", "buffer", "access")))
            found[place]["rows"] += each["points"] - each["idle"]
            for name in summed:
                found[place][name] += each[name]
    assert found == expected
    assert found


def test_bytes_of_each_block_are_those_of_the_stream(run: tuple[dict[str, Any], Events]) -> None:
    """Bytes that a block reads and writes, and its elements outside of tensors."""
    page, stream = run
    outer = stream["space"] == "global"
    for at, launch in enumerate(page["launches"]):
        blocks = math.prod(launch["grid"])
        here = outer & (stream["launch"] == at)
        for name, column, kind in (
            ("read", "bytes", stream["access"] != "write"),
            ("written", "bytes", stream["access"] != "read"),
            ("guarded", "guarded", here),
        ):
            chosen = here & kind
            sums = np.bincount(stream["block"][chosen], stream[column][chosen], blocks)
            assert unpacked(launch[name]).tolist() == sums.tolist(), name


def accessed(stream: Events, launch: int, tensor: str, skipped: str) -> dict[int, set[Any]]:
    """Elements of a tensor that each block accesses, from the rows of the stream."""
    shown = (stream["launch"] == launch) & (stream["buffer"] == tensor)
    shown &= (stream["access"] != skipped) & (stream["space"] == "global")
    found: dict[int, set[Any]] = defaultdict(set)
    rank = sum(bool((stream[f"start{d}"][shown] >= 0).any()) for d in range(stream.rank))
    ranges = [(stream[f"start{d}"], stream[f"size{d}"]) for d in range(rank)]
    for row in np.flatnonzero(shown).tolist():
        low = [int(start[row]) for start, _ in ranges]
        high = [int(start[row] + size[row]) for start, size in ranges]
        found[int(stream["block"][row])] |= elements([(tuple(low), tuple(high))])
    return found


def test_regions_hold_the_elements_of_the_stream(run: tuple[dict[str, Any], Events]) -> None:
    """For every tensor and block; what must move is each of them once."""
    page, stream = run
    for at, launch in enumerate(page["launches"]):
        for tensor in launch["tensors"]:
            inside = elements([((0,) * len(tensor["shape"]), tuple(tensor["shape"]))])
            for way, skipped in (("read", "write"), ("written", "read")):
                found = accessed(stream, at, tensor["name"], skipped)
                assert (way in tensor) == bool(found)
                if not found:
                    continue
                held = tensor[way]
                for block in range(math.prod(launch["grid"])):
                    shown = boxes(held["regions"], launch["grid"], tensor["shape"], block)
                    assert elements(shown) == found[block] & inside
                every = set().union(*found.values()) & inside
                assert held["least"] == len(every) * tensor["width"]


def test_steps_are_the_accesses_of_a_block_in_order(run: tuple[dict[str, Any], Events]) -> None:
    """Each with its bytes, its points, and its iteration, which gives slot and phase."""
    page, stream = run
    for at, launch in enumerate(page["launches"]):
        mine = stream["launch"] == at
        for block, held in zip(launch["shown"], launch["steps"]):
            here = mine & (stream["block"] == block)
            step, bytes_ = stream["step"][here], stream["bytes"][here]
            _, begins, inverse = np.unique(step, return_index=True, return_inverse=True)
            sums = np.bincount(inverse, bytes_)
            sites = [launch["sites"][n] for n in unpacked(held["site"])]
            names = ("line", "buffer", "access")
            assert [tuple(each[n] for n in names) for each in sites] == list(
                zip(*(stream[n][here][begins].tolist() for n in names))
            )
            widths = np.array([each["width"] for each in sites])
            assert (unpacked(held["elements"]) * widths).tolist() == sums.tolist()
            assert unpacked(held["active"]).tolist() == np.bincount(inverse).tolist()
            slots = stream["slot"][here][begins]
            stages = np.array([max(each["stages"], 1) for each in sites])
            ring = slots >= 0
            assert (unpacked(held["trip"]) % stages)[ring].tolist() == slots[ring].tolist()


def cost(held: dict[str, Any]) -> tuple[Any, ...]:
    """The numbers of a cost on the page, with its op in the compiler's words."""
    op = {"read": "load", "write": "store", "atomic": "atomic"}[held["access"]]
    return held["line"], op, held["buffer"], held["width"], held["taken"], held["needed"]


def remarked(machine: ir.Kernel) -> set[tuple[Any, ...]]:
    """The same numbers from the remarks of a lowering."""
    found = set()
    for each in compile_cuda(machine, find_target("sm_90a")).remarks:
        line = each.location.line if each.location is not None else 0
        match each.decision:
            case GlobalAccess(width=width, sectors=taken, needed=needed):
                found.add((line, each.op, each.name, int(width), taken, needed))
            case SharedAccess(width=width, wavefronts=taken, needed=needed):
                found.add((line, each.op, each.name, int(width), taken, needed))
            case _:
                pass
    return found


def test_costs_are_those_of_the_compiler() -> None:
    """Each access of shared and global memory has the sectors or wavefronts of its remark."""
    made, page = drawn(turned, np.ones((64, 64), np.float32))
    expected = remarked(made.watch.kernels[0])
    assert {cost(each) for each in page["kernels"][0]["costs"]} == expected
    sites = page["launches"][0]["sites"]
    assert {cost(each) for site in sites for each in site["costs"]} == expected
    assert len(expected) == 4


def test_conflicts_are_those_of_the_compiler() -> None:
    """The staged result of a product meets in banks; the page has it although only the compiler
    knows the buffer."""
    made, page = drawn(product, *(np.ones((64, 64), np.float32) for _ in "AB"))
    (found,) = {cost(each) for each in page["kernels"][0]["costs"]}
    assert {found} == remarked(made.watch.kernels[0])
    assert found[2:] == ("C_staged", 8, 4, 2)


def test_layouts_are_those_that_the_compiler_chose() -> None:
    """Every element of a fragment lies where the layout says; a swizzle takes conflicts away."""
    made, page = drawn(product, *ONES)
    layouts = {each["name"]: each for each in page["kernels"][0]["layouts"]}
    held = next(each for each in made.machines[0].buffers if each.name == "c")
    assert held.registers is not None
    table = held.registers.table()
    thread, register = (unpacked(layouts["c"][name]) for name in ("thread", "register"))
    for at, place in enumerate(np.ndindex(32, 32)):
        assert tuple(table[thread[at], register[at]]) == place
    shared = next(each.shared for each in made.machines[0].buffers if each.name == "a")
    assert shared is not None
    address = unpacked(layouts["a"]["address"]).reshape(-1, 32)
    assert address[3, 5] == shared.address(np.array([0, 3, 5]))
    matrix = layouts["a"]["patterns"][-1]
    assert matrix == ["8 rows of 16 bytes (ldmatrix)", 1, 8, 1]


def test_the_grid_follows_from_sums_of_block_indices() -> None:
    """A product needs no table of its blocks; a page of 4,096 blocks is small."""
    made, page = drawn(product, np.ones((70, 8), np.float32), np.ones((8, 100), np.float32))
    tensors = {each["name"]: each for each in page["launches"][0]["tensors"]}
    assert tensors["A"]["read"]["regions"] == {
        "low": [[0, 0, 32], [0, 0, 0]], "high": [[32, 0, 32], [8, 0, 0]]
    }  # fmt: skip
    assert "number" not in tensors["C"]["written"]["regions"]
    assert len(made.page) < 250_000


def test_a_page_keeps_the_boxes_of_the_first_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many for all of them; sums are those of all blocks."""
    monkeypatch.setattr(columns, "MOST_BOXES", 5)
    tensors = drawn(scattered, *ROWS)[1]["launches"][0]["tensors"]
    tensor = next(each for each in tensors if each["name"] == "A")
    kept = tensor["written"]["regions"]
    assert unpacked(kept["number"]).tolist() == [0]
    shown = elements(boxes(kept, [2], [16, 8], 0))
    assert shown == {(row, column) for row in (0, 1) for column in (1, 3, 5, 7)}
    assert tensor["written"]["least"] == 16 * 4  # four rows of four columns of 4 bytes


def test_columns_hold_any_integers() -> None:
    """A column takes the smallest type; runs and equal values take no room for each one."""
    for values, kind in (
        ([], None), ([7], None), ([3] * 1000, None), ([0, 255], "u8"), ([-1, 127], "i8"),
        ([-1, 128], "i16"), ([0, 65535], "u16"), ([-1, 65535], "i32"), ([0, 1 << 52], "f64"),
        (list(range(300)), "u16"),
    ):  # fmt: skip
        held = columns.column(np.array(values, np.int64))
        assert unpacked(held).tolist() == values
        assert held.get("type") == kind
    runs = columns.column([1] * 500 + [9] * 500)
    assert unpacked(runs).tolist() == [1] * 500 + [9] * 500
    assert len(json.dumps(runs)) < 120


def test_names_and_sources_are_text() -> None:
    """Nothing in the data can end the element that it stands in."""
    made, _ = drawn(scattered, *ROWS)
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', made.page)
    assert json.loads(text)["kernels"][0]["name"] == "scattered"
    assert not re.search(r"[<>&]", text)
    assert "http" not in made.page.replace('http-equiv="Content-Security-Policy"', "")


def test_a_notebook_shows_the_page() -> None:
    """The page is in a frame that may run its script and nothing else."""
    made = show(scattered, *ROWS)
    frame = made._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    assert frame.count('"') == 6
    assert repr(made) == "<drawing of 1 launch, 2 blocks; `.save('x.html')` writes the page>"


def test_the_target_is_chosen() -> None:
    """One that is unknown is refused before the kernel runs."""
    _, page = drawn(product, *ONES, target="sm_80")
    assert page["kernels"][0]["target"] == "sm_80"
    with pytest.raises(UsageError, match="no CUDA target `sm_1`"):
        show(product, *ONES, target="sm_1")


def test_a_kernel_that_cannot_run_on_the_target_is_drawn_without_layouts() -> None:
    """The page says why; atomics count as read and as written."""
    _, page = drawn(large, np.ones(70, np.float32), np.zeros(1, np.float32))
    (kernel,), (launch,) = page["kernels"], page["launches"]
    assert "shared memory" in kernel["problem"]
    assert (kernel["layouts"], kernel["costs"]) == ([], [])
    held = {each["name"]: each for each in launch["tensors"]}["B"]
    assert held["read"]["bytes"] == held["written"]["bytes"] == 96 * 4
    assert held["read"]["least"] == held["written"]["least"] == 4


def test_a_kernel_that_runs_again_is_one_kernel() -> None:
    """Its launches are told apart."""

    def twice(a: Any, b: Any) -> None:
        product(a, b)
        product(a, b)

    _, page = drawn(twice, *ONES)
    assert [each["name"] for each in page["kernels"]] == ["product"]
    assert [each["kernel"] for each in page["launches"]] == [0, 0]


def test_a_launch_without_blocks_has_an_empty_page() -> None:
    """Nothing is accessed."""
    made, page = drawn(large, np.ones(0, np.float32), np.zeros(1, np.float32))
    assert page["launches"][0]["tensors"] == []
    assert page["launches"][0]["steps"] == []
    assert made.summary == "1 launch, 0 blocks"


def test_wrong_calls_say_what_to_do() -> None:
    """No kernel, and blocks that are no blocks."""
    with pytest.raises(UsageError, match="launched no block"):
        show(lambda: None)
    with pytest.raises(UsageError, match="not a number of blocks"):
        show(product, *ONES, blocks=0)


def test_blocks_that_are_asked_for_are_shown() -> None:
    """`blocks` is a number of blocks, or the indices of some."""
    assert drawn(product, *ONES, blocks=[1, 5])[1]["launches"][0]["shown"] == [1, 5]
    assert drawn(product, *ONES, blocks=2)[1]["launches"][0]["shown"] == [0, 5]
