"""Cases of the matrix products (gemm.cu, linear_small.cu): both tiles, every variant <tiles of x,
tiles of W, normed>, k in one slice and in two, ragged sizes, all epilogues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import launchers
import reference
from launchers import ADD, SILU_MUL, STORE, Device, SmallLinear
from ptx_memory import Array, Buffer
from ptx_scalar_ops import bf16_to_float, float_to_bf16

EPILOGUES = (STORE, ADD, SILU_MUL)
NORM_EPS = 1e-6


@dataclass
class Problem:
    """x [m, k] and W [n, k] in bits of BF16."""

    m: int
    n: int
    k: int
    has_bias: bool = True

    def __post_init__(self) -> None:
        self.x = reference.random_bf16((self.m, self.k), 1)
        self.weight = reference.random_bf16((self.n, self.k), 2)
        self.bias = reference.random_floats(self.n, 3) if self.has_bias else None
        self.residual = reference.random_floats((self.m, self.n), 4, 10)

    def weights(self, device: Device) -> dict:
        bias = device.input("bias", self.bias, early=True) if self.has_bias else None
        weight = device.input("weight", self.weight, early=True)
        return {"weight": weight, "bias": bias, "n": self.n, "k": self.k}

    def out(self, device: Device, epilogue: int) -> Buffer:
        size = self.m * self.n * 4
        return {
            STORE: lambda: device.output("out", size),
            ADD: lambda: device.output("out", self.residual),
            SILU_MUL: lambda: device.output("out", size // 4),
        }[epilogue]()

    def expected(self, epilogue: int, x: Array | None = None) -> reference.Approx:
        bias = self.bias if self.has_bias else np.zeros(self.n)
        addend = bias + self.residual if epilogue == ADD else bias
        y = reference.linear(self.x if x is None else x, self.weight, addend)
        if epilogue != SILU_MUL:
            return y
        half = self.n // 2
        gate = reference.Approx(y.value[:, :half], y.bound[:, :half])
        return reference.silu_mul(gate, reference.Approx(y.value[:, half:], y.bound[:, half:]))


def results(out: Buffer, epilogue: int) -> Array:
    return out.array("u2" if epilogue == SILU_MUL else "f4")


def gemm(tile: int, shapes: list[tuple[int, int, int]]) -> Callable[[Device], None]:
    def run(device: Device) -> None:
        for i, (m, n, k) in enumerate(shapes):
            p = Problem(m, n, k, has_bias=i % 2 == 0)
            epilogue = (STORE, ADD)[i // 2 % 2]
            out = p.out(device, epilogue)
            x = device.input("x", p.x)
            launchers.gemm(device, tile, out, epilogue, x, m, p.weights(device))
            reference.check(f"{m} x {n} x {k}", out.array("f4"), p.expected(epilogue))

    run.__name__ = f"gemm_{tile}"
    return run


def launch_small(device: Device, p: Problem, epilogue: int, **options: object) -> Array:
    """Returns the outputs; the counters must be 0 again."""
    size = launchers.small_linear_scratch_bytes(p.n, p.k)
    scratch = device.output("scratch", size) if size else None
    if scratch:
        scratch.bytes[: launchers.ARRIVALS_BYTES] = 0
    out = p.out(device, epilogue)
    weights = p.weights(device)
    SmallLinear(out, epilogue, p.m, weights, scratch, **options).launch(device)
    if scratch and scratch.bytes[: launchers.ARRIVALS_BYTES].any():
        raise AssertionError("the counters aren't 0 again")
    return results(out, epilogue)


def small_linear(
    name: str, shapes: list[tuple[int, int, int]], epilogues: tuple, **options: object
) -> Callable[[Device], None]:
    def run(device: Device) -> None:
        for i, (m, n, k) in enumerate(shapes):
            p = Problem(m, n, k, has_bias=i % 2 == 0)
            x = device.input("x", p.x)
            for epilogue in epilogues:
                y = launch_small(device, p, epilogue, x=x, **options)
                what = f"{m} x {n} x {k}, epilogue {epilogue}"
                reference.check(what, y, p.expected(epilogue))

    run.__name__ = f"small_linear_{name}"
    return run


def separate_norm(device: Device, normed: dict, m: int, k: int) -> Buffer:
    """Rows normed by the kernel that only norms."""
    out = device.output("x", m * k * 2)
    launchers.rms_norm(device, out, normed, m, k)
    return out


def small_linear_normed(
    name: str, shapes: list[tuple[int, int, int, int]], **options: object
) -> Callable[[Device], None]:
    """shapes: (m, n, k, epilogue). Near the reference, and bit for bit what two launches give."""

    def run(device: Device) -> None:
        for i, (m, n, k, epilogue) in enumerate(shapes):
            p = Problem(m, n, k, has_bias=i % 2 == 1)
            hidden = reference.random_floats((m + 1, k), 11, 3)
            norm_weight = reference.random_floats(k, 12)
            rows = np.arange(m, dtype=np.int32)[::-1] + 1 if i % 2 == 0 else np.arange(m)
            normed = {
                "hidden": device.input("hidden", hidden),
                "row_indices": device.input("rows", rows) if i % 2 == 0 else None,
                "weight": device.input("norm weight", norm_weight, early=True),
                "eps": NORM_EPS,
            }
            what = f"{m} x {n} x {k} normed, epilogue {epilogue}"
            y = launch_small(device, p, epilogue, normed=normed, **options)
            reference.check(what, y, expected_normed(p, epilogue, hidden[rows], norm_weight))
            x = separate_norm(device, normed, m, k)
            two = launch_small(device, p, epilogue, x=x, **options)
            reference.check_equal(what, y.view(np.uint8), two.view(np.uint8))

    run.__name__ = f"small_linear_normed_{name}"
    return run


def expected_normed(
    p: Problem, epilogue: int, hidden: Array, norm_weight: Array
) -> reference.Approx:
    """A normed value near a border of BF16 may be rounded to the other side: off by 2^-8. That is
    one in thousands, so that two in one product are rare already."""
    x = float_to_bf16(reference.rms_norm(hidden, norm_weight, NORM_EPS).value.astype(np.float32))
    products = np.abs(bf16_to_float(x))[:, None, :] * np.abs(bf16_to_float(p.weight))[None]
    moved = 2 * reference.BF16_ROUNDING * products.max(2)
    bias = p.bias if p.has_bias else np.zeros(p.n)
    y = reference.linear(x, p.weight, bias + (p.residual if epilogue == ADD else 0))
    y.bound = y.bound + moved
    if epilogue != SILU_MUL:
        return y
    half = p.n // 2
    gate = reference.Approx(y.value[:, :half], y.bound[:, :half])
    return reference.silu_mul(gate, reference.Approx(y.value[:, half:], y.bound[:, half:]))


CASES = [
    gemm(64, [(70, 40, 72), (3, 21, 8), (65, 66, 264), (1, 67, 200)]),
    gemm(128, [(130, 40, 72), (37, 131, 136), (2, 130, 328)]),
    small_linear("1_row_tile", [(1, 16, 64), (3, 24, 40), (8, 33, 584)], (STORE, ADD)),
    small_linear("1_gated", [(1, 32, 64), (5, 24, 200), (8, 66, 1032)], (SILU_MUL,)),
    # As for many rows of W: two tiles of W without gate and up.
    small_linear("many_rows", [(2, 72, 72), (8, 21, 1032)], (STORE, ADD), many_rows=1),
    small_linear("2", [(9, 40, 72), (16, 24, 520)], EPILOGUES),
    small_linear("4", [(17, 22, 136), (32, 40, 264)], EPILOGUES),
    small_linear("8", [(33, 18, 264), (64, 40, 72)], EPILOGUES),
    small_linear(
        "split", [(2, 48, 2048), (7, 20, 1096), (11, 32, 1024), (40, 16, 1032)], EPILOGUES
    ),
    # So few multiprocessors that blocks take several groups in turn.
    small_linear("groups", [(2, 104, 72), (3, 70, 1096)], EPILOGUES, multiprocessors=2),
    small_linear_normed("rows", [(1, 40, 264, STORE), (3, 24, 136, ADD), (8, 17, 1032, STORE)]),
    small_linear_normed("gated", [(1, 40, 264, SILU_MUL), (5, 24, 2056, SILU_MUL)]),
    small_linear_normed("many_rows", [(4, 70, 72, ADD)], many_rows=1),
]
