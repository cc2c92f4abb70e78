"""A kernel that runs as plain Python gives what the interpreter gives."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.lang import debug_kernels, examples
from tests.lang.flows import FLOWS, run_flow
from tests.lang.test_control_flow import DATA, compile_text, in_python, statements
from tileprof.errors import Location
from tileprof.runtime import hooks

matmul, softmax, rms_norm, int4, attention = (
    importlib.import_module(f"case_studies.{name}")
    for name in ("matmul", "softmax", "rms_norm", "int4_matmul", "flash_attention")
)
RANDOM = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    """Random numbers."""
    return RANDOM.standard_normal(shape).astype(dtype)


@pytest.fixture
def debug(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Switch the debug execution on and off."""
    return lambda on: monkeypatch.setenv("TILEPROF_DEBUG", "1" if on else "0")


def same(debug: Callable[[bool], None], run: Callable[..., Any], *args: Any) -> None:
    """Both executions give the same bits, and leave the same in the arguments."""
    left: tuple[list[Any], list[Any]] = ([], [])
    for on, held in zip((True, False), left):
        debug(on)
        given_ = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        with tileprof.device("interpreter"):
            made = run(*given_)
        held += [*(made if isinstance(made, tuple) else (made,)), *given_]
    for plain, interpreted in zip(*left):
        if isinstance(plain, np.ndarray):
            assert plain.dtype == interpreted.dtype
            np.testing.assert_array_equal(plain, interpreted)
        else:
            assert type(plain) is type(interpreted)


def _int4() -> tuple[Any, ...]:
    levels = RANDOM.integers(0, 16, (10, 64), dtype=np.uint8)
    scales = RANDOM.uniform(0.5, 1.5, (10, 2)).astype(np.float32)
    packed = int4.pack(levels)
    return normal(7, 64, dtype=ml_dtypes.bfloat16), packed, scales, 8, 8, 32


def _attention(causal: bool) -> Callable[..., Any]:
    return lambda *qkv: attention.flash_attention(1, 2, 9, 8, causal, 4, 4)(*qkv)


CASES: dict[str, tuple[Any, ...]] = {
    "matmul": (matmul.matmul, normal(20, 13), normal(13, 9), 8, 8, 8),
    "softmax": (softmax.softmax, normal(5, 11)),
    "rms_norm": (rms_norm.rms_norm, normal(5, 11), normal(11)),
    "int4": (int4.int4_matmul, *_int4()),
    "attention": (_attention(False), *(normal(1, 9, 2, 8) for _ in range(3))),
    "causal": (_attention(True), *(normal(1, 9, 2, 8) for _ in range(3))),
    "half": (examples.matmul, normal(9, 8, dtype="f2"), normal(8, 5, dtype="f2"), 8, 8, 8),
    "lazy": (
        lambda *ab: examples.matmul_lazy(9, 5, 8, 8, 8, 8)(*ab),
        *(normal(9, 8, dtype="f2"), normal(5, 8, dtype="f2")),
    ),
    "dynamic softmax": (examples.softmax, normal(5, 11)),
    "persistent": (examples.persistent, normal(20, 40)),
    "scalars": (examples.scalars, np.arange(8, dtype=np.float32), 2.0, 6),
    "shifted": (debug_kernels.shifted, normal(11, dtype="f2"), 3),
    "mixed types": (
        *(debug_kernels.mixed_types, normal(6), normal(6, dtype=ml_dtypes.bfloat16)),
        np.array([100, -100, 7, -7, 127, -128], np.int8),
    ),
    "two launches": (debug_kernels.two_launches, normal(3, 6), 0.5),
    "in place": (debug_kernels.in_place, np.arange(10, dtype=np.int32)),
    "references": (debug_kernels.references, *np.arange(16, dtype=np.int32).reshape(2, 8)),
    "bits": (debug_kernels.bits, normal(4, 8)),
    "private": (debug_kernels.private, np.zeros(8, np.int32)),
    "safe values": (debug_kernels.safe_values, normal(5)),
    "late extents": (debug_kernels.late_extents, normal(4), normal(8)),
    "factory": (lambda a: debug_kernels.doubled_factory(4)(a), normal(3, 4)),
}


@pytest.mark.spread(without=["int4", "causal"])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_interpreter(case: str, debug: Callable[[bool], None]) -> None:
    """Results and arguments are equal to the bit: each op runs through the same NumPy code."""
    same(debug, *CASES[case])


def test_strided_arguments(debug: Callable[[bool], None]) -> None:
    """An array that is not contiguous is used where it lies."""
    debug(True)
    array = normal(5, 6)[:, ::2]
    np.testing.assert_array_equal(debug_kernels.strided(array), array.T)


def run_in_debug(flow: Any, data: list[int], n: int) -> list[int]:
    """What a flow leaves in `B`."""
    out = run_flow(np.array(data, np.int32), T.macro(flow), n)
    return [int(x) for x in out]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda f: str(f.__name__))
def test_flows_mean_what_python_means(flow: FunctionType, debug: Callable[[bool], None]) -> None:
    """Loops, jumps, branches and rebound names."""
    debug(True)
    assert run_in_debug(flow, DATA, 8) == in_python(flow, DATA, 8)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(statements(2, False), st.lists(st.integers(-20, 20), min_size=12, max_size=12))
def test_random_programs(debug: Callable[[bool], None], lines: list[str], data: list[int]) -> None:
    """Random programs agree with Python."""
    debug(True)
    flow = compile_text(lines)
    assert run_in_debug(flow, data, 5) == in_python(flow, data, 5)


def test_print_prints_at_once(
    debug: Callable[[bool], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """`print` and `T.print` mix in the order of the lines; scalars print and index as numbers."""
    debug(True)
    debug_kernels.printing(np.array([3, 1, 4, 1], np.int32))
    assert capsys.readouterr().out == (
        "in the function\n"
        "block (0): tile\n[3, 1]\n"
        "element 0 3 003 10\n"
        "block (0): next 4\n"
        "element 1 1 001 20\n"
        "block (0): next 2\n"
        "4 tile[0:1]: int32\n[3]\n"
        "block (1): tile\n[4, 1]\n"
        "element 0 4 004 10\n"
        "block (1): next 5\n"
        "element 1 1 001 20\n"
        "block (1): next 2\n"
        "5 tile[0:1]: int32\n[4]\n"
    )


def test_switched_on_after_import(debug: Callable[[bool], None]) -> None:
    """The variable counts at each call; a kernel that was built before obeys it too."""
    seen: list[str] = []
    factory, _, _ = debug_kernels.noting(seen)
    kernel = factory()
    data = np.arange(4, dtype=np.int32)
    assert seen == ["Expr"]  # traced
    with tileprof.device("interpreter"):
        kernel(data)
        debug(True)
        np.testing.assert_array_equal(kernel(data), data + 1)
        assert seen == ["Expr", *["LiveScalar"] * 4]
        debug(False)
        kernel(data)
    assert len(seen) == 5


def test_asked_for_in_the_decorator(monkeypatch: pytest.MonkeyPatch) -> None:
    """`jit(debug=True)` and `compile(…, debug=True)` never trace."""
    monkeypatch.delenv("TILEPROF_DEBUG", raising=False)
    seen: list[str] = []
    _, eager, program = debug_kernels.noting(seen)
    data = np.array([3, 0, 0, 0], np.int32)
    eager(data)
    tileprof.compile(program, debug=True)(data)
    assert (seen, data.tolist()) == (["0", "0"], [12, 6, 0, 0])


def test_torch_in_torch_out(debug: Callable[[bool], None]) -> None:
    """Results come back in the kind of the first array; arguments are changed where they lie."""
    torch = pytest.importorskip("torch")
    debug(True)
    given_ = torch.arange(12, dtype=torch.float32).reshape(3, 4) + 1
    result, sums = debug_kernels.two_launches(given_, 2.0)
    assert torch.allclose(result, given_ / given_.sum(1, keepdim=True) * 2)
    assert sums.tolist() == given_.sum(1).tolist()
    counted = torch.zeros(6, dtype=torch.int32)
    debug_kernels.in_place(counted)
    assert counted.tolist() == [0, 0, 0, 0, 1, 1]


class Listener:
    """Notes launches as a profile would."""

    instrument: hooks.Instrument = "off"
    times_gpus = False

    def __init__(self) -> None:
        self.launches: list[hooks.Launch] = []
        self._tokens = itertools.count()

    def begin(self, kernel: hooks.LaunchedKernel) -> int:
        """A launch begins."""
        return next(self._tokens)

    def end(self, token: int, launch: hooks.Launch) -> None:
        """It is over."""
        self.launches.append(launch)

    def abandon(self, token: int) -> None:
        """It failed."""


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    """Somebody who listens to launches."""
    made = Listener()
    monkeypatch.setattr(hooks, "listener", made)
    return made


def test_a_profile_sees_the_call(debug: Callable[[bool], None], listener: Listener) -> None:
    """One launch on the device `interpreter`, with grid, blocks, guarded elements and a note."""
    debug(True)
    debug_kernels.in_place(np.zeros(10, np.int32))
    (launch,) = listener.launches
    info = launch.kernel.info()
    assert (launch.device, launch.grid, launch.blocks, launch.guarded) == (
        "interpreter",
        (3,),
        3,
        4,
    )
    assert (info.name, info.attributes, info.source_file) == (
        *("in_place", {"debug": 1}),
        debug_kernels.__file__,
    )
    assert isinstance(launch.kernel.location, Location)
    assert launch.time_ns > 0
