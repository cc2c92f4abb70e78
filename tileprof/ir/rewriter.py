"""Rebuild a kernel op by op: what every pass stands on.

    rule(op, builder) -> None             keep the op
                      -> [values]         the op goes; these stand for its results
                                          (the rule may emit other ops through `builder` before)

Operands are already the new values and regions are already rebuilt when the rule sees an op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .builder import Builder
from .control import Launch, Scope
from .core import Block, OpBase, Value
from .kernel import Kernel

Rule = Callable[[OpBase, Builder], Sequence[Value] | None]
PairRule = Callable[[OpBase, OpBase, Builder], Sequence[Value] | None]
"""A `Rule` that also sees the op as it was before its operands were replaced."""
_Copier = Callable[[OpBase, Callable[[Value, Value], Value]], OpBase]
_COPIERS: dict[type[OpBase], _Copier] = {}
"""Functions of `_copier` by the class of the op, made when the first op of a class is copied."""


def rewrite(kernel: Kernel, rule: Rule) -> Kernel:
    """Return the kernel with `rule` applied to every op, inner ops before the op that holds
    them."""
    return kernel.with_body(rewrite_block(kernel.body, {}, rule))


def clone_block(block: Block, mapping: dict[Value, Value]) -> Block:
    """Return a copy of a block in which values are replaced by `mapping`, which is extended."""
    return rewrite_block(block, mapping, lambda op, builder: None)


def clone(op: OpBase, mapping: Mapping[Value, Value], regions: dict[str, Block]) -> OpBase:
    """Return a copy of one op with operands replaced and the given regions; results are new
    values."""
    copier = _COPIERS.get(type(op)) or _copier(type(op))
    made = copier(op, mapping.get)
    for name, block in regions.items():
        setattr(made, name, block)
    if not op.results and not op.SPEC.regions:
        made.results = ()
        return made
    made.results = tuple([Value(type, op.hint, made) for type in made.result_types()])
    # A value may have been named after its op was built; the results of both are in one order.
    for new, old in zip(made.results, op.results):
        new.name = new.name or old.name
    return made


def _copier(kind: type[OpBase]) -> _Copier:
    """Return the function that copies an op's fields, with operands replaced by `get(v, v)`.

    It leaves regions and results out.  A loop over the names of fields would take three times as
    long as these assignments, and much of a pass's time goes into copies.
    """
    lines = [f"made.{name} = op.{name}" for name in kind.SPEC.kept]
    for name, many in kind.SPEC.operands:
        new = "[get(v, v) for v in held]" if many else "get(held, held)"
        lines.append(f"held = op.{name}; made.{name} = {new}")
    text = "\n ".join(["def copied(op, get):", "made = new(kind)", *lines, "return made"])
    names: dict[str, Any] = {"new": object.__new__, "kind": kind}
    exec(text, names)
    found: _Copier = names["copied"]
    _COPIERS[kind] = found
    return found


def opened(block: Block, mapping: dict[Value, Value]) -> Block:
    """Return an empty block in the place of another; `mapping` is extended by its arguments."""
    made = Block([Value(a.type, a.name) for a in block.args])
    mapping.update(zip(block.args, made.args))
    return made


def rewrite_block(block: Block, mapping: dict[Value, Value], rule: Rule) -> Block:
    """Return a copy of a block with `rule` applied to every op; values from outside are replaced by
    `mapping`, which is extended.
    """
    return rebuilt(block, mapping, lambda op, new, builder: rule(new, builder))


def rebuilt(block: Block, mapping: dict[Value, Value], rule: PairRule) -> Block:
    """Apply `rewrite_block` with a rule that looks its decisions up by the ops of `block`."""
    made = opened(block, mapping)
    builder = Builder(made)
    for op in block.ops:
        names = op.SPEC.regions
        regions = {n: rebuilt(getattr(op, n), mapping, rule) for n in names} if names else {}
        new = clone(op, mapping, regions)
        builder.span = op.span
        replaced = rule(op, new, builder)
        if replaced is None:
            builder.emit(new)
            replaced = new.results
        if op.results or replaced:
            mapping.update(zip(op.results, replaced, strict=True))
    return made


def inline_scopes(op: OpBase, builder: Builder) -> list[Value] | None:
    """Put the ops of scopes in their place; a `Rule`."""
    if not isinstance(op, Scope):
        return None
    builder.block.ops += op.body.ops
    return []


def per_launch(kernel: Kernel, change: Callable[[Launch], Launch]) -> Kernel:
    """Return the kernel with every launch changed; what the host computes stays."""
    ops = [change(op) if isinstance(op, Launch) else op for op in kernel.body.ops]
    return kernel.with_body(Block(kernel.body.args, ops))


def with_rule(launch: Launch, rule: Rule) -> Launch:
    """Return the launch with a rule applied to its body."""
    return with_originals(launch, lambda op, new, builder: rule(new, builder))


def with_originals(
    launch: Launch, rule: PairRule, mapping: dict[Value, Value] | None = None
) -> Launch:
    """Return the launch with a rule applied that looks its decisions up by the ops of `launch`;
    `mapping` as in `rewrite_block`."""
    return launch.with_body(rebuilt(launch.body, {} if mapping is None else mapping, rule))
