"""A small transformer in plain JAX, trained with Adam; only the gradient is under `jit`."""

import os

import jax
import jax.numpy as jnp

from stepping import changed, finish, size, steps

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
BATCH, LENGTH, WIDTH, LAYERS, HEADS = size((16, 256, 512, 6, 8), (2, 8, 16, 2, 2))
VOCABULARY = size(8192, 64)
if changed("larger-batch"):
    BATCH *= 2
KIND = jnp.bfloat16 if changed("bf16") else jnp.float32


def parameters(key):
    """Weights of all layers."""

    def normal(*shape):
        nonlocal key
        key, mine = jax.random.split(key)
        return jax.random.normal(mine, shape) * 0.02

    layers = [
        {"qkv": normal(WIDTH, 3 * WIDTH), "out": normal(WIDTH, WIDTH),
         "up": normal(WIDTH, 4 * WIDTH), "down": normal(4 * WIDTH, WIDTH)}
        for _ in range(LAYERS)
    ]  # fmt: skip
    return {"tokens": normal(VOCABULARY, WIDTH), "places": normal(LENGTH, WIDTH), "layers": layers}


def norm(x):
    """Layer norm without weights."""
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attention(x, layer):
    """Causal attention, written out."""
    b, t, _ = x.shape
    q, k, v = jnp.split((x @ layer["qkv"]).reshape(b, t, HEADS, -1), 3, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (WIDTH // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    return mixed.reshape(b, t, -1) @ layer["out"]


def loss_of(weights, ids):
    """Mean cross entropy of the next token."""
    weights = jax.tree.map(lambda each: each.astype(KIND), weights)
    x = weights["tokens"][ids[:, :-1]] + weights["places"]
    for layer in weights["layers"]:
        x = x + attention(norm(x), layer)
        x = x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"]
    scores = jax.nn.log_softmax((norm(x) @ weights["tokens"].T).astype(jnp.float32))
    return -jnp.take_along_axis(scores, ids[:, 1:, None], -1).mean()


def adam(weights, grads, first, second, number):
    """The next weights and moments."""
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
    rate = 1e-3 * (1 - 0.999**number) ** 0.5 / (1 - 0.9**number)
    weights = jax.tree.map(
        lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-8), weights, first, second
    )
    return weights, first, second


def whole(weights, first, second, ids, number):
    """Gradient and update together."""
    loss, grads = jax.value_and_grad(loss_of)(weights, ids)
    return (loss, *adam(weights, grads, first, second, number))


def main():
    weights = parameters(jax.random.key(0))
    first, second = (jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    ids = jax.random.randint(jax.random.key(1), (8, BATCH, LENGTH + 1), 0, VOCABULARY)
    gradient = jax.jit(jax.value_and_grad(loss_of))
    together = jax.jit(whole)
    update = jax.jit(adam) if changed("jit-update") else adam
    losses = []

    def synchronize():
        jax.block_until_ready(weights)

    for step in steps(size(45, 6), BATCH, synchronize):
        batch = ids[step % len(ids)]
        if changed("jit-step"):
            loss, weights, first, second = together(weights, first, second, batch, step + 1.0)
        else:
            loss, grads = gradient(weights, batch)
            weights, first, second = update(weights, grads, first, second, step + 1.0)
        if not changed("no-item"):
            losses.append(float(loss))
    finish(float(loss))


if __name__ == "__main__":
    main()
