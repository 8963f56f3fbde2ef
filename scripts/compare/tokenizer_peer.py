#!/usr/bin/env python3
"""Times one tokenizer library in a fresh process on one thread; prints a JSON line.

usage: tokenizer_peer.py LIBRARY MODEL_FOLDER CORPUS_FILE PASSES
       tokenizer_peer.py versions

CORPUS_FILE holds documents, a NUL byte after each. Each document is one call, which leaves its ids
in the library's leanest form. Times are seconds of CPU of the whole process.
"""
import array
import importlib.metadata
import json
import os
import pathlib
import sys
import tempfile
import time
import zlib

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
PACKAGES = {"tokenizers": "tokenizers", "tiktoken": "tiktoken", "bpe-qwen": "bpe-qwen",
            "fastokens": "fastokens", "gigatoken": "gigatoken"}
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
        r"\s*[\r\n]+|\s+(?!\S)|\s+")


def bytes_of_spelling():
    """GPT-2's table: the byte that each character of a vocabulary entry stands for."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(others)}


def write_old_form(file, folder):
    """vocab.json and merges.txt, which bpe-qwen reads."""
    model = json.loads(file.read_text("utf-8"))["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), "utf-8")
    lines = (merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n", "utf-8")


def load(library, folder):
    """Two functions: from a text to an encoding, and from that to ids."""
    file = str(folder / "tokenizer.json")
    if library == "tokenizers":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(file)
        return tokenizer.encode, lambda encoding: encoding.ids
    if library == "tiktoken":
        import tiktoken

        table = bytes_of_spelling()
        vocabulary = json.loads(pathlib.Path(file).read_text("utf-8"))["model"]["vocab"]
        ranks = {bytes(table[c] for c in token): rank for token, rank in vocabulary.items()}
        encoding = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks=ranks, special_tokens={})
        return encoding.encode_ordinary, list
    if library == "bpe-qwen":
        import bpe_qwen

        with tempfile.TemporaryDirectory() as old_form:
            write_old_form(pathlib.Path(file), pathlib.Path(old_form))
            return bpe_qwen.QwenTokenizer(old_form).encode, list
    if library == "fastokens":
        from fastokens._native import Tokenizer

        return Tokenizer.from_file(file).encode, lambda encoding: encoding.ids
    import gigatoken

    return gigatoken.Tokenizer(file).encode, list


def checksum(ids):
    return zlib.crc32(array.array("i", ids).tobytes())


def main():
    if sys.argv[1:] == ["versions"]:
        print(", ".join(f"{name} {importlib.metadata.version(package)}" for name, package in PACKAGES.items()))
        return
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    library, folder, corpus, passes = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    documents = [d.decode() for d in pathlib.Path(corpus).read_bytes().split(b"\0")[:-1]]
    begin, cpu = time.perf_counter(), time.process_time()
    encode, ids_of = load(library, folder)
    load_s, load_cpu = time.perf_counter() - begin, time.process_time() - cpu
    seconds = []
    for _ in range(passes):
        begin = time.process_time()
        for document in documents:
            encode(document)
        seconds.append(time.process_time() - begin)
    sums = [checksum(ids_of(encode(document))) for document in documents]
    size = sum(len(d.encode()) for d in documents)
    print(json.dumps({"load_s": load_s, "load_cpu_s": load_cpu, "bytes": size, "seconds": seconds, "sums": sums}))


if __name__ == "__main__":
    main()
