#!/usr/bin/env python3
"""Makes the built-in model and its draft from nothing: corpus, tokenizer, training, gate, export.

Needs torch, tokenizers, safetensors, numpy (transformers for the last cross-check). About two hours
on two cores. Every step is seeded; training saves itself every two minutes and goes on from there.

  train_tiny.py texts                 write held-out questions, calibration and evaluation text
  train_tiny.py data                  tokenizer and token files in the work folder
  train_tiny.py train [--until N]     the target model
  train_tiny.py draft [--until N]     the draft, taught by the target
  train_tiny.py gate                  measure; --export writes models/tiny and models/tiny-draft if all is met
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VOCAB = 3712  # with the added tokens; a multiple of 128
TARGET_STEPS, LAST_STEPS, BATCH_TOKENS = 4000, 700, 4096
DRAFT_STEPS, DRAFT_LAST_STEPS = 3200, 400


def say_pid(work):
    (work / "train.pid").write_text(f"{os.getpid()}\n")


def make_data(work):
    from tiny import data, tokenizer

    trained = tokenizer.train_tokenizer(data.sample_texts(16), VOCAB)
    (work / "tokenizer.json").write_text(
        json.dumps(trained, ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    data.build(work)


def load_model(work, name, config):
    """A model with the weights of its latest checkpoint, or None."""
    import torch
    from tiny import model

    if not (work / f"{name}.pt").exists():
        return None
    made = model.Model(config)
    made.load_state_dict(torch.load(work / f"{name}.pt", weights_only=True)["model"])
    return made.eval()


def train_target(work, until):
    from tiny import model, train

    say_pid(work)
    train.Run(
        work,
        "target",
        model.Model(model.tiny(VOCAB), seed=1),
        TARGET_STEPS,
        BATCH_TOKENS,
        extra_steps=LAST_STEPS,
        bf16=True,
    ).train(until)


def train_draft(work, until):
    from tiny import evaluate, model, train

    say_pid(work)
    teacher = evaluate.rounded_to_bf16(load_model(work, "target", model.tiny(VOCAB)))
    run = train.Run(
        work,
        "draft",
        model.Model(model.draft(VOCAB), seed=2),
        DRAFT_STEPS,
        BATCH_TOKENS,
        extra_steps=DRAFT_LAST_STEPS,
        teacher=teacher,
        bf16=True,
        seed=1,
    )
    run.train(until)


def gate(work, export, quick, show):
    from tokenizers import Tokenizer
    from tiny import evaluate, gates, model, readme
    from tiny.export import write_checkpoint

    text = (work / "tokenizer.json").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_str(text)
    runners, folders = {}, {}
    for name, stem, config in (
        ("tiny", "target", model.tiny(VOCAB)),
        ("tiny-draft", "draft", model.draft(VOCAB)),
    ):
        made = load_model(work, stem, config)
        if made is None:
            continue
        runners[name] = evaluate.Runner(evaluate.rounded_to_bf16(made), tokenizer)
        folders[name] = work / "export" / name
        write_checkpoint(made, text, folders[name])
    rows = evaluate.held_questions()
    if quick:
        rows = rows[:quick]
    print("template agrees with transformers:", gates.template_agrees(folders["tiny"], rows))
    for name, runner in runners.items():
        ids = runner.encode(evaluate.prompt_text(rows[0]["doc"], True)) * 3
        print(
            f"{name}: largest logit difference to transformers {gates.logits_agree(folders[name], runner.model, ids):.2e}"
        )
    result = gates.measure(
        runners["tiny"], runners.get("tiny-draft"), folders, rows, show, long=not quick
    )
    (work / "gate.json").write_text(
        json.dumps(result, ensure_ascii=False, indent=1), encoding="utf-8"
    )
    gates.show(result)
    if quick or "tiny-draft" not in runners:
        return
    verdict = gates.verdict(result)
    for name, (value, limit, met) in verdict.items():
        print(f"{'ok  ' if met else 'FAIL'} {name}: {value} (limit {limit})")
    parameters = sum(p.numel() for p in runners["tiny"].model.parameters())
    readme.write(folders["tiny"], work, result, parameters, VOCAB, LAST_STEPS, DRAFT_LAST_STEPS)
    if export and all(met for _, _, met in verdict.values()):
        for name, folder in folders.items():
            shutil.copytree(folder, ROOT / "models" / name, dirs_exist_ok=True)
            print(f"wrote {ROOT / 'models' / name}")
        with open(ROOT / "tests" / "goldens" / "tiny_answers.jsonl", "w", encoding="utf-8") as f:
            for name, runner in runners.items():
                for answer in evaluate.golden_answers(runner, name, rows[:36]):
                    f.write(json.dumps(answer, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=["texts", "data", "train", "draft", "gate"])
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(os.environ.get("TINY_WORK", ROOT / "build" / "tiny")),
        help="checkpoints and token files (default: $TINY_WORK or build/tiny)",
    )
    parser.add_argument("--until", type=int, help="stop at this step, to go on later")
    parser.add_argument(
        "--export", action="store_true", help="gate: if it is passed, write models/"
    )
    parser.add_argument(
        "--quick", type=int, default=0, help="gate: only so many questions, no long texts"
    )
    parser.add_argument(
        "--show", type=int, default=0, help="gate: print so many wrong answers per category"
    )
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT / "scripts"))
    if args.step == "texts":
        from tiny import heldout

        heldout.write(ROOT / "scripts" / "tiny" / "data")
    elif args.step == "data":
        make_data(args.work)
    elif args.step == "train":
        train_target(args.work, args.until)
    elif args.step == "draft":
        train_draft(args.work, args.until)
    else:
        gate(args.work, args.export, args.quick, args.show)


if __name__ == "__main__":
    main()
