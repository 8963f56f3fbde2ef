"""Shows that these tests can fail: kernels are broken one place at a time, and each must be found.

In nvcc's PTX: every barrier of a block or a warp, every fence and every wait for the launch before
taken out, every wait for copies weakened by one group, and waits for the launch before exchanged
with the access that follows. In the source: two outputs of the inline ldmatrix swapped, which an
emulation of the source can't see.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cases_attention
import cases_linear
import cases_rows
import cases_sample
from launchers import Device, KernelSet
from module_files import ROOT, Compiler
from ptx_parse import Immediate, Instruction, Kernel, PtxError

Case = Callable[[Device], None]
MODULES = (cases_rows, cases_linear, cases_attention, cases_sample)
ALL_CASES = {case.__name__: case for module in MODULES for case in module.CASES}

# Kernels, each with a case that reaches (almost) all of its waits and barriers.
SUBJECTS = [
    ("rms_norm_kernel", "rms_norm"),
    ("gemm_kernel<64, 64>", "gemm_64"),
    ("small_linear_kernel<1, 1, 0>", "small_linear_groups"),
    ("small_linear_kernel<8, 2, 0>", "small_linear_split"),
    ("small_linear_kernel<1, 1, 1>", "small_linear_normed_rows"),
    ("kv_append_kernel<0>", "prefill_24_bf16"),
    ("decode_attention_kernel<64, 0>", "decode_64_long_bf16"),
    ("decode_attention_kernel<64, 1>", "decode_64_long_f8e4m3"),
    ("decode_attention_kernel<64, 2>", "decode_64_appended_i8"),
    ("prefill_attention_kernel<64, 0>", "prefill_64_bf16"),
    ("prefill_attention_kernel<64, 2>", "prefill_64_i8"),
]

# Those of them whose next access after the wait is to what the launch before writes.
READ_AFTER_WAIT = {"rms_norm_kernel", "gemm_kernel<64, 64>", "small_linear_kernel<1, 1, 0>"}

# (kernel, instruction): places that may be left out one at a time, and why.
REDUNDANT = {
    ("prefill_attention_kernel<64, 0>", "cp.async.wait_group 0"): (
        "BF16 waits twice before its first step: once as every step does, once for the queries"
    ),
}


@dataclass(frozen=True)
class Fault:
    kernel: str
    case: str
    where: str  # instruction and place
    code: list[Instruction]


def _without(ins: Instruction) -> Instruction:
    return replace(ins, opcode="griddepcontrol.launch_dependents", operands=())


def _weakened(ins: Instruction) -> Instruction:
    return replace(ins, operands=(Immediate(str(int(ins.operands[0].text) + 1)),))


def _late_wait(code: list[Instruction], at: int) -> list[Instruction]:
    """The wait after the next access to global memory."""
    accesses = ("ld.global", "cp.async.cg")
    i = next(i for i in range(at, len(code)) if code[i].opcode.startswith(accesses))
    if any(ins.opcode == "bra.uni" for ins in code[at:i]):
        raise AssertionError("the access that follows a wait isn't reached from it")
    return [*code[:at], *code[at + 1 : i + 1], code[at], *code[i + 1 :]]


def faults_of(kernel: Kernel, name: str, case: str, executed: list[bool]) -> Iterator[Fault]:
    """For each wait, fence or barrier that the case comes across."""
    for at, ins in enumerate(kernel.code):
        if not executed[at]:
            continue
        where = f"{ins.text} ({ins.source})"
        code = list(kernel.code)
        if ins.opcode == "cp.async.wait_group":
            code[at] = _weakened(ins)
        elif ins.opcode in ("bar.sync", "bar.warp.sync", "membar.gl", "griddepcontrol.wait"):
            code[at] = _without(ins)
        else:
            continue
        yield Fault(name, case, where, code)
        if ins.opcode == "griddepcontrol.wait" and name in READ_AFTER_WAIT:
            yield Fault(name, case, f"{where}, late", _late_wait(kernel.code, at))


def run_case(kernels: KernelSet, case: str) -> str | None:
    """What it finds wrong."""
    try:
        ALL_CASES[case](Device(kernels))
    except (PtxError, AssertionError) as error:
        return str(error)
    return None


def find_faults(kernels: KernelSet, name: str, case: str) -> tuple[int, list[str]]:
    """How many of a kernel's faults the case finds, and those that it doesn't."""
    file, mangled, _ = kernels.kernels[name]
    kernel = file.module.kernel(mangled)
    kernels.executed.pop(name, None)
    if wrong := run_case(kernels, case):
        return 0, [f"{name}: {case} fails without a fault: {wrong}"]
    found, missed = 0, []
    for fault in faults_of(kernel, name, case, kernels.executed[name]):
        file.module.parsed[mangled] = replace(kernel, code=fault.code)
        if run_case(kernels, case):
            found += 1
        elif not any(name == k and fault.where.startswith(i) for k, i in REDUNDANT):
            missed.append(f"{name}: {case} passes without {fault.where}")
    file.module.parsed[mangled] = kernel
    return found, missed


def find_swapped_ldmatrix(compiler: Compiler, arch: str) -> tuple[int, list[str]]:
    """Two outputs swapped in a copy of ptx.cuh."""
    root = compiler.folder / "swapped"
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("cuda", "src/backend"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("*.cpp", "emu"))
    header = root / "cuda/ptx.cuh"
    text = header.read_text()
    plain = "x4.shared.b16 {%0,%1,%2,%3}"
    if text.count(plain) != 1:
        raise AssertionError(f"ptx.cuh has no {plain}")
    header.write_text(text.replace(plain, "x4.shared.b16 {%0,%2,%1,%3}"))
    of_copy = replace(compiler, folder=root / "ptx", root=root)
    kernels = _compile_one(of_copy, root / "cuda/gemm.cu", arch)
    if run_case(kernels, "gemm_64"):
        return 1, []
    return 0, ["gemm_64 passes with two outputs of ldmatrix swapped"]


def _compile_one(compiler: Compiler, source: Path, arch: str) -> KernelSet:
    compiler.folder.mkdir()
    compiler.compile(source, arch)
    return KernelSet([compiler.load(source, arch)])
