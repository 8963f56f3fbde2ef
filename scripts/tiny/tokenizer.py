"""Trains the byte-level BPE and writes tokenizer.json and tokenizer_config.json in the HF form."""

import json

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

# The split of the Qwen tokenizers: contractions, words with one leading mark, single digits,
# runs of marks, line ends, blanks.
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
# While merges are learned, Chinese also splits at its little words, so that no token crosses them.
_LITTLE_WORDS = "[买看讲请送说走天的是在了和个吗呢哪什等多少把从我你他给用叫住有与]"
_SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
_MARKERS = [
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]
ADDED = _SPECIAL + _MARKERS


def _split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def train_tokenizer(texts, vocab_size):
    """vocab_size counts the added tokens, which come last, in Qwen's order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [_split(QWEN_SPLIT), _split(_LITTLE_WORDS), byte_level]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(ADDED),
        min_frequency=2,
        max_token_length=18,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_split(QWEN_SPLIT), byte_level])
    tokenizer.decoder = decoders.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    tokenizer.post_processor = processors.ByteLevel(
        add_prefix_space=False, trim_offsets=False, use_regex=False
    )
    data = json.loads(tokenizer.to_str())
    base = len(data["model"]["vocab"])
    data["added_tokens"] = [
        {
            "id": base + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": text in _SPECIAL,
        }
        for i, text in enumerate(ADDED)
    ]
    return data


def tokenizer_config(data, template, max_positions):
    decoder = {
        str(a["id"]): {
            k: a[k] for k in ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
        }
        for a in data["added_tokens"]
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "bos_token": None,
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": max_positions,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def added_id(tokenizer, text):
    return tokenizer.token_to_id(text)
