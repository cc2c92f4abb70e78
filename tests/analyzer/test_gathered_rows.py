"""Rows that are gathered, scaled and added up by index: a sparse product that is written out."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import MS, Step


def convolution(
    gather: str = "aten::index", add: str = "aten::index_add_", function: str = "forward"
) -> Step:
    """A graph convolution: rows gathered in 10 ms a step, scaled in 15, added up in 20; gradients
    of 30, 10 and 5; beside it a product of 10 ms."""
    step = Step()
    rows = step.op(step.frame(step.top, "forward", 27), gather)
    scaled = step.op(step.frame(step.top, "forward", 27), "aten::mul")
    sums = step.op(step.frame(step.top, function, 28), add)
    for op, name, forward, backward in (
        (rows, "gather", 10, 30), (scaled, "elementwise", 15, 10), (sums, "indexFunc", 20, 5),
    ):  # fmt: skip
        step.launch(op, f"{name}_kernel", forward * MS)
        gradient = step.op(op, f"{name}Backward0", backward=True)
        step.launch(gradient, f"{name}_backward_kernel", backward * MS, backward=True)
    small = step.op(step.frame(step.top, "forward", 28), "aten::zeros_like")
    step.launch(small, "fill_kernel", MS)
    product = step.op(step.frame(step.top, "Linear.forward", 90), "aten::addmm")
    step.launch(product, "nvjet_hsh", 10 * MS)
    return step


def test_all_but_the_gather_goes() -> None:
    """Of 90 of 101 ms 20 are gathering in both passes: 0.85 times that are left likely."""
    finding = only(convolution().profile(), "fusion")
    assert finding.title == (
        "Rows are gathered and summed by index at train_gpt.py:27, aten::index"
    )
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(
        [1 / (1 - (90 - left * 20) / 101) for left in (1.75, 0.85, 0.4)]
    )
    assert "torch.sparse.mm" in finding.author
    assert finding.evidence[0].text.startswith("aten::index, aten::mul, aten::index_add_ take")


def test_its_gradients_are_told_once() -> None:
    """The one by sorting takes three times the gather's time, and goes with the rest."""
    assert not found(convolution().profile(), "backward-ratio")
    assert found(convolution(add="aten::add").profile(), "backward-ratio") == []
    slow = convolution(add="aten::add")
    gradient = slow.builder.snapshot().find("gather_backward_kernel")[0]
    slow.builder.add(gradient, "time", 30 * MS)
    assert found(slow.profile(), "backward-ratio")


def test_in_a_layer_of_a_library() -> None:
    """Functions of its own gather and add up, below one line of the user's; its product is apart.

    At two lines of the user's they are no such layer.
    """
    library = "/env/lib/python3.11/site-packages/torch_geometric/nn/conv/"
    for lines, told in (((12, 12), 1), ((12, 13), 0)):
        step = Step()
        layers = [step.frame(step.top, "GCN.forward", line) for line in lines]
        linear = step.op(step.frame(layers[0], "Linear.forward", 9, library + "linear.py"),
                         "aten::linear")  # fmt: skip
        step.launch(step.op(linear, "aten::addmm", flops=1e12), "nvjet_hsh", 20 * MS)
        for at, (function, name, time) in enumerate((
            ("MessagePassing._index_select", "aten::index_select", 10),
            ("GCNConv.message", "aten::mul", 15),
            ("Aggregation.reduce", "aten::scatter_add_", 20),
        )):  # fmt: skip
            frame = step.frame(layers[at // 2], function, 90 + at, library + "passing.py")
            step.launch(step.op(frame, name), f"{function}_kernel", time * MS)
        said = found(step.profile(), "fusion")
        rows = [each for each in said if each.title.startswith("Rows are gathered")]
        assert len(rows) == told
        for each in rows:
            gain = each.program_gain
            assert gain is not None
            assert gain.mid == pytest.approx(1 / (1 - (45 - 0.85 * 10) / 65))
            assert "aten::index_select, aten::mul, aten::scatter_add_ take" in each.evidence[0].text
            assert "to_torch_csr_tensor" in each.author


@pytest.mark.parametrize(
    "other",
    [{"gather": "aten::mul"}, {"add": "aten::add"}, {"function": "elsewhere"}],
    ids=["no gather", "no sum by index", "in another function"],
)
def test_what_is_no_sparse_product(other: dict[str, str]) -> None:
    """One of the two operations is missing, or stands in another function."""
    said = found(convolution(**other).profile(), "fusion")
    assert not [each for each in said if each.title.startswith("Rows are gathered")]
