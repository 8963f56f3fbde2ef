"""Writes an ordinary Hugging Face checkpoint folder."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from .tokenizer import tokenizer_config


def write_checkpoint(model, tokenizer_json, folder):
    """model: weights already rounded to BF16. tokenizer_json: the file's text."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = json.loads(tokenizer_json)
    ids = {a["content"]: a["id"] for a in data["added_tokens"]}
    stop, end = ids["<|im_end|>"], ids["<|endoftext|>"]
    tensors = {
        name: p.detach().to(torch.bfloat16).contiguous() for name, p in model.named_parameters()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # save_file makes it private
    template = (Path(__file__).resolve().parent / "chat_template.jinja").read_text(encoding="utf-8")
    dump = lambda name, value: (folder / name).write_text(
        json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )
    dump("config.json", model.config.to_hf(stop, end))
    dump(
        "generation_config.json",
        {"bos_token_id": end, "eos_token_id": [stop, end], "pad_token_id": end},
    )
    dump(
        "tokenizer_config.json",
        tokenizer_config(data, template, model.config.max_position_embeddings),
    )
    (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")


def folder_bytes(folder):
    return sum(f.stat().st_size for f in Path(folder).iterdir() if f.is_file())
