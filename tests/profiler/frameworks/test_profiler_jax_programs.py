"""Modules of JAX's programs: where they come from, and which one a range of XLA names."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tileprof.profiler.frameworks.hlo_work import Work
from tileprof.profiler.frameworks.jax_programs import Programs, module_number

COMPILER = "jax._src.compiler"


def text(size: int) -> str:
    """A module that negates so many numbers."""
    return f"""HloModule jit_f
ENTRY %main (x: f32[{size}]) -> f32[{size}] {{
  %x = f32[{size}] parameter(0)
  ROOT %wrapped_negate.1 = f32[{size}] negate(%x)
}}"""


class Module:
    """A module as JAX gives it."""

    def __init__(self, name: str, number: int, text: str) -> None:
        self.name = name
        self._number, self._text = number, text
        self.asked = 0

    def as_serialized_hlo_module_proto(self) -> bytes:
        """Its name, a computation, and its number behind them."""
        return b"\x0a\x05jit_f\x1a\x02\x28\x07" + b"\x28" + bytes([self._number | 0x80, 1])

    def to_string(self) -> str:
        """Its text."""
        self.asked += 1
        return self._text


def executable(*modules: Any, platform: str = "cuda") -> Any:
    """An executable of these modules."""
    client = SimpleNamespace(platform=platform)
    return SimpleNamespace(client=client, hlo_modules=lambda: list(modules))


def played(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> ModuleType:
    """A compiler of JAX's with these functions."""
    compiler = ModuleType(COMPILER)
    vars(compiler).update(functions)
    monkeypatch.setitem(sys.modules, COMPILER, compiler)
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", ModuleType("bridge"))
    return compiler


def range_of(number: int, name: str = "jit_f") -> str:
    """The name of XLA's range around a run."""
    return f"XlaModule:#hlo_module={name},program_id={number}#"


def of(size: int) -> dict[str, Work]:
    """What is known of such a module."""
    return {"wrapped_negate.1": Work(2 * 4 * size, size)}


def test_programs_of_one_name_are_told_apart_by_number() -> None:
    """A module is read when it is asked for, once."""
    known = Programs()
    modules = [Module("jit_f", number, text(8 * number)) for number in (1, 2)]
    for each in modules:
        known.note(executable(each))
    assert [each.asked for each in modules] == [0, 0]
    assert known.find(range_of(128 + 2)) == of(16)
    assert known.find(range_of(128 + 1)) == of(8)
    assert known.find("XlaModule:#prefix=jit(f)/g,hlo_module=jit_f,program_id=129#") == of(8)
    assert known.find("XlaModule:#hlo_module=jit_f,device=0,program_id=130#") == of(16)
    assert [each.asked for each in modules] == [1, 1]
    for name in (range_of(7), range_of(129, "jit_g"), "my scope", "XlaModule:#hlo_module=jit_f#"):
        assert known.find(name) is None


def test_without_numbers_programs_of_a_name_have_to_agree() -> None:
    """One that is not known to be the one that ran is not taken."""
    known = Programs()
    known.note(executable(Module("jit_f", 1, text(8))))
    known.note(executable(Module("jit_f", 2, text(8))))
    assert known.find("XlaModule:#hlo_module=jit_f#") == of(8)


def test_what_is_not_understood_has_no_work() -> None:
    """Nor is anything raised, whatever JAX gives."""
    known = Programs()
    known.note(object())
    known.note(executable(Module("jit_f", 1, "another text"), platform="gpu"))
    assert known.find(range_of(129)) is None
    known.note(executable(SimpleNamespace(name="jit_g")))
    assert known.find(range_of(129, "jit_g")) is None
    known.note(executable(Module("jit_h", 1, text(8)), platform="cpu"))
    assert known.find(range_of(129, "jit_h")) is None


def test_compilations_are_heard_of_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was live before; JAX's function is put back."""
    made = [executable(Module("jit_f", number, text(8 * number))) for number in (1, 2, 3)]

    def compile_or_get_cached(number: int) -> Any:
        return made[number - 1]

    compiler = played(monkeypatch, compile_or_get_cached=compile_or_get_cached)
    backend = SimpleNamespace(live_executables=lambda: [made[0]])
    vars(sys.modules["jax._src.xla_bridge"])["_backends"] = {"cuda": backend, "tpu": None}
    known = Programs()
    known.attach()
    known.attach()
    wrapped = compiler.compile_or_get_cached
    assert wrapped(number=2) is made[1]
    assert known.find(range_of(129)) == of(8)
    assert known.find(range_of(130)) == of(16)
    known.detach()
    known.detach()
    assert compiler.compile_or_get_cached is compile_or_get_cached
    assert wrapped(3) is made[2]
    assert known.find(range_of(131)) is None


def test_failures_of_a_compilation_are_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who wraps our wrapper keeps it; a JAX without the function is left alone."""

    def compile_or_get_cached() -> Any:
        raise ValueError("out of registers")

    compiler = played(monkeypatch, compile_or_get_cached=compile_or_get_cached)
    known = Programs()
    known.attach()
    with pytest.raises(ValueError, match="out of registers"):
        compiler.compile_or_get_cached()
    theirs = vars(compiler)["compile_or_get_cached"] = lambda: 1
    known.detach()
    assert compiler.compile_or_get_cached is theirs
    played(monkeypatch)
    known.attach()
    known.detach()


def test_numbers_of_modules_stand_behind_fields_of_all_kinds() -> None:
    """A text that ends early, or begins a group, has none."""
    assert module_number(b"\x09" + bytes(8) + b"\x0d" + bytes(4) + b"\x10\x05\x28\x03") == 3
    assert module_number(b"\x0a\x01x") is None
    assert module_number(b"\x0b") is None


def test_real_programs_are_known() -> None:
    """Of the JAX that is installed, on the CPU."""
    jax: Any = pytest.importorskip("jax")
    jnp: Any = importlib.import_module("jax.numpy")
    known = Programs(left_out=())
    with jax.default_device(jax.devices("cpu")[0]):
        x = jnp.ones((32, 48), "float32")
        known.attach()
        try:

            def product_of_tileprof(x: Any) -> Any:
                return x @ x.T

            run = jax.jit(product_of_tileprof)
            run(x).block_until_ready()
        finally:
            known.detach()
        found = known.find("XlaModule:#hlo_module=jit_product_of_tileprof#")
        assert found
        assert {2 * 32 * 32 * 48} <= {of.flops for of in found.values() if of is not None}
        again = Programs(left_out=())
        again.attach()
        again.detach()
        assert again.find("XlaModule:#hlo_module=jit_product_of_tileprof#") == found
