"""Finds what mutate_kernels.py takes out of the kernels, one at a time: barriers, fences, waits,
the commits and counters that those rely on, and the conditions that keep accesses inside."""

import dataclasses
import re


@dataclasses.dataclass
class Mutant:
    """Text [begin, end) of cuda/FILE replaced. The id outlives changes elsewhere in the file."""

    file: str
    function: str
    kind: str
    begin: int
    end: int
    replacement: str
    ordinal: int = 0

    @property
    def id(self):
        return f"{self.file}:{self.function}:{self.kind}:{self.ordinal}"

    def apply(self, text):
        return text[: self.begin] + self.replacement + text[self.end :]


# Kind -> (what is replaced, by what).
STATEMENTS = {
    "barrier": (r"__syncthreads\(\);", ";"),
    "warp-barrier": (r"__syncwarp\(\);", ";"),
    "fence": (r"__threadfence\(\);", ";"),
    "wait": (r"ptx::wait_for_predecessor\(\);", ";"),
    "copy-wait": (r"ptx::cp_async_wait<[^;]*>\(\);", ";"),
    "copy-wait-less": (r"ptx::cp_async_wait<([^;]*)>\(\);", r"ptx::cp_async_wait<\1 + 1>();"),
    "copy-commit": (r"ptx::cp_async_commit\(\);", ";"),
    "atomic": (r"atomicAdd\(&([^,;]*), (\w+)\)", r"((\1 += \2) - \2)"),
    "reset": (r"(?:p\.arrivals|partials\.counters)\[\w+\] = 0;", ";"),
}
# Conditions that have a name.
NAMED = r"(?:exists|inside|output\.inside|reads|is_cached|is_mine|is_pair|sees|sees_low|sees_high)"
FUNCTION = re.compile(r"(?:__device__|__global__)[^;{}()]*?\b(\w+)\s*\(")


def blank(pattern, text):
    """The matches as spaces, so that positions stay."""
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def closing(text, at):
    """Where the bracket that opens at text[at] closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError("unbalanced")


def functions(text):
    """[(name, begin and end of the body)] of the code for the device."""
    found = []
    for m in FUNCTION.finditer(text):
        body = text.find("{", closing(text, m.end() - 1))
        between = text[closing(text, m.end() - 1) : body]
        if body < 0 or (";" in between and ":" not in between):
            continue  # only declared
        if not found or m.start() > found[-1][2]:
            found.append((m[1], body, closing(text, body)))
    return found


def find_mutants(file, text):
    code = blank(r"//[^\n]*|__launch_bounds__\([^)]*\)|static_assert\([^;]*;", text)
    mutants = []
    for name, begin, end in functions(code):
        found = []
        for kind, (pattern, replacement) in STATEMENTS.items():
            for m in re.finditer(pattern, code[begin:end]):
                found.append((kind, m.start(), m.end(), m.expand(replacement)))
        body = blank(r"if constexpr \([^{]*?\) \{|constexpr [^;]*;", code[begin:end])
        for m in re.finditer(r"\bfor \(", body):
            head = closing(body, m.end() - 1) + 1
            body = body[: m.start()] + blank(r"[^;]*", body[m.start() : head]) + body[head:]
        found += [("mask", *x) for x in conditions(body)] + clamps(body)
        counts = {}
        for kind, first, last, replacement in sorted(found, key=lambda x: x[1]):
            ordinal = counts[kind] = counts.get(kind, 0) + 1
            mutants.append(
                Mutant(file, name, kind, begin + first, begin + last, replacement, ordinal)
            )
    # Functions of one name count on.
    seen = {}
    for mutant in mutants:
        key = (mutant.function, mutant.kind)
        mutant.ordinal = seen[key] = seen.get(key, 0) + 1
    return mutants


def conditions(body):
    """(begin, end, replacement) of each comparison, and each use of a named condition: true where
    it lets something happen, false where it keeps something from happening."""
    for m in re.finditer(r" (<|<=|>|>=) ", body):
        begin, end = operand_begin(body, m.start()), operand_end(body, m.end())
        left, right = body[begin : m.start()].strip(), body[m.end() : end].strip()
        if all(re.fullmatch(r"(k[A-Z]\w*|\d+|[+*/ -])*", x) for x in (left, right)):
            continue  # the same in every launch
        begin += len(body[begin : m.start()]) - len(body[begin : m.start()].lstrip())
        joined = body[end:].startswith(" &&") or body[:begin].rstrip().endswith("&&")
        keeps = (m[1] in (">", ">=") or right == "0") and not joined
        yield begin, end, "false" if keeps or leaves(body, begin) else "true"
    for m in re.finditer(rf"(?<![\w.]){NAMED}(?=\)? (?:&&|\?)|\) \w)", body):
        if body[m.start() - 1] == "!":
            yield m.start() - 1, m.end(), "false"
        else:
            yield m.start(), m.end(), "true"


def leaves(body, at):
    """Whether it's the condition of an if that leaves a function or a loop, or of a barrier."""
    m = None
    for m in re.finditer(r"\bif \(", body[:at]):
        pass
    if m is None or closing(body, m.end() - 1) < at:
        return False
    then = body[closing(body, m.end() - 1) + 1 :].lstrip(" {\n")
    return then.startswith(("return", "continue", "break", "__sync"))


STOP = re.compile(r"&&|\|\||[?:,=]\s|;|return\s")


def operand_begin(body, at):
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += (body[i] in ")]}") - (body[i] in "([{")
        if depth < 0:
            return i + 1
        if depth == 0:
            stop = STOP.match(body, i)
            if stop:
                return stop.end()
    return 0


def operand_end(body, at):
    depth = 0
    for i in range(at, len(body)):
        depth += (body[i] in "([{") - (body[i] in ")]}")
        if depth < 0 or (depth == 0 and body.startswith((" &&", " ||", " ?", " :", ",", ";"), i)):
            return i
    return len(body)


def clamps(body):
    """min() and max(): each operand alone."""
    found = []
    for m in re.finditer(r"(?<![\w.:])(?:min|max)\(", body):
        last = closing(body, m.end() - 1)
        comma = operand_end(body, m.end())
        for operand in (body[m.end() : comma], body[comma + 1 : last]):
            found.append(("clamp", m.start(), last + 1, f"({operand.strip()})"))
    return found
