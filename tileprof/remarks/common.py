"""Statements that several kinds of ops share."""

from __future__ import annotations

from .statement import Candidate, Decision, Reason


class OtherDecision(Decision, text="{words}"):
    # Sentences that no code says: of files older than the codes, or of later versions.
    words: str


class OtherCandidate(Candidate, text="{words}"):
    words: str


class OtherReason(Reason, text="{words}"):
    # Also words of another program (an assembler, an error).
    words: str


class Asked(Candidate, text="{wish}, as asked"):
    wish: str


class InLayout(Candidate, text="layout {layout}"):
    layout: str


class RegisterCandidate(Candidate, text="registers"): ...


class Stages(Candidate, text="{stages} stages"):
    stages: int


class AddressComputed(Reason, text="its address depends on what the block computes"): ...


class AsAsked(Reason, text="as asked"): ...


class AuthorLoops(Reason, text="the author loops over tiles"): ...


class BlocksNamed(Reason, text="prints and asserts name their block by its number"): ...


class ControlComputed(Reason):
    text = "a loop or branch around it depends on what the block computes"


class LeftEarly(Reason, text="the loop may be left early"): ...


class NoProducer(Reason, text="no producer warp group loads for them"): ...


class PartOfTile(Reason, text="it fills a part of the shared tile"): ...


class StepNotOne(Reason, text="its step is not 1"): ...


class TargetHasNone(Reason, text="{target} has none"):
    target: str


class TurnedOff(Reason, text="it is turned off"): ...
