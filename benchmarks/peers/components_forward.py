"""The reference's bench_forward in PyTorch: the 125M Llama forward, forward + backward and a whole step; its MLP; attention.

The model is benchmarks/peers/llama.py, with its loss (the reference takes the sum of the logits), attention by cuDNN. A step also clips and
runs fused AdamW. Attention: q, k, v as a block's projection leaves them ([B, S, H, h] in memory), always as many tokens.
"""
import functools

import torch
from torch import nn
from torch.nn import functional as F

import llama
import timing
from component_case import Case, Sizes
from shape import flops_per_token, parameter_counts, preset

SEQUENCES = (512, 1024, 2048, 4096, 8192, 16384)
HEADS = (("32x8x128", 32, 8, 128), ("12x12x64", 12, 12, 64))


class Model:
    """The model and one batch; everything of it only queues work. Captured or not, the same compiled code runs."""

    def __init__(self, shape, batch, sequence, sizes: Sizes, compiled: bool):
        torch.manual_seed(1)
        device = sizes.device
        self.model = llama.Llama(shape, device, sizes.dtype)
        self.loss = llama.loss_function(self.model, sequence, "none", "model" if compiled else "no", sizes.dtype)
        random = torch.randint(0, shape["vocab"], (batch, sequence + 1), device=device)
        self.tokens, self.labels = random[:, :-1].contiguous(), random[:, 1:].contiguous()

    def forward(self):
        with torch.no_grad():
            self.loss(self.tokens, self.labels)

    def forward_backward(self):
        self.model.zero_grad(set_to_none=True)
        self.loss(self.tokens, self.labels).backward()

    def step(self, captured: bool):
        """The call that also clips and updates, with an optimizer of its own."""
        rate = torch.tensor(3e-4, device=self.tokens.device) if captured else 3e-4
        optimizer = llama.adamw(self.model, rate, **({"capturable": True} if captured else {}))

        def call():
            self.forward_backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            optimizer.step()

        return call


def model_cases(sizes: Sizes):
    shape = preset("debug" if sizes.small else "125m")
    name, batch, sequence = ("debug", 2, 64) if sizes.small else ("125m", 4, 512)
    tokens, products = batch * sequence, parameter_counts(shape)[1]
    forward = 2 * products + 2 * shape["layers"] * shape["heads"] * shape["head_size"] * sequence
    training = flops_per_token(shape, sequence)["causal"]
    model = functools.cache(lambda compiled: Model(shape, batch, sequence, sizes, compiled))

    def make(part, mode):
        m = model(mode != "eager")
        return [m.step(mode == "graph") if part == "step" else getattr(m, part)]

    for part, flops in (("forward", forward), ("forward_backward", training), ("step", training)):
        for mode in sizes.modes:
            yield Case(f"forward/{name}/{part}", mode, "forward", sizes.dtype_name, functools.partial(make, part, mode),
                       "shape.flops_per_token, causal" if part != "forward" else "a third of it: products and attention, forward",
                       flops=float(flops * tokens), items=float(tokens), item_units="tokens", captured=mode == "graph")


def mlp_cases(sizes: Sizes):
    shape, T = (preset("debug"), 128) if sizes.small else (preset("125m"), 2048)
    D, inner = shape["dim"], shape["ffn"]

    def mlp(x, gate_up, down):
        gate, up = F.linear(x, gate_up).chunk(2, -1)
        return F.linear(F.silu(gate) * up, down)

    def make(mode):
        function = mlp if mode == "eager" else torch.compile(mlp)
        random = functools.partial(torch.randn, device=sizes.device, dtype=sizes.dtype)
        bytes_of_a_set = (3 * D * inner + 2 * T * D) * torch.finfo(sizes.dtype).bits / 8
        sets = [(random(T, D), random(2 * inner, D) * 0.02, random(D, inner) * 0.02) for _ in range(timing.rotating(bytes_of_a_set, sizes.device))]
        return [functools.partial(torch.no_grad()(function), *operands) for operands in sets]

    for mode in sizes.modes:
        yield Case(f"forward/{'debug' if sizes.small else '125m'}/mlp", mode, "forward", sizes.dtype_name, functools.partial(make, mode),
                   "6 T D F", flops=6.0 * T * D * inner, items=float(T), item_units="tokens", captured=mode == "graph")


def _attention(sizes: Sizes, batch, sequence, heads, kv_heads, head_size, backward):
    width = heads + 2 * kv_heads
    bytes_of_a_set = batch * sequence * (width + heads) * head_size * torch.finfo(sizes.dtype).bits / 8 * (2 if backward else 1)

    def one():
        qkv = torch.randn(batch, sequence, width, head_size, device=sizes.device, dtype=sizes.dtype)
        # Also forward alone as in training, with the sums that a backward pass needs.
        q, k, v = (t.transpose(1, 2).requires_grad_(True) for t in qkv.split((heads, kv_heads, kv_heads), 2))
        run = functools.partial(F.scaled_dot_product_attention, q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
        if not backward:
            return run
        gradient = torch.randn(batch, sequence, heads, head_size, device=sizes.device, dtype=sizes.dtype).transpose(1, 2)
        return lambda: torch.autograd.grad(run(), (q, k, v), gradient)

    return [one() for _ in range(timing.rotating(bytes_of_a_set, sizes.device))]


def attention_cases(sizes: Sizes):
    tokens = 256 if sizes.small else 16384
    backends = ("cudnn", "flash") if sizes.device == "cuda" else ("eager",)
    for label, heads, kv_heads, h in HEADS:
        for sequence in (128, 256) if sizes.small else SEQUENCES:
            for part, times in (("forward", 2.0), ("forward_backward", 6.0)):
                for backend in backends:
                    make = functools.partial(_attention, sizes, tokens // sequence, sequence, heads, kv_heads, h, part == "forward_backward")
                    yield Case(f"attention/S{sequence}/causal/{label}/{part}", backend, "forward", sizes.dtype_name, make,
                               "2 T S H h forward, twice that backward", flops=times * tokens * sequence * heads * h, items=float(tokens),
                               item_units="tokens", captured=sizes.device == "cuda", attention=backend if backend == "flash" else "cudnn")


def cases(sizes: Sizes):
    yield from model_cases(sizes)
    yield from mlp_cases(sizes)
    yield from attention_cases(sizes)
