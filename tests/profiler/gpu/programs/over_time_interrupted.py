"""Threads launch while sampling of counters over time is interrupted again and again.

Prints, as JSON, how many samples came, and what was not sampled.
"""

from __future__ import annotations

import json
import threading
import time

import torch

import tileprof


def launch(ended, launched, number):
    x = torch.zeros(1024, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while not ended.is_set():
            for _ in range(100):
                x.add_(1)
            launched[number] += 100
            stream.synchronize()


def main() -> None:
    torch.zeros(1, device="cuda")
    ended, launched = threading.Event(), [0] * 4
    with tileprof.profile(pm_sampling=200, metrics="tensor,occupancy") as session:
        threads = [threading.Thread(target=launch, args=(ended, launched, n)) for n in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            time.sleep(0.1)
            session.deactivate()
            time.sleep(0.01)
            session.activate()
        ended.set()
        for thread in threads:
            thread.join()
    profile = session.finalize()
    told = profile.tables.provenance
    print(
        json.dumps(
            {
                "rows": sum(len(each) for each in profile.tables.series),
                "launched": sum(launched),
                "failed": told.get("counters not sampled", ""),
                "told": told.get("counters over time", ""),
            }
        )
    )


main()
