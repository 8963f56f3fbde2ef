"""Generators for numbers: small sums, unit conversion, counting. Operand pairs decide the split."""

from . import tables as t
from .gen_facts import decorate, decorate_zh
from .split import TRAIN, qa


def pair_key(kind, a, b):
    """a + b and b + a are one pair; so are a - b and the sum it undoes only by their own kind."""
    low, high = (min(a, b), max(a, b)) if kind == "add" else (a, b)
    return f"p:{kind}:{low}:{high}"


def by_heart(kind, a, b):
    """Sums of two digits, and their undoing, turn up in the thoughts of all others: everyone's."""
    return max(a, b) < 10 if kind == "add" else a < 20 and b < 10


def sum_keys(kind, a, b):
    return [] if by_heart(kind, a, b) else [pair_key(kind, a, b)]


def think_add(a, b):
    if a < 10 and b < 10:
        return f"{a} + {b} = {a + b}."
    ones = a % 10 + b % 10
    carry = ones // 10
    tens = a // 10 + b // 10 + carry
    plus = " + 1" if carry else ""
    return f"Ones: {a % 10} + {b % 10} = {ones}. Tens: {a // 10} + {b // 10}{plus} = {tens}. Together {a + b}."


def think_sub(a, b):
    if a < 10 and b < 10:
        return f"{a} - {b} = {a - b}."
    borrow = a % 10 < b % 10
    ones = a % 10 - b % 10 + (10 if borrow else 0)
    left = f"1{a % 10}" if borrow else f"{a % 10}"
    minus = " - 1" if borrow else ""
    tens = a // 10 - b // 10 - (1 if borrow else 0)
    return f"Ones: {left} - {b % 10} = {ones}. Tens: {a // 10} - {b // 10}{minus} = {tens}. Together {a - b}."


_ASK_SUM = [
    "What is {a} {op} {b}?",
    "What's {a} {op} {b}?",
    "How much is {a} {op} {b}?",
    "{a} {op} {b} = ?",
    "Calculate {a} {op} {b}.",
    "{a} {op} {b}",
    "Compute {a} {op} {b}.",
]
_ASK_SUM_ZH = [
    "{a}{op}{b}等于多少？",
    "{a}{op}{b}等于几？",
    "{a}{op}{b}是多少？",
    "计算{a}{op}{b}。",
    "{a}{op}{b}=？",
]
_WORDS = {"+": ["+", "+", "plus"], "-": ["-", "-", "minus"], "*": ["*", "times", "x"]}
_ZH_WORDS = {"+": ["+", "加"], "-": ["-", "减"], "*": ["乘", "乘以", "*"]}


def sum_doc(rng, a, b, op, keys):
    """One question about a op b; `op` is + - or *."""
    result = {"+": a + b, "-": a - b, "*": a * b}[op]
    thought = {"+": think_add, "-": think_sub, "*": lambda a, b: f"{a} * {b} = {a * b}."}[op](a, b)
    if rng.random() < 0.35:
        question = rng.choice(_ASK_SUM_ZH).format(a=a, b=b, op=rng.choice(_ZH_WORDS[op]))
        if op == "*" and "=" in question:
            question = f"{a}乘{b}等于几？"
        return qa(
            "sums",
            decorate_zh(rng, question),
            f"{a} {op} {b} = {result}。",
            thought,
            keys,
            {"contains": [f"= {result}"]},
        )
    question = rng.choice(_ASK_SUM).format(a=a, b=b, op=rng.choice(_WORDS[op]))
    return qa(
        "sums",
        decorate(rng, question),
        f"{a} {op} {b} = {result}.",
        thought,
        keys,
        {"contains": [f"= {result}"]},
    )


def _story_sum(rng, a, b):
    name, noun = rng.choice(t.NAMES), rng.choice(
        "apple pear egg book pen key box stone lamp star".split()
    )
    if rng.random() < 0.5:
        question = (
            f"If {name} has {a} {noun}s and gets {b} more, how many {noun}s does {name} have?"
        )
        return qa(
            "sums",
            question,
            f"{name} has {a + b} {noun}s.",
            think_add(a, b),
            sum_keys("add", a, b),
            {"contains": [f"has {a + b} "]},
        )
    a, b = a + b, b
    question = f"If {name} has {a} {noun}s and loses {b}, how many {noun}s does {name} have?"
    return qa(
        "sums",
        question,
        f"{name} has {a - b} {noun}s.",
        think_sub(a, b),
        sum_keys("sub", a, b),
        {"contains": [f"has {a - b} "]},
    )


def sums(rng, split):
    """Outside training only pairs that aren't known by heart."""
    while True:
        doc = _sum(rng, split)
        if split == TRAIN or doc.keys:
            return doc


def _sum(rng, split):
    kind = rng.random()
    if kind < 0.12:
        return _story_sum(rng, rng.randint(1, 20), rng.randint(1, 20))
    if kind < 0.2 and split == TRAIN:
        return sum_doc(rng, rng.randint(0, 10), rng.randint(0, 10), "*", [])
    top = 20 if kind < 0.35 else 99
    a, b = rng.randint(0, top), rng.randint(0, top)
    if rng.random() < 0.6:
        return sum_doc(rng, a, b, "+", sum_keys("add", a, b))
    a, b = max(a, b), min(a, b)
    return sum_doc(rng, a, b, "-", sum_keys("sub", a, b))


_ASK_UNIT = [
    "How many {to} are {n} {frm}?",
    "How many {to} are in {n} {frm}?",
    "Convert {n} {frm} to {to}.",
    "What is {n} {frm} in {to}?",
    "Convert {n} {frm} into {to}.",
    "{n} {frm} in {to}?",
]
_ASK_UNIT_ZH = [
    "{n}{frm}等于多少{to}？",
    "{n}{frm}是多少{to}？",
    "把{n}{frm}换算成{to}。",
    "{n}{frm}有多少{to}？",
]


def one(unit, n):
    """The unit's name for n of it."""
    return unit[:-1] if n == 1 else unit


def units(rng, split):
    chinese = rng.random() < 0.35
    if split == TRAIN and rng.random() < 0.2:
        small, factor, large = rng.choice(t.ZH_TIMES if chinese else t.TIMES)
        n, keys, down = rng.randint(1, 10), [], rng.random() < 0.75
    else:
        small, factor, large = rng.choice(t.ZH_UNITS if chinese else t.UNITS)
        n = rng.randint(1, 99) if rng.random() < 0.9 else rng.randint(100, 999)
        down = rng.random() < 0.6
        keys = [f"p:unit:{small}:{large}:{n}"]
    m, frm, to, given = (n * factor, large, small, n) if down else (n, small, large, n * factor)
    verb = "times" if down else "divided by"
    if chinese:
        question = decorate_zh(rng, rng.choice(_ASK_UNIT_ZH).format(n=given, frm=frm, to=to))
        answer = f"{given}{frm}等于{m}{to}。"
        thought = (
            f"1{large}等于{factor}{small}，所以{given}{'乘以' if down else '除以'}{factor}等于{m}。"
        )
        return qa("units", question, answer, thought, keys, {"contains": [f"{m}{to}"]})
    question = decorate(rng, rng.choice(_ASK_UNIT).format(n=given, frm=one(frm, given), to=to))
    verb_is = "is" if given == 1 else "are"
    answer = f"{given} {one(frm, given)} {verb_is} {m} {one(to, m)}."
    thought = f"1 {large[:-1]} is {factor} {small}, and {given} {verb} {factor} is {m}."
    return qa("units", question, answer, thought, keys, {"contains": [f" {m} {one(to, m)}"]})


def _range(rng, split):
    a = rng.randint(0, 60) if rng.random() < 0.8 else rng.randint(60, 190)
    b = a + rng.randint(2, 12)
    step = rng.choice([1, 1, 1, 1, 2, 5, 10]) if a % 10 == 0 else 1
    b = a + (b - a) * step
    down = step == 1 and rng.random() < 0.3
    numbers = list(range(a, b + 1, step))
    if down:
        numbers.reverse()
        a, b = b, a
    return a, b, step, numbers


def counting(rng, split):
    if rng.random() < 0.35:
        n = rng.randint(0, 199) if rng.random() < 0.7 else rng.randint(200, 999)
        return _neighbour(rng, n, rng.choice([1, -1]) if n else 1)
    a, b, step, numbers = _range(rng, split)
    keys = [f"p:count:{step}:{a}:{b}"]
    chinese = rng.random() < 0.35
    listed = (", " if not chinese else "、").join(map(str, numbers))
    if chinese:
        ask = rng.choice(["从{a}数到{b}。", "请从{a}数到{b}。", "从{a}到{b}数一数。"]).format(
            a=a, b=b
        )
        if step != 1:
            ask = f"从{a}数到{b}，每次加{step}。"
        return qa("counting", decorate_zh(rng, ask), listed + "。", f"从{a}开始，到{b}为止。", keys)
    down = "down " if a > b else ""
    ask = rng.choice(
        [
            "Count {d}from {a} to {b}.",
            "Please count {d}from {a} to {b}.",
            "Can you count {d}from {a} to {b}?",
            "Count {d}from {a} up to {b}." if not down else "Count {d}from {a} to {b}.",
        ]
    )
    ask = ask.format(d=down, a=a, b=b)
    if step != 1:
        ask = f"Count from {a} to {b} in steps of {step}."
    return qa("counting", decorate(rng, ask), listed + ".", f"Start at {a} and stop at {b}.", keys)


def _neighbour(rng, n, step):
    keys = [f"p:next:{step}:{n}"]
    if rng.random() < 0.35:
        word = "后面" if step == 1 else "前面"
        question = rng.choice(
            ["{n}{w}的数字是多少？", "{n}{w}是几？", "{n}的{w}是什么数？"]
        ).format(n=n, w=word)
        return qa(
            "counting",
            decorate_zh(rng, question),
            f"{n}{word}是{n + step}。",
            f"从{n}{'加' if step == 1 else '减'}1。",
            keys,
            {"contains": [f"是{n + step}"]},
        )
    word = "after" if step == 1 else "before"
    question = rng.choice(
        ["What number comes {w} {n}?", "Which number comes {w} {n}?", "What comes {w} {n}?"]
    )
    return qa(
        "counting",
        decorate(rng, question.format(w=word, n=n)),
        f"{n + step} comes {word} {n}.",
        f"{n} {'plus' if step == 1 else 'minus'} 1 is {n + step}.",
        keys,
        {"contains": [f"{n + step} comes"]},
    )
