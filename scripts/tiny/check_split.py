"""Checks that training, held-out questions, calibration and evaluation text share nothing.

Training text is made again from its seeds: by default the first shards (a few seconds), with --all
every shard that was trained on. Run: python3 scripts/tiny/check_split.py [--all]
"""

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tiny import training  # noqa: E402
from tiny.split import conversation_key, question_key, sentences  # noqa: E402

DATA = Path(__file__).resolve().parent / "data"
_NUMBERS = re.compile(r"(\d+) ?(\+|-|plus|minus|加|减) ?(\d+)")


def pairs(text):
    """Operand pairs of sums in a text: the two numbers of a + in either order."""
    out = set()
    for a, op, b in _NUMBERS.findall(text.lower()):
        plus = op in ("+", "plus", "加")
        out.add(("+", *sorted((int(a), int(b)))) if plus else ("-", int(a), int(b)))
    return out


class Material:
    """What a text collection consists of, as sets that must not meet another's."""

    def __init__(self):
        self.questions, self.pairs, self.sentences = set(), set(), set()

    def add_conversation(self, messages, answers=True):
        """answers False: only what is asked counts, and of a conversation only the whole of it."""
        asked = [m["content"] for m in messages if m["role"] == "user"]
        if len(asked) > 1:
            self.questions.add(conversation_key(messages))
        if answers or len(asked) == 1:
            self.questions.update(map(question_key, asked))
        self.pairs |= pairs(asked[-1])
        if answers:
            for message in messages:
                self.add_text(message["content"])

    def add_text(self, text):
        self.sentences.update(sentences(text))
        self.pairs |= pairs(text)

    def shared(self, other):
        return {
            "question": self.questions & other.questions,
            "operand pair": self.pairs & other.pairs,
            "sentence": self.sentences & other.sentences,
        }


def committed(name):
    material = Material()
    if name == "eval.txt":
        material.add_text((DATA / name).read_text(encoding="utf-8"))
        return material
    for line in (DATA / name).read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "text" in row:
            material.add_text(row["text"])
        else:
            material.add_conversation(row["messages"], answers=name != "questions.jsonl")
    return material


def training_material(every):
    material, documents = Material(), 0
    for kind, count in training.SHARDS.items():
        for shard in range(count if every else 1):
            for doc, *_ in training.documents(kind, shard):
                documents += 1
                if doc.messages[0]["role"] == "plain":
                    material.add_text(doc.messages[0]["content"])
                else:
                    material.add_conversation(doc.messages)
                    material.add_text(doc.thought)
    return material, documents


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every training document, not a sample")
    every = parser.parse_args().all
    groups = {
        name: committed(name) for name in ("questions.jsonl", "calibration.jsonl", "eval.txt")
    }
    groups["training"], documents = training_material(every)
    found = 0
    names = list(groups)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            for what, both in groups[a].shared(groups[b]).items():
                found += len(both)
                for example in sorted(map(str, both))[:5]:
                    print(f"{a} and {b} share a {what}: {example}")
    sizes = ", ".join(
        f"{name} {len(g.questions)} questions {len(g.pairs)} pairs {len(g.sentences)} sentences"
        for name, g in groups.items()
    )
    print(f"{documents} training documents; {sizes}; {found} shared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
