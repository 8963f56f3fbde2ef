"""The training loop: Muon for the matrices, AdamW for embeddings and norms, resumable at any step.

Muon (Keller Jordan, 2024): momentum, then the update's singular values are pushed towards one by
five Newton-Schulz steps.
"""

import json
import math
import os
import time

import torch
import torch.nn.functional as F

from .data import Batches


def orthogonal(g):
    """The nearest matrix with singular values near one; coefficients of the quintic iteration."""
    x = (g / (g.norm() + 1e-7)).bfloat16()
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    for _ in range(5):
        a = x @ x.t()
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.t() if tall else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].mul_(group["momentum"]).add_(p.grad)
                update = orthogonal(p.grad + group["momentum"] * m)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"] * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)


def schedule(step, steps, extra=0):
    """Warm-up, flat, then a straight way down over the last 45 % of `steps`; after these the same
    once more over `extra` steps, from 40 % down."""
    if step >= steps:
        return min((step - steps + 1) / 30, (steps + extra - step) / extra) * 0.4
    return min(1.0, (step + 1) / 60, (steps - step) / (0.45 * steps) + 0.01)


def make_optimizers(model, muon_lr, adam_lr):
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    return [
        Muon(matrices, muon_lr),
        torch.optim.AdamW(others, adam_lr, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def token_loss(model, states, targets, teacher=None):
    """Cross entropy over the learned positions; with a teacher's states, half of it is replaced by
    the divergence from the teacher's distribution."""
    at = targets != -100
    logits = model.head(states[at]).float()
    loss = F.cross_entropy(logits, targets[at])
    if teacher is None:
        return loss, loss
    with torch.no_grad():
        goal = F.log_softmax(teacher[0].head(teacher[1][at]).float(), dim=-1)
    divergence = F.kl_div(
        F.log_softmax(logits, dim=-1), goal, log_target=True, reduction="batchmean"
    )
    return 0.1 * loss + 0.9 * divergence, loss


class Run:
    """One training run with its checkpoint file {name}.pt and log {name}.jsonl in the work folder."""

    def __init__(
        self,
        work,
        name,
        model,
        steps,
        batch_tokens,
        extra_steps=0,
        muon_lr=0.02,
        adam_lr=0.003,
        teacher=None,
        bf16=False,
        seed=0,
    ):
        self.work, self.name, self.model, self.teacher = work, name, model, teacher
        self.steps, self.extra_steps = steps, extra_steps
        self.path, self.log = work / f"{name}.pt", work / f"{name}.jsonl"
        self.batches = Batches(work, batch_tokens, seed)
        self.optimizers = make_optimizers(model, muon_lr, adam_lr)
        self.base = [[g["lr"] for g in o.param_groups] for o in self.optimizers]
        self.bf16 = bf16
        self.step, self.seconds = 0, 0.0
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            model.load_state_dict(state["model"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"]):
                optimizer.load_state_dict(saved)
            self.step, self.seconds = state["step"], state["seconds"]

    def save(self):
        state = {
            "model": self.model.state_dict(),
            "optimizers": [o.state_dict() for o in self.optimizers],
            "step": self.step,
            "seconds": self.seconds,
        }
        part = self.path.with_suffix(".part")
        torch.save(state, part)
        os.replace(part, self.path)

    def one_step(self):
        for optimizer, rates in zip(self.optimizers, self.base):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * schedule(self.step, self.steps, self.extra_steps)
        ids, targets = map(torch.from_numpy, self.batches.batch(self.step))
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            teacher = None
            if self.teacher is not None:
                with torch.no_grad():
                    teacher = (self.teacher, self.teacher.hidden(ids)[0])
            loss, shown = token_loss(self.model, self.model.hidden(ids)[0], targets, teacher)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        if not math.isfinite(loss.item()):
            raise RuntimeError(f"loss is {loss.item()} at step {self.step}")
        return loss.item(), shown.item(), ids.numel()

    def train(self, stop_at=None, save_every=120, threads=None):
        """Up to stop_at (default: the end); a checkpoint every save_every seconds. threads None:
        two while the machine is idle otherwise, one while others compute on it."""
        saved = started = time.time()
        tokens, losses = 0, []
        last = self.steps + self.extra_steps
        while self.step < min(last, stop_at or last):
            torch.set_num_threads(threads or (2 if os.getloadavg()[0] < 2.7 else 1))
            before = time.time()
            loss, shown, n = self.one_step()
            self.seconds += time.time() - before
            tokens += n
            losses.append(shown)
            if self.step % 50 == 0:
                line = {
                    "step": self.step,
                    "loss": round(sum(losses) / len(losses), 4),
                    "objective": round(loss, 4),
                    "tok_s": round(tokens / (time.time() - started)),
                    "seconds": round(self.seconds),
                }
                print(json.dumps(line), flush=True)
                with open(self.log, "a") as f:
                    f.write(json.dumps(line) + "\n")
                started, tokens, losses = time.time(), 0, []
            if time.time() - saved > save_every:
                self.save()
                saved = time.time()
        self.save()
