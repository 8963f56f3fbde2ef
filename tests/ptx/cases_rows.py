"""Cases of rows.cu: small, ragged and more than one block wide."""

from __future__ import annotations

import numpy as np

import launchers
import reference
from launchers import Device
from ptx_scalar_ops import bf16_to_float


def embed(device: Device) -> None:
    for width, ids in ((8, [6, 0, 3]), (1032, [2, 2])):
        table = reference.random_bf16((7, width), 1)
        hidden = device.output("hidden", len(ids) * width * 4)
        known = device.output("known", len(ids) * 4)
        given = [~0, *ids[1:]]  # the first is what the step before has chosen
        input_ids = {
            "given": device.input("ids", np.array(given, np.int32)),
            "sampled": device.input("sampled", np.array([ids[0], 0], np.int32)),
            "known": known,
        }
        table_at = device.input("table", table, early=True)
        launchers.embed(device, hidden, table_at, input_ids, len(ids), width)
        reference.check_equal("embed", hidden.array("f4"), bf16_to_float(table[ids]))
        reference.check_equal("known ids", known.array("i4"), np.array(ids))


def rms_norm(device: Device) -> None:
    eps = 1e-6
    for width, rows in ((8, None), (40, [3, 1, 1]), (1032, [0, 2]), (2056, None)):
        hidden = reference.random_floats((4, width), 2, 3)
        weight = reference.random_floats(width, 3)
        picked = hidden[rows] if rows else hidden[:2]
        out = device.output("out", picked.size * 2)
        normed = {
            "hidden": device.input("hidden", hidden),
            "row_indices": device.input("rows", np.array(rows, np.int32)) if rows else None,
            "weight": device.input("weight", weight),
            "eps": eps,
        }
        launchers.rms_norm(device, out, normed, len(picked), width)
        expected = reference.rms_norm(picked, weight, eps)
        reference.check("rms_norm", out.array("u2"), expected)


def silu_mul(device: Device) -> None:
    rows = 3
    for width in (8, 1032):
        gate_up = reference.random_floats((rows, 2 * width), 5, 4)
        # silu is 0 though exp(200) is infinite; the others are unusual too.
        gate_up[0, :5] = [-200, 200, np.nan, -87.5, 0]
        gate_up[1, width + 3] = np.inf
        out = device.output("out", rows * width * 2)
        launchers.silu_mul(device, out, device.input("gate_up", gate_up), rows, width)
        gate, up = (
            reference.Approx(half.astype(np.float64), np.zeros(half.shape))
            for half in (gate_up[:, :width], gate_up[:, width:])
        )
        reference.check("silu_mul", out.array("u2"), reference.silu_mul(gate, up))


def add_bias(device: Device) -> None:
    rows = 3
    for n in (1, 13, 257):
        y = reference.random_floats((rows, n), 6)
        bias = reference.random_floats(n, 7)
        out = device.output("out", y)
        launchers.add_bias(device, out, device.input("bias", bias), rows, n)
        reference.check_equal("add_bias", out.array("f4"), y + bias)


CASES = [embed, rms_norm, silu_mul, add_bias]
