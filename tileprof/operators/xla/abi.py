"""XLA's foreign function interface in ctypes: the structures of its C API that a handler reads.

The statement is `xla/ffi/api/c_api.h`, which jaxlib installs (`jax.ffi.include_dir()`); read here
at version 0.3 of the API, that of jaxlib 0.10.2, on 2026-11-28.  Every structure begins with the
size that its writer knows; fields are only added, at the end, while the major version stays.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any

MAJOR, MINOR = 0, 3
"""The version that is declared here."""
METADATA = 1
"""Type of the extension with which XLA asks what a handler is."""
EXECUTE = 3
"""The stage in which a handler computes."""
STRING = 4
"""Type of an attribute that is a text."""
BUFFER = 1
"""Type of an argument, and of a result, that is an array."""
INVALID_ARGUMENT, INTERNAL = 3, 13
"""Codes of errors."""


class Extension(ctypes.Structure):
    """Head of an extension of a structure."""

    type: int

    _fields_ = (("struct_size", c_size_t), ("type", c_int), ("next", c_void_p))


class Version(ctypes.Structure):
    """A version of the API."""

    major: int
    minor: int

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int),
    )  # fmt: skip


class Metadata(ctypes.Structure):
    """What a handler says of itself."""

    version: Version
    traits: int

    _fields_ = (
        ("struct_size", c_size_t), ("version", Version), ("traits", c_uint32), ("state", c_int64),
    )  # fmt: skip


class MetadataExtension(ctypes.Structure):
    """The question what a handler is."""

    metadata: Any

    _fields_ = (("base", Extension), ("metadata", ctypes.POINTER(Metadata)))


class Buffer(ctypes.Structure):
    """An array: its memory is row-major and on the device that runs the program."""

    data: int | None
    rank: int
    dims: Any

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("dtype", c_int), ("data", c_void_p),
        ("rank", c_int64), ("dims", ctypes.POINTER(c_int64)),
    )  # fmt: skip


class Span(ctypes.Structure):
    """A text without an end mark."""

    begin: int | None
    length: int

    _fields_ = (("begin", c_void_p), ("length", c_size_t))


class Arrays(ctypes.Structure):
    """Arguments, or results."""

    size: int
    types: Any
    held: Any

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64),
        ("types", ctypes.POINTER(c_int)), ("held", ctypes.POINTER(c_void_p)),
    )  # fmt: skip


class Attributes(ctypes.Structure):
    """Named constants of a call, sorted by name."""

    size: int
    types: Any
    names: Any
    held: Any

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64),
        ("types", ctypes.POINTER(c_int)), ("names", ctypes.POINTER(ctypes.POINTER(Span))),
        ("held", ctypes.POINTER(c_void_p)),
    )  # fmt: skip


class Api(ctypes.Structure):
    """XLA's functions, each from a structure of arguments to an error, which is null for none."""

    struct_size: int
    create_error: int
    get_stream: int
    get_device: int | None

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("version", Version),
        ("internal", c_void_p), ("create_error", c_void_p), ("get_message", c_void_p),
        ("destroy_error", c_void_p), ("register", c_void_p), ("get_stream", c_void_p),
        ("register_type", c_void_p), ("get_context", c_void_p), ("set_state", c_void_p),
        ("get_state", c_void_p), ("allocate", c_void_p), ("free", c_void_p),
        ("schedule", c_void_p), ("count_threads", c_void_p), ("create_future", c_void_p),
        ("complete_future", c_void_p), ("fail_future", c_void_p), ("get_run", c_void_p),
        ("get_device", c_void_p),
    )  # fmt: skip


class Frame(ctypes.Structure):
    """A call of a handler."""

    struct_size: int
    extension: int | None
    api: Any
    context: int | None
    stage: int
    arguments: Arrays
    results: Arrays
    attributes: Attributes

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("api", ctypes.POINTER(Api)),
        ("context", c_void_p), ("stage", c_int), ("arguments", Arrays), ("results", Arrays),
        ("attributes", Attributes),
    )  # fmt: skip


class CreateError(ctypes.Structure):
    """Arguments of `create_error`."""

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("message", ctypes.c_char_p),
        ("code", c_int),
    )  # fmt: skip


class GetStream(ctypes.Structure):
    """Arguments of `get_stream`."""

    stream: int | None

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p),
        ("stream", c_void_p),
    )  # fmt: skip


class GetDevice(ctypes.Structure):
    """Arguments of `get_device`."""

    number: int

    _fields_ = (
        ("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p),
        ("number", c_int32),
    )  # fmt: skip


Handler = ctypes.CFUNCTYPE(c_void_p, ctypes.POINTER(Frame))
"""A handler; it returns an error, or null."""
Function = ctypes.CFUNCTYPE(c_void_p, c_void_p)
"""A function of `Api`."""
