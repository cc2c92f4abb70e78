"""Names of `tileprof.ir`, loaded when one is first used."""

from .builder import Builder
from .control import Break, Continue, For, If, Launch, Parallel, Record, Scope, While, Yield
from .core import OPS, Access, Block, OpBase, Value, users, walk, walk_inner_first
from .device import (
    AllReduce,
    AsyncCopy,
    AsyncGemm,
    Barrier,
    Commit,
    ConvertLayout,
    Fence,
    GridPosition,
    Mark,
    NextTile,
    Ring,
    RingAcquire,
    RingCommit,
    RingReceive,
    RingRelease,
    RingSend,
    RingWait,
    Roles,
    TurnPass,
    TurnStart,
    TurnWait,
    Wait,
)
from .effects import Effect, Queue
from .kernel import Kernel, Param, Site, State
from .memory import Alloc, Atomic, Load, Reinterpret, Store, View
from .parser import parse
from .plain import plain_kernel
from .printer import print_kernel
from .rewriter import Rule, clone, clone_block, rewrite
from .scalar import (
    Binary,
    Bitcast,
    Cast,
    Compare,
    Constant,
    Fma,
    ScalarOp,
    Select,
    Unary,
    constant_of,
)
from .tile import (
    TILE_OPS,
    Annotate,
    Assert,
    Copy,
    Fill,
    Gemm,
    Print,
    Reduce,
    Scan,
    TileAtomic,
    TileOp,
    squeeze,
)
from .types import DTYPES, BufferType, Dim, DType, Space, Type, dtype, index, promote
from .verifier import problems, verify

Op = (
    ScalarOp | Alloc | View | Reinterpret | Load | Store | Atomic
    | TileOp | Print | Assert | Annotate
    | Launch | For | Parallel | While | If | Yield | Break | Continue | Scope | Record
)  # fmt: skip
"""Any op of the author's program; a `match` over it that ends in `assert_never` is complete."""

DeviceOp = (
    AllReduce | AsyncCopy | AsyncGemm | Barrier | Commit | ConvertLayout | Fence | GridPosition
    | Mark | NextTile | Ring | RingAcquire | RingCommit | RingReceive | RingRelease | RingSend
    | RingWait | Roles | TurnPass | TurnStart | TurnWait | Wait
)  # fmt: skip
"""Ops that the lowering for a GPU adds."""

__all__ = [
    "DTYPES", "OPS", "TILE_OPS", "Access", "AllReduce", "Alloc", "Annotate", "Assert",
    "AsyncCopy", "AsyncGemm", "Atomic", "Barrier", "Binary", "Bitcast", "Block", "Break",
    "BufferType", "Builder", "Cast", "Commit", "Compare", "Constant", "Continue",
    "ConvertLayout", "Copy", "DType", "DeviceOp", "Dim", "Effect", "Fence", "Fill", "Fma",
    "For", "Gemm", "GridPosition", "If", "Kernel", "Launch", "Load", "Mark", "NextTile", "Op",
    "OpBase", "Parallel", "Param", "Print", "Queue", "Record", "Reduce", "Reinterpret", "Ring",
    "RingAcquire", "RingCommit", "RingReceive", "RingRelease", "RingSend", "RingWait", "Roles",
    "Rule", "ScalarOp", "Scan", "Scope", "Select", "Site", "Space", "State", "Store",
    "TileAtomic", "TileOp", "TurnPass", "TurnStart", "TurnWait", "Type", "Unary", "Value",
    "View", "Wait", "While", "Yield", "clone", "clone_block", "constant_of", "dtype", "index",
    "parse", "plain_kernel", "print_kernel", "problems", "promote", "rewrite", "squeeze",
    "users", "verify", "walk", "walk_inner_first",
]  # fmt: skip
