"""A draw from a row of logits by sorting all of its ids, in whole numbers, from the rules in
src/backend/sampling_rule.h: it has one result, the kernel's must be the same."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptx_memory import Array

WEIGHT_BITS = 40
NO_FAULT, NOT_A_NUMBER, INFINITE, ALL_MINUS_INFINITY = range(4)  # LogitFault
F32 = np.float32
LARGEST = np.finfo(F32).max


@dataclass
class SampleRow:
    """A row's parameters, in the units of a draw."""

    octaves: float = 1.5  # log2(e) / temperature, 0 = arg-max
    top_k: int = 0
    top_p: float = 0  # 0 = off
    min_p: float = 0
    seed: int = 7
    counter: int = 3
    num_ids: int = 0  # 0 = no row
    penalties: tuple[float, float, float] = (1, 0, 0)  # repetition, presence, frequency
    counts: dict[int, int] = field(default_factory=dict)  # of ids that penalties change
    pending: int = -1  # an id that counts once more

    @property
    def top_p_units(self) -> int:
        return int(self.top_p * 2**64)

    @property
    def least_weight(self) -> int:
        return max(1, int(np.ceil(self.min_p * 2**WEIGHT_BITS)))


def weights(logits: Array, largest: np.float32, octaves: float) -> list[int]:
    """2^((logit - largest) octaves) in units of 2^-40."""
    x = np.maximum((logits - largest) * F32(octaves), F32(-63))
    below = np.floor(x)
    f = x - below
    p = np.full(len(x), float.fromhex("0x1.b5c5ccp-13"), F32)
    for c in (
        "0x1.4c7492p-10",
        "0x1.3c4c22p-7",
        "0x1.c69fb8p-5",
        "0x1.ebfc36p-3",
        "0x1.62e43p-1",
        "0x1p0",
    ):
        p = p * f + F32(float.fromhex(c))
    fractions = (p.astype(np.float64) * 2**23).astype(np.int64)
    shifts = (-below).astype(np.int64)
    return [(int(a) << WEIGHT_BITS - 23) >> int(s) for a, s in zip(fractions, shifts, strict=True)]


def random_53(seed: int, counter: int) -> int:
    """Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011)."""
    low = 2**32 - 1
    c = [counter & low, counter >> 32, 0, 0]
    key = [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ key[0], b & low, a >> 32 ^ c[3] ^ key[1], a & low]
        key = [key[0] + 0x9E3779B9 & low, key[1] + 0xBB67AE85 & low]
    return (c[0] << 32 | c[1]) >> 11


def penalise(logits: Array, row: SampleRow) -> Array:
    """float32 at every step; minus infinity stays."""
    repetition, presence, frequency = map(F32, row.penalties)
    out = logits.copy()
    counts = dict(row.counts)
    if row.pending >= 0:
        counts[row.pending] = counts.get(row.pending, 0) + 1
    for i, count in counts.items():
        x = out[i]
        if i >= row.num_ids or not x > -np.inf:
            continue
        x = np.clip(x / repetition if x > 0 else x * repetition, -LARGEST, LARGEST)
        if count:
            less = np.clip(presence + frequency * F32(count), -LARGEST, LARGEST)
            x = np.clip(x - less, -LARGEST, LARGEST)
        out[i] = x
    return out


def sample(logits: Array, row: SampleRow) -> tuple[int, int]:
    """(id, fault); with a fault the id of the bad logit."""
    if row.num_ids == 0:
        return 0, NO_FAULT
    bad = np.flatnonzero(~(logits < np.inf))
    if len(bad):
        return int(bad[0]), INFINITE if logits[bad[0]] == np.inf else NOT_A_NUMBER
    logits = penalise(logits, row)[: row.num_ids]
    if logits.max() == -np.inf:
        return 0, ALL_MINUS_INFINITY
    order = np.lexsort((np.arange(len(logits)), -logits))  # the most probable first
    if row.octaves == 0:
        return int(order[0]), NO_FAULT
    if row.top_k > 0:
        order = order[: row.top_k]
    w = weights(logits[order], logits.max(), row.octaves)
    kept = {}
    total, before = sum(w), 0
    wanted = -(-row.top_p_units * total // 2**64)
    for i, weight in zip(order, w, strict=True):
        if (not row.top_p or before < wanted) and weight >= row.least_weight:
            kept[int(i)] = weight
        before += weight
    target = sum(kept.values()) * random_53(row.seed, row.counter) >> 53
    for i in sorted(kept):
        target -= kept[i]
        if target < 0:
            return i, NO_FAULT
    raise AssertionError("unreachable: the target is less than the sum")
