"""One choice of a kernel's tunable arguments and lowering controls, as text and as JSON.

    block_M=128 block_N=256 stages=4 cluster:2        two kinds: arguments, and controls with `:`

A configuration that came from a file or from a caller is checked here before anything runs with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tileprof.compiler.cuda.controls import Controls, controls_of
from tileprof.errors import UsageError

Value: TypeAlias = "bool | int | float | str | None"
_PLAIN = (bool, int, float, str, type(None))
CONTROLS = "controls"
"""Key under which a configuration given as a dict has its lowering controls."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values of tunable arguments, and lowering controls that differ from the default."""

    arguments: tuple[tuple[str, Value], ...] = ()
    controls: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(
        cls, arguments: Mapping[str, Any], controls: Mapping[str, Any] | None = None
    ) -> Configuration:
        """Return a configuration; UsageError for a value that is no number or text, or a control
        that does not exist."""
        checked = controls_of(controls).changed() if controls else {}
        for name, value in {**arguments, **checked}.items():
            if not isinstance(value, _PLAIN):
                raise UsageError(
                    f"a configuration cannot set `{name}` to {value!r:.40}",
                    hint="Values are numbers, texts, booleans and None.",
                )
        held: Any = tuple(checked.items())
        return cls(tuple(arguments.items()), held)

    @property
    def named(self) -> dict[str, Value]:
        """Arguments by name."""
        return dict(self.arguments)

    @property
    def lowering(self) -> Controls:
        """Lowering controls."""
        return self.over(Controls())

    def over(self, own: Controls) -> Controls:
        """Return lowering controls of an author with these in their place."""
        held: dict[str, Any] = {**own.changed(), **dict(self.controls)}
        return Controls(**held)

    def replaced(self, name: str, value: Value) -> Configuration:
        """Return this configuration with another value of an argument."""
        return Configuration(tuple((n, value if n == name else v) for n, v in self.arguments),
                             self.controls)  # fmt: skip

    def controlled(self, name: str, value: Value) -> Configuration:
        """Return this configuration with another value of a control; None is the default."""
        held = {**dict(self.controls), name: value}
        left = tuple(sorted((n, v) for n, v in held.items() if v is not None))
        return Configuration(self.arguments, left)

    def __str__(self) -> str:
        parts = [f"{n}={v}" for n, v in self.arguments]
        parts += [f"{n}:{str(v).lower() if isinstance(v, bool) else v}" for n, v in self.controls]
        return " ".join(parts) or "as written"

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        made: dict[str, Any] = dict(self.arguments)
        if self.controls:
            made[CONTROLS] = dict(self.controls)
        return made

    @classmethod
    def from_json(cls, held: Any) -> Configuration:
        """Return the reverse of `as_json`, which is also how an author writes one; UsageError for
        anything else."""
        if not isinstance(held, Mapping) or not all(isinstance(name, str) for name in held):
            raise UsageError(
                f"a configuration cannot be {held!r:.60}",
                hint='It is a dict of arguments, as {"block_M": 128, "stages": 3}.',
            )
        arguments = {n: v for n, v in held.items() if n != CONTROLS}
        return cls.of(arguments, held.get(CONTROLS))
