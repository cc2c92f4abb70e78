"""Values that an operator's `backward` gets: the gradients of results, then others by name.

In: the schemas of both and the names of the results.  Out: `Saved`, which takes these values from a
call's arguments and results and gives them back as the arguments of `backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from tileprof.errors import Location, UsageError


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operator."""

    name: str
    is_tensor: bool
    has_default: bool
    default: Any


@dataclass(frozen=True, slots=True)
class Saved:
    """The values that `backward` gets, by their places."""

    gradients: int
    """Number of results that have a gradient: the first ones."""
    tensors: tuple[int, ...]
    """Tensors among the arguments; `~n` is result `n`."""
    values: tuple[int, ...]
    """Arguments that are no tensors."""
    order: tuple[int, ...]
    """For each argument of `backward` after the gradients its place in `tensors`, then `values`."""

    @classmethod
    def plan(
        cls,
        parameters: Sequence[Parameter],
        results: Sequence[str],
        backward: Sequence[Parameter],
        returned: int,
        name: str,
        location: Location | None,
    ) -> Saved:
        """Find the values that the parameters of `backward` name; `returned` results have
        gradients at most."""
        places = {r: ~at for at, r in enumerate(results) if r}
        places |= {p.name: at for at, p in enumerate(parameters)}
        count = 0
        while count < len(backward) and backward[count].name not in places:
            if backward[count].has_default:
                break
            count += 1
        if not 1 <= count <= returned:
            raise UsageError(
                f"the backward of `{name}` takes {count} gradients, and it has {returned} "
                f"result{'s' * (returned != 1)}",
                location=location,
                hint="Its first parameters are the gradients of results, one for each; those "
                f"behind have the names of what it needs: {', '.join(places)}.",
            )
        tensors: list[int] = []
        values: list[int] = []
        order: list[tuple[bool, int]] = []
        for param in backward[count:]:
            if param.name not in places:
                if param.has_default:
                    # Whatever follows has a default too, or a name that Python would refuse here.
                    break
                raise UsageError(
                    f"the backward of `{name}` takes `{param.name}`, which is neither an argument "
                    "nor a result",
                    location=location,
                    hint=f"It can have: {', '.join(places)}. Results have the names that stand in "
                    "the `return` of the function.",
                )
            at = places[param.name]
            held = tensors if at < 0 or parameters[at].is_tensor else values
            if param.is_tensor != (held is tensors):
                raise UsageError(
                    f"`{param.name}` is a tensor on one side of `{name}` and its backward only",
                    location=location,
                    hint="Annotate it alike on both sides.",
                )
            order.append((held is tensors, len(held)))
            held.append(at)
        whole = tuple(n if is_tensor else len(tensors) + n for is_tensor, n in order)
        return cls(count, tuple(tensors), tuple(values), whole)

    def save(self, context: Any, arguments: Sequence[Any], results: Sequence[Any]) -> None:
        """Keep the values of a call in an autograd context."""
        context.save_for_backward(
            *[arguments[at] if at >= 0 else results[~at] for at in self.tensors]
        )
        if self.values:
            context.kept_values = [arguments[at] for at in self.values]

    def getters(self, count: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """Return what takes the tensors from a tuple of `count` arguments and the results, and the
        values from one of the arguments: `save` at the speed of C."""
        tensors = [at if at >= 0 else count + ~at for at in self.tensors]
        return _getter(tensors), _getter(self.values)

    def giver(self) -> Callable[[Any, Sequence[Any]], tuple[Any, ...]]:
        """Return a function from an autograd context and gradients to the arguments of
        `backward`."""
        take, count, has_values = _getter(self.order), self.gradients, bool(self.values)

        def arguments(context: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
            held = context.saved_tensors
            if has_values:
                held = (*held, *context.kept_values)
            if count == 1:
                return (gradients[0].contiguous(), *take(held))
            return (*[g.contiguous() for g in gradients[:count]], *take(held))

        return arguments


def _getter(places: Sequence[int]) -> Callable[[Any], Any]:
    match list(places):
        case []:
            return lambda _: ()
        case [only]:
            return itemgetter(slice(only, only + 1))
        case _:
            return itemgetter(*places)
