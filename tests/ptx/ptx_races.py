"""Detectors of accesses that nothing orders, whatever the order in which the machine runs them: by
two threads of a block in shared memory, by any two threads in global memory.

Two threads that write different bytes of one cell are a race here: 4 bytes of shared memory, 2 of
global memory.

Source: PTX ISA 9.0, chapter "Memory Consistency Model" (causality order: barriers, and fences with
an atomic operation between), simplified to the patterns that the kernels use.
"""

from __future__ import annotations

import numpy as np

from ptx_parse import PtxError

Array = np.ndarray


def cells_of(offsets: Array, width: int, threads: Array, cell: int) -> tuple[Array, Array]:
    """Cells of accesses of `width` bytes each, with the thread of each cell."""
    count = max(1, width // cell)
    cells = (offsets[:, None] // cell + np.arange(count)).reshape(-1)
    return cells, np.repeat(threads, count)


NOBODY = -1
SEVERAL = -2


class RaceDetector:
    """Finds pairs of accesses to shared memory by two threads that nothing orders.

    What orders: bar.sync all threads, bar.warp.sync those of a warp; shuffles and products order
    nothing. Since it goes by that and not by the order of execution, the machine may run all warps
    in step.
    """

    CELL = 4

    def __init__(self, base: int, size: int, num_threads: int) -> None:
        self.base = base
        cells = size // self.CELL
        self.writer = np.full(cells, NOBODY, np.int32)
        self.write_epoch = np.zeros(cells, np.int32)
        self.write_warp_epoch = np.zeros(cells, np.int32)
        self.reader = np.full(cells, NOBODY, np.int32)
        self.reader_warp = np.full(cells, NOBODY, np.int32)
        self.read_epoch = np.zeros(cells, np.int32)
        self.read_warp_epoch = np.zeros(cells, np.int32)
        self.atomic_epoch = np.full(cells, -1, np.int32)
        self.epoch = 0  # of the block: counts its barriers
        self.warp_epoch = np.zeros(num_threads // 32, np.int32)

    def begin_block(self) -> None:
        self.writer[:] = NOBODY
        self.reader[:] = NOBODY
        self.atomic_epoch[:] = -1

    def barrier(self) -> None:
        self.epoch += 1

    def warp_barrier(self, warps: Array) -> None:
        self.warp_epoch[warps] += 1

    def _check_writes(self, cells: Array, threads: Array, warps: Array, doing: str) -> None:
        writer = self.writer[cells]
        unordered = (writer != NOBODY) & (self.write_epoch[cells] == self.epoch)
        same_warp = writer // 32 == warps
        ordered = same_warp & (
            (writer == threads) | (self.write_warp_epoch[cells] != self.warp_epoch[warps])
        )
        self._report(unordered & ~ordered, cells, threads, writer, doing, "written")

    def _check_atomics(self, cells: Array, threads: Array, doing: str) -> None:
        """Plain accesses need a barrier after atomic ones."""
        race = self.atomic_epoch[cells] == self.epoch
        several = np.full(len(cells), SEVERAL)
        self._report(race, cells, threads, several, doing, "changed by atomics")

    def _check_reads(self, cells: Array, threads: Array, warps: Array, doing: str) -> None:
        reader = self.reader[cells]
        unordered = (reader != NOBODY) & (self.read_epoch[cells] == self.epoch)
        ordered = (self.reader_warp[cells] == warps) & (
            (reader == threads) | (self.read_warp_epoch[cells] != self.warp_epoch[warps])
        )
        self._report(unordered & ~ordered, cells, threads, reader, doing, "read")

    def _report(
        self, race: Array, cells: Array, threads: Array, others: Array, doing: str, done: str
    ) -> None:
        if not race.any():
            return
        i = int(np.flatnonzero(race)[0])
        other = f"thread {others[i]}" if others[i] >= 0 else "several threads"
        address = int(cells[i]) * self.CELL + self.base
        raise PtxError(
            f"race: thread {threads[i]} {doing} shared address {address:#x}, {done} by {other} "
            "with no barrier between"
        )

    def read(self, addresses: Array, width: int, threads: Array) -> None:
        cells, threads = cells_of(addresses - self.base, width, threads, self.CELL)
        warps = threads // 32
        self._check_writes(cells, threads, warps, "reads")
        self._check_atomics(cells, threads, "reads")
        now = self.warp_epoch[warps]
        fresh = (self.reader[cells] == NOBODY) | (self.read_epoch[cells] != self.epoch)
        same_warp = self.reader_warp[cells] == warps
        older = same_warp & (self.read_warp_epoch[cells] != now)
        mine = same_warp & (self.reader[cells] == threads)
        reader = np.where(fresh | older | mine, threads, SEVERAL)
        reader_warp = np.where(fresh | same_warp, warps, SEVERAL)
        self.reader[cells] = reader
        self.reader_warp[cells] = reader_warp
        # Where one instruction reads a cell several times, the last one has won.
        self.reader[cells[self.reader[cells] != reader]] = SEVERAL
        self.reader_warp[cells[self.reader_warp[cells] != reader_warp]] = SEVERAL
        self.read_epoch[cells] = self.epoch
        self.read_warp_epoch[cells] = now

    def write(self, addresses: Array, width: int, threads: Array) -> None:
        cells, threads = cells_of(addresses - self.base, width, threads, self.CELL)
        warps = threads // 32
        self._check_writes(cells, threads, warps, "writes")
        self._check_reads(cells, threads, warps, "writes")
        self._check_atomics(cells, threads, "writes")
        self.writer[cells] = threads
        twice = self.writer[cells] != threads
        self._report(twice, cells, threads, self.writer[cells], "writes", "written")
        self.write_epoch[cells] = self.epoch
        self.write_warp_epoch[cells] = self.warp_epoch[warps]

    def atomic(self, addresses: Array, threads: Array) -> None:
        """Of 4 bytes each; they need no order among themselves."""
        cells, threads = cells_of(addresses - self.base, self.CELL, threads, self.CELL)
        self._check_writes(cells, threads, threads // 32, "changes")
        self._check_reads(cells, threads, threads // 32, "changes")
        self.atomic_epoch[cells] = self.epoch


class PublicationDetector:
    """Finds reads and writes of global memory that the launch's own writes don't come before.

    In a block, a barrier must lie between two threads' accesses. From another block, what a thread
    wrote counts as written once it was published: by a fence of its own, a barrier and an atomic of
    its block (or a barrier, a fence and an atomic of one thread); and once the reader's block has
    done an atomic after that, and then the reader a barrier and a fence. Atomics themselves and
    reads that come before a write aren't watched.
    """

    CELL = 2

    def __init__(self, base: int, size: int, num_threads: int, num_blocks: int) -> None:
        self.base = base
        cells = size // self.CELL
        # Of the last write: block (from 1), thread, epoch, and the thread's fences until then.
        self.block_of = np.zeros(cells, np.int32)
        self.thread_of = np.zeros(cells, np.int32)
        self.epoch_of = np.zeros(cells, np.int32)
        self.fences_of = np.zeros(cells, np.int32)
        # Of each block's last atomic.
        self.published_epoch = np.full(num_blocks + 1, -1)
        self.published_fences = np.zeros((num_blocks + 1, num_threads), np.int32)
        self.publisher = np.full(num_blocks + 1, -1)
        self.publisher_fenced = np.zeros(num_blocks + 1, bool)
        self.fences = np.zeros(num_threads, np.int32)
        self.fence_epoch = np.zeros(num_threads, np.int32)
        self.block = 0
        self.epoch = 0  # of all blocks: counts their barriers and beginnings

    def begin_block(self) -> None:
        self.block += 1
        self.epoch += 1
        self.fences[:] = 0
        self.fence_epoch[:] = -1

    def barrier(self) -> None:
        self.epoch += 1

    def fence(self, threads: Array) -> None:
        self.fences[threads] += 1
        self.fence_epoch[threads] = self.epoch

    def atomic(self, threads: Array) -> None:
        if len(threads) != 1:
            raise PtxError("atomics of several threads at once are not supported")
        thread = int(threads[0])
        self.published_epoch[self.block] = self.epoch
        self.published_fences[self.block] = self.fences
        self.publisher[self.block] = thread
        self.publisher_fenced[self.block] = self.fence_epoch[thread] == self.epoch

    def read(self, addresses: Array, width: int, threads: Array) -> None:
        cells, threads = cells_of(addresses - self.base, width, threads, self.CELL)
        self._check(cells, threads, "reads")

    def write(self, addresses: Array, width: int, threads: Array) -> None:
        cells, threads = cells_of(addresses - self.base, width, threads, self.CELL)
        self._check(cells, threads, "writes")
        self.block_of[cells] = self.block
        self.thread_of[cells] = threads
        if (self.thread_of[cells] != threads).any():
            raise PtxError("race: several threads write one global address")
        self.epoch_of[cells] = self.epoch
        self.fences_of[cells] = self.fences[threads]

    def _check(self, cells: Array, threads: Array, doing: str) -> None:
        block = self.block_of[cells]
        if not block.any():
            return
        mine = block == self.block
        same = mine & (self.thread_of[cells] == threads)
        in_block = mine & (self.epoch_of[cells] < self.epoch)
        across = ~mine & self._published(cells, block) & self._acquired(threads)
        race = ~(same | in_block | across | (block == 0))
        if race.any():
            i = int(np.flatnonzero(race)[0])
            whom = "of this block" if mine[i] else "of another block"
            address = int(cells[i]) * self.CELL + self.base
            raise PtxError(
                f"race: thread {threads[i]} {doing} global address {address:#x}, written by thread "
                f"{self.thread_of[cells[i]]} {whom}, without barrier, fence and atomic between"
            )

    def _published(self, cells: Array, block: Array) -> Array:
        """Whether the writer's block has done an atomic since, so that others see the write."""
        thread = self.thread_of[cells]
        own = self.publisher[block] == thread
        after = self.published_epoch[block] + own > self.epoch_of[cells]
        fenced = self.published_fences[block, thread] > self.fences_of[cells]
        return after & (fenced | self.publisher_fenced[block])

    def _acquired(self, threads: Array) -> Array:
        """Whether this block's atomic comes before what the threads do now."""
        publisher = self.publisher[self.block]
        after = self.published_epoch[self.block] + (threads == publisher) < self.epoch + 1
        fenced = self.fences[threads] > self.published_fences[self.block, threads]
        by_publisher = self.fences[publisher] > self.published_fences[self.block, publisher]
        return (publisher >= 0) & after & (fenced | by_publisher)
