"""Reads the PTX text that nvcc writes into kernels: parameters, variables, instructions.

Source: PTX ISA 9.0, chapters "Syntax", "State Spaces, Types, and Variables" and "Instruction
Operands". What nvcc doesn't write isn't read: anything unknown raises with its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

TYPE_BYTES = {
    **{kind + bits: int(bits) // 8 for kind in "bsu" for bits in ("8", "16", "32", "64")},
    "f32": 4,
    "f64": 8,
    "pred": 1,
}


class PtxError(Exception):
    """What can't be read or run, or what a program does wrong."""


@dataclass(frozen=True)
class Register:
    name: str


@dataclass(frozen=True)
class Symbol:
    """A label, a variable or a parameter."""

    name: str


@dataclass(frozen=True)
class Immediate:
    text: str


@dataclass(frozen=True)
class Address:
    base: Register | Symbol
    offset: int


@dataclass(frozen=True)
class Vector:
    elements: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """value|predicate, what a shuffle writes."""

    value: Register
    predicate: Register


Operand = Register | Symbol | Immediate | Address | Vector | Pair


@dataclass(frozen=True)
class Instruction:
    opcode: str  # with its modifiers
    operands: tuple[Operand, ...]
    guard: str | None  # predicate register
    guard_negated: bool
    line: int  # of the PTX file
    source: str  # file:line of the CUDA source
    text: str


@dataclass(frozen=True)
class Variable:
    """A shared variable, or with its offset a parameter."""

    name: str
    size: int  # bytes; 0 for the launch's dynamic shared memory
    align: int
    offset: int = 0


@dataclass
class Kernel:
    name: str
    target: int  # 90 of sm_90a
    params: dict[str, Variable] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)  # name: type
    shared: dict[str, Variable] = field(default_factory=dict)
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # index into code
    threads: int = 0  # .maxntid, all dimensions

    @property
    def param_bytes(self) -> int:
        return max((p.offset + p.size for p in self.params.values()), default=0)


def _align_up(x: int, align: int) -> int:
    return (x + align - 1) // align * align


_VARIABLE = re.compile(
    r"(?:\.align (\d+) )?\.(\w+) (?:\.ptr (?:\.align \d+ )?)?([\w$]+)(\[\d*\])?$"
)


def _parse_variable(text: str) -> Variable:
    match = _VARIABLE.match(" ".join(text.split()))
    if not match or match[2] not in TYPE_BYTES:
        raise PtxError(f"unknown declaration: {text}")
    element = TYPE_BYTES[match[2]]
    count = 1 if match[4] is None else int(match[4][1:-1] or 0)
    return Variable(match[3], element * count, int(match[1] or element))


class _KernelParser:
    """One .entry: its header, then its body line by line."""

    def __init__(self, name: str, module: Module) -> None:
        self.kernel = Kernel(name, module.target)
        self.kernel.shared.update(module.shared)
        self.files = module.files
        self.scopes: list[dict[str, str]] = [{}]  # written name: register
        self.source = "?"
        self.line = 0
        self.rest = ""

    def parse_params(self, header: str) -> None:
        offset = 0
        for text in header.split(","):
            if not text.strip():
                continue
            declared = _parse_variable(text.strip().removeprefix(".param "))
            offset = _align_up(offset, declared.align)
            self.kernel.params[declared.name] = Variable(
                declared.name, declared.size, declared.align, offset
            )
            offset += declared.size

    def parse_line(self, text: str, number: int) -> None:
        text = text.split("//")[0].strip()
        if text.startswith(".loc"):
            file, line = text.split()[1:3]
            self.source = f"{self.files.get(int(file), '?')}:{line}"
            return
        if not self.rest:
            self.line = number
        self.rest = f"{self.rest} {text}".strip()
        while self.rest and self._take_one():
            self.line = number

    def _take_one(self) -> bool:
        """Takes a brace, a label or a statement; False where its end is on a later line."""
        if self.rest[0] in "{}":
            self._scope(self.rest[0])
            self.rest = self.rest[1:].lstrip()
            return True
        if label := re.match(r"([\w$]+):", self.rest):
            self.kernel.labels[label[1]] = len(self.kernel.code)
            self.rest = self.rest[label.end() :].lstrip()
            return True
        statement, semicolon, rest = self.rest.partition(";")
        if not semicolon:
            return False
        self._statement(statement.strip())
        self.rest = rest.lstrip()
        return True

    def _scope(self, brace: str) -> None:
        if brace == "{":
            self.scopes.append({})
        else:
            self.scopes.pop()

    def _statement(self, text: str) -> None:
        if not text.startswith("."):
            self.kernel.code.append(self._instruction(text))
        elif text.startswith(".reg"):
            self._declare_registers(text)
        elif text.startswith(".shared"):
            variable = _parse_variable(text.removeprefix(".shared "))
            self.kernel.shared[variable.name] = variable
        elif not text.startswith(".pragma"):
            raise PtxError(f"line {self.line}: unknown directive: {text}")

    def _declare_registers(self, text: str) -> None:
        _, kind, names = text.split(None, 2)
        for name in (n.strip() for n in names.split(",")):
            if many := re.match(r"(%\w+)<(\d+)>$", name):
                for i in range(int(many[2])):
                    self._declare(f"{many[1]}{i}", kind[1:])
            else:
                self._declare(name, kind[1:])

    def _declare(self, name: str, kind: str) -> None:
        # An inner scope's registers get names of their own.
        unique = name if len(self.scopes) <= 2 else f"{name}@{len(self.kernel.registers)}"
        self.scopes[-1][name] = unique
        self.kernel.registers[unique] = kind

    def _instruction(self, text: str) -> Instruction:
        text = " ".join(text.split())
        guard = re.match(r"@(!?)(%\w+) ", text)
        body = text[guard.end() :] if guard else text
        opcode, _, operands = body.partition(" ")
        try:
            parsed = tuple(self._operand(o) for o in _split_operands(operands))
        except PtxError as error:
            raise PtxError(f"line {self.line}: {error}: {text}") from None
        name = guard[2] if guard else None
        negated = bool(guard and guard[1])
        return Instruction(opcode, parsed, name, negated, self.line, self.source, text)

    def _operand(self, text: str) -> Operand:
        if text.startswith("{"):
            return Vector(tuple(self._operand(t.strip()) for t in text[1:-1].split(",")))
        if text.startswith("["):
            base, _, offset = text[1:-1].partition("+")
            return Address(self._name(base.strip()), int(offset or "0"))
        if "|" in text:
            return Pair(*(self._name(t.strip()) for t in text.split("|")))
        if re.match(r"-?\d", text):
            return Immediate(text)
        return self._name(text)

    def _name(self, text: str) -> Register | Symbol:
        for scope in reversed(self.scopes):
            if text in scope:
                return Register(scope[text])
        if text.startswith("%"):
            return Register(text)  # one of the special ones
        if re.match(r"[\w$]+$", text):
            return Symbol(text)
        raise PtxError(f"unknown operand {text!r}")


def _split_operands(text: str) -> list[str]:
    """At the commas outside of brackets."""
    return [t.strip() for t in re.findall(r"(?:\{[^}]*\}|\[[^]]*\]|[^,])+", text)]


class Module:
    """A PTX file. Kernels are parsed when they are asked for."""

    _ENTRY = re.compile(r"^(?:\.visible |\.weak )*\.entry ([\w$]+)\(", re.M)

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        target = re.search(r"^\.target sm_(\d+)", text, re.M)
        if not target:
            raise PtxError("not a PTX file: no .target")
        self.target = int(target[1])
        self.files = {
            int(number): path.split("/")[-1]
            for number, path in re.findall(r'^\s*\.file\s+(\d+) "([^"]*)"', text, re.M)
        }
        self.shared = {}
        for declaration in re.findall(r"^(?:\.extern )?\.shared ([^;{]*);", text, re.M):
            variable = _parse_variable(declaration)
            self.shared[variable.name] = variable
        self.entries = {
            match[1]: text.count("\n", 0, match.start()) for match in self._ENTRY.finditer(text)
        }
        self.parsed: dict[str, Kernel] = {}

    def kernel(self, name: str) -> Kernel:
        if name not in self.parsed:
            self.parsed[name] = self._parse(name)
        return self.parsed[name]

    def _parse(self, name: str) -> Kernel:
        parser = _KernelParser(name, self)
        at = self.entries[name]
        header = ""
        while not self.lines[at].startswith("{"):
            header += self.lines[at] + "\n"
            at += 1
        params, _, directives = header.partition("(")[2].rpartition(")")
        parser.parse_params(params)
        if threads := re.search(r"\.maxntid ([\d, ]+)", directives):
            sizes = [int(n) for n in threads[1].split(",")]
            parser.kernel.threads = sizes[0] * (sizes + [1])[1] * (sizes + [1, 1])[2]
        while not self.lines[at].startswith("}"):
            parser.parse_line(self.lines[at], at + 1)
            at += 1
        return parser.kernel
