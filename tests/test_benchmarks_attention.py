"""The rows of attention and of float8 with scales in the benchmarks: ours computes what its peers
do, at small sizes on the processor, and what is wrong is not measured."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

sys.path[:0] = ["benchmarks"]
rows: Any = importlib.import_module("gpu_attention")
products: Any = importlib.import_module("gpu_products")
peers: Any = importlib.import_module("gpu_peers")
del sys.path[0]


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors there, PyTorch's own attention, the first way as the fastest, no clock."""

    def normal(*shape: int) -> Any:
        return torch.randn(*shape).to(torch.bfloat16)

    def first(calls: Mapping[str, Any]) -> str:
        return next(iter(calls))

    def alone(calls: Mapping[str, Any]) -> dict[str, float]:
        return dict.fromkeys(calls, 1.0)

    monkeypatch.setattr(rows, "normal", normal)
    backend = torch.nn.attention.SDPBackend.MATH
    monkeypatch.setattr(rows, "BACKENDS", dict.fromkeys(rows.BACKENDS, backend))
    monkeypatch.setattr(rows, "fastest", first)
    monkeypatch.setattr(rows, "alone", alone)
    monkeypatch.setattr(rows, "compare", lambda ours, others: list(others))
    monkeypatch.setattr(rows, "_batch", lambda call: 1.0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(rows, "HEADS", 2)
    monkeypatch.setattr(rows, "TILINGS", rows.TILINGS[:1])
    monkeypatch.setattr(rows, "SCHEDULES", rows.SCHEDULES[-1:])
    monkeypatch.setattr(rows, "FLOAT8_TILINGS", rows.FLOAT8_TILINGS[:1])
    monkeypatch.setattr(rows, "FLOAT8_SCHEDULES", rows.FLOAT8_SCHEDULES[-1:])
    for name, stand_in in {
        "normal": normal, "alone": alone, "compare": lambda ours, others: list(others),
    }.items():  # fmt: skip
        monkeypatch.setattr(products, name, stand_in)


MEASURES = {
    "forward full": lambda: rows.forward(1, 200, False),
    "forward causal": lambda: rows.forward(1, 200, True),
    "float8 full": lambda: rows.forward_float8(1, 200, False),
    "float8 causal": lambda: rows.forward_float8(1, 200, True),
    "backward": lambda: rows.backward(1, 128, True),
    "latent": lambda: rows.latent(1, 64, 100),
    "decode": lambda: rows.decode(2, 16, 2, 192),
    "scan": lambda: rows.scan(1, 2, 256, 2),
    "grouped": lambda: rows.grouped(3, 64, 256, 128),
}


@pytest.mark.parametrize("name", MEASURES)
def test_rows(name: str) -> None:
    """A row of one work, whose first way is right; peers that are there are right too."""
    torch.manual_seed(0)
    (work,) = MEASURES[name]()
    absent = {"scan": "Triton", "latent": "TileLang"}.get(name)
    assert "is wrong" not in work.note
    assert bool(work.results) != bool(absent), work.note
    assert work.amount > 0


def test_scales_of_blocks() -> None:
    """All ways of ours are right, the last tile of rows included."""
    torch.manual_seed(0)
    (work,) = products.gemm_block_scaled(200, 256, 384)
    assert "is wrong" not in work.note
    assert len(work.ways) == len(products.BLOCK_SCALED)
    assert work.amount == 2.0 * 200 * 256 * 384


def test_a_wrong_way_is_not_measured() -> None:
    """One that gives something else is said; where none is left there is no row."""
    right, wrong = torch.ones(4), torch.zeros(4)
    work = rows.Work("made", 1.0, "GB/s", 1.0, 1.0)
    ways = {"wrong": lambda: wrong, "right": lambda: right}
    rows.measured(work, ways, {"peer": lambda: right}, right, 1e-3)
    assert work.note.startswith("right; ")
    assert "wrong" in work.note
    with pytest.raises(peers.WrongResult):
        rows.measured(work, {"wrong": lambda: wrong}, {}, right, 1e-3)


def test_groups() -> None:
    """One command measures all: their names have a word in common."""
    names = [name for name, *_ in rows.attention_groups(quick=False)]
    assert len(names) == len(set(names)) == 18
    assert all(name.startswith("attention") for name in names)
