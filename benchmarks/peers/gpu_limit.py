#!/usr/bin/env python3
"""The limit of a training step with today's libraries: only its matrix products and attention, back to back, nothing else.

  benchmarks/peers/gpu_limit.py --preset 7b --recompute none --recompute full --seconds 6 --json results/limit.json

cuBLAS products (through PyTorch) and cuDNN attention of every block and the head, forward and backward, in bf16 on random
operands of real scale (products on zeros run faster), long enough to be under the card's power cap. With recompute full the
forward part of every block runs twice. No norms, activations, losses, optimizer, data: a training step cannot be faster
with these libraries. One JSON object a case, a "step" in it being one micro-batch.
"""
import argparse
import sys
import time

import torch
from torch.nn import functional as F

import record
from gpu_llama import attention_choice
from shape import preset
from telemetry import Telemetry

HEAD_PARTS = 4  # tokens of the head's products in so many pieces: the logits of all would be the largest tensor by far


class Products:
    """Operands of all products, and the calls. `linear` is where another precision of products would go."""

    def __init__(self, s, batch, sequence, device):
        D, F_, V, h = s["dim"], s["ffn"], s["vocab"], s["head_size"]
        qkv, inner = (s["heads"] + 2 * s["kv_heads"]) * h, s["heads"] * h
        T = batch * sequence
        random = lambda *extent, scale=1.0: torch.randn(*extent, device=device, dtype=torch.bfloat16) * scale  # noqa: E731
        self.shapes = [(qkv, D), (D, inner), (2 * F_, D), (D, F_)]  # [out, in]
        self.blocks = [[random(n, k, scale=s["init_std"]) for n, k in self.shapes] for _ in range(s["layers"])]
        self.x = {k: random(T, k) for k in {k for _, k in self.shapes}}
        self.g = {n: random(T, n, scale=1e-3) for n in {n for n, _ in self.shapes}}
        self.rows = max(1, T // HEAD_PARTS)
        self.head, self.head_gradient = random(V, D, scale=s["init_std"]), random(self.rows, V, scale=1e-4)
        self.q, self.k, self.v = (random(batch, n, sequence, h).requires_grad_() for n in (s["heads"], s["kv_heads"], s["kv_heads"]))
        self.grouped, self.tokens = s["heads"] != s["kv_heads"], T
        self.attended = self.attention()
        self.attention_gradient = torch.randn_like(self.attended)

    def attention(self):
        return F.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True, enable_gqa=self.grouped)

    def linear(self, a, b):
        return a @ b

    def forward(self, weights):
        for w, (_, k) in zip(weights, self.shapes):
            self.linear(self.x[k], w.t())
        self.attention()

    def backward(self, weights):
        for w, (n, k) in zip(weights, self.shapes):
            self.linear(self.g[n], w)
            self.linear(self.g[n].t(), self.x[k])
        torch.autograd.grad(self.attended, (self.q, self.k, self.v), self.attention_gradient, retain_graph=True)

    def head_products(self):
        g = self.head_gradient
        for first in range(0, self.tokens, self.rows):
            x = self.x[self.head.shape[1]][first : first + self.rows]
            part = g[: len(x)]
            self.linear(x, self.head.t())
            self.linear(part, self.head)
            self.linear(part.t(), x)

    def step(self, recompute):
        for weights in self.blocks:
            self.forward(weights)
        self.head_products()
        for weights in self.blocks:
            if recompute == "full":
                self.forward(weights)
            self.backward(weights)


def measure(products, recompute, seconds, device, out):
    telemetry = None
    try:
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        with attention_choice(device):
            products.step(recompute)
            telemetry = Telemetry(record.uuid_of(device))
            clock = record.StepClock(device, telemetry.origin)
            begin = time.perf_counter()
            while time.perf_counter() - begin < seconds or clock.laps < 3:
                products.step(recompute)
                clock.lap()
            times, ends = clock.finish()
        n = len(times)
        out["telemetry"], out["power_limit"] = telemetry.stop(), telemetry.power_limit_w()
        unknown = [float("nan")] * n
        out["steps"] = {"step": list(range(1, n + 1)), "loss": unknown, "grad_norm": unknown, "learning_rate": unknown,
                        "step_time": times, "time": ends}
        out["clock"] = "device"
        out["peak_memory"] = torch.cuda.max_memory_allocated() if device == "cuda" else 0
        out["status"] = "finished"
    except RuntimeError as error:
        if telemetry:
            telemetry.stop()
        out["status"] = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="7b", help="7b, 125m, ... (configs/model) or the path of a configuration")
    parser.add_argument("--recompute", action="append", default=[], choices=("none", "full"), help="default: none")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--sequence", type=int, help="default: the preset's max_seq_len")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each case")
    parser.add_argument("--label", default="limit")
    parser.add_argument("--json", help="file that a JSON object a case is added to")
    a = parser.parse_args()
    if a.batch < 1 or a.seconds <= 0:
        parser.error("--batch must be at least 1 and --seconds above 0")
    shape = preset(a.preset)
    sequence = a.sequence or shape["max_seq_len"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts = record.facts("limit", device, shape, sequence)
    torch.manual_seed(1)
    with attention_choice(device):
        products = Products(shape, a.batch, sequence, device)
    failed = 0
    for recompute in a.recompute or ["none"]:
        out = dict(facts, label=f"{a.label} {recompute}", mode="eager", compile="no", recompute=recompute, batch=a.batch, accumulation=1,
                   tokens_per_step=a.batch * sequence, deterministic=False, parity=False,
                   state=dict.fromkeys(("weights", "gradients"), "bf16") | {"master": "none", "moments": "none"})
        measure(products, recompute, a.seconds, device, out)
        failed += out["status"] != "finished"
        record.write(out, a.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
