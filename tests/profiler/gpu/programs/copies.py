"""Copies in every direction, of known sizes, and fills."""

from __future__ import annotations

import ctypes

import torch

MB = 1 << 20


def main() -> None:
    pageable = torch.ones(MB, dtype=torch.uint8)
    pinned = torch.ones(2 * MB, dtype=torch.uint8).pin_memory()
    device = torch.empty(4 * MB, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        device[:MB].copy_(pageable)
    for _ in range(2):
        device[: 2 * MB].copy_(pinned, non_blocking=True)
    pageable.copy_(device[:MB])
    for _ in range(5):
        pinned.copy_(device[: 2 * MB], non_blocking=True)
    other = torch.empty_like(device)
    for _ in range(7):
        other.copy_(device)
    # As PyTorch fills with kernels, the driver is asked.
    driver = ctypes.CDLL("libcuda.so.1")
    for _ in range(4):
        where = ctypes.c_uint64(device.data_ptr())
        assert driver.cuMemsetD8_v2(where, ctypes.c_ubyte(0), ctypes.c_size_t(3 * MB)) == 0
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
