"""Random values for fuzz_templates.py: texts that are hard on templates, and what holds them."""

WORDS = [
    "a",
    "b",
    "user",
    "system",
    "x y",
    "<think>",
    "é",
    "日本語",
    "𐍈😀",
    "ß",
    "A-B",
    "hello World",
    "  pad ",
    "\n",
    "line\nbreak\n",
    "\t",
    "\u00a0",
    "\u3000w\u3000",
    "it's",
    '"q"',
    "<b>&",
    "\\",
    "{x}",
    "%s",
    "%d%%",
    "",
    "0",
    "42",
    "-7",
    "3.5",
    "1e3",
    "\x1c",
    "\x7f",
    "\u2028",
    "\r\n",
    "cafe\u0301",
    "x,y,,z",
    "</tool_call>",
    "aXbXc",
    "ж",
    "Ω",
]
SMALL = [0, 1, 2, 3, 5, 7, 10, -1, -2, 100]
FLOATS = [0.0, -0.0, 1.0, 0.5, 2.5, -1.5, 1e-05, 1e16, 1e22, 123456.789, 0.1, 3.14159, 1e100]
KEYS = ["a", "b", "k", "items", "name", "role", "x y", "é"]


class Values:
    def __init__(self, rng):
        self.rng = rng

    def value(self, depth=0):
        r = self.rng
        kind = r.choice("sssinfbnld" if depth < 3 else "ssinfbn")
        if kind == "s":
            return "".join(r.choice(WORDS) for _ in range(r.randint(0, 3)))
        if kind == "i":
            return (
                r.choice(SMALL)
                if r.random() < 0.9
                else r.choice([2**53 + 1, -(2**63), 2**70, 2**64])
            )
        if kind == "f":
            return r.choice(FLOATS)
        if kind == "b":
            return r.random() < 0.5
        if kind == "n":
            return None
        if kind == "l":
            return [self.value(depth + 1) for _ in range(r.randint(0, 4))]
        return {r.choice(KEYS): self.value(depth + 1) for _ in range(r.randint(0, 4))}

    def context(self):
        r = self.rng
        return {
            "s": "".join(r.choice(WORDS) for _ in range(r.randint(0, 3))),
            "t": r.choice(WORDS),
            "n": r.choice(SMALL),
            "f": r.choice(FLOATS),
            "yes": True,
            "none": None,
            "words": [r.choice(WORDS) for _ in range(r.randint(0, 5))],
            "nums": [r.choice(SMALL) for _ in range(r.randint(0, 5))],
            "rows": [
                {"name": r.choice(WORDS), "n": r.choice(SMALL), "on": r.random() < 0.5}
                for _ in range(r.choice([0, 1, 2, 2, 3, 4, 3, 2, 1, 2]))
            ],
            "d": {k: self.value(1) for k in r.sample(KEYS, r.randint(0, 4))}
            | {"items": self.value(1)},
            "any": self.value(),
        }
