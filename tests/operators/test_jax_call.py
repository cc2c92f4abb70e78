"""Kernels as functions of JAX on the processor: results, gradients, batches, what is refused."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.operators import kernels
from tileprof.errors import ArgumentError, MissingDependencyError, UsageError

jax: Any = pytest.importorskip("jax")
jnp: Any = importlib.import_module("jax.numpy")
check_grads: Any = importlib.import_module("jax.test_util").check_grads
FAILED = (jax.errors.JaxRuntimeError, ValueError)
"""What JAX raises where a program fails, and where a single op does."""
SCALE, BACKWARD = kernels.scale_rows, kernels.scale_rows_backward


@pytest.fixture(autouse=True)
def in_double_precision_on_the_processor() -> Iterator[None]:
    """Also where JAX has a GPU."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    with jax.default_device(jax.devices("cpu")[0]):
        yield
    jax.config.update("jax_enable_x64", before)


def rows(m: int = 10, n: int = 4) -> tuple[Any, Any]:
    """A matrix and a scale for each of its rows."""
    draw = np.random.default_rng(0)
    return jnp.asarray(draw.standard_normal((m, n))), jnp.asarray(draw.standard_normal(m))


def right(x: Any, s: Any) -> Any:
    """What the kernel computes."""
    return x * s[:, None]


@pytest.fixture(scope="module")
def scale() -> Any:
    """A kernel with its backward."""
    return tileprof.jax_call(SCALE, backward=BACKWARD, vmap="sequential")


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_results_and_gradients(scale: Any, wrap: Any) -> None:
    """Eager and traced; NumPy's arrays are arrays too."""
    x, s = rows()
    np.testing.assert_allclose(wrap(scale)(x, s), right(x, s))
    np.testing.assert_allclose(wrap(scale)(np.asarray(x), np.asarray(s)), right(x, s))
    slopes = wrap(jax.grad(lambda x, s: (scale(x, s) ** 2).sum(), (0, 1)))(x, s)
    expected = jax.grad(lambda x, s: (right(x, s) ** 2).sum(), (0, 1))(x, s)
    for one, other in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(one, other)
    check_grads(scale, (x, s), order=1, modes=["rev"])


def test_numbers_are_constants_of_the_program(scale: Any) -> None:
    """Another number is another kernel, and both are found by what they do."""
    x, s = rows()
    texts = [jax.jit(lambda x, s, b=b: scale(x, s, block=b)).lower(x, s).as_text() for b in (2, 4)]
    again = jax.jit(lambda x, s: scale(x, s, 2)).lower(x, s).as_text()
    digests = [text.partition('call = "')[2].partition('"')[0] for text in (*texts, again)]
    assert len(digests[0]) == 32
    assert digests[0] == digests[2] != digests[1]
    np.testing.assert_allclose(jax.jit(scale, static_argnames="block")(x, s, block=2), right(x, s))


def test_second_derivatives_need_a_backward_with_one(scale: Any) -> None:
    """They are refused by the name of the backward; a function of JAX has them."""
    x, s = rows()

    def curvature(call: Any) -> Any:
        return jax.grad(lambda x: jax.grad(lambda x: (call(x, s) ** 3).sum())(x).sum())(x)

    with pytest.raises(ArgumentError, match="`scale_rows_backward` has no backward"):
        curvature(scale)
    smooth = tileprof.jax_call(
        SCALE,
        backward=lambda dY, X, S: (dY * S[:, None], (dY * X).sum(1)),
    )
    np.testing.assert_allclose(curvature(smooth), curvature(right))


def test_kept_results_go_to_backward_alone() -> None:
    """The caller gets the first result; second derivatives would miss what is kept."""
    norm = tileprof.jax_call(kernels.norm_rows, backward=kernels.norm_rows_backward, keeps=("R",))
    x, _ = rows()
    np.testing.assert_allclose(jax.jit(norm)(x), x / jnp.linalg.norm(x, axis=1, keepdims=True))
    check_grads(norm, (x,), order=1, modes=["rev"])
    both, scales = tileprof.jax_call(kernels.norm_rows)(x)
    np.testing.assert_allclose(both * 1 / scales[:, None], x)
    with pytest.raises(ArgumentError, match="`norm_rows` has no second derivatives"):
        jax.grad(lambda x: jax.grad(lambda x: (norm(x) ** 3).sum())(x).sum())(x)


def test_batches(scale: Any) -> None:
    """One launch for each, or by the author's rule; also of gradients, and gradients of batches."""

    def rule(size: int, batched: Any, x: Any, s: Any, block: int) -> Any:
        assert batched == [True, True]
        return tall(x.reshape(-1, 4), s.reshape(-1), block).reshape(size, -1, 4), True

    tall = tileprof.jax_call(SCALE, vmap=rule)
    x, s = rows()
    many, scales = jnp.stack([x, 2 * x, 3 * x]), jnp.stack([s, s, -s])
    expected = jax.vmap(right)(many, scales)
    np.testing.assert_allclose(jax.jit(jax.vmap(tall))(many, scales), expected)
    np.testing.assert_allclose(jax.vmap(scale)(many, scales), expected)

    def slopes(call: Any) -> Any:
        return jax.vmap(jax.grad(lambda x: (call(x, s) ** 2).sum()))(many)

    np.testing.assert_allclose(slopes(scale), slopes(right))
    found = jax.grad(lambda x: (jax.vmap(scale, (0, None))(x, s) ** 2).sum())(many)
    np.testing.assert_allclose(found, slopes(right))
    with pytest.raises(ArgumentError, match="`scale_rows` has no rule for `vmap`"):
        jax.vmap(tileprof.jax_call(SCALE))(many, scales)


def test_lost_gradients_are_refused() -> None:
    """Of a kernel without backward, and of an argument that backward leaves out."""
    x, s = rows()
    plain = tileprof.jax_call(SCALE)
    first = tileprof.jax_call(SCALE, backward=kernels.first_gradient, gradients=("X",))
    with pytest.raises(ArgumentError, match="`X` is differentiated, and `scale_rows` has no back"):
        jax.grad(lambda x: plain(x, s).sum())(x)
    with pytest.raises(ArgumentError, match="gives `S` no gradient") as caught:
        jax.jit(jax.grad(lambda s: first(x, s).sum()))(s)
    assert "stop_gradient(S)" in caught.value.hint
    found = jax.grad(lambda x: first(x, jax.lax.stop_gradient(s)).sum())(x)
    np.testing.assert_allclose(found, jnp.broadcast_to(s[:, None], x.shape))


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_inputs_of_size_0(scale: Any, shape: tuple[int, int]) -> None:
    """Results are empty, and gradients 0."""
    x, s = rows(*shape)
    assert jax.jit(scale)(x, s).shape == shape
    dx, ds = jax.grad(lambda x, s: scale(x, s).sum(), (0, 1))(x, s)
    assert dx.shape == shape
    assert ds.tolist() == [0.0] * shape[0]


def test_operators_of_the_case_studies() -> None:
    """A norm whose backward has a tensor that it does not return; numbers of rows at run time."""
    norms = importlib.import_module("case_studies.operators.norms")
    norm = tileprof.jax_call(
        norms.normalized, backward=norms.normalized_backward, keeps=("Scale",), gradients=("X", "W")
    )

    def ours(x: Any, w: Any) -> Any:
        return norm(x, w, epsilon=1e-6, dtype="float64", block_M=2).sum()

    def theirs(x: Any, w: Any) -> Any:
        return (x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-6) * w).sum()

    for m in (5, 70):
        x, w = rows(m, 12)[0], rows(12)[1]
        for one, other in zip(
            jax.jit(jax.value_and_grad(ours, (0, 1)))(x, w),
            jax.value_and_grad(theirs, (0, 1))(x, w),
        ):
            jax.tree.map(np.testing.assert_allclose, one, other)


def test_calls_from_several_threads(scale: Any) -> None:
    """Programs run side by side, and each launches its own kernel."""
    x, s = rows(64, 4)
    failures: list[Any] = []

    def work(number: int) -> None:
        call = jax.jit(lambda x: scale(x, s, block=number + 1))
        for turn in range(5):
            if not np.allclose(call(x * turn), right(x * turn, s)):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_kernel_that_stops_is_an_error_of_jax_with_our_text() -> None:
    """XLA runs it, and XLA raises; which class of errors depends on how it was called."""
    checked = tileprof.jax_call(kernels.positive_rows)
    x, _ = rows()
    for call in (checked, jax.jit(checked)):
        np.testing.assert_allclose(call(abs(x)), abs(x))
        with pytest.raises(FAILED, match=r"(?s)kernels\.py:\d+.*is positive"):
            jax.block_until_ready(call(-abs(x)))


def test_what_cannot_be_a_function_of_jax(scale: Any) -> None:
    """Each mistake has a way out."""
    x, s = rows()
    wrong_rule: Any = "all"
    cases: list[tuple[Any, type[Exception], str, str]] = [
        (
            lambda: tileprof.jax_call(kernels.scale_in_place),
            UsageError,
            "returns nothing",
            "T.empt",
        ),
        (lambda: tileprof.jax_call(lambda x: x), UsageError, "is no `@tileprof.jit`", "plain Pyth"),
        (lambda: tileprof.jax_call(SCALE, vmap=wrong_rule), UsageError, "`vmap` of", "sequential"),
        (lambda: tileprof.jax_call(SCALE, keeps=("Z",)), UsageError, "`keeps` of", "the last"),
        (lambda: tileprof.jax_call(kernels.also_writes)(x), UsageError, "writes `X`", "T.empty"),
        (lambda: jax.jit(scale)(x, s, 64), ArgumentError, "`block` of", 'static_argnames="block"'),
        (lambda: scale(x.astype(complex), s), ArgumentError, "complex128", "astype"),
        (lambda: scale(x.astype("float32"), s), ArgumentError, "float64 is expected", "annotation"),
        (lambda: scale(x), ArgumentError, "missing a required argument", "X, S, block"),
    ]
    for make, kind, message, hint in cases:
        with pytest.raises(kind, match=message) as caught:
            make()
        assert hint in caught.value.hint  # type: ignore[attr-defined]
    wrong = tileprof.jax_call(SCALE, backward=BACKWARD, gradients=("X",))
    with pytest.raises(UsageError, match="returns 2 gradients, and 1 are expected"):
        jax.grad(lambda x: wrong(x, jax.lax.stop_gradient(s)).sum())(x)


def test_program_that_was_not_traced_here_is_an_error() -> None:
    """A digest that this process does not know."""
    handler = importlib.import_module("tileprof.operators.xla.handler")
    made = jax.ffi.ffi_call(handler.TARGET, jax.ShapeDtypeStruct((2,), "float64"))
    with pytest.raises(FAILED, match="has not traced"):
        jax.block_until_ready(made(call="0" * 32))


@pytest.mark.parametrize(("version", "answer"), [((0, 1), 1), ((0, 9), 3), (None, 3)])
def test_version_of_xlas_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Any, answer: int
) -> None:
    """Handlers claim no later version than jaxlib has, nor one that is not known here."""
    handler = importlib.import_module("tileprof.operators.xla.handler")
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    monkeypatch.setattr(handler, "_minor", -1)
    write_version(tmp_path, version)
    handler._check_version(jax)
    assert handler._minor == answer


def test_other_major_version_of_xlas_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused by name."""
    handler = importlib.import_module("tileprof.operators.xla.handler")
    monkeypatch.setattr(jax.ffi, "include_dir", lambda: str(tmp_path))
    write_version(tmp_path, (1, 0))
    with pytest.raises(MissingDependencyError, match=r"jaxlib has version 1\.0 of XLA's FFI"):
        handler._check_version(jax)


def write_version(folder: Path, version: tuple[int, int] | None) -> None:
    """Write the header that states a version; no header for None."""
    if version is not None:
        header = folder / "xla" / "ffi" / "api" / "c_api.h"
        header.parent.mkdir(parents=True)
        lines = zip(("MAJOR", "MINOR"), version, strict=True)
        header.write_text("".join(f"#define XLA_FFI_API_{name} {n}\n" for name, n in lines))
