"""What several changes bring at once: shared kernels, shared gaps, and the host."""

from __future__ import annotations

import pytest

from tests.analyzer.steps import LATE, MS, Step
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.contexts import Contexts
from tileprof.analyzer.findings import Finding, Gain, Place
from tileprof.analyzer.together import Claim, together
from tileprof.profile import Metric

PEAKS = {"fma_float32": 60e12, "tensor_tf32": 400e12}
PLAIN = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3"


class Made:
    """A step: a product of 40 ms, other work of 40 ms, a gap of so many ms before a late launch;
    of the product so many ms are slack."""

    def __init__(self, late: float = 0, slack: float = 0) -> None:
        step = Step()
        step.builder.declare(Metric("slack_time", "ns"))
        linear = step.frame(step.top, "mlp", 71)
        self.product = step.launch(step.op(linear, "aten::mm"), PLAIN, 40 * MS)
        step.builder.add(self.product, "slack_time", slack * MS)
        gaps = {LATE: late * MS} if late else {}
        other = step.frame(step.top, "norm", 72)
        self.other = step.launch(step.op(other, "aten::add"), "elementwise", 40 * MS, gaps=gaps)
        self.profile = step.profile(PEAKS)
        self.tree = Contexts(Program(self.profile))
        self.gaps = tuple(self.profile.find(kind="idle"))

    def claim(
        self, saved: float, *nodes: int, gaps: float = 0, exposed: float = 1, goes: bool = False
    ) -> Claim:
        """A change that saves so many ms of these kernels, and of gaps."""
        whole = self.tree.unrecorded_time / MS
        share = (saved * exposed + gaps) / whole
        gain = Gain(1 / (1 - share / 2), 1 / (1 - share), 1 / (1 - share))
        found = Finding("a-rule", "suggestion", "a cause", Place(), (), "Do it.", program_gain=gain)
        held = self.gaps if gaps else ()
        return Claim(found, nodes, held, gaps / whole, saved / whole, exposed, goes)

    def left(self, *claims: Claim) -> float:
        """Time of a step after these changes, ms."""
        return self.tree.unrecorded_time / MS / together(self.tree, claims).mid


def test_kernels_of_their_own_add_up() -> None:
    """20 of 80 ms, and 10 of 80."""
    made = Made()
    assert made.left(made.claim(20, made.product), made.claim(10, made.other)) == pytest.approx(50)


def test_of_one_kernel_the_largest_saving_counts() -> None:
    """30 ms, not 30 and 20: both may be the same 20 ms."""
    made = Made()
    claims = made.claim(20, made.product), made.claim(30, made.product)
    gain = together(made.tree, claims)
    assert made.left(*claims) == pytest.approx(50)
    assert gain.low == pytest.approx(1 / (1 - 15 / 80))
    assert gain.high == gain.mid


def test_gaps_that_the_recording_made_are_not_closed_twice() -> None:
    """Of 40 ms before late launches 0.73 × 40 are there otherwise, whoever closes them."""
    made = Made(late=40)
    assert made.tree.unrecorded_time == pytest.approx((80 + 0.73 * 40) * MS)
    claims = (made.claim(0, gaps=0.73 * 40), made.claim(0, gaps=0.73 * 40))
    assert made.left(*claims) == pytest.approx(80)


def test_a_faster_device_waits_for_the_host() -> None:
    """40 ms of slack and 20 of gaps: the host takes 43.8 ms there, which no faster kernel changes.

    A change of the host's work does, until the device is the limit again.
    """
    made = Made(late=20, slack=40)
    host = 0.73 * 60
    assert made.tree.unrecorded_time == pytest.approx((40 + host) * MS)
    kernels = made.claim(30, made.product, exposed=0.6)
    others = made.claim(10, made.other)
    alone = made.left(kernels)
    assert alone == pytest.approx(83.8 - 0.6 * 30)
    # The second finds nothing beyond what the host allows.
    assert made.left(kernels, others) == pytest.approx(min(alone, 30 + host))
    assert together(made.tree, [kernels, others]).high > together(made.tree, [kernels]).mid


def test_launches_that_go_leave_the_host_less_to_do() -> None:
    """Take 40.4 ms of gaps from the host's 87.6, and the kernels' 30 where launches go too."""
    for goes, left in ((True, 40 + max(10, 87.6 - 40.4 - 30)), (False, 40 + 87.6 - 40.4)):
        made = Made(late=80, slack=40)
        claim = made.claim(30, made.product, gaps=40.4, exposed=float(goes), goes=goes)
        kept = made.claim(0.001, made.other)
        assert made.left(claim, kept) == pytest.approx(left, rel=1e-3)


def test_a_report_of_a_program_whose_host_is_the_limit() -> None:
    """Late launches and 32-bit products: all gaps and half of the products' slack at most."""
    made = Made(late=60, slack=30)
    report = analyze(made.profile)
    rules = [each.rule for each in report.findings if each.severity == "suggestion"]
    assert rules[:2] == ["launch-bound", "precision"]
    assert report.account is not None
    count, gain = report.account.first
    singles = [each.program_gain for each in report.findings[:2]]
    assert count == 2
    assert singles[0] is not None
    assert singles[1] is not None
    whole = made.tree.unrecorded_time / MS
    # Late gaps are closed, and the product's part that is no slack goes; its slack does not.
    assert singles[0].mid <= gain.mid <= whole / (80 - 0.8 * 10) * 1.0001
    added = 1 / (1 - (1 - 1 / singles[0].mid) - (1 - 1 / singles[1].mid))
    assert gain.mid < added


def test_no_change_no_gain() -> None:
    """Findings without a gain are none."""
    assert together(Made().tree, []) == Gain(1, 1, 1)
