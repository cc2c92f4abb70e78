"""The pages of kernels: every call is one that runs, the runner tells what it recorded or why not,
and the pages have remarks, report and listing, and the reason where a bar is missed."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.made import stored
from tests.binary.support import need_disassembler
from tileprof.viewer import ViewOptions, render_view

sys.path[:0] = ["benchmarks"]
measuring: Any = importlib.import_module("measuring")
table: Any = importlib.import_module("profiled_kernels")
runner: Any = importlib.import_module("kernel_profiles")
page_kernels: Any = importlib.import_module("page_kernels")
del sys.path[0]

BY_NAME = {each.name: each for each in table.KERNELS}
SMALL: dict[str, dict[str, int]] = {
    "attention": {"batch": 1, "length": 128, "heads": 2, "dim": 64, "keys": 128, "groups": 1},
    "attention-causal": {"batch": 1, "length": 128, "heads": 2, "dim": 64, "keys": 128,
                         "groups": 1, "causal": True},
    "fp8-attention": {"batch": 1, "length": 128, "heads": 2, "dim": 64, "keys": 128, "groups": 1},
    "attention-varlen": {"heads": 2, "dim": 64, "groups": 1, "ends": 3, "longest": 128,
                         "causal": True},
    "attention-backward": {"batch": 1, "length": 128, "heads": 2, "dim": 64, "keys": 128,
                           "groups": 2, "causal": True},
    "sparse-attention": {"batch": 1, "length": 256, "heads": 2, "dim": 64, "keys": 256,
                         "groups": 1, "rows": 2, "most": 2},
    "mla-decode": {"batch": 1, "heads": 64, "keys": 128, "rank": 128, "rope": 32},
    "paged-attention": {"batch": 2, "heads": 16, "dim": 64, "pages": 16, "size": 64, "groups": 2,
                        "most": 8},
    "chunk-scan": {"batch": 1, "chunks": 2, "groups": 1, "size": 256, "length": 512, "heads": 2,
                   "width": 64, "state": 64},
    "int4-matmul": {"M": 128, "N": 128, "K": 128},
    "fp8-matmul": {"M": 256, "N": 128, "K": 128},
    "block-scaled-gemm": {"M": 192, "N": 128, "K": 256},
    "grouped-matmul": {"rows": 256, "K": 128, "experts": 2, "N": 256},
}  # fmt: skip


# -- the table


@pytest.mark.parametrize("name", SMALL)
def test_a_call(name: str) -> None:
    """It runs on the processor with the names of its real sizes, and gives numbers."""
    torch = pytest.importorskip("torch")
    kernel, sizes = BY_NAME[name], SMALL[name]
    assert list(sizes) == sorted(sizes, key=list(kernel.sizes).index)
    assert set(sizes) == set(kernel.sizes)
    results = kernel.made(sizes, "cpu")(**kernel.ways[0])
    for each in results if isinstance(results, tuple) else (results,):
        assert bool(torch.isfinite(each.float()).all())
        assert bool(each.any())


def test_all_kernels_are_here() -> None:
    """Each name once, with sizes that a test knows."""
    assert [each.name for each in table.KERNELS] == list(SMALL)


def test_a_command() -> None:
    """Sizes and options as `--set` takes them."""
    assert BY_NAME["mla-decode"].command({"splits": 2})[:5] == [
        "compile", "case_studies/mla_decode.py:mla_decode", "--target", "sm_90a", "--set",
    ]  # fmt: skip
    assert BY_NAME["mla-decode"].command({"splits": 2})[-3:] == ["splits=2", "--emit", "remarks"]


def test_rows_are_those_of_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel that names a row names one that `gpu_attention.py` measures."""
    torch = pytest.importorskip("torch")
    sys.path[:0] = ["benchmarks"]
    bench: Any = importlib.import_module("gpu_attention")
    del sys.path[0]
    names = []

    def measured(work: Any, *_: object) -> Any:
        names.append(work.name)
        return work

    def normal(*shape: int) -> Any:
        return torch.empty(*shape, device="meta", dtype=torch.bfloat16)

    def same(q: Any, *_: object, **__: object) -> tuple[Any, None]:
        return q, None

    for name, stand_in in {
        "measured": measured, "normal": normal, "usable": lambda *_: {}, "SCHEDULES": (),
        "sdpa": lambda _, q, *__, **___: q, "_scanned": lambda *_: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(bench, name, stand_in)
    monkeypatch.setattr(bench.attention, "attention", same)
    monkeypatch.setattr(bench, "BACKENDS", {})
    monkeypatch.setattr(torch.autograd, "grad", lambda *_, **__: (None,) * 3)
    for _, measure, _ in bench.attention_groups(quick=True):
        list(measure())
    assert {each.row for each in table.KERNELS if each.row} <= set(names)


# -- the runner


@pytest.fixture
def on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock, no GPU; the recording is one of an H200."""
    pytest.importorskip("torch")
    pytest.importorskip("cuda.bindings.nvrtc")
    pytest.importorskip("tileprof.native._recorder")
    need_disassembler()
    importlib.import_module("tileprof.profile")
    monkeypatch.setattr(measuring, "batch_ms", lambda call, launches: 20.0)
    monkeypatch.setattr(measuring, "clocks", dict)
    monkeypatch.setattr(sys.modules["tileprof.profile"], "load", lambda path: stored("h200-gemm"))
    monkeypatch.setattr(runner, "SAMPLED_MS", 1.0)


@pytest.mark.usefixtures("on_the_processor")
def test_a_row(tmp_path: Path) -> None:
    """Remarks of the command, report, findings and a listing that fits; a way that does not
    compile is said."""
    ways = ({"stages": 2}, {"stages": 40})
    kernel = replace(BY_NAME["fp8-matmul"], sizes=SMALL["fp8-matmul"], ways=ways)
    row = runner.told(kernel, tmp_path, "cpu")
    assert row["options"] == {"stages": 2}
    assert row["ms"] == 20.0
    assert row["remarks"].startswith("case_studies/fp8_matmul.py:39:13: gemm: wgmma m64n256k16 rs")
    (problem,) = row["problems"]
    assert problem.startswith("stages 40: tileprof compile case_studies/fp8_matmul.py:fp8_matmul")
    assert row["samples"] == 626_717
    assert row["listing"].count("\n") <= 70
    assert row["threshold"] == 1.5
    assert row["findings"] == []
    assert re.search(r"81\.0 %  \S* +floor: ", row["report"])
    assert (tmp_path / "fp8-matmul.tprof").stat().st_size == row["bytes"]
    assert runner.said({"name": "fp8-matmul", **row}).endswith("stages 2; nothing found")
    json.dumps(row)


def test_findings_are_printed_as_in_the_report() -> None:
    """The first one of many, which fits the page's report, is there word by word."""
    pytest.importorskip("torch")
    pytest.importorskip("tileprof.native._recorder")
    need_disassembler()
    texts: Any = importlib.import_module("kernel_texts")
    told = texts.texts_of(stored("h200-stalls"), "stalls.tprof")
    first = told["findings"][0]
    assert first["printed"].startswith("suggestion: ")
    assert first["printed"] in told["report"]
    title = runner.said(
        {
            "name": "stalls",
            "ms": 1.0,
            "samples": 1,
            "bytes": 1,
            "seconds": 1.0,
            "options": {},
            **told,
        }
    )
    assert title.endswith(f"; {first['title']}")


def test_a_long_listing_is_folded() -> None:
    """Until it fits, or nothing more can be folded, as here, where there are many functions."""
    pytest.importorskip("torch")
    pytest.importorskip("tileprof.native._recorder")
    need_disassembler()
    texts: Any = importlib.import_module("kernel_texts")
    text, threshold = texts.listing_of(stored("h200-stalls"))
    whole = render_view(stored("h200-stalls"), ViewOptions(threshold=1.5), "blame", width=120)
    assert threshold == texts.THRESHOLDS[-1]
    assert texts.MOST_LINES < text.count("\n") < whole.count("\n") / 2


def test_what_fails_is_told(tmp_path: Path) -> None:
    """Of one kernel alone, with what happened."""
    pytest.importorskip("torch")

    def unmade(sizes: object, device: str) -> Any:
        raise AssertionError

    kernel = replace(BY_NAME["fp8-matmul"], module="missing", made=unmade)
    runner.one(kernel, tmp_path)
    row = json.loads((tmp_path / "fp8-matmul.json").read_text())
    assert row["name"] == "fp8-matmul"
    assert "missing.py" in row["error"]
    assert runner.said(row).startswith("fp8-matmul: FAILED: ")


def test_a_file_is_kept_in_order(tmp_path: Path) -> None:
    """Rows of an earlier run stay, in the order of the table."""
    path = tmp_path / "results" / "kernel_profiles.json"
    assert runner.held(path) == {}
    rows = {name: {"name": name} for name in ("fp8-matmul", "attention")}
    runner.write(path, rows)
    assert list(runner.held(path)) == ["attention", "fp8-matmul"]


# -- the pages


REMARKS = """case_studies/mla_decode.py:66:13: gemm: wgmma m64n32k16 ss groups=1x2
case_studies/mla_decode.py:60:21: for: one iteration after the other
  not overlap: `copy` of line 62: it and the last product both use `KV_shared`
case_studies/mla_decode.py:42:10: launch: a producer warp group loads for 2 consumer warp groups
"""
FAR = {"rule": "far-from-floor", "severity": "symptom", "title": "it takes twice the least time",
       "kernel": "mla_decode",
       "printed": "symptom: it takes twice the least time (far-from-floor)"}  # fmt: skip
CAUSE = {"rule": "pipeline-depth", "severity": "suggestion", "title": "loads come late",
         "kernel": "mla_decode", "printed": "suggestion: loads come late (pipeline-depth)\n"
         "  do       Load earlier."}  # fmt: skip
ROW: dict[str, Any] = {
    "name": "mla-decode", "options": {"splits": 2}, "ms": 1.23456, "remarks": REMARKS,
    "command": BY_NAME["mla-decode"].command({"splits": 2}), "problems": [], "samples": 20_000,
    "report": "1 kernel, 1.23 ms: 1 symptom, 1 suggestion.\n", "findings": [FAR, CAUSE],
    "listing": "mla_decode_0: 20,000 samples (100.0 %)\n", "threshold": 2.0,
    "circumstances": {
        "device": "NVIDIA H200", "gpu": {"driver_version": "580.1"}, "date": "2026-11-23 03:00",
        "torch": "2.11.0", "cuda": "13.0", "tileprof": "0.1.0",
    },
}  # fmt: skip
BAR: dict[str, Any] = {
    "work": "MLA decode 132×128×8192", "unit": "TFLOP/s", "asked": 1.0, "aim": 1.3, "met": False,
    "ours": 400.0, "peers": [{"peer": "TileLang", "peer_ms": 1.1, "ratio": 0.9, "low": 0.89,
                              "high": 0.91}],
}  # fmt: skip


def page_of(row: dict[str, Any], bar: dict[str, Any]) -> str:
    """Of the one kernel in them."""
    made = page_kernels.pages([row], [bar])
    assert set(made) == {page_kernels.INDEX, page_kernels.FOLDER / "mla-decode.md"}
    return str(made[page_kernels.FOLDER / "mla-decode.md"])


def test_the_pages(golden: Callable[..., None]) -> None:
    """Index and page of a kernel whose bar is missed."""
    made = page_kernels.pages([ROW, {"name": "fp8-matmul", "error": "OSError: no GPU"}], [BAR])
    golden("\n".join(made.values()))


def test_why_a_bar_is_missed() -> None:
    """The first cause; where there is none, that there is none; nothing where it is met."""
    title = "## Why it misses its requirement"
    said = page_of(ROW, BAR).partition(title)[2]
    assert "Required is ≥ 1 × the fastest peer, measured 0.900 × TileLang [0.890, 0.910]." in said
    assert "The first cause in tileprof's report, of 1:\n\n```text\nsuggestion: " in said
    assert "Load earlier." in said
    uncertain = page_of({**ROW, "findings": [FAR]}, BAR)
    assert "tileprof's report names no cause. Its first finding:\n\n```text\nsymptom: " in uncertain
    assert "tileprof's report names no cause; " in page_of({**ROW, "findings": []}, BAR)
    assert title not in page_of(ROW, {**BAR, "met": True})
    assert title not in page_of(ROW, {**BAR, "peers": [], "ours": None})


def test_without_a_record() -> None:
    """There is an index, which says so."""
    (text,) = page_kernels.pages([], []).values()
    assert text.count("| not recorded |") == len(table.KERNELS)
    assert "](kernels/" not in text


def test_what_the_compiler_found() -> None:
    """The remark about overlap with its reasons; one about roles where there is none."""
    assert page_kernels.schedule(REMARKS) == (
        "line 60, for: one iteration after the other; not overlap: `copy` of line 62: it and the "
        "last product both use `KV_shared`"
    )
    roles = "".join(REMARKS.splitlines(keepends=True)[-1:])
    assert page_kernels.schedule(roles).startswith("line 42, launch: a producer warp group loads")
    assert page_kernels.schedule("") == ""


def test_the_pages_are_the_measured_ones() -> None:
    """As the records are now; `python benchmarks/page.py`."""
    made = page_kernels.pages(
        page_kernels._read(page_kernels.RESULTS, "kernels"),
        page_kernels._read(page_kernels.BARS, "rows"),
    )
    assert {path: path.read_text() for path in made} == made
    assert set(page_kernels.FOLDER.glob("*.md")) <= set(made)
