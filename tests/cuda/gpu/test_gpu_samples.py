"""Kernels sampled on a real GPU: `python -m pytest -m gpu tests/cuda/gpu`."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tileprof.instrument.decode.samples import SampleTotals
from tileprof.runtime import hooks
from tileprof.runtime.cuda.records.reader import reader
from tileprof.runtime.hooks import Launch, LaunchedKernel, Measured

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
kernels: Any = importlib.import_module("benchmarks.gpu_kernels")
inside: Any = importlib.import_module("benchmarks.instrument_kernels")


@dataclass(eq=False)
class Listening:
    """Who hears of launches and of what their samplers saw."""

    instrument: hooks.Instrument = "sample"
    times_gpus: bool = True
    closed: bool = False
    samples: SampleTotals | None = None
    launches: int = 0
    losses: list[str] = field(default_factory=list)
    sites: tuple[hooks.SiteDescription, ...] = ()

    @property
    def late(self) -> Listening:
        """The same."""
        return self

    def begin(self, kernel: LaunchedKernel) -> int:
        """All launches are one."""
        self.sites = kernel.info().sites
        return 1

    def end(self, token: int, launch: Launch) -> None:
        """It is over for the host."""

    def abandon(self, token: int) -> None:
        """It failed."""

    def measured(self, token: int, measured: Measured, *, replayed: bool) -> None:
        """Add it up."""
        self.launches += measured.launches
        if measured.samples is not None:
            more = measured.samples
            self.samples = more if self.samples is None else self.samples + more

    def lost(self, what: str, count: int = 0) -> None:
        """Keep why."""
        self.losses.append(what)

    def shares(self) -> dict[tuple[str, str], float]:
        """Of a role's samples, by the role and the path of a site."""
        assert self.samples is not None, self.losses
        return {
            (role, self.path(at) if at < len(row) - 1 else ""): row[at] / samples
            for role, row, samples in zip(
                self.samples.roles, self.samples.seen.tolist(), self.samples.samples.tolist()
            )
            for at in range(len(row))
            if row[at]
        }

    def path(self, site: int | None) -> str:
        """The names of a site and of those around it."""
        names: list[str] = []
        while site is not None and site >= 0:
            names.insert(0, self.sites[site].name)
            site = self.sites[site].parent
        return " / ".join(names)


@contextmanager
def listening() -> Iterator[Listening]:
    """While it sits in the runtime's seat; then it has all that there is."""
    made = Listening()
    hooks.listener, before = made, hooks.listener
    try:
        yield made
    finally:
        hooks.listener = before
        reader().collect(final=True)
        made.closed = True


def normal(*shape: int) -> torch.Tensor:
    """Random numbers on the device."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def test_a_product_is_right_and_its_warps_are_seen() -> None:
    """Consumers multiply or wait for products, the producer waits for slots: 90 % of each."""
    a, b = normal(4096, 4096), normal(4096, 4096)
    with listening() as heard:
        for _ in range(20):
            found = kernels.matmul_nt(a, b)
    torch.testing.assert_close(found, a @ b.t(), rtol=2e-2, atol=1.0)
    assert heard.launches == 20
    shares = heard.shares()
    print({k: round(share, 4) for k, share in shares.items()})
    by_name: dict[tuple[str, str], float] = defaultdict(float)
    for (role, path), share in shares.items():
        by_name[role, path.rpartition(" / ")[2]] += share
    assert heard.samples is not None
    assert heard.samples.looks > 10_000
    assert sum(by_name["consumer", n] for n in ("gemm", "wait for gemm")) > 0.7
    assert by_name["producer", "wait for a free slot"] > 0.5


CASES: dict[str, Callable[[], Any]] = {
    "attention": lambda: inside.attention(2, 8, 2048, 128, False)(
        *(normal(2, 2048, 8, 128) for _ in range(3))
    ),
    "causal attention": lambda: inside.attention(2, 8, 2048, 128, True)(
        *(normal(2, 2048, 8, 128) for _ in range(3))
    ),
    "softmax": lambda: kernels.softmax(normal(4096, 8192)),
    "rms_norm": lambda: kernels.rms_norm(normal(4096, 8192), normal(8192)),
    "transpose": lambda: kernels.transpose(normal(8192, 8192)),
    "delayed": lambda: inside.delayed(torch.ones(132 * 128, device="cuda")),
}


@pytest.mark.parametrize("name", CASES)
def test_results_stay_and_every_role_is_seen(name: str) -> None:
    """The same bits as without a sampler; at least 1,000 samples a role."""
    torch.manual_seed(0)
    expected = CASES[name]()
    with listening() as heard:
        for _ in range(30):
            torch.manual_seed(0)
            found = CASES[name]()
    assert torch.equal(found, expected)
    assert heard.samples is not None, heard.losses
    totals = dict(zip(heard.samples.roles, heard.samples.samples.tolist()))
    print(name, heard.samples.looks, totals)
    assert min(totals.values()) >= 1_000


def test_replays_of_a_graph_are_sampled() -> None:
    """Each adds to the counts of its capture."""
    a, b = normal(4096, 4096), normal(4096, 4096)
    kernels.matmul_nt(a, b)
    looks = []
    with listening() as heard:
        kernels.matmul_nt(a, b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kernels.matmul_nt(a, b)
        for _ in range(3):
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
            reader().collect(final=False)
            looks.append(heard.samples.looks if heard.samples is not None else 0)
    assert 0 < looks[0] < looks[1] < looks[2]


@pytest.mark.alone  # other programs on the device would be part of a state
def test_a_delay_is_seen_as_long_as_it_is() -> None:
    """250 of 275 operations of each turn are in the scope; within a point."""
    x = torch.ones(132 * 128, device="cuda")
    with listening() as heard:
        for _ in range(50):
            inside.delayed(x)
    (share,) = [s for (_, path), s in heard.shares().items() if path.endswith("delay")]
    print(share)
    assert share == pytest.approx(250 / 275, abs=0.01)


def test_sites_know_their_lines() -> None:
    """Each lies in the author's file."""
    a, b = normal(512, 512), normal(512, 512)
    with listening() as heard:
        kernels.matmul_nt(a, b)
    assert heard.sites
    assert all(s.location is not None for s in heard.sites)
