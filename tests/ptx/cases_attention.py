"""Cases of attention_decode.cu and attention_prefill.cu: each head size and each type of cache,
groups of heads, several splits with their merge, chunks with a context, padding rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import launchers
import reference
from attention_reference import Plane, Shape, attend, cached_head, norm_and_rotate, rounded_head
from kernel_args import pack
from launchers import BF16, F8E4M3, I8, KV_BLOCK, PREFILL_ROWS, Device
from ptx_memory import Array, Buffer
from ptx_scalar_ops import bf16_to_float, float_to_bf16

NORM_EPS = 1e-6
TYPE_NAMES = {BF16: "bf16", F8E4M3: "f8e4m3", I8: "i8"}


@dataclass(frozen=True)
class Rows:
    """Rows of a step: positions first .. first + count - 1 of a sequence of its own; the last
    `padding` of them have no slot."""

    first: int
    count: int = 1
    padding: int = 0

    @property
    def length(self) -> int:
        return self.first + self.count


class World:
    """Sequences, their q/k/v rows, norms, tables of angles and cache before a step."""

    def __init__(self, shape: Shape, ranges: list[Rows]) -> None:
        self.shape = shape
        self.ranges = ranges
        half = shape.head_dim // 2
        longest = max(r.length for r in ranges)
        self.q_norm = reference.random_floats(shape.head_dim, 21)
        # So large that few keys have most of a row's weight: one left out or doubled shows.
        self.k_norm = reference.random_floats(shape.head_dim, 22, 3)
        angles = np.arange(longest)[:, None] * 10000.0 ** (-np.arange(half) / half)
        self.cos, self.sin = np.cos(angles).astype("f4"), np.sin(angles).astype("f4")
        self.qkv = [
            reference.random_floats((r.length, shape.all_heads, shape.head_dim), 30 + i)
            for i, r in enumerate(ranges)
        ]
        self._assign_blocks()
        self.k, self.v = Plane(shape, self.num_blocks), Plane(shape, self.num_blocks)
        for seq, rows in enumerate(ranges):
            for position in range(rows.first):
                for plane, part in ((self.k, 0), (self.v, 1)):
                    values = [h[0] for h in self.kv_heads(seq, position, part)]
                    plane.store(self.slots[seq][position], np.stack(values))

    def _assign_blocks(self) -> None:
        """In scattered order, with one that belongs to nobody."""
        counts = [launchers.ceil_div(r.length, KV_BLOCK) for r in self.ranges]
        self.num_blocks = sum(counts) + 1
        blocks = np.random.default_rng(7).permutation(sum(counts)).astype(np.int32)
        self.max_blocks = max(counts) + 1
        # What a sequence doesn't have must not be looked up.
        self.tables = np.full((len(counts), self.max_blocks), 1 << 28, np.int32)
        self.slots = []
        for seq, count in enumerate(counts):
            mine, blocks = blocks[:count], blocks[count:]
            self.tables[seq, :count] = mine
            self.slots.append((mine[:, None] * KV_BLOCK + np.arange(KV_BLOCK)).reshape(-1))

    def head(self, seq: int, position: int, head: int, norm: Array) -> tuple[Array, Array]:
        """Normed and rotated, with the magnitudes of its errors."""
        return norm_and_rotate(
            self.qkv[seq][position, head],
            norm if self.shape.has_norms else None,
            NORM_EPS,
            self.cos[position],
            self.sin[position],
        )

    def kv_heads(self, seq: int, position: int, part: int) -> list[tuple[Array, Array]]:
        """A token's keys (part 0) or values (1) before they are rounded."""
        first = self.shape.num_heads + part * self.shape.num_kv_heads
        heads = range(first, first + self.shape.num_kv_heads)
        if part == 0:
            return [self.head(seq, position, h, self.k_norm) for h in heads]
        raw = [self.qkv[seq][position, h].astype(np.float64) for h in heads]
        return [(x, np.abs(x)) for x in raw]

    def queries(self, seq: int, position: int) -> list[tuple[Array, Array]]:
        scale = launchers.query_scale(self.shape.head_dim)
        heads = (self.head(seq, position, h, self.q_norm) for h in range(self.shape.num_heads))
        return [(x * scale, magnitudes * scale) for x, magnitudes in heads]

    def rows(self) -> list[tuple[int, int, bool]]:
        """(sequence, position, whether it's padding) of the step's rows."""
        return [
            (seq, r.first + i, i >= r.count - r.padding)
            for seq, r in enumerate(self.ranges)
            for i in range(r.count)
        ]


class Step:
    """A world on a device."""

    def __init__(self, device: Device, world: World, appends: bool) -> None:
        self.device = device
        self.world = world
        shape = world.shape
        rows = world.rows()
        self.num_rows = len(rows)
        qkv = np.stack([world.qkv[seq][position] for seq, position, _ in rows])
        self.k = device.output("k_cache", world.k.bytes, early=appends)
        self.v = device.output("v_cache", world.v.bytes, early=appends)
        self.out = device.output("out", self.num_rows * shape.num_heads * shape.head_dim * 2)
        self.args = {
            "out": self.out,
            "qkv": device.input("qkv", qkv),
            "q_norm": device.input("q_norm", world.q_norm) if shape.has_norms else None,
            "k_norm": device.input("k_norm", world.k_norm) if shape.has_norms else None,
            "norm_eps": NORM_EPS,
            "rope_cos": device.input("rope_cos", world.cos),
            "rope_sin": device.input("rope_sin", world.sin),
            "k_cache": self.k,
            "v_cache": self.v,
            "kv_type": shape.kv_type,
            "block_bytes": shape.block_bytes,
            "head_bytes": shape.head_bytes,
            "num_heads": shape.num_heads,
            "num_kv_heads": shape.num_kv_heads,
            "head_dim": shape.head_dim,
            "max_blocks": world.max_blocks,
            **{name: self._ints(name, x) for name, x in self._step_arrays(rows).items()},
        }

    def _step_arrays(self, rows: list[tuple[int, int, bool]]) -> dict[str, Array | list[int]]:
        """Copied to the device before the step's first launch."""
        world = self.world
        slots = [-1 if pad else world.slots[seq][position] for seq, position, pad in rows]
        return {
            "positions": [position for _, position, _ in rows],
            "slot_mapping": slots,
            "query_start_loc": np.cumsum([0] + [r.count for r in world.ranges]),
            "seq_lens": [r.length for r in world.ranges],
            "block_tables": world.tables,
        }

    def _ints(self, name: str, values: Array | list[int]) -> Buffer:
        return self.device.input(name, np.array(values, np.int32), early=True)

    def tiles(self, most_rows: int, split: bool) -> tuple[Buffer, int]:
        """Neighbouring rows of a sequence, with `split` only those that have one split size."""
        tiles: list[dict] = []
        for row, (seq, position, _) in enumerate(self.world.rows()):
            size = (64 if position < 1024 else 256) if split else 0
            last = tiles[-1] if tiles and tiles[-1]["seq"] == seq else None
            if last and last["num_rows"] < most_rows and last["split_size"] == size:
                last["num_rows"] += 1
            else:
                tiles.append({"seq": seq, "first_row": row, "num_rows": 1, "split_size": size})
        packed = b"".join(pack("AttentionTile", t) for t in tiles)
        return self.device.input("tiles", np.frombuffer(packed, np.uint8), early=True), len(tiles)

    def check_cache(self) -> None:
        """This step's tokens are appended, everything else is as before."""
        world, shape = self.world, self.world.shape
        for part, (buffer, before) in enumerate(((self.k, world.k), (self.v, world.v))):
            after = Plane(shape, world.num_blocks, buffer.bytes.copy())
            for seq, position, is_padding in world.rows():
                if is_padding:
                    continue
                slot = np.array([world.slots[seq][position]])
                for kv_head, (value, magnitudes) in enumerate(world.kv_heads(seq, position, part)):
                    elements = after.elements(slot, kv_head)[0]
                    scale = after.token_scales(slot, kv_head)[0]
                    what = f"cached {'kv'[part]} of position {position}"
                    expected = cached_head(shape, value, magnitudes, scale)
                    reference.check(what, elements[: shape.head_dim] * scale, expected)
                    padding = elements[shape.head_dim :]
                    reference.check_equal(f"{what}, padding", padding, padding * 0)
                block, offset = divmod(int(slot[0]), KV_BLOCK)
                after.rows[block, :, offset] = before.rows[block, :, offset]
                after.scales[block, :, offset] = before.scales[block, :, offset]
            reference.check_equal("the rest of the cache", after.bytes, before.bytes)

    def check_out(self, queries: Array | None = None) -> None:
        """queries: the kernel's own, [rows, num_heads, head_dim]."""
        world, shape = self.world, self.world.shape
        k = Plane(shape, world.num_blocks, self.k.bytes)
        v = Plane(shape, world.num_blocks, self.v.bytes)
        out = self.out.array("u2").reshape(self.num_rows, shape.num_heads, shape.head_dim)
        for row, (seq, position, is_padding) in enumerate(world.rows()):
            if is_padding:
                reference.check_equal("a padding row", out[row], np.zeros_like(out[row]))
                continue
            slots = world.slots[seq][: position + 1]
            for head, (query, _) in enumerate(world.queries(seq, position)):
                kv_head = head // shape.group
                bits = float_to_bf16(query.astype("f4")) if queries is None else queries[row, head]
                expected = attend(
                    bf16_to_float(bits).astype(np.float64),
                    k.elements(slots, kv_head)[:, : shape.head_dim],
                    k.token_scales(slots, kv_head),
                    v.elements(slots, kv_head)[:, : shape.head_dim],
                    v.token_scales(slots, kv_head),
                    exact=queries is not None,
                )
                what = f"position {position} of {seq}, head {head}"
                reference.check(what, out[row, head], expected)


def run_decode(device: Device, shape: Shape, ranges: list[Rows], appends: bool) -> None:
    world = World(shape, ranges)
    step = Step(device, world, appends)
    tiles, num_tiles = step.tiles(8 // shape.group, split=True)
    splits = max(p // (64 if p < 1024 else 256) + 1 for _, p, _ in world.rows())
    scratch = launchers.decode_scratch(device, step.args, num_tiles, splits)
    if not appends:
        launchers.kv_append(device, step.args, None, 0, step.num_rows)
    decode = {
        "tiles": tiles,
        "num_tiles": num_tiles,
        "max_splits": splits,
        "scratch": scratch,
        "appends": appends,
    }
    launchers.decode_attention(device, step.args, decode)
    step.check_cache()
    step.check_out()
    if scratch.bytes[: 4 * launchers.COUNTERS].any():
        raise AssertionError("the counters aren't 0 again")


def run_prefill(device: Device, shape: Shape, ranges: list[Rows]) -> None:
    world = World(shape, ranges)
    step = Step(device, world, appends=False)
    queries = device.output("queries", step.out.size)
    launchers.kv_append(device, step.args, queries, 0, step.num_rows)
    step.check_cache()
    bits = queries.array("u2").reshape(step.num_rows, shape.num_heads, shape.head_dim)
    for row, (seq, position, _) in enumerate(world.rows()):
        for head, (value, magnitudes) in enumerate(world.queries(seq, position)):
            what = f"query of position {position}, head {head}"
            reference.check(what, bits[row, head], rounded_head(value, magnitudes))
    tiles, num_tiles = step.tiles(PREFILL_ROWS, split=False)
    launchers.prefill_attention(device, step.args, queries, 0, tiles, num_tiles)
    step.check_out(bits)


def decode(
    name: str, shape: Shape, ranges: list[Rows], appends: bool = True
) -> Callable[[Device], None]:
    def run(device: Device) -> None:
        run_decode(device, shape, ranges, appends)

    run.__name__ = f"decode_{name}_{TYPE_NAMES[shape.kv_type]}"
    return run


def prefill(name: str, shape: Shape, ranges: list[Rows]) -> Callable[[Device], None]:
    def run(device: Device) -> None:
        run_prefill(device, shape, ranges)

    run.__name__ = f"prefill_{name}_{TYPE_NAMES[shape.kv_type]}"
    return run


def cases_of_type(kv_type: int) -> list[Callable[[Device], None]]:
    """The head sizes with kernels of their own are 32, 64, 128 and 256: here some smaller ones."""
    short = [Rows(37), Rows(0), Rows(70)]
    return [
        decode("24", Shape(2, 1, 24, kv_type, has_norms=False), short),
        decode("64", Shape(4, 2, 64, kv_type), [Rows(130), Rows(15)]),
        decode("64_rows", Shape(2, 1, 64, kv_type), [Rows(61, 5, 1), Rows(0, 3)]),
        decode("64_long", Shape(8, 1, 64, kv_type), [Rows(1024)]),
        decode("64_appended", Shape(3, 1, 64, kv_type), [Rows(1024, 2), Rows(5)], appends=False),
        decode("104", Shape(1, 2, 104, kv_type), [Rows(33)]),
        decode("256", Shape(5, 1, 256, kv_type, has_norms=False), [Rows(65)]),
        prefill("24", Shape(1, 2, 24, kv_type), [Rows(0, 20), Rows(3, 2)]),
        prefill("64", Shape(2, 1, 64, kv_type), [Rows(0, 70, 3), Rows(50, 30)]),
        prefill("104", Shape(2, 1, 104, kv_type, has_norms=False), [Rows(70, 5)]),
        prefill("256", Shape(1, 1, 256, kv_type), [Rows(30, 17)]),
    ]


CASES = [case for kv_type in (BF16, F8E4M3, I8) for case in cases_of_type(kv_type)]
