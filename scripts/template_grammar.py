"""Random Jinja templates for fuzz_templates.py.

Expressions are built by the type they should have, so that most templates render; now and then a
place takes any type, so that errors are compared too. What the engine leaves out on purpose
(template inheritance, arithmetic on integers beyond 64 bits) isn't generated.
"""

from template_values import FLOATS, KEYS, SMALL, WORDS, Values

NAMES = [key for key in KEYS if key != "items"]  # a dict that lacks "items" has its method there


class Grammar(Values):
    def __init__(self, rng):
        super().__init__(rng)
        self.locals = []  # names of loop variables, macros' parameters and set variables

    # ---- Expressions, as text ----

    def literal(self, text):
        quote = self.rng.choice("'\"")
        out = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
        return quote + out.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + quote

    def any(self, depth=3):
        return self.rng.choice(
            [self.str, self.str, self.int, self.float, self.bool, self.list, self.dict]
        )(depth)

    def pick(self, depth, wanted, leaves, inner):
        """One of the leaves, or of the inner forms while there is depth left; sometimes anything."""
        r = self.rng
        if r.random() < 0.006:
            return r.choice(
                [
                    "any",
                    "undef",
                    "undef.x",
                    "none",
                    "d.k",
                    "rows[0].name",
                    "loop.index",
                    "loop.last",
                    "loop.previtem",
                ]
            )
        if r.random() < 0.01 and depth > 0:
            return self.any(depth - 1)
        if depth <= 0 or r.random() < 0.25:
            return r.choice(leaves)()
        text = r.choice(inner)()
        return f"({text})" if r.random() < 0.5 else text

    def str(self, depth=3):
        r = self.rng
        s, i, d = (lambda: self.str(depth - 1)), (lambda: self.int(depth - 1)), depth - 1
        inner = [
            lambda: f"{s()} + {s()}",
            lambda: f"{s()} ~ {self.any(d)}",
            lambda: f"{s()} * {r.randint(-1, 3)}",
            lambda: f"({s()} | string)[{self.slice()}]",
            lambda: f"({s()})[{r.randint(-3, 3)}]",
            lambda: f"({s()}).{r.choice(['strip', 'lstrip', 'rstrip'])}({r.choice(['', self.literal(r.choice(WORDS))])})",
            lambda: f"({s()}).{r.choice(['upper', 'lower', 'title', 'capitalize', 'swapcase', 'casefold'])}()",
            lambda: f"({s()}).replace({s()}, {s()}{r.choice(['', ', 1', ', 2'])})",
            lambda: f"({s()}).{r.choice(['split', 'rsplit'])}({r.choice([s(), '', s() + ', 1'])})[{r.randint(-2, 2)}]",
            lambda: f"({s()}).{r.choice(['center', 'ljust', 'rjust', 'zfill'])}({r.randint(0, 9)})",
            lambda: f"({s()}).{r.choice(['removeprefix', 'removesuffix', 'join'])}({s()})",
            lambda: f"({s()}).{r.choice(['partition', 'rpartition'])}({s()})[{r.randint(-3, 2)}]",
            lambda: f"({s()}).join({self.list(d)})",
            lambda: f"{self.any(d)} | string",
            lambda: f"{s()} | {r.choice(['trim', 'upper', 'lower', 'title', 'capitalize', 'string'])}",
            lambda: f"{s()} | trim({self.literal(r.choice(WORDS))})",
            lambda: f"{s()} | replace({s()}, {s()})",
            lambda: f"{s()} | indent({r.choice(['', '2', '2, true', 'first=true', '4, blank=true', 'width=' + self.literal('> ')])})",
            lambda: f"{s()} | center({r.randint(0, 12)})",
            lambda: f"{s()} | truncate({r.randint(0, 8)}{r.choice(['', ', true', ', false, ' + self.literal('…'), ', true, ' + self.literal('..') + ', 0'])})",
            lambda: f"{self.any(d)} | tojson{r.choice(['', '(indent=2)', '(indent=0)', '(sort_keys=true)', '(ensure_ascii=true)', '(separators=[' + self.literal(',') + ', ' + self.literal(':') + '])'])}",
            lambda: f"{self.list(d)} | join{r.choice(['', '(' + s() + ')'])}",
            lambda: f"rows | join({s()}, attribute={self.literal('name')})",
            lambda: f"{s()} if {self.bool(d)} else {s()}",
            lambda: f"({s()} if {self.bool(d)})",
            lambda: f"{self.any(d)} | default({s()}{r.choice(['', ', true'])})",
            lambda: f"{self.literal(r.choice(['%s', '%r|', '%s-%s', '%5s', '%-5s|', '%05d', '%.2f', '%x', '%%', '%(a)s', '%3d', '%e', '%g']))} % {r.choice([self.any(d), '(' + self.any(d) + ', ' + self.any(d) + ')'])}",
            lambda: f"{self.literal(r.choice(['{}', '{0}{0}', '{!r}', '{:>5}', '{:05.1f}', '{a}', '{{}}', '{:,}', '{:^7}|']))}.format({self.any(d)}{r.choice(['', ', a=' + self.any(d)])})",
            lambda: f"{self.literal(r.choice(['%s!', '%s %s', '%d']))} | format({self.any(d)})",
            lambda: f"{self.dict(d)}[{self.literal(r.choice(NAMES))}]",
            lambda: f"{self.dict(d)}.get({self.literal(r.choice(KEYS))}, {s()})",
            lambda: f"({self.list(d)})[{r.randint(-2, 2)}]",
            lambda: f"{self.list(d)} | {r.choice(['first', 'last'])}",
        ]
        leaves = [
            lambda: self.literal(r.choice(WORDS)),
            lambda: r.choice(["s", "t", "rows[0].name", "d.name", "d['items']"] + self.locals),
        ]
        return self.pick(depth, str, leaves, inner)

    def int(self, depth=3):
        r = self.rng
        i, s, d = (lambda: self.int(depth - 1)), (lambda: self.str(depth - 1)), depth - 1
        inner = [
            lambda: f"{i()} {r.choice(['+', '-', '*', '//', '%'])} {i()}",
            lambda: f"{r.randint(-3, 4)} ** {r.randint(0, 5)}",
            lambda: f"-{i()}",
            lambda: f"{r.choice([s(), self.list(d), self.dict(d)])} | {r.choice(['length', 'count'])}",
            lambda: f"{s()} | int{r.choice(['', '(5)', '(default=-1)', '(0, 16)'])}",
            lambda: f"{self.float(d)} | int",
            lambda: f"{i()} | abs",
            lambda: f"({s()}).{r.choice(['find', 'rfind', 'count', 'index'])}({s()})",
            lambda: f"nums | {r.choice(['sum', 'max', 'min', 'first', 'last', 'length'])}",
            lambda: f"rows | sum(attribute={self.literal('n')}{r.choice(['', ', start=5'])})",
            lambda: f"{s()} | wordcount",
            lambda: f"({self.list(d)}).{r.choice(['count', 'index'])}({self.any(d)})",
        ]
        leaves = [
            lambda: str(r.choice(SMALL)),
            lambda: r.choice(["n", "nums[0]", "rows[0].n", "nums|length"] + self.locals),
        ]
        return self.pick(depth, int, leaves, inner)

    def float(self, depth=3):
        r = self.rng
        d = depth - 1
        inner = [
            lambda: f"{self.int(d)} / {self.int(d)}",
            lambda: f"{self.float(d)} {r.choice(['+', '-', '*', '/', '//', '%'])} {self.int(d)}",
            lambda: f"{self.str(d)} | float{r.choice(['', '(1.5)'])}",
            lambda: f"{self.float(d)} | round{r.choice(['', '(1)', '(2)', '(0, ' + self.literal('floor') + ')', '(1, ' + self.literal('ceil') + ')'])}",
            lambda: f"{self.float(d)} | abs",
        ]
        return self.pick(
            depth, float, [lambda: repr(abs(r.choice(FLOATS))).replace("+", ""), lambda: "f"], inner
        )

    def bool(self, depth=3):
        r = self.rng
        d = depth - 1
        tests = [
            "defined",
            "undefined",
            "none",
            "string",
            "number",
            "integer",
            "float",
            "boolean",
            "true",
            "false",
            "mapping",
            "iterable",
            "sequence",
            "callable",
            "lower",
            "upper",
            "odd",
            "even",
            "escaped",
            "eq 1",
            "divisibleby 2",
            "in words",
            "equalto 'a'",
            "gt 2",
            "sameas none",
        ]
        inner = [
            lambda: f"{self.any(d)} {r.choice(['==', '!='])} {self.any(d)}",
            lambda: f"{self.int(d)} {r.choice(['<', '<=', '>', '>=', '==', '!='])} {self.int(d)}",
            lambda: f"{self.int(d)} < {self.int(d)} <= {self.int(d)}",
            lambda: f"{self.str(d)} {r.choice(['<', '>', 'in', 'not in', '=='])} {self.str(d)}",
            lambda: f"{self.any(d)} {r.choice(['in', 'not in'])} {self.list(d)}",
            lambda: f"{self.literal(r.choice(KEYS))} in {self.dict(d)}",
            lambda: f"not {self.bool(d)}",
            lambda: f"{self.bool(d)} {r.choice(['and', 'or'])} {self.bool(d)}",
            lambda: f"{self.any(d)} is {r.choice(['', 'not '])}{r.choice(tests)}",
            lambda: f"({self.str(d)}).{r.choice(['startswith', 'endswith'])}({self.str(d)})",
            lambda: f"({self.str(d)}).is{r.choice(['digit', 'alpha', 'alnum', 'space', 'upper', 'lower', 'numeric', 'decimal', 'title', 'ascii'])}()",
        ]
        return self.pick(
            depth,
            bool,
            [lambda: r.choice(["true", "false", "True", "yes", "undef", "none"])],
            inner,
        )

    def list(self, depth=3):
        r = self.rng
        d = depth - 1
        attribute = lambda: self.literal(r.choice(["name", "n", "on", "gone"]))
        inner = [
            lambda: "[" + ", ".join(self.any(d) for _ in range(r.randint(0, 4))) + "]",
            lambda: "(" + "".join(self.any(d) + ", " for _ in range(r.randint(1, 3))) + ")",
            lambda: f"{self.list(d)} + {self.list(d)}",
            lambda: f"{self.list(d)} * {r.randint(0, 2)}",
            lambda: f"({self.list(d)} | list)[{self.slice()}]",
            lambda: f"range({r.randint(-2, 3)}, {r.randint(-2, 6)}{r.choice(['', ', 2', ', -1'])})",
            lambda: f"range({r.randint(-2, 6)}) | list",
            lambda: f"({self.str(d)}).{r.choice(['split', 'rsplit', 'splitlines'])}({r.choice(['', ''])})",
            lambda: f"({self.str(d)}).split({self.str(d)})",
            lambda: f"{self.str(d)} | list",
            lambda: f"{self.list(d)} | {r.choice(['list', 'reverse | list', 'unique | list', 'sort', 'sort(reverse=true)', 'map(' + self.literal('string') + ') | list', 'batch(2) | list', 'slice(2) | list', 'batch(3, 0) | list'])}",
            lambda: f"words | {r.choice(['sort', 'sort(case_sensitive=true)', 'unique | list', 'map(' + self.literal('upper') + ') | list', 'select(' + self.literal('lower') + ') | list', 'reject | list', 'map(' + self.literal('replace') + ', ' + self.literal('a') + ', ' + self.literal('b') + ') | list'])}",
            lambda: f"nums | {r.choice(['sort', 'select(' + self.literal('odd') + ') | list', 'reject(' + self.literal('gt') + ', 2) | list', 'map(' + self.literal('abs') + ') | list', 'select | list'])}",
            lambda: f"rows | map(attribute={attribute()}{r.choice(['', ', default=' + self.any(d)])}) | list",
            lambda: f"rows | {r.choice(['selectattr', 'rejectattr'])}({attribute()}{r.choice(['', ', ' + self.literal('equalto') + ', ' + self.any(d), ', ' + self.literal('defined'), ', ' + self.literal('in') + ', words'])}) | list",
            lambda: f"rows | sort(attribute={attribute()}) | map(attribute={attribute()}) | list",
            lambda: f"rows | groupby({attribute()}) | list",
            lambda: f"{self.dict(d)} | {r.choice(['items | list', 'dictsort', 'dictsort(true)', 'dictsort(reverse=true)', 'list', 'dictsort(false, ' + self.literal('value') + ')'])}",
            lambda: f"({self.dict(d)}).{r.choice(['items', 'keys', 'values'])}(){r.choice([' | list', ''])}",
        ]
        return self.pick(
            depth,
            list,
            [lambda: r.choice(["words", "nums", "rows", "[]", "[1, 'a', none]"])],
            inner,
        )

    def dict(self, depth=3):
        r = self.rng
        d = depth - 1
        inner = [
            lambda: "{"
            + ", ".join(
                f"{self.literal(r.choice(KEYS))}: {self.any(d)}" for _ in range(r.randint(0, 3))
            )
            + "}",
            lambda: f"dict({r.choice(['a', 'b'])}={self.any(d)})",
            lambda: f"dict(d, k={self.any(d)})",
            lambda: f"({self.dict(d)}).copy()",
        ]
        return self.pick(depth, dict, [lambda: r.choice(["d", "rows[0]", "{}", "{'a': 1}"])], inner)

    def slice(self):
        part = lambda: self.rng.choice(["", "", "1", "2", "-1", "-2", "0", "5"])
        step = self.rng.choice(["", "", ":", ":2", ":-1", ":-2"])
        return f"{part()}:{part()}{step}"

    # ---- Statements ----

    def open(self):
        return "{%" + self.rng.choice(["", "", "-", "+"])

    def close(self):
        return self.rng.choice(["", "", "-", "+"]) + "%}"

    def tag(self, text):
        return f"{self.open()} {text} {self.close()}"

    def text(self):
        return "".join(
            self.rng.choice(
                [
                    "x",
                    " ",
                    "\n",
                    "  ",
                    "\n\n",
                    "\t",
                    "text ",
                    "é",
                    "<|im_start|>",
                    "{ ",
                    "}",
                    "%",
                    "\r\n",
                    "- ",
                    "'",
                ]
            )
            for _ in range(self.rng.randint(0, 4))
        )

    def body(self, depth):
        return (
            "".join(self.text() + self.node(depth) for _ in range(self.rng.randint(1, 3)))
            + self.text()
        )

    def scoped(self, names, depth):
        before = len(self.locals)
        self.locals += names
        text = self.body(depth)
        del self.locals[before:]
        return text

    def node(self, depth=3):
        r = self.rng
        if depth <= 0 or r.random() < 0.4:
            dash = lambda: r.choice(["", "", "-", "+"])
            last = r.choice(["", "", "", "", " | e", " | safe"])
            shown = self.any()
            return (
                "{{"
                + dash()
                + " "
                + (f"({shown}){last}" if last else shown)
                + " "
                + r.choice(["", "", "-"])
                + "}}"
            )
        d = depth - 1
        kind = r.choice(
            [
                "if",
                "if",
                "for",
                "for",
                "for",
                "set",
                "set",
                "setblock",
                "macro",
                "call",
                "filter",
                "with",
                "raw",
                "comment",
                "ns",
                "generation",
                "break",
                "raise",
                "recursive",
            ]
        )
        t = self.tag
        if kind == "if":
            middle = t(f"elif {self.bool()}") + self.body(d) if r.random() < 0.4 else ""
            last = t("else") + self.body(d) if r.random() < 0.5 else ""
            return t(f"if {self.bool()}") + self.body(d) + middle + last + t("endif")
        if kind == "for":
            target, source, names = r.choice(
                [
                    ("v", self.list(), ["v"]),
                    (
                        "v",
                        self.list(),
                        [
                            "v",
                            "loop.index",
                            "loop.index0",
                            "loop.revindex",
                            "loop.length",
                            "loop.first",
                        ],
                    ),
                    ("k, v", f"({self.dict(1)}).items()", ["k", "v"]),
                    ("k, v", f"{self.dict(1)} | items", ["k", "v"]),
                    ("v", self.dict(1), ["v"]),
                    ("v", self.str(1), ["v"]),
                ]
            )
            when = f" if {self.bool(1)}" if r.random() < 0.2 else ""
            last = t("else") + self.body(d) if r.random() < 0.2 else ""
            return t(f"for {target} in {source}{when}") + self.scoped(names, d) + last + t("endfor")
        if kind == "break":
            return (
                t(f"for v in {self.list(1)}")
                + self.text()
                + t(f"if {self.bool(1)}")
                + t(r.choice(["break", "continue"]))
                + t("endif")
                + self.scoped(["v"], d)
                + t("endfor")
            )
        if kind == "set":
            name = r.choice(["u", "w", "y"])
            return t(f"set {name} = {self.any()}") + "{{ " + name + " }}"
        if kind == "setblock":
            return (
                t("set u" + r.choice(["", " | upper", " | trim"]))
                + self.body(d)
                + t("endset")
                + "{{ u }}"
            )
        if kind == "ns":
            return (
                t("set ns = namespace(c=0, s='')")
                + t(f"for v in {self.list(1)}")
                + t("set ns.c = ns.c + 1")
                + t(f"set ns.s = ns.s ~ {self.str(1)}")
                + t("endfor")
                + "{{ ns.c }}{{ ns.s }}"
            )
        if kind == "macro":
            call = r.choice(
                [
                    f"m({self.any(1)})",
                    f"m({self.any(1)}, {self.any(1)})",
                    f"m(b={self.any(1)})",
                    "m()",
                    f"m({self.any(1)}) | upper",
                    f"m({self.any(1)}) | length",
                ]
            )
            return (
                t(r.choice(["macro m(a, b='z')", "macro m(a, b=n)", "macro m(a=1, b=s)"]))
                + self.scoped(["a", "b"], d)
                + t("endmacro")
                + "{{ "
                + call
                + " }}"
            )
        if kind == "call":
            given, call = r.choice(
                [
                    ("", "call w(1)"),
                    ("a", "call(q) w(s)"),
                    ("a, 2", "call(q, p) w(n)"),
                    ("p=a", "call(q=1, p=2) w(n)"),
                    ("", "call(q) w(1)"),
                ]
            )
            return (
                t("macro w(a)")
                + "<{{ caller("
                + given
                + ") }}>"
                + t("endmacro")
                + t(call)
                + self.scoped(["q"] if "(q" in call else [], d)
                + t("endcall")
            )
        if kind == "filter":
            return (
                t("filter " + r.choice(["upper", "trim", "indent(2)", "replace('x', 'y')", "e"]))
                + self.body(d)
                + t("endfilter")
            )
        if kind == "with":
            return (
                t(f"with u = {self.any(1)}, q = {self.any(1)}")
                + self.scoped(["u", "q"], d)
                + t("endwith")
            )
        if kind == "raw":
            dash = lambda: r.choice(["", "-"])
            return (
                "{%"
                + dash()
                + " raw "
                + dash()
                + "%}"
                + r.choice(["{{ x }}", "{% if %}", " \n ", "{# #}"])
                + "{%"
                + dash()
                + " endraw "
                + dash()
                + "%}"
            )
        if kind == "comment":
            return "{#" + r.choice(["", "-"]) + " {{ x }} \n" + r.choice(["", "-"]) + "#}"
        if kind == "generation":
            return t("generation") + self.body(d) + t("endgeneration")
        if kind == "raise":
            return (
                t(f"if {self.bool(1)}") + "{{ raise_exception(" + self.str(1) + ") }}" + t("endif")
            )
        return (
            t("for v in [{'n': 1, 'c': [{'n': 2, 'c': []}]}, {'n': 3, 'c': []}] recursive")
            + "{{ v.n }}{{ loop.depth }}[{{ loop(v.c) }}]"
            + t("endfor")
        )

    def template(self):
        self.locals = []
        return self.body(3)
