"""Answers the held-out questions greedily and judges them; simulates drafting; the long-text gate."""

import json
import re
from pathlib import Path

import torch

from .gen_text import PLACES
from .render import prompt_text
from .split import Doc

DATA = Path(__file__).resolve().parent / "data"


class Runner:
    """A model with its tokenizer, for greedy generation. Weights are rounded to BF16 as exported."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.stop = tokenizer.token_to_id("<|im_end|>")
        self.end_of_text = tokenizer.token_to_id("<|endoftext|>")

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    @torch.no_grad()
    def generate(self, ids, limit):
        """ids -> new ids, up to and with the end of the turn."""
        out, caches = [], None
        feed = torch.tensor([ids])
        while len(out) < limit:
            states, caches = self.model.hidden(feed, caches)
            token = int(self.model.head(states[0, -1]).argmax())
            out.append(token)
            if token in (self.stop, self.end_of_text):
                break
            feed = torch.tensor([[token]])
        return out

    def answer(self, doc, think, limit=400):
        """(prompt ids, new ids, the answer without its thought)"""
        prompt = self.encode(prompt_text(doc, think))
        new = self.generate(prompt, limit)
        text = self.tokenizer.decode([t for t in new if t != self.stop], skip_special_tokens=False)
        if think:
            if "</think>" not in text:
                return prompt, new, ""
            text = text.split("</think>")[-1].lstrip("\n")
        return prompt, new, text


def rounded_to_bf16(model):
    """In place: what the checkpoint will hold."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())
    return model.eval()


def held_questions():
    """The questions of questions.jsonl, which also guided what training was given more of."""
    text = (DATA / "questions.jsonl").read_text(encoding="utf-8")
    return with_docs([json.loads(line) for line in text.splitlines()])


def fresh_questions():
    """As many more that were asked for the first time when the model was finished."""
    from . import heldout

    return with_docs(heldout.questions("fresh", without=held_questions()))


def with_docs(rows):
    for row in rows:
        row["doc"] = Doc(
            row["category"],
            row["messages"] + [{"role": "assistant", "content": row["answer"]}],
            check=row["check"],
            tools=row["tools"],
        )
    return rows


def bare(text):
    return text.strip().lower().rstrip(".。!！")


def judged_right(check, text):
    """A number that is looked for must stand alone; a story must have its sentences, each once."""
    if "exact" in check:
        return bare(text) == bare(check["exact"])
    for needle in check["contains"]:
        pattern = re.escape(needle.lower())
        pattern = (
            (r"(?<!\d)" if needle[0].isdigit() else "")
            + pattern
            + (r"(?!\d)" if needle[-1].isdigit() else "")
        )
        if not re.search(pattern, text.lower()):
            return False
    if "sentences" in check:
        parts = [p for p in re.split(r"[.!?。！？]", text) if p.strip()]
        return len(parts) >= check["sentences"] and len(set(parts)) == len(parts)
    return True


def accuracy(runner, think, rows=None, show=0):
    """{category: (right, asked)}; prints the first `show` wrong answers of each category."""
    table, transcripts = {}, []
    for row in rows or held_questions():
        prompt, new, text = runner.answer(row["doc"], think)
        right = judged_right(row["check"], text)
        good, asked = table.get(row["category"], (0, 0))
        table[row["category"]] = (good + right, asked + 1)
        transcripts.append((prompt, new))
        if not right and (asked + 1 - good) <= show:
            print(
                f"  {row['category']}: {row['messages'][-1]['content']!r} -> {text!r}, wanted {row['check']}"
            )
    return table, transcripts


def golden_answers(runner, name, rows):
    """What the runner answers, as lines for tests/goldens: ids as the reference has them."""
    for row in rows:
        for think in (False, True):
            prompt, new, _ = runner.answer(row["doc"], think, limit=80)
            yield {
                "model": name,
                "messages": row["messages"],
                "tools": row["tools"],
                "think": think,
                "prompt_ids": prompt,
                "ids": new,
            }


def averages(table):
    """(micro-average of all but spelling, the lowest category's rate)"""
    counted = [v for k, v in table.items() if k != "spelling"]
    return sum(g for g, _ in counted) / sum(n for _, n in counted), min(
        g / n for g, n in table.values()
    )


@torch.no_grad()
def drafting_gain(draft, transcripts, k):
    """Tokens per forward pass of the target when the draft proposes up to k tokens greedily.

    As long as its proposals are right the draft has seen exactly the target's text, so one pass of
    the draft over a finished text tells which proposals would have been right.
    """
    tokens = passes = 0
    for prompt, new in transcripts:
        ids = torch.tensor([prompt + new])
        guess = draft.head(draft.hidden(ids)[0][0]).argmax(-1)
        right = (guess[len(prompt) - 1 : -1] == torch.tensor(new)).tolist()
        at = 0
        while at < len(new):
            accepted = 0
            while accepted < k and at + accepted < len(new) and right[at + accepted]:
                accepted += 1
            at += min(accepted + 1, len(new) - at)
            passes += 1
        tokens += len(new)
    return tokens / passes


def long_story_check(runner):
    """A story of 34 chapters, over 2,000 tokens: chapters in order, the hero and the places right.

    Returns (tokens, chapters that are right, chapters asked for).
    """
    question = "Write a long story in 34 chapters about Anna the cat at the river."
    doc = Doc(
        "story", [{"role": "user", "content": question}, {"role": "assistant", "content": ""}]
    )
    _, new, text = runner.answer(doc, False, limit=3000)
    right = 0
    for i, chapter in enumerate(text.split("\n")[:34]):
        place, thing, other, _ = PLACES[i % len(PLACES)]
        right += (
            chapter.startswith(f"Chapter {i + 1}. ")
            and "Anna" in chapter
            and place in chapter
            and thing in chapter
            and other in chapter
            and chapter.count(".") + chapter.count('"') >= 6
        )
    return len(new), right, 34


def after_long_context(runner, rows, tokens=2000):
    """The held-out single questions again, at the end of a conversation of about `tokens` tokens
    about other things; (right, asked)."""
    import random
    from . import gen_dialogue

    rng, good, asked = random.Random("long context"), 0, 0
    for row in rows:
        before = gen_dialogue.long_chat(rng, "train", tokens).messages
        doc = Doc(
            "",
            [m for m in before if m["role"] in ("user", "assistant")] + row["doc"].messages,
            check=row["check"],
        )
        prompt, _, text = runner.answer(doc, False, limit=150)
        good += judged_right(row["check"], text)
        asked += 1
    return good, asked
