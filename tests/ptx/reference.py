"""What kernels are compared with: float64, from the formulas in cuda/kernels.h, each value with the
bound that roundings allow.

Rounding to float32 is off by up to EPS / 2 of the value, to BF16 by up to BF16_ROUNDING of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptx_memory import Array
from ptx_scalar_ops import bf16_to_float, float_to_bf16

EPS = 2.0**-23
BF16_ROUNDING = 2.0**-8


@dataclass
class Approx:
    """float64 values that may be off by `bound`."""

    value: Array
    bound: Array


def random_floats(shape: int | tuple[int, ...], seed: int, scale: float = 1) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def random_bf16(shape: int | tuple[int, ...], seed: int, scale: float = 1) -> Array:
    """Bits, uint16."""
    return float_to_bf16(random_floats(shape, seed, scale))


def check(what: str, actual: Array, expected: Approx) -> None:
    """actual: float32, or bits of BF16."""
    if actual.dtype == np.uint16:
        actual = bf16_to_float(actual)
    actual = actual.reshape(expected.value.shape).astype(np.float64)
    with np.errstate(all="ignore"):
        wrong = ~(np.abs(actual - expected.value) <= expected.bound)
        wrong &= ~(np.isnan(actual) & np.isnan(expected.value))
        wrong &= ~(np.isinf(expected.value) & (actual == expected.value))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.size} wrong; at {at} {actual[at]} instead of "
            f"{expected.value[at]} +- {expected.bound[at]:.3g}"
        )


def check_equal(what: str, actual: Array, expected: Array) -> None:
    if not np.array_equal(actual.reshape(-1), expected.reshape(-1)):
        at = int(np.flatnonzero(actual.reshape(-1) != expected.reshape(-1))[0])
        raise AssertionError(
            f"{what}: element {at} is {actual.reshape(-1)[at]} instead of "
            f"{expected.reshape(-1)[at]}"
        )


def rms_norm(x: Array, weight: Array, eps: float) -> Approx:
    """x [rows, width] / sqrt(mean(x^2) + eps) * weight, rounded to BF16.

    The sum of squares takes width / 256 + 13 roundings in a row at most, whose error the root
    halves; 6 more follow.
    """
    x = x.astype(np.float64)
    width = x.shape[1]
    y = x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(eps)) * weight
    return Approx(y, np.abs(y) * (BF16_ROUNDING + (width // 256 + 20) * EPS))


def silu_mul(gate: Approx, up: Approx) -> Approx:
    """silu(gate) up rounded to BF16. silu's slope is at most 1.1, its relative error on the device
    (3 + |gate|) EPS and 3 roundings more; below -87 it may be 0 in place of 2^-119."""
    with np.errstate(all="ignore"):
        s = gate.value / (1 + np.exp(-gate.value))
        value = s * up.value
        bound = (
            1.1 * gate.bound * (np.abs(up.value) + up.bound)
            + np.abs(s) * up.bound
            + np.abs(value) * (8 + np.abs(gate.value)) * EPS
        )
        vanished = np.where(gate.value < -87, 2.0**-119, 0) * (np.abs(up.value) + up.bound)
        bound = bound + BF16_ROUNDING * (np.abs(value) + bound) + 2.0**-126 + vanished
    return Approx(value, bound)


def linear(x: Array, weight: Array, addend: Array | float = 0) -> Approx:
    """x [m, k] W [n, k]^T + addend of BF16 bits, float32 sums.

    Products are exact. A tensor core adds at least 8 at a time; sums over k / 8 such steps, warps,
    slices, bias and residual are k / 8 + 12 roundings, none larger than EPS of all magnitudes.
    """
    x, weight = (bf16_to_float(a).astype(np.float64) for a in (x, weight))
    value = x @ weight.T + addend
    magnitudes = np.abs(x) @ np.abs(weight).T + np.abs(addend)
    return Approx(value, magnitudes * EPS * (x.shape[1] // 8 + 12))
