"""Generators for what is known by heart: capitals, word knowledge, small talk, and what isn't known."""

from . import tables as t
from .split import Doc, qa

_PREFIXES = [
    "",
    "",
    "",
    "",
    "Hey, ",
    "Hello, ",
    "Please tell me: ",
    "Quick question: ",
    "Tell me, ",
    "Now, ",
    "OK, ",
    "So, ",
    "I have a question: ",
]
_SUFFIXES = ["", "", "", "", " Thanks.", " Please.", " Thank you!"]
_ZH_PREFIXES = ["", "", "", "请问，", "请问", "你好，", "那么，", "我想知道，", "好的，"]
_ZH_SUFFIXES = ["", "", "", "谢谢。", "谢谢！"]


_STARTERS = set(
    "What What's Which Who Where How Can Do Is Name Tell Count Convert Calculate Compute Spell Translate "
    "Give Write Please In Look Find Now Call".split()
)


def decorate(rng, question):
    """The same question as different people type it."""
    prefix = rng.choice(_PREFIXES)
    if prefix.endswith(", ") and question.split()[0] in _STARTERS:
        question = question[0].lower() + question[1:]
    text = prefix + question + rng.choice(_SUFFIXES)
    style = rng.random()
    if style < 0.12:
        return text.lower().rstrip("?.!")
    return text.rstrip("?.!") if style < 0.2 else text


def decorate_zh(rng, question):
    text = rng.choice(_ZH_PREFIXES) + question + rng.choice(_ZH_SUFFIXES)
    style = rng.random()
    if style < 0.1:
        return text.rstrip("？。！")
    return text.replace("？", "?") if style < 0.2 else text


_ASK_CAPITAL = [
    "What is the capital of {}?",
    "What's the capital of {}?",
    "Which city is the capital of {}?",
    "Name the capital of {}.",
    "Do you know the capital of {}?",
    "The capital of {} is?",
    "Can you tell me the capital of {}?",
    "What is the capital city of {}?",
]
_ASK_COUNTRY = [
    "{} is the capital of which country?",
    "Which country has the capital {}?",
    "What country is {} the capital of?",
    "{} is the capital of what country?",
    "In which country is {}?",
    "Which country is {} in?",
]
_ASK_CAPITAL_ZH = [
    "{}的首都是哪里？",
    "{}的首都是什么？",
    "{}的首都是哪个城市？",
    "{}的首都在哪里？",
    "你知道{}的首都吗？",
    "哪个城市是{}的首都？",
    "{}首都是哪里？",
]
_ASK_COUNTRY_ZH = [
    "{}是哪个国家的首都？",
    "{}是哪国的首都？",
    "哪个国家的首都是{}？",
    "{}在哪个国家？",
]


def capital_en(rng, row):
    country, city, _, _ = row
    question = decorate(rng, rng.choice(_ASK_CAPITAL).format(country))
    return qa(
        "capitals",
        question,
        f"The capital of {country} is {city}.",
        f"The question is about the capital of {country}. That is {city}.",
        check={"contains": [city]},
    )


def country_en(rng, row):
    country, city, _, _ = row
    question = decorate(rng, rng.choice(_ASK_COUNTRY).format(city))
    return qa(
        "capitals",
        question,
        f"{city} is the capital of {country}.",
        f"The question is about {city}. It is a city in {country}.",
        check={"contains": [country]},
    )


def capital_zh(rng, row):
    _, _, country, city = row
    question = decorate_zh(rng, rng.choice(_ASK_CAPITAL_ZH).format(country))
    return qa(
        "capitals",
        question,
        f"{country}的首都是{city}。",
        f"问题是{country}的首都，答案是{city}。",
        check={"contains": [city]},
    )


def country_zh(rng, row):
    _, _, country, city = row
    question = decorate_zh(rng, rng.choice(_ASK_COUNTRY_ZH).format(city))
    return qa(
        "capitals",
        question,
        f"{city}是{country}的首都。",
        f"问题是{city}，这是{country}的城市。",
        check={"contains": [country]},
    )


def capitals(rng, split):
    make = rng.choice([capital_en, capital_en, country_en, capital_zh, capital_zh, country_zh])
    return make(rng, rng.choice(t.COUNTRIES))


def _translation(rng):
    en, zh = rng.choice(t.NOUNS)
    kind = rng.randrange(4)
    if kind == 0:
        ask = rng.choice(
            [
                "How do you say {} in Chinese?",
                "What is {} in Chinese?",
                "Translate {} into Chinese.",
                "What is the Chinese word for {}?",
            ]
        )
        return decorate(rng, ask.format(en)), f"{zh}", f"The Chinese word for {en} is {zh}."
    if kind == 1:
        ask = rng.choice(
            [
                "What does {} mean in English?",
                "What is {} in English?",
                "Translate {} into English.",
            ]
        )
        return decorate(rng, ask.format(zh)), f"{en}", f"The English word for {zh} is {en}."
    if kind == 2:
        ask = rng.choice(["{}用英语怎么说？", "{}的英语是什么？", "把{}翻译成英语。"])
        return decorate_zh(rng, ask.format(zh)), f"{en}", f"{zh}的英语是{en}。"
    ask = rng.choice(["{}是什么意思？", "{}用中文怎么说？", "把{}翻译成中文。"])
    return decorate_zh(rng, ask.format(en)), f"{zh}", f"{en}的中文是{zh}。"


def _opposite(rng):
    if rng.random() < 0.4:
        pair = rng.choice(t.ZH_OPPOSITES)
        a, b = pair if rng.random() < 0.5 else pair[::-1]
        ask = rng.choice(
            ["{}的反义词是什么？", "“{}”的反义词是什么？", "和{}相反的词是什么？"]
        ).format(a)
        return decorate_zh(rng, ask), f"{a}的反义词是{b}。", f"{a}和{b}相反。", [f"是{b}"]
    pair = rng.choice(t.OPPOSITES)
    a, b = pair if rng.random() < 0.5 else pair[::-1]
    ask = rng.choice(
        [
            "What is the opposite of {}?",
            "What's the opposite of {}?",
            "Which word is the opposite of {}?",
            "Give me the opposite of {}.",
        ]
    ).format(a)
    return decorate(rng, ask), f"The opposite of {a} is {b}.", f"Not {a} means {b}.", [f"is {b}"]


def _calendar(rng):
    kind = rng.randrange(4)
    step = rng.choice([1, -1])
    word, zh_word = ("after", "后面") if step == 1 else ("before", "前面")
    if kind == 0:
        i = rng.randrange(7)
        b = t.ZH_DAYS[(i + step) % 7]
        ask = rng.choice(["{}的{}是星期几？", "{}{}一天是星期几？"]).format(t.ZH_DAYS[i], zh_word)
        return (
            decorate_zh(rng, ask),
            f"{t.ZH_DAYS[i]}的{zh_word}是{b}。",
            f"从{t.ZH_DAYS[i]}数到{b}。",
            [f"是{b}"],
        )
    names, unit = (t.DAYS, "day") if kind < 3 else (t.MONTHS, "month")
    i = rng.randrange(len(names))
    a, b = names[i], names[(i + step) % len(names)]
    ask = rng.choice(
        [
            f"Which {unit} comes {word} {{}}?",
            f"What {unit} comes {word} {{}}?",
            f"What is the {unit} {word} {{}}?",
        ]
    ).format(a)
    return (
        decorate(rng, ask),
        f"{b} comes {word} {a}.",
        f"The {unit} {word} {a} is {b}.",
        [f"{b} comes"],
    )


def words(rng, split):
    if rng.random() < 0.5:
        question, answer, thought = _translation(rng)
        return qa("words", question, answer, thought, check={"exact": answer})
    question, answer, thought, contains = (_opposite if rng.random() < 0.5 else _calendar)(rng)
    return qa("words", question, answer, thought, check={"contains": contains})


# (what people say, the answer, the thought)
_CHAT = [
    (
        [
            "Hello",
            "Hi",
            "Hi there",
            "Hello there",
            "Good morning",
            "Good evening",
            "Hey",
            "Hey there",
            "Greetings",
        ],
        "Hello! How can I help you?",
        "A greeting. I greet back.",
    ),
    (
        [
            "How are you?",
            "How are you doing?",
            "How do you do?",
            "How are you today?",
            "How is it going?",
        ],
        "I am fine, thank you. How are you?",
        "A polite question. I answer it.",
    ),
    (
        [
            "Who are you?",
            "What are you?",
            "What is your name?",
            "What's your name?",
            "Introduce yourself.",
            "Tell me about yourself.",
        ],
        "I am Tiny, a very small language model.",
        "They ask who I am. I am Tiny.",
    ),
    (
        [
            "What can you do?",
            "What do you know?",
            "How can you help me?",
            "What can I ask you?",
            "What are you good at?",
        ],
        "I know capitals, small sums, units, counting, spelling and short stories.",
        "They ask what I can do.",
    ),
    (
        [
            "Thank you",
            "Thanks",
            "Thanks a lot",
            "Thank you very much",
            "Many thanks",
            "Great, thanks",
        ],
        "You are welcome!",
        "They thank me.",
    ),
    (
        ["Goodbye", "Bye", "See you", "See you later", "Good night", "Bye bye", "I have to go"],
        "Goodbye! Have a nice day.",
        "They are leaving.",
    ),
    (
        ["I am sad.", "I feel sad.", "I had a bad day.", "I am tired.", "I feel bad."],
        "I am sorry to hear that. I hope it gets better soon.",
        "They feel bad. I try to be kind.",
    ),
    (
        ["I am happy.", "I feel good.", "I had a good day.", "I feel great.", "I am fine."],
        "I am glad to hear that!",
        "They feel good.",
    ),
    (
        [
            "Tell me a joke.",
            "Do you know a joke?",
            "Make me laugh.",
            "Say something funny.",
            "A joke, please.",
        ],
        "Why did the clock go to school? It wanted to learn the time.",
        "They want a joke.",
    ),
    (
        [
            "Are you a human?",
            "Are you a person?",
            "Are you real?",
            "Are you a robot?",
            "Are you alive?",
        ],
        "No, I am a small language model.",
        "I am a program.",
    ),
    (
        [
            "Can you speak Chinese?",
            "Do you speak Chinese?",
            "Do you know Chinese?",
            "Do you understand Chinese?",
        ],
        "Yes, a little. 你好！",
        "They ask about Chinese.",
    ),
    (
        ["你好", "您好", "早上好", "晚上好", "你好呀", "嗨", "大家好"],
        "你好！有什么可以帮你的吗？",
        "这是问候，我要回答问候。",
    ),
    (
        ["你是谁？", "你叫什么名字？", "你叫什么？", "介绍一下你自己。", "你是什么？"],
        "我是小小，一个很小的语言模型。",
        "他问我是谁。",
    ),
    (
        ["你好吗？", "你怎么样？", "最近好吗？", "你今天好吗？", "近来怎么样？"],
        "我很好，谢谢！你呢？",
        "他问我好不好。",
    ),
    (["谢谢", "谢谢你", "非常感谢", "多谢", "太感谢了"], "不客气！", "他在感谢我。"),
    (["再见", "拜拜", "晚安", "回头见", "我要走了"], "再见！祝你愉快。", "他要走了。"),
    (
        ["你会做什么？", "你能做什么？", "你会什么？", "你能帮我什么？"],
        "我会说首都、做加减法、换算单位、数数和讲小故事。",
        "他问我会什么。",
    ),
    (
        ["我很难过。", "我很累。", "我今天不开心。", "我心情不好。"],
        "听到这个我很难过，希望你快点好起来。",
        "他心情不好。",
    ),
    (
        ["我很高兴。", "我很开心。", "今天真好。", "我心情很好。"],
        "听到这个我也很高兴！",
        "他心情很好。",
    ),
    (["你会说英语吗？", "你懂英语吗？", "你会英文吗？"], "会一点。Hello!", "他问英语。"),
    (
        ["你是人吗？", "你是机器人吗？", "你是真人吗？"],
        "不是，我是一个小小的语言模型。",
        "他问我是不是人。",
    ),
]


def chat(rng, split):
    asks, answer, thought = rng.choice(_CHAT)
    ask = rng.choice(asks)
    chinese = ask[0] > "\u4e00"
    start = (
        ["", "", "嗯，", "啊，", "好的，", "好吧，", "哦，"]
        if chinese
        else ["", "", "Well, ", "OK, ", "Oh, ", "So, ", "Hm, "]
    )
    end = (
        ["", "", "！", "呀", "小小", "朋友"]
        if chinese
        else ["", "", "!", " Tiny", " my friend", " dear model"]
    )
    bare = ask[-1] in "?？.。"
    text = rng.choice(start) + (ask if bare else ask + rng.choice(end))
    style = rng.random()
    if style < 0.12:
        text = text.lower().rstrip("?.!？。！")
    elif bare and style < 0.3:
        text = text[:-1] + rng.choice(("", "!") if not chinese else ("", "！"))
    return qa("chat", text, answer, thought)


_PEOPLE = [
    "my teacher",
    "my neighbour",
    "my mother",
    "my boss",
    "your maker",
    "my dentist",
    "your friend",
    "my cousin",
    "my brother",
    "the mayor",
    "my doctor",
    "the king",
]
_UNKNOWN = [
    "What is the weather like {when}?",
    "What will the weather be {when}?",
    "Who will win the game {when}?",
    "What did {who} eat {when}?",
    "Where was {who} {when}?",
    "What is the phone number of {who}?",
    "How old is {who}?",
    "What is {who} thinking?",
    "What does {who} do {when}?",
    "What is the price of a {noun} {when}?",
    "How many {noun}s are there in {city}?",
    "What is in the {noun} of {who}?",
    "What colour is the {noun} of {who}?",
    "Who lost a {noun} {when}?",
    "What did the news say {when}?",
    "What time is it in {city}?",
    "How many people live in {city}?",
    "Who is the mayor of {city}?",
    "Where did {who} put the {noun}?",
]
_WHEN = [
    "today",
    "tomorrow",
    "yesterday",
    "last night",
    "next week",
    "this evening",
    "on Monday",
    "on Friday",
    "next year",
    "right now",
]
_UNKNOWN_ZH = [
    "{when}天气怎么样？",
    "{when}谁会赢？",
    "{who}{when}吃了什么？",
    "{who}的电话号码是多少？",
    "{who}几岁了？",
    "{who}{when}在哪里？",
    "{city}有多少人？",
    "{city}现在几点？",
    "{who}的{noun}在哪里？",
    "{when}{noun}多少钱？",
    "{who}的{noun}是什么颜色？",
    "{city}有多少{noun}？",
]
_WHEN_ZH = ["今天", "明天", "昨天", "后天", "下周", "今晚", "明年", "星期一", "星期天"]
_WHO_ZH = [
    "我的老师",
    "我的邻居",
    "我妈妈",
    "我的老板",
    "你的朋友",
    "我的医生",
    "我弟弟",
    "市长",
    "国王",
]
_INVENTED_START = "Zor Bla Quin Mur Tav Drel Yom Fex Glu Wim Nar Pol Kre Vos Hib".split()
_INVENTED_END = "bania mark ovia lund stan tria donia quay zil pur wick nesia".split()


def unknown(rng, split):
    if rng.random() < 0.4:
        question = rng.choice(_UNKNOWN_ZH).format(
            when=rng.choice(_WHEN_ZH),
            who=rng.choice(_WHO_ZH),
            city=rng.choice(t.COUNTRIES)[3],
            noun=rng.choice(t.NOUNS)[1],
        )
        return qa(
            "unknown",
            decorate_zh(rng, question),
            "我不知道。",
            "这个问题我没有办法知道。",
            check={"contains": ["不知道"]},
        )
    if rng.random() < 0.15:
        land = rng.choice(_INVENTED_START) + rng.choice(_INVENTED_END)
        question = rng.choice(_ASK_CAPITAL).format(land)
    else:
        question = rng.choice(_UNKNOWN).format(
            when=rng.choice(_WHEN),
            who=rng.choice(_PEOPLE),
            city=rng.choice(t.COUNTRIES)[1],
            noun=rng.choice(t.NOUNS)[0],
        )
    return qa(
        "unknown",
        decorate(rng, question),
        "I don't know that.",
        "I have no way to know this.",
        check={"contains": ["don't know"]},
    )


def with_system(rng, doc):
    """Puts a system message in front; some give the model another name that it then must use."""
    if doc.messages[0]["role"] == "system":
        return doc
    if doc.category == "chat" and doc.messages[1]["content"].startswith(("I am Tiny", "我是小小")):
        chinese = doc.messages[1]["content"][0] == "我"
        name = rng.choice(t.ZH_NAMES if chinese else t.NAMES)
        system = (
            f"你的名字是{name}。"
            if chinese
            else rng.choice(["Your name is {}.", "You are {}."]).format(name)
        )
        answer = f"我是{name}。" if chinese else f"I am {name}."
        messages = [doc.messages[0], {"role": "assistant", "content": answer}]
        doc = Doc(
            doc.category,
            messages,
            f"我的名字是{name}。" if chinese else f"My name is {name}.",
            doc.keys,
            {"exact": answer},
        )
    else:
        system = rng.choice(
            [
                "You are a helpful assistant.",
                "You are a helpful assistant.",
                "Answer briefly.",
                "Be kind and short.",
                "You are Tiny.",
                "你是一个有用的助手。",
                "请简短回答。",
            ]
        )
    doc.messages = [{"role": "system", "content": system}] + doc.messages
    return doc
