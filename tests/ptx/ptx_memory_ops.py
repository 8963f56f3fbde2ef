"""Loads, stores, copies and atomics, and the wait for the launch before.

Source: PTX ISA 9.0, sections "Data Movement and Conversion Instructions" (ld, st, cp.async,
prefetch) and "Parallel Synchronization and Communication Instructions" (atom, membar,
griddepcontrol).

Until a thread has waited for the launch before (griddepcontrol.wait), it may read only global
memory that is older, and write none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptx_memory import Array, AsyncCopies
from ptx_parse import TYPE_BYTES, Immediate, Instruction, PtxError
from ptx_scalar_ops import Builder

if TYPE_CHECKING:
    from ptx_machine import Group, Machine, Step

OPS: dict[str, Builder] = {}


def _per_lane(values: Array | np.generic, lanes: Array) -> Array:
    return values[lanes] if np.ndim(values) else np.full(len(lanes), values)


def _check_global_read(machine: Machine, lanes: Array, buffers: Array) -> None:
    memory = machine.global_memory
    too_early = ~(machine.waited[lanes] | memory.early[buffers])
    if too_early.any():
        name = memory.buffers[int(buffers[too_early][0])].name
        raise PtxError(f"{name} is read before the wait for the launch before, which writes it")


def _check_global_write(machine: Machine, lanes: Array, buffers: Array) -> None:
    memory = machine.global_memory
    if not memory.writable[buffers].all():
        name = memory.buffers[int(buffers[~memory.writable[buffers]][0])].name
        raise PtxError(f"{name} is an input, but written")
    if not machine.waited[lanes].all():
        name = memory.buffers[int(buffers[~machine.waited[lanes]][0])].name
        raise PtxError(f"{name} is written before the wait for the launch before")


def _touch(machine: Machine, space: str, lanes: Array, at: Array, width: int, writes: bool) -> None:
    """Checks an access of `width` bytes at each address."""
    if space == "shared":
        machine.shared_memory.find(at, width)
        (machine.races.write if writes else machine.races.read)(at, width, lanes)
        return
    buffers = machine.global_memory.find(at, width)
    (_check_global_write if writes else _check_global_read)(machine, lanes, buffers)
    (machine.publication.write if writes else machine.publication.read)(at, width, lanes)


def _load(space: str, count: int, kind: str) -> Builder:
    width = TYPE_BYTES[kind] * count
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{TYPE_BYTES[kind]}")

    def build(machine: Machine, ins: Instruction) -> Step:
        memory = machine.shared_memory if space == "shared" else machine.global_memory
        outs = [machine.wide_target(o, kind) for o in machine.elements(ins.operands[0])]
        address = machine.address(ins.operands[1])

        def run(group: Group) -> None:
            at = address(group)
            _touch(machine, space, group.lanes, at, width, False)
            values = memory.load(at, dtype, count)
            for i, out in enumerate(outs):
                out[group.lanes] = values[:, i]

        return run

    return build


def _load_param(count: int, kind: str) -> Builder:
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{TYPE_BYTES[kind]}")
    width = dtype.itemsize * count

    def build(machine: Machine, ins: Instruction) -> Step:
        outs = [machine.wide_target(o, kind) for o in machine.elements(ins.operands[0])]
        address = machine.address(ins.operands[1])

        def run(group: Group) -> None:
            at = address(group)  # may differ: p.x or p.y by a thread's own choice
            if (at % width).any() or (at < 0).any() or (at + width > len(machine.params)).any():
                raise PtxError("misaligned, or outside of the parameters")
            values = machine.params[at[:, None] + np.arange(width)].view(dtype)
            for i, out in enumerate(outs):
                out[group.lanes] = values[:, i]

        return run

    return build


def _store(space: str, count: int, kind: str) -> Builder:
    width = TYPE_BYTES[kind] * count
    dtype = np.dtype(f"u{TYPE_BYTES[kind]}")

    def build(machine: Machine, ins: Instruction) -> Step:
        memory = machine.shared_memory if space == "shared" else machine.global_memory
        address = machine.address(ins.operands[0])
        values = [_stored(machine, o, kind) for o in machine.elements(ins.operands[1])]

        def run(group: Group) -> None:
            at = address(group)
            _touch(machine, space, group.lanes, at, width, True)
            stored = np.empty((len(at), count), dtype)
            for i, value in enumerate(values):
                stored[:, i] = _per_lane(value, group.lanes)
            memory.store(at, stored)

        return run

    return build


def _stored(machine: Machine, operand: object, kind: str) -> Array | np.generic:
    """What is stored, as unsigned numbers; a wider register's low part."""
    if isinstance(operand, Immediate):
        return np.asarray(machine.source(operand, kind)).view(f"u{TYPE_BYTES[kind]}")
    return machine.wide_target(operand, f"u{8 * TYPE_BYTES[kind]}")


def _cp_async(machine: Machine, ins: Instruction) -> Step:
    to, source, size, bytes_ = ins.operands
    if size != Immediate("16"):
        raise PtxError("copies of 16 bytes only")
    to_address, source_address = machine.address(to), machine.address(source)
    sizes = machine.source(bytes_, "u32")

    def run(group: Group) -> None:
        lanes = group.lanes
        at, origin = to_address(group), source_address(group)
        machine.shared_memory.find(at, AsyncCopies.BYTES)
        read = _per_lane(sizes, lanes).astype(np.int64)
        if (read > AsyncCopies.BYTES).any() or (origin % AsyncCopies.BYTES).any():
            raise PtxError("a copy's size or alignment")
        some = read > 0
        buffers = machine.global_memory.find_range(origin[some], read[some])
        _check_global_read(machine, lanes[some], buffers)
        machine.copies.issue(lanes, at, origin, read)

    return run


def _cp_async_commit(machine: Machine, ins: Instruction) -> Step:
    return lambda group: machine.copies.commit(group.lanes)


def _cp_async_wait(machine: Machine, ins: Instruction) -> Step:
    allowed = int(machine.source(ins.operands[0], "u32"))
    return lambda group: machine.copies.wait(group.lanes, allowed)


def _atomic_add(space: str) -> Builder:
    """One thread after the other, in order."""

    def build(machine: Machine, ins: Instruction) -> Step:
        memory = machine.shared_memory if space == "shared" else machine.global_memory
        out = machine.target(ins.operands[0], "u32")
        address = machine.address(ins.operands[1])
        addend = machine.source(ins.operands[2], "u32")
        u32 = np.dtype(np.uint32)

        def run(group: Group) -> None:
            lanes, at = group.lanes, address(group)
            buffers = memory.find(at, u32.itemsize)
            if space == "global":
                _check_global_write(machine, lanes, buffers)
                machine.publication.atomic(lanes)
            else:
                machine.races.atomic(at, lanes)
            for i, added in enumerate(_per_lane(addend, lanes)):
                old = memory.load(at[i : i + 1], u32, 1)
                memory.store(at[i : i + 1], old + added)
                out[lanes[i]] = old[0, 0]

        return run

    return build


def _fence(machine: Machine, ins: Instruction) -> Step:
    return lambda group: machine.publication.fence(group.lanes)


def _dependency_wait(machine: Machine, ins: Instruction) -> Step:
    def run(group: Group) -> None:
        machine.waited[group.lanes] = True

    return run


def _nothing(machine: Machine, ins: Instruction) -> Step:
    """Prefetches, and the leave for the next launch to start."""
    return lambda group: None


def _add_all() -> None:
    shapes = [("", 1), ("v2.", 2), ("v4.", 4)]
    for shape, count in shapes:
        for kind in ("u8", "u16", "u32", "s32", "u64", "f32"):
            OPS[f"ld.param.{shape}{kind}"] = _load_param(count, kind)
            for cache in ("", "cg.", "L1::no_allocate."):
                OPS[f"ld.global.{cache}{shape}{kind}"] = _load("global", count, kind)
            OPS[f"ld.shared.{shape}{kind}"] = _load("shared", count, kind)
            OPS[f"st.global.{shape}{kind}"] = _store("global", count, kind)
            OPS[f"st.shared.{shape}{kind}"] = _store("shared", count, kind)
    OPS["cp.async.cg.shared.global"] = _cp_async
    OPS["cp.async.commit_group"] = _cp_async_commit
    OPS["cp.async.wait_group"] = _cp_async_wait
    for space in ("global", "shared"):
        OPS[f"atom.{space}.add.u32"] = _atomic_add(space)
    OPS["griddepcontrol.wait"] = _dependency_wait
    OPS["griddepcontrol.launch_dependents"] = _nothing
    OPS["membar.gl"] = _fence
    OPS["prefetch.global.L2"] = _nothing
    OPS["cp.async.bulk.prefetch.L2.global"] = _nothing


_add_all()
