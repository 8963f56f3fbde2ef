"""Runs a kernel of a PTX module on numpy arrays: a register is an array over a block's threads.

Threads at the same instruction run it together; of several such groups the one with the smallest
program counter runs until it meets another, branches, or parks at a barrier. Blocks run one after
the other, in ascending or descending order.

Source of what instructions do: PTX ISA 9.0, chapter "Instruction Set".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import ptx_memory_ops
import ptx_scalar_ops
import ptx_warp_ops
from ptx_memory import POISON, Array, AsyncCopies, Memory
from ptx_parse import (
    TYPE_BYTES,
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    PtxError,
    Register,
    Symbol,
    Vector,
)
from ptx_races import PublicationDetector, RaceDetector

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_BASE = 0x1000
MAX_STEPS = 20_000_000  # of a block: more is a loop that doesn't end

_FLOATS = {"f32": np.float32, "f64": np.float64, "pred": np.bool_}
_KINDS = {"s": "i", "u": "u", "b": "u"}


@functools.cache
def dtype_of(kind: str) -> np.dtype:
    """numpy's type of a PTX type."""
    if kind in _FLOATS:
        return np.dtype(_FLOATS[kind])
    return np.dtype(f"{_KINDS[kind[0]]}{TYPE_BYTES[kind]}")


class Group:
    """Threads at one instruction."""

    __slots__ = ("mask", "where", "_lanes", "_warps")

    def __init__(self, mask: Array) -> None:
        self.mask = mask
        self.where = True if mask.all() else mask  # of numpy's functions
        self._lanes: Array | None = None
        self._warps: Array | None = None

    @property
    def lanes(self) -> Array:
        """Indices of the threads."""
        if self._lanes is None:
            self._lanes = np.flatnonzero(self.mask)
        return self._lanes

    @property
    def warps(self) -> Array:
        """Indices of the warps, for instructions that a warp executes together."""
        if self._warps is None:
            lanes = self.mask.reshape(-1, 32)
            if (lanes.any(1) != lanes.all(1)).any():
                raise PtxError("a warp isn't converged")
            self._warps = np.flatnonzero(lanes.all(1))
        return self._warps


Step = Callable[[Group], object]


@dataclass(frozen=True)
class LaunchShape:
    grid: tuple[int, int, int]
    block: int  # threads along x
    dynamic_shared: int = 0  # bytes
    reverse: bool = False  # blocks in descending order


def _immediate(text: str, kind: str) -> np.generic:
    if text[:2] in ("0f", "0F"):
        value = np.uint32(int(text[2:], 16))
        return value.view(dtype_of(kind))
    if kind in _FLOATS and kind != "pred":
        raise PtxError(f"unknown float {text}")
    value = int(text.rstrip("U"), 0)
    if kind == "pred":
        return np.bool_(value != 0)
    bytes_ = TYPE_BYTES[kind]
    return np.array([value & (1 << 8 * bytes_) - 1], f"u{bytes_}").view(dtype_of(kind))[0]


class Machine:
    """One launch of a kernel with parameters packed as it declares them."""

    def __init__(
        self, kernel: Kernel, global_memory: Memory, params: bytes, shape: LaunchShape
    ) -> None:
        if shape.block % 32 or shape.block > (kernel.threads or 1024):
            raise PtxError(f"{shape.block} threads: the kernel has up to {kernel.threads}")
        if len(params) != kernel.param_bytes:
            raise PtxError(f"{len(params)} bytes of parameters instead of {kernel.param_bytes}")
        self.kernel = kernel
        self.shape = shape
        self.global_memory = global_memory
        self.params = np.frombuffer(params, np.uint8)
        self.has_dependency_wait = kernel.target >= 90
        self._make_state()
        self.code = [self._build(ins) for ins in kernel.code]
        self.executed = [False] * len(self.code)

    def _make_state(self) -> None:
        n = self.shape.block
        self.registers = self._make_registers()
        self.special = self._special_registers()
        self.shared_memory = self._lay_out_shared()
        self.races = RaceDetector(SHARED_BASE, len(self.shared_memory.bytes), n)
        blocks = int(np.prod(self.shape.grid))
        self.publication = PublicationDetector(GLOBAL_BASE, self.global_memory.used, n, blocks)
        self.copies = AsyncCopies(self.global_memory, self.shared_memory, self.races, n)
        self.waited = np.zeros(n, bool)  # threads that have waited for the launch before

    def _make_registers(self) -> dict[str, Array]:
        """All of one size in one array, [registers, threads], to clear them together."""
        names: dict[np.dtype, list[str]] = {}
        for name, kind in self.kernel.registers.items():
            names.setdefault(dtype_of("b" + kind[1:] if kind[0] == "f" else kind), []).append(name)
        self.register_files = [np.zeros((len(m), self.shape.block), d) for d, m in names.items()]
        return {
            name: row
            for file, members in zip(self.register_files, names.values(), strict=True)
            for name, row in zip(members, file, strict=True)
        }

    def _special_registers(self) -> dict[str, Array]:
        n = self.shape.block
        special = {"%tid.x": np.arange(n, dtype=np.uint32), "%ntid.x": np.full(n, n, np.uint32)}
        for axis, size in zip("xyz", self.shape.grid, strict=True):
            special[f"%nctaid.{axis}"] = np.full(n, size, np.uint32)
            special[f"%ctaid.{axis}"] = np.zeros(n, np.uint32)
        return special

    def _lay_out_shared(self) -> Memory:
        """The variables that the kernel names, apart from each other."""
        named = {
            o.base.name if isinstance(o, Address) else getattr(o, "name", "")
            for ins in self.kernel.code
            for o in ins.operands
            if isinstance(o, (Symbol, Address)) and not isinstance(o, Register)
        }
        used = [v for v in self.kernel.shared.values() if v.name in named]
        sizes = [v.size or self.shape.dynamic_shared for v in used]
        memory = Memory("shared", SHARED_BASE, 1024 + sum(size + 1024 for size in sizes) // 16 * 16)
        for variable, size in zip(used, sizes, strict=True):
            memory.add(variable.name, size, writable=True)
        return memory

    # ---- Operands ----

    def source(self, operand: Operand, kind: str) -> Array | np.generic:
        """Its values as a PTX type: [threads], or one for all."""
        if isinstance(operand, Register):
            if operand.name in self.special:
                return self.special[operand.name].view(dtype_of(kind))
            return self.target(operand, kind)
        if isinstance(operand, Immediate):
            return _immediate(operand.text, kind)
        if isinstance(operand, Symbol):
            return dtype_of(kind).type(self.symbol(operand.name))
        raise PtxError(f"not a value: {operand}")

    def target(self, operand: Operand, kind: str) -> Array:
        """A register's values as a PTX type, to write to."""
        if not isinstance(operand, Register) or operand.name not in self.registers:
            raise PtxError(f"not a register: {operand}")
        register = self.registers[operand.name]
        dtype = dtype_of(kind)
        if register.dtype.itemsize != dtype.itemsize or (kind == "pred") != (
            register.dtype == np.bool_
        ):
            raise PtxError(f"{operand.name} is not a register for .{kind}")
        return register.view(dtype)

    def wide_target(self, operand: Operand, kind: str) -> Array:
        """The same for what is loaded, which may be narrower: as an integer of the kind's sign."""
        if not isinstance(operand, Register) or operand.name not in self.registers:
            raise PtxError(f"not a register: {operand}")
        bytes_ = self.registers[operand.name].dtype.itemsize
        if bytes_ < TYPE_BYTES[kind]:
            raise PtxError(f"{operand.name} is too narrow for .{kind}")
        return self.registers[operand.name].view(f"{'i' if kind[0] == 's' else 'u'}{bytes_}")

    def elements(self, operand: Operand) -> tuple[Operand, ...]:
        return operand.elements if isinstance(operand, Vector) else (operand,)

    def symbol(self, name: str) -> int:
        """The address of a variable, in its own space."""
        if name in self.kernel.params:
            return self.kernel.params[name].offset
        for buffer in self.shared_memory.buffers:
            if buffer.name == name:
                return buffer.address
        raise PtxError(f"unknown symbol {name}")

    def address(self, operand: Operand) -> Callable[[Group], Array]:
        """Of [base + offset], int64 for each thread of a group."""
        if not isinstance(operand, Address):
            raise PtxError(f"not an address: {operand}")
        offset = operand.offset
        if isinstance(operand.base, Symbol):
            address = self.symbol(operand.base.name) + offset
            return lambda group: np.full(len(group.lanes), address, np.int64)
        base = self.registers[operand.base.name]
        return lambda group: base[group.lanes].astype(np.int64) + offset

    # ---- Code ----

    def _build(self, ins: Instruction) -> tuple[str, Step]:
        """What an instruction does to the scheduling ("" if nothing), and its step."""
        try:
            return self._build_step(ins)
        except (PtxError, AttributeError, ValueError) as error:
            raise PtxError(f"{self._where(ins)}: {error}") from None

    def _build_step(self, ins: Instruction) -> tuple[str, Step]:
        guard = None
        if ins.guard:
            predicate = self.registers[ins.guard]
            guard = (lambda: ~predicate) if ins.guard_negated else (lambda: predicate)
        if ins.opcode in ("bra", "bra.uni"):
            label = self.kernel.labels[ins.operands[0].name]
            return "branch", lambda group: (label, guard() if guard else None)
        if ins.opcode == "ret":
            return self._unguarded(ins), lambda group: None
        if ins.opcode in ("bar.sync", "bar.red.or.pred"):
            barrier = ins.operands[len(ins.operands) // 2]
            if barrier != Immediate("0"):
                raise PtxError("a barrier other than 0")
            return self._unguarded(ins), self._reduction(ins)
        for table in (ptx_scalar_ops.OPS, ptx_memory_ops.OPS, ptx_warp_ops.OPS):
            if ins.opcode in table:
                step = table[ins.opcode](self, ins)
                return "", self._guarded(step, guard) if guard else step
        raise PtxError("unknown instruction")

    @staticmethod
    def _unguarded(ins: Instruction) -> str:
        if ins.guard:
            raise PtxError("not supported with a guard")
        return ins.opcode

    def _reduction(self, ins: Instruction) -> Step:
        """What the group that leaves a barrier gets from it: with .red.or whether any has it."""
        if ins.opcode == "bar.sync":
            return lambda group: None
        out = self.target(ins.operands[0], "pred")
        values = self.source(ins.operands[2], "pred")

        def reduce(group: Group) -> None:
            out[group.mask] = np.broadcast_to(values, group.mask.shape)[group.mask].any()

        return reduce

    @staticmethod
    def _guarded(step: Step, guard: Callable[[], Array]) -> Step:
        def run(group: Group) -> None:
            mask = group.mask & guard()
            if mask.any():
                step(Group(mask))

        return run

    def _where(self, ins: Instruction) -> str:
        return f"PTX line {ins.line} ({ins.source}): {ins.text}"

    # ---- Running ----

    def run(self) -> None:
        sizes = self.shape.grid
        blocks = [
            (x, y, z) for z in range(sizes[2]) for y in range(sizes[1]) for x in range(sizes[0])
        ]
        with np.errstate(all="ignore"):
            for block in reversed(blocks) if self.shape.reverse else blocks:
                self._run_block(block)

    def _run_block(self, block: tuple[int, int, int]) -> None:
        for axis, i in zip("xyz", block, strict=True):
            self.special[f"%ctaid.{axis}"][:] = i
        for file in self.register_files:
            file.view(np.uint8)[:] = POISON if file.dtype != np.bool_ else 1
        self.shared_memory.bytes[:] = POISON
        self.races.begin_block()
        self.publication.begin_block()
        self.copies.begin_block()
        self.waited[:] = not self.has_dependency_wait
        _BlockRun(self, block).run()


class _BlockRun:
    """One block from its first instruction until all its threads have returned."""

    def __init__(self, machine: Machine, block: tuple[int, int, int]) -> None:
        self.machine = machine
        self.block = block
        self.ready = {0: Group(np.ones(machine.shape.block, bool))}  # by program counter
        self.parked: dict[int, Group] = {}  # by that of their barrier
        self.steps = 0

    def run(self) -> None:
        while self.ready or self.parked:
            if not self.ready:
                self._release()
            pc = min(self.ready)
            self._run_group(pc, self.ready.pop(pc))

    def _put(self, groups: dict[int, Group], pc: int, group: Group) -> None:
        groups[pc] = Group(groups[pc].mask | group.mask) if pc in groups else group

    def _release(self) -> None:
        """All threads that haven't returned are at barriers."""
        if len(self.parked) > 1:
            lines = [self.machine._where(self.machine.kernel.code[pc]) for pc in self.parked]
            raise PtxError(f"block {self.block}: threads at different barriers: {lines}")
        self.machine.races.barrier()
        self.machine.publication.barrier()
        for pc, group in self.parked.items():
            self.machine.code[pc][1](group)
            self.ready[pc + 1] = group
        self.parked = {}

    def _run_group(self, pc: int, group: Group) -> None:
        code, executed = self.machine.code, self.machine.executed
        limit = min(self.ready, default=len(code))
        try:
            while True:
                self.steps += 1
                executed[pc] = True
                what, step = code[pc]
                if what:
                    self._leave(what, pc, group, step)
                    return
                step(group)
                pc += 1
                if pc == limit:
                    self._put(self.ready, pc, group)
                    return
        except PtxError as error:
            ins = self.machine.kernel.code[pc]
            raise PtxError(f"{self.machine._where(ins)}: block {self.block}: {error}") from None

    def _leave(self, what: str, pc: int, group: Group, step: Step) -> None:
        if self.steps > MAX_STEPS:
            raise PtxError("no end in sight")
        if what == "branch":
            label, taken = step(group)
            mask = group.mask if taken is None else group.mask & taken
            rest = group.mask & ~mask
            if mask.any():
                self._put(self.ready, label, Group(mask) if rest.any() else group)
            if rest.any():
                self._put(self.ready, pc + 1, Group(rest) if mask.any() else group)
        elif what.startswith("bar."):
            self._put(self.parked, pc, group)
        elif not self.machine.waited[group.mask].all():
            raise PtxError("threads return without a wait for the launch before")
