"""What each thread does by itself with registers.

Source: PTX ISA 9.0, sections "Integer Arithmetic Instructions" to "Data Movement and Conversion
Instructions". Every spelling that is known is a key of OPS; nothing else runs.

Roundings: fma.rn is computed in float64 and rounded, so twice: off by one unit in the last place
about once in 2^29. Approximate instructions are the float32 next to the exact result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ptx_memory import Array
from ptx_parse import Instruction, PtxError, Symbol, Vector

if TYPE_CHECKING:
    from ptx_machine import Group, Machine, Step

Builder = Callable[["Machine", Instruction], "Step"]
OPS: dict[str, Builder] = {}


def _ufunc(function: np.ufunc, to: str, *kinds: str) -> Builder:
    """A numpy function whose result has the type of `to`."""

    def build(machine: Machine, ins: Instruction) -> Step:
        out = machine.target(ins.operands[0], to)
        sources = _sources(machine, ins, kinds)
        return lambda group: function(*sources, out=out, where=group.where)

    return build


def _computed(function: Callable[..., Array], to: str, *kinds: str) -> Builder:
    """Any function of arrays; its result is converted to the type of `to`."""

    def build(machine: Machine, ins: Instruction) -> Step:
        out = machine.target(ins.operands[0], to)
        sources = _sources(machine, ins, kinds)
        return lambda group: np.copyto(out, function(*sources), casting="unsafe", where=group.where)

    return build


def _sources(machine: Machine, ins: Instruction, kinds: tuple[str, ...]) -> list:
    if len(ins.operands) != len(kinds) + 1:
        raise PtxError(f"{len(kinds) + 1} operands expected")
    return [machine.source(o, k) for o, k in zip(ins.operands[1:], kinds, strict=True)]


# ---- Helpers: types ----


def bf16_to_float(bits: Array) -> Array:
    """float32 of uint16."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float_to_bf16(x: Array) -> Array:
    """uint16 of float32, to nearest even; NaN is 0x7fff."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    one = np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & one)) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded).astype(np.uint16)


def _halves(x: Array) -> Array:
    """float32 [n, 2] of uint32 [n] or one with two BF16, the low one first."""
    return bf16_to_float(np.atleast_1d(x).view(np.uint16).reshape(-1, 2))


def _pack(halves: Array) -> Array:
    return float_to_bf16(halves).view(np.uint32).reshape(-1)


# ---- Helpers: functions ----


def _fma(a: Array, b: Array, c: Array) -> Array:
    return a.astype(np.float64) * b + c


def _ex2(x: Array) -> Array:
    return _flush(np.exp2(_flush(x).astype(np.float64)).astype(np.float32))


def _flush(x: Array) -> Array:
    """.ftz: subnormals become 0."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def _div_approx(a: Array, b: Array) -> Array:
    quotient = a.astype(np.float64) / b
    huge = (np.abs(b) > 2.0**126) & np.isfinite(b)
    return np.where(huge, np.where(np.isinf(a), np.nan, np.copysign(0.0, quotient)), quotient)


def _to_int32(x: Array) -> Array:
    """cvt.rni.s32.f32: to nearest even, clamped; NaN is 0."""
    rounded = np.nan_to_num(np.rint(x.astype(np.float64)), nan=0.0)
    return np.clip(rounded, -(2.0**31), 2.0**31 - 1)


def _prmt(a: Array, b: Array, selector: Array) -> Array:
    """Each nibble of the selector picks a byte, or with its top bit that byte's sign."""
    both = np.stack(np.broadcast_arrays(*np.atleast_1d(a, b)), -1).view(np.uint8)
    nibbles = np.asarray(selector)[..., None] >> np.arange(0, 16, 4, np.uint32) & np.uint32(15)
    nibbles = np.broadcast_to(nibbles, (len(both), 4))
    picked = np.take_along_axis(both, nibbles.astype(np.intp) & 7, 1)
    picked = np.where(nibbles & 8, (picked >> 7) * np.uint8(0xFF), picked)
    return picked.view(np.uint32)[:, 0]


def _bfe(a: Array, at: Array, length: Array) -> Array:
    mask = (np.uint64(1) << (length & np.uint32(0xFF)).astype(np.uint64)) - np.uint64(1)
    return (a.astype(np.uint64) >> (at & np.uint32(0xFF)).astype(np.uint64)) & mask


def _bfi(a: Array, b: Array, at: Array, length: Array) -> Array:
    """The low `length` bits of a in place of those of b from bit `at` on."""
    shift = (at & np.uint32(0xFF)).astype(np.uint64)
    mask = (np.uint64(1) << (length & np.uint32(0xFF)).astype(np.uint64)) - np.uint64(1)
    return (b.astype(np.uint64) & ~(mask << shift)) | ((a.astype(np.uint64) & mask) << shift)


def _reversed(x: Array) -> Array:
    """brev.b32: the bits in the other order."""
    bits = np.unpackbits(np.atleast_1d(x)[:, None].view(np.uint8), axis=1)
    return np.packbits(bits[:, ::-1], axis=1).view(np.uint32)[:, 0]


def _leading_zeros(x: Array) -> Array:
    """clz.b64: of each number, 64 of 0."""
    count = np.full(np.shape(x), 64, np.uint32)
    for bit in range(64):
        count[(x >> np.uint64(bit) & np.uint64(1)) != 0] = 63 - bit
    return count


def _highest_bit_shift(x: Array) -> Array:
    """bfind.shiftamt.u32: how far to shift the highest bit to the top; all ones for 0."""
    zeros = _leading_zeros(x.astype(np.uint64)) - np.uint32(32)
    return np.where(x == 0, np.uint32(0xFFFFFFFF), zeros)


def _quotient(a: Array, b: Array) -> Array:
    return np.trunc(a.astype(np.float64) / b)


def _remainder(a: Array, b: Array) -> Array:
    return np.fmod(a.astype(np.int64), b)


def _bf16_pairs(function: Callable[..., Array]) -> Callable[..., Array]:
    """Of float64 halves; rounded to BF16 through float32."""
    return lambda *pairs: _pack(
        function(*(_halves(p).astype(np.float64) for p in pairs)).astype(np.float32)
    )


# ---- Moves ----


def _mov(kind: str) -> Builder:
    def build(machine: Machine, ins: Instruction) -> Step:
        to, source = ins.operands
        if isinstance(source, Vector):
            return _pack_registers(machine, to, source, kind)
        if isinstance(to, Vector):
            return _unpack_register(machine, to, source, kind)
        out = machine.target(to, kind)
        value = machine.source(source, kind)
        return lambda group: np.copyto(out, value, where=group.where)

    return build


def _parts(register: Array, count: int) -> Array:
    """A view of each thread's register as so many unsigned numbers, the lowest first."""
    return register.view(f"u{register.itemsize // count}").reshape(-1, count)


def _pack_registers(machine: Machine, to: object, parts: Vector, kind: str) -> Step:
    """mov.b64 d, {a, b}: a is the lower half."""
    count = len(parts.elements)
    half = f"b{int(kind[1:]) // count}"
    out = _parts(machine.target(to, kind), count)
    values = [machine.source(p, half) for p in parts.elements]

    def run(group: Group) -> None:
        for i, value in enumerate(values):
            np.copyto(out[:, i], value, where=group.where)

    return run


def _unpack_register(machine: Machine, to: Vector, source: object, kind: str) -> Step:
    """The reverse."""
    count = len(to.elements)
    halves = _parts(machine.target(source, kind), count)
    outs = [machine.target(o, f"b{int(kind[1:]) // count}") for o in to.elements]

    def run(group: Group) -> None:
        for i, out in enumerate(outs):
            np.copyto(out, halves[:, i], where=group.where)

    return run


def _cvta(machine: Machine, ins: Instruction) -> Step:
    """Generic addresses of global memory are the global ones."""
    if isinstance(ins.operands[1], Symbol):
        raise PtxError("cvta of a variable")
    return _mov("u64")(machine, ins)


def _compare(function: Callable[[Array, Array], Array], kind: str) -> Builder:
    return _computed(function, "pred", kind, kind)


def _unordered(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """True where either is NaN."""
    return lambda a, b: function(a, b) | np.isnan(a) | np.isnan(b)


def _add_integers() -> None:
    for kind in ("s32", "u32", "s64", "u64"):
        OPS[f"add.{kind}"] = _ufunc(np.add, kind, kind, kind)
        OPS[f"sub.{kind}"] = _ufunc(np.subtract, kind, kind, kind)
        OPS[f"mul.lo.{kind}"] = _ufunc(np.multiply, kind, kind, kind)
        OPS[f"mad.lo.{kind}"] = _computed(lambda a, b, c: a * b + c, kind, kind, kind, kind)
        OPS[f"min.{kind}"] = _ufunc(np.minimum, kind, kind, kind)
        OPS[f"max.{kind}"] = _ufunc(np.maximum, kind, kind, kind)
    for kind, wide in (("s32", "s64"), ("u32", "u64"), ("u16", "u32")):
        bits = np.array(0, f"{'i' if wide[0] == 's' else 'u'}{int(wide[1:]) // 8}")
        OPS[f"mul.wide.{kind}"] = _computed(
            lambda a, b, t=bits.dtype: a.astype(t) * b.astype(t), wide, kind, kind
        )
    for kind, wide in (("s32", np.int64), ("u32", np.uint64)):
        OPS[f"mul.hi.{kind}"] = _computed(
            lambda a, b, t=wide: a.astype(t) * b.astype(t) >> t(32), kind, kind, kind
        )
    OPS["neg.s32"] = _ufunc(np.negative, "s32", "s32")
    OPS["div.s32"] = _computed(_quotient, "s32", "s32", "s32")
    OPS["rem.s32"] = _computed(_remainder, "s32", "s32", "s32")


def _add_bits() -> None:
    for kind in ("b16", "b32", "b64", "pred"):
        OPS[f"and.{kind}"] = _ufunc(np.bitwise_and, kind, kind, kind)
        OPS[f"or.{kind}"] = _ufunc(np.bitwise_or, kind, kind, kind)
        OPS[f"xor.{kind}"] = _ufunc(np.bitwise_xor, kind, kind, kind)
        OPS[f"not.{kind}"] = _ufunc(np.invert, kind, kind)
    # numpy too shifts everything out by a count that is too large.
    for kind in ("b32", "b64"):
        OPS[f"shl.{kind}"] = _computed(np.left_shift, kind, kind, "u32")
    for kind in ("s32", "u32", "u64"):
        OPS[f"shr.{kind}"] = _computed(np.right_shift, kind, kind, "u32")
    OPS["prmt.b32"] = _computed(_prmt, "b32", "b32", "b32", "b32")
    OPS["bfe.u32"] = _computed(_bfe, "u32", "u32", "u32", "u32")
    for kind in ("b32", "b64"):
        OPS[f"bfi.{kind}"] = _computed(_bfi, kind, kind, kind, "u32", "u32")
    OPS["brev.b32"] = _computed(_reversed, "b32", "b32")
    OPS["clz.b64"] = _computed(_leading_zeros, "u32", "b64")
    OPS["bfind.shiftamt.u32"] = _computed(_highest_bit_shift, "u32", "u32")


def _add_floats() -> None:
    for rounding in ("", ".rn"):
        OPS[f"add{rounding}.f32"] = _ufunc(np.add, "f32", "f32", "f32")
        OPS[f"sub{rounding}.f32"] = _ufunc(np.subtract, "f32", "f32", "f32")
        OPS[f"mul{rounding}.f32"] = _ufunc(np.multiply, "f32", "f32", "f32")
    OPS["fma.rn.f32"] = _computed(_fma, "f32", "f32", "f32", "f32")
    # Of a NaN and a number they take the number, as numpy's.
    OPS["max.f32"] = _ufunc(np.fmax, "f32", "f32", "f32")
    OPS["min.f32"] = _ufunc(np.fmin, "f32", "f32", "f32")
    OPS["abs.f32"] = _ufunc(np.abs, "f32", "f32")
    OPS["neg.f32"] = _ufunc(np.negative, "f32", "f32")
    OPS["div.rn.f32"] = _ufunc(np.divide, "f32", "f32", "f32")
    OPS["rcp.rn.f32"] = _computed(lambda x: np.float32(1) / x, "f32", "f32")
    OPS["div.approx.f32"] = _computed(_div_approx, "f32", "f32", "f32")
    OPS["rsqrt.approx.f32"] = _computed(lambda x: 1 / np.sqrt(x, dtype=np.float64), "f32", "f32")
    OPS["ex2.approx.ftz.f32"] = _computed(_ex2, "f32", "f32")
    OPS["fma.rn.bf16x2"] = _computed(_bf16_pairs(lambda a, b, c: a * b + c), "b32", *["b32"] * 3)
    OPS["mul.bf16x2"] = _computed(_bf16_pairs(np.multiply), "b32", "b32", "b32")
    OPS["sub.bf16x2"] = _computed(_bf16_pairs(np.subtract), "b32", "b32", "b32")


def _add_comparisons() -> None:
    functions = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    for name, function in functions.items():
        for kind in ("s16", "u16", "s32", "u32", "s64", "u64", "b16", "b32", "b64"):
            OPS[f"setp.{name}.{kind}"] = _compare(function, kind)
        # ne.f32 of a NaN is false, unlike numpy's.
        ordered = (lambda a, b: (a < b) | (a > b)) if name == "ne" else function
        OPS[f"setp.{name}.f32"] = _compare(ordered, "f32")
        OPS[f"setp.{name}u.f32"] = _compare(_unordered(function), "f32")


def _add_moves() -> None:
    for kind in ("b16", "u16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "pred"):
        OPS[f"mov.{kind}"] = _mov(kind)
        if kind != "pred":
            OPS[f"selp.{kind}"] = _computed(
                lambda a, b, p: np.where(p, a, b), kind, kind, kind, "pred"
            )
    OPS["cvta.to.global.u64"] = _cvta
    for to, source in (
        ("s64", "s32"),
        ("u64", "u32"),
        ("u32", "u64"),
        ("u16", "u32"),
        ("u32", "u16"),
    ):
        OPS[f"cvt.{to}.{source}"] = _computed(np.asarray, to, source)
    OPS["cvt.rn.f32.s32"] = _computed(np.asarray, "f32", "s32")
    OPS["cvt.rmi.f32.f32"] = _ufunc(np.floor, "f32", "f32")
    OPS["cvt.rni.s32.f32"] = _computed(_to_int32, "s32", "f32")
    OPS["cvt.rn.bf16.f32"] = _computed(float_to_bf16, "b16", "f32")
    OPS["cvt.rn.bf16x2.f32"] = _computed(
        lambda high, low: _pack(np.stack(np.broadcast_arrays(low, high), -1)), "b32", "f32", "f32"
    )


_add_integers()
_add_bits()
_add_floats()
_add_comparisons()
_add_moves()
