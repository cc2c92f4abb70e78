"""Read a profile of a training run: where its time goes, and what to change first."""

from __future__ import annotations

from tileprof.learn.answers import AnswerJudge, Question, near, same
from tileprof.learn.exercise import Exercise, Hint
from tileprof.learn.stored import profile, report

FILE = "training.tprof.gz"
MILLISECOND = 1e6


def step_ms() -> float:
    """Return the mean device time of a step, in ms."""
    held = profile(FILE)
    (node,) = held.find(kind="scope", name="step")
    step = held.node(node)
    return float(step.total("time")) / float(step.own("count")) / MILLISECOND


def waits() -> int:
    """Return how often the program read a number back from the device."""
    held = profile(FILE)
    return sum(
        int(held.node(each).own("count")) for each in held.find(kind="op", name="aten::item")
    )


def first_gain() -> float:
    """Return the gain that the first suggestion expects for the program."""
    gain = report(FILE).findings[0].program_gain
    assert gain is not None
    return gain.mid


STARTER = """
STEP_MS = None  # mean device time of one step of training, in ms
RULE = None  # name of the rule behind the first suggestion, as "small-grid"
GAIN = None  # how many times as fast that change is expected to make the program
WAITS = None  # how often the program waited for a number from the device
"""

EXERCISE = Exercise(
    name="read_profile",
    title="Where the time of a training run goes",
    track="reading",
    task="""
        training.tprof, beside your file, is a recording of twelve training steps of a transformer
        on an H200. A recording opens on any machine.

        tileprof view training.tprof shows the tree: time of the device, of each node with all below
        it. tileprof report training.tprof shows what to change, the largest gain first; the name of
        a rule stands in parentheses. See --help for what is shown and what is folded.
    """,
    uses=("profiling.md#read-the-tree", "report.md#how-to-read-it", "metrics.md#metrics"),
    starter=STARTER,
    data={"training.tprof": FILE},
    judge=AnswerJudge(
        "read_profile",
        (
            Question("STEP_MS", "mean device time of one step, in ms",
                     near(step_ms, "The scope `step` has a count and an average.")),
            Question("RULE", "the rule behind the first suggestion of the report",
                     same(lambda: report(FILE).findings[0].rule,
                          "It stands in parentheses behind the first suggestion.")),
            Question("GAIN", "the expected gain of the program from the first suggestion",
                     near(first_gain, "Give the middle of the interval, as 1.5.")),
            Question("WAITS", "how often the program waited for a number from the device",
                     same(waits, "A suggestion of the report counts the waits at .item().")),
        ),
    ),
    hints=(
        Hint("tileprof view training.tprof -d 4 shows the upper part of the tree. Which row is the "
             "scope `step`, and what is its avg_time?"),
        Hint("tileprof report training.tprof: `gain` gives a middle and an interval, and `because` "
             "the evidence. One of the suggestions is about transfers."),
        Hint("Read off:",
             (("STEP_MS = None  # mean device time of one step of training, in ms",
               "STEP_MS = 137"),
              ('RULE = None  # name of the rule behind the first suggestion, as "small-grid"',
               'RULE = "precision"'),
              ("GAIN = None  # how many times as fast that change is expected to make the program",
               "GAIN = 2.13"),
              ("WAITS = None  # how often the program waited for a number from the device",
               "WAITS = 1236"))),
    ),
    said="docs/case-studies/advice.md follows the suggestions, and measures what each one brought.",
)  # fmt: skip
