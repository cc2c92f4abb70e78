"""Causes that only tensors tell: tables with dense gradients, padding, and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
_recorder: Any = pytest.importorskip("tileprof.native._recorder")

from tests.forked_programs import tileprof  # noqa: E402
from tests.profiler.frameworks.torch_observed import Seen  # noqa: E402
from tileprof.profile.training_facts import HOST, memory_rooms, optimizer_facts  # noqa: E402
from tileprof.profiler.frameworks import optimizers, training_facts  # noqa: E402

pytestmark = pytest.mark.usefixtures("observed")

NAMES = ("table", "rows", "shared", "slots", "padding")


def told(run: Callable[[], object]) -> dict[str, dict[str, float]]:
    """What is known of a visit of each operation of a function that was sampled, by its name."""
    # Operations of new places are sampled from the second one on: each call has a place of its own.
    # What has sampled its share is sampled now and then.
    place: dict[str, Any] = {}
    exec("def call(run, times):\n    for _ in range(times): run()", place)
    place["call"](run, 2)
    before = {context: row for context, *row in _recorder.host_times()}
    for times in (2, 1500):
        place["call"](run, times)
        if found := _since(before):
            return found
    raise AssertionError("nothing was sampled")


def _since(before: dict[int, list[float]]) -> dict[str, dict[str, float]]:
    known, found = _recorder.contexts(0), dict[str, dict[str, float]]()
    for context, *now in _recorder.host_times():
        then = before.get(context, [0] * len(now))
        if visits := now[6] - then[6]:
            sums = {name: now[at] - then[at] for at, name in enumerate(NAMES, 7)}
            means = {key: value / visits for key, value in sums.items() if value}
            name = _recorder.name(known[context][2])
            found[name] = {**found.get(name, {}), **means}
    return found


def test_a_table_that_learns(seen: Seen) -> None:
    """Its bytes, and those of the rows that are looked up, each as often as it is."""
    table, bag = torch.nn.Embedding(1000, 8), torch.nn.EmbeddingBag(500, 4, mode="sum")
    ids = torch.tensor([[1, 2, 3], [3, 2, 1]])
    found = told(lambda: (table(ids), bag(ids)))
    assert found["aten::embedding"] == {"table": 32_000, "rows": 6 * 32}
    assert found["aten::_embedding_bag"] == {"table": 8_000, "rows": 6 * 16}


def test_no_more_rows_than_the_table_has(seen: Seen) -> None:
    """Where each is looked up many times."""
    table = torch.nn.Embedding(4, 8)
    assert told(lambda: table(torch.zeros(100, dtype=torch.long)))["aten::embedding"] == {
        "table": 128, "rows": 128,
    }  # fmt: skip


def test_tables_without_dense_gradients(seen: Seen) -> None:
    """Sparse ones, frozen ones, and where no gradient is wanted."""
    ids = torch.tensor([1, 2])
    sparse, frozen = torch.nn.Embedding(9, 2, sparse=True), torch.nn.Embedding(9, 2)
    frozen.weight.requires_grad_(False)
    other = torch.nn.Embedding(9, 2)

    def run() -> None:
        sparse(ids), frozen(ids)
        with torch.no_grad():
            other(ids)

    assert told(run)["aten::embedding"] == {}


def test_a_table_that_a_product_shares(seen: Seen) -> None:
    """The product's gradient of it is dense; that of another matrix is nobody's matter."""
    table, other = torch.nn.Embedding(100, 8), torch.nn.Linear(8, 100)
    ids = torch.tensor([1, 2])
    found = told(lambda: torch.nn.functional.linear(table(ids), table.weight))
    assert found["aten::linear"] == {"shared": 3200}
    assert told(lambda: other(table(ids)))["aten::linear"] == {}


def test_a_matrix_in_the_memory_of_a_table_is_another_one(seen: Seen) -> None:
    """As where the table is gone and its memory is used again."""
    memory, ids = bytearray(4 * 64 * 64), torch.tensor([1, 2])

    def matrix() -> torch.nn.Parameter:
        return torch.nn.Parameter(torch.frombuffer(memory, dtype=torch.float32).view(64, 64))

    table = torch.nn.Embedding(64, 64, _weight=matrix())
    told(lambda: table(ids))
    found = told(lambda: torch.nn.functional.linear(torch.ones(1, 64), matrix()))
    assert found["aten::linear"] == {}


def filled(value: int = 0, left: bool = False, ends: int = 0) -> Any:
    """Four rows of 16 numbers with 4, 8, 12 and 16 that are no padding."""
    rows = torch.full((4, 16), value)
    for row, length in zip(rows, (4, 8, 12, 16)):
        part = row[16 - length :] if left else row[:length]
        part[:] = torch.arange(20, 20 + length)
        if ends:
            part[length // 2] = ends
    return rows


FLAGS = [[(row * 7 + column * 5) % 3 == 0 for column in range(16)] for row in range(4)]


@pytest.mark.parametrize(
    ("batch", "padding"),
    [
        (filled(), 24),
        (filled(7), 24),
        (filled(left=True), 24),
        ((filled() != 0).long(), 24),
        ((filled() != 0).int(), 24),
        (torch.arange(64).view(4, 16), 0),
        (torch.full((4, 16), 2), 0),
        (filled(7, ends=7), 0),
    ],
    ids=["right", "another value", "left", "mask", "32 bits", "full", "the same",
         "a value that is elsewhere too"],
)  # fmt: skip
def test_padding_of_a_batch(batch: Any, padding: int, seen: Seen) -> None:
    """What fills rows up, of what is looked up by."""
    table = torch.nn.Embedding(1000, 2)
    found = told(lambda: table(batch))["aten::embedding"]
    assert found["slots"] == 64
    assert found.get("padding", 0) == padding


@pytest.mark.parametrize(
    "batch",
    [
        filled()[:, :7],
        filled()[0],
        filled()[:1],
        filled().t(),
        filled()[None],
        torch.tensor(FLAGS).long(),
        torch.ones(4, 16).long(),
        torch.zeros(4, 16).long(),
        (filled(left=True) != 0).long(),
        (filled() == 0).long(),
    ],
    ids=[
        "short",
        "a row",
        "one row",
        "transposed",
        "three dimensions",
        "flags",
        "ones",
        "zeros",
        "a mask of the ends",
        "a mask of what is left out",
    ],
)
def test_other_indices_are_no_batches(batch: Any, seen: Seen) -> None:
    """Few columns, one row, other shapes and layouts; masks that may mean either."""
    table = torch.nn.Embedding(1000, 2)
    assert "slots" not in told(lambda: table(batch))["aten::embedding"]


@pytest.mark.gpu
def test_batches_that_are_copied_to_a_device(seen: Seen) -> None:
    """What lies on the host is looked at, what is on the device is not."""
    batch, table = filled(), torch.nn.Embedding(1000, 2, device="cuda")
    assert told(lambda: batch.to("cuda"))["aten::copy_"] == {"slots": 64, "padding": 24}
    there = batch.to("cuda")
    assert told(lambda: table(there))["aten::embedding"] == {"table": 8000, "rows": 64 * 8}
    assert told(lambda: there.cpu())["aten::copy_"] == {}


def test_an_optimizer_is_looked_at_once() -> None:
    """Parameters with dense gradients, and whether it keeps state; memory of the process."""
    weights = [torch.nn.Parameter(torch.ones(10)) for _ in range(3)]
    sparse = torch.nn.Embedding(100, 4, sparse=True)

    def nothing() -> None:
        """Stand for what follows steps."""

    optimizers.attach(nothing)
    try:
        for momentum in (0.0, 0.9):
            optimizer = torch.optim.SGD([*weights, sparse.weight], 0.1, momentum)
            for _ in range(2):
                loss = sparse(torch.tensor([1])).sum()
                (loss + weights[0].sum() + weights[1].sum()).backward()
                optimizer.step()
                optimizer.zero_grad()
        told = training_facts.facts()
    finally:
        optimizers.detach(nothing)
    first, second = optimizer_facts(told)
    assert (first.name, first.bytes, first.tensors, first.plain) == ("SGD", 80, 2, True)
    assert not second.plain
    host = next(each for each in memory_rooms(told) if each.device == HOST)
    assert 10**7 < host.peak < host.whole


class Bare:
    """An optimizer without state."""

    def __init__(self, size: int) -> None:
        weight = torch.nn.Parameter(torch.zeros(size))
        weight.grad = torch.ones(size)
        self.param_groups = [{"params": [weight]}]


def test_an_optimizer_where_another_one_was() -> None:
    """It is another one, although it has the identity of one that is gone."""

    def stepped() -> int:
        optimizer = Bare(2)
        training_facts.stepped(optimizer)
        return id(optimizer)

    try:
        for _ in range(1000):  # until nothing else has taken the place of the first one
            training_facts.forget()
            first = stepped()
            others = [Bare(3) for _ in range(20)]
            if found := [each for each in others if id(each) == first]:
                break
        training_facts.stepped(*found)
        assert len(optimizer_facts(training_facts.facts())) == 2
    finally:
        training_facts.forget()


UNREADABLE = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

table = torch.nn.Embedding(40, 8)
look_up = torch.nn.functional.embedding


def ids(*before, device="cpu"):
    return torch.zeros(*before, 8, 64, dtype=torch.long, device=device)


def run():
    with FakeTensorMode() as mode:
        weight = mode.from_tensor(table.weight)
        for _ in range(3):
            look_up(ids(), weight)
    for _ in range(3):
        look_up(ids(device="meta"), torch.empty(40, 8, device="meta"))
        torch.func.functionalize(lambda each: look_up(each, table.weight))(ids())
        torch.func.vmap(lambda each: look_up(each, table.weight))(ids(4))


run()
print("ended")
"""


def test_tensors_without_memory_are_not_read(tmp_path: Path) -> None:
    """torch.compile traces with tensors that say they are on the CPU and have no elements."""
    script = tmp_path / "traced.py"
    script.write_text(UNREADABLE)
    ended = tileprof(tmp_path, ["run", "--quiet", "-o", "out.tprof", str(script)])
    assert ended.stdout == "ended\n", ended.stderr
