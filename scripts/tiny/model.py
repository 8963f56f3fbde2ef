"""The Qwen3 decoder in plain torch: grouped-query attention with q/k norms, RoPE, SwiGLU, tied head.

Parameter names are those of the Hugging Face checkpoints, so that a state dict is a checkpoint.
B batch, T tokens, D hidden size, H query heads, G key/value heads, d head_dim.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    vocab_size: int
    head_dim: int = 128
    rms_norm_eps: float = 1e-6
    rope_theta: float = 100000.0
    max_position_embeddings: int = 8192

    def to_hf(self, im_end, end_of_text):
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            **asdict(self),
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": end_of_text,
            "eos_token_id": im_end,
            "hidden_act": "silu",
            "initializer_range": 0.02,
            "max_window_layers": self.num_hidden_layers,
            "rope_scaling": None,
            "sliding_window": None,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "use_sliding_window": False,
        }


def tiny(vocab_size):
    return Config(256, 768, 3, 4, 2, vocab_size)


def draft(vocab_size):
    return Config(128, 256, 1, 2, 1, vocab_size)


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


def rope_tables(config, length):
    """cos and sin, [length, d]; the two halves of a head rotate together (the HF layout)."""
    half = torch.arange(0, config.head_dim, 2).float() / config.head_dim
    angles = torch.outer(torch.arange(length).float(), config.rope_theta**-half)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)
        self.q_norm = RMSNorm(c.head_dim, c.rms_norm_eps)
        self.k_norm = RMSNorm(c.head_dim, c.rms_norm_eps)

    def forward(self, x, cos, sin, cache=None):
        """x [B, T, D]; cache: (k, v) of the positions before, each [B, G, past, d], or None."""
        batch, length, _ = x.shape
        heads = lambda y: y.view(batch, length, -1, self.c.head_dim)
        q = rotate(self.q_norm(heads(self.q_proj(x))).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(heads(self.k_proj(x))).transpose(1, 2), cos, sin)
        v = heads(self.v_proj(x)).transpose(1, 2)
        past = 0
        if cache is not None:
            past = cache[0].shape[2]
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        groups = self.c.num_attention_heads // self.c.num_key_value_heads
        wide_k, wide_v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        if past and length > 1:
            mask = torch.ones(length, past + length, dtype=torch.bool).tril(past)
            out = F.scaled_dot_product_attention(q, wide_k, wide_v, attn_mask=mask)
        else:
            out = F.scaled_dot_product_attention(q, wide_k, wide_v, is_causal=length > 1)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1)), (k, v)


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.mlp = MLP(c)

    def forward(self, x, cos, sin, cache=None):
        attended, cache = self.self_attn(self.input_layernorm(x), cos, sin, cache)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), cache


class Decoder(nn.Module):
    """The checkpoint's `model.` part."""

    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList([Layer(c) for _ in range(c.num_hidden_layers)])
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)


class Model(nn.Module):
    def __init__(self, config, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.config = config
        self.model = Decoder(config)
        cos, sin = rope_tables(config, config.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02 if "embed" in name else p.shape[1] ** -0.5)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                nn.init.normal_(p, std=p.shape[1] ** -0.5 * (2 * config.num_hidden_layers) ** -0.5)

    def hidden(self, ids, caches=None):
        """ids [B, T] -> states after the final norm [B, T, D], and the new caches."""
        x = self.model.embed_tokens(ids)
        past = caches[0][0].shape[2] if caches else 0
        cos = self.cos[past : past + ids.shape[1]].to(x.dtype)
        sin = self.sin[past : past + ids.shape[1]].to(x.dtype)
        out = []
        for i, layer in enumerate(self.model.layers):
            x, cache = layer(x, cos, sin, caches[i] if caches else None)
            out.append(cache)
        return self.model.norm(x), out

    def head(self, states):
        return states @ self.model.embed_tokens.weight.t()

    def forward(self, ids):
        return self.head(self.hidden(ids)[0])
