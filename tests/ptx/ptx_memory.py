"""Memory of the PTX machine: address ranges with guards between them, and copies that are on their
way (cp.async).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptx_parse import PtxError
from ptx_races import RaceDetector

POISON = 0xFF  # NaN in every float type, -1 in integers
GUARD_BYTES = 256
ALIGN = 256

Array = np.ndarray


@dataclass
class Buffer:
    """A range of a memory."""

    name: str
    address: int
    size: int
    bytes: Array  # a view, uint8[size]

    def array(self, dtype: str, count: int = -1) -> Array:
        """The first `count` elements, or all."""
        whole = self.bytes[: self.size // np.dtype(dtype).itemsize * np.dtype(dtype).itemsize]
        return whole.view(dtype)[: None if count < 0 else count]


class Memory:
    """Bytes from `base` on, of which only those in ranges may be touched."""

    def __init__(self, name: str, base: int, capacity: int) -> None:
        self.name = name
        self.base = base
        self.bytes = np.full(capacity, POISON, np.uint8)
        self.buffers: list[Buffer] = []
        self.flags: list[tuple[bool, bool]] = []
        self.used = GUARD_BYTES
        self._freeze()

    def add(
        self, name: str, content: int | Array, *, early: bool = False, writable: bool = False
    ) -> Buffer:
        """A range of so many bytes, poisoned, or with an array's content.

        early: older than the launch before, so that it may be read before the wait for it.
        """
        size = content if isinstance(content, int) else content.nbytes
        if self.used + size + GUARD_BYTES > len(self.bytes):
            raise PtxError(f"{self.name} memory is full: {name} needs {size} bytes")
        buffer = Buffer(name, self.base + self.used, size, self.bytes[self.used : self.used + size])
        if not isinstance(content, int):
            buffer.bytes[:] = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        self.buffers.append(buffer)
        self.flags.append((early, writable))
        self.used = (self.used + size + GUARD_BYTES + ALIGN - 1) // ALIGN * ALIGN
        self._freeze()
        return buffer

    def _freeze(self) -> None:
        self.starts = np.array([b.address for b in self.buffers] or [0], np.int64)
        self.ends = np.array([b.address + b.size for b in self.buffers] or [0], np.int64)
        self.early = np.array([f[0] for f in self.flags] or [False])
        self.writable = np.array([f[1] for f in self.flags] or [False])

    def find(self, addresses: Array, width: int) -> Array:
        """Which buffer each access of `width` bytes lies in. Raises where that's none."""
        if (addresses & (width - 1)).any():
            bad = int(addresses[(addresses & (width - 1)) != 0][0])
            raise PtxError(f"misaligned {self.name} address {bad:#x} for {width} bytes")
        return self.find_range(addresses, width)

    def find_range(self, addresses: Array, width: int | Array) -> Array:
        """The same for any alignment."""
        index = np.maximum(np.searchsorted(self.starts, addresses, "right") - 1, 0)
        outside = (addresses < self.starts[index]) | (addresses + width > self.ends[index])
        if outside.any():
            raise PtxError(self._outside(int(addresses[outside][0]), int(index[outside][0])))
        return index

    def _outside(self, address: int, index: int) -> str:
        near = self.buffers[index] if self.buffers else None
        where = f": {address - near.address} in {near.name}[{near.size} bytes]" if near else ""
        return f"{self.name} address {address:#x} is outside of every range{where}"

    def load(self, addresses: Array, dtype: np.dtype, count: int) -> Array:
        """[n, count] elements from addresses[n], checked before."""
        width = dtype.itemsize * count
        return self.bytes.view(dtype).reshape(-1, count)[(addresses - self.base) // width]

    def store(self, addresses: Array, values: Array) -> None:
        """values[n, count] to addresses[n], checked before. The last of equal addresses wins."""
        count = values.shape[1]
        width = values.dtype.itemsize * count
        self.bytes.view(values.dtype).reshape(-1, count)[(addresses - self.base) // width] = values

    def margins_are_untouched(self) -> bool:
        outside = np.ones(len(self.bytes), bool)
        for buffer in self.buffers:
            outside[buffer.address - self.base :][: buffer.size] = False
        return bool((self.bytes[outside] == POISON).all())


@dataclass
class _Copy:
    """One cp.async of some threads."""

    threads: Array
    groups: Array  # of each thread, counted from 0
    to: Array
    source: Array
    sizes: Array  # bytes that are read, the rest is 0


class AsyncCopies:
    """cp.async as late as may be: until the wait the target is poisoned."""

    BYTES = 16

    def __init__(
        self, source: Memory, target: Memory, races: RaceDetector, num_threads: int
    ) -> None:
        self.source = source
        self.target = target
        self.races = races
        self.committed = np.zeros(num_threads, np.int64)
        self.pending: list[_Copy] = []

    def begin_block(self) -> None:
        self.committed[:] = 0
        self.pending.clear()

    def issue(self, threads: Array, to: Array, source: Array, sizes: Array) -> None:
        """All addresses checked before."""
        self.races.write(to, self.BYTES, threads)
        self.target.store(to, np.full((len(to), self.BYTES), POISON, np.uint8))
        self.pending.append(_Copy(threads, self.committed[threads], to, source, sizes))

    def commit(self, threads: Array) -> None:
        self.committed[threads] += 1

    def wait(self, threads: Array, allowed: int) -> None:
        """Until at most `allowed` of each thread's latest groups are pending."""
        waits = np.zeros(len(self.committed), bool)
        waits[threads] = True
        still = []
        for copy in self.pending:
            done = waits[copy.threads] & (copy.groups < self.committed[copy.threads] - allowed)
            self._finish(copy, done)
            if not done.all():
                kept = (a[~done] for a in vars(copy).values())
                still.append(_Copy(*kept))
        self.pending = still

    def _finish(self, copy: _Copy, done: Array) -> None:
        if not done.any():
            return
        to, sizes = copy.to[done], copy.sizes[done]
        bytes_ = np.zeros((len(to), self.BYTES), np.uint8)
        reads = sizes > 0
        # A partly read piece lies in its range only as far as it is read.
        at = copy.source[done][reads] - self.source.base
        index = np.minimum(at[:, None] + np.arange(self.BYTES), len(self.source.bytes) - 1)
        bytes_[reads] = self.source.bytes[index]
        bytes_[np.arange(self.BYTES) >= sizes[:, None]] = 0
        self.races.write(to, self.BYTES, copy.threads[done])
        self.target.store(to, bytes_)
