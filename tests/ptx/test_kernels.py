#!/usr/bin/env python3
"""Runs nvcc's own PTX of every kernel in cuda/ on small shapes, and compares with numpy.

usage: test_kernels.py --nvcc NVCC --flags=FLAGS --build FOLDER [--archs 80 90a ..]
                       [--partly 100a ..] [--jobs N] [PATTERN]

--partly: without attention, whose kernels take nvcc and this program longest. PATTERN picks
cases by a part of their names; then coverage and seeded faults are left out. The last line counts
kernels and cases. See ptx_machine.py for how it runs them, faults.py for what shows
that it can fail.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cases_attention
import faults
from launchers import Device, KernelSet
from module_files import Compiler, kernel_sources
from ptx_parse import PtxError

FAULT_ARCH = "90a"  # with its waits for the launch before
REVERSED_ARCHS = ("80", "100a")  # blocks run in descending order there


@dataclass(frozen=True)
class Task:
    kind: str  # case, faults or ldmatrix
    name: str  # of the case
    arch: str
    partly: bool = False  # without attention
    reverse: bool = False
    kernel: str = ""  # of faults


@dataclass
class Result:
    task: Task
    wrong: list[str] = field(default_factory=list)
    found: int = 0  # faults
    executed: dict[str, list[bool]] = field(default_factory=dict)
    seconds: float = 0


@functools.lru_cache(maxsize=1)
def load_kernels(compiler: Compiler, arch: str, partly: bool) -> KernelSet:
    return KernelSet([compiler.load(source, arch) for source in sources_of(partly)])


def sources_of(partly: bool) -> list[Path]:
    return [s for s in kernel_sources() if not (partly and s.name.startswith("attention"))]


def run_task(compiler: Compiler, task: Task) -> Result:
    result = Result(task)
    start = time.monotonic()
    if task.kind == "ldmatrix":
        result.found, result.wrong = faults.find_swapped_ldmatrix(compiler, task.arch)
    elif task.kind == "faults":
        kernels = load_kernels(compiler, task.arch, task.partly)
        result.found, result.wrong = faults.find_faults(kernels, task.kernel, task.name)
    else:
        run_case(load_kernels(compiler, task.arch, task.partly), result)
    result.seconds = time.monotonic() - start
    return result


def run_case(kernels: KernelSet, result: Result) -> None:
    kernels.executed.clear()
    try:
        faults.ALL_CASES[result.task.name](Device(kernels, result.task.reverse))
    except (PtxError, AssertionError) as error:
        result.wrong.append(str(error))
    except Exception:  # a mistake in a case: the others still run
        result.wrong.append(traceback.format_exc())
    result.executed = dict(kernels.executed)


def make_tasks(archs: list[str], partly: list[str], pattern: str) -> list[Task]:
    all_names = [name for name in faults.ALL_CASES if pattern in name]
    attention = {case.__name__ for case in cases_attention.CASES}
    tasks = []
    for arch in archs + partly:
        without = attention if arch in partly else set()
        tasks += [
            Task("case", name, arch, arch in partly, arch in REVERSED_ARCHS)
            for name in all_names
            if name not in without
        ]
    if FAULT_ARCH in archs and not pattern:
        tasks += [Task("faults", case, FAULT_ARCH, kernel=k) for k, case in faults.SUBJECTS]
        tasks.append(Task("ldmatrix", "gemm_64", FAULT_ARCH))
    return tasks


def report(result: Result) -> None:
    task = result.task
    order = ", blocks reversed" if task.reverse else ""
    for wrong in result.wrong:
        print(f"ptx: FAILED {task.kind} {task.name} on sm_{task.arch}{order}: {wrong}", flush=True)


def check_coverage(kernels: dict[str, tuple], arch: str, results: list[Result]) -> list[str]:
    """What must run and didn't: every kernel, and every one with each type of cache."""
    executed: dict[str, list[bool]] = {}
    for result in results:
        if result.task.arch == arch:
            for key, marks in result.executed.items():
                before = executed.get(key, marks)
                executed[key] = [a or b for a, b in zip(before, marks, strict=True)]
    print(f"ptx: sm_{arch}: instances not run: {', '.join(kernels.keys() - executed) or 'none'}")
    count = sum(map(len, executed.values()))
    print(f"ptx: sm_{arch}: {sum(map(sum, executed.values())) / count:.0%} of the instructions run")
    missing = {_must_run(key, kernels[key][1]) for key in kernels}
    missing -= {_must_run(key, kernels[key][1]) for key in executed}
    return [f"sm_{arch}: no case runs {name}" for name in sorted(missing)]


def _must_run(key: str, mangled: str) -> str:
    """The kernel's name; with the last template argument where that's the cache's type."""
    name, _, template = key.partition("<")
    return f"{name} of KvType {template.split()[-1][:-1]}" if "6KvType" in mangled else name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--flags", default="-std=c++20 -I. -Isrc")
    parser.add_argument("--build", required=True, type=Path)
    parser.add_argument("--archs", nargs="+", default=["80", "90a"])
    parser.add_argument("--partly", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("pattern", nargs="?", default="")
    args = parser.parse_args()

    start = time.monotonic()
    compiler = Compiler(args.nvcc, tuple(args.flags.split()), args.build.resolve())
    todo = [(s, a) for a in args.archs + args.partly for s in sources_of(a in args.partly)]
    compiler.compile_all(todo, args.jobs)
    seconds = [time.monotonic() - start]
    results, wrong = [], []
    with ProcessPoolExecutor(args.jobs) as pool:
        tasks = make_tasks(args.archs, args.partly, args.pattern)
        for result in pool.map(functools.partial(run_task, compiler), tasks):
            report(result)
            results.append(result)
    if not args.pattern:
        for arch in args.archs + args.partly:
            kernels = load_kernels(compiler, arch, arch in args.partly).kernels
            wrong += check_coverage(kernels, arch, results)
        for line in wrong:
            print(f"ptx: FAILED {line}")
    seconds.append(time.monotonic() - start - seconds[0])
    print(f"ptx: {seconds[0]:.0f} s of nvcc, {seconds[1]:.0f} s of running")
    return summarize(args.archs + args.partly, results, wrong)


def summarize(archs: list[str], results: list[Result], wrong: list[str]) -> int:
    cases = [r for r in results if r.task.kind == "case"]
    failed = sum(bool(r.wrong) for r in cases)
    missed = sum(len(r.wrong) for r in results if r.task.kind != "case")
    names = {key for r in cases for key in r.executed}
    print(
        f"ptx: {len(names)} kernels, {len({r.task.name for r in cases})} cases on "
        f"{', '.join('sm_' + a for a in archs)}: {len(cases) - failed} passed, {failed} failed; "
        f"{sum(r.found for r in results)} seeded faults found, {missed} missed"
    )
    return 1 if failed or missed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
