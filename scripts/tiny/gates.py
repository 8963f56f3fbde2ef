"""The conditions a model must meet before it is frozen, measured; and the README that says so."""

import json
from pathlib import Path

from . import evaluate, quantize
from .export import folder_bytes

LIMITS = {
    "accuracy": 0.90,
    "lowest category": 0.75,
    "drafting gain": 2.0,
    "GPTQ / RTN": 0.55,
    "tiny bytes": 8.4e6,
    "draft bytes": 1.5e6,
    "long story chapters": 33,
    "after 2,000 tokens": 0.9,
}


def template_agrees(folder, rows):
    """The Python rendering equals the chat template as transformers renders it."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    for row in rows[:120]:
        for think in (False, True):
            theirs = tokenizer.apply_chat_template(
                row["messages"],
                tools=row["tools"] or None,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=think,
            )
            if theirs != evaluate.prompt_text(row["doc"], think):
                return False
    return True


def logits_agree(folder, model, ids):
    """Largest difference between transformers' logits for the exported folder and ours, float32."""
    import torch
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return float((theirs(torch.tensor([ids])).logits - model(torch.tensor([ids]))).abs().max())


def measure(target, draft, folders, rows=None, show=0, long=True):
    """target, draft: evaluate.Runner. Returns everything the README prints."""
    rows = rows or evaluate.held_questions()
    result = {"questions": len(rows)}
    for think in (False, True):
        table, transcripts = evaluate.accuracy(target, think, rows, show)
        micro, lowest = evaluate.averages(table)
        mode = "on" if think else "off"
        result[f"think {mode}"] = {"micro": micro, "lowest": lowest, "table": table}
        if draft is not None:
            result[f"think {mode}"]["gain"] = {
                k: evaluate.drafting_gain(draft.model, transcripts, k) for k in (1, 2, 3, 4, 6, 8)
            }
        if not think:
            answers = transcripts
    import torch

    if long:
        table, _ = evaluate.accuracy(target, False, evaluate.fresh_questions())
        micro, lowest = evaluate.averages(table)
        result["fresh questions"] = {"micro": micro, "lowest": lowest, "table": table}
    result["capital of China"] = target.answer(
        evaluate.Doc(
            "",
            [
                {"role": "user", "content": "中国的首都是哪里？"},
                {"role": "assistant", "content": ""},
            ],
        ),
        False,
    )[2]
    texts = {
        "eval.txt": quantize.eval_sequences(target),
        "held-out answers": [(torch.tensor(p + n), len(p) - 1) for p, n in answers],
    }
    models = {
        name: quantize.quantize_model(target, name) for name in ("rtn", "gptq", "gptq act-order")
    }
    for name, sequences in texts.items():
        kl = {k: quantize.mean_kl(target.model, m, sequences) for k, m in models.items()}
        result[f"KL on {name}"] = {**kl, "ratio": kl["gptq"] / kl["rtn"]}
    result["perplexity of eval.txt"] = {
        name: quantize.perplexity(m, texts["eval.txt"])
        for name, m in {"bf16": target.model, **models}.items()
    }
    if long:
        result["long story"] = evaluate.long_story_check(target)
        single = [
            r for r in rows if r["category"] in ("capitals", "words", "sums", "units", "counting")
        ][:40]
        result["after 2,000 tokens"] = evaluate.after_long_context(target, single)
    result["bytes"] = {name: folder_bytes(f) for name, f in folders.items() if Path(f).exists()}
    return result


def verdict(r):
    """{condition: (measured, limit, met)}"""

    def least(name, value):
        return name, (value, LIMITS[name], value >= LIMITS[name])

    def most(name, value):
        return name, (value, LIMITS[name], value <= LIMITS[name])

    off, good = r["think off"], r["after 2,000 tokens"]
    return dict(
        [
            least("accuracy", off["micro"]),
            least("lowest category", off["lowest"]),
            least("drafting gain", max(off["gain"].values())),
            most("GPTQ / RTN", r["KL on eval.txt"]["ratio"]),
            most("tiny bytes", r["bytes"]["tiny"]),
            most("draft bytes", r["bytes"]["tiny-draft"]),
            least("long story chapters", r["long story"][1]),
            least("after 2,000 tokens", good[0] / good[1]),
            ("北京", (r["capital of China"], "contains", "北京" in r["capital of China"])),
        ]
    )


def show(result):
    print(json.dumps(result, ensure_ascii=False, indent=1))
