"""From counts of program counters to functions, code, lines and blame."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.binary.support import compile_cuda
from tests.pc_samples import PREFIX, REASONS, STALLS, drawn, raw
from tileprof.errors import Location, MissingDependencyError
from tileprof.profile import PcFunction, PcInstruction, PcRows, PcSamples
from tileprof.profiler.pcs import listings as pc_listings
from tileprof.profiler.pcs.attribution import Modules, attribute, short_names
from tileprof.profiler.pcs.listings import files_of, with_code
from tileprof.profiler.pcs.raw import RawPcSamples


def attributed(counts: RawPcSamples, node_of: Callable[[int, str], int] = lambda c, f: -1) -> Any:
    """The samples and their code, names in angle brackets for readable ones."""
    modules = Modules()
    held = attribute(counts, modules, "<{}>".format, node_of)
    return with_code(held, modules.cubins(counts), "<{}>".format)


def sums(held: PcSamples) -> dict[tuple[str, int, str], int]:
    """Samples by function, offset and stall."""
    found: dict[tuple[str, int, str], int] = {}
    rows = held.rows
    columns = (rows.function, rows.offset, rows.stall, rows.samples)
    for function, offset, stall, count in zip(*(c.tolist() for c in columns)):
        key = (held.functions[function].name, offset, held.stalls[stall])
        found[key] = found.get(key, 0) + count
    return found


@functools.cache
def cubin(name: str) -> bytes:
    """A kernel of the tests for sm_90a."""
    return compile_cuda(name, "sm_90a")[0].data


@functools.cache
def split_cubin() -> bytes:
    """A kernel whose functions come from two other files, and one of which is not inlined."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    compile_cuda("nest", "sm_90a")  # skips where it cannot be loaded
    source = b"""#include "near.cuh"
#include "far.cuh"
extern "C" __global__ void split(float* p, int n) {
  for (int i = 0; i < n; i++) p[i] = near(p[i]) + far(p, i);
}
"""
    headers = {
        b"near.cuh": b"__device__ __forceinline__ float near(float x) {\n  return __expf(x);\n}\n",
        b"far.cuh": b"__device__ __noinline__ float far(float* p, int i) {\n  return p[i];\n}\n",
    }
    _, program = nvrtc.nvrtcCreateProgram(
        source, b"/w/split.cu", 2, list(headers.values()), list(headers)
    )
    options = [b"-arch=sm_90a", b"-lineinfo"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    data = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, data)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(data)


@given(st.integers(1, 200), st.integers(0, 3), st.integers(0, 2**31))
def test_nothing_is_lost(rows: int, contexts: int, seed: int) -> None:
    """Sums by function, offset and stall are those of the counts, whatever is in them."""
    functions = [(1, "f"), (2, "f"), (2, "g"), (9, "h")]
    counts = drawn([4, 7, 50, 3], functions, rows, {1: b"one", 2: b"two"}, seed, contexts)
    held = attribute(counts, Modules(), str, lambda context, name: context * 10 + len(name))
    expected: dict[tuple[str, int, str], int] = {}
    columns = (counts.function, counts.offset, counts.stall, counts.samples)
    for function, offset, stall, count in zip(*(c.tolist() for c in columns)):
        name = functions[function][1]
        key = (name, offset, STALLS[stall].removeprefix(PREFIX))
        expected[key] = expected.get(key, 0) + count
    assert sums(held) == expected
    assert int(held.rows.samples.sum()) == counts.total
    plain = [not STALLS[stall].endswith("_not_issued") for stall in counts.stall.tolist()]
    assert int(held.by_function.sum()) == int(counts.samples[plain].sum())
    nodes = set(held.rows.node.tolist())
    assert nodes == ({-1} if not contexts else {10 * c + 1 for c in set(counts.context.tolist())})
    held.check(100)


def test_code_is_read_last() -> None:
    """Until then a note says so."""
    counts = raw([(0, 0, "wait", 0, 1)], [(1, "nest")], {1: cubin("nest")})
    (before,) = attribute(counts, Modules(), str, lambda c, f: -1).functions
    assert (before.code, before.note) == ((), "the program has not ended, or was ended")
    assert attributed(counts).functions[0].note == ""


def test_modules_of_one_cubin_are_one() -> None:
    """Loaded twice, it is the same function; another cubin's of the same name is another."""
    rows = [(i, 16, "wait", 0, 10**i) for i in range(4)]
    counts = raw(rows, [(1, "f"), (2, "f"), (3, "f"), (4, "f")], {1: b"a", 2: b"a", 3: b"b"})
    held = attribute(counts, Modules(), str, lambda c, f: -1)
    assert [len(each.module) for each in held.functions] == [64, 64, 0]
    assert held.by_function.tolist() == [11, 100, 1000]


def test_names_of_stalls_are_the_devices() -> None:
    """Also those that nobody knows; what a name begins with is kept where it tells two apart."""
    assert short_names(STALLS)[:2] == ("selected", "selected_not_issued")
    assert REASONS[-1] in short_names(STALLS)
    assert short_names(["a_issue_stalled_x", "y"]) == ("x", "y")
    assert short_names(["a_issue_stalled_x", "b_issue_stalled_x"]) == (
        "a_issue_stalled_x", "b_issue_stalled_x",
    )  # fmt: skip


def test_code_with_lines_loops_and_blame() -> None:
    """The load in a loop is to blame for the product that waits for it."""
    function = compile_cuda("nest", "sm_90a")[0].functions["nest"]
    inner = max(each.depth for each in function.loops)
    deep = [each for each in function.reachable() if function.depth(each.offset) == inner]
    (product,) = [each.offset for each in deep if each.name == "FFMA"]
    (load,) = [each.offset for each in deep if each.name == "LDG"]
    counts = raw(
        [(0, product, "long_scoreboard", 0, 900), (0, product, "wait", 0, 40),
         (0, product, "selected", 0, 60), (0, load, "selected", 0, 5),
         (0, product, "long_scoreboard_not_issued", 0, 800)],
        [(1, "nest")], {1: cubin("nest")},
    )  # fmt: skip
    held = attributed(counts)
    (found,) = held.functions
    assert (found.title, found.architecture, found.note) == ("<nest>", "sm_90a", "")
    by_offset = {each.offset: each for each in found.code}
    assert by_offset[product].text.startswith("FFMA")
    assert by_offset[product].depth == inner
    assert (by_offset[load].place.line, by_offset[load].place.function) == (10, "<nest>")
    told = {(each.offset, each.stall, each.producer) for each in found.blames}
    assert (product, "long_scoreboard", load) in told
    assert {each[:2] for each in told} == {(product, "long_scoreboard")}
    assert held.cubin(found.module) == cubin("nest")


def test_chains_of_inlined_functions() -> None:
    """Lines lead from the file of the inlined function out to the kernel's."""
    counts = raw([(0, 0, "wait", 0, 1), (1, 0, "wait", 0, 1)], [(1, "split"), (1, "_Z3farPfi")],
                 {1: split_cubin()})  # fmt: skip
    held = attributed(counts)
    kernel = held.functions[0]
    chains = set()
    for each in kernel.code:
        chain, place = [], each.place
        while place is not None:
            chain.append((Path(place.file).name, place.line))
            place = place.caller
        chains.add(tuple(chain))
    assert (("near.cuh", 2), ("split.cu", 4)) in chains
    assert any(chain[:1] == (("far.cuh", 2),) for chain in chains)
    files = [Path(each).name for each in files_of(held)]
    assert set(files) == {"near.cuh", "far.cuh", "split.cu"}


def test_whose_files_are_the_programs() -> None:
    """Python's, where code was made of Python; no headers of the toolkit."""
    made = Location("/cache/gemm-1/base.cuh", 9, caller=Location("/w/gemm.py", 3))
    header = Location("/usr/local/cuda-13.0/targets/x86_64-linux/include/cuda_fp16.hpp", 7,
                      caller=Location("/w/a.cu", 2))  # fmt: skip
    functions = tuple(
        PcFunction(name, name, code=(PcInstruction(0, "NOP", place), PcInstruction(16, "NOP")))
        for name, place in (("a", header), ("gemm", made))
    )
    rows = PcRows.typed([0, 1], [0, 0], [0, 0], [-1, -1], [1, 5])
    assert files_of(PcSamples(functions, ("wait",), rows)) == ["/w/gemm.py", "/w/a.cu"]


def test_what_has_no_code_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cubin, no such function, a cubin that is none, one without lines, no room, no tool."""
    plain = _without_lines("inlined")
    functions = [(1, "nest"), (1, "other"), (2, "broken"), (3, "library"), (4, "inlined")]
    rows = [(i, 0, "wait", 0, 100 - i) for i in range(5)]
    modules = {1: cubin("nest"), 2: b"no ELF", 4: plain}
    counts = raw(rows, functions, modules)
    found = attributed(counts).functions
    notes = [each.note for each in found]
    assert notes[0] == notes[4] == ""
    assert notes[1] == "its cubin holds no function of that name"
    assert "ELF" in notes[2] or "cubin" in notes[2]
    assert notes[3] == "its cubin is not known"
    assert [bool(each.code) for each in found] == [True, False, False, False, True]
    assert {each.place for each in found[4].code} == {None}
    monkeypatch.setattr(pc_listings, "MOST_INSTRUCTIONS", 60)
    crowded = attributed(counts).functions[4]
    assert crowded.note.startswith("others with more samples")
    assert [(each.offset, each.text) for each in crowded.code] == [(0, "")]

    def missing() -> Path:
        raise MissingDependencyError("no disassembler")

    monkeypatch.setattr(pc_listings, "MOST_INSTRUCTIONS", 1000)
    monkeypatch.setattr("tileprof.binary.disassembly.find_nvdisasm", missing)
    unseen = cubin("choose").replace(b"choose", b"nested")
    rows = [(0, 32, "wait", 0, 1), (0, 8, "wait", 0, 1), (0, 1 << 20, "wait", 0, 1)]
    held = attributed(raw(rows, [(1, "nested")], {1: unseen}))
    (function,) = held.functions
    assert function.note == "no disassembler"
    assert [(each.offset, each.text) for each in function.code] == [(32, "")]
    assert function.code[0].place is not None
    assert int(held.by_function.sum()) == 3


@functools.cache
def _without_lines(name: str) -> bytes:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    from tests.binary.kernels import SHARED

    compile_cuda(name, "sm_90a")
    _, program = nvrtc.nvrtcCreateProgram(SHARED[name].encode(), b"x.cu", 0, None, None)
    nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=sm_90a"])
    data = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, data)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(data)


def test_offsets_beyond_the_code_stay() -> None:
    """Samples between and behind instructions are at no instruction, and in the sums."""
    far = 1 << 30
    counts = raw([(0, far, "wait", 0, 7), (0, 8, "wait", 0, 5), (0, 16, "wait", 0, 1)],
                 [(1, "nest")], {1: cubin("nest")})  # fmt: skip
    held = attributed(counts)
    assert held.by_function.tolist() == [13]
    assert held.rows.offset.tolist() == [8, 16, far]
    offsets = {each.offset for each in held.functions[0].code}
    assert 16 in offsets
    assert not offsets & {8, far}


def test_large_cubins_are_read_function_by_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was sampled is disassembled; cubins that take too much room are not kept."""
    from tileprof.binary import cubin as module
    from tileprof.binary import disassembly

    seen = []
    real = disassembly.disassemble

    def disassemble(data: bytes, code: Any, symbol: int | None = None) -> Any:
        seen.append(symbol)
        return real(data, code, symbol)

    monkeypatch.setattr(module, "AT_ONCE", 0)
    monkeypatch.setattr(module, "disassemble", disassemble)
    monkeypatch.setattr(pc_listings, "LARGEST_CUBIN", 10)
    module._parse.cache_clear()
    held = attributed(raw([(0, 0, "wait", 0, 7)], [(1, "split")], {1: split_cubin()}))
    module._parse.cache_clear()
    assert len(seen) == 1
    assert seen[0] is not None
    assert held.functions[0].code
    assert held.cubins == {}


def test_cubins_of_the_hottest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is room for."""
    names = ["nest", "choose", "inlined"]
    modules = {i: cubin(name) for i, name in enumerate(names)}
    monkeypatch.setattr(pc_listings, "MOST_CUBIN_BYTES", len(modules[1]) + len(modules[2]))
    rows = [(0, 0, "wait", 0, 1), (1, 0, "wait", 0, 100), (2, 0, "wait", 0, 50)]
    held = attributed(raw(rows, [*enumerate(names)], modules))
    kept = {each.name for each in held.functions if each.module in held.cubins}
    assert kept == {"choose", "inlined"}


def test_no_counts_at_all() -> None:
    """A recording in which nothing ran on a device."""
    held = attributed(raw([], []))
    assert (len(held.rows), held.functions, held.recordings[0].total) == (0, (), 0)
    assert held.by_function.tolist() == []


@pytest.mark.parametrize("contexts", [0, 3000], ids=["continuous", "exact"])
def test_very_many_rows(contexts: int, calls: Callable[[Callable[[], object]], int]) -> None:
    """Rows become tables column by column; seconds are measured by `benchmarks/costs.py`."""
    names = ["nest", "divide", "spill", "wgmma"]
    sizes = [len(compile_cuda(n, "sm_90a")[0].functions[n].instructions) for n in names]
    modules = {i: cubin(name) for i, name in enumerate(names)}
    counts = drawn(sizes, [*enumerate(names)], 2 * 10**5, modules, contexts=contexts)
    digests = Modules()
    assert calls(lambda: attribute(counts, digests, str, lambda c, f: c % 100)) < 100_000
    held = attribute(counts, digests, str, lambda c, f: c % 100)
    assert int(held.rows.samples.sum()) == counts.total
    listed = with_code(held, digests.cubins(counts), str)
    assert sum(len(each.code) for each in listed.functions) > 0
