"""References for TileLang's examples whose own ones cannot run here, and inputs that stay finite.

In: the arguments of a kernel, on any device.  Out: what it has to return, as float32, computed in
float64 and without rounding in between.  States go from chunk to chunk, so these are loops over
chunks: a few products of all heads at once each.  Names are the examples': the gate `G` is a
logarithm, summed within each chunk; `GK` one for each key dimension, to base 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["REFERENCES", "chunk_gates"]

CHUNK = 64
"""Rows of a chunk, in all these examples."""

Tensor = torch.Tensor


def chunk_gates(*shape: int, device: str = "cuda") -> Tensor:
    """Return gates [batch, rows, heads, …] as the examples draw them: logarithms of sigmoids of
    normal numbers, summed within each chunk."""
    gates = torch.nn.functional.logsigmoid(torch.randn(*shape, device=device))
    batch, rows, *rest = shape
    chunks = gates.view(batch, rows // CHUNK, CHUNK, *rest).cumsum(2)
    return chunks.view(*shape)


class _Chunks:
    """The chunks of tensors [batch, rows, heads, …], one at a time."""

    def __init__(self, rows: int) -> None:
        self.count = rows // CHUNK

    def of(self, tensor: Tensor, at: int) -> Tensor:
        """Return a chunk as [batch, heads, 64, …], in float64."""
        part = tensor[:, at * CHUNK : (at + 1) * CHUNK]
        return part.movedim(1, 2).double()

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Return chunks [batch, heads, 64, columns] as rows again."""
        return torch.stack(list(parts), 1).movedim(3, 2).flatten(1, 2)


def _kept(last: Tensor, gate: Tensor) -> Tensor:
    """Return the share of each row of a chunk that is left at its end: [batch, heads, 64, 1]."""
    apart = last - gate
    return torch.where(apart <= 0, apart, -torch.inf).exp().unsqueeze(-1)


def delta_states(K: Tensor, W: Tensor, U: Tensor, G: Tensor, state: Tensor) -> list[Tensor]:
    """Return the state before each chunk, the last one, and the new values."""
    chunks = _Chunks(K.shape[1])

    def after(at: int, held: Tensor, value: Tensor) -> Tensor:
        gate = chunks.of(G, at)
        last = gate[..., -1:]
        held = held * last.exp().unsqueeze(-1)
        return held + chunks.of(K, at).mT @ (value * _kept(last, gate))

    return _states(chunks, W, U, state, after)


def delta_states_keys(K: Tensor, W: Tensor, U: Tensor, GK: Tensor, state: Tensor) -> list[Tensor]:
    """As `delta_states`, with a gate for each key dimension."""
    chunks = _Chunks(K.shape[1])

    def after(at: int, held: Tensor, value: Tensor) -> Tensor:
        last = chunks.of(GK, at)[..., -1, :]
        return held * last.exp2().unsqueeze(-1) + chunks.of(K, at).mT @ value

    return _states(chunks, W, U, state, after)


def _states(
    chunks: _Chunks,
    W: Tensor,
    U: Tensor,
    state: Tensor,
    after: Callable[[int, Tensor, Tensor], Tensor],
) -> list[Tensor]:
    """Go through the chunks; `after` returns the state behind a chunk, from that before it and the
    chunk's new values."""
    held = state.double()
    before: list[Tensor] = []
    values: list[Tensor] = []
    for at in range(chunks.count):
        before.append(held.float())
        value = chunks.of(U, at) - chunks.of(W, at) @ held
        values.append(value.float())
        held = after(at, held, value)
    return [torch.stack(before, 1), held.float(), chunks.joined(values)]


def delta_gradients(
    Q: Tensor, K: Tensor, W: Tensor, G: Tensor, h0: Tensor, dht: Tensor, dO: Tensor, dv: Tensor
) -> list[Tensor]:
    """Return the gradients of the state after each chunk, of the first state, and of the values."""
    chunks, held, scale = _Chunks(K.shape[1]), dht.double(), K.shape[-1] ** -0.5
    after: list[Tensor] = []
    values: list[Tensor] = []
    for at in reversed(range(chunks.count)):
        after.append(held.float())
        gate = chunks.of(G, at)
        last = gate[..., -1:]
        value = chunks.of(K, at) @ held * _kept(last, gate) + chunks.of(dv, at)
        values.append(value.float())
        query = chunks.of(Q, at) * gate.exp().unsqueeze(-1) * scale
        held = held * last.exp().unsqueeze(-1)
        held = held + query.mT @ chunks.of(dO, at) - chunks.of(W, at).mT @ value
    return [torch.stack(after[::-1], 1), held.float(), chunks.joined(values[::-1])]


def delta_gradients_keys(
    Q: Tensor, K: Tensor, W: Tensor, GK: Tensor, h0: Tensor, dht: Tensor, dO: Tensor, dv: Tensor
) -> list[Tensor]:
    """As `delta_gradients`, with a gate for each key dimension."""
    chunks, held, scale = _Chunks(K.shape[1]), dht.double(), K.shape[-1] ** -0.5
    after: list[Tensor] = []
    values: list[Tensor] = []
    for at in reversed(range(chunks.count)):
        after.append(held.float())
        value = chunks.of(K, at) @ held + chunks.of(dv, at)
        values.append(value.float())
        last = chunks.of(GK, at)[..., -1, :]
        held = held * last.exp2().unsqueeze(-1)
        held = held + chunks.of(Q, at).mT @ chunks.of(dO, at) * scale
        held = held - chunks.of(W, at).mT @ value
    return [torch.stack(after[::-1], 1), held.float(), chunks.joined(values[::-1])]


REFERENCES: dict[str, Callable[..., list[Tensor]]] = {
    each.__name__: each
    for each in (delta_states, delta_states_keys, delta_gradients, delta_gradients_keys)
}
"""References, by the names that the code of cases has for them."""
