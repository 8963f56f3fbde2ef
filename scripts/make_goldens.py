#!/usr/bin/env python3
"""Writes tests/goldens/*.json: logits of tiny models, computed by transformers in float32.

For what the shared fixtures don't reach: 700 positions, 4, 5 and 8 query heads to a key/value head,
head sizes that are no multiple of 16, rope scalings, biases. The weights come from a formula (see
formula_tensor below and tests/formula_weights.h), so that no checkpoint needs to be stored.

usage: make_goldens.py [NAME ...]
needs: pip install 'torch==2.11.*' 'transformers==5.24.*' numpy
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens"
NUM_POSITIONS = 700
NUM_GREEDY = 16
MIN_MARGIN = 0.02  # a prompt whose continuation hangs on less is replaced
MASK64 = (1 << 64) - 1


# ---- Formula: the same in tests/formula_weights.cpp ----


def fnv1a(text):
    """64-bit FNV-1a of UTF-8 bytes."""
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001B3 & MASK64
    return h


def formula_bytes(name, count):
    """Signed bytes: the top byte of splitmix64 at fnv1a(name) + i * golden ratio."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name)) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(56)).astype(np.uint8).view(np.int8)


def formula_tensor(model, name, shape):
    """Float32 values that BF16 holds exactly: byte / 128 * scale, or 1 + (byte >> 1) / 128 for norms."""
    values = formula_bytes(f"{model}/{name}", int(np.prod(shape)))
    if "norm" in name:
        values = 1 + (values >> 1).astype(np.float32) / 128
    else:
        values = values.astype(np.float32) / 128 * scale_of(name, shape)
    return values.reshape(shape)


def scale_of(name, shape):
    """A power of two; for a matrix near 2 / sqrt(k), which about keeps the size of what it multiplies."""
    if name == "model.embed_tokens.weight":
        return 0.25
    return 0.5 if name.endswith(".bias") else 2.0 ** -round(np.log2(np.sqrt(shape[-1]) / 2))


def prompt_ids(model, trial, count, vocab_size):
    """Bytes of the formula, as ids."""
    return [int(b) % vocab_size for b in formula_bytes(f"{model}/input_ids/{trial}", count).view(np.uint8)]


# ---- Cases ----


def config(architecture, heads, kv_heads, head_dim, **more):
    """A config.json with what all cases share."""
    model_type = architecture.removesuffix("ForCausalLM").lower()
    common = {
        "architectures": [architecture], "model_type": model_type, "dtype": "bfloat16", "vocab_size": 64,
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False, "eos_token_id": 1,
    }
    return {**common, **more}


def rope(theta, **scaling):
    """The spelling of transformers 5."""
    return {"rope_parameters": {"rope_theta": theta, "rope_type": "default", **scaling}}


def old_rope(theta, scaling):
    """The spelling of transformers 4."""
    return {"rope_theta": theta, "rope_scaling": scaling}


QWEN3, QWEN2, LLAMA = "Qwen3ForCausalLM", "Qwen2ForCausalLM", "LlamaForCausalLM"
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}
CASES = {
    "qwen3-group4": config(QWEN3, 8, 2, 32, **rope(1e6)),
    "qwen3-group5": config(QWEN3, 10, 2, 32, **rope(1e6), tie_word_embeddings=True),
    "qwen3-group8": config(QWEN3, 8, 1, 64, **old_rope(1e6, None)),
    "qwen3-head24-bias": config(QWEN3, 6, 2, 24, **rope(1e4), attention_bias=True),
    "qwen3-linear-rope": config(QWEN3, 4, 2, 32, **old_rope(1e4, {"type": "linear", "factor": 4.0})),
    "qwen3-yarn-long": config(QWEN3, 4, 2, 32, **rope(1e6, rope_type="yarn", factor=8.0,
                                                      original_max_position_embeddings=128)),
    "qwen3-yarn-options": config(QWEN3, 4, 2, 32, **old_rope(1e4, {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "beta_fast": 16.0,
        "beta_slow": 2.0, "attention_factor": 1.25, "truncate": False})),
    "qwen2-head80": config(QWEN2, 4, 2, 80, hidden_size=320, **rope(1e6)),
    "qwen2-group7": config(QWEN2, 14, 2, 16, hidden_size=224, **old_rope(1e6, None), tie_word_embeddings=True),
    "llama-rope-llama3": config(LLAMA, 8, 2, 32, **rope(5e5, **LLAMA3)),
    "llama-rope-llama3-old": config(LLAMA, 4, 4, 40, **old_rope(1e4, LLAMA3)),
    "llama-linear-bias": config(LLAMA, 6, 3, 80, hidden_size=96, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5,
                                **rope(1e4, rope_type="linear", factor=2.0)),
}


# ---- Reference ----


def make_model(name, cfg):
    reference = transformers.AutoConfig.for_model(**json.loads(json.dumps(cfg)))
    reference._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(reference, dtype=torch.float32).eval()
    state = {}
    for key, value in model.state_dict().items():
        if key == "lm_head.weight" and cfg["tie_word_embeddings"]:
            continue
        state[key] = torch.from_numpy(formula_tensor(name, key, tuple(value.shape)))
        assert torch.equal(state[key].bfloat16().float(), state[key]), key
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and missing in ([], ["lm_head.weight"]), (missing, unexpected)
    model.tie_weights()
    return model, state


@torch.no_grad()
def continue_greedily(model, ids, count):
    """The ids, and the smallest gap between the best and the second best logit on the way."""
    out = model(torch.tensor([ids]), use_cache=True)
    greedy, margin = [], float("inf")
    for _ in range(count):
        top = out.logits[0, -1].topk(2)
        greedy.append(int(top.indices[0]))
        margin = min(margin, float(top.values[0] - top.values[1]))
        out = model(torch.tensor([greedy[-1:]]), cache=out.past_key_values, use_cache=True)
    return greedy, margin


def rounded(values, digits):
    """Short numbers that keep `digits` significant digits."""
    return [float(f"{float(v):.{digits}g}") for v in values]


@torch.no_grad()
def make_golden(name, cfg):
    model, state = make_model(name, cfg)
    for trial in range(100):
        ids = prompt_ids(name, trial, NUM_POSITIONS, cfg["vocab_size"])
        greedy, margin = continue_greedily(model, ids, NUM_GREEDY)
        if margin > MIN_MARGIN:
            break
    logits = model(torch.tensor([ids])).logits[0]  # [T, V]
    top = logits.topk(2).values
    # A yardstick for 16-bit activations, not a golden: transformers' own BF16 run.
    half = model.to(torch.bfloat16)(torch.tensor([ids])).logits[0].float()
    difference = (half - logits).abs()
    positions = [0, 1, 15, 16, 17, 100, 255, 256, 511, 512, 640, NUM_POSITIONS - 1]
    return {
        "about": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32, eager; "
                 "scripts/make_goldens.py",
        "config": cfg,
        "tensors": {k: {"shape": list(v.shape), "scale": 0 if "norm" in k else scale_of(k, v.shape), "sum": float(v.double().sum()),
                        "first": v.flatten()[:4].tolist()} for k, v in sorted(state.items())},
        "input_ids": ids,
        "positions": positions,
        "logits": [rounded(logits[p], 8) for p in positions],
        "logit_min": float(logits.min()), "logit_max": float(logits.max()),
        "argmax": logits.argmax(-1).tolist(),
        "margin": rounded(top[:, 0] - top[:, 1], 4),
        "lse": rounded(logits.logsumexp(-1), 8),
        "greedy": greedy,
        "greedy_min_margin": margin,
        "bf16_forward": {"max_abs_diff": float(difference.max()), "mean_abs_diff": float(difference.mean())},
    }


def main(names):
    torch.set_num_threads(1)
    GOLDENS.mkdir(parents=True, exist_ok=True)
    for name in names or CASES:
        golden = make_golden(name, CASES[name])
        lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in golden.items())
        path = GOLDENS / f"{name}.json"
        path.write_text("{\n" + lines + "\n}\n")
        print(f"{name}: {path.stat().st_size} bytes, logits {golden['logit_min']:.3f} .. {golden['logit_max']:.3f}, "
              f"greedy margin {golden['greedy_min_margin']:.4f}, bf16 {golden['bf16_forward']}")


if __name__ == "__main__":
    main(sys.argv[1:])
