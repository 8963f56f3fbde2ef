"""Training documents as token files: short ones packed for a 256-token context, long ones for 2,304.

Files in the work folder: {short,late,last,long}.ids.npy (uint16) and .learn.npy (uint8, 1 = a target).
"""

from multiprocessing import Pool

import numpy as np
from tokenizers import Tokenizer

from . import training
from .render import training_pieces

CONTEXT = {"short": 256, "late": 256, "last": 256, "long": 2304}
PHASES = {"last": 4000, "late": 2000, "short": 0}  # the first step of each; latest phase first
USER_SHARE = 0.15  # of the tokens of a user message that are learned too


def encode_doc(tokenizer, doc, think, cut, rng):
    """Token ids and which of them are learned. Pieces meet at added tokens or line ends, where
    tokenizing apart and together agree."""
    ids, learn = [], []
    for text, how in training_pieces(doc, think, cut):
        if not text:
            continue
        piece = tokenizer.encode(text, add_special_tokens=False).ids
        ids += piece
        if how == "some":
            learn += [int(rng.random() < USER_SHARE) for _ in piece]
        else:
            flags = [int(how != "no")] * len(piece)
            if how == "but first":
                flags[0] = 0
            learn += flags
    return ids, learn


def _shard(job):
    path, kind, shard = job
    tokenizer = Tokenizer.from_file(path)
    ids, learn = [], []
    for doc, think, cut, rng in training.documents(kind, shard):
        a, b = encode_doc(tokenizer, doc, think, cut, rng)
        ids += a
        learn += b
    return np.array(ids, np.uint16), np.array(learn, np.uint8)


def sample_texts(shards):
    """Text to learn the tokenizer's merges from: no added tokens in it."""
    from .tokenizer import ADDED

    for kind in ("short", "long"):
        for shard in range(shards if kind == "short" else 1):
            for doc, think, _, _ in training.documents(kind, shard):
                for text, _ in training_pieces(doc, think):
                    for mark in ADDED:
                        text = text.replace(mark, "\x00")
                    yield from (part for part in text.split("\x00") if part)


def build(work):
    with Pool(2) as pool:
        for kind, count in training.SHARDS.items():
            if (work / f"{kind}.learn.npy").exists():  # written second
                continue
            jobs = [(str(work / "tokenizer.json"), kind, i) for i in range(count)]
            parts = pool.map(_shard, jobs, chunksize=1)
            np.save(work / f"{kind}.ids.npy", np.concatenate([p[0] for p in parts]))
            np.save(work / f"{kind}.learn.npy", np.concatenate([p[1] for p in parts]))


class Batches:
    """Windows of the token files in a seeded order; batch(step) depends on nothing but the step."""

    LONG_EVERY = 6  # every sixth batch has long contexts

    def __init__(self, work, tokens_per_batch, seed=0):
        self.tokens = tokens_per_batch
        self.seed = seed
        self.ids = {k: np.load(work / f"{k}.ids.npy", mmap_mode="r") for k in CONTEXT}
        self.learn = {k: np.load(work / f"{k}.learn.npy", mmap_mode="r") for k in CONTEXT}

    def kind(self, step):
        if step % self.LONG_EVERY == self.LONG_EVERY - 1:
            return "long"
        return next(phase for phase, first in PHASES.items() if step >= first)

    def batch(self, step):
        """inputs and targets [B, T] int64; a target that isn't learned is -100."""
        kind = self.kind(step)
        turn = step // self.LONG_EVERY if kind == "long" else step - step // self.LONG_EVERY
        length = CONTEXT[kind]
        rows = max(1, self.tokens // length)
        windows = (len(self.ids[kind]) - 1) // length
        epoch, at = divmod(turn * rows, windows - windows % rows)
        order = np.random.default_rng([self.seed, epoch]).permutation(windows)[at : at + rows]
        pick = lambda a: np.stack(
            [a[kind][w * length : w * length + length + 1] for w in order]
        ).astype(np.int64)
        ids, learn = pick(self.ids), pick(self.learn)
        return ids[:, :-1], np.where(learn[:, 1:] == 1, ids[:, 1:], -100)
