"""The harness that times TileLang's examples: one example on two sides, compared and in a table."""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path[:0] = ["benchmarks"]
examples: Any = importlib.import_module("examples")
cases: Any = importlib.import_module("examples_cases.form")
listed: Any = importlib.import_module("examples_cases.listed")
turns: Any = importlib.import_module("examples_turns")
inputs: Any = importlib.import_module("examples_inputs")
launches: Any = importlib.import_module("examples_launches")
results: Any = importlib.import_module("examples_results")
sides: Any = importlib.import_module("examples_sides")
unit: Any = importlib.import_module("examples_unit")
references: Any = importlib.import_module("examples_references")
page: Any = importlib.import_module("examples_page")
del sys.path[0]

EXAMPLE = """
import tilelang
import tilelang.language as T
import torch
from beside import double

@tilelang.jit
def scaled(A, factor, block: int = 16):
    M = T.const("M")
    A: T.Tensor((M,), "float32")
    B = T.empty((M,), "float32")
    with T.Kernel(T.ceildiv(M, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B

def main():
    M = 32
    a = torch.randn(M)
    b = scaled(a, 2.0)
    torch.testing.assert_close(b, double(a))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with one example and a module beside it."""
    folder = tmp_path / "examples" / "part"
    folder.mkdir(parents=True)
    (folder / "example.py").write_text(EXAMPLE)
    (folder / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    return tmp_path


class Event:
    """A CUDA event of a machine without a GPU: the host's clock."""

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        """Keep the time."""
        self.at = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        """In ms."""
        return (other.at - self.at) * 1e3


@pytest.fixture
def both_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tileprof stands for TileLang, and the processor for the GPU."""
    whole = sides.run_side

    def run_side(name: str, *args: Any) -> Any:
        made = whole("tileprof", *args[:4])
        made.name = name
        return made

    monkeypatch.setattr(unit, "run_side", run_side)
    monkeypatch.setattr(unit, "FLUSH_BYTES", 16)
    monkeypatch.setattr(unit, "PAIRS", (6, 6))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, device=None, **k: empty(*a, **k))
    monkeypatch.setenv("TILEPROF_DEVICE", "interpreter")


def example(*codes: Any) -> Any:
    """An example with these runs."""
    return cases.Example("part/example.py", tuple(codes))


def test_a_row_has_times_of_both_sides(checkout: Path, both_ours: None) -> None:
    """It is checked by the example's own reference, at sizes that its driver does not have."""
    finders = list(sys.meta_path)
    row = unit.run_unit(example(cases.Run("main()", {"M": 64})), 0, checkout, turns.Turn(None))
    assert sys.meta_path == finders
    assert (row.status, row.checked, row.notes, row.shape) == (
        "ok",
        "reference",
        [],
        "M=64; main()",
    )
    (kernel,) = row.kernels
    assert kernel.kernel == "scaled"
    assert kernel.difference == 0
    assert kernel.pairs == 6
    assert kernel.low <= kernel.ratio <= kernel.high
    assert min(kernel.ours_us, kernel.tilelang_us) > 0
    assert "beside" not in sys.modules
    assert "tilelang.profiler" not in sys.modules


def test_results_that_differ_are_not_ok(
    checkout: Path, both_ours: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a reference TileLang's result decides; a comparison that fails is noted."""
    run = cases.Run("scaled(torch.ones(32), next(factors))")
    factors = iter((2.0, 3.0))
    text = (checkout / "examples" / "part" / "example.py").read_text()
    path = checkout / "examples" / "part" / "example.py"
    path.write_text(text + "\nimport builtins\nfactors = builtins.given_factors\n")
    monkeypatch.setattr("builtins.given_factors", factors, raising=False)
    row = unit.run_unit(example(run), 0, checkout, turns.Turn(None))
    assert (row.status, row.checked) == ("wrong", "TileLang")
    assert row.kernels[0].difference == pytest.approx(1 / 3)
    path.write_text(text.replace("double(a))", "a)"))
    row = unit.run_unit(example(cases.Run("main()")), 0, checkout, turns.Turn(None))
    assert row.status == "ok"
    assert row.checked == "TileLang"
    assert "comparison fails: Tensor-likes are not close" in row.notes[0]


@pytest.mark.parametrize(
    ("ours", "theirs", "status", "checked"),
    [
        ("right", "right", "ok", "reference"),
        ("right", "wrong", "ok", "reference"),
        ("right", "unknown", "ok", "reference"),
        ("wrong", "right", "wrong", "TileLang"),
        ("wrong", "unknown", "wrong", "TileLang"),
        ("unknown", "right", "wrong", "TileLang"),
        ("wrong", "wrong", "wrong", "TileLang"),
    ],
)
def test_the_reference_decides_whose_result_is_wrong(
    checkout: Path,
    both_ours: None,
    monkeypatch: pytest.MonkeyPatch,
    ours: str,
    theirs: str,
    status: str,
    checked: str,
) -> None:
    """A row of two results that differ counts where ours is right, and names TileLang's."""
    path = checkout / "examples" / "part" / "example.py"
    path.write_text(path.read_text() + "\nimport builtins\nmade = builtins.given_sides\n")
    factors = {"right": 2.0, "wrong": 3.0, "unknown": 4.0}
    if ours == theirs == "wrong":
        monkeypatch.setitem(factors, "wrong", 5.0)
    made = iter([(ours, factors[ours]), (theirs, factors[theirs] + 0.5 * (theirs == "wrong"))])
    monkeypatch.setattr("builtins.given_sides", made, raising=False)
    run = cases.Run(
        "side, factor = next(made)\n"
        "b = scaled(torch.ones(32), factor)\n"
        "if side == 'unknown': raise ImportError('a package')\n"
        "torch.testing.assert_close(b, torch.full((32,), 2.0))"
    )
    row = unit.run_unit(example(run), 0, checkout, turns.Turn(None))
    assert (row.status, row.checked) == (status, checked)
    assert (row.ours, row.tilelang) == (cases.Verdict(ours), cases.Verdict(theirs))
    told = [note for note in row.notes if "TileLang's result is wrong" in note]
    assert bool(told) == (ours == "right" and theirs == "wrong")
    assert len(row.kernels) == 1, "both times are shown"
    assert json.loads(json.dumps(row.as_json()))["tilelang"] == theirs


def test_arguments_made_up_are_compared_with_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results may differ by 2 % in the norm; one that overflows is wrong; none is no verdict."""
    monkeypatch.setattr(inputs, "supply", lambda kernel, **rest: [torch.ones(32)])
    found = []
    for factor in (2.0, 2.001, 3.0, math.inf):

        def reference(a: Any, factor: float = factor) -> list[Any]:
            return [a * factor]

        side, dry = results.Side("tileprof"), results.Side("tileprof", dry=True)
        for each in (side, dry):
            inputs.call(lambda a: a * 2, reference, each)
        assert not dry.checks
        (check,) = side.checks
        found.append((check.passed, check.detail))
    assert [passed for passed, _ in found] == [True, True, False, False]
    assert "differs from `reference` by 0.33" in found[2][1]
    assert "overflows" in found[3][1]


def test_one_wrong_chunk_of_many_is_seen() -> None:
    """Of a result of which all the rest is right; sizes that differ are no agreement."""
    wanted = torch.ones(2, 4096, 4)
    got = wanted.clone()
    got[:, :16] = 0
    assert results._apart(got, wanted) < 0.1 < results._worst_part(got, wanted)
    assert results._worst_part(wanted, wanted) == 0
    assert results._worst_part(wanted[:1], wanted) == math.inf


def by_rows(K: Any, W: Any, U: Any, G: Any, state: Any) -> tuple[list[Any], Any, list[Any]]:
    """States and values of one head, one row after the other, as sums over the rows of a chunk."""
    held, before, values = state, [], []
    for first in range(0, len(K), references.CHUNK):
        before.append(held)
        rows = range(first, first + references.CHUNK)
        made = [U[row] - W[row] @ held for row in rows]
        values += made
        last = G[rows[-1]]
        held = held * last.exp()
        for row, value in zip(rows, made):
            if last <= G[row]:
                held = held + torch.outer(K[row], value) * (last - G[row]).exp()
    return before, held, values


def test_states_follow_row_by_row() -> None:
    """In chunks the same comes out as row by row, with gates of a head and of keys."""
    torch.manual_seed(0)
    K, W, U = (torch.randn(1, 128, 2, 8) / 3 for _ in range(3))
    G = references.chunk_gates(1, 128, 2, device="cpu")
    assert bool((G[:, 64] > G[:, 63]).all()), "each chunk has sums of its own"
    state = torch.randn(1, 2, 8, 8)
    before, last, values = references.delta_states(K, W, U, G, state)
    for head in range(2):
        k, w, u, g = (x[0, :, head].double() for x in (K, W, U, G))
        states, end, rows = by_rows(k, w, u, g, state[0, head].double())
        torch.testing.assert_close(before[0, :, head], torch.stack(states).float())
        torch.testing.assert_close(last[0, head], end.float())
        torch.testing.assert_close(values[0, :, head], torch.stack(rows).float())
    # Gates that are the same for all keys, where no row is discounted by what follows it.
    GK = torch.full((1, 128, 2, 8), -1.0)
    found = references.delta_states_keys(K, W, U, GK, state)
    flat = references.delta_states(K, W, U, torch.zeros(1, 128, 2), state)
    torch.testing.assert_close(found[2][:, :64], flat[2][:, :64])
    torch.testing.assert_close(found[0][:, 1], flat[0][:, 1] - state / 2)


def test_gradients_are_those_of_the_states() -> None:
    """`delta_gradients` of the last state and the values are what autograd finds for a recurrence
    that it differentiates: the product of a state by rows, and its update."""
    torch.manual_seed(0)
    K, W, Q = (torch.randn(1, 128, 2, 8) / 3 for _ in range(3))
    dO, dv = (torch.randn(1, 128, 2, 8) for _ in range(2))
    dht, h0 = torch.randn(1, 2, 8, 8), torch.randn(1, 2, 8, 8, dtype=torch.float64)
    GK = -torch.rand(1, 128, 2, 8)
    G = torch.zeros(1, 128, 2)
    for gates, find in (
        (GK, references.delta_gradients_keys),
        (G, references.delta_gradients),
    ):
        after, first, values = find(Q, K, W, gates, h0, dht, dO, dv)
        start = h0.clone().requires_grad_()
        held, total = start, torch.zeros((), dtype=torch.float64)
        added = []
        for at in range(2):
            part = [x[:, at * 64 : at * 64 + 64].movedim(1, 2).double() for x in (Q, K, W, dO, dv)]
            q, k, w, do, dvs = part
            total = total + (q @ held * 8**-0.5 * do).sum()
            new = -(w @ held)
            new.retain_grad()
            added.append(new)
            total = total + (new * dvs).sum()
            last = gates[:, at * 64 + 63].double()
            kept = last.exp2().unsqueeze(-1) if gates is GK else last.exp()[..., None, None]
            held = held * kept + k.mT @ new
        (total + (held * dht.double()).sum()).backward()
        assert start.grad is not None
        torch.testing.assert_close(first, start.grad.float())
        made = torch.stack([v.grad for v in added], 1).movedim(3, 2).flatten(1, 2)
        torch.testing.assert_close(values, made.float())
        torch.testing.assert_close(after[:, 1], dht)


def test_an_example_that_cannot_run_says_where(checkout: Path, both_ours: None) -> None:
    """It is a row too."""
    row = unit.run_unit(example(cases.Run("main(1)")), 0, checkout, turns.Turn(None))
    assert row.status == "error"
    assert "takes 0 positional arguments" in row.error


def test_kernels_compile_without_a_gpu(checkout: Path) -> None:
    """Tensors have shapes and no elements."""
    row = unit.compile_unit(example(cases.Run("main()")), 0, checkout, both=False)
    assert [each["kernel"] for each in row.compiled] == ["scaled"]
    assert not row.notes


def test_a_gpu_is_used_by_one_at_a_time(tmp_path: Path) -> None:
    """And by another one while the first compiles."""
    order: list[str] = []
    one, other = turns.Turn(tmp_path / "gpu", lambda: order.append("left")), turns.Turn(None)
    second = turns.Turn(tmp_path / "gpu")
    with one, one:
        with one.released(), second:
            order.append("second")
        with other.released():
            order.append("first")
    assert order == ["left", "second", "first", "left"]
    assert one.held_s > 0
    assert second.held_s > 0


def test_a_process_whose_kernel_hangs_ends_itself(tmp_path: Path) -> None:
    """Others then have the GPU."""
    code = (
        "import sys, time; sys.path.insert(0, 'benchmarks')\n"
        "from pathlib import Path; from examples_turns import Turn\n"
        "with Turn(Path(sys.argv[1]), limit_s=0.1):\n    time.sleep(30)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "gpu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == turns.HUNG
    assert "at the GPU for more than" in done.stderr


def test_own_shapes_come_first_and_shards_are_disjoint() -> None:
    """Where time runs out, each example has a row."""
    every = examples.units("", [0, 1, 2], (0, 1))
    assert [u.index for u in every] == sorted(u.index for u in every)
    assert {u.key for i in range(3) for u in examples.units("", [0, 1, 2], (i, 3))} == {
        u.key for u in every
    }
    assert len({e.path for e in listed.CASES}) >= 60
    assert len({e.name for e in listed.CASES}) == len(listed.CASES)


def kernel_row(ratio: float) -> dict[str, Any]:
    """Times of a kernel that is as fast as this."""
    return {"kernel": "k", "ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01,
            "ours_us": 1.0, "tilelang_us": ratio}  # fmt: skip


def test_the_summary_counts_rows_that_agree(tmp_path: Path) -> None:
    """The last row of each run counts, and what is wrong is named."""
    rows = tmp_path / "rows"
    common = {"checked": "reference", "error": "", "notes": []}
    lines = [
        {"example": "a.py", "index": 0, "status": "error", "kernels": [], **common},
        {"example": "a.py", "index": 0, "status": "ok", "kernels": [kernel_row(2.0)], **common},
        {"example": "a.py", "index": 1, "status": "ok", "kernels": [kernel_row(0.5)], **common},
        {"example": "b.py", "index": 0, "status": "wrong", "kernels": [kernel_row(9.0)], **common},
        {
            "example": "c.py",
            "index": 0,
            "status": "ok",
            "kernels": [kernel_row(0.1)],
            "tilelang": "wrong",
            **common,
        },
    ]
    rows.write_text("".join(json.dumps(each) + "\n" for each in lines))
    found = examples.summary(list(examples.read_rows(rows).values()))
    assert (found["rows"], found["timed"], found["examples"]) == (4, 2, 1)
    assert found["tilelang_wrong"] == [[0.1, "c.py #0: k"]], "it is shown and does not count"
    assert found["geometric_mean"] == pytest.approx(1.0)
    assert found["worst"] == 0.5
    assert found["behind_by_more_than_3_percent"] == [[0.5, "a.py #1: k"]]
    assert list(found["not_timed"]) == ["b.py #0"]


def test_the_page_shows_the_published_run() -> None:
    """Section and results are of the same run, and writing it again changes nothing."""
    results, text = json.loads(page.RESULTS.read_text()), page.PAGE.read_text()
    section = page.speed_section(results)
    assert page.section_of(text) == section
    assert page.with_section(text, section) == text
    lines = (len(r["kernels"]) if r["status"] == "ok" else 1 for r in results["rows"])
    assert section.count("\n| `") == sum(lines)


def test_the_page_says_whose_result_is_wrong() -> None:
    """The time is there, and what it is of."""
    rows = [
        {"example": name, "index": 0, "status": "ok", "kernels": [kernel_row(0.5)], **rest}
        for name, rest in (("a.py", {}), ("c.py", {"tilelang": "wrong"}))
    ]
    lines = list(page.timed_rows(rows))
    assert ["TileLang wrong" in line for line in lines] == [False, True]
    assert "| 1.0 | 0.5 | 0.500 (TileLang wrong) |" in lines[1]
    assert page.wrong_theirs({}) == ""
    assert "1 more" in page.wrong_theirs({"tilelang_wrong": [[0.5, "c.py #0: k"]]})


def test_installed_packages_are_loaded_once_and_stand_ins_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both sides find one module of an installed package, and no part that it has not."""
    folder = tmp_path / "aiter"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    found = []
    for name in ("tileprof", "tilelang"):
        with sides._modules(name):
            found.append(importlib.import_module("aiter"))
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module("aiter.extension")
            other = importlib.import_module("bitblas.ops")
            assert sides.host.stands_in(other)
        assert ("bitblas.ops" in sys.modules) == (name == "tilelang")
    assert found[0] is found[1]
    for each in ("aiter", "bitblas", "bitblas.ops"):
        monkeypatch.delitem(sys.modules, each)
    # The finder goes with the list that it was appended to.
    sides._foreign.cache_clear()


def test_options_are_renamed_for_newer_versions() -> None:
    """An example that names an option by its earlier name gets its opposite."""
    renamed = launches._renamed({"tl.disable_fast_math": True, "tl.other": 1})
    assert renamed == {"tl.enable_fast_math": False, "tl.other": 1}
    assert launches._renamed({"tl.other": 1}) == {"tl.other": 1}
    assert launches._renamed(None) is None
