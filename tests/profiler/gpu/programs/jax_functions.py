"""Functions of JAX under `jit`, each run ten times; names of functions are those of the test."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp

TIMES = 10


def scaled(x):
    """One kernel, which reads and writes 64 MB."""
    return x * 2 + 1


def product(a, b):
    """A product of 16-bit numbers."""
    return a @ b


def written(cache, row, at):
    """One row of a cache, in place."""
    return jax.lax.dynamic_update_slice(cache, row * 2, (at, 0))


def looked_up(table, rows):
    """Rows of a table."""
    return table[rows] * 2


def summed(xs, w):
    """A loop of 32 turns."""
    return jax.lax.scan(lambda c, x: (jnp.tanh(c @ w + x), c.sum(-1)), xs[0], xs)


def trained(weights, images, labels):
    """A step of training, with a convolution, attention without a fused kernel, and layer norm."""

    def loss(weights):
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(
            images, weights["conv"], (2, 2), "SAME", dimension_numbers=form
        )
        x = jax.nn.relu(x).reshape(len(images), -1, 64)
        x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        q, k, v = jnp.split(x @ weights["qkv"], 3, -1)
        x = x + jax.nn.softmax(q @ k.swapaxes(1, 2) / 8) @ v
        scores = jax.nn.log_softmax(x.mean(1) @ weights["out"])
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    gradients = jax.grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def main():
    """Run all of them."""
    bf16 = jnp.bfloat16
    x = jnp.ones((4096, 4096))
    run = jax.jit(scaled)
    for _ in range(TIMES):
        run(x)
    a, b = jnp.ones((2048, 1024), bf16), jnp.ones((1024, 4096), bf16)
    run = jax.jit(product)
    for _ in range(TIMES):
        run(a, b)
    cache, run = jnp.zeros((8192, 1024)), jax.jit(written, donate_argnums=0)
    for at in range(TIMES):
        cache = run(cache, x[:1, :1024], at)
    run = jax.jit(looked_up)
    for _ in range(TIMES):
        run(x, jnp.arange(64))
    run = jax.jit(summed)
    for _ in range(TIMES):
        run(jnp.ones((32, 256, 512)), jnp.ones((512, 512)) / 512)
    weights = {"conv": jnp.ones((3, 3, 3, 64)) / 9, "qkv": jnp.ones((64, 192)) / 64,
               "out": jnp.ones((64, 10))}  # fmt: skip
    images, labels = jnp.ones((16, 64, 64, 3)), jnp.zeros(16, jnp.int32)
    run = jax.jit(trained)
    for _ in range(TIMES):
        weights = run(weights, images, labels)
    jax.block_until_ready(weights)


if __name__ == "__main__":
    main()
