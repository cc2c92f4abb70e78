"""Random statements on tiles, legal in any order (see `strategies.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.draw_expressions import FLOATS, INTEGERS, SUMS, Expressions, Tile
from tileprof import ir

__all__ = ["Drawing"]


@dataclass
class Drawing(Expressions):
    """A kernel under construction: tiles, and statements on them."""

    # -- tiles

    def new_tile(self, shape: tuple[int, ...], dtype: ir.DType) -> Tile:
        """A tile written by a fill, by a copy from an input, or by computing each element."""
        value = self.alloc(shape, dtype)
        exact = True
        match self.pick(["fill", "copy", "compute", "compute"]):
            case "fill":
                self.builder.emit(ir.Fill(value, self.constant(dtype)))
            case "copy" if len(shape) == len(self.offsets) and (s := self._copyable(dtype)):
                starts = [self.binary("mul", self.pick([*self.scalars, self.index(1)]),
                                      self.index(self.number(0, 3))) for _ in shape]  # fmt: skip
                view = ir.View(self.pick(s), self.pick([starts, self.offsets]), shape)
                self.builder.emit(ir.Copy(self.builder.emit(view).result, value))
            case _:
                exact = self.compute(value)
        tile = Tile(value, exact)
        self.tiles.append(tile)
        return tile

    def _copyable(self, dtype: ir.DType) -> list[ir.Value]:
        """Inputs that every device converts to the type alike."""
        return [v for v in self.inputs if dtype.is_float or not v.dtype.is_float]

    def compute(self, target: ir.Value) -> bool:
        """Write each element of a tile; whether the result is exact."""
        shape, dtype = target.buffer.static_shape, target.dtype
        smooth = dtype.name in ("float32", "float64") and self.number(0, 3) == 0

        def point(at: list[ir.Value]) -> None:
            made = self.expression(dtype, at, shape)
            if smooth:
                kind = self.pick(["tanh", "sigmoid", "exp2"])
                if kind == "exp2":
                    made = self.binary("min", made, self.builder.constant(4.0, dtype))
                made = self.builder.emit(ir.Unary(kind, made)).result
            elif self.number(0, 3) == 0:
                made = self.through_variable(made)
            self.builder.emit(ir.Store(made, target, at))

        extents = [self.index(s) for s in shape]
        self.builder.emit(ir.Parallel(extents, self.inside(len(shape), point)))
        return not smooth

    def through_variable(self, value: ir.Value) -> ir.Value:
        """A variable that holds one number, then another; the result depends on both."""
        variable = self.builder.emit(ir.Alloc("local", (), value.dtype, hint="v")).result
        loaded = []
        for each in (value, self.constant(value.dtype)):
            self.builder.emit(ir.Store(each, variable, []))
            loaded.append(self.builder.emit(ir.Load(variable, [])).result)
        return self.binary("sub", *loaded)

    def tile_of(self, shape: tuple[int, ...], dtype: ir.DType) -> Tile:
        """An exact tile, one that is there or a new one."""
        found = [t for t in self.tiles if t.shape == shape and t.value.dtype == dtype and t.exact]
        if found and self.maybe():
            return self.pick(found)  # type: ignore[no-any-return]
        made = self.new_tile(shape, dtype)
        if not made.exact:
            self.builder.emit(ir.Fill(made.value, self.constant(dtype)))
            made = self.tiles[-1] = Tile(made.value, True)
        return made

    # -- statements

    def statements(self, most: int) -> None:
        for _ in range(self.number(1, most)):
            self.statement()

    def statement(self) -> None:
        simple = [self.tile, self.gemm, self.reduce, self.scan, self.convert, self.count]
        simple.append(self.choose)
        nested = [self.scope, self.branch, self.loop, self.turns] if self.depth < 2 else []
        self.pick([*simple, *nested])()

    def shape(self) -> tuple[int, ...]:
        known = [t.shape for t in self.tiles]
        fresh = (self.pick(self.extents), self.pick(self.extents))
        return self.pick([fresh, *known])  # type: ignore[no-any-return]

    def tile(self) -> None:
        self.new_tile(self.shape(), self.pick([*FLOATS, *INTEGERS]))

    def gemm(self) -> None:
        m, n, k = (self.pick(self.extents) for _ in range(3))
        dtype = self.pick(SUMS)
        element = ir.dtype("int8") if dtype.is_integer else self.pick(FLOATS[:4])
        a_turned, b_turned = self.maybe(), self.maybe()
        a = self.tile_of((k, m) if a_turned else (m, k), element)
        b = self.tile_of((n, k) if b_turned else (k, n), element)
        c = self.tile_of((m, n), dtype)
        clear = self.maybe()
        self.builder.emit(ir.Gemm(a.value, b.value, c.value, a_turned, b_turned, clear))
        self.taint(c)

    def taint(self, tile: Tile) -> None:
        """A sum of floats was added to a tile: from here on it is not exact."""
        if tile.value.dtype.is_float:
            self.tiles = [t for t in self.tiles if t.value is not tile.value]
            self.tiles.append(Tile(tile.value, False))

    def reduce(self) -> None:
        kind = self.pick(["sum", "max", "min", "absmax", "abssum"])
        sums = kind in ("sum", "abssum")
        dtype = self.pick(SUMS if sums else [*SUMS, ir.dtype("float16")])
        shape = (self.pick(self.extents), self.pick(self.extents))
        source = self.tile_of(shape, dtype)
        dim = self.number(0, 1)
        target = self.tile_of((shape[1 - dim],), dtype)
        clear = self.maybe()
        self.builder.emit(ir.Reduce(kind, source.value, target.value, dim, clear))
        if sums:
            self.taint(target)

    def scan(self) -> None:
        dtype = self.pick(SUMS)
        shape = (self.pick(self.extents), self.pick(self.extents))
        source = self.tile_of(shape, dtype)
        target = Tile(self.alloc(shape, dtype), True)
        options = (self.number(0, 1), self.maybe())
        self.builder.emit(ir.Scan("sum", source.value, target.value, *options))
        self.tiles.append(target)
        self.taint(target)

    def convert(self) -> None:
        """Copy between spaces and types, or the same memory under another shape."""
        shape, source = self.shape(), self.pick([*FLOATS, *INTEGERS])
        tile = self.tile_of(shape, source)
        if self.maybe():
            flat = (int(np.prod(shape)),)
            again = self.builder.emit(ir.Reinterpret(tile.value, flat, source)).result
            target = self.alloc(flat, source)
            self.builder.emit(ir.Copy(again, target))
        else:
            dtype = self.pick(FLOATS if source.is_float else [*FLOATS[:2], *INTEGERS])
            target = self.alloc(shape, dtype)
            self.builder.emit(ir.Copy(tile.value, target))
        self.tiles.append(Tile(target, True))

    def count(self) -> None:
        """Integers added at once from all points of all blocks: their order does not show."""
        kind = self.pick(["add", "max", "min"])

        def point(at: list[ir.Value]) -> None:
            where = self.binary("floormod", at[0], self.index(4))
            slot = self.binary("add", where, self.index({"add": 0, "max": 4, "min": 8}[kind]))
            value = self.expression(ir.dtype("int32"), at, (7,), 1)
            self.builder.emit(ir.Atomic(kind, value, self.counters, [slot]))

        self.builder.emit(ir.Parallel([self.index(7)], self.inside(1, point)))

    def choose(self) -> None:
        """Draw a loop in which one point of each row or column writes its number to a vector."""
        dtype = self.pick([*FLOATS, *INTEGERS])
        shape = (self.pick(self.extents), self.pick(self.extents))
        kept = self.number(0, 1)
        target = self.tile_of((shape[kept],), dtype)
        # Another point that read it would read at the same time.
        others = [t for t in self.tiles if t.value is not target.value]
        self.tiles, tiles = others, self.tiles

        def point(at: list[ir.Value]) -> None:
            moved = self.binary("add", at[kept], self.pick([*self.scalars, self.index(1)]))
            first = self.binary("floormod", moved, self.index(shape[1 - kept]))
            chosen = self.builder.emit(ir.Compare("eq", at[1 - kept], first)).result

            def write(_: list[ir.Value]) -> None:
                self.builder.emit(
                    ir.Store(self.expression(dtype, at, shape), target.value, [at[kept]])
                )

            self.builder.emit(ir.If(chosen, self.inside(0, write), ir.Block()))

        extents = [self.index(s) for s in shape]
        self.builder.emit(ir.Parallel(extents, self.inside(2, point)))
        self.tiles = tiles

    def nested(self, _: list[ir.Value]) -> None:
        self.depth += 1
        self.statements(2)
        self.depth -= 1

    def scope(self) -> None:
        self.builder.emit(ir.Scope(self.pick(["load", "math", "a b"]), self.inside(0, self.nested)))
        self.doubt()

    def branch(self) -> None:
        test = self.condition([], ())
        then = self.inside(0, self.nested)
        otherwise = self.inside(0, self.nested) if self.maybe() else ir.Block()
        self.builder.emit(ir.If(test, then, otherwise))
        self.doubt()

    def doubt(self) -> None:
        """Tiles from outside may have been written: any may hold a sum of floats."""
        sums = [d for d in SUMS if d.is_float]
        self.tiles = [Tile(t.value, t.exact and t.value.dtype not in sums) for t in self.tiles]

    def loop(self) -> None:
        kind = self.pick(["serial", "unroll", "pipelined"])
        huge = [(2**31 - 2, 2**31 + 1, 1), (2**40, 2**40 + 3, 2)] if self.special else []
        turns = [(0, 3, 1), (0, 5, 2), (3, 0, -1), (2, 2, 1), (0, 1, 1), *huge]
        start, stop, step = self.pick(turns)
        leave = self.pick([None, None, ir.Break, ir.Continue])

        def turn(args: list[ir.Value]) -> None:
            # What an earlier turn has summed into a tile is not exact in a later one.
            self.doubt()
            self.scalars.append(args[0])
            self.nested(args)
            if leave is not None:
                self.leave(args[0], leave)
                self.nested(args)

        bounds = [self.index(n) for n in (start, stop, step)]
        body = self.inside(1, turn)
        stages = 2 if kind == "pipelined" else 0
        self.builder.emit(ir.For(kind, bounds[0], bounds[1], bounds[2], body, stages))
        self.doubt()

    def leave(self, counter: ir.Value, how: type[ir.Break] | type[ir.Continue]) -> None:
        """Leave the turn where block and counter say so."""
        total = self.binary("add", self.pick(self.scalars), counter)
        test = ir.Compare("ge", total, self.index(self.number(0, 3)))
        condition = self.builder.emit(test).result
        self.builder.emit(ir.If(condition, ir.Block([], [how()]), ir.Block()))

    def turns(self) -> None:
        """A `while` that counts a variable up to a number that depends on the block."""
        self.doubt()
        dtype = ir.dtype("int32")
        variable = self.builder.emit(ir.Alloc("local", (), dtype, hint="n")).result
        self.builder.emit(ir.Store(self.builder.constant(0, dtype), variable, []))

        def test(_: list[ir.Value]) -> None:
            now = self.builder.emit(ir.Load(variable, [])).result
            small = self.binary("floormod", self.pick(self.scalars), self.index(3))
            most = self.builder.emit(ir.Cast(small, dtype)).result
            condition = self.builder.emit(ir.Compare("lt", now, most)).result
            self.builder.emit(ir.Yield([condition]))

        def turn(args: list[ir.Value]) -> None:
            self.nested(args)
            now = self.builder.emit(ir.Load(variable, [])).result
            more = self.binary("add", now, self.builder.constant(1, dtype))
            self.builder.emit(ir.Store(more, variable, []))

        self.builder.emit(ir.While(self.inside(0, test), self.inside(0, turn)))
        self.doubt()
