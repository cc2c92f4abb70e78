"""Prints and assertions as CUDA text, run on the emulated machine."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.elementwise_support import HOPPER, launch, numbers
from tests.verified import parse
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.unit import emit
from tileprof.emulator import EmulationError, emulate

TILE = "regs (0,1) (0,2) | lanes (0,4) (1,0) (2,0) (4,0) (0,0) | warps (0,0)"
"""8 × 8 over 64 threads, four of which hold the same."""

PRINTS = launch(
    "%x: global<8, 8, float16>, %z: global<m, 3, int32> safe(7)",
    f"""
    %s = alloc shared {{shape = [8, 8], layout = "pad=2", offset = 0}} : shared<8, 8, float16>
    parallel [%c8, %c8] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] {{in_bounds = true}} : float16
      store %v, %s, [%i, %j] {{in_bounds = true}}
      %last = eq %i, %c7 : bool
      if %last then {{
        print "value" %v
      }} otherwise {{
      }}
    }}
    barrier
    print "tile" %s
    %tile = view %z, [%c1, %c0] {{sizes = [2, 3]}} : global<2, 3, int32>
    print "edge" %tile
    print "here" _""",
    symbols="%m",
    threads=64,
).replace("threads = [64]", "threads = [64], schedule = [[shared, 1024]]")


def test_prints() -> None:
    """Each point once, whole buffers row by row, what is outside as it would be read."""
    kernel = parse(PRINTS)
    made = emit(kernel, HOPPER, Controls())
    assert made.launches[0].arguments[-1].kind == "report"
    x, z = numbers("float16", 8, 8), numbers("int32", 2, 3, seed=1)
    printed = emulate(made, kernel, [x, z], {"m": 2}, seed=3)
    found = {m: [p for p in printed if made.places[p.place].message == m] for m in
             ("value", "tile", "edge", "here")}  # fmt: skip
    points = sorted(p.words[:2] for p in found["value"])
    assert points == [(7, j) for j in range(8)]
    for message in found["value"]:
        value = np.uint32(message.words[2] & 0xFFFFFFFF).view(np.float32)
        assert value == x[7, message.words[1]]
    (tile,) = found["tile"]
    held = np.array(tile.words, np.uint64).astype(np.uint16).view(np.float16)
    np.testing.assert_array_equal(held.reshape(8, 8), x)
    (edge,) = found["edge"]
    np.testing.assert_array_equal(np.array(edge.words, np.uint32).view(np.int32)[:3], z[1])
    assert edge.words[3:] == (7, 7, 7)
    assert len(found["here"]) == 1


ASSERTS = launch(
    "%x: global<8, 8, int32>",
    f"""
    parallel [%c8, %c8] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] {{in_bounds = true}} : int32
      %fine = lt %v, %limit : bool
      assert "too large" %fine
    }}""",
    before="  %limit = constant 100 : int32",
    threads=64,
)


def test_an_assertion_names_its_point() -> None:
    """The point comes with the failure; nothing fails where it holds."""
    kernel = parse(ASSERTS)
    made = emit(kernel, HOPPER, Controls())
    array = numbers("int32", 8, 8)
    emulate(made, kernel, [array])
    array[3, 5] = 100
    with pytest.raises(EmulationError) as caught:
        emulate(made, kernel, [array])
    failure = caught.value.failure
    assert failure is not None
    place = made.places[failure.place]
    assert (place.kind, place.message, place.point) == ("assert", "too large", ("i", "j"))
    assert failure.values[:2] == (3, 5)


OUTSIDE = (
    launch(
        "%x: global<8, int32>, %at: global<8, int32>, %y: global<8, int32>",
        """
    %s = alloc shared {shape = [8], offset = 0} : shared<8, int32>
    parallel [%c8] {layout = "regs | lanes (1) (2) (4) (0) (0) | warps"} body(%i: index) {
      %v = load %x, [%i] {in_bounds = true} : int32
      store %v, %s, [%i] {in_bounds = true}
    }
    barrier
    parallel [%c8] {layout = "regs | lanes (1) (2) (4) (0) (0) | warps"} body(%i: index) {
      %a = load %at, [%i] {in_bounds = true} : int32
      %k = cast %a : index
      %v = load %s, [%k] : int32
      store %v, %y, [%i] {in_bounds = true}
    }""",
        threads=32,
    )
    .replace("cast %a :", "cast %a {dtype = index} :")
    .replace("threads = [32]", "threads = [32], schedule = [[shared, 1024]]")
)


@pytest.mark.parametrize("wrong", [-1, 8])
def test_an_index_outside_of_shared_memory_stops_the_launch(wrong: int) -> None:
    """The index and the buffer come with the failure."""
    kernel = parse(OUTSIDE)
    made = emit(kernel, HOPPER, Controls())
    assert made.launches[0].arguments[-1].kind == "notes"
    x, at, y = numbers("int32", 8), np.arange(8, dtype=np.int32)[::-1].copy(), np.zeros(8, np.int32)
    emulate(made, kernel, [x, at, y])
    np.testing.assert_array_equal(y, x[at])
    at[2] = wrong
    with pytest.raises(EmulationError) as caught:
        emulate(made, kernel, [x, at, y])
    failure = caught.value.failure
    assert failure is not None
    place = made.places[failure.place]
    assert (place.kind, place.buffer, place.access) == ("element", "s", "read")
    assert failure.values[:2] == (wrong, 2)


def test_what_can_stop_and_notes_is_waited_for() -> None:
    """It has one report for both."""
    store = "store %v, %y, [%i]"
    stops = f'%ok = ge %v, %a : bool\n      assert "negative" %ok\n      {store}'
    made = emit(parse(OUTSIDE.replace(store, stops)), HOPPER, Controls())
    kinds = [argument.kind for argument in made.launches[0].arguments]
    assert [kind for kind in kinds if kind in ("notes", "report")] == ["report"]
    assert {place.kind for place in made.places} == {"assert", "element"}
