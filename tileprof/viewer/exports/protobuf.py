"""Protobuf's wire format, as far as a trace needs it.

In: numbers of fields, and values.  Out: bytes of a field.
"""

from __future__ import annotations

from tileprof.viewer.text import encodable


def varint(value: int) -> bytes:
    """Return a 64-bit number, 7 bits a byte, lowest first; negatives as two's complement."""
    digits = bytearray()
    value &= 0xFFFFFFFFFFFFFFFF
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def tag(field: int, kind: int) -> bytes:
    """Return what precedes a value: field and kind (0 number, 1 8 bytes, 2 with a length)."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """Return a number of 64 bits."""
    return tag(field, 0) + varint(value)


def message(field: int, content: bytes) -> bytes:
    """Return a message within a message."""
    return tag(field, 2) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """Return a text field."""
    return message(field, encodable(content).encode())
