"""Reads what `cuobjdump -sass` prints, and walks a kernel's instructions in every order that they
can be executed in. For sass_gates.py."""

import dataclasses
import re
import subprocess

INSTRUCTION = re.compile(
    r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P[0-9T]+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;"
)
REGISTER = re.compile(r"\b(?:UR|R|UP|P)\d+\b")
CONSTANT = re.compile(r"c\[0x0\]\[0x([0-9a-f]+)\]")
# Where a kernel's parameters begin in the constant bank.
PARAMETERS = {"sm_90": 0x210, "sm_100": 0x380, "sm_120": 0x380}


@dataclasses.dataclass
class Instruction:
    address: int
    guard: str  # "P0", "!P0", or "" where it's always executed
    op: str  # with its suffixes
    operands: list

    def is_a(self, *roots):
        return self.op.split(".")[0] in roots

    def target(self):
        return int(self.operands[-1].split()[-1], 16)

    def address_registers(self):
        """Of a global load or copy: the registers of (the lower half of) its address."""
        return REGISTER.findall(self.operands[1][self.operands[1].rindex("[") :])


@dataclasses.dataclass
class Kernel:
    name: str
    arch: str
    code: list

    def __post_init__(self):
        self.index = {x.address: i for i, x in enumerate(self.code)}

    def count(self, *prefixes):
        return sum(x.op.startswith(prefixes) for x in self.code)


def read_objects(files):
    """Every kernel of every architecture in the object files."""
    outputs = [subprocess.Popen(["cuobjdump", "-sass", f], stdout=subprocess.PIPE, text=True)
               for f in files]  # fmt: skip
    kernels = []
    for process in outputs:
        kernels += parse(process.stdout)
        if process.wait() != 0:
            raise SystemExit(f"{process.args}: exit code {process.returncode}")
    names = subprocess.run(["c++filt"], input="\n".join(k.name for k in kernels), text=True,
                           stdout=subprocess.PIPE, check=True)  # fmt: skip
    for kernel, name in zip(kernels, names.stdout.splitlines()):
        kernel.name = short_name(name)
    return kernels


def short_name(name):
    """small_linear_kernel<1, 2, true>: without namespaces, result and parameters."""
    name = re.sub(r"\(anonymous namespace\)::|\bllm::|^void ", "", name)
    return name[: name.rindex(">") + 1] if "<" in name.split("(")[0] else name.split("(")[0]


def parse(lines):
    kernels = []
    arch = ""
    for line in lines:
        m = INSTRUCTION.match(line)
        if m:
            address, guard, op, operands = m.groups()
            operands = [x.strip() for x in operands.split(",")]
            kernels[-1].code.append(Instruction(int(address, 16), guard or "", op, operands))
        elif "code for sm_" in line:
            arch = line.split()[-1]
        elif "Function :" in line:
            kernels.append(Kernel(line.split()[-1], arch, []))
    for kernel in kernels:
        kernel.__post_init__()
    return kernels


def registers(name, width):
    """R4, R5, .. `width` of them."""
    kind, number = re.match(r"(U?[RP])(\d+)", name).groups()
    return [f"{kind}{int(number) + i}" for i in range(width)]


def main_loop(kernel, is_part):
    """The instructions of the shortest loop that has one for which is_part() holds."""
    best = None
    for i, x in enumerate(kernel.code):
        if x.is_a("BRA") and x.target() < x.address:
            body = kernel.code[kernel.index[x.target()] : i + 1]
            if any(map(is_part, body)) and (best is None or len(body) < len(best)):
                best = body
    return best


# ---- What is executed before an instruction that all paths should meet ----


@dataclasses.dataclass
class Walk:
    """What can be executed before the barrier: [(instruction, parameters of its address)]. Where an
    EXIT is among it the walk ends there."""

    seen: list
    exit: Instruction


class Values:
    """What a path knows: of which parameters a register is made (`made_of`: offsets in bytes), also
    where a predicate holds (`made_if`: (register, predicate) -> them), and which registers are a
    function of constants alone (`constant`: register -> that function, as text)."""

    def __init__(self, made_of=None, made_if=None, constant=None):
        self.made_of = made_of or {}
        self.made_if = made_if or {}
        self.constant = constant or {}

    def copy(self):
        return Values(dict(self.made_of), dict(self.made_if), dict(self.constant))

    def join(self, other):
        """Whether anything changed."""
        before = (dict(self.made_of), dict(self.made_if), dict(self.constant))
        for r, offsets in other.made_of.items():
            self.made_of[r] = self.made_of.get(r, frozenset()) | offsets
        self.made_if = {r: o for r, o in self.made_if.items() if other.made_if.get(r) == o}
        self.constant = {r: f for r, f in self.constant.items() if other.constant.get(r) == f}
        return before != (self.made_of, self.made_if, self.constant)

    def parameters_of(self, names, guard):
        """That registers are made of where the predicate holds."""
        made_of = frozenset()
        for r in names:
            made_of |= self.made_if.get((r, guard), self.made_of.get(r, frozenset()))
        return made_of

    def text_of(self, operand):
        operand = operand.replace(".reuse", "")
        if operand in ("RZ", "URZ", "PT", "UPT", "!PT", "!UPT") or operand[:2] == "0x":
            return operand.replace("U", "")
        if CONSTANT.fullmatch(operand):
            return operand
        return self.constant.get(operand)

    def execute(self, x, base):
        """Takes over what the instruction leaves in its registers."""
        root = x.op.split(".")[0]
        if root == "R2P":
            self.constant = {r: f for r, f in self.constant.items() if "P" not in r}
        writes_none = ("BRA", "EXIT", "BSSY", "BSYNC", "STS", "STG", "LDGSTS", "CCTL")
        if root in writes_none or not x.operands[0]:
            return
        targets = [i for i, o in enumerate(x.operands[:3]) if re.fullmatch(r"U?R\d+", o)][:1]
        predicates = re.findall(r"(?<!!)\bU?P\d\b", " ".join(x.operands))
        for p in predicates:
            self.constant.pop(p, None)
            self.made_if = {k: o for k, o in self.made_if.items() if k[1].strip("!") != p}
        if "SETP" in root and not x.guard:
            sources = [self.text_of(o) for o in x.operands[2:]]
            if all(sources):
                if re.search(r"\.(NE|EQ)\b", x.op):
                    sources[:2] = sorted(sources[:2])
                self.constant[x.operands[0]] = f"{x.op.removeprefix('U')} {' '.join(sources)}"
        if "SETP" in root or root in ("PLOP3", "UPLOP3") or not targets:
            return
        sources = x.operands[targets[0] + 1 :]
        width = 4 if ".128" in x.op or root in ("HMMA", "LDSM") else 2
        if not (".64" in x.op or ".WIDE" in x.op or root == "CS2R" or width == 4):
            width = 1
        texts = [self.text_of(o) for o in sources]
        made_of = frozenset()
        if root not in ("LDG", "LDS", "LDSM", "S2R", "S2UR", "CS2R"):
            made_of = self.parameters_of(REGISTER.findall(" ".join(sources)), x.guard)
        for i, r in enumerate(registers(x.operands[targets[0]], width)):
            offsets = {int(c, 16) + 4 * i for o in sources for c in CONSTANT.findall(o)}
            new = made_of | {o // 8 * 8 - base for o in offsets if o >= base}
            self.made_if = {k: o for k, o in self.made_if.items() if k[0] != r}
            if x.guard:
                self.made_if[r, x.guard] = new
            # Nobody adds to what was loaded if it was loaded, and else to an address.
            keeps_old = x.guard and root != "LDG"
            self.made_of[r] = new | self.made_of.get(r, frozenset()) if keeps_old else new
            self.constant.pop(r, None)
        if x.guard or width != 1 or not all(texts):
            return
        if root in ("LDC", "ULDC", "LDCU", "PRMT", "UPRMT", "LOP3", "ULOP3"):
            name = x.op.removeprefix("U").replace("LDCU", "LDC")
            self.constant[x.operands[targets[0]]] = f"{name}({' '.join(texts)})"
        elif root in ("MOV", "UMOV", "R2UR") or x.op.startswith("IMAD.MOV"):
            self.constant[x.operands[targets[0]]] = texts[-1]


def walk_until(kernel, barrier):
    """All that can be executed without passing an instruction of the name `barrier` first. Branches
    on one parameter of type bool all go the same way."""
    base = PARAMETERS[re.match(r"sm_\d+", kernel.arch)[0]]
    rejoin = {}  # the barrier registers of BSSY: where BSYNC may lead
    for x in kernel.code:
        if x.is_a("BSSY"):
            rejoin.setdefault(x.operands[0], set()).add(x.target())
    states = {(0, frozenset()): Values()}
    todo = [(0, frozenset())]
    seen = {}
    exit_before = None
    while todo and not exit_before:
        at, known = key = todo.pop()
        x = kernel.code[at]
        values = states[key].copy()
        next_address = x.address + 0x10
        condition = guard_of(x)
        taken = skipped = True  # whether it can be executed, or not
        if_taken = if_skipped = known
        if condition:
            text = values.text_of(condition.removeprefix("!"))
            if text:
                holds, fails = (text, True), (text, False)
                if condition[0] == "!":
                    holds, fails = fails, holds
                taken, skipped = fails not in known, holds not in known
                if is_of_bool(text):
                    if_taken, if_skipped = known | {holds}, known | {fails}
        else:
            skipped = False
        if taken:
            made_of = frozenset()
            if x.is_a("LDG", "LDGSTS"):
                made_of = values.parameters_of(x.address_registers(), x.guard)
            seen[at] = seen.get(at, frozenset()) | made_of
        following = []
        if skipped:
            following.append((next_address, if_skipped))
        if not taken or x.op == barrier:
            pass
        elif x.is_a("EXIT"):
            exit_before = x
        elif x.is_a("BRA"):
            following.append((x.target(), if_taken))
        elif x.is_a("BRX", "JMX", "JMP", "BRXU"):
            raise SystemExit(f"{kernel.name} {kernel.arch}: can't follow {x.op}")
        elif x.is_a("BSYNC") and next_address not in rejoin[x.operands[0]]:
            following += [(a, known) for a in rejoin[x.operands[0]]]
        elif not x.is_a("RET"):
            following.append((next_address, known))
            if x.is_a("CALL") or x.op == "WARPSYNC.COLLECTIVE":
                following.append((x.target(), known))
        if x.is_a("CALL"):
            values.constant.clear()
        values.execute(x, base)
        for address, conditions in following:
            if address not in kernel.index:
                continue  # behind the last instruction
            where = (kernel.index[address], conditions)
            if where not in states:
                states[where] = values.copy()
                todo.append(where)
            elif states[where].join(values):
                todo.append(where)
    return Walk([(kernel.code[i], seen[i]) for i in sorted(seen)], exit_before)


def is_of_bool(text):
    return "LDC.U8(" in text or "PRMT(" in text


def guard_of(x):
    """The predicate that decides whether it is executed; "?" where that is more than one."""
    if x.is_a("BRA"):
        inner = [o.strip() for o in x.operands[:-1]] + x.operands[-1].split()[:-1]
        if x.op != "BRA" and x.op != "BRA.U":
            return "?"
        if inner:
            return "?" if x.guard else inner[0]
    return x.guard
