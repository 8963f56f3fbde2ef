#!/usr/bin/env python3
"""Prints the tables of tokenizer.sh from its rounds. usage: tokenizer_table.py ROUNDS VERSION VERSIONS"""
import datetime
import json
import math
import os
import pathlib
import statistics
import sys

COMMANDS = {
    "llm": "Tokenizer::encode(text)",
    "tokenizers": "Tokenizer.from_file(file).encode(text)",
    "tiktoken": "Encoding(pat_str=QWEN, mergeable_ranks=ranks).encode_ordinary(text): no NFC, no added tokens",
    "bpe-qwen": "QwenTokenizer(folder).encode(text)",
    "fastokens": "Tokenizer.from_file(file).encode(text)",
    "gigatoken": "Tokenizer(file).encode(text)",
}


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


class Rounds:
    def __init__(self, path):
        self.results = {}
        for line in pathlib.Path(path).read_text().splitlines():
            row = json.loads(line)
            self.results.setdefault((row["library"], row["part"]), []).append(row["result"])
        self.libraries = list(dict.fromkeys(library for library, _ in self.results))
        self.parts = list(dict.fromkeys(part for _, part in self.results))

    def median(self, library, part, value):
        results = self.results.get((library, part))
        return statistics.median(map(value, results)) if results else math.nan

    def first(self, library, part):
        return self.median(library, part, lambda r: r["bytes"] / 1e6 / r["seconds"][0])

    def warm(self, library, part):
        return self.median(library, part, lambda r: r["bytes"] / 1e6 / min(r["seconds"][1:]))

    def milliseconds(self, library, part):
        return self.median(library, part, lambda r: 1e3 * min(r["seconds"]))


def table(rounds, title, parts, value, digits=1):
    print(f"| {title} | " + " | ".join(rounds.libraries) + " |")
    print("|---" * (len(rounds.libraries) + 1) + "|")
    for part in parts:
        cells = (f"{value(library, part):.{digits}f}" for library in rounds.libraries)
        print(f"| {part} | " + " | ".join(cells) + " |")
    print()


def ratios(rounds, corpora):
    peers = [library for library in rounds.libraries if library != "llm"]
    if not peers:
        return
    print("| llm beside | first / HF first | first / fastest first | warm / fastest warm | warm / fastokens |")
    print("|---|---|---|---|---|")
    for part in corpora:
        first, warm = rounds.first("llm", part), rounds.warm("llm", part)
        print(f"| {part} | {first / rounds.first('tokenizers', part):.1f} | "
              f"{first / max(rounds.first(p, part) for p in peers):.2f} | "
              f"{warm / max(rounds.warm(p, part) for p in peers):.2f} | "
              f"{warm / rounds.warm('fastokens', part):.2f} |")
    print()


def differences(rounds, corpora):
    """Documents whose ids aren't HF's."""
    for library in rounds.libraries:
        counts = []
        for part in corpora:
            ours, theirs = rounds.results.get((library, part)), rounds.results.get(("tokenizers", part))
            if ours and theirs:
                counts.append(f"{part} {sum(a != b for a, b in zip(ours[0]['sums'], theirs[0]['sums']))}")
        if counts and library != "tokenizers":
            print(f"- {library}: documents with other ids than HF's: {', '.join(counts)}")
    print()


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    rounds = Rounds(sys.argv[1])
    corpora = [p for p in rounds.parts if not p.startswith(("only-", "uncuttable ", "threads "))]
    corpora.sort(key=lambda part: part != "mixed")
    uncuttable = [p for p in rounds.parts if p.startswith("uncuttable ")]
    count = len(next(iter(rounds.results.values())))
    print(f"{cpu_name()}, {os.cpu_count()} CPUs, one thread, medians of {count} interleaved rounds, "
          f"{datetime.date.today()}\n{sys.argv[2]}; {sys.argv[3]}\n")
    for library in rounds.libraries:
        print(f"- {library}: `{COMMANDS[library]}`")
    print("\nMB (10^6 bytes) per second of CPU time, first pass in a fresh process:\n")
    table(rounds, "first pass", corpora, rounds.first)
    print("Best of the passes after it, with what the library keeps between calls:\n")
    table(rounds, "warm", corpora, rounds.warm)
    ratios(rounds, corpora)
    differences(rounds, corpora)
    if uncuttable:
        print("200,000 bytes that no space cuts, milliseconds, best pass:\n")
        table(rounds, "uncuttable", uncuttable, rounds.milliseconds, 2)
        own_rows(rounds, uncuttable)
    print("Loading tokenizer.json, milliseconds of CPU:", ", ".join(
        f"{library} {rounds.median(library, corpora[0], lambda r: 1e3 * r['load_cpu_s']):.0f}"
        for library in rounds.libraries))
    threads = {part: rounds.median("llm", part, lambda r: r["bytes"] / 1e6 / min(r["walls"]))
               for part in rounds.parts if part.startswith("threads ")}
    if threads:
        print("llm over threads, MB per second of wall time:", ", ".join(f"{k}: {v:.1f}" for k, v in threads.items()))


def own_rows(rounds, uncuttable):
    """Growth from 20,000 to 2,000,000 bytes, and speed by the length of a text."""
    print("| llm | ms | first pass, ms | growth exponent, 20 KB to 2 MB |\n|---|---|---|---|")
    for part in uncuttable:
        kind = part.removeprefix("uncuttable ")
        small, large = (rounds.milliseconds("llm", f"only-{kind} {size}") for size in (20_000, 2_000_000))
        first = rounds.median("llm", part, lambda r: 1e3 * r["seconds"][0])
        print(f"| {kind} | {rounds.milliseconds('llm', part):.2f} | {first:.2f} | {math.log(large / small, 100):.3f} |")
    print()
    lengths = [p for p in rounds.parts if p.startswith("only-length ")]
    lengths.sort(key=lambda part: int(part.split()[1]))
    print("llm by the length of each text, MB/s warm (peak memory):", ", ".join(
        f"{part.removeprefix('only-length ')} bytes {rounds.warm('llm', part):.0f} "
        f"({rounds.median('llm', part, lambda r: r['peak_kib']) / 1024:.0f} MiB)" for part in lengths))


if __name__ == "__main__":
    main()
