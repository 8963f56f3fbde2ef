"""Generators for conversations: follow-up questions, tool calls, long chats, and the mixture."""

import json

from . import gen_facts, gen_numbers, gen_text
from . import tables as t
from .split import TRAIN, Doc, conversation_key, split_of


def _chat(category, turns, thought, keys=(), check=None):
    """turns: user and assistant texts in alternation, ending with the answer that is judged."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]
    return Doc(category, messages, thought, list(keys), check or {"exact": turns[-1]})


def _remember(rng):
    name, other = rng.choice(t.NAMES), rng.choice(t.NAMES)
    colour, noun = rng.choice(t.COLOURS), rng.choice(t.NOUNS)[0]
    kind = rng.randrange(6)
    if kind == 0:
        tell, back = (
            rng.choice(
                [
                    f"My name is {name}.",
                    f"I am {name}.",
                    f"Hello, my name is {name}.",
                    f"Call me {name}.",
                ]
            ),
            f"Nice to meet you, {name}!",
        )
        ask, answer = (
            rng.choice(
                ["What is my name?", "What's my name?", "Do you know my name?", "Who am I?"]
            ),
            f"Your name is {name}.",
        )
    elif kind == 1:
        tell, back = f"I have a {colour} {noun}.", f"A {colour} {noun} sounds nice."
        ask, answer = (
            rng.choice([f"What colour is my {noun}?", f"Which colour does my {noun} have?"]),
            f"Your {noun} is {colour}.",
        )
    elif kind == 2:
        city = rng.choice(t.COUNTRIES)[1]
        tell, back = (
            rng.choice([f"I live in {city}.", f"My home is in {city}."]),
            f"{city} is a nice place.",
        )
        ask, answer = (
            rng.choice(["Where do I live?", "Which city do I live in?", "Where is my home?"]),
            f"You live in {city}.",
        )
    elif kind == 3:
        tell, back = f"My {noun} is called {other}.", f"{other} is a good name for a {noun}."
        ask, answer = (
            rng.choice([f"What is my {noun} called?", f"What is the name of my {noun}?"]),
            f"Your {noun} is called {other}.",
        )
    elif kind == 4:
        n = rng.randint(2, 99)
        tell, back = f"My number is {n}.", f"I will remember {n}."
        ask, answer = (
            rng.choice(["What is my number?", "Which number did I say?", "Tell me my number."]),
            f"Your number is {n}.",
        )
    else:
        tell, back = f"I like {noun}s.", f"I like {noun}s too."
        ask, answer = (
            rng.choice(["What do I like?", "What did I say I like?", "Do you know what I like?"]),
            f"You like {noun}s.",
        )
    tell, back = t.articles(tell), t.articles(back)
    return tell, back, gen_facts.decorate(rng, ask), answer, f"Before, they said: {tell}"


def _remember_zh(rng):
    name, noun = rng.choice(t.ZH_NAMES), rng.choice(t.NOUNS)[1]
    kind = rng.randrange(3)
    if kind == 0:
        tell, back = (
            rng.choice([f"我叫{name}。", f"我的名字是{name}。", f"你好，我是{name}。"]),
            f"很高兴认识你，{name}！",
        )
        ask, answer = (
            rng.choice(["我叫什么名字？", "我叫什么？", "你知道我的名字吗？"]),
            f"你叫{name}。",
        )
    elif kind == 1:
        city = rng.choice(t.COUNTRIES)[3]
        tell, back = rng.choice([f"我住在{city}。", f"我家在{city}。"]), f"{city}是个好地方。"
        ask, answer = (
            rng.choice(["我住在哪里？", "我家在哪里？", "我住在哪个城市？"]),
            f"你住在{city}。",
        )
    else:
        tell, back = f"我喜欢{noun}。", f"我也喜欢{noun}。"
        ask, answer = (
            rng.choice(["我喜欢什么？", "我说我喜欢什么？", "你知道我喜欢什么吗？"]),
            f"你喜欢{noun}。",
        )
    return tell, back, gen_facts.decorate_zh(rng, ask), answer, f"之前说过：{tell}"


def _also_capital(rng):
    (a_en, a_city, a_zh, a_zh_city), (b_en, b_city, b_zh, b_zh_city) = rng.sample(t.COUNTRIES, 2)
    if rng.random() < 0.4:
        first = gen_facts.capital_zh(rng, (a_en, a_city, a_zh, a_zh_city)).messages
        ask = rng.choice([f"那{b_zh}呢？", f"{b_zh}呢？", f"那么{b_zh}呢？"])
        return (
            [m["content"] for m in first] + [ask, f"{b_zh}的首都是{b_zh_city}。"],
            f"现在问{b_zh}的首都，是{b_zh_city}。",
            b_zh_city,
        )
    first = gen_facts.capital_en(rng, (a_en, a_city, a_zh, a_zh_city)).messages
    if rng.random() < 0.2:
        ask = rng.choice(
            [
                "And in Chinese?",
                "Say that in Chinese.",
                "What is it in Chinese?",
                "In Chinese, please.",
            ]
        )
        return (
            [m["content"] for m in first] + [ask, f"{a_zh}的首都是{a_zh_city}。"],
            f"The same in Chinese: {a_zh_city}.",
            a_zh_city,
        )
    ask = rng.choice(
        [f"And of {b_en}?", f"And {b_en}?", f"What about {b_en}?", f"How about {b_en}?"]
    )
    return (
        [m["content"] for m in first] + [ask, f"The capital of {b_en} is {b_city}."],
        f"Now they ask about {b_en}. That is {b_city}.",
        b_city,
    )


def _go_on_counting(rng, split):
    """A sum, then one more number added to the result."""
    while True:
        a, b, c = rng.randint(1, 40), rng.randint(1, 40), rng.randint(1, 19)
        keys = gen_numbers.sum_keys("add", a + b, c)
        if all(split_of(k) == split for k in keys) and (keys or split == TRAIN):
            break
    s = a + b
    first = [f"What is {a} + {b}?", f"{a} + {b} = {s}."]
    ask = rng.choice(
        [
            f"Add {c}.",
            f"Now add {c}.",
            f"Plus {c}?",
            f"And {c} more?",
            f"And plus {c}?",
            f"Add {c} to that.",
        ]
    )
    if split == TRAIN:
        keys = keys + gen_numbers.sum_keys("add", a, b)
    return _chat(
        "follow-up",
        first + [ask, f"{s} + {c} = {s + c}."],
        gen_numbers.think_add(s, c),
        keys,
        {"contains": [f"= {s + c}"]},
    )


def follow_up(rng, split):
    kind = rng.random()
    if kind < 0.3:
        turns, thought, city = _also_capital(rng)
        doc = _chat("follow-up", turns, thought, check={"contains": [city]})
    elif kind < 0.45:
        doc = _go_on_counting(rng, split)
    else:
        tell, back, ask, answer, thought = (_remember_zh if rng.random() < 0.3 else _remember)(rng)
        between = []
        for _ in range(rng.choice([0, 0, 1, 2])):
            between += [m["content"] for m in _one(rng, split).messages]
        doc = _chat("follow-up", [tell, back] + between + [ask, answer], thought)
    if not doc.keys:
        doc.keys = [conversation_key(doc.messages)]
    return doc


def _one(rng, split):
    """A short single question, for use as an earlier turn."""
    make = rng.choice(
        [gen_facts.capitals, gen_facts.words, gen_facts.chat, gen_facts.unknown, gen_numbers.sums]
    )
    return fitting(rng, TRAIN, make)


# name, description, parameter, its description, question forms, how a result is told
_TOOLS = [
    (
        "get_weather",
        "Current weather of a city",
        "city",
        "Name of the city",
        ["What is the weather in {}?", "How is the weather in {}?", "Is it raining in {}?"],
        "The weather in {}: {}.",
    ),
    (
        "get_time",
        "Local time of a city",
        "city",
        "Name of the city",
        ["What time is it in {}?", "Tell me the time in {}.", "What is the local time in {}?"],
        "The time in {}: {}.",
    ),
    (
        "get_population",
        "Number of people in a city",
        "city",
        "Name of the city",
        ["How many people live in {}?", "What is the population of {}?", "How big is {}?"],
        "The population of {}: {}.",
    ),
    (
        "find_phone",
        "Phone number of a person",
        "name",
        "Name of the person",
        ["What is the phone number of {}?", "Find the number of {}.", "How can I call {}?"],
        "The number of {}: {}.",
    ),
    (
        "get_age",
        "Age of a person",
        "name",
        "Name of the person",
        ["How old is {}?", "What is the age of {}?", "Tell me the age of {}."],
        "The age of {}: {}.",
    ),
    (
        "look_up",
        "Looks a word up in the dictionary",
        "word",
        "The word",
        ["Look up {}.", "What does the dictionary say about {}?", "Look up the word {}."],
        "The entry of {}: {}.",
    ),
]


def tool_schema(tool):
    name, about, parameter, meaning = tool[:4]
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {
                "type": "object",
                "properties": {parameter: {"type": "string", "description": meaning}},
                "required": [parameter],
            },
        },
    }


def _tool_result(rng, tool):
    return {
        "get_weather": lambda: rng.choice(["sunny", "rain", "snow", "cloudy", "windy"])
        + f", {rng.randint(-9, 39)} degrees",
        "get_time": lambda: f"{rng.randint(0, 23)}:{rng.randint(10, 59)}",
        "get_population": lambda: f"{rng.randint(10, 999)} thousand",
        "find_phone": lambda: f"{rng.randint(100, 999)} {rng.randint(1000, 9999)}",
        "get_age": lambda: f"{rng.randint(3, 99)} years",
        "look_up": lambda: " ".join(rng.sample(t.ADJECTIVES, 2)),
    }[tool[0]]()


def tools(rng, split):
    offered = rng.sample(_TOOLS, rng.randint(1, 2))
    schemas = [tool_schema(x) for x in offered]
    if rng.random() < 0.2:
        doc = rng.choice([gen_facts.capitals, gen_facts.chat, gen_numbers.sums])(rng, split)
        return Doc("tools", doc.messages, doc.thought, doc.keys, doc.check, schemas)
    tool = rng.choice(offered)
    value = {
        "city": lambda: rng.choice(t.COUNTRIES)[1],
        "name": lambda: rng.choice(t.NAMES),
        "word": lambda: rng.choice(t.NOUNS)[0],
    }[tool[2]]()
    question = gen_facts.decorate(rng, rng.choice(tool[4]).format(value))
    call = {"name": tool[0], "arguments": {tool[2]: value}}
    answer = "<tool_call>\n" + json.dumps(call, ensure_ascii=False) + "\n</tool_call>"
    if rng.random() < 0.5:
        return Doc(
            "tools",
            _chat("", [question, answer], "").messages,
            f"I call {tool[0]} for {value}.",
            [],
            {"exact": answer},
            schemas,
        )
    result = _tool_result(rng, tool)
    content = result if rng.random() < 0.6 else json.dumps({"result": result})
    told = tool[5].format(value, result)
    messages = [
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
        {"role": "tool", "content": content},
        {"role": "assistant", "content": told},
    ]
    return Doc("tools", messages, f"The tool says {result}.", [], {"exact": told}, schemas)


CATEGORIES = {
    "chat": gen_facts.chat,
    "capitals": gen_facts.capitals,
    "words": gen_facts.words,
    "unknown": gen_facts.unknown,
    "sums": gen_numbers.sums,
    "units": gen_numbers.units,
    "counting": gen_numbers.counting,
    "spelling": gen_text.spelling,
    "copying": gen_text.copying,
    "stories": gen_text.stories,
    "follow-up": follow_up,
    "tools": tools,
}


def fitting(rng, split, make, tries=4000):
    for _ in range(tries):
        doc = make(rng, split)
        if doc.fits(split):
            return doc
    raise RuntimeError(f"{make.__name__}: nothing for split {split} in {tries} tries")


def long_chat(rng, split, tokens_about):
    """Question after question up to about so many tokens; a name told at the start may come back."""
    messages, size = [], 0
    while size < tokens_about:
        doc = fitting(
            rng,
            split,
            rng.choice([m for k, m in CATEGORIES.items() if k not in ("tools", "copying")]),
        )
        messages += doc.messages
        size += sum(
            4 + len(m["content"]) // (2 if m["content"][:1] > "\u4e00" else 4) for m in doc.messages
        )
    return Doc("long chat", messages, doc.thought, doc.keys, doc.check)


# how often each kind appears in training, in documents; later, what was learned first (capitals, what
# isn't known) makes room for what takes longer
MIXTURE = {
    "chat": 6,
    "capitals": 24,
    "words": 12,
    "unknown": 6,
    "sums": 26,
    "units": 9,
    "counting": 7,
    "spelling": 8,
    "copying": 8,
    "stories": 5,
    "follow-up": 12,
    "tools": 4,
    "plain": 7,
}
LATE_MIXTURE = MIXTURE | {
    "chat": 8,
    "capitals": 12,
    "words": 20,
    "unknown": 5,
    "sums": 32,
    "counting": 16,
    "spelling": 12,
    "copying": 12,
    "follow-up": 18,
    "tools": 8,
}
# Where to stop counting is learned last of all: it needs two numbers compared at every step.
LAST_MIXTURE = LATE_MIXTURE | {"counting": 120}


def training_doc(rng, kind):
    """One training document. kind: "short", "late" and "last" are the three mixtures, "long" fills
    contexts of a few thousand tokens."""
    if kind == "long" and rng.random() < 0.5:
        if rng.random() < 0.5:
            return fitting(rng, TRAIN, lambda r, s: gen_text.long_story(r, s))
        return long_chat(rng, TRAIN, rng.randint(300, 1800))
    mixture = {"late": LATE_MIXTURE, "last": LAST_MIXTURE}.get(kind, MIXTURE)
    kind = rng.choices(list(mixture), mixture.values())[0]
    if kind == "plain":
        return gen_text.plain(rng, TRAIN)
    doc = fitting(rng, TRAIN, CATEGORIES[kind])
    if kind not in ("tools",) and rng.random() < 0.1:
        doc = gen_facts.with_system(rng, doc)
    return doc
