"""Remarks about configurations of Triton's autotuner: which are kept, and why all of them are."""

from __future__ import annotations

from .statement import Bytes, Decision, Reason

# -- what became of a configuration


class KeptForTiming(Decision, text="kept: place {place} of the model's order"):
    place: int


class NotWorthTiming(Decision, text="left out: {ratio:.2f} times the best one's time by the model"):
    ratio: float


class ExpectedNotToFit(Decision):
    text = "left out: a multiprocessor is expected to have no room for a block of it"


class SameCode(Decision, text="left out: its machine code is that of `{other}`"):
    other: str


class CannotRun(Decision, text="left out: {why}"):
    why: Reason


class KeptUnranked(Decision, text="kept: {why}"):
    why: Reason


# -- why a configuration cannot run


class TooMuchShared(Reason):
    text = "a block needs {needed} bytes of shared memory, {there} are there"
    needed: Bytes
    there: Bytes


class TooManyRegisters(Reason, text="a block's threads need more registers than there are"): ...


class RefusedByTriton(Reason, text="Triton does not compile it: {message}"):
    message: str


# -- why the model does not know a kernel


class ProgramNotUnderstood(Reason, text="its program is not understood: {what}"):
    what: str


class DataDecidesLoop(Reason, text="data in memory decides how often a loop runs"): ...


class ArgumentsNotFitting(Reason, text="its arguments do not fit its program"): ...


class KernelNotCompiled(Reason, text="Triton could not make its program: {message}"):
    message: str


class GridNotKnown(Reason, text="the grid is not known: {message}"):
    message: str


class ModelFailed(Reason, text="the model failed, which is a fault of tileprof: {message}"):
    message: str


class OtherTriton(Reason, text="this version of Triton is not known: {message}"):
    message: str


class OtherTarget(Reason, text="the model knows no `{target}`"):
    target: str


class TunerNotKnown(Reason):
    text = "which kernel is tuned is not known; put `@tileprof.triton_pruner()` above its tuner"
