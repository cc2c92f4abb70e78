"""Tables of embeddings whose gradients are dense."""

from __future__ import annotations

import pytest

from tests.analyzer.made import found, only
from tests.analyzer.steps import LATE, MS, Step
from tileprof.analyzer.fixes import SPARSE_GRADIENTS
from tileprof.profile import Metric, Profile
from tileprof.profile.training_facts import OptimizerFacts, training_provenance

TABLE = 25_600_000


def looked_up(
    rows: float = 0.01, gradient: float = 20, update: float = 20, late: float = 0,
    shared: float = 0, optimizer: str = "SGD", plain: bool = True, launches: int = 10,
    others: float = 1,
) -> Profile:  # fmt: skip
    """A step of 100 ms with a table of which that part is looked up: its gradient, and the update
    of parameters, of which the others are so many times as large, take so many ms."""
    step = Step()
    for name in ("table_bytes", "row_bytes", "shared_table_bytes"):
        step.builder.declare(Metric(name, "bytes"))
    lookup = step.op(step.frame(step.top, "forward", 46), "aten::embedding",
                     table_bytes=20 * TABLE, row_bytes=20 * rows * TABLE)  # fmt: skip
    step.launch(lookup, "gather", MS)
    node = step.op(lookup, "EmbeddingBackward0", backward=True)
    gaps = {LATE: late * MS} if late else {}
    step.launch(node, "sort", gradient * MS, 20 * launches, backward=True, gaps=gaps)
    linear = step.op(step.frame(step.top, "forward", 47), "aten::linear",
                     shared_table_bytes=20 * shared * TABLE)  # fmt: skip
    step.launch(linear, "gemm", (99 - gradient - update) * MS)
    scope = step.scope(step.top, f"Optimizer.step#{optimizer}.step")
    step.launch(step.op(scope, "aten::_foreach_add_"), "multi_tensor_apply", update * MS)
    facts = OptimizerFacts(optimizer, int((1 + others) * TABLE), 4, plain)
    return step.profile(provenance=training_provenance((), [facts]))


def test_its_gradient_and_its_part_of_the_update_go() -> None:
    """20 and 10 of 100 ms, but for 8 × 0.01 of the gradient's time: that of the rows."""
    finding = only(looked_up(), "embedding")
    gain, place = finding.program_gain, finding.place.location
    assert gain is not None
    assert place is not None
    expected = (1 / (1 - 0.084), 1 / (1 - 0.284), 1 / (1 - 0.3))
    assert (gain.low, gain.mid, gain.high) == pytest.approx(expected)
    assert place.line == 46
    assert "sparse=True" in finding.author
    assert finding.fixes == (SPARSE_GRADIENTS,)
    assert "1.0 % of that at most" in finding.evidence[0].text


def test_an_optimizer_with_state_has_to_be_another_one() -> None:
    """So half of its part is likely, and there is no change that leaves results as they are."""
    finding = only(looked_up(optimizer="AdamW", plain=False), "embedding")
    assert finding.program_gain is not None
    assert finding.program_gain.mid == pytest.approx(1 / (1 - 0.234))
    assert (finding.confidence, finding.fixes) == ("low", ())
    assert "results are others than those of AdamW" in finding.author


def test_gaps_before_launches_that_go() -> None:
    """Save six launches of ten, and their gaps, of which a run without a recording has 0.73."""
    finding = only(looked_up(late=50), "embedding")
    gain = finding.program_gain
    assert gain is not None
    whole = 100 + 0.73 * 50
    assert "another 20.0 % is lost in gaps" in finding.evidence[3].text
    assert gain.mid == pytest.approx(1 / (1 - (28.4 + 0.73 * 0.6 * 50) / whole))
    assert not any("in gaps" in each.text for each in only(looked_up(), "embedding").evidence)


@pytest.mark.parametrize(
    "step",
    [
        looked_up(rows=0.6),
        looked_up(rows=0.2),
        looked_up(shared=1),
        looked_up(shared=0.5),
        looked_up(gradient=0.3, update=0.2),
        looked_up(optimizer="AdamW", plain=False, others=3),
    ],
    ids=[
        "most rows",
        "rows that cost as much",
        "shared with a product",
        "shared, and looked up twice",
        "small",
        "a part of what another optimizer updates",
    ],
)
def test_tables_that_are_left_alone(step: Profile) -> None:
    """Gradients of most rows, of a product that shares the table, or that take no time."""
    assert not found(step, "embedding")
