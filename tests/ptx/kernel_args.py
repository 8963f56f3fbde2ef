"""How the kernels' parameters lie in memory: the structs of cuda/*.h, *.cuh and *.cu, once.

A kernel's signature comes from its demangled name. Sizes and offsets follow from the fields, as in
C; the machine checks that the whole has as many bytes as nvcc declares.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ptx_memory import Buffer
from ptx_parse import PtxError

Value = Buffer | int | float | bool | None | dict

# struct: (field, type), .. in order. Types of an anonymous namespace are named by their file.
STRUCTS: dict[str, list[tuple[str, str]]] = {
    "NormedRows": [
        ("hidden", "ptr"),
        ("row_indices", "ptr"),
        ("weight", "ptr"),
        ("eps", "float"),
    ],
    "LinearWeights": [("weight", "ptr"), ("bias", "ptr"), ("n", "int"), ("k", "int")],
    "gemm.cu::Params": [
        ("out", "ptr"),
        ("epilogue", "int"),
        ("x", "ptr"),
        ("m", "int"),
        ("weights", "LinearWeights"),
    ],
    "small_linear::Params": [
        ("out", "ptr"),
        ("epilogue", "int"),
        ("x", "ptr"),
        ("normed", "NormedRows"),
        ("m", "int"),
        ("weights", "LinearWeights"),
        ("groups", "int"),
        ("slice_k", "int"),
        ("normed_pitch", "int"),
        ("arrivals", "ptr"),
        ("partial_sums", "ptr"),
    ],
    "AttentionArgs": [
        ("out", "ptr"),
        ("qkv", "ptr"),
        ("q_norm", "ptr"),
        ("k_norm", "ptr"),
        ("norm_eps", "float"),
        ("rope_cos", "ptr"),
        ("rope_sin", "ptr"),
        ("k_cache", "ptr"),
        ("v_cache", "ptr"),
        ("kv_type", "int"),
        ("block_bytes", "int64"),
        ("head_bytes", "int64"),
        ("num_heads", "int"),
        ("num_kv_heads", "int"),
        ("head_dim", "int"),
        ("positions", "ptr"),
        ("slot_mapping", "ptr"),
        ("query_start_loc", "ptr"),
        ("seq_lens", "ptr"),
        ("block_tables", "ptr"),
        ("max_blocks", "int"),
    ],
    "AttentionTile": [
        ("seq", "int"),
        ("first_row", "int"),
        ("num_rows", "int"),
        ("split_size", "int"),
    ],
    "DecodeAttention": [
        ("tiles", "ptr"),
        ("num_tiles", "int"),
        ("max_splits", "int"),
        ("scratch", "ptr"),
        ("appends", "bool"),
        ("next_weights_0", "MemoryRange"),
        ("next_weights_1", "MemoryRange"),
    ],
    "MemoryRange": [("begin", "ptr"), ("bytes", "int64")],
    "InputIds": [("given", "ptr"), ("sampled", "ptr"), ("known", "ptr")],
    "DrawRule": [
        ("octaves", "float"),
        ("top_k", "int"),
        ("top_p", "uint64"),
        ("min_p", "uint64"),
        ("seed", "uint64"),
    ],
    "Penalties": [("repetition", "float"), ("presence", "float"), ("frequency", "float")],
    "DeviceSampleRow": [
        ("rule", "DrawRule"),
        ("penalties", "Penalties"),
        ("counter", "uint64"),
        ("logits_row", "int64"),
        ("num_ids", "int"),
        ("first_penalised", "int"),
        ("num_penalised", "int"),
        ("pending_at", "int"),
        ("num_top", "int"),
    ],
    "SampleArgs": [
        ("sampled", "ptr"),
        ("logits", "ptr"),
        ("rows", "ptr"),
        ("penalised", "ptr"),
        ("input_ids", "ptr"),
        ("num_rows", "int"),
        ("width", "int"),
        ("scratch", "ptr"),
    ],
    "attention_decode.cu::Partials": [("counters", "ptr"), ("softmax", "ptr"), ("out", "ptr")],
}

_SCALARS = {
    "ptr": "Q",
    "uint64": "Q",
    "int64": "q",
    "int": "i",
    "unsigned": "I",
    "float": "f",
    "bool": "?",
}


def align_up(x: int, align: int) -> int:
    return (x + align - 1) // align * align


def alignment(kind: str) -> int:
    if kind in _SCALARS:
        return struct.calcsize(_SCALARS[kind])
    if kind not in STRUCTS:
        raise PtxError(f"kernel_args.py doesn't know the type {kind}")
    return max(alignment(k) for _, k in STRUCTS[kind])


def size_of(kind: str) -> int:
    if kind in _SCALARS:
        return struct.calcsize(_SCALARS[kind])
    return align_up(end_of([k for _, k in STRUCTS[kind]]), alignment(kind))


def end_of(kinds: Sequence[str]) -> int:
    """Where the last of these members ends."""
    offset = 0
    for kind in kinds:
        offset = align_up(offset, alignment(kind)) + size_of(kind)
    return offset


def pack(kind: str, value: Value) -> bytes:
    """A value's bytes; fields that a dictionary doesn't name are 0."""
    if kind not in _SCALARS:
        fields = dict(value or {})
        packed = pack_all([(k, fields.pop(name, 0)) for name, k in STRUCTS[kind]])
        if fields:
            raise PtxError(f"{kind} has no fields {list(fields)}")
        return packed.ljust(size_of(kind), b"\0")
    if isinstance(value, Buffer):
        value = value.address
    return struct.pack("<" + _SCALARS[kind], value or 0)


def pack_all(values: Sequence[tuple[str, Value]]) -> bytes:
    """(type, value) after each other, each aligned."""
    packed = b""
    for kind, value in values:
        packed = packed.ljust(align_up(len(packed), alignment(kind)), b"\0") + pack(kind, value)
    return packed


@dataclass(frozen=True)
class Signature:
    """decode_attention_kernel, (64, 0), [types of the parameters]."""

    name: str
    template: tuple[int, ...]
    params: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.template))}>" if self.template else self.name


_SIGNATURE = re.compile(r"(?:.*::)?(\w+?)(?:<(.*)>)?\((.*)\)$")


def parse_signature(demangled: str, file: str) -> Signature:
    """Of what c++filt says about a kernel of a .cu file."""
    text = demangled.removeprefix("void ").replace("(anonymous namespace)", file)
    values = {"true": "1", "false": "0"}
    text = re.sub(r"\((?:\w+::)*\w+\)(-?\d+)", r"\1", text)  # (llm::KvType)0
    match = _SIGNATURE.match(text)
    if not match:
        raise PtxError(f"unknown signature {demangled}")
    template = tuple(int(values.get(t, t)) for t in (match[2] or "").split(", ") if t)
    params = tuple(_param_type(p) for p in match[3].split(", "))
    return Signature(match[1], template, params)


def _param_type(text: str) -> str:
    if text.endswith("*"):
        return "ptr"
    name = text.removeprefix("llm::")
    return {"unsigned int": "unsigned", "long": "int64"}.get(name, name)
