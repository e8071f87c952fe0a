"""The Llama of the peers in plain PyTorch: what a user would write, with PyTorch's own means of going fast.

Weights are [out, in] with q, k, v in one matrix and gate, up in another; RoPE turns the first half of a head against the
second; tensors are [B, S, D]. `weight_name` maps parameters to mylos' names (src/model/parameters.cpp). Mixed precision is
the caller's: with bf16 parameters everything but the loss is bf16; with fp32 parameters run it under torch.autocast.
"""
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

RECOMPUTE = ("none", "selective", "full")
COMPILE = ("no", "blocks", "model", "graphs")
# Selective recomputation keeps what is expensive: results of products and of attention.
KEPT = {torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_cudnn_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention.default, torch.ops.aten._scaled_dot_product_efficient_attention.default}


def rope_table(shape, sequence, device, dtype):
    h = shape["head_size"]
    frequency = shape["rope_theta"] ** (-torch.arange(0, h, 2, device=device).double() / h)
    angle = torch.outer(torch.arange(sequence, device=device).double(), frequency)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rope(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Block(nn.Module):
    def __init__(self, s):
        super().__init__()
        D, h, F_ = s["dim"], s["head_size"], s["ffn"]
        self.heads, self.kv_heads, self.head_size, self.eps = s["heads"], s["kv_heads"], h, s["norm_eps"]
        self.norm1, self.norm2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))
        self.qkv, self.output = nn.Linear(D, (s["heads"] + 2 * s["kv_heads"]) * h, bias=False), nn.Linear(s["heads"] * h, D, bias=False)
        self.gate_up, self.down = nn.Linear(D, 2 * F_, bias=False), nn.Linear(F_, D, bias=False)

    def forward(self, x, cos, sin):
        B, S, D = x.shape
        H, K, h = self.heads, self.kv_heads, self.head_size
        q, k, v = self.qkv(F.rms_norm(x, (D,), self.norm1, self.eps)).split((H * h, K * h, K * h), -1)
        q, k, v = (t.view(B, S, -1, h).transpose(1, 2) for t in (q, k, v))
        q, k = rope(q, cos, sin).to(v.dtype), rope(k, cos, sin).to(v.dtype)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=H != K)
        x = x + self.output(a.transpose(1, 2).reshape(B, S, H * h))
        gate, up = self.gate_up(F.rms_norm(x, (D,), self.norm2, self.eps)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def head_loss(x, norm, weight, labels, eps):
    logits = F.linear(F.rms_norm(x, (x.shape[-1],), norm, eps), weight)
    return F.cross_entropy(logits.view(-1, weight.shape[0]).float(), labels.reshape(-1))


class Llama(nn.Module):
    """Built on `device`; initial matrices as mylos draws them, other values of the same distribution."""

    def __init__(self, s, device="cpu", dtype=torch.float32):
        super().__init__()
        self.eps, self.shape = s["norm_eps"], s
        with torch.device(device):
            previous = torch.get_default_dtype()
            torch.set_default_dtype(dtype)
            try:
                self.embedding = nn.Embedding(s["vocab"], s["dim"])
                self.blocks = nn.ModuleList(Block(s) for _ in range(s["layers"]))
                self.norm = nn.Parameter(torch.ones(s["dim"]))
                self.head = nn.Linear(s["dim"], s["vocab"], bias=False)
            finally:
                torch.set_default_dtype(previous)
        if s["tied_head"]:
            self.head.weight = self.embedding.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                branch = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=s["init_std"] / ((2 * s["layers"]) ** 0.5 if branch else 1))


def weight_name(name: str) -> str:
    """mylos' name of a parameter of Llama."""
    part = name.split(".")
    if part[0] != "blocks":
        return "norm.weight" if name == "norm" else name
    inner = {"norm1": "attention.norm", "norm2": "ffn.norm", "qkv": "attention.qkv", "output": "attention.output",
             "gate_up": "ffn.gate_up", "down": "ffn.down"}[part[2]]
    return f"layers.{part[1]}.{inner}.weight"


def _policy(context, op, *arguments, **named):
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


class Selective(nn.Module):
    """A block under selective recomputation: within the module, so that it compiles into one graph."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, cos, sin):
        return checkpoint(self.block, x, cos, sin, use_reentrant=False,
                          context_fn=partial(create_selective_checkpoint_contexts, _policy))


def loss_function(model: Llama, sequence: int, recompute: str, compiled: str, table_dtype):
    """f(tokens [B, S], labels [B, S]) -> mean loss.

    compiled: "blocks" compiles a block and the head (one short compilation, whatever the depth), "model" one graph,
    "graphs" the same replayed as CUDA graphs.
    """
    block = torch.compile if compiled == "blocks" else lambda f: f
    if recompute == "none":
        stages = [block(b) for b in model.blocks]
    elif recompute == "full":
        stages = [partial(checkpoint, block(b), use_reentrant=False) for b in model.blocks]
    else:
        stages = [block(Selective(b)) for b in model.blocks]
    head = block(head_loss)
    device = model.norm.device
    cos, sin = rope_table(model.shape, sequence, device, table_dtype)

    def forward(tokens, labels):
        x = model.embedding(tokens)
        for stage in stages:
            x = stage(x, cos, sin)
        return head(x, model.norm, model.head.weight, labels, model.eps)

    if compiled == "model":
        return torch.compile(forward)
    if compiled == "graphs":
        return torch.compile(forward, mode="reduce-overhead")
    return forward


def adamw(model: Llama, learning_rate=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, **more):
    """Fused AdamW with mylos' groups: weight decay on matrices and the embedding, none on norms."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, eps=eps, fused=True, **more)
