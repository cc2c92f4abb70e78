"""Kernels as functions of JAX on a GPU: results, gradients, batches, XLA's stream.

python -m pytest -m gpu tests/operators/test_gpu_jax.py
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tileprof

# PyTorch's tests of the same process need memory too; read when JAX first asks for the GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

jax: Any = pytest.importorskip("jax")
jnp: Any = importlib.import_module("jax.numpy")
kernels: Any = importlib.import_module("tests.operators.kernels")
norms: Any = importlib.import_module("case_studies.operators.norms")
attention: Any = importlib.import_module("case_studies.attention")

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu_in_double_precision() -> Iterator[None]:
    """JAX on a GPU; numbers keep their 64 bits."""
    assert jax.default_backend() == "gpu"
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def draw(*shape: int, dtype: Any = "float64") -> Any:
    """Normal numbers on the GPU."""
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape)).astype(dtype)


def close(found: Any, expected: Any) -> None:
    """Trees of arrays are the same but for roundings."""
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), found, expected
    )


@pytest.fixture(scope="module")
def softmax() -> Any:
    """The kernels of the case study."""
    return tileprof.jax_call(
        norms.softmaxed, backward=norms.softmaxed_backward, gradients=("X",), vmap="sequential"
    )


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_results_and_gradients(softmax: Any, wrap: Any) -> None:
    """Of a softmax, eager and traced, for several numbers of rows, in several calls."""
    for rows in (1, 5, 300):
        x = draw(rows, 40)

        def loss(call: Any) -> Any:
            return wrap(jax.value_and_grad(lambda y: (call(y) ** 3).sum()))

        for _ in range(3):
            found = loss(lambda x: softmax(x, dtype="float64", block_M=2))(x)
            assert next(iter(found[1].devices())).platform == "gpu"
            close(found, loss(lambda x: jax.nn.softmax(x, axis=1))(x))


def test_attention_in_bfloat16() -> None:
    """A kernel with tensor maps and tensor cores, inside of a program with other work."""
    call = tileprof.jax_call(attention.attention)
    q, k, v = (draw(2, 256, 4, 64, dtype="bfloat16") * (n + 1) for n in range(3))

    def ours(q: Any, k: Any, v: Any) -> Any:
        return call(q * 2, k, v, causal=True)[0].astype("float32") + 1

    def theirs(q: Any, k: Any, v: Any) -> Any:
        found = jax.nn.dot_product_attention(
            *(x.astype("float64") for x in (q * 2, k, v)), is_causal=True
        )
        return found + 1

    # As far from double precision as roundings of weights and results to bfloat16 may take it.
    largest = float(abs(v.astype("float32")).max())
    np.testing.assert_allclose(jax.jit(ours)(q, k, v), theirs(q, k, v), atol=2**-7 * largest)


def test_kernels_wait_for_what_the_program_does_before_them() -> None:
    """XLA's stream is behind by long products when the kernel is enqueued; and what comes after the
    kernel sees its results."""
    scale = tileprof.jax_call(kernels.scale_rows)

    def chain(call: Any) -> Any:
        def program(a: Any, b: Any, s: Any) -> Any:
            for _ in range(20):
                a = a @ b
            return call(a, s) @ jnp.ones(a.shape[1])

        return jax.jit(program)

    a, s = draw(3000, 3000), draw(3000)
    b = a.T / 100
    expected = chain(lambda a, s: a * s[:, None])(a, b, s)
    largest = float(abs(expected).max())
    for _ in range(3):
        np.testing.assert_allclose(chain(scale)(a, b, s), expected, atol=1e-10 * largest)


def test_batches(softmax: Any) -> None:
    """A launch for each element, also of gradients."""
    x = draw(3, 8, 40)

    def slopes(call: Any) -> Any:
        return jax.jit(jax.vmap(jax.grad(lambda x: (call(x) ** 2).sum())))(x)

    close(
        slopes(lambda x: softmax(x, dtype="float64", block_M=2)),
        slopes(lambda x: jax.nn.softmax(x, axis=1)),
    )


def test_loop_of_a_program_launches_each_turn(softmax: Any) -> None:
    """`lax.scan` calls the handler once a turn."""
    x = draw(8, 40)

    def turns(call: Any) -> Any:
        return jax.jit(lambda x: jax.lax.scan(lambda x, _: (call(x) * 3, x.sum()), x, length=10))(x)

    close(turns(lambda x: softmax(x, dtype="float64")), turns(lambda x: jax.nn.softmax(x, axis=1)))


def test_errors_have_our_text() -> None:
    """Of a kernel that cannot be compiled for the arguments, and of inputs of size 0 none."""
    scale = tileprof.jax_call(kernels.scale_rows)
    with pytest.raises(tileprof.TileprofError, match="float64 is expected"):
        scale(draw(4, 4, dtype="float32"), draw(4))
    assert jax.jit(scale)(draw(0, 4), draw(0)).shape == (0, 4)
