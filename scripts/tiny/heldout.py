"""The committed texts: 500 held-out questions, calibration conversations, evaluation prose.

questions.jsonl: {"id","category","messages","tools","check"}, the answer left out.
calibration.jsonl: {"messages"} with answers, or {"text"}. eval.txt: paragraphs of plain text.
Only material that differs from training in every sentence goes into the last two: numbers, copied
text and stories, but not, say, "The capital of France is Paris."
"""

import json
import random

from . import gen_dialogue, gen_facts, gen_text
from .split import CALIB, EVAL, HELD, conversation_key

QUESTIONS = 500
_CALIB_KINDS = ["sums", "units", "counting", "copying", "stories", "plain"]


def questions(name="held-out", without=()):
    """500 questions, the categories in turn, none twice and none of those `without`. A category
    that has no other questions left is asked less."""
    rng = random.Random(name)
    seen, out = {conversation_key(row["messages"]) for row in without}, []
    kinds, misses = list(gen_dialogue.CATEGORIES), 0
    while len(out) < QUESTIONS:
        kind = kinds[len(out) % len(kinds)]
        doc = gen_dialogue.fitting(rng, HELD, gen_dialogue.CATEGORIES[kind])
        if rng.random() < 0.05:
            doc = gen_facts.with_system(rng, doc)
        key = conversation_key(doc.messages)
        if key in seen:
            misses += 1
            if misses == 300:
                kinds.remove(kind)
                misses = 0
            continue
        misses = 0
        seen.add(key)
        out.append(
            {
                "id": len(out) + 1,
                "category": kind,
                "messages": doc.messages[:-1],
                "tools": doc.tools,
                "check": doc.check,
                "answer": doc.messages[-1]["content"],
            }
        )
    return out


def calibration(count=320):
    """Without word problems: their answers ("Ben has 9 pens.") don't show their operands, so
    training may have the same sentence from other ones."""
    rng = random.Random("calibration")
    out = []
    while len(out) < count:
        kind = _CALIB_KINDS[len(out) % len(_CALIB_KINDS)]
        if kind == "plain":
            out.append({"text": gen_text.plain(rng, CALIB).messages[0]["content"]})
            continue
        messages = gen_dialogue.fitting(rng, CALIB, gen_dialogue.CATEGORIES[kind]).messages
        if "how many" not in messages[0]["content"] or kind != "sums":
            out.append({"messages": messages})
    return out


def eval_paragraphs(count=240):
    rng = random.Random("eval")
    seen, out = set(), []
    while len(out) < count:
        text = gen_text.plain(rng, EVAL).messages[0]["content"]
        if text not in seen:
            seen.add(text)
            out.append(text)
    return out


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    dump = lambda rows: "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
    (folder / "questions.jsonl").write_text(dump(questions()), encoding="utf-8")
    (folder / "calibration.jsonl").write_text(dump(calibration()), encoding="utf-8")
    (folder / "eval.txt").write_text("\n\n".join(eval_paragraphs()) + "\n", encoding="utf-8")
