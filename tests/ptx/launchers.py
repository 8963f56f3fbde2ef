"""Launches kernels as the launchers in cuda/*.cu do: grids, shared memory and parameters.

This is the one place that knows them; the structs themselves are in kernel_args.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


from kernel_args import Signature, Value, align_up, pack_all
from module_files import CompiledFile
from ptx_machine import GLOBAL_BASE, LaunchShape, Machine
from ptx_memory import Array, Buffer, Memory

STORE, ADD, SILU_MUL = 0, 1, 2  # Epilogue
BF16, F8E4M3, I8 = 0, 1, 2  # KvType
KV_BLOCK = 16
COUNTERS = 1 << 16  # of decode attention's scratch
ARRIVALS_BYTES = 512  # of the small product's scratch


def ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


class KernelSet:
    """All kernels of one architecture, and which of them have run."""

    def __init__(self, files: list[CompiledFile]) -> None:
        self.kernels: dict[str, tuple[CompiledFile, str, Signature]] = {}
        for file in files:
            for mangled, signature in file.kernels.items():
                self.kernels[str(signature)] = (file, mangled, signature)
        self.executed: dict[str, list[bool]] = {}  # for each instruction of what has run


class Device:
    """Global memory for one case, and the kernels that run on it."""

    CAPACITY = 4 << 20

    def __init__(self, kernels: KernelSet, reverse: bool = False) -> None:
        self.kernels = kernels
        self.reverse = reverse  # order of blocks
        self.memory = Memory("global", GLOBAL_BASE, self.CAPACITY)

    def input(self, name: str, values: Array, early: bool = False) -> Buffer:
        """Read only. early: not written by the launch before."""
        return self.memory.add(name, values, early=early)

    def output(self, name: str, content: int | Array, early: bool = False) -> Buffer:
        """So many bytes, or values that are changed."""
        return self.memory.add(name, content, early=early, writable=True)

    def launch(
        self,
        name: str,
        template: tuple[int, ...],
        grid: tuple[int, int, int],
        block: int,
        args: list[Value],
        shared: int = 0,
    ) -> None:
        key = str(Signature(name, template, ()))
        file, mangled, signature = self.kernels.kernels[key]
        params = pack_all(list(zip(signature.params, args, strict=True)))
        shape = LaunchShape(grid, block, shared, self.reverse)
        machine = Machine(file.module.kernel(mangled), self.memory, params, shape)
        machine.run()
        before = self.kernels.executed.get(key, machine.executed)
        both = [a or b for a, b in zip(before, machine.executed, strict=True)]
        self.kernels.executed[key] = both
        if not self.memory.margins_are_untouched():
            raise AssertionError("bytes between buffers were written")


# ---- Rows (rows.cu) ----

ROW_THREADS = 256


def _row_grid(num_rows: int, width: int, elements: int) -> tuple[int, int, int]:
    return ceil_div(width, elements * ROW_THREADS), num_rows, 1


def embed(
    device: Device, hidden: Buffer, table: Buffer, ids: dict, num_tokens: int, width: int
) -> None:
    grid = _row_grid(num_tokens, width, 4)
    device.launch("embed_kernel", (), grid, ROW_THREADS, [hidden, table, ids, num_tokens, width])


def rms_norm(device: Device, out: Buffer, normed: dict, num_rows: int, width: int) -> None:
    device.launch("rms_norm_kernel", (), (num_rows, 1, 1), ROW_THREADS, [out, normed, width])


def silu_mul(device: Device, out: Buffer, gate_up: Buffer, num_rows: int, width: int) -> None:
    grid = _row_grid(num_rows, width, 4)
    device.launch("silu_mul_kernel", (), grid, ROW_THREADS, [out, gate_up, num_rows, width])


def add_bias(device: Device, out: Buffer, bias: Buffer, num_rows: int, n: int) -> None:
    grid = _row_grid(num_rows, n, 1)
    device.launch("add_bias_kernel", (), grid, ROW_THREADS, [out, bias, num_rows, n])


# ---- Matrix products ----


def gemm(
    device: Device, tile: int, out: Buffer, epilogue: int, x: Buffer, m: int, weights: dict
) -> None:
    """With tiles of tile x tile outputs."""
    stages, tile_k = 3, 64
    shared = stages * 2 * tile * tile_k * 2
    grid = (ceil_div(m, tile), ceil_div(weights["n"], tile), 1)
    params = {"out": out, "epilogue": epilogue, "x": x, "m": m, "weights": weights}
    device.launch("gemm_kernel", (tile, tile), grid, 256, [params], shared)


@dataclass
class SmallLinear:
    """One launch of the small product (linear_small.cu)."""

    out: Buffer
    epilogue: int
    m: int
    weights: dict
    scratch: Buffer | None = None
    x: Buffer | None = None
    normed: dict = field(default_factory=dict)  # used if x is None
    multiprocessors: int = 132
    many_rows: int = 8192  # from here on a block takes two tiles of W

    @property
    def two_tiles(self) -> bool:
        return self.epilogue == SILU_MUL or self.m > 32 or self.weights["n"] >= self.many_rows

    @property
    def column_tiles(self) -> int:
        return next(t for t in (1, 2, 4, 8) if self.m <= 8 * t)

    @property
    def slices(self) -> int:
        return small_linear_slices(self.weights["n"], self.weights["k"])

    @property
    def slice_k(self) -> int:
        return ceil_div(ceil_div(self.weights["k"], 64), self.slices) * 64

    @property
    def groups(self) -> int:
        n = self.weights["n"]
        return ceil_div(n // 2, 16) if self.epilogue == SILU_MUL else ceil_div(n, self.rows)

    @property
    def rows(self) -> int:
        return 32 if self.two_tiles else 16

    def blocks(self) -> int:
        if self.column_tiles > 1:
            return self.groups
        places = 2 * self.multiprocessors // self.slices
        return ceil_div(self.groups, ceil_div(self.groups, places))

    def launch(self, device: Device) -> None:
        pitch = self.slice_k + 32 if self.x is None else 0
        params = {
            "out": self.out,
            "epilogue": self.epilogue,
            "x": self.x,
            "normed": self.normed,
            "m": self.m,
            "weights": self.weights,
            "groups": self.groups,
            "slice_k": self.slice_k,
            "normed_pitch": pitch,
            "arrivals": self.scratch,
            "partial_sums": self.scratch.address + ARRIVALS_BYTES if self.slices > 1 else None,
        }
        template = (self.column_tiles, 1 + self.two_tiles, int(self.x is None))
        grid = (self.blocks(), self.slices, 1)
        shared = 2 * self.m * pitch
        device.launch("small_linear_kernel", template, grid, 256, [params], shared)


def small_linear_slices(n: int, k: int) -> int:
    return 2 if ceil_div(n, 16) <= 66 and k >= 1024 else 1


def small_linear_scratch_bytes(n: int, k: int) -> int:
    slices = small_linear_slices(n, k)
    tiles = ceil_div(ceil_div(n, 16), 2) * 2
    return ARRIVALS_BYTES + 4 * slices * tiles * 16 * 64 if slices > 1 else 0


# ---- Attention ----

ATTENTION_THREADS = 128
PREFILL_ROWS = 64


def instance_dims(head_dim: int) -> int:
    return next(d for d in (32, 64, 128, 256) if head_dim <= d)


def query_scale(head_dim: int) -> float:
    return 1 / math.sqrt(head_dim)


def kv_append(
    device: Device, args: dict, queries: Buffer | None, first_row: int, num_rows: int
) -> None:
    heads = 2 * args["num_kv_heads"] + (args["num_heads"] if queries else 0)
    grid = (num_rows, ceil_div(heads, 4), 1)
    values = [args, queries, first_row, query_scale(args["head_dim"])]
    device.launch("kv_append_kernel", (args["kv_type"],), grid, ATTENTION_THREADS, values)


def prefill_attention(
    device: Device, args: dict, queries: Buffer, first_row: int, tiles: Buffer, num_tiles: int
) -> None:
    dims = instance_dims(args["head_dim"])
    pitch = 2 * dims + 16
    keys = 64 if dims <= 128 else 32
    shared = PREFILL_ROWS * pitch + 2 * 2 * keys * pitch
    grid = (args["num_heads"], num_tiles, 1)
    device.launch(
        "prefill_attention_kernel",
        (dims, args["kv_type"]),
        grid,
        ATTENTION_THREADS,
        [args, queries, first_row, tiles],
        shared,
    )


def _decode_shared_bytes(dims: int, kv_type: int) -> int:
    row_bytes = dims * (2 if kv_type == BF16 else 1)
    stages = 2 if row_bytes <= 256 else 1
    warps, columns = 4, 8
    tiles = 2 * warps * stages * KV_BLOCK * (row_bytes + 16)
    scales = 2 * warps * stages * 2 * KV_BLOCK * 4
    queries = columns * (dims + 8) * 2
    softmax = warps * columns * 8
    is_last = 1
    return align_up(tiles + scales + queries + softmax + is_last, 128)


def decode_scratch(device: Device, args: dict, num_tiles: int, max_splits: int) -> Buffer:
    """Counters are 0, the rest has yet to be written."""
    parts = num_tiles * args["num_kv_heads"] * max_splits * 8
    size = 4 * COUNTERS + parts * (8 + 4 * instance_dims(args["head_dim"]))
    scratch = device.output("scratch", size)
    scratch.bytes[: 4 * COUNTERS] = 0
    return scratch


def decode_attention(device: Device, args: dict, decode: dict) -> None:
    dims = instance_dims(args["head_dim"])
    parts = decode["num_tiles"] * args["num_kv_heads"] * decode["max_splits"] * 8
    softmax = decode["scratch"].address + 4 * COUNTERS
    partials = {"counters": decode["scratch"], "softmax": softmax, "out": softmax + 8 * parts}
    device.launch(
        "decode_attention_kernel",
        (dims, args["kv_type"]),
        (decode["max_splits"], args["num_kv_heads"], decode["num_tiles"]),
        ATTENTION_THREADS,
        [args, decode, partials, query_scale(args["head_dim"])],
        _decode_shared_bytes(dims, args["kv_type"]),
    )


# ---- Sampling (sample.cu, logprobs.cu) ----

SAMPLE_THREADS = 512
SLICE = 8 * SAMPLE_THREADS  # ids of a block
MAX_TOP = 64
MAX_SAMPLE_ROWS = 4096


def sample_scratch(device: Device, num_rows: int, width: int) -> Buffer:
    """Counters are 0, the rest has yet to be written."""
    slices = num_rows * ceil_div(width, SLICE)
    size = 4 * MAX_SAMPLE_ROWS + slices * (8 * MAX_TOP + 24) + num_rows * width * 4
    scratch = device.output("scratch", size)
    scratch.bytes[: 4 * MAX_SAMPLE_ROWS] = 0
    return scratch


def _slices(args: dict) -> tuple[int, int, int]:
    return ceil_div(args["width"], SLICE), args["num_rows"], 1


def sample(device: Device, args: dict) -> None:
    device.launch("sample_kernel", (), _slices(args), SAMPLE_THREADS, [args])


def logprobs(device: Device, out: Buffer, args: dict) -> None:
    device.launch("logprobs_kernel", (), _slices(args), SAMPLE_THREADS, [out, args])
