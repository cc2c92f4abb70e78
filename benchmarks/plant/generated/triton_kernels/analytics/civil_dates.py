# ruff: noqa: ANN001, ANN201, D103
"""Years, months and days of days since 1970, in one number of eight digits."""

import torch
import triton
import triton.language as tl


@triton.jit
def civil_dates_kernel(day_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    since = tl.load(day_ptr + at, mask=at < N, other=0) + 719468
    era = since // 146097
    of_era = since - era * 146097
    of_year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    day = of_era - (365 * of_year + of_year // 4 - of_year // 100)
    march = (5 * day + 2) // 153
    date = day - (153 * march + 2) // 5 + 1
    month = tl.where(march < 10, march + 3, march - 9)
    year = of_year + era * 400 + tl.where(month <= 2, 1, 0)
    tl.store(out_ptr + at, year * 10000 + month * 100 + date, mask=at < N)


def run(day):
    N = day.shape[0]
    out = torch.empty_like(day)
    block = 1024
    civil_dates_kernel[(triton.cdiv(N, block),)](day, out, N, block, num_warps=4)
    return out
