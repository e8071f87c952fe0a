#!/usr/bin/env python3
"""Makes tests/model/golden/llama.h5: what an independent Llama in plain PyTorch (fp64, CPU) computes.

Each group holds one model: its configuration as attributes, two micro-batches, weights (exact in bf16), the loss sum
of the first micro-batch, the gradient of every parameter (of the loss averaged over valid tokens), the logits of one
position a sequence, and the losses of ten AdamW steps with clipping that alternate between the micro-batches. Needs a
Python with torch, numpy and h5py; the tests need only the file.

usage: tools/make_golden.py [OUTPUT]
"""
import math
import pathlib
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F

# Sizes that are no multiples of anything a kernel tiles by; head size times heads differs from dim.
BASE = dict(dim=44, layers=2, heads=6, kv_heads=2, head_size=10, ffn=36, vocab=71, max_seq_len=40, rope_theta=1e4,
            norm_eps=1e-5)
VARIANTS = {
    "plain": dict(tied_head=0, qk_norm=0, documents=0),
    "qk_norm_documents": dict(tied_head=0, qk_norm=1, documents=1),
    "tied_documents": dict(tied_head=1, qk_norm=0, documents=1),
}
BATCH, SEQUENCE = 3, 29
OPTIMIZER = dict(learning_rate=3e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, max_norm=0.7)
STEPS = 10


def make_weights(c, generator):
    def normal(*shape, std=0.15, mean=0.0):
        w = mean + std * torch.randn(*shape, generator=generator, dtype=torch.float64)
        return w.to(torch.bfloat16).to(torch.float64).requires_grad_()  # exact in every storage type

    d, h, q = c["dim"], c["head_size"], c["heads"] * c["head_size"]
    w = {"embedding.weight": normal(c["vocab"], d, std=0.5)}
    for i in range(c["layers"]):
        layer = f"layers.{i}."
        w[layer + "attention.qkv.weight"] = normal((c["heads"] + 2 * c["kv_heads"]) * h, d)
        w[layer + "attention.output.weight"] = normal(d, q)
        w[layer + "ffn.gate_up.weight"] = normal(2 * c["ffn"], d)
        w[layer + "ffn.down.weight"] = normal(d, c["ffn"])
        w[layer + "attention.norm.weight"] = normal(d, mean=1.0)
        w[layer + "ffn.norm.weight"] = normal(d, mean=1.0)
        if c["qk_norm"]:
            w[layer + "attention.q_norm.weight"] = normal(h, mean=1.0)
            w[layer + "attention.k_norm.weight"] = normal(h, mean=1.0)
    if not c["tied_head"]:
        w["head.weight"] = normal(c["vocab"], d)
    w["norm.weight"] = normal(d, mean=1.0)
    return w


def make_batch(c, generator):
    tokens = torch.randint(0, c["vocab"], (BATCH, SEQUENCE + 1), generator=generator)
    labels = tokens[:, 1:].clone()
    tokens = tokens[:, :-1].clone()
    starts = torch.zeros(BATCH, SEQUENCE, dtype=torch.int64)
    if c["documents"]:
        for b in range(BATCH):
            cut = int(torch.randint(3, SEQUENCE - 3, (1,), generator=generator))
            starts[b, cut:] = cut
            labels[b, cut - 1] = -1  # the next document's first token cannot be predicted
    labels[0, 5] = -1
    labels[BATCH - 1, SEQUENCE - 1] = -100
    positions = torch.arange(SEQUENCE)[None, :] - starts
    return tokens, labels, positions, starts


def rms_norm(x, w, eps):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def rotate(x, positions, theta):
    half = x.shape[-1] // 2
    frequency = theta ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angle = positions[:, :, None, None].to(torch.float64) * frequency
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * angle.cos() - x2 * angle.sin(), x2 * angle.cos() + x1 * angle.sin()], -1)


def attention(q, k, v, starts):
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    i, j = torch.arange(SEQUENCE)[:, None], torch.arange(SEQUENCE)[None, :]
    seen = (j <= i)[None] & (j[None] >= starts[:, :, None])
    scores = scores.masked_fill(~seen[:, None], -math.inf)
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)


def logits_of(c, w, batch):
    tokens, _, positions, starts = batch
    eps, h, nq, nk = c["norm_eps"], c["head_size"], c["heads"], c["kv_heads"]
    x = w["embedding.weight"][tokens]
    for i in range(c["layers"]):
        layer = f"layers.{i}."
        y = rms_norm(x, w[layer + "attention.norm.weight"], eps) @ w[layer + "attention.qkv.weight"].T
        q, k, v = (t.reshape(BATCH, SEQUENCE, -1, h) for t in y.split([nq * h, nk * h, nk * h], -1))
        if c["qk_norm"]:
            q = rms_norm(q, w[layer + "attention.q_norm.weight"], eps)
            k = rms_norm(k, w[layer + "attention.k_norm.weight"], eps)
        q, k = rotate(q, positions, c["rope_theta"]), rotate(k, positions, c["rope_theta"])
        x = x + attention(q, k, v, starts).reshape(BATCH, SEQUENCE, -1) @ w[layer + "attention.output.weight"].T
        y = rms_norm(x, w[layer + "ffn.norm.weight"], eps) @ w[layer + "ffn.gate_up.weight"].T
        gate, up = y.split(c["ffn"], -1)
        x = x + (F.silu(gate) * up) @ w[layer + "ffn.down.weight"].T
    x = rms_norm(x, w["norm.weight"], eps)
    return x @ w["embedding.weight" if c["tied_head"] else "head.weight"].T


def loss_sum(c, w, batch):
    logits = logits_of(c, w, batch)
    labels = batch[1]
    valid = labels >= 0
    picked = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return -(picked * valid).sum(), int(valid.sum())


def main(output):
    with h5py.File(output, "w") as file:
        for number, (name, variant) in enumerate(VARIANTS.items()):
            c = {**BASE, **variant}
            generator = torch.Generator().manual_seed(2026 + number)
            w = make_weights(c, generator)
            batches = [make_batch(c, generator) for _ in range(2)]
            group = file.create_group(name)
            for key, value in {**c, **OPTIMIZER, "batch": BATCH, "sequence": SEQUENCE}.items():
                group.attrs[key] = float(value)
            for b, batch in enumerate(batches):
                for key, value in zip(("tokens", "labels", "positions", "document_start"), batch):
                    group[f"batch{b}/{key}"] = value.numpy().astype(np.int32)

            loss, valid = loss_sum(c, w, batches[0])
            (loss / valid).backward()
            group["loss_sum"], group["valid"] = np.float64(loss.item()), np.int32(valid)
            where = torch.tensor([SEQUENCE - 1, 0, 11])
            group["position"] = where.numpy().astype(np.int32)
            group["logits"] = logits_of(c, w, batches[0])[torch.arange(BATCH), where].detach().numpy()
            for key, value in w.items():
                for kind, data in (("weights", value.detach()), ("gradients", value.grad)):
                    group.create_dataset(f"{kind}/{key}", data=data.numpy().astype(np.float32), compression="gzip",
                                         shuffle=True)

            o = OPTIMIZER
            decay = [p for p in w.values() if p.dim() == 2]
            other = [p for p in w.values() if p.dim() == 1]
            adamw = torch.optim.AdamW(
                [dict(params=decay, weight_decay=o["weight_decay"]), dict(params=other, weight_decay=0.0)],
                lr=o["learning_rate"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])
            losses, norms = [], []
            for step in range(STEPS):
                adamw.zero_grad(set_to_none=True)
                loss, valid = loss_sum(c, w, batches[step % 2])
                (loss / valid).backward()
                norms.append(torch.nn.utils.clip_grad_norm_(list(w.values()), o["max_norm"]).item())
                adamw.step()
                losses.append(loss.item() / valid)
            group["losses"], group["norms"] = np.array(losses), np.array(norms)
            print(name, "losses", " ".join(f"{x:.4f}" for x in losses), "norms", " ".join(f"{x:.3f}" for x in norms))


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/model/golden/llama.h5"
    main(sys.argv[1] if len(sys.argv) > 1 else default)
