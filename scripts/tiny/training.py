"""What the training corpus is: which documents there are and how many. Plain Python, no torch."""

import random

from . import casual, gen_dialogue
from .split import TRAIN

SHARDS = {"short": 44, "late": 32, "last": 12, "long": 9}
DOCS_PER_SHARD = {"short": 5000, "late": 5000, "last": 5000, "long": 500}


def _last_doc(rng):
    """The last steps also teach what people type when they don't take care."""
    form = rng.random()
    if form < 0.25:
        make = rng.choices(
            [casual.greeting, casual.too_hard, casual.told, casual.half_question], [5, 5, 2, 3]
        )[0]
        return gen_dialogue.fitting(rng, TRAIN, lambda r, _: make(r))
    doc = gen_dialogue.training_doc(rng, "last")
    return casual.casual(rng, doc) if form < 0.55 else doc


def documents(kind, shard):
    """(document, with thought, where its thought is cut or None, rng), one after another; (kind,
    shard) is all the randomness there is."""
    rng = random.Random(f"{kind}:{shard}")
    for _ in range(DOCS_PER_SHARD[kind]):
        doc = _last_doc(rng) if kind == "last" else gen_dialogue.training_doc(rng, kind)
        think = rng.random() < 0.4 and doc.messages[0]["role"] != "plain"
        cut = rng.randint(0, len(doc.thought)) if think and rng.random() < 0.08 else None
        yield doc, think, cut, random.Random(rng.random())
