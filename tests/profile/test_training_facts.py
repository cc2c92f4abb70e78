"""Memory and optimizers of a program, as provenance tells them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tileprof.profile.training_facts import (
    HOST,
    MemoryRoom,
    OptimizerFacts,
    memory_rooms,
    optimizer_facts,
    training_provenance,
)

_bytes = st.integers(0, 2**50)
_rooms = st.lists(
    st.builds(MemoryRoom, st.sampled_from(["cuda:0", "cuda:12", HOST]), _bytes, _bytes),
    unique_by=lambda each: each.device,
)
_optimizers = st.lists(
    st.builds(OptimizerFacts, st.sampled_from(["SGD", "AdamW"]), _bytes, _bytes, st.booleans())
)


@given(_rooms, _optimizers)
def test_what_is_written_is_read(rooms: list[MemoryRoom], optimizers: list[OptimizerFacts]) -> None:
    """All of it; the tightest memory first."""
    texts = training_provenance(rooms, optimizers)
    assert set(memory_rooms(texts)) == set(rooms)
    assert [each.left for each in memory_rooms(texts)] == sorted(each.left for each in rooms)
    assert optimizer_facts(texts) == tuple(optimizers)


def test_other_texts_say_nothing() -> None:
    """Of a profile that was put together, or of a later version."""
    texts = {"memory of cuda:0": "1 of 2", "optimizers": "SGD", "memory": "3 of 4 bytes at most"}
    assert memory_rooms(texts) == ()
    assert optimizer_facts(texts) == ()
    assert optimizer_facts({}) == ()
