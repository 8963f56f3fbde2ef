"""Who may see what: a hash assigns every question, operand pair and sentence to one split.

Training, held-out questions, calibration text and evaluation text come from the same generators.
Each generator names the keys of what it makes (a question, a pair of operands, a sentence) and
keeps only material all of whose keys fall in the split being made, so no two splits can share one.
check_split.py verifies the result on the actual files.
"""

import hashlib
import re
from dataclasses import dataclass, field

TRAIN, HELD, CALIB, EVAL = "train", "held", "calib", "eval"
SPLITS = (TRAIN, HELD, CALIB, EVAL)
SALT = b"0"  # chosen so that the plainest greetings ("Hello", "你好") are training's


def normal(text):
    """Case, punctuation and spacing don't make a question new."""
    return " ".join(re.findall(r"\w+|[+*=-]", text.lower()))


def split_of(key):
    """The split that owns a key: 6 % held-out, 3 % calibration, 3 % evaluation, the rest training."""
    digest = hashlib.blake2b(key.encode(), digest_size=4, key=SALT).digest()
    bucket = int.from_bytes(digest, "little") % 100
    if bucket < 6:
        return HELD
    if bucket < 9:
        return CALIB
    return EVAL if bucket < 12 else TRAIN


_BEFORE = re.compile(
    "^(?:(?:hey|hello|please tell me|quick question|tell me|now|ok|so|i have a question) |"
    "(?:请问|你好|那么|我想知道|好的) ?)"
)
_AFTER = re.compile(" (?:thanks|please|thank you)$| ?谢谢$")


def question_key(text):
    """A question is the same question with a "hello" before it or a "thanks" behind."""
    asked = normal(text)
    core = _AFTER.sub("", _BEFORE.sub("", asked))
    return "q:" + (core or asked)


def conversation_key(messages):
    """A follow-up question is the same only together with all that the user said before."""
    return "c:" + normal(" | ".join(m["content"] for m in messages if m["role"] == "user"))


def sentence_key(text):
    return "s:" + normal(text)


def sentences(text):
    """The sentences of a text, normalised; pieces of fewer than four words or characters that
    could not help being shared ("The end") don't count."""
    pieces = [normal(p) for p in re.split(r"[.!?。！？\n]+", text)]
    return [p for p in pieces if len(re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", p)) >= 4]


@dataclass
class Doc:
    """One conversation. `thought` belongs to the last answer and is shown only with thinking on.

    keys: what decides the split besides the user's own messages. check: how a held-out answer is
    judged: {"exact": text} or {"contains": [texts]}, compared without case and end punctuation.
    """

    category: str
    messages: list
    thought: str = ""
    keys: list = field(default_factory=list)
    check: dict = field(default_factory=dict)
    tools: list = field(default_factory=list)

    def fits(self, split):
        """In training all keys and all the user's messages must be training's. Elsewhere the keys
        decide, or without any the one question: earlier turns only set the scene."""
        asked = [question_key(m["content"]) for m in self.messages if m["role"] == "user"]
        keys = self.keys + asked if split == TRAIN else self.keys or asked
        return all(split_of(k) == split for k in keys)


def choose(rng, split, make, key=sentence_key, tries=400):
    """Calls make() until what it returns (a text) belongs to the split."""
    for _ in range(tries):
        text = make()
        if split_of(key(text)) == split:
            return text
    raise RuntimeError(f"no text for split {split} in {tries} tries, last: {text!r}")


def qa(category, question, answer, thought="", keys=(), check=None):
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return Doc(category, messages, thought, list(keys), check or {"exact": answer})
