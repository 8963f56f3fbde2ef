#!/usr/bin/env python3
"""Writes a GGUF file of random BF16 weights in the shape of a Qwen3 model, to measure speed with.

usage: random_gguf.py OUT.gguf [--hidden 1024 --layers 28 ...]   (needs the PyPI packages gguf, numpy)

The defaults are Qwen3-0.6B's. Names and metadata keys are those of the GGUF specification and of
llama.cpp's "qwen3" architecture; the vocabulary is made up, since only ids are measured.
"""

import argparse

import gguf
import numpy as np


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--intermediate", type=int, default=3072)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--context", type=int, default=40960)
    return parser.parse_args()


def main():
    a = arguments()
    rng = np.random.default_rng(0)
    writer = gguf.GGUFWriter(a.out, "qwen3")
    writer.add_name("random")
    writer.add_block_count(a.layers)
    writer.add_context_length(a.context)
    writer.add_embedding_length(a.hidden)
    writer.add_feed_forward_length(a.intermediate)
    writer.add_head_count(a.heads)
    writer.add_head_count_kv(a.kv_heads)
    writer.add_key_length(a.head_dim)
    writer.add_value_length(a.head_dim)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    tokens = [f"t{i}" for i in range(a.vocab)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * a.vocab)
    writer.add_token_merges(["t 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)

    def matrix(name, rows, columns):
        normal = rng.standard_normal((rows, columns), dtype=np.float32) * 0.02
        bits = (normal.view(np.uint32) >> 16).astype(np.uint16)
        writer.add_tensor(name, bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)

    def ones(name, size):
        writer.add_tensor(name, np.ones(size, dtype=np.float32))

    q, kv = a.heads * a.head_dim, a.kv_heads * a.head_dim
    matrix("token_embd.weight", a.vocab, a.hidden)
    ones("output_norm.weight", a.hidden)
    for i in range(a.layers):
        block = f"blk.{i}."
        ones(block + "attn_norm.weight", a.hidden)
        matrix(block + "attn_q.weight", q, a.hidden)
        matrix(block + "attn_k.weight", kv, a.hidden)
        matrix(block + "attn_v.weight", kv, a.hidden)
        ones(block + "attn_q_norm.weight", a.head_dim)
        ones(block + "attn_k_norm.weight", a.head_dim)
        matrix(block + "attn_output.weight", a.hidden, q)
        ones(block + "ffn_norm.weight", a.hidden)
        matrix(block + "ffn_gate.weight", a.intermediate, a.hidden)
        matrix(block + "ffn_up.weight", a.intermediate, a.hidden)
        matrix(block + "ffn_down.weight", a.hidden, a.intermediate)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
