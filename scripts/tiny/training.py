"""What the training corpus is: which documents there are and how many. Plain Python, no torch."""

import random

from . import gen_dialogue

SHARDS = {"short": 44, "late": 32, "last": 10, "long": 9}
DOCS_PER_SHARD = {"short": 5000, "late": 5000, "last": 5000, "long": 500}


def documents(kind, shard):
    """(document, with thought, where its thought is cut or None, rng), one after another; (kind,
    shard) is all the randomness there is."""
    rng = random.Random(f"{kind}:{shard}")
    for _ in range(DOCS_PER_SHARD[kind]):
        doc = gen_dialogue.training_doc(rng, kind)
        think = rng.random() < 0.4 and doc.messages[0]["role"] != "plain"
        cut = rng.randint(0, len(doc.thought)) if think and rng.random() < 0.08 else None
        yield doc, think, cut, random.Random(rng.random())
