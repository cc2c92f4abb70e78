"""Bytes that PyTorch's operations have to move, from samples of their tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

from tests.profiler.frameworks.torch_observed import Seen  # noqa: E402

pytestmark = pytest.mark.usefixtures("observed")

F4 = 4
I8 = 8


def sampled(run: Callable[[], object], times: int = 2) -> dict[str, float]:
    """Mean bytes by operation of a function that is called so often from one line.

    Where earlier tests have taken all samples that new operations of this thread may have, it is
    called until those come that are taken now and then.
    """
    before = Seen()
    for more in (times, 3000):
        for _ in range(more):
            run()
        if found := before.sampled():
            return found
    return {}


def test_tensors_count_once_by_what_is_stored(seen: Seen) -> None:
    """An expanded input counts by what is behind it; an input that is given twice, once."""
    a, b = torch.ones(8, 16), torch.ones(1, 16).expand(8, 16)
    found = sampled(lambda: (torch.add(a, b), torch.mul(a, a), torch.neg(b)))
    assert found["aten::add"] == F4 * (128 + 16 + 128)
    assert found["aten::mul"] == F4 * (128 + 128)
    assert found["aten::neg"] == F4 * (16 + 128)


def test_windows_that_overlap_count_what_is_stored(seen: Seen) -> None:
    """An input that `unfold` made counts no more bytes than its storage has."""
    windows = torch.ones(100).unfold(0, 50, 1)
    assert sampled(lambda: torch.neg(windows))["aten::neg"] == F4 * (100 + 51 * 50)


def test_places_for_results_are_not_read(seen: Seen) -> None:
    """Of `out=` and of what is overwritten only the writing counts; in place, both."""
    a, out = torch.ones(64), torch.empty(64)
    found = sampled(lambda: (torch.neg(a, out=out), a.fill_(1), a.mul_(2.0), a.copy_(out)))
    assert found["aten::neg"] == F4 * 128
    assert found["aten::fill_"] == F4 * 64
    assert found["aten::mul_"] == F4 * 128
    assert found["aten::copy_"] == F4 * 128


def test_lists_of_tensors_count_each(seen: Seen) -> None:
    """Inputs of `cat`, and the tensors that an optimiser changes in one operation."""
    parts = [torch.ones(16), torch.ones(16)]
    found = sampled(lambda: (torch.cat(parts), torch._foreach_mul_(parts, 2.0)))
    assert found["aten::cat"] == F4 * (32 + 32)
    assert found["aten::_foreach_mul_"] == F4 * 2 * 32


def test_fused_optimisers_read_gradients_only(seen: Seen) -> None:
    """The weight and two moments are changed; the gradient, which may be scaled, is read."""
    weight = torch.ones(1000, requires_grad=True)
    weight.grad = torch.ones(1000)
    step = torch.optim.Adam([weight], fused=True)
    found = sampled(step.step)
    assert found["aten::_fused_adam_"] == F4 * (1000 * 7 + 1)


def test_gathers_read_as_much_as_they_return(seen: Seen) -> None:
    """At most the whole table."""
    table, indices = torch.ones(1000, 4), torch.tensor([1, 2, 3])
    found = sampled(lambda: (table[indices], torch.nn.functional.embedding(indices, table)))
    assert found["aten::index"] == 3 * I8 + 2 * F4 * 3 * 4
    assert found["aten::embedding"] == 3 * I8 + 2 * F4 * 3 * 4
    small, many = torch.ones(2, 4), torch.zeros(100, dtype=torch.int64)
    assert sampled(lambda: small.index_select(0, many))["aten::index_select"] == (
        100 * I8 + F4 * (100 * 4 + 2 * 4)
    )


def test_scatters_write_as_much_as_they_are_given(seen: Seen) -> None:
    """Not the whole table."""
    table, indices, rows = torch.ones(1000, 4), torch.tensor([1, 2]), torch.ones(2, 4)
    found = sampled(lambda: table.index_add_(0, indices, rows))
    assert found["aten::index_add_"] == 2 * I8 + 2 * F4 * 8


def test_tensors_without_storage_count_nothing(seen: Seen) -> None:
    """Those of compilers, which have shapes alone."""
    meta = torch.ones(8, device="meta")
    assert "aten::neg" not in sampled(lambda: torch.neg(meta))


def test_samples_go_on_at_a_small_share(seen: Seen) -> None:
    """Operations of new places are all sampled, later ones now and then; each sample stands for
    those before it, so that changing shapes count as often as they come."""
    from tileprof.native import _recorder

    before = {context: row for context, *row in _recorder.host_times()}
    small, large = torch.ones(10), torch.ones(30)
    for at in range(40_000):
        torch.neg(small if at < 20_000 else large)
    rows = [
        [a - b for a, b in zip(now[:7], before.get(context, (0,) * 7))]
        for context, *now in _recorder.host_times()
    ]
    count, *_, moved, visits = max(rows)
    assert count == 40_000
    assert 0.9 * count <= visits <= count
    assert moved / visits == pytest.approx(2 * F4 * 20, rel=0.1)
