"""Random statements that change a part of what is there (see `strategies.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.draw_expressions import FLOATS, INTEGERS, Tile
from tests.draw_statements import Drawing
from tileprof import ir

__all__ = ["Updates"]

INT32 = ir.dtype("int32")
Fill = Callable[[list[ir.Value]], None]
"""Writes a block, given its arguments."""
LONG = 8
"""Elements along a dimension, of which a tile of three would have too many."""


@dataclass
class Updates(Drawing):
    """A kernel under construction: tiles that are written again, in part or under conditions."""

    variables: list[ir.Value] = field(default_factory=list)
    """Variables of the block that hold a number of 32 bits."""

    def statement(self) -> None:
        """One statement of either kind."""
        kinds = [self.rewrite, self.update, self.moved, self.row, self.element, self.along]
        kinds += [self.part, self.part, self.alias, self.histogram, self.taken, self.scan_again]
        kinds += [
            self.bits,
            self.narrow,
            self.carry,
            self.some,
            self.private,
            self.several,
            self.flags,
        ]
        if self.depth < 2:
            kinds += [self.counted, self.while_data]
        if self.number(0, 2):
            self.pick(kinds)()
        else:
            super().statement()

    # -- helpers

    def inside(self, args: int, fill: Callable[[list[ir.Value]], None]) -> ir.Block:
        """A block; variables made in it end with it."""
        variables = list(self.variables)
        made = super().inside(args, fill)
        self.variables = variables
        return made

    def there(self) -> Tile:
        """An exact tile that is there, or a new one."""
        found = [t for t in self.tiles if t.exact]
        if found and self.number(0, 3):
            return self.pick(found)  # type: ignore[no-any-return]
        return self.tile_of(self.shape(), self.pick([*FLOATS, *INTEGERS]))

    def counting(self, kind: Any, bounds: list[ir.Value], body: ir.Block) -> ir.For:
        """A loop over what `bounds` says: start, stop, step."""
        start, stop, step = bounds
        return ir.For(kind, start, stop, step, body)

    def any_shape(self) -> tuple[int, ...]:
        """A shape of one to three dimensions, and of no more than two where they are long."""
        rank = self.number(1, 3 if max(self.extents) < LONG else 2)
        return tuple(self.pick(self.extents) for _ in range(rank))

    def points(self, shape: tuple[int, ...], target: Tile | None, point: Fill) -> None:
        """A `parallel` whose points do not read the target but by what `point` does."""
        tiles = self.tiles
        self.tiles = [t for t in tiles if target is None or t.value is not target.value]
        extents = [self.index(s) for s in shape]
        self.builder.emit(ir.Parallel(extents, self.inside(len(shape), point)))
        self.tiles = tiles

    def store(self, value: ir.Value, target: ir.Value, at: list[ir.Value]) -> None:
        self.builder.emit(ir.Store(value, target, at))

    def guarded(self, at: list[ir.Value], shape: tuple[int, ...], do: Callable[[], None]) -> None:
        """Do it, under a condition of data or of the point, or after a `continue`, or always."""
        how = self.pick(["if", "else", "always", *(["continue", "point"] if at else [])])
        if how == "always":
            do()
            return
        if how == "point":
            kind = self.pick(["eq", "ne", "lt", "ge"])
            bound = self.place([], shape[0]) if self.maybe() else self.index(self.number(0, 3))
            test = self.builder.emit(ir.Compare(kind, at[0], bound)).result
        else:
            test = self.condition(at, shape)
        if how == "continue":
            self.builder.emit(ir.If(test, ir.Block([], [ir.Continue()]), ir.Block()))
            do()
            return
        sides = [self.inside(0, lambda _: do()), ir.Block()]
        if how == "else":
            sides.reverse()
        self.builder.emit(ir.If(test, *sides))

    # -- statements

    def rewrite(self) -> None:
        """A tile that is there is written again: filled, loaded or computed."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype
        sources = self._copyable(dtype)
        if len(shape) == len(self.offsets) and sources and self.maybe():
            starts = [
                self.binary(
                    "mul", self.pick([*self.scalars, self.index(1)]), self.index(self.number(0, 3))
                )
                for _ in shape
            ]
            view = ir.View(self.pick(sources), self.pick([starts, self.offsets]), shape)
            self.builder.emit(ir.Copy(self.builder.emit(view).result, tile.value))
        elif self.maybe():
            self.builder.emit(ir.Fill(tile.value, self.expression(dtype, [], (), 1)))
        else:
            self.points(
                shape,
                tile,
                lambda at: self.store(self.expression(dtype, at, shape), tile.value, at),
            )

    def update(self) -> None:
        """Elements are changed in place, some of them."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype

        def point(at: list[ir.Value]) -> None:
            def do() -> None:
                old = self.builder.emit(ir.Load(tile.value, at)).result
                kinds = ["min", "max"] if dtype.is_float else ["min", "max", "add", "xor", "sub"]
                self.store(
                    self.binary(self.pick(kinds), old, self.expression(dtype, at, shape, 1)),
                    tile.value,
                    at,
                )

            self.guarded(at, shape, do)
            if self.number(0, 3) == 0:
                self.guarded(at, shape, do)

        self.points(shape, tile, point)

    def moved(self) -> None:
        """Points write at another place: shifted around, mirrored, or transposed."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype
        order = list(range(len(shape)))
        if self.maybe():
            order.reverse()
        domain = tuple(shape[o] for o in order)

        def point(at: list[ir.Value]) -> None:
            place = [at[order.index(d)] for d in range(len(shape))]
            for d, extent in enumerate(shape):
                match self.pick(["same", "shift", "mirror"]):
                    case "shift":
                        by = self.pick([*self.scalars, self.index(self.number(0, 5))])
                        place[d] = self.binary(
                            "floormod", self.binary("add", place[d], by), self.index(extent)
                        )
                    case "mirror":
                        place[d] = self.binary("sub", self.index(extent - 1), place[d])

            self.guarded(
                at,
                domain,
                lambda: self.store(self.expression(dtype, at, domain), tile.value, place),
            )

        self.points(domain, tile, point)

    def row(self) -> None:
        """One row or column of a tile is written, by points or by a copy."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype
        dim = self.number(0, len(shape) - 1)
        rest = tuple(s for d, s in enumerate(shape) if d != dim) or (1,)
        where = self.place([], shape[dim])

        def point(at: list[ir.Value]) -> None:
            place = list(at[: len(shape) - 1])
            place.insert(dim, where)
            self.guarded(
                at, rest, lambda: self.store(self.expression(dtype, at, rest), tile.value, place)
            )

        self.points(rest, tile, point)

    def element(self) -> None:
        """One element is written outside of any `parallel`."""
        tile = self.there()
        place = [self.place([], s) for s in tile.shape]
        self.guarded(
            [], (), lambda: self.store(self.expression(tile.value.dtype, [], ()), tile.value, place)
        )

    def along(self) -> None:
        """Each point goes along a row in a loop of its own and keeps a number in a variable."""
        source, dtype = self.there(), self.pick([*INTEGERS, FLOATS[0]])
        shape = source.shape
        target = self.tile_of(shape[:1], dtype)
        if target.value is source.value:
            return
        last = shape[-1]

        def point(at: list[ir.Value]) -> None:
            kept = self.builder.emit(ir.Alloc("local", (), dtype, hint="v")).result
            self.store(self.constant(dtype), kept, [])

            def turn(args: list[ir.Value]) -> None:
                row = self.binary("floormod", at[0], self.index(shape[0]))
                where = [row] + [self.index(0)] * (len(shape) - 2) + [args[0]]
                if len(shape) == 1:
                    where = [
                        self.binary(
                            "floormod", self.binary("add", at[0], args[0]), self.index(last)
                        )
                    ]
                seen = self.converted(self.builder.emit(ir.Load(source.value, where)).result, dtype)
                now = self.builder.emit(ir.Load(kept, [])).result
                test = ir.Compare(
                    self.pick(["lt", "ge", "eq"]), seen, self.pick([now, self.constant(dtype)])
                )
                leave = self.pick([ir.Break, ir.Continue, None])
                holds = self.builder.emit(test).result
                if leave is None:
                    self.builder.emit(
                        ir.If(
                            holds, self.inside(0, lambda _: self.store(seen, kept, [])), ir.Block()
                        )
                    )
                else:
                    self.builder.emit(ir.If(holds, ir.Block([], [leave()]), ir.Block()))
                    self.store(self.binary(self.pick(["min", "max"]), now, seen), kept, [])

            reverse = self.maybe()
            bounds = (last - 1, -1, -1) if reverse else (self.number(0, 1), last, 1)
            body = self.inside(1, turn)
            numbers = [self.index(n) for n in bounds]
            self.builder.emit(self.counting(self.pick(["serial", "unroll"]), numbers, body))
            result = self.builder.emit(ir.Load(kept, [])).result
            self.guarded(at, shape[:1], lambda: self.store(result, target.value, at))

        self.points(shape[:1], target, point)

    def view(self, value: ir.Value, sizes: tuple[int, ...]) -> ir.Value:
        starts = []
        for extent, size in zip(value.buffer.static_shape, sizes, strict=True):
            room = extent - size
            starts.append(
                self.place([], room + 1) if self.maybe() else self.index(self.number(0, room))
            )
        return self.builder.emit(ir.View(value, starts, sizes)).result

    def part(self) -> None:
        """A part of a tile: filled, copied to a part of another, reduced, scanned."""
        tile = self.there()
        sizes = tuple(self.number(1, s) for s in tile.shape)
        match self.pick(["fill", "copy", "out", "reduce", "global", "within"]):
            case "fill":
                number = self.constant(tile.value.dtype)
                self.builder.emit(ir.Fill(self.view(tile.value, sizes), number))
            case "copy":
                source = self.there()
                if len(source.shape) != len(sizes) or (
                    source.value.dtype.is_float and not tile.value.dtype.is_float
                ):
                    return
                sizes = tuple(map(min, sizes, source.shape))
                a, b = self.view(source.value, sizes), self.view(tile.value, sizes)
                self.builder.emit(ir.Copy(a, b))
            case "out":
                made = self.alloc(sizes, tile.value.dtype)
                self.builder.emit(ir.Copy(self.view(tile.value, sizes), made))
                self.tiles.append(Tile(made, True))
            case "reduce" if len(sizes) == 2:
                dim = self.number(0, 1)
                dtype = tile.value.dtype
                target = self.tile_of((sizes[1 - dim],), dtype)
                kind = self.pick(["max", "min", "absmax"])
                if target.value is not tile.value:
                    self.builder.emit(
                        ir.Reduce(
                            kind, self.view(tile.value, sizes), target.value, dim, self.maybe()
                        )
                    )
            case "global" if len(sizes) == len(self.offsets):
                sources = self._copyable(tile.value.dtype)
                if sources:
                    view = ir.View(self.pick(sources), self.offsets, sizes)
                    there = self.view(tile.value, sizes)
                    self.builder.emit(ir.Copy(self.builder.emit(view).result, there))
            case "within" if tile.shape[0] >= 2:
                half = (self.number(1, tile.shape[0] - 1), *tile.shape[1:])
                zero = [self.index(0) for _ in tile.shape]
                first = self.builder.emit(ir.View(tile.value, zero, half)).result
                starts = [self.index(tile.shape[0] - half[0]), *zero[1:]]
                second = self.builder.emit(ir.View(tile.value, starts, half)).result
                a, b = (first, second) if self.maybe() else (second, first)
                self.builder.emit(ir.Copy(a, b))

    def alias(self) -> None:
        """A tile is written under another shape, maybe in a loop, and read under its own."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype
        size = 1
        for s in shape:
            size *= s
        forms = [(size,), (1, size), tuple(reversed(shape))]
        seen, form = dtype, self.pick(forms)
        if dtype.name == "int32" and self.maybe():
            seen, form = ir.dtype("int8"), (size, 4)
        again = self.builder.emit(ir.Reinterpret(tile.value, form, seen)).result
        other = Tile(again, True)

        def point(at: list[ir.Value]) -> None:
            self.guarded(at, form, lambda: self.store(self.expression(seen, at, form), again, at))

        tiles = self.tiles
        self.tiles = [t for t in tiles if t.value is not tile.value]
        self.points(form, other, point)
        self.tiles = tiles

    def histogram(self) -> None:
        """Points count in a shared tile; sums of integers do not show the order."""
        slots = self.pick(self.extents)
        target = self.builder.emit(ir.Alloc("shared", (slots,), INT32, hint="h")).result
        self.builder.emit(ir.Fill(target, self.constant(INT32)))
        kind = self.pick(["add", "max", "min"])
        shape = self.shape()

        def point(at: list[ir.Value]) -> None:
            def do() -> None:
                value = self.expression(INT32, at, shape, 1)
                self.builder.emit(ir.Atomic(kind, value, target, [self.place(at, slots)]))

            self.guarded(at, shape, do)

        self.points(shape, None, point)
        self.tiles.append(Tile(target, True))

    def taken(self) -> None:
        """Each point adds to a slot of its own and keeps what was there before."""
        size = self.pick(self.extents)
        slots = self.builder.emit(ir.Alloc("shared", (size,), INT32, hint="h")).result
        self.builder.emit(ir.Fill(slots, self.constant(INT32)))
        target = self.tile_of((size,), INT32)

        def point(at: list[ir.Value]) -> None:
            def do() -> None:
                value = self.expression(INT32, at, (size,), 1)
                before = self.builder.emit(
                    ir.Atomic(self.pick(["add", "max"]), value, slots, at)
                ).result
                self.store(before, target.value, at)

            self.guarded(at, (size,), do)

        self.points((size,), target, point)
        self.tiles.append(Tile(slots, True))

    def scan_again(self) -> None:
        """Running maxima and sums of whole numbers, in place or not, of one to three dimensions."""
        kind = self.pick(["sum", "max"])
        dtype = self.pick(
            [INT32, ir.dtype("int64")] if kind == "sum" else [*FLOATS[:3], *INTEGERS[:2]]
        )
        shape = self.any_shape()
        source = self.tile_of(shape, dtype)
        target = source if self.maybe() else self.tile_of(shape, dtype)
        dim = self.number(0, len(shape) - 1)
        self.builder.emit(ir.Scan(kind, source.value, target.value, dim, self.maybe()))

    def bits(self) -> None:
        """Reductions of integers of every width."""
        kind = self.pick(["bitand", "bitor", "bitxor", "sum", "max", "min", "absmax", "abssum"])
        dtype = self.pick([*INTEGERS[:2], *INTEGERS[3:]])
        shape = self.any_shape()
        dim = self.number(0, len(shape) - 1)
        source = self.tile_of(shape, dtype)
        kept = tuple(1 if d == dim else s for d, s in enumerate(shape))
        rest = tuple(s for d, s in enumerate(shape) if d != dim) or (1,)
        target = self.tile_of(self.pick([kept, rest]), self.pick([dtype, dtype, INT32]))
        if target.value is not source.value:
            self.builder.emit(ir.Reduce(kind, source.value, target.value, dim, self.maybe()))

    def narrow(self) -> None:
        """A reduction of narrow floats whose order does not show."""
        dtype = self.pick(FLOATS[2:4])
        shape = (self.pick(self.extents), self.pick(self.extents))
        dim = self.number(0, 1)
        source = self.tile_of(shape, dtype)
        target = self.tile_of((shape[1 - dim],), self.pick([dtype, FLOATS[0]]))
        kind = self.pick(["max", "min", "absmax"])
        self.builder.emit(ir.Reduce(kind, source.value, target.value, dim, self.maybe()))

    def carry(self) -> None:
        """A variable of the block is changed, and then read by points or as an index."""
        if not self.variables:
            made = self.builder.emit(ir.Alloc("local", (), INT32, hint="c")).result
            self.store(self.constant(INT32), made, [])
            self.variables.append(made)
        variable = self.pick(self.variables)

        def do() -> None:
            now = self.builder.emit(ir.Load(variable, [])).result
            self.store(
                self.binary(self.pick(["add", "xor", "max"]), now, self.leaf(INT32, [], ())),
                variable,
                [],
            )

        self.guarded([], (), do)
        now = self.builder.emit(ir.Load(variable, [])).result
        small = self.binary("floormod", now, self.builder.constant(5, INT32))
        self.scalars.append(self.builder.emit(ir.Cast(small, ir.dtype("index"))).result)

    def some(self) -> None:
        """Only some points of a tile are visited: extents that the block or the launch gives."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype
        extents = [self.index(s) if self.number(0, 2) else self.place([], s + 1) for s in shape]
        tiles = self.tiles
        self.tiles = [t for t in tiles if t.value is not tile.value]

        def point(at: list[ir.Value]) -> None:
            self.guarded(
                at, shape, lambda: self.store(self.expression(dtype, at, shape), tile.value, at)
            )

        self.builder.emit(ir.Parallel(extents, self.inside(len(shape), point)))
        self.tiles = tiles

    def several(self) -> None:
        """Points write elements of two or three tiles, of different types, and read them again."""
        shape = (self.pick(self.extents), self.pick(self.extents))
        turned = [self.maybe() for _ in range(self.number(2, 3))]
        made: list[tuple[Tile, bool]] = []
        for each in turned:
            dtype = self.pick([*FLOATS, *INTEGERS])
            tile = self.tile_of(shape[::-1] if each else shape, dtype)
            if all(t.value is not tile.value for t, _ in made):
                made.append((tile, each))
        written = {t.value for t, _ in made}
        kept, self.tiles = self.tiles, [t for t in self.tiles if t.value not in written]

        def point(at: list[ir.Value]) -> None:
            for tile, each in made:
                place = at[::-1] if each else at
                dtype = tile.value.dtype

                def do(tile: Tile = tile, place: list[ir.Value] = place) -> None:
                    self.store(self.expression(tile.value.dtype, at, shape), tile.value, place)

                self.guarded(at, shape, do)
                if self.maybe():
                    seen = self.builder.emit(ir.Load(tile.value, place)).result
                    least = self.binary("max", seen, self.leaf(dtype, at, shape))
                    self.store(least, tile.value, place)

        extents = [self.index(s) for s in shape]
        self.builder.emit(ir.Parallel(extents, self.inside(2, point)))
        self.tiles = kept

    def flags(self) -> None:
        """Conditions are kept in a tile, counted, and decide what points write."""
        shape = (self.pick(self.extents), self.pick(self.extents))
        made = self.alloc(shape, ir.dtype("bool"))
        self.points(shape, None, lambda at: self.store(self.condition(at, shape), made, at))
        dim = self.number(0, 1)
        if self.maybe():
            count = self.tile_of((shape[1 - dim],), self.pick([INT32, FLOATS[0], INTEGERS[3]]))
            kind = self.pick(["sum", "max", "min"])
            self.builder.emit(ir.Reduce(kind, made, count.value, dim, self.maybe()))
        else:
            count = self.tile_of(shape, INT32)
            self.builder.emit(ir.Scan("sum", made, count.value, dim, self.maybe()))
        target = self.there()
        if target.shape != shape:
            return

        def point(at: list[ir.Value]) -> None:
            chosen = self.builder.emit(ir.Load(made, at)).result
            write = self.inside(
                0,
                lambda _: self.store(
                    self.expression(target.value.dtype, at, shape), target.value, at
                ),
            )
            self.builder.emit(ir.If(chosen, write, ir.Block()))

        self.points(shape, target, point)

    def private(self) -> None:
        """Each point has an array of its own, filled and read in loops."""
        tile = self.there()
        shape, dtype = tile.shape, tile.value.dtype
        size = self.number(1, 4)

        def point(at: list[ir.Value]) -> None:
            own = self.builder.emit(ir.Alloc("local", (size,), dtype, hint="a")).result
            kind = self.pick(["serial", "unroll"])
            bounds = [self.index(n) for n in (0, size, 1)]

            def first(args: list[ir.Value]) -> None:
                self.store(self.expression(dtype, [*at], shape, 1), own, args)

            def second(args: list[ir.Value]) -> None:
                kept = self.builder.emit(ir.Load(own, [self.index(0)])).result
                seen = self.builder.emit(ir.Load(own, args)).result
                self.store(self.binary(self.pick(["min", "max"]), kept, seen), own, [self.index(0)])

            self.builder.emit(self.counting(kind, bounds, self.inside(1, first)))
            self.builder.emit(self.counting(kind, bounds, self.inside(1, second)))
            result = self.builder.emit(ir.Load(own, [self.place(at, size)])).result
            self.guarded(at, shape, lambda: self.store(result, tile.value, at))

        self.points(shape, tile, point)

    def counted(self) -> None:
        """A loop whose bounds follow from the block or from data, left under any condition."""
        kind = self.pick(["serial", "pipelined", "pipelined"])
        start, stop = self.place([], 3), self.place([], 5)
        leave = self.pick([None, None, ir.Break, ir.Continue])

        def turn(args: list[ir.Value]) -> None:
            self.doubt()
            self.scalars.append(args[0])
            self.nested(args)
            if leave is not None:
                test = self.condition([], ())
                self.builder.emit(ir.If(test, ir.Block([], [leave()]), ir.Block()))
                self.nested(args)

        body = self.inside(1, turn)
        step = self.index(self.number(1, 2))
        stages = self.number(0, 4) if kind == "pipelined" else 0
        self.builder.emit(ir.For(kind, start, stop, step, body, stages))
        self.doubt()

    def while_data(self) -> None:
        """A `while` over an element of a tile that its body counts down."""
        self.doubt()
        space = self.pick(["shared", "fragment"])
        cell = self.builder.emit(ir.Alloc(space, (2,), INT32, hint="w")).result
        self.builder.emit(ir.Fill(cell, self.builder.constant(self.number(0, 3), INT32)))
        zero = self.index(0)

        def test(_: list[ir.Value]) -> None:
            now = self.builder.emit(ir.Load(cell, [zero])).result
            condition = ir.Compare("gt", now, self.builder.constant(0, INT32))
            self.builder.emit(ir.Yield([self.builder.emit(condition).result]))

        def turn(args: list[ir.Value]) -> None:
            self.nested(args)

            def point(at: list[ir.Value]) -> None:
                now = self.builder.emit(ir.Load(cell, at)).result
                self.store(self.binary("sub", now, self.builder.constant(1, INT32)), cell, at)

            self.builder.emit(ir.Parallel([self.index(2)], self.inside(1, point)))
            if self.maybe():
                # Never entered twice without the count: nothing leaves before it.
                self.nested(args)

        self.builder.emit(ir.While(self.inside(0, test), self.inside(0, turn)))
        self.doubt()
