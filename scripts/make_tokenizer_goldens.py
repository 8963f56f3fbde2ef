#!/usr/bin/env python3
"""Writes tests/goldens/tokenizers/*: small tokenizers of many kinds, with the reference's ids.

Each folder has a tokenizer.json, trained by the reference library on the lines below, and encode.jsonl:
{"mode", "text", "ids"} (mode: all, no-special or plain, as in fuzz_tokenizer.py).

usage: make_tokenizer_goldens.py [NAME ...]
needs: pip install 'tokenizers==0.23.*'
"""

import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from fuzz_tokenizer import MODES, Reference, TextMaker

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "tokenizers"
VOCABULARY = 600
NUM_RANDOM = 24

LINES = """\
The quick brown fox isn't lazy; it's what they'd say we'll see, and I'm sure you've been there.
THE OLD HOUSE WASN'T EMPTY. It'S "1234567" steps - or 3.14159 - from the harbour, they SAID.
def main(argc, argv):\n    for i in range(100):\n        print(f"{i:02x}", end='\\r\\n')\n\treturn 0
Über den Wäldern liegt heute der Nebel, und die Straßen sind naß vom Regen.
Дождь идёт третий день, и река поднялась до самого моста.
今天天气很好，我们去公园散步吧。今天天气很好，我们去公园。明日は雨が降るでしょう。오늘은 날씨가 좋습니다.
नमस\u094dत\u0947 द\u0941न\u093fय\u093e, ١٢٣ مرحبا بالعالم, שלום עולם
camelCase HTTPServer snake_case Ünïcödé ﬁne … “quoted” — 10 000,50 €  \U0001f600\U0001f44d\U0001f3fd
e\u0301te\u0301 cafe\u0301 a\u0308\u0323 q\u0307\u0323 \u1112\u1161\u11ab \u212b
<a href="/index.html?q=1&r=2">link</a> {"key": [1, 22, 333], "other": null}
""".splitlines()

TEXTS = ["", " ", "  a", "a  ", "\n\n", " \n a", "\r\n\r\n\tx", "it'S we'LL I'\u017f they'VE don't", "12345 1234567 \u0663\u0664 \u216712",
         "a1b22c333", "HTTPServer camelCase \u01c5ungla", "don't stop", "!!!\n\n???", " (x):\n", "\u3000\u3000b", "cafe\u0301", "\u1112\u1161\u11ab",
         "今天天气很好，公园", "نمست\u0947 नमस\u094dत\u0947", "\U00011de0\U00011de5 \U00016ff4", "\u200b\u00a0x", "x,y;z", "  ,, ,", "__a__", "a/b//c/\n/"]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + ENDINGS,
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + ENDINGS,
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
POSSESSIVE = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]|\s+(?!\S)|\s"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False, **options}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def added(content, special=True, **options):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": special, **options}


def template(before, after):
    """A post-processor; takes the ids of its tokens once they are known."""
    def make(ids):
        token = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
        text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
        single = [*map(token, before), text("A"), *map(token, after)]
        return {"type": "TemplateProcessing", "single": single, "pair": [*single, text("B")],
                "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in before + after}}
    return make


NFC = {"type": "NFC"}
BEGIN, END = "<|begin|>", "<|end|>"
MARKERS = [added(BEGIN), added(END), added("<think>", special=False)]
STRIPPING = [added(BEGIN, rstrip=True), added(END, lstrip=True), added("<mask>", lstrip=True, rstrip=True),
             added("word", special=False, single_word=True), added("Caf\u00e9", special=False, normalized=True),
             added("e\u0301t", special=False, normalized=True), added("  ", special=False), added("<b>", special=False,
             single_word=True, normalized=True, lstrip=True), added("<be", special=False), added("\u212b", special=False, normalized=True)]

# name: normalizer, pre_tokenizer, post_processor, model options, added tokens
CASES = {
    "gpt2": (None, byte_level(use_regex=True), None, {}, [added("<|endoftext|>")]),
    "gpt2-prefix-space": (None, byte_level(use_regex=True, add_prefix_space=True), None, {}, MARKERS),
    "llama3": (None, sequence(split(LLAMA3), byte_level()), template([BEGIN], []), {"ignore_merges": True}, MARKERS),
    "gpt4o": (None, sequence(split(O200K), byte_level()), None, {"ignore_merges": False}, MARKERS),
    "qwen3.5": (NFC, sequence(split(QWEN35), byte_level()), None, {}, MARKERS),
    "deepseek3": ({"type": "Sequence", "normalizers": []},
                  sequence(split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK), byte_level()),
                  template([BEGIN], [END]), {}, [added(t["content"], t["special"], normalized=True) for t in MARKERS]),
    "starcoder": (None, sequence({"type": "Digits", "individual_digits": True}, byte_level(use_regex=True)), None, {},
                  MARKERS),
    "digit-runs": (NFC, sequence({"type": "Digits", "individual_digits": False}, byte_level(add_prefix_space=True)), None,
                   {}, STRIPPING),
    "possessive": (None, sequence(split(POSSESSIVE), byte_level()), None, {}, MARKERS),
    "bloom": (None, sequence(split(BLOOM), byte_level()), None, {}, MARKERS),
    "strip": (NFC, sequence(split(LLAMA3), byte_level()), template([], [END]), {"ignore_merges": True}, STRIPPING),
    "removed": (NFC, sequence(split(r"\s", "Removed"), split(r"\p{P}", "Isolated", invert=True), byte_level()), None, {},
                STRIPPING),
    "contiguous": (None, sequence(split(r"[\p{P}\p{S}]", "Contiguous"), split("今天", "MergedWithNext", kind="String"),
                                  byte_level(use_regex=True)), None, {}, MARKERS),
    "merged": (None, sequence(split(r"\p{Lu}", "MergedWithNext"), split(r"[,;]|\.+", "MergedWithPrevious"),
                              split(r"\d", "MergedWithPrevious", invert=True), byte_level()), None, {}, MARKERS),
    "lazy": (None, sequence(split(r"\d{1,3}(?=(?:\d{3})*(?!\d))|\p{L}+?(?=[aeiou]|\P{L})|(?:\n|\r\n?)+|(ab|a|b)??c|\x{4eca}|\u5929{2,}|\p{^L}"),
                              byte_level()), None, {}, MARKERS),
}


# ---- Making ----


def trained(pre_tokenizer):
    """Vocabulary and merges over the lines, as the pre-tokenizer cuts them."""
    tokenizer = Tokenizer(models.BPE())
    settings = json.loads(tokenizer.to_str())
    settings["pre_tokenizer"] = pre_tokenizer
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=VOCABULARY, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def make(name):
    normalizer, pre_tokenizer, post_processor, options, tokens = CASES[name]
    vocab, merges = trained(pre_tokenizer)
    ids = {token["content"]: len(vocab) + i for i, token in enumerate(tokens)}
    processors = [byte_level(use_regex=True)] + ([post_processor(ids)] if post_processor else [])
    settings = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": ids[token["content"]], **token} for token in tokens],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
        "post_processor": {"type": "Sequence", "processors": processors} if post_processor else processors[0],
        "decoder": byte_level(use_regex=True),
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, **options,
                  "vocab": vocab, "merges": merges},
    }
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(settings, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf8")

    reference = Reference(path)
    rng = random.Random(name)
    maker = TextMaker(reference.added, LINES)
    texts = TEXTS + [t for token in reference.added for t in (token, f" {token} ", f"a{token}b", token[:-1], token.lower())]
    texts += [maker.text(rng)[:60] for _ in range(NUM_RANDOM)]
    lines = []
    for number, text in enumerate(dict.fromkeys(texts)):
        modes = MODES if any(token in text for token in reference.added) else [list(MODES)[number % 3]]
        for mode in modes:
            lines.append(json.dumps({"mode": mode, "text": text, "ids": reference.encode(mode, [text])[0]}))
    (folder / "encode.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{name}: {path.stat().st_size} bytes, {len(lines)} lines")


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        make(case)
