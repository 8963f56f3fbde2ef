"""What a warp executes together. All 32 lanes must be there, which Group.warps checks.

Source: PTX ISA 9.0, sections "shfl.sync", "vote.sync", "redux.sync", "bar.warp.sync" and "Warp
Level Matrix Instructions" (mma.m16n8k16 with floating point type, ldmatrix, movmatrix). Lane l has
g = l / 4 and t = l % 4; a register holds two 16-bit elements, the lower index in the low half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ptx_memory import Array
from ptx_parse import Instruction, Operand, Pair, PtxError
from ptx_scalar_ops import Builder, bf16_to_float

if TYPE_CHECKING:
    from ptx_machine import Group, Machine, Step

LANES = np.arange(32)


def _per_warp(values: Array, group: Group) -> Array:
    """[warps, 32] of the group's warps, from one value per thread or one for all."""
    if np.ndim(values) == 0:
        return np.full((len(group.warps), 32), values)
    return values.reshape(-1, 32)[group.warps]


def _write(out: Array, group: Group, values: Array) -> None:
    out.reshape(-1, 32)[group.warps] = values


class _FullMask:
    """The member mask of a warp instruction: all lanes, nothing else is supported."""

    def __init__(self, machine: Machine, operand: Operand) -> None:
        self.mask = machine.source(operand, "u32")

    def check(self, group: Group) -> None:
        if (_per_warp(self.mask, group) != 0xFFFFFFFF).any():
            raise PtxError("a member mask without all lanes")


def _shuffle(mode: str) -> Builder:
    def build(machine: Machine, ins: Instruction) -> Step:
        to, a, b, c, mask = ins.operands
        out, predicate = (to.value, to.predicate) if isinstance(to, Pair) else (to, None)
        target = machine.target(out, "b32")
        if predicate:
            machine.target(predicate, "pred")
        values = machine.source(a, "b32")
        operand = machine.source(b, "u32")
        clamp = machine.source(c, "u32")
        members = _FullMask(machine, mask)

        def run(group: Group) -> None:
            members.check(group)
            lane = _per_warp(operand, group).astype(np.int64) & 31
            limits = _per_warp(clamp, group).astype(np.int64)
            segment = limits >> 8 & 31
            last = LANES & segment | limits & 31 & ~segment
            if mode == "idx":
                source = LANES & segment | lane & ~segment
            else:
                source = LANES ^ lane if mode == "bfly" else LANES + lane
            inside = source <= last
            source = np.where(inside, source, LANES)
            _write(target, group, np.take_along_axis(_per_warp(values, group), source, 1))
            if predicate:
                _write(machine.registers[predicate.name], group, inside)

        return run

    return build


def _reduction(kind: str, reduce: Callable[..., Array]) -> Builder:
    """All lanes get what `reduce` makes of their values."""

    def build(machine: Machine, ins: Instruction) -> Step:
        out = machine.target(ins.operands[0], kind)
        values = machine.source(ins.operands[1], kind)
        members = _FullMask(machine, ins.operands[2])

        def run(group: Group) -> None:
            members.check(group)
            _write(out, group, reduce(_per_warp(values, group), axis=1, keepdims=True))

        return run

    return build


def _ballot(machine: Machine, ins: Instruction) -> Step:
    """Bit l is lane l's."""
    out = machine.target(ins.operands[0], "b32")
    values = machine.source(ins.operands[1], "pred")
    members = _FullMask(machine, ins.operands[2])
    bits = np.left_shift(np.uint32(1), LANES, dtype=np.uint32, casting="unsafe")

    def run(group: Group) -> None:
        members.check(group)
        votes = np.where(_per_warp(values, group), bits, np.uint32(0))
        _write(out, group, np.bitwise_or.reduce(votes, axis=1, keepdims=True))

    return run


def _warp_barrier(machine: Machine, ins: Instruction) -> Step:
    members = _FullMask(machine, ins.operands[0])

    def run(group: Group) -> None:
        members.check(group)
        machine.races.warp_barrier(group.warps)

    return run


def _fragment(matrices: Array) -> Array:
    """uint32 [.., 32] that lanes hold of uint16 [.., 8, 8]: lane l row g, columns 2 t, 2 t + 1."""
    pairs = np.ascontiguousarray(matrices).view(np.uint32)
    return pairs.reshape(*matrices.shape[:-2], 32)


def _matrices(fragments: Array) -> Array:
    """The reverse."""
    contiguous = np.ascontiguousarray(fragments)
    return contiguous.view(np.uint16).reshape(*fragments.shape[:-1], 8, 8)


def _ldmatrix_x4(transposes: bool) -> Builder:
    row_bytes = 16

    def build(machine: Machine, ins: Instruction) -> Step:
        outs = [machine.target(o, "b32") for o in ins.operands[0].elements]
        if len(outs) != 4:
            raise PtxError("four registers expected")
        address = machine.address(ins.operands[1])
        u16 = np.dtype(np.uint16)

        def run(group: Group) -> None:
            warps = group.warps
            at = address(group)  # lane 8 j + i: row i of matrix j
            machine.shared_memory.find(at, row_bytes)
            # Lane 4 i + t receives a piece of row i of each matrix: it reads as well as the lane
            # that gives the address; as one of both, the detector knows the latter.
            machine.races.read(at, row_bytes, group.lanes)
            rows = machine.shared_memory.load(at, u16, 8)
            matrices = rows.reshape(len(warps), 4, 8, 8)
            if transposes:
                matrices = matrices.swapaxes(2, 3)
            received = _fragment(matrices)
            for j, out in enumerate(outs):
                _write(out, group, received[:, j])

        return run

    return build


def _movmatrix(machine: Machine, ins: Instruction) -> Step:
    out = machine.target(ins.operands[0], "b32")
    source = machine.source(ins.operands[1], "b32")

    def run(group: Group) -> None:
        matrices = _matrices(_per_warp(source, group))
        _write(out, group, _fragment(matrices.swapaxes(1, 2)))

    return run


def _mma_m16n8k16(machine: Machine, ins: Instruction) -> Step:
    """d [16, 8] = a [16, 16] b [16, 8] + c, BF16 with float32 sums in numpy's order."""
    d = [machine.target(o, "f32") for o in ins.operands[0].elements]
    a = [machine.source(o, "b32") for o in ins.operands[1].elements]
    b = [machine.source(o, "b32") for o in ins.operands[2].elements]
    c = [machine.source(o, "f32") for o in ins.operands[3].elements]

    def run(group: Group) -> None:
        warps = len(group.warps)
        # a[i]: rows g + 8 (i % 2), k 2 t + 8 (i / 2); b[i]: k 2 t + 8 i, n g.
        tiles = [bf16_to_float(_matrices(_per_warp(r, group))) for r in a]
        left = np.block([[tiles[0], tiles[2]], [tiles[1], tiles[3]]])
        right = np.concatenate([bf16_to_float(_matrices(_per_warp(r, group))) for r in b], 2)
        # c[2 i + j]: row g + 8 i, n 2 t + j.
        sums = np.stack([_per_warp(r, group) for r in c], -1).reshape(warps, 8, 4, 2, 2)
        sums = sums.transpose(0, 3, 1, 2, 4).reshape(warps, 16, 8)
        product = left @ right.swapaxes(1, 2) + sums
        parts = product.reshape(warps, 2, 8, 4, 2).transpose(1, 4, 0, 2, 3).reshape(4, warps, 32)
        for out, part in zip(d, parts, strict=True):
            _write(out, group, part)

    return run


OPS: dict[str, Builder] = {
    "shfl.sync.bfly.b32": _shuffle("bfly"),
    "shfl.sync.down.b32": _shuffle("down"),
    "shfl.sync.idx.b32": _shuffle("idx"),
    "vote.sync.all.pred": _reduction("pred", np.all),
    "vote.sync.ballot.b32": _ballot,
    "redux.sync.max.s32": _reduction("s32", np.max),
    "bar.warp.sync": _warp_barrier,
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": _ldmatrix_x4(False),
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": _ldmatrix_x4(True),
    "movmatrix.sync.aligned.m8n8.trans.b16": _movmatrix,
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": _mma_m16n8k16,
}
