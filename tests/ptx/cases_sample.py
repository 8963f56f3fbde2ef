"""Cases of sample.cu and logprobs.cu: every way to draw an id, in rows of two slices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import launchers
import reference
from kernel_args import pack
from launchers import Device
from ptx_memory import Array, Buffer
from sampling_reference import SampleRow, sample

WIDTH = launchers.SLICE + 300  # a part of the second slice
TOP_LOGPROBS = 20
LOGPROBS = np.dtype(
    [
        ("total", "u8"),
        ("largest", "f4"),
        ("chosen", "f4"),
        ("top_ids", "i4", TOP_LOGPROBS),
        ("top_logits", "f4", TOP_LOGPROBS),
    ]
)


def make_rows(device: Device, rows: list[SampleRow], num_top: list[int]) -> dict:
    """The arguments that describe rows; the pending id of row i is input i."""
    packed, penalised = b"", []
    for i, row in enumerate(rows):
        repetition, presence, frequency = row.penalties
        fields = {
            "rule": {
                "octaves": row.octaves,
                "top_k": row.top_k,
                "top_p": row.top_p_units,
                "min_p": row.least_weight,
                "seed": row.seed,
            },
            "penalties": {
                "repetition": repetition,
                "presence": presence,
                "frequency": frequency,
            },
            "counter": row.counter,
            "logits_row": i,
            "num_ids": row.num_ids,
            "first_penalised": len(penalised),
            "num_penalised": len(row.counts),
            "pending_at": i if row.pending >= 0 else -1,
            "num_top": num_top[i],
        }
        packed += pack("DeviceSampleRow", fields)
        penalised += row.counts.items()
    pairs = np.array(penalised or [(0, 0)], np.int32)
    return {
        "rows": device.input("rows", np.frombuffer(packed, np.uint8)),
        "penalised": device.input("penalised", pairs),
        "input_ids": device.input("input_ids", np.array([r.pending for r in rows], np.int32)),
    }


def make_args(
    device: Device, logits: Array, rows: list[SampleRow], num_top: list[int]
) -> tuple[dict, Array]:
    """And the counters, which are 0 before and after."""
    scratch = launchers.sample_scratch(device, *logits.shape)
    args = {
        "sampled": device.output("sampled", len(rows) * 8),
        "logits": device.input("logits", logits),
        "num_rows": logits.shape[0],
        "width": logits.shape[1],
        "scratch": scratch,
        **make_rows(device, rows, num_top),
    }
    return args, scratch.bytes[: 4 * launchers.MAX_SAMPLE_ROWS]


def run_sample(device: Device, logits: Array, rows: list[SampleRow]) -> None:
    args, counters = make_args(device, logits, rows, [-1] * len(rows))
    launchers.sample(device, args)
    expected = [sample(x, row) for x, row in zip(logits, rows, strict=True)]
    sampled = args["sampled"].array("i4").reshape(-1, 2)
    reference.check_equal("id and fault of each row", sampled, np.array(expected))
    reference.check_equal("counters", counters, counters * 0)


def random_logits(num_rows: int, scale: float = 3) -> Array:
    """With ties, some masked."""
    logits = reference.random_floats((num_rows, WIDTH), 41, scale)
    logits[:, ::7] = np.round(logits[:, ::7])
    logits[:, 5::50] = -np.inf
    return logits


def draws(name: str, rows: list[SampleRow]) -> Callable[[Device], None]:
    def run(device: Device) -> None:
        for row in rows:
            row.num_ids = row.num_ids or WIDTH
        run_sample(device, random_logits(len(rows)), rows)

    run.__name__ = f"sample_{name}"
    return run


def sample_faults(device: Device) -> None:
    """Rows that have no id, beside some that do."""
    logits = random_logits(5)
    logits[0, 4000] = np.nan
    logits[1, [70, 4200]] = np.inf
    logits[2] = -np.inf
    rows = [SampleRow(num_ids=WIDTH) for _ in logits]
    rows[3].num_ids = 0
    rows[4].octaves = 0
    run_sample(device, logits, rows)


def logprobs(device: Device) -> None:
    rows = [SampleRow(num_ids=WIDTH), SampleRow(octaves=0, num_ids=100), SampleRow(num_ids=WIDTH)]
    num_top = [3, TOP_LOGPROBS, 0]
    logits = random_logits(len(rows))
    args, counters = make_args(device, logits, rows, num_top)
    launchers.sample(device, args)
    out = device.output("logprobs", len(rows) * LOGPROBS.itemsize)
    launchers.logprobs(device, out, args)
    reference.check_equal("counters", counters, counters * 0)
    sampled = args["sampled"].array("i4").reshape(-1, 2)[:, 0]
    for i, x in enumerate(logits):
        check_logprobs(out, i, x, int(sampled[i]), num_top[i])


def check_logprobs(out: Buffer, i: int, logits: Array, chosen: int, num_top: int) -> None:
    """A weight's relative error is 2^-22 (1 + x) at most, x its octaves below the largest; it's
    taken twice, of an id in its slice and of the slice. Two units of 2^-40 an id are rounded off.
    """
    got = np.frombuffer(out.bytes.tobytes(), LOGPROBS)[i]
    below = logits.max().astype(np.float64) - logits
    exact = np.exp(-below)
    with np.errstate(all="ignore"):
        errors = np.where(exact > 0, exact * 2 * 2.0**-22 * (1 + below * np.log2(np.e)), 0)
    bound = errors.sum() + 2 * 2.0**-40 * len(logits)
    expected = reference.Approx(exact.sum(keepdims=True), np.array([bound]))
    reference.check("sum", np.array([got["total"] * 2.0**-40]), expected)
    reference.check_equal("largest", got["largest"], logits.max())
    reference.check_equal("chosen", got["chosen"], logits[chosen])
    top = np.lexsort((np.arange(len(logits)), -logits))[:num_top]
    reference.check_equal("top ids", got["top_ids"][:num_top], top)
    reference.check_equal("top logits", got["top_logits"][:num_top], logits[top])


PENALTIES = (1.3, 0.5, 0.25)

CASES = [
    draws("greedy", [SampleRow(octaves=0), SampleRow(octaves=0, num_ids=4090)]),
    draws("top_k", [SampleRow(top_k=5), SampleRow(top_k=64, top_p=0.7, min_p=0.05)]),
    draws("plain", [SampleRow(counter=9), SampleRow(octaves=0.7, num_ids=4098, min_p=0.01)]),
    draws("top_p", [SampleRow(top_p=0.8), SampleRow(octaves=0.1, top_k=200, top_p=0.5)]),
    draws(
        "penalised",
        [
            SampleRow(octaves=0, penalties=PENALTIES, counts={3: 2, 4100: 0, 4: 1}, pending=3),
            SampleRow(top_p=0.9, penalties=PENALTIES, counts={9: 1}, pending=4101),
            SampleRow(top_k=3, penalties=(1, 2, 0), pending=1),
        ],
    ),
    sample_faults,
    logprobs,
]
