"""Modules of JAX's programs: where they come from, and which one a range of XLA names."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tileprof.profiler.frameworks import jax_programs
from tileprof.profiler.frameworks.hlo_work import Work
from tileprof.profiler.frameworks.jax_programs import Programs

COMPILER = "jax._src.compiler"


def text(size: int, name: str = "wrapped_negate.1") -> str:
    """A module whose instruction of this name negates so many numbers."""
    return f"""HloModule jit_f
ENTRY %main (x: f32[{size}]) -> f32[{size}] {{
  %x = f32[{size}] parameter(0)
  ROOT %{name} = f32[{size}] negate(%x)
}}"""


class Module:
    """A module as JAX gives it."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self.asked = 0

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


def of(size: int, name: str = "wrapped_negate.1") -> dict[str, Work]:
    """What is known of such a module."""
    return {name: Work(2 * 4 * size, size)}


def found(known: Programs, *ranges: str, steps: tuple[str, ...] = ()) -> list[Any]:
    """Work by instruction of the program in each range, with these steps in it; None: not known."""
    work = known.find(dict.fromkeys(ranges, steps))
    return [work.get(name) for name in ranges]


def compiled(*modules: Module, in_order: bool = True) -> Programs:
    """Programs that were compiled one after another."""
    known = Programs()
    for each in modules:
        known.note(executable(each), in_order)
    return known


def test_programs_of_one_name_are_told_apart_by_the_order_of_their_numbers() -> None:
    """Numbers rise by steps of any size; a module is read when it is asked for, once."""
    modules = [Module("jit_f", text(8)), Module("jit_g", text(4)), Module("jit_f", text(16))]
    known = compiled(*modules)
    assert [each.asked for each in modules] == [0, 0, 0]
    assert found(known, range_of(2650), range_of(662)) == [of(16), of(8)]
    others = (
        "XlaModule:#prefix=jit(f)/g,hlo_module=jit_f,program_id=1325#",
        "XlaModule:#hlo_module=jit_f,device=0,program_id=3#",
    )
    assert found(known, *others) == [of(16), of(8)]
    assert [each.asked for each in modules] == [1, 0, 1]
    assert found(known, range_of(1, "jit_h"), "my scope") == [None, None]


def test_programs_that_were_compiled_and_have_not_run_keep_their_place() -> None:
    """Ranges of compilations have numbers too."""
    known = compiled(*(Module("jit_f", text(size)) for size in (8, 16, 32)))
    begun = [f"XlaCompileBackend:#module=jit_f,program_id={at}#" for at in (0, 662, 1325)]
    work = known.find({range_of(662): (), **dict.fromkeys(begun, ())})
    assert work == {range_of(662): of(16)}


def test_steps_that_ran_tell_programs_apart() -> None:
    """A program has all of them, but graphs of several, which are no instructions."""
    known = compiled(
        Module("jit_f", text(8)), Module("jit_f", text(16, "loop_fusion")), in_order=False
    )
    ran = {range_of(7): {"loop_fusion", "command_buffer_2"}, range_of(3): {"wrapped_negate.1"}}
    assert known.find(ran) == {range_of(7): of(16, "loop_fusion"), range_of(3): of(8)}
    assert known.find({range_of(7): {"loop_fusion.1"}}) == {}


def test_a_place_in_order_that_steps_contradict_is_not_believed() -> None:
    """Nor is one among programs whose order is not known, or that are too many or too few."""
    modules = Module("jit_f", text(8)), Module("jit_f", text(16, "loop_fusion"))
    known = compiled(*modules)
    ran = {range_of(1): {"loop_fusion"}, range_of(2): {"wrapped_negate.1"}}
    assert known.find(ran) == {range_of(1): of(16, "loop_fusion"), range_of(2): of(8)}
    alike = [Module("jit_f", text(size)) for size in (8, 16)]
    unknown = {"wrapped_negate.1": None}
    assert found(compiled(*alike, in_order=False), range_of(1), range_of(2)) == [unknown] * 2
    assert found(compiled(*alike), range_of(1)) == [unknown]
    assert found(compiled(*alike), *map(range_of, (1, 2, 3))) == [None] * 3


def test_without_numbers_programs_of_a_name_have_to_agree() -> None:
    """One that is not known to be the one that ran is not taken."""
    plain = "XlaModule:#hlo_module=jit_f#"
    assert found(compiled(*(Module("jit_f", text(8)) for _ in range(2))), plain) == [of(8)]
    known = compiled(*(Module("jit_f", text(size)) for size in (8, 16)))
    assert found(known, plain) == [{"wrapped_negate.1": None}]


def test_what_is_not_understood_has_no_work() -> None:
    """Nor is anything raised, whatever JAX gives."""
    known = Programs()
    known.note(object())
    known.note(executable(Module("jit_f", "another text"), platform="gpu"))
    known.note(executable(SimpleNamespace(name="jit_g")))
    known.note(executable(Module("jit_h", text(8)), platform="cpu"))
    assert found(known, range_of(1), range_of(2, "jit_g"), range_of(3, "jit_h")) == [{}, {}, None]
    # It may be what ran, whatever the others are.
    known.note(executable(Module("jit_f", text(8))))
    assert found(known, range_of(1), steps=("loop_fusion",)) == [{}]


def test_names_of_which_programs_were_forgotten_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is gone may be the one that runs."""
    monkeypatch.setattr(jax_programs, "_MOST_PROGRAMS", 2)
    known = compiled(*(Module(f"jit_{name}", text(8)) for name in "ffgh"))
    assert found(known, *(range_of(1, f"jit_{name}") for name in "fgh")) == [None, of(8), of(8)]


ASYNC = """HloModule jit_f
%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %n = f32[8]{0} negate(%p)
}
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %fusion-start = ((f32[8]{0}), f32[8]{0}, s32[]) fusion-start(%x), kind=kLoop, calls=%fused
  ROOT %fusion-done = f32[8]{0} fusion-done(%fusion-start)
}"""


def test_fusions_that_run_beside_others_are_known_by_the_names_of_both() -> None:
    """The name of the instruction that begins one is in the text; the fusion's own JAX tells."""
    root = SimpleNamespace(name="loop_negate_fusion")
    begin = SimpleNamespace(name="fusion-start", async_wrapped_root=lambda: root)
    other = SimpleNamespace(name="x")
    module = Module("jit_f", ASYNC)
    computation = SimpleNamespace(instructions=lambda: [other, begin])
    vars(module)["computations"] = lambda: [computation]
    both = of(8, "fusion-start") | of(8, "loop_negate_fusion")
    assert found(compiled(module), range_of(1), steps=("loop_negate_fusion",)) == [both]
    without = compiled(Module("jit_f", ASYNC))
    assert found(without, range_of(1), steps=("a_name",)) == [of(8, "fusion-start")]
    assert found(without, range_of(1), steps=("a_name", "another")) == [None]


def test_compilations_are_heard_of_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was live before, whose order is not known; JAX's function is put back."""
    made = [
        executable(Module(name, text(8 * at)))
        for at, name in enumerate(("jit_f", "jit_g", "jit_g", "jit_f", "jit_h"), 1)
    ]

    def compile_or_get_cached(number: int) -> Any:
        return made[number]

    compiler = played(monkeypatch, compile_or_get_cached=compile_or_get_cached)
    backend = SimpleNamespace(live_executables=lambda: [made[0]])
    vars(sys.modules["jax._src.xla_bridge"])["_backends"] = {"cuda": backend, "tpu": None}
    known = Programs()
    known.attach()
    known.attach()
    wrapped = compiler.compile_or_get_cached
    assert [wrapped(number=at) for at in (1, 2, 3)] == made[1:4]
    assert found(known, *(range_of(at, "jit_g") for at in (1, 2))) == [of(16), of(24)]
    assert found(known, *map(range_of, (1, 2))) == [{"wrapped_negate.1": None}] * 2
    known.detach()
    known.detach()
    assert compiler.compile_or_get_cached is compile_or_get_cached
    assert wrapped(4) is made[4]
    assert found(known, range_of(1, "jit_h")) == [None]


def test_compilations_at_the_same_time_have_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are given at some time in between."""
    made = [executable(Module(f"jit_{name}", text(8 * at))) for at, name in enumerate("ffgg", 1)]
    inside = list[int]()

    def compile_or_get_cached(number: int) -> Any:
        for each in inside:
            inside.clear()
            compiler.compile_or_get_cached(each)
        return made[number]

    compiler = played(monkeypatch, compile_or_get_cached=compile_or_get_cached)
    known = Programs()
    known.attach()
    inside.append(0)
    for number in (1, 2, 3):
        compiler.compile_or_get_cached(number)
    known.detach()
    assert found(known, *map(range_of, (1, 2))) == [{"wrapped_negate.1": None}] * 2
    assert found(known, *(range_of(at, "jit_g") for at in (1, 2))) == [of(24), of(32)]


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
        name = range_of(7, "jit_product_of_tileprof")
        (work,) = found(known, name)
        assert work
        assert {2 * 32 * 32 * 48} <= {each.flops for each in work.values() if each is not None}
        again = Programs(left_out=())
        again.attach()
        again.detach()
        assert found(again, name) == [work]
