"""models/tiny/README.md, made from what the gate measured and what the training logged."""

import json
import statistics

from . import training
from .gates import verdict

_HEAD = """# tiny, the built-in model
A Qwen3-architecture model of {millions:.1f} million parameters and a one-layer draft model of the same
vocabulary (`../tiny-draft`), trained from nothing on text that scripts made: no third-party text,
no third-party weights. It is small talk for trying things out and something real to measure on, not
a source of knowledge.

It knows, in English and Chinese: capitals and countries both ways, sums and differences up to
two digits, the times table, unit conversion, counting, spelling common words, copying and quoting,
some opposites, translations, days and months, short stories (and long ones in chapters), follow-up
questions, calling a function that it was offered; to what it can't know it says so. With thinking
on it writes a short thought first.

| | tiny | tiny-draft |
| --- | --- | --- |
| layers, hidden, FFN | 3, 256, 768 | 1, 128, 256 |
| query, KV heads of 128 | 4, 2 | 2, 1 |
| vocabulary | {vocab} | the same |
| folder | {tiny_mb:.2f} MB | {draft_mb:.2f} MB |
| training | {tiny_steps} steps, {tiny_minutes} minutes | {draft_steps} steps, {draft_minutes} minutes |
| last loss (nats per token learned) | {tiny_loss} | {draft_loss} |

The last {last_steps} steps of tiny add what people type when they don't take care
(`scripts/tiny/casual.py`). The draft's teacher was tiny itself: for its last {draft_last} steps as
it is now, before these as it was before that addition.

Make it again: `scripts/train_tiny.py` (`--help` lists the steps). The corpus has {documents}
documents; which material is training's, held out, for calibration or for evaluation is decided by a
hash of its questions, operand pairs and sentences (`scripts/tiny/split.py`), and
`scripts/tiny/check_split.py` checks it. The texts are in `scripts/tiny/data`.

## Held-out questions
{asked} questions, answered greedily, weights in BF16, arithmetic in float32; right of asked. What
training was given more of was decided looking at these questions (`scripts/tiny/data`), so the last
column has as many others, asked only when the model was finished.

| category | thinking off | thinking on | thinking off, fresh questions |
| --- | --- | --- | --- |
"""


def _last(log):
    return json.loads(log.read_text().splitlines()[-1])


def _minutes(log):
    """Training time without the pauses: the usual time of a log interval, times their number."""
    seconds = [json.loads(line)["seconds"] for line in log.read_text().splitlines()]
    return round(
        statistics.median(b - a for a, b in zip([0] + seconds, seconds)) * len(seconds) / 60
    )


def _accuracy_rows(result):
    off, on, fresh = result["think off"], result["think on"], result["fresh questions"]
    rows = [
        f"| {kind} | {good} / {asked} | {on['table'][kind][0]} / {asked} | "
        f"{'{} / {}'.format(*fresh['table'].get(kind, (0, 0)))} |"
        for kind, (good, asked) in off["table"].items()
    ]
    rows.append(
        f"| **all but spelling** | **{off['micro']:.1%}** | **{on['micro']:.1%}** | "
        f"**{fresh['micro']:.1%}** |"
    )
    return "\n".join(rows)


def _measured(result):
    gain = result["think off"]["gain"]
    lines = ["", "## Other measurements", "", "| what | measured |", "| --- | --- |"]
    lines.append(f"| `中国的首都是哪里？` | {result['capital of China']} |")
    listed = ", ".join(f"{value:.2f} with {k}" for k, value in gain.items())
    lines.append(f"| tokens per pass of tiny with greedy proposals of tiny-draft | {listed} |")
    for name in ("eval.txt", "held-out answers"):
        kl = result[f"KL on {name}"]
        lines.append(
            f"| KL at 4 bits, group 128, on {name} | round-to-nearest {kl['rtn']:.5f}, "
            f"GPTQ {kl['gptq']:.5f} (ratio {kl['ratio']:.2f}), "
            f"GPTQ in act order {kl['gptq act-order']:.5f} |"
        )
    perplexity = ", ".join(f"{k} {v:.4f}" for k, v in result["perplexity of eval.txt"].items())
    lines.append(f"| perplexity of eval.txt | {perplexity} |")
    tokens, right, chapters = result["long story"]
    lines.append(
        f"| one story of {tokens} tokens | {right} of {chapters} chapters as they must be |"
    )
    good, asked = result["after 2,000 tokens"]
    lines.append(
        f"| held-out questions after 2,000 tokens of other talk | {good} of {asked} right |"
    )
    return "\n".join(lines) + "\n"


def write(folder, work, result, parameters, vocab, last_steps, draft_last):
    target, draft = _last(work / "target.jsonl"), _last(work / "draft.jsonl")
    documents = sum(n * training.DOCS_PER_SHARD[kind] for kind, n in training.SHARDS.items())
    text = _HEAD.format(
        millions=parameters / 1e6,
        vocab=vocab,
        tiny_mb=result["bytes"]["tiny"] / 1e6,
        draft_mb=result["bytes"]["tiny-draft"] / 1e6,
        tiny_steps=target["step"],
        tiny_minutes=_minutes(work / "target.jsonl"),
        draft_steps=draft["step"],
        draft_minutes=_minutes(work / "draft.jsonl"),
        tiny_loss=target["loss"],
        draft_loss=draft["loss"],
        last_steps=last_steps,
        draft_last=draft_last,
        documents=documents,
        asked=result["questions"],
    )
    unmet = [name for name, (_, _, met) in verdict(result).items() if not met]
    text += _accuracy_rows(result) + "\n" + _measured(result)
    text += f"\nConditions not met: {', '.join(unmet)}.\n" if unmet else ""
    (folder / "README.md").write_text(text, encoding="utf-8")
