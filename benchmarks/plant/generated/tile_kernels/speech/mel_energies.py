# ruff: noqa: ANN001, ANN201, D103
"""Log energies of mel bands: squared magnitudes of a spectrogram times a filter bank."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def mel_energies(Spec, Bank, block_M: int = 64, block_K: int = 64):
    frames, bins, mels = T.const("frames, bins, mels")
    Spec: T.Tensor((2, frames, bins), T.float16)
    Bank: T.Tensor((bins, mels), T.bfloat16)
    LogMel = T.empty((frames, mels), T.float32)

    with T.Kernel(T.ceildiv(frames, block_M), threads=128) as pid:
        re_s = T.alloc_shared((block_M, block_K), T.float16)
        im_s = T.alloc_shared((block_M, block_K), T.float16)
        bank_s = T.alloc_shared((block_K, mels), T.bfloat16)
        power = T.alloc_fragment((block_M, block_K), T.bfloat16)
        acc = T.alloc_fragment((block_M, mels), T.float32)

        T.clear(acc)
        for ko in T.Pipelined(T.ceildiv(bins, block_K), num_stages=2):
            T.copy(Spec[0, pid * block_M, ko * block_K], re_s)
            T.copy(Spec[1, pid * block_M, ko * block_K], im_s)
            T.copy(Bank[ko * block_K, 0], bank_s)
            for m, k in T.Parallel(block_M, block_K):
                re, im = T.cast(re_s[m, k], T.float32), T.cast(im_s[m, k], T.float32)
                power[m, k] = re * re + im * im
            T.gemm(power, bank_s, acc)
        for m, n in T.Parallel(block_M, mels):
            acc[m, n] = T.log(T.max(acc[m, n], 1e-5))
        T.copy(acc, LogMel[pid * block_M, 0])
    return LogMel
