#!/usr/bin/env python3
"""Checks what nvcc made of the kernels: the instructions of every kernel on every architecture.

  - no local memory, no double arithmetic, no load through the path that isn't coherent;
  - on sm_90 and later, where launches overlap: the successor is let go before the wait; no path
    leaves without the wait; before it nothing is written to global memory and nothing is read but
    what KERNELS names, through the parameters that it names;
  - tensor-core and asynchronous-copy instructions where a kernel is built on them, and as many
    weights under way before the wait as its plan says;
  - instructions per weight of the small product's main loop.

usage: sass_gates.py [--figures] [--archs "80 90a"] [--self-test] [--venv DIR] [OBJECT...]
needs: cuobjdump and nvdisasm in PATH; with --venv they are else installed there with pip.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import sass

ROOT = pathlib.Path(__file__).resolve().parent.parent
MMA, LDMATRIX, COPY = "HMMA.16816.F32.BF16", "LDSM.16.M", "LDGSTS.E.BYPASS.128"
STREAMED = "LDG.E.NA.128"  # ptx::load_streamed()
CACHED = "LDG.E.128"  # ptx::load_cached()

# ---- What is expected ----

# The parameters that are pointers, by their offset in bytes (cuda/linear_epilogue.cuh,
# cuda/gemm.cu, cuda/kernels.h).
SMALL_LINEAR = {0: "out", 16: "x", 24: "hidden", 32: "row_indices", 40: "norm", 64: "weight",
                72: "bias", 104: "arrivals", 112: "partial_sums"}  # fmt: skip
GEMM = {0: "out", 16: "x", 32: "weight", 40: "bias"}
ATTENTION = {0: "out", 8: "qkv", 16: "q_norm", 24: "k_norm", 40: "rope_cos", 48: "rope_sin",
             56: "k_cache", 64: "v_cache", 112: "positions", 120: "slot_mapping",
             128: "query_start_loc", 136: "seq_lens", 144: "block_tables", 160: "tiles",
             176: "scratch", 192: "counters", 200: "softmax", 208: "partial_out"}  # fmt: skip
# What the host writes before a step, and the cache of the steps before.
STEP_INPUTS = "tiles positions slot_mapping query_start_loc seq_lens block_tables"
CACHES = "k_cache v_cache"


def small_linear(columns, rows, normed):
    """Template arguments: tiles of x, tiles of W, whether x is normed on the way."""
    tiles = int(columns) * int(rows)
    # linear_small.cu, Plan::kWeights.
    steps = 8 if tiles == 1 else 2 if tiles > 4 else 6 if (columns, rows) == ("2", "1") else 4
    loads = {STREAMED: steps * int(rows) * 2}
    if normed == "true":
        loads[CACHED] = 1
    return {
        "has": [MMA],
        "before_wait": loads,
        "through": "weight norm" if normed == "true" else "weight",
        "pointers": SMALL_LINEAR,
        "per_weight": BUDGETS[columns, rows],
    }


# Most instructions of a lane per weight in the main loop, <tiles of x, tiles of W>: what the
# kernels have and a little more. What a GPU has is 128 lanes x multiprocessors x clock over the
# weights per second that its data sheet's bandwidth brings: an H200 13.9, a B200 about 9.
BUDGETS = {
    ("1", "1"): 2.7,
    ("1", "2"): 2.2,
    ("2", "1"): 3.3,
    ("2", "2"): 3.2,
    ("4", "1"): 5.4,
    ("4", "2"): 4.8,
    ("8", "2"): 9.5,
}


def gemm(tile_m, tile_n):
    stages_ahead, copies = 2, int(tile_n) // 32  # of W: a thread copies every 32nd row
    return {
        "has": [MMA, LDMATRIX, COPY],
        "before_wait": {COPY: stages_ahead * copies},
        "through": "weight",
        "pointers": GEMM,
    }


def decode_attention(dims, kv_type):
    row_bytes = int(dims) * (2 if kv_type == "0" else 1)
    stages = 2 if row_bytes <= 256 else 1
    # A block of 16 tokens, 32 lanes at a time; the copy of an incomplete block; scales.
    copies = 16 * row_bytes // 16 // 32 + 1 + (kv_type != "0")
    return {
        "has": [MMA, LDMATRIX, COPY, "MOVM.16.MT88", "SHFL.BFLY"],
        "before_wait": {COPY: 2 * stages * copies, "LDG.E": any},
        "through": f"{STEP_INPUTS} {CACHES}",
        "pointers": ATTENTION,
    }


def prefill_attention(dims, kv_type):
    del dims, kv_type
    return {"has": [MMA, LDMATRIX, COPY]}


# Kernel -> {has: instructions that must be there; before_wait: how many loads of which kind stand
# before the wait; through: the parameters that those may read through; pointers: of the parameters;
# per_weight: most instructions of a lane per weight}. Others: none of these, and nothing is read
# before the wait.
KERNELS = [
    (r"small_linear_kernel<(\d), (\d), (\w+)>", small_linear),
    (r"gemm_kernel<(\d+), (\d+)>", gemm),
    (r"decode_attention_kernel<(\d+), \(KvType\)(\d)>", decode_attention),
    (r"prefill_attention_kernel<(\d+), \(KvType\)(\d)>", prefill_attention),
    (r".*", lambda: {}),
]

FORBIDDEN = {
    r"(LDL|STL)\b": "local memory",
    r"D(ADD|MUL|FMA|SETP|MNMX)\b|.*\.F64": "double arithmetic",
    r"LDG\..*CONSTANT": "loads through the path that isn't coherent",
}


# ---- Checks ----


def expectations(kernel):
    for pattern, make in KERNELS:
        m = re.fullmatch(pattern, kernel.name)
        if m:
            return make(*m.groups())
    raise AssertionError


def check_kernel(kernel):
    """(faults, figures by name)."""
    expected = expectations(kernel)
    faults = []
    for pattern, what in FORBIDDEN.items():
        found = [x for x in kernel.code if re.match(pattern, x.op)]
        if found:
            faults.append(f"{what}: {len(found)} x {found[0].op}")
    for op in expected.get("has", []):
        if not kernel.count(op):
            faults.append(f"no {op}")
    figures = {}
    if launches_overlap(kernel.arch):
        faults += check_wait(kernel, expected, figures)
    if "per_weight" in expected:
        faults += check_budget(kernel, expected, figures)
    return faults, figures


def launches_overlap(arch):
    return int(re.match(r"sm_(\d+)", arch)[1]) >= 90


def check_wait(kernel, expected, figures):
    faults = []
    walk = sass.walk_until(kernel, "ACQBULK")
    if walk.exit:
        return [f"a path leaves at {walk.exit.address:#x} without the wait for the launch before"]
    before = [x for x, _ in walk.seen]
    if not any(x.op == "PREEXIT" for x in before):
        faults.append("the next launch isn't let go before the wait")
    for x in before:
        if x.is_a("STG", "RED", "REDG", "ATOM", "ATOMG", "ST"):
            faults.append(f"{x.op} at {x.address:#x} before the wait")

    allowed = expected.get("before_wait", {})
    reads = [(x, made_of) for x, made_of in walk.seen if x.is_a("LDG", "LDGSTS", "LD")]
    counts = {}
    for x, _ in reads:
        # ZFILL: a copy of fewer bytes.
        op = x.op.removesuffix(".ZFILL")
        counts[op] = counts.get(op, 0) + 1
    for op in sorted({*counts, *allowed}):
        count, wanted = counts.get(op, 0), allowed.get(op, 0)
        if wanted is not any and count != wanted:
            faults.append(f"{count} x {op} before the wait, expected {wanted}")
    figures["before the wait"] = sum(n for op, n in counts.items() if ".128" in op)
    pointers = expected.get("pointers", {})
    names = expected.get("through", "").split()
    wrong = {}
    for x, made_of in reads:
        through = sorted(pointers[o] for o in made_of if o in pointers)
        if len(through) != 1 or through[0] not in names:
            wrong.setdefault("/".join(through) or "no known parameter", []).append(x)
    for through, found in wrong.items():
        where = f"{found[0].op} at {found[0].address:#x}"
        faults.append(f"reads through {through} before the wait: {where}")
    return faults


def check_budget(kernel, expected, figures):
    loop = sass.main_loop(kernel, lambda x: x.op == STREAMED)
    if loop is None:
        return [f"no loop with {STREAMED}"]
    weights = 8 * sum(x.op == STREAMED for x in loop)
    per_weight = figures["instructions per weight"] = len(loop) / weights
    planned = 8 * expected["before_wait"][STREAMED]
    faults = []
    if weights % planned != 0:
        faults.append(f"a pass of the main loop loads {weights} weights, expected {planned}")
    if per_weight > expected["per_weight"]:
        limit = expected["per_weight"]
        faults.append(f"{per_weight:.2f} instructions per weight, expected at most {limit}")
    return faults


def check(kernels, archs, show_figures):
    """Prints what is wrong; how many kernels that are."""
    bad = 0
    for kernel in kernels:
        faults, figures = check_kernel(kernel)
        bad += bool(faults)
        for fault in faults:
            print(f"gates: {kernel.name} | {kernel.arch}: {fault}")
        if show_figures and figures:
            print(f"{kernel.name} | {kernel.arch} | " + " | ".join(
                f"{name} {value:.3g}" for name, value in figures.items()))  # fmt: skip
    names = sorted({k.name for k in kernels})
    there = {(k.name, k.arch) for k in kernels}
    for name in names:
        missing = [a for a in archs if (name, f"sm_{a}") not in there]
        bad += bool(missing)
        if missing:
            print(f"gates: {name}: not built for sm_{', sm_'.join(missing)}")
    found = len({k.arch for k in kernels})
    verdict = f"{bad} FAILED" if bad else "ok"
    print(f"gates: {len(names)} kernels on {found} architectures: {verdict}")
    return bad


# ---- Faults that must be found ----

# What is wrong: (file that is compiled, file that is changed, what is replaced, by what, what must
# be said).
SELF_TEST = {
    "load_streamed() through the path that isn't coherent": (
        "linear_small.cu", "ptx.cuh",
        "ld.global.L1::no_allocate.v4", "ld.global.nc.L1::no_allocate.v4", "coherent"),
    "the wait missing in the kernel without norm": (
        "linear_small.cu", "linear_small.cu",
        "} else {\n    ptx::wait_for_predecessor();", "} else {", "without the wait"),
    "weights requested after the wait": (
        "linear_small.cu", "linear_small.cu", "ptx::let_successor_start();",
        "ptx::let_successor_start();\n  ptx::wait_for_predecessor();", "before the wait, expected"),
    "x read before the wait": (
        "linear_small.cu", "linear_small.cu", "ptx::let_successor_start();",
        "ptx::let_successor_start();\n  if (ptx::load_cached(p.x).x == 1) p.m = 0;",
        "reads through x"),
    "an array in local memory": (
        "linear_small.cu", "linear_small.cu", "  float sums[kRowTiles][kColumnTiles][4];",
        "  float sums[kRowTiles][kColumnTiles][4];\n  volatile float far[64];\n"
        "  far[p.m] = p.normed.eps; sums[0][0][0] = far[p.m + 1];", "local memory"),
    "a sum in double": (
        "linear_small.cu", "linear_epilogue.cuh", "float sum = part[0][column][row];",
        "double sum = part[0][column][row];", "double"),
    "threads that leave before the wait": (
        "rows.cu", "rows.cu", "  ptx::wait_for_predecessor();\n  const int i = first_column<1>();\n"
        "  if (i >= n) return;\n", "  const int i = first_column<1>();\n  if (i >= n) return;\n"
        "  ptx::wait_for_predecessor();\n", "without the wait"),
}  # fmt: skip


def faults_of(compiled, changed, old, new):
    """What the checks say of a file with something replaced."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "cuda", f"{folder}/cuda")
        path = pathlib.Path(folder, "cuda", changed)
        text = path.read_text()
        if old not in text:
            return [f"cuda/{changed} has no {old!r}"]
        path.write_text(text.replace(old, new, 1))
        # The variants for few rows are enough, and quicker to compile.
        source = pathlib.Path(folder, "cuda", compiled)
        text = re.sub(r"launch_variant<[248], \d", "launch_variant<1, 1", source.read_text())
        source.write_text(text)
        command = [nvcc, "-std=c++20", "-O3", "-arch=sm_90a", f"-I{folder}", f"-I{ROOT}/src"]
        subprocess.run([*command, "-c", "-o", f"{folder}/x.o", source], check=True,
                       stderr=subprocess.DEVNULL)  # fmt: skip
        kernels = sass.read_objects([f"{folder}/x.o"])
    return [fault for kernel in kernels for fault in check_kernel(kernel)[0]]


def self_test():
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = {name: pool.submit(faults_of, *case[:4]) for name, case in SELF_TEST.items()}
        for name, result in results.items():
            found = any(SELF_TEST[name][4] in fault for fault in result.result())
            failed += not found
            verdict = "found" if found else f"NOT FOUND in {result.result()}"
            print(f"gates: seeded fault, {name}: {verdict}")
    return failed


# ---- Command ----


def find_tools(venv):
    """Puts cuobjdump and nvdisasm in PATH, from a virtual environment if need be; whether there are
    any."""
    if shutil.which("cuobjdump") and shutil.which("nvdisasm"):
        return True
    if venv:
        installed = "lib/python3*/site-packages/nvidia/cu*/bin"
        if not list(pathlib.Path(venv).glob(f"{installed}/nvdisasm")):
            subprocess.run([sys.executable, "-m", "venv", venv], check=False)
            subprocess.run([f"{venv}/bin/python", "-m", "pip", "install", "-q",
                            "--disable-pip-version-check", "nvidia-cuda-cuobjdump",
                            "nvidia-cuda-nvdisasm"], check=False, timeout=300)  # fmt: skip
        folders = map(str, sorted(pathlib.Path(venv).resolve().glob(installed)))
        os.environ["PATH"] = os.pathsep.join([*folders, os.environ["PATH"]])
    return bool(shutil.which("cuobjdump") and shutil.which("nvdisasm"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("objects", nargs="*")
    parser.add_argument("--archs", default="", help="what every kernel must be built for")
    parser.add_argument("--venv", help="where to install the tools if PATH has none")
    parser.add_argument("--figures", action="store_true", help="print figures of each kernel")
    parser.add_argument("--self-test", action="store_true", help="seeded faults must be found")
    args = parser.parse_args()
    if not find_tools(args.venv):
        print("gates: skipped: no cuobjdump and nvdisasm in PATH, and pip couldn't install them "
              "(nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm)")  # fmt: skip
        return int(os.environ.get("LLM_REQUIRE_DATA") == "1")
    failed = 0
    if args.objects:
        failed += check(sass.read_objects(args.objects), args.archs.split(), args.figures)
    if args.self_test:
        failed += self_test()
    return min(1, failed)


if __name__ == "__main__":
    sys.exit(main())
