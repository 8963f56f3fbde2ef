#!/usr/bin/env python3
"""Compares the template engine with the reference on random templates and random chats.

Half of the cases are random templates over random contexts (template_grammar.py), half are
random messages and tools through the templates of --templates DIR (*.jinja, whole templates of real
models, which aren't part of this repository). The reference is the environment that transformers
compiles chat templates in. A case agrees if both give the same text, or both refuse; where the
template itself raised an error, its message must be part of ours. Differences are written as lines
of a golden file.

usage: fuzz_templates.py [--cases N] [--seed N] [--templates DIR] [--binary LLM] [--out FILE]
needs: pip install 'transformers==5.24.*' 'jinja2==3.1.6'
"""

import argparse
import copy
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

import jinja2
from transformers.utils import chat_template_utils as reference

from chat_grammar import Chats
from template_grammar import Grammar

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 200
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class Raised(Exception):
    """The reference's error; `own` is the text given to raise_exception, if that was the cause."""

    def __init__(self, message, own):
        super().__init__(message)
        self.own = own


def rendered(render):
    """The text that the reference gives. Templates may do anything, so any exception is an answer."""
    try:
        return render()
    except jinja2.exceptions.TemplateSyntaxError as error:
        raise Raised(str(error), None)
    except jinja2.exceptions.TemplateError as error:
        plain = type(error) is jinja2.exceptions.TemplateError
        raise Raised(str(error), str(error) if plain else None)
    except Exception as error:  # noqa: BLE001
        raise Raised(f"{type(error).__name__}: {error}", None)


def expect_template(case):
    return rendered(
        lambda: reference._compile_jinja_template(case["template"]).render(**case["context"])
    )


def expect_chat(case, template):
    messages = copy.deepcopy(case["messages"])
    for message in messages:  # where we are more lenient on purpose
        if message.get("content") is None:
            message["content"] = ""
    messages = [{k: v for k, v in message.items() if v is not None} for message in messages]
    thinking = (
        {} if case["enable_thinking"] is None else {"enable_thinking": case["enable_thinking"]}
    )
    return rendered(
        lambda: reference.render_jinja_template(
            [messages],
            tools=case["tools"],
            chat_template=template,
            add_generation_prompt=case["add_generation_prompt"],
            **TOKENS,
            **thinking,
        )[0][0]
    )


ADDRESS = re.compile("built-in method", re.I)  # what prints an address is never the same
LIMIT = "leaves the range of 64 bits"  # integers end there, which is documented


def difference(expect, answer, key):
    """What is wrong with the answer, or nothing."""
    if LIMIT in answer.get("error", ""):
        return None
    try:
        text = expect()
        if ADDRESS.search(text):
            return None
    except Raised as raised:
        if ADDRESS.search(str(raised)):
            return None
        if "error" not in answer:
            return {"error": str(raised), "got": answer[key]}
        if raised.own and raised.own not in answer["error"]:
            return {"error": str(raised), "got_error": answer["error"]}
        return None
    if answer.get(key) == text:
        return None
    return {"expect": text} | (
        {"got": answer[key]} if key in answer else {"got_error": answer["error"]}
    )


def ask(binary, model, lines, *flags):
    """The answers to lines of `tokenize --jsonl`."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    run = subprocess.run(
        [binary, "tokenize", "-q", "-m", model, "--jsonl", "-", *flags],
        input=text.encode("utf8", "surrogatepass"),
        capture_output=True,
        timeout=600,
    )
    answers = [json.loads(line) for line in run.stdout.decode().split("\n")[:-1]]
    if run.returncode not in (0, 1) or len(answers) != len(lines):
        sys.exit(
            f"exit code {run.returncode} after {len(answers)} of {len(lines)} answers: {run.stderr.decode()}"
        )
    return answers


def template_cases(grammar, count):
    return [{"template": grammar.template(), "context": grammar.context()} for _ in range(count)]


def chat_cases(chats, count):
    r = chats.rng
    return [
        {
            "messages": chats.messages(),
            "tools": chats.tools(),
            "add_generation_prompt": r.random() < 0.7,
            "enable_thinking": r.choice([None, None, True, False]),
        }
        for _ in range(count)
    ]


def parsed_templates(directory):
    """Paths and texts of the folder's templates that the reference can parse, in random order."""
    templates = []
    for path in sorted(directory.glob("*.jinja")):
        source = path.read_bytes().decode("utf8")
        try:
            reference._compile_jinja_template(source)
            templates.append((path, source))
        except jinja2.exceptions.TemplateError as error:
            print(f"{path.name} is left out: {error}", file=sys.stderr)
    random.Random(0).shuffle(templates)
    return templates


def make_model(directory):
    """A tokenizer folder with the special tokens that templates may name."""
    shutil.copy(ROOT / "models" / "tiny" / "tokenizer.json", directory)
    (pathlib.Path(directory) / "tokenizer_config.json").write_text(json.dumps(TOKENS))
    return directory


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", type=pathlib.Path)
    parser.add_argument("--binary", default=str(ROOT / "build" / "llm"))
    parser.add_argument("--out", type=pathlib.Path, help="differences, one JSON object a line")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    templates = parsed_templates(args.templates) if args.templates else []
    grammar = Grammar(random.Random(args.seed))
    chats = Chats(grammar.rng)
    different, done, refused, num_chats = [], 0, 0, 0

    with tempfile.TemporaryDirectory() as directory:
        model = make_model(directory)
        while done < args.cases:
            count = min(BATCH, args.cases - done)
            of_chats = templates and (done // BATCH) % 2 == 1
            if of_chats:
                path, source = templates[(done // BATCH // 2) % len(templates)]
                cases = chat_cases(chats, count)
                answers = ask(
                    args.binary,
                    model,
                    [case | {"parse_special_in_content": True} for case in cases],
                    "--chat-template",
                    str(path),
                )
                expects = [lambda case=case: expect_chat(case, source) for case in cases]
            else:
                path = None
                cases = template_cases(grammar, count)
                answers = ask(args.binary, model, cases)
                expects = [lambda case=case: expect_template(case) for case in cases]
            for case, answer, expect in zip(cases, answers, expects):
                found = difference(expect, answer, "prompt" if of_chats else "text")
                if found:
                    different.append(({"file": path.name} if path else {}) | case | found)
            refused += sum("error" in answer for answer in answers)
            num_chats += count if of_chats else 0
            done += count

    if args.out:
        args.out.write_text(
            "".join(json.dumps(case, ensure_ascii=True) + "\n" for case in different)
        )
    print(
        f"seed {args.seed}: {done} cases, {num_chats} of them chats through {len(templates)} templates, "
        f"{refused} refused, {len(different)} different"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
