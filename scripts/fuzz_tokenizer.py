#!/usr/bin/env python3
"""Compares `llm tokenize` with the reference library on random texts; exit code 1 on a difference.

Texts are drawn from mixed alphabets (code, white space, contractions, digits, CJK, jamo, combining
marks, unassigned, emoji, spellings of added tokens and halves of them) or made by mutating texts of
golden files. Each goes through three modes (all added tokens, encode_special_tokens, none), and
every tenth brings a random list of ids to decode. A text that differs is made as short as it can be,
printed, and appended to a file that the unit tests read.

usage: fuzz_tokenizer.py [--count N] [--seed N] [--tokenizer DIR] [--llm FILE] [--mutate FILE ...]
needs: pip install 'tokenizers==0.23.*'
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODES = {"all": {}, "no-special": {"special": False}, "plain": {"plain": True}}
CHUNK = 20000  # texts for one run of llm

# ---- Alphabets: lists of strings to draw from ----

CATEGORIES = {}
for c in range(0x110000):
    CATEGORIES.setdefault(unicodedata.category(chr(c)), []).append(chr(c))
SCALARS = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]


def span(first, last):
    return [chr(c) for c in range(first, last + 1)]


def of_categories(*names):
    return [c for name in names for c in CATEGORIES[name]]


MARKS = of_categories("Mn", "Mc", "Me")
MARKS_BY_CLASS = {}
for mark in MARKS:
    MARKS_BY_CLASS.setdefault(unicodedata.combining(mark), []).append(mark)
# Characters that NFC changes: singletons, composition exclusions, canonical compositions.
NFC_CHANGES = [c for cs in CATEGORIES.values() for c in cs if "\ud800" > c or c > "\udfff"
               if unicodedata.normalize("NFC", c) != c or unicodedata.normalize("NFD", c) != c]
APOSTROPHES = ["'", "'", "'", "’"]
CONTRACTIONS = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "vE", "M", "LL", "lL", "D", "ſ", "K", "x", "r"]
SPACE = [chr(c) for c in (9, 10, 11, 12, 13, 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
                          0x205F, 0x3000)]
NEARLY_SPACE = [chr(c) for c in (0x1C, 0x1D, 0x1E, 0x1F, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0)]
CODE = ["->", "==", "!=", "();", "{\n", "}\n", "    ", "\t", "//", "/*", "*/", "#", "::", "<<", ">>", "[0]", "\\n", "0x1F",
        "std", "int", "return", "def ", "self.", "\r\n", "\n\n", "\"", "''", "`", "~", "@", "$", "%", "^", "&", "|", "_x", "__"]
WORDS = ["the", "The", "THE", "hello", "World", "naïve", "Straße", "камень", "día", "γειά", "שלום", "مرحبا", "नमस\u094dत\u0947", "สว\u0e31สด\u0e35", "ﬁx",
         "camelCase", "HTTPServer", "ǅungla", "ⅷ", "a", "I"]
ALPHABETS = [
    span(0x20, 0x7E), WORDS + [" "], CODE, CODE + WORDS, SPACE, SPACE + NEARLY_SPACE, [" ", "\n", "\r", "\t", "a", "1"],
    APOSTROPHES + CONTRACTIONS, APOSTROPHES + CONTRACTIONS + [" ", "a"], of_categories("Nd", "Nl", "No"),
    list("0123456789") + [" ", ",", ".", "a"], span(0x4E00, 0x9FFF) + list("，。！？、"), span(0x3040, 0x30FF),
    span(0x1100, 0x11FF) + span(0xA960, 0xA97C) + span(0xD7B0, 0xD7FB), span(0x1100, 0x1112) + span(0x1161, 0x1175) + span(0x11A7, 0x11C2),
    span(0xAC00, 0xD7A3) + span(0x11A8, 0x11C2), ["e", "a", "o", " "] + span(0x300, 0x345), ["q"] + MARKS, NFC_CHANGES,
    NFC_CHANGES + MARKS, of_categories("Cn"), of_categories("Co"), of_categories("Cf", "Cc"),
    span(0x1F300, 0x1FAFF) + ["\u200d", "\ufe0f", "\U0001f1e9", "\U0001f1ea", "\U0001f3fd"], of_categories("Lu", "Ll", "Lt"), of_categories("Lm", "Lo"),
    of_categories("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"), of_categories("Sm", "Sc", "Sk", "So"), list("aAbB") + ["ǅ", "ʰ", "文", "\u0301", "1", "'s"],
]


def any_scalar(rng):
    return chr(rng.randint(*rng.choice(SCALARS)))


def mark_run(rng):
    """A letter with marks of many classes, in no order."""
    classes = rng.choices(list(MARKS_BY_CLASS), k=rng.choice([2, 5, 20, 60]))
    return rng.choice(["a", "e", "क", "", " ", "1"]) + "".join(rng.choice(MARKS_BY_CLASS[c]) for c in classes)


class TextMaker:
    """Random texts for one tokenizer."""

    def __init__(self, added_tokens, corpus):
        self.added = added_tokens
        self.corpus = corpus

    def marker(self, rng):
        """An added token's spelling, a part of one, or one with something changed."""
        text = rng.choice(self.added)
        kind = rng.random()
        if kind < 0.5:
            return text
        if kind < 0.7:
            return text[: rng.randint(0, len(text))]
        if kind < 0.8:
            return text[rng.randint(0, len(text)):]
        at = rng.randint(0, len(text))
        return text[:at] + rng.choice(["\u0301", "\u0338", " ", "x", text[:1], text]) + text[at:]

    def part(self, rng):
        kind = rng.random()
        if kind < 0.08:
            return any_scalar(rng)
        if kind < 0.14:
            return mark_run(rng)
        if kind < 0.24 and self.added:
            return rng.choice(["", "", " ", "  ", "\n", "\t\n"]) + self.marker(rng) + rng.choice(["", "", " ", "  ", "\n", "a"])
        if kind < 0.28:
            return rng.choice(rng.choice(ALPHABETS)) * rng.choice([2, 3, 9, 40])
        alphabet = rng.choice(ALPHABETS)
        return "".join(rng.choices(alphabet, k=rng.choice([1, 2, 4, 8, 16])))

    def mutated(self, rng):
        text = list(rng.choice(self.corpus))[:400]
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randint(0, len(text))
            kind = rng.random()
            if kind < 0.3:
                del text[at: at + rng.choice([1, 1, 2, 8])]
            elif kind < 0.4:
                other = rng.choice(self.corpus)
                text[at:at] = list(other)[rng.randint(0, len(other)):][:40]
            elif kind < 0.5:
                text[at:] = text[at:][::-1]
            else:
                text[at:at] = list(self.part(rng))
        return "".join(text)

    def text(self, rng):
        if self.corpus and rng.random() < 0.2:
            return self.mutated(rng)
        return "".join(self.part(rng) for _ in range(rng.choice([1, 1, 2, 3, 4, 6, 10])))


# ---- The two sides ----


class Reference:
    """The reference library, in the same three modes."""

    def __init__(self, path):
        from tokenizers import Tokenizer
        settings = json.loads(path.read_text(encoding="utf8"))
        self.added = [token["content"] for token in settings.get("added_tokens") or []]
        self.all = Tokenizer.from_file(str(path))
        self.no_special = Tokenizer.from_file(str(path))
        self.no_special.encode_special_tokens = True
        settings["added_tokens"] = []
        self.plain = Tokenizer.from_str(json.dumps(settings))

    def encode(self, mode, texts):
        tokenizer = {"all": self.all, "no-special": self.no_special, "plain": self.plain}[mode]
        return [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]

    def decode(self, ids, skip_special):
        return self.all.decode(ids, skip_special_tokens=skip_special)


class Product:
    """`llm tokenize --jsonl`."""

    def __init__(self, llm, folder):
        self.command = [llm, "tokenize", "-q", "-m", str(folder), "--jsonl"]

    def answers(self, requests):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf8") as file:
            for request in requests:
                file.write(json.dumps(request) + "\n")
            file.flush()
            out = subprocess.run([*self.command, file.name], stdout=subprocess.PIPE, timeout=3600, check=False)
        if out.returncode not in (0, 1):
            sys.exit(f"{' '.join(self.command)}: exit code {out.returncode}")
        answers = [json.loads(line) for line in out.stdout.split(b"\n") if line]
        if len(answers) != len(requests):
            sys.exit(f"{len(requests)} requests, {len(answers)} answers")
        return answers

    def encode(self, mode, texts):
        return [a.get("ids", a) for a in self.answers([{"text": text, **MODES[mode]} for text in texts])]


def shortest(text, mode, product, reference):
    """A part of the text that still differs and of which no shorter part found here does."""
    def differing(candidates):
        pairs = zip(candidates, product.encode(mode, candidates), reference.encode(mode, candidates))
        return [candidate for candidate, ours, theirs in pairs if ours != theirs]

    size = max(1, len(text) // 2)
    while True:
        cuts = [text[:at] + text[at + size:] for at in range(0, len(text), max(1, size // 2))]
        found = differing([cut for cut in cuts if cut != text])
        if found:
            text = min(found, key=len)
            size = min(size, max(1, len(text) // 2))
        elif size == 1:
            return text
        else:
            size = max(1, size // 2)


# ---- Main ----


def corpus_of(files):
    texts = []
    for file in files:
        with open(file, encoding="utf8") as lines:
            for line in lines:
                record = json.loads(line)
                texts += [t for t in (record.get("text"), record.get("prompt")) if t]
    return texts


def append_found(path, tokenizer, mode, text, ids):
    line = json.dumps({"tokenizer": tokenizer, "mode": mode, "text": text, "ids": ids})
    known = path.read_text(encoding="utf8").splitlines() if path.exists() else []
    if line not in known:
        with path.open("a", encoding="utf8") as file:
            file.write(line + "\n")


def check_decoding(rng, count, vocabulary, product, reference):
    """The number of random lists of ids that decode to different texts."""
    lists = [{"ids": [rng.randrange(vocabulary + 3) for _ in range(rng.choice([1, 2, 5, 20]))],
              "skip_special": rng.random() < 0.5} for _ in range(count)]
    different = 0
    for request, answer in zip(lists, product.answers(lists)):
        if answer.get("text") != reference.decode(request["ids"], request["skip_special"]):
            different += 1
            print(f"DECODE {json.dumps(request)}: {answer}")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100000, help="texts (default 100000)")
    parser.add_argument("--seed", type=int, default=None, help="default: from the clock; always printed")
    parser.add_argument("--tokenizer", type=pathlib.Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--name", help="what the found goldens call this tokenizer (default: the folder's name)")
    parser.add_argument("--llm", default=str(ROOT / "build" / "llm"))
    parser.add_argument("--mutate", nargs="*", default=[], help="golden files (JSON lines with text or prompt)")
    parser.add_argument("--found", type=pathlib.Path, default=ROOT / "tests" / "goldens" / "tokenizer_found.jsonl")
    parser.add_argument("--max-found", type=int, default=10, help="stop after so many differences")
    args = parser.parse_args()

    seed = args.seed if args.seed is not None else time.time_ns() % 2**32
    reference = Reference(args.tokenizer / "tokenizer.json")
    product = Product(args.llm, args.tokenizer)
    maker = TextMaker(reference.added, corpus_of(args.mutate))
    print(f"seed {seed}, {args.count} texts, {len(maker.corpus)} to mutate, {len(reference.added)} added tokens", flush=True)

    done = differences = decoded = num_ids = num_bytes = 0
    begin = time.monotonic()
    while done < args.count and differences < args.max_found:
        rng = random.Random(seed * 1000003 + done)
        texts = [maker.text(rng) for _ in range(min(CHUNK, args.count - done))]
        for mode in MODES:
            expected = reference.encode(mode, texts)
            for text, ours, theirs in zip(texts, product.encode(mode, texts), expected):
                if ours == theirs:
                    continue
                differences += 1
                text = shortest(text, mode, product, reference)
                ids = reference.encode(mode, [text])[0]
                print(f"DIFFERENT ({mode}, texts from {done}): {json.dumps(text)[:2000]}\n"
                      f"  reference {str(ids)[:2000]}\n  llm       {str(product.encode(mode, [text])[0])[:2000]}", flush=True)
                append_found(args.found, args.name or args.tokenizer.resolve().name, mode, text, ids)
                if differences >= args.max_found:
                    break
            num_ids += sum(map(len, expected))
        differences += check_decoding(rng, len(texts) // 10, reference.all.get_vocab_size(), product, reference)
        decoded += len(texts) // 10
        num_bytes += sum(len(text.encode()) for text in texts)
        done += len(texts)
        if done % 100000 < CHUNK:
            print(f"  {done} texts, {differences} different, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{done} texts ({num_bytes} bytes) in {len(MODES)} modes ({num_ids} ids) and {decoded} decodings: "
          f"{differences} different")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
