"""Attention over a paged cache in float64, from the formulas in cuda/kernels.h, and the cache's
layout (src/backend/kv_layout.h): [block, KV head] of [16 tokens, padded head_dim] elements, then
for 8-bit types 16 float32 scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from launchers import BF16, F8E4M3, I8, KV_BLOCK
from ptx_memory import POISON, Array
from ptx_scalar_ops import bf16_to_float, float_to_bf16
from reference import BF16_ROUNDING, EPS, Approx

LARGEST = {F8E4M3: 448.0, I8: 127.0}
KV_LANES = 16  # head_dim is padded to a multiple of it


def _f8e4m3_values() -> Array:
    """float64 of each byte."""
    bits = np.arange(256)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    normal = (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    values = np.where(exponent == 0, mantissa * 2.0**-9, normal)
    values[[0x7F, 0xFF]] = np.nan
    return np.where(bits >= 128, -values, values)


F8_VALUES = _f8e4m3_values()


@dataclass(frozen=True)
class Shape:
    group: int  # query heads of a KV head
    num_kv_heads: int
    head_dim: int
    kv_type: int
    has_norms: bool = True

    @property
    def num_heads(self) -> int:
        return self.group * self.num_kv_heads

    @property
    def all_heads(self) -> int:
        return self.num_heads + 2 * self.num_kv_heads

    @property
    def padded_dim(self) -> int:
        return (self.head_dim + KV_LANES - 1) // KV_LANES * KV_LANES

    @property
    def row_bytes(self) -> int:
        return self.padded_dim * (2 if self.kv_type == BF16 else 1)

    @property
    def scale_bytes(self) -> int:
        """Of a token."""
        return 0 if self.kv_type == BF16 else 4

    @property
    def head_bytes(self) -> int:
        return KV_BLOCK * (self.row_bytes + self.scale_bytes)

    @property
    def block_bytes(self) -> int:
        return self.num_kv_heads * self.head_bytes


class Plane:
    """The keys or the values of a cache."""

    def __init__(self, shape: Shape, num_blocks: int, content: Array | None = None) -> None:
        self.shape = shape
        if content is None:
            content = np.full(num_blocks * shape.block_bytes, POISON, np.uint8)
        self.bytes = content
        heads = content.reshape(num_blocks, shape.num_kv_heads, shape.head_bytes)
        rows = KV_BLOCK * shape.row_bytes
        self.rows = heads[..., :rows].reshape(*heads.shape[:2], KV_BLOCK, shape.row_bytes)
        self.scales = heads[..., rows:].reshape(*heads.shape[:2], KV_BLOCK, shape.scale_bytes)

    def store(self, slot: int, values: Array) -> None:
        """Rounds a token's float64 values [num_kv_heads, head_dim]."""
        block, offset = divmod(slot, KV_BLOCK)
        padded = np.zeros((len(values), self.shape.padded_dim))
        padded[:, : self.shape.head_dim] = values
        if self.shape.kv_type == BF16:
            bits = float_to_bf16(padded.astype(np.float32))
            self.rows[block, :, offset] = bits.view(np.uint8)
            return
        scale = (np.abs(values).max(1) / LARGEST[self.shape.kv_type]).astype(np.float32)
        scaled = padded / scale[:, None]
        if self.shape.kv_type == I8:
            elements = np.rint(scaled).astype(np.int8).view(np.uint8)
        else:
            distance = np.abs(scaled[..., None] - F8_VALUES)
            elements = np.nanargmin(distance, -1).astype(np.uint8)
        self.rows[block, :, offset] = elements
        self.scales[block, :, offset] = scale[:, None].view(np.uint8)

    def elements(self, slots: Array, kv_head: int) -> Array:
        """float64 [tokens, padded_dim], without scales."""
        rows = self.rows[slots // KV_BLOCK, kv_head, slots % KV_BLOCK]
        if self.shape.kv_type == BF16:
            return bf16_to_float(np.ascontiguousarray(rows).view(np.uint16)).astype(np.float64)
        if self.shape.kv_type == I8:
            return rows.view(np.int8).astype(np.float64)
        return F8_VALUES[rows]

    def token_scales(self, slots: Array, kv_head: int) -> Array:
        if self.shape.kv_type == BF16:
            return np.ones(len(slots))
        scales = self.scales[slots // KV_BLOCK, kv_head, slots % KV_BLOCK]
        return np.ascontiguousarray(scales).view(np.float32)[:, 0].astype(np.float64)


def norm_and_rotate(
    x: Array, norm: Array | None, eps: float, cos: Array, sin: Array
) -> tuple[Array, Array]:
    """A head [head_dim] (RMSNorm, then rotate_half by the position's row of the tables), and what
    its float32 errors are relative to."""
    y = x.astype(np.float64)
    if norm is not None:
        y = y / np.sqrt((y * y).mean() + np.float32(eps)) * norm
    a, b = np.split(y, 2)
    rotated = np.concatenate([a * cos - b * sin, b * cos + a * sin])
    magnitudes = np.abs(a * cos) + np.abs(b * sin), np.abs(b * cos) + np.abs(a * sin)
    return rotated, np.concatenate(magnitudes)


# Roundings of a normed and rotated value: of the sum of squares 13 in a row at most, 10 others.
HEAD_ROUNDINGS = 23


def rounded_head(value: Array, magnitudes: Array) -> Approx:
    """A query or key in BF16."""
    return Approx(value, BF16_ROUNDING * np.abs(value) + HEAD_ROUNDINGS * EPS * magnitudes)


def cached_head(shape: Shape, value: Array, magnitudes: Array, scale: float) -> Approx:
    """A key or value in the cache, times its scale.

    E4M3 rounds by 2^-4 of the value, or by half of its smallest step 2^-9; int8 by half a step.
    """
    if shape.kv_type == BF16:
        return rounded_head(value, magnitudes)
    rounding = np.full(value.shape, 0.5 * scale)
    if shape.kv_type == F8E4M3:
        rounding = np.maximum(2.0**-4 * np.abs(value), 2.0**-10 * scale)
    floats = (HEAD_ROUNDINGS + 4) * EPS * max(magnitudes.max(), np.abs(value).max())
    return Approx(value, rounding + floats)


def attend(
    query: Array, keys: Array, key_scales: Array, values: Array, value_scales: Array, exact: bool
) -> Approx:
    """softmax(query keys^T) values in BF16 for one rounded and scaled query [head_dim].

    exact: the query has the kernel's own bits; else an element near a border of BF16 may be rounded
    to the other side, off by 2^-8: one in thousands, so that two in one product are rare already.
    Scores are float32 sums of head_dim exact products in any order. An error e of them moves weight
    and sum by a factor of 1 + e each; 2^-8 is the weight's rounding to BF16, 1e-5 the errors of
    exponentials (2^-22 relative, plus EPS of an argument of up to 100) and of the sums.
    """
    products = query * keys
    scores = products.sum(1) * key_scales
    of_sum = len(query) * EPS * np.abs(products).sum(1)
    moved = 0 if exact else 2 * BF16_ROUNDING * np.abs(products).max(1)
    score_error = ((of_sum + moved) * np.abs(key_scales)).max()
    weights = np.exp(scores - scores.max())
    parts = (weights / weights.sum())[:, None] * values * value_scales[:, None]
    out = parts.sum(0)
    bound = (BF16_ROUNDING + 2 * score_error + 1e-5) * np.abs(parts).sum(0)
    return Approx(out, bound + BF16_ROUNDING * np.abs(out))
