"""What people really type: in lower case, without an end mark, in half a question, or anything at all.

Used for the last training steps only, over the documents of the other generators.
"""

import re

from . import gen_dialogue, gen_facts, gen_numbers
from . import tables as t
from .split import TRAIN, Doc, qa

# half questions: what stays of a whole one
_SHORTER = [
    (
        re.compile(r"^.*\bthe capital(?: city)? of (\w[\w ]*?)(?: is)?$"),
        ["capital of {}", "{} capital"],
    ),
    (
        re.compile(r"^(?:what is|what's|how much is|calculate|compute) (\d+) ([-+*]) (\d+)$"),
        ["{0}{1}{2}", "{0} {1} {2} =", "{0}{1}{2}=", "{0} {1} {2}"],
    ),
    (
        re.compile(r"^(?:what is|what's|give me|which word is) the opposite of (\w+)$"),
        ["opposite of {}"],
    ),
    (
        re.compile(r"^(?:what is|translate) (\w+) (?:in|into) (chinese|english)$"),
        ["{} in {}", "{} {}"],
    ),
    (
        re.compile(r"^(?:what is|convert) (\d+) (\w+) (?:in|into|to) (\w+)$"),
        ["{} {} to {}", "{} {} in {}"],
    ),
    (re.compile(r"^tell me (a .*story.*)$"), ["{}", "{} please"]),
]
_AROUND = re.compile(
    r"^(?:(?:hey|hello|please tell me|quick question|tell me|now|ok|so|i have a question)[,:] )|"
    r"[.?!]? (?:thanks|please|thank you)$"
)
_NOT = ("copying", "spelling", "tools", "plain", "long chat")

_TOPICS = (
    "physics chemistry biology history music art football chess poetry law love money time space "
    "gravity light sound energy electricity evolution democracy philosophy cooking gardening python "
    "java javascript rust linux windows git docker sql html bitcoin jazz painting religion medicine"
).split()
_DEEDS = (
    "bake bread,fix a bike,learn to swim,build a house,cook rice,sleep better,install linux,lose weight,"
    "write a book,paint a wall,tie a tie,open this file,sort a list,make coffee,buy a car,grow tomatoes"
).split(",")
_TOO_HARD = [
    "explain {topic}",
    "explain {topic} to me",
    "what is {topic}?",
    "tell me about {topic}",
    "write a poem about {topic}",
    "write an essay about {topic}",
    "write a program in {topic}",
    "write a function that reverses a string",
    "what do you think about {topic}?",
    "why is {topic} important?",
    "who invented {topic}?",
    "teach me {topic}",
    "how does {topic} work?",
    "how do i {deed}?",
    "how can i {deed}?",
    "help me to {deed}",
    "what is the best way to {deed}?",
    "should i {deed}?",
    "can you {deed}?",
    "give me a recipe for {noun}s",
    "summarise this text",
    "what is the meaning of life?",
    "what happened in {year}?",
    "who was born in {year}?",
    "what is the distance from {city} to {other}?",
    "recommend me a book about {topic}",
]
_TOO_HARD_ZH = [
    "怎么{deed}？",
    "解释一下{topic}。",
    "{topic}是什么？",
    "写一首关于{topic}的诗。",
    "谁发明了{topic}？",
]
_TOPICS_ZH = "物理 化学 历史 音乐 足球 法律 时间 电 光 哲学 计算机 数学 经济 艺术 医学 爱情".split()
_DEEDS_ZH = "做面包 修自行车 学游泳 做饭 减肥 写书 种树 睡得更好 买车 学英语".split()
_NOISE = "asdf qwerty foo bar baz test testing xyz blah hmm ok? lol abc aaa ??? . ! ... 123 huh what uh".split()

# what else people say, by the answer
_CHATTY = {
    "Hello! How can I help you?": ["hello", "hello", "hi", "hi", "hiya", "yo", "sup", "hallo"],
    "I know capitals, small sums, units, counting, spelling and short stories.": [
        "Help",
        "Help me",
        "What do you do?",
        "What can I do here?",
    ],
    "You are welcome!": ["thx", "ty", "cool, thanks", "nice"],
    "Goodbye! Have a nice day.": ["cya", "quit", "exit", "that's all"],
}
_ABBREVIATED = {
    "millimetres": "mm",
    "centimetres": "cm",
    "metres": "m",
    "kilometres": "km",
    "grams": "g",
    "kilograms": "kg",
    "tonnes": "t",
}


def typed(rng, text):
    """The text in lower case, without end mark, sometimes cut to half a question."""
    text = text.lower().rstrip("?.!？。！ ")
    if rng.random() < 0.7:
        text = _AROUND.sub("", text)
    for pattern, forms in _SHORTER:
        found = pattern.match(text)
        if found and rng.random() < 0.5:
            text = rng.choice(forms).format(*found.groups())
            break
    return (
        text + rng.choice(["", "", "", "", "?", " ?", "!"] if text[-1:].isalpha() else [""])
    ).strip()


def casual(rng, doc):
    """The document with its user's messages typed in haste; itself where the result would be another
    split's, or where every letter counts."""
    if doc.category in _NOT:
        return doc
    messages = [
        {**m, "content": typed(rng, m["content"]) or m["content"]} if m["role"] == "user" else m
        for m in doc.messages
    ]
    made = Doc(doc.category, messages, doc.thought, doc.keys, doc.check, doc.tools)
    return made if made.fits(TRAIN) else doc


def greeting(rng):
    """Small talk with nothing around it."""
    asks, answer, thought = rng.choice(gen_facts._CHAT)
    ask = rng.choice(asks + _CHATTY.get(answer, []))
    if rng.random() < 0.6:
        ask = ask.lower().rstrip("?.!？。！") + rng.choice(["", "", "", "!", "?", " :)"])
    elif ask[-1] not in "?.？。":
        ask += rng.choice(["", "!", "."])
    return qa("chat", ask, answer, thought)


def told(rng):
    """Something about themselves, as the first thing that they say."""
    chinese = rng.random() < 0.3
    tell, back, *_ = (gen_dialogue._remember_zh if chinese else gen_dialogue._remember)(rng)
    if rng.random() < 0.4:
        tell = typed(rng, tell)
    return qa("chat", tell, back, "他们告诉我一件事。" if chinese else "They tell me something.")


def half_question(rng):
    """Questions that leave out what everybody can guess."""
    kind = rng.randrange(3)
    if kind == 0:
        country, city, *_ = rng.choice(t.COUNTRIES)
        ask = rng.choice(["where is {}", "where is {}?", "Where is {}?", "{}", "what is {}?"])
        return qa(
            "capitals",
            ask.format(city.lower() if rng.random() < 0.5 else city),
            f"{city} is the capital of {country}.",
            f"The question is about {city}. It is a city in {country}.",
        )
    if kind == 1:
        last = rng.randint(3, 20)
        chinese = rng.random() < 0.3
        ask = rng.choice(
            ["数到{}", "数到{}。"] if chinese else ["count to {}", "Count to {}.", "count up to {}"]
        )
        listed = ("、" if chinese else ", ").join(map(str, range(1, last + 1)))
        return qa(
            "counting",
            ask.format(last),
            listed + ("。" if chinese else "."),
            f"从1开始，到{last}为止。" if chinese else f"Start at 1 and stop at {last}.",
            [f"p:count:1:1:{last}"],
        )
    small, factor, large = rng.choice([u for u in t.UNITS if u[0] in _ABBREVIATED])
    n, down = rng.randint(1, 99), rng.random() < 0.6
    given, result = (n, n * factor) if down else (n * factor, n)
    frm, to = (large, small) if down else (small, large)
    ask = rng.choice(["{}{} in {}", "{} {} in {}", "{} {} to {}", "how many {2} are {0} {1}"])
    return qa(
        "units",
        ask.format(given, _ABBREVIATED[frm], _ABBREVIATED[to]),
        f"{given} {gen_numbers.one(frm, given)} {'is' if given == 1 else 'are'} "
        f"{result} {gen_numbers.one(to, result)}.",
        f"1 {large[:-1]} is {factor} {small}, and {given} {'times' if down else 'divided by'} "
        f"{factor} is {result}.",
        [f"p:unit:{small}:{large}:{n}"],
    )


def too_hard(rng):
    """Questions that nobody of this size can answer, and what isn't a question."""
    form = rng.random()
    if form < 0.25:
        noise = rng.choice(_NOISE) if rng.random() < 0.5 else _gibberish(rng)
        ask, chinese = noise, False
    elif form < 0.45:
        ask = rng.choice(_TOO_HARD_ZH).format(
            deed=rng.choice(_DEEDS_ZH), topic=rng.choice(_TOPICS_ZH)
        )
        chinese = True
    else:
        ask = rng.choice(_TOO_HARD).format(
            topic=rng.choice(_TOPICS),
            deed=rng.choice(_DEEDS),
            noun=rng.choice(t.NOUNS)[0],
            year=rng.randint(1200, 2030),
            city=rng.choice(t.COUNTRIES)[1],
            other=rng.choice(t.COUNTRIES)[1],
        )
        style = rng.random()
        ask = ask.rstrip("?") if style < 0.3 else ask[0].upper() + ask[1:] if style < 0.8 else ask
        chinese = False
    if chinese:
        return qa("unknown", ask, "我不知道。", "这个问题我没有办法知道。")
    return qa("unknown", ask, "I don't know that.", "I have no way to know this.")


def _gibberish(rng):
    words = []
    for _ in range(rng.randint(1, 3)):
        words.append(
            "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
        )
    return " ".join(words)
