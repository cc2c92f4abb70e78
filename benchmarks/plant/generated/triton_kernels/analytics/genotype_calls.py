# ruff: noqa: ANN001, ANN201, D103
"""How sure genotypes of sites are, by what reads say there, each with its base's quality."""

import torch
import triton
import triton.language as tl


@triton.jit
def genotype_calls_kernel(
    base_ptr, qual_ptr, ref_ptr, conf_ptr, depth, n_sites, BLOCK: tl.constexpr
):
    site = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = site < n_sites
    ref = tl.load(ref_ptr + site, mask=inside, other=0)
    ll_rr = tl.zeros((BLOCK,), dtype=tl.float32)
    ll_ra = tl.zeros((BLOCK,), dtype=tl.float32)
    ll_aa = tl.zeros((BLOCK,), dtype=tl.float32)
    for read in range(depth):
        base = tl.load(base_ptr + read * n_sites + site, mask=inside, other=-1)
        qual = tl.load(qual_ptr + read * n_sites + site, mask=inside, other=30).to(tl.float32)
        # A quality is minus ten times the decimal logarithm of the chance of an error.
        log_err = qual * -0.23025851
        log_ok = tl.log(1.0 - tl.exp(log_err))
        same = base == ref
        seen = base >= 0
        ll_rr += tl.where(seen, tl.where(same, log_ok, log_err), 0.0)
        ll_aa += tl.where(seen, tl.where(same, log_err, log_ok), 0.0)
        ll_ra += tl.where(seen, -0.69314718, 0.0)
    best = tl.maximum(tl.maximum(ll_rr, ll_aa), ll_ra)
    worst = tl.minimum(tl.minimum(ll_rr, ll_aa), ll_ra)
    middle = ll_rr + ll_ra + ll_aa - best - worst
    tl.store(conf_ptr + site, best - middle, mask=inside)


def run(base, qual, ref):
    depth, n_sites = base.shape
    conf = torch.empty((n_sites,), device=base.device, dtype=torch.float32)
    BLOCK = 1024
    genotype_calls_kernel[(triton.cdiv(n_sites, BLOCK),)](
        base, qual, ref, conf, depth, n_sites, BLOCK, num_warps=4
    )
    return conf
