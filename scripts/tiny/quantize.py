"""4-bit weights by round-to-nearest and by GPTQ (Frantar et al., 2022), to measure their KL.

Symmetric, groups of 128 inputs, weights stay in float ("fake quantized"). Only for the gate: the
product has its own quantizer.
"""

import copy
import json

import torch
import torch.nn.functional as F

from .evaluate import DATA, Doc
from .render import training_pieces

GROUP = 128
LINEARS = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
]
# inputs shared by several linears are quantized together, in the order of the forward pass
STAGES = [LINEARS[:3], LINEARS[3:4], LINEARS[4:6], LINEARS[6:]]


def scale_of(w):
    """[out, n] -> [out, 1]: symmetric 4 bits, codes -8 to 7."""
    return w.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / 7


def quantized(w, scale):
    return (w / scale).round().clamp(-8, 7) * scale


def round_to_nearest(w):
    out = torch.empty_like(w)
    for at in range(0, w.shape[1], GROUP):
        part = w[:, at : at + GROUP]
        out[:, at : at + GROUP] = quantized(part, scale_of(part))
    return out


def gptq(w, hessian, act_order=False, damp=0.05):
    """Column by column; the error of each goes into the columns not yet quantized. act_order takes
    the columns with the largest inputs first, each still with the scale of its own group."""
    order = hessian.diagonal().argsort(descending=True) if act_order else torch.arange(w.shape[1])
    groups = w.split(GROUP, dim=1)
    scales = torch.cat([scale_of(g).expand_as(g) for g in groups], dim=1)[:, order]
    w, h = w[:, order].clone(), hessian[order][:, order].clone()
    dead = h.diagonal() == 0
    h[dead, dead] = 1
    h += torch.eye(h.shape[0]) * damp * h.diagonal().mean()
    inverse = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(h)), upper=True)
    out = torch.empty_like(w)
    for i in range(w.shape[1]):
        out[:, i] = quantized(w[:, i], scales[:, i])
        error = (w[:, i] - out[:, i]) / inverse[i, i]
        w[:, i + 1 :] -= error[:, None] * inverse[i, i + 1 :]
    return out[:, order.argsort()]


def calibration_ids(runner, context=512):
    text = []
    for line in (DATA / "calibration.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        messages = row.get("messages") or [{"role": "plain", "content": row["text"]}]
        text.append("".join(p for p, _ in training_pieces(Doc("", messages), False)))
    ids = [i for t in text for i in runner.encode(t)]
    return [torch.tensor([ids[i : i + context]]) for i in range(0, len(ids), context)]


def module(layer, name):
    for part in name.split("."):
        layer = getattr(layer, part)
    return layer


@torch.no_grad()
def quantize_model(runner, method):
    """A copy of the model, quantized layer by layer, each on the inputs it will really see.

    method: "rtn", "gptq" or "gptq act-order".
    """
    model = copy.deepcopy(runner.model)
    rtn = method == "rtn"
    batches = [] if rtn else calibration_ids(runner)
    for layer in model.model.layers:
        for stage in STAGES:
            first = module(layer, stage[0])
            total = torch.zeros(first.in_features, first.in_features)

            def add(_, inputs, out):
                x = inputs[0].reshape(-1, first.in_features)
                total.addmm_(x.t(), x)

            if not rtn:
                hook = first.register_forward_hook(add)
                for ids in batches:
                    model.hidden(ids)
                hook.remove()
            for name in stage:
                linear = module(layer, name)
                w = linear.weight.data
                new = round_to_nearest(w) if rtn else gptq(w, total, method == "gptq act-order")
                linear.weight.data = new.bfloat16().float()
    return model


@torch.no_grad()
def mean_kl(reference, other, sequences):
    """KL(reference, other) in nats per position. sequences: [(ids [T], first position counted)]"""
    total = count = 0
    for ids, start in sequences:
        p = F.log_softmax(reference(ids[None])[0, start:], -1)
        q = F.log_softmax(other(ids[None])[0, start:], -1)
        total += float(F.kl_div(q, p, log_target=True, reduction="sum"))
        count += p.shape[0]
    return total / count


def eval_sequences(runner, context=512):
    ids = runner.encode((DATA / "eval.txt").read_text(encoding="utf-8"))
    return [(torch.tensor(ids[i : i + context]), 0) for i in range(0, len(ids) - 1, context)]


@torch.no_grad()
def perplexity(model, sequences):
    total = count = 0
    for ids, _ in sequences:
        logits = model(ids[None])[0, :-1]
        total += float(F.cross_entropy(logits, ids[1:], reduction="sum"))
        count += len(ids) - 1
    return float(torch.tensor(total / count).exp())
