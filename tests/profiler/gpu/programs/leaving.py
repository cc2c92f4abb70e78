"""Launches, and an end of the asked kind; the kernels are done, the profile is not written yet.

leaving.py exit|signal|exception|return
"""

from __future__ import annotations

import os
import signal
import sys

import torch


def main() -> None:
    x = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    for _ in range(1000):
        x.add_(1)
    torch.cuda.synchronize()
    print("ready", flush=True)
    match sys.argv[1]:
        case "exit":
            os._exit(7)
        case "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        case "exception":
            raise ValueError("of the program")


if __name__ == "__main__":
    main()
