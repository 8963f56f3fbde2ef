#!/usr/bin/env python3
"""Shows that the checks of the kernels can fail: takes each barrier, fence, wait and bounds mask
out of cuda/ in turn (mutation_sites.py says which), and expects a layer of checks to notice:

  gates    what nvcc makes of it (sass_gates.py): for waits for the launch before, which aren't
           tried without
  values   the file's tests in the emulator, in all its schedules
  races    the same tests with the race detector, which sees what is out of bounds too
  asan     the same with AddressSanitizer, where `make asan` has built that
  ptx      nvcc's PTX in the interpreter (tests/ptx), where that and its numpy are

A mutant that none of them notices must be explained in the table of results.

usage: mutate_kernels.py --build DIR [--seed N --count 10 | --only ID ... | --all] [--list]
                         [--results FILE] [--resume] [--jobs N] [--timeout SECONDS]
needs: `make llm_tests race_tests`, done; nvcc for gates and ptx
"""

import argparse
import concurrent.futures
import dataclasses
import datetime
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutation_sites
import sass
import sass_gates

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/cuda/mutation_results.txt"
NVCC = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
# Parts of the names of tests/ptx's cases, by file.
PTX_CASES = {"gemm": "gemm", "linear_small": "small_linear", "attention_decode": "decode",
             "attention_prefill": "prefill"}  # fmt: skip


class Broken(Exception):
    """The mutant says nothing: it doesn't compile, or a tool is missing."""


def all_mutants():
    mutants = []
    for path in sorted((ROOT / "cuda").glob("*.cu*")):
        if path.name != "ptx.cuh":
            mutants += mutation_sites.find_mutants(path.name, path.read_text())
    return mutants


def kernel_files(changed):
    """The .cu files that include cuda/CHANGED, or are it."""
    text = {p.name: p.read_text() for p in (ROOT / "cuda").glob("*.*u*") if p.is_file()}

    def reaches(name):
        included = re.findall(r'#include "cuda/([\w.]+)"', text.get(name, ""))
        return name == changed or any(map(reaches, included))

    return [name for name in sorted(text) if name.endswith(".cu") and reaches(name)]


# ---- make's own commands ----


class Commands:
    """How make compiles a kernel's file for a folder of objects, and links a test program."""

    def __init__(self, build):
        self.build = build
        self.compile = {}  # object -> command
        self.link = {}  # program -> command

    def read(self, build, programs, variables=()):
        touched = [f"-W{p.relative_to(ROOT)}" for p in (ROOT / "cuda").glob("*.cu")]
        targets = [f"{build}/{program}" for program in programs]
        command = ["make", "-n", "V=1", f"BUILD={build}", *variables, *touched, *targets]
        output = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
        for line in output.stdout.splitlines():
            command = shlex.split(line.split(" && ")[-1])
            if "-o" not in command:
                continue
            to = command[command.index("-o") + 1]
            if to in targets:
                # The tests of the rest of the program aren't needed.
                other = re.compile(rf"{re.escape(str(build))}/tests/\w+_test\.o")
                self.link[to] = [x for x in command if not other.fullmatch(x)]
            elif to.endswith(".o"):
                self.compile[to] = command

    def make_program(self, program, objects, mutant, scratch):
        """Compiles the mutant's files, each {source: object}, and links."""
        replaced = {}
        for source, name in objects.items():
            command = [{"-O2": "-O1", "-g1": "-g0"}.get(x, x) for x in self.compile[name]]
            command[command.index("-I.")] = f"-I{scratch}"
            command[command.index("-o") + 1] = replaced[name] = f"{scratch}/{source}.o"
            command[command.index(f"cuda/{source}")] = f"{scratch}/cuda/{source}"
            run_or_break(command, mutant)
        link = [replaced.get(x, x) for x in self.link[program]]
        link[link.index("-o") + 1] = f"{scratch}/program"
        for linker in ("lld", "gold"):
            if shutil.which(f"ld.{linker}"):
                link += [f"-fuse-ld={linker}"]
                break
        run_or_break([*link, "-Wl,--strip-debug"], mutant)
        return f"{scratch}/program"


def run_or_break(command, mutant):
    result = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)  # fmt: skip
    if result.returncode != 0:
        raise Broken(f"{mutant.id}: {shlex.join(command)[:300]}\n{result.stdout[-2000:]}")


# ---- Layers: each says what noticed, or "" ----


@dataclasses.dataclass
class Bench:
    commands: Commands
    timeout: float
    there: list = dataclasses.field(default_factory=lambda: ["values", "races"])  # layers

    def __post_init__(self):
        build = self.commands.build
        if os.path.exists(NVCC) and sass_gates.find_tools(f"{build}/venv"):
            self.there.insert(0, "gates")
        if os.path.exists(f"{build}/asan/llm_tests"):
            flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
            self.commands.read(f"{build}/asan", ["llm_tests"], ["WITH_CUDA=0", "CXXFLAGS=-O1 -g1",
                               f"SANITIZE={flags} -fno-omit-frame-pointer"])  # fmt: skip
            self.there.append("asan")
        numpy = [f"{build}/venv/bin/python", "-c", "import numpy"]
        if (ROOT / "tests/ptx").exists() and os.path.exists(NVCC) and os.path.exists(numpy[0]):
            if subprocess.run(numpy, stderr=subprocess.DEVNULL).returncode == 0:
                self.there.append("ptx")

    def layers(self, mutant):
        names = [x for x in self.there if x != "gates" or mutant.kind == "wait"]
        return [getattr(self, name) for name in names]

    def run_tests(self, program, folder, mutant, scratch):
        files = kernel_files(mutant.file)
        objects = {f: f"{folder}/cuda/{f[:-3]}.o" for f in files}
        binary = self.commands.make_program(program, objects, mutant, scratch)
        tests = ",".join(f"*cuda/{f[:-3]}_test*" for f in files)
        # In processor time: the machine may be busy.
        limit = f'ulimit -t {self.timeout:.0f} && exec "$0" "$@"'
        command = ["bash", "-c", limit, binary, f"-sf={tests}", "-aa=1"]
        result = subprocess.run(command, cwd=ROOT, text=True, errors="replace",
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        if result.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "hang"
        if result.returncode == 0:
            if not re.search(r"[1-9]\d* passed, 0 failed", result.stdout):
                raise Broken(f"{mutant.id}: no test of {tests}")
            return ""
        test = re.search(r"TEST CASE: +(.*)", result.stdout)
        return test[1].strip() if test else f"exit code {result.returncode}"

    def values(self, mutant, scratch):
        build = self.commands.build
        return self.run_tests(f"{build}/llm_tests", f"{build}/emu", mutant, scratch)

    def races(self, mutant, scratch):
        build = self.commands.build
        return self.run_tests(f"{build}/race_tests", f"{build}/race", mutant, scratch)

    def asan(self, mutant, scratch):
        build = f"{self.commands.build}/asan"
        return self.run_tests(f"{build}/llm_tests", f"{build}/emu", mutant, scratch)

    def gates(self, mutant, scratch):
        for file in kernel_files(mutant.file):
            run_or_break([NVCC, "-std=c++20", "-O3", "-arch=sm_90a", f"-I{scratch}", "-Isrc", "-c",
                          "-o", f"{scratch}/x.o", f"{scratch}/cuda/{file}"], mutant)  # fmt: skip
            for kernel in sass.read_objects([f"{scratch}/x.o"]):
                faults, _ = sass_gates.check_kernel(kernel)
                if faults:
                    return f"{kernel.name}: {faults[0]}"
        return ""

    def ptx(self, mutant, scratch):
        python = os.path.abspath(f"{self.commands.build}/venv/bin/python")
        files = kernel_files(mutant.file)
        for other in pathlib.Path(scratch, "cuda").glob("*.cu"):
            if other.name not in files:
                other.unlink()
        shutil.copytree(ROOT / "tests/ptx", f"{scratch}/tests/ptx", dirs_exist_ok=True)
        os.symlink(ROOT / "src", f"{scratch}/src")
        for file in files:
            pattern = PTX_CASES.get(file[:-3], mutant.function.removesuffix("_kernel"))
            command = [python, f"{scratch}/tests/ptx/test_kernels.py", "--nvcc", NVCC, "--archs",
                       "90a", "--build", f"{scratch}/ptx", "--jobs", "1", pattern]  # fmt: skip
            result = subprocess.run(command, cwd=scratch, text=True, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT)  # fmt: skip
            if result.returncode != 0:
                failed = re.search(r"FAILED (.*)", result.stdout)
                if not failed:
                    raise Broken(f"{mutant.id}: {shlex.join(command)}\n{result.stdout[-2000:]}")
                return failed[1]
        return ""


@dataclasses.dataclass
class Result:
    verdict: str  # layer: what noticed; or "survived"
    seconds: float = 0
    explanation: str = ""  # of a survivor


def try_mutant(bench, mutant):
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "cuda", f"{scratch}/cuda")
        path = pathlib.Path(scratch, "cuda", mutant.file)
        path.write_text(mutant.apply(path.read_text()))
        for layer in bench.layers(mutant):
            noticed = layer(mutant, scratch)
            if noticed:
                return Result(f"{layer.__name__}: {noticed[:90]}", time.monotonic() - start)
    return Result("survived", time.monotonic() - start)


# ---- The table: id | what is replaced => by what | verdict | seconds [| explanation] ----


def describe(mutant, texts):
    old = texts[mutant.file][mutant.begin : mutant.end]
    return " ".join(f"{old} => {mutant.replacement}".split()).replace("|", "/")


def read_table(path):
    """(id, description) -> Result."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [c.strip() for c in line.split(" | ")]
        if len(cells) >= 4 and not line.startswith("#"):
            explanation = cells[4] if len(cells) > 4 else ""
            results[cells[0], cells[1]] = Result(cells[2], float(cells[3]), explanation)
    return results


def write_table(path, mutants, texts, results):
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True,
                            stdout=subprocess.PIPE).stdout.strip()  # fmt: skip
    compilers = []
    for compiler in filter(shutil.which, (NVCC, "g++")):
        output = subprocess.run([compiler, "--version"], text=True, stdout=subprocess.PIPE).stdout
        version = max(re.findall(r"[0-9]+[.][0-9.]+", output), key=len)
        compilers.append(f"{pathlib.Path(compiler).name} {version}")
    done = [(m, results[m.id, describe(m, texts)]) for m in mutants
            if (m.id, describe(m, texts)) in results]  # fmt: skip
    survivors = sum(r.verdict == "survived" for _, r in done)
    lines = [
        f"# {datetime.date.today()}, commit {commit}, {', '.join(compilers)}",
        f"# {len(done)} of {len(mutants)} mutants tried, {survivors} not noticed",
        "# mutant | what is replaced => by what | noticed by | seconds | why it may stay unnoticed",
    ]
    for mutant, r in done:
        line = f"{mutant.id} | {describe(mutant, texts)} | {r.verdict} | {r.seconds:.0f}"
        lines.append(f"{line} | {r.explanation}" if r.explanation else line)
    path.write_text("\n".join(lines) + "\n")


# ---- Command ----


def choose(mutants, seed, count):
    """Some of each kind in turn."""
    rng = random.Random(seed)
    kinds = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for group in kinds.values():
        rng.shuffle(group)
    order = list(kinds.values())
    rng.shuffle(order)
    chosen = []
    while len(chosen) < count and any(order):
        chosen += [group.pop() for group in order if group]
    return chosen[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--only", nargs="+", metavar="ID")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, help="write a table there")
    parser.add_argument("--resume", action="store_true", help="leave out what that table has settled")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=180, help="processor seconds of a test program")
    args = parser.parse_args()
    os.chdir(ROOT)

    mutants = all_mutants()
    texts = {m.file: (ROOT / "cuda" / m.file).read_text() for m in mutants}
    if args.only:
        chosen = [m for m in mutants if m.id in args.only]
        unknown = set(args.only) - {m.id for m in chosen}
        if unknown:
            parser.error(f"no such mutant: {', '.join(sorted(unknown))} (--list shows all)")
    else:
        chosen = mutants if args.all else choose(mutants, args.seed, args.count)
    known = read_table(args.results or TABLE)
    if args.resume:
        settled = {key for key, r in known.items() if r.verdict != "survived" or r.explanation}
        chosen = [m for m in chosen if (m.id, describe(m, texts)) not in settled]
    if args.list:
        for m in chosen if args.only or args.resume else mutants:
            print(f"{m.id} | {describe(m, texts)}")
        return 0

    commands = Commands(args.build)
    commands.read(args.build, ["llm_tests", "race_tests"])
    bench = Bench(commands, args.timeout)
    print(f"mutants: {len(chosen)} of {len(mutants)}, layers: {', '.join(bench.there)}", flush=True)
    if "gates" not in bench.there:
        chosen = [m for m in chosen if m.kind != "wait"]
    survivors = broken = 0
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = {pool.submit(try_mutant, bench, m): m for m in chosen}
        for future in concurrent.futures.as_completed(futures):
            mutant = futures[future]
            key = (mutant.id, describe(mutant, texts))
            try:
                result = future.result()
            except Broken as error:
                broken += 1
                print(f"mutants: BROKEN {error}", flush=True)
                continue
            if result.verdict == "survived":
                result.explanation = known[key].explanation if key in known else ""
                survivors += not result.explanation
                verdict = f"not noticed: {result.explanation or 'NO EXPLANATION'}"
            else:
                verdict = result.verdict
            print(f"mutants: {mutant.id} | {verdict} | {result.seconds:.0f} s", flush=True)
            known[key] = result
            if args.results:
                write_table(args.results, mutants, texts, known)
    print(f"mutants: {len(chosen)} tried in {time.monotonic() - start:.0f} s: "
          f"{survivors} not noticed and not explained, {broken} broken")  # fmt: skip
    return min(1, survivors + broken)


if __name__ == "__main__":
    sys.exit(main())
