"""Compiles cuda/*.cu to PTX, one file an architecture, and finds the kernels in it."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernel_args import Signature, parse_signature
from ptx_parse import Module

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class CompiledFile:
    """A .cu file's PTX for one architecture."""

    file: str  # gemm.cu
    arch: str
    module: Module
    kernels: dict[str, Signature]  # by mangled name


@dataclass(frozen=True)
class Compiler:
    """What is up to date in the folder isn't compiled again."""

    nvcc: str
    flags: tuple[str, ...]  # the Makefile's, apart from architectures
    folder: Path
    root: Path = ROOT

    def path(self, source: Path, arch: str) -> Path:
        return self.folder / f"{source.stem}.{arch}.ptx"

    def compile(self, source: Path, arch: str) -> None:
        to = self.path(source, arch)
        patterns = ("Makefile", "cuda/*.h", "cuda/*.cuh", "src/backend/*.h")
        inputs = [source, *(header for p in patterns for header in self.root.glob(p))]
        if to.exists() and to.stat().st_mtime > max(i.stat().st_mtime for i in inputs):
            return
        part = to.with_suffix(".part")
        flags = [*self.flags, f"-arch=compute_{arch}", "-ptx", "-o", str(part)]
        command = [self.nvcc, *flags, str(source.relative_to(self.root))]
        subprocess.run(command, cwd=self.root, check=True)
        part.rename(to)

    def compile_all(self, todo: list[tuple[Path, str]], jobs: int) -> None:
        """Files, each for an architecture; the slow ones first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        todo = sorted(todo, key=lambda x: -x[0].stat().st_size)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda x: self.compile(*x), todo))

    def load(self, source: Path, arch: str) -> CompiledFile:
        return load_text(source.name, arch, self.path(source, arch).read_text())


def load_text(file: str, arch: str, text: str) -> CompiledFile:
    module = Module(text)
    names = list(module.entries)
    demangled = subprocess.run(
        ["c++filt", *names], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    kernels = {n: parse_signature(d, file) for n, d in zip(names, demangled, strict=True)}
    return CompiledFile(file, arch, module, kernels)


def kernel_sources(root: Path = ROOT) -> list[Path]:
    return sorted(root.glob("cuda/*.cu"))
