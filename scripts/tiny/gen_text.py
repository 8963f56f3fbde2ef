"""Generators for text: spelling, copying and quoting, stories, and plain prose without a chat."""

from . import tables as t
from .gen_facts import decorate, decorate_zh
from .split import HELD, Doc, choose, qa, sentences, split_of

SPELL = sorted(
    {en for en, _ in t.NOUNS} | set(t.COLOURS) | set(t.ADJECTIVES) | {n.lower() for n in t.NAMES}
)


def spelling(rng, split):
    word = rng.choice(SPELL)
    spelled = "-".join(word)
    if rng.random() < 0.3:
        ask = rng.choice(
            [
                "Which word is {}?",
                "What word is spelled {}?",
                "What does {} spell?",
                "Read this word: {}",
            ]
        )
        question = rng.choice(["", "", "Hey, ", "OK, ", "Please: ", "Now, "]) + ask.format(spelled)
        return qa("spelling", question, word, f"The letters are {spelled}.")
    ask = rng.choice(
        [
            "Spell {}.",
            "Spell the word {}.",
            "How do you spell {}?",
            "Please spell {}.",
            'Spell "{}".',
            "How is {} spelled?",
            "What are the letters of {}?",
        ]
    )
    return qa("spelling", decorate(rng, ask.format(word)), spelled, f"The word is {word}.")


def _sentence(rng):
    adj, noun, verb = rng.choice(t.ADJECTIVES), rng.choice(t.NOUNS)[0], rng.choice(t.VERBS)
    kind = rng.randrange(4)
    if kind == 0:
        return f"The {adj} {noun} {verb} a {rng.choice(t.NOUNS)[0]} {rng.choice(t.ADVERBS)}."
    if kind == 1:
        return f"{rng.choice(t.NAMES)} {verb} the {adj} {noun} near the {rng.choice(t.NOUNS)[0]}."
    if kind == 2:
        return (
            f"My {noun} is {adj} and your {rng.choice(t.NOUNS)[0]} is {rng.choice(t.ADJECTIVES)}."
        )
    return f"A {noun} and a {rng.choice(t.NOUNS)[0]} live in {rng.choice(t.COUNTRIES)[1]}."


def _sentence_zh(rng):
    name, a, b = rng.choice(t.ZH_NAMES), rng.choice(t.NOUNS)[1], rng.choice(t.NOUNS)[1]
    form = rng.choice(
        [
            "{n}在{a}旁边看见了{b}。",
            "{n}喜欢{a}和{b}。",
            "{n}的{a}在{b}上面。",
            "我给{n}买了{a}和{b}。",
        ]
    )
    return form.format(n=name, a=a, b=b)


def _syllables(rng):
    return "".join(
        rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(1, 4))
    )


def _loose(rng):
    """Words, names, numbers and made-up words in no order: copying must not lean on grammar."""
    pick = [
        lambda: rng.choice(t.NOUNS)[0],
        lambda: rng.choice(t.ADJECTIVES),
        lambda: rng.choice(t.NAMES),
        lambda: str(rng.randint(0, 999)),
        lambda: _syllables(rng),
        lambda: rng.choice(t.COUNTRIES)[rng.randint(0, 1)],
    ]
    return " ".join(rng.choice(pick)() for _ in range(rng.randint(2, 10)))


def _copy_text(rng, split):
    kind = rng.random()
    if kind < 0.35:
        return choose(rng, split, lambda: t.articles(_sentence(rng))), False
    if kind < 0.55:
        return choose(rng, split, lambda: _loose(rng)), False
    if kind < 0.75:
        return choose(rng, split, lambda: _sentence_zh(rng)), True
    chinese = rng.random() < 0.3
    make = _sentence_zh if chinese else _sentence
    many = [choose(rng, split, lambda: t.articles(make(rng))) for _ in range(rng.randint(2, 6))]
    return ("" if chinese else " ").join(many), chinese


def copying(rng, split):
    text, chinese = _copy_text(rng, split)
    keys = ["s:" + s for s in sentences(text)]
    if chinese:
        ask = rng.choice(["请重复：{}", "重复这句话：{}", "跟我说：{}", "照抄：{}"])
        if rng.random() < 0.25:
            return qa(
                "copying", f"给这句话加上引号：{text}", f"“{text}”", "我把它放进引号里。", keys
            )
        return qa("copying", ask.format(text), text, "我照原样重复。", keys)
    if rng.random() < 0.25:
        ask = rng.choice(
            ["Put this in quotes: {}", "Quote this: {}", "Write this in quotation marks: {}"]
        )
        return qa("copying", ask.format(text), f'"{text}"', "I put it in quotes.", keys)
    if len(text) < 30 and rng.random() < 0.2:
        return qa(
            "copying",
            f"Say this three times: {text}",
            " ".join([text] * 3),
            "I say it three times.",
            keys,
        )
    ask = rng.choice(
        [
            "Repeat after me: {}",
            "Repeat: {}",
            "Copy this: {}",
            "Say exactly this: {}",
            "Write this again: {}",
            "Please repeat: {}",
            "Copy this text: {}",
        ]
    )
    return qa("copying", ask.format(text), text, "I repeat it word for word.", keys)


# place, what is found there, who lives there, what it is like: a chapter follows from its place
PLACES = [
    ("river", "boat", "duck", "The water was cold and clear"),
    ("forest", "nut", "bear", "The trees were tall and old"),
    ("mountain", "stone", "goat", "The wind was strong up there"),
    ("village", "bell", "baker", "The streets were full of people"),
    ("lake", "shell", "frog", "The water was as still as glass"),
    ("garden", "rose", "bee", "The flowers smelled sweet"),
    ("castle", "crown", "king", "The walls were high and grey"),
    ("desert", "bone", "camel", "The sun was hot all day"),
    ("island", "coconut", "parrot", "The sea was blue on every side"),
    ("cave", "lamp", "bat", "It was dark and very quiet"),
    ("market", "basket", "farmer", "The air smelled of bread"),
    ("bridge", "rope", "troll", "The road was long and narrow"),
    ("field", "pumpkin", "mouse", "The grass was high and soft"),
    ("tower", "clock", "owl", "The stairs went up and up"),
    ("harbour", "net", "sailor", "The ships came and went"),
    ("valley", "flute", "shepherd", "The hills were green"),
    ("school", "pencil", "teacher", "The rooms were bright"),
    ("mill", "sack", "miller", "The big wheel went round and round"),
    ("station", "ticket", "guard", "The trains were loud"),
    ("swamp", "reed", "snake", "The ground was wet and soft"),
]
ANIMALS = "cat dog bird horse rabbit mouse tiger bear frog duck fox lion sheep pig cow wolf".split()


def _lines(rng, plan, slots):
    return [rng.choice(forms).format(**slots) for forms in plan]


def story_key(name, place):
    """Every sentence of a story holds its hero and something of its place, so that this pair's
    split is the split of all its sentences."""
    return f"p:story:{name}:{place}"


def pick_hero(rng, split, names, places):
    """A hero and a place whose story the split owns. Held-out stories are only asked for, never
    shown, so there the question alone decides."""
    while True:
        name, place = rng.choice(names), rng.choice(places)
        if split == HELD or split_of(story_key(name, place[0])) == split:
            return name, place


def story_lines(rng, name, animal, place):
    """Six sentences about the animal `name`."""
    where, thing, other, mood = place
    friend = t.NAMES[(t.NAMES.index(name) + len(where)) % len(t.NAMES)]
    return _lines(
        rng,
        [
            [
                "Once there was a {a} named {n} near the {p}.",
                "There once was a {a} called {n} who lived by the {p}.",
            ],
            [
                "{n} the {a} loved the {p}.",
                "Every day {n} walked to the {p}.",
                "{n} went to the {p} every morning.",
            ],
            ["One day {n} found a {t} at the {p}.", "One morning {n} saw a {t} near the {p}."],
            ["{n} took the {t} to {f} the {o}.", "{n} showed the {t} to {f}, an old {o}."],
            [
                '"This {t} is mine," said {f} the {o}.',
                '{f} the {o} said, "Thank you for the {t}, {n}."',
            ],
            [
                "{n} and {f} became friends at the {p}.",
                "From that day {n} and {f} played at the {p}.",
            ],
        ],
        dict(n=name, a=animal, p=where, t=thing, o=other, m=mood, f=friend),
    )


_ZH_ANIMALS = "猫 狗 鸟 兔子 老鼠 老虎 熊 青蛙 鸭子 羊".split()
_ZH_PLACES = [
    ("河边", "船"),
    ("山上", "石头"),
    ("海边", "贝壳"),
    ("花园里", "花"),
    ("村子里", "钟"),
    ("学校里", "笔"),
    ("桥上", "钥匙"),
    ("树下", "苹果"),
    ("路边", "盒子"),
    ("城市里", "灯"),
    ("房子里", "书"),
    ("车站", "信"),
]


def story_lines_zh(rng, name, animal, place):
    where, thing = place
    friend = t.ZH_NAMES[(t.ZH_NAMES.index(name) + 5) % len(t.ZH_NAMES)]
    return _lines(
        rng,
        [
            ["从前，{p}有一只{a}，名叫{n}。", "从前有一只叫{n}的{a}，住在{p}。"],
            ["有一天，{n}在{p}看见了{t}。", "一天早上，{n}在{p}找到了{t}。"],
            ["{n}把{t}送给了朋友{f}。", "{n}带着{t}去找{f}。"],
            ["{f}说：“谢谢你的{t}，{n}。”", "{f}高兴地说：“{n}，这个{t}真好。”"],
            ["从此{n}和{f}在{p}成了好朋友。", "后来{n}和{f}天天在{p}玩。"],
        ],
        dict(n=name, a=animal, p=where, t=thing, f=friend),
    )


def stories(rng, split):
    if rng.random() < 0.3:
        animal = rng.choice(_ZH_ANIMALS)
        name, place = pick_hero(rng, split, t.ZH_NAMES, _ZH_PLACES)
        lines = story_lines_zh(rng, name, animal, place)
        ask = rng.choice(
            [
                "讲一个关于{a}{n}和{t}的故事。",
                "请讲一个{p}的{a}{n}的小故事。",
                "我想听{p}的{a}{n}的故事。",
                "给我讲讲{p}{a}{n}的故事。",
            ]
        ).format(a=animal, n=name, p=place[0], t=place[1])
        return qa(
            "stories",
            decorate_zh(rng, ask),
            "".join(lines),
            f"故事里有{animal}{name}。",
            check={"contains": [animal, name, place[1]], "sentences": 4},
        )
    animal = rng.choice(ANIMALS)
    name, place = pick_hero(rng, split, t.NAMES, PLACES)
    ask = rng.choice(
        [
            "Tell me a story about a {a} named {n} near the {p}.",
            "Tell me a short story about a {a} called {n} at the {p}.",
            "Write a story about {n} the {a} and a {p}.",
            "Please tell a story about a {a} named {n} by the {p}.",
        ]
    )
    question = decorate(rng, ask.format(a=animal, n=name, p=place[0]))
    text = " ".join(story_lines(rng, name, animal, place)) + " The end."
    return qa(
        "stories",
        question,
        text,
        f"The story is about {name}, a {animal}, at the {place[0]}.",
        check={"contains": [animal, name, place[0], "the end"], "sentences": 6},
    )


_CHAPTER = [
    ["{n} the {a} came to the {p}.", "Then {n} the {a} walked to the {p}."],
    ["{m} at the {p}, thought {n}.", "{m}, and {n} liked the {p}."],
    ["There {n} met {f} the {o}.", "A {o} called {f} waited for {n}."],
    ["{f} gave {n} a {t} from the {p}.", "Behind the {p} {n} and {f} found a {t}."],
    ['"I will keep this {t}," said {n} the {a}.', '"What a fine {t}," said {n} to {f}.'],
]


def chapters(rng, name, animal, start, count):
    """A long story: chapter after chapter, each at the next place, in a fixed order of places."""
    text = []
    for i in range(count):
        place, thing, other, mood = PLACES[(start + i) % len(PLACES)]
        friend = t.NAMES[(t.NAMES.index(name) + 3 * i + 1) % len(t.NAMES)]
        slots = dict(n=name, a=animal, p=place, t=thing, o=other, m=mood, f=friend)
        text.append(f"Chapter {i + 1}. " + " ".join(_lines(rng, _CHAPTER, slots)))
    return "\n".join(text) + "\nThe end."


def long_story(rng, split, most=34):
    name, animal, start = rng.choice(t.NAMES), rng.choice(ANIMALS), rng.randrange(len(PLACES))
    count = rng.randint(2, most)
    ask = rng.choice(
        [
            "Tell me a story with {c} chapters about {n} the {a}, starting at the {p}.",
            "Write a long story in {c} chapters about {n} the {a} at the {p}.",
            "Tell a story in {c} chapters: {n} the {a} travels from the {p}.",
        ]
    )
    question = ask.format(c=count, n=name, a=animal, p=PLACES[start][0])
    return qa(
        "long story",
        question,
        chapters(rng, name, animal, start, count),
        f"{count} chapters about {name} the {animal}, from the {PLACES[start][0]} on.",
        check={"contains": [f"Chapter {count}.", "The end."]},
    )


_FACT_FORMS = [
    "{city} lies in {land} and is its capital.",
    "The seat of government of {land} is in {city}.",
    "People in {land} call {city} their capital.",
    "Visitors of {land} often go to {city}, the capital.",
]
_FACT_FORMS_ZH = [
    "在{land}，首都叫做{city}。",
    "{city}这座城市是{land}的首都所在。",
    "去{land}的人常常先到首都{city}。",
]


def _fact(rng, split):
    if rng.random() < 0.35:
        return choose(
            rng,
            split,
            lambda: rng.choice(_FACT_FORMS_ZH).format(
                land=(row := rng.choice(t.COUNTRIES))[2], city=row[3]
            ),
        )
    return choose(
        rng,
        split,
        lambda: rng.choice(_FACT_FORMS).format(
            land=(row := rng.choice(t.COUNTRIES))[0], city=row[1]
        ),
    )


def plain(rng, split):
    """A paragraph of prose, no chat: what eval.txt is made of and what raw completion sees."""
    kind = rng.random()
    if kind < 0.4:
        name, place = pick_hero(rng, split, t.NAMES, PLACES)
        text = " ".join(story_lines(rng, name, rng.choice(ANIMALS), place))
    elif kind < 0.55:
        name, place = pick_hero(rng, split, t.ZH_NAMES, _ZH_PLACES)
        text = "".join(story_lines_zh(rng, name, rng.choice(_ZH_ANIMALS), place))
    elif kind < 0.75:
        text = " ".join(
            choose(rng, split, lambda: t.articles(_sentence(rng))) for _ in range(rng.randint(2, 5))
        )
    elif kind < 0.82:
        text = "".join(
            choose(rng, split, lambda: _sentence_zh(rng)) for _ in range(rng.randint(2, 5))
        )
    else:
        text = " ".join(_fact(rng, split) for _ in range(rng.randint(2, 5)))
    return Doc("plain", [{"role": "plain", "content": text}])
