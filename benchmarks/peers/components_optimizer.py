"""The reference's bench_optimizer in PyTorch, the step alone: every rule over the parameters of the 125M model and over 2^30 parameters.

Weights, gradients and state are bf16, as the reference has them; gradients have a random normal value that stays. Muon's matrices are those of the
blocks (q, k, v, gate and up apart) with fused AdamW for the rest; its 2^30 are five blocks of Llama-3 8B. Modes: eager is a
loop over parameters (AdamW, SGD: torch's fused kernels), compiled runs lists of them through torch.compile, graph is the
better of these in a CUDA graph: launches cost nothing.
"""
import functools

import torch

from component_case import Case, Sizes
from optimizer_rules import ITERATIONS, RATE, Lion, Muon, ScheduleFree
from shape import preset

STATES = {"adamw": 2, "lion": 1, "schedule_free": 2, "sgd": 1}  # tensors of state a parameter


def block_matrices(s: dict) -> list:
    D, h, F = s["dim"], s["head_size"], s["ffn"]
    q, kv = (s["heads"] * h, D), (s["kv_heads"] * h, D)
    return [q, kv, kv, (D, q[0]), (F, D), (F, D), (D, F)]


def shapes_of(size: str, muon: bool = False) -> tuple[list, list]:
    """Shapes of Muon's matrices and of everything else."""
    if size == "1g":
        s = preset("7b")  # five blocks of it, and the embeddings of 256 tokens and the norms that go with them
        others = [(256, s["dim"])] * 2 + [(s["dim"],)] * 11
        return (block_matrices(s) * 5, others) if muon else ([(1 << 30,)], [])
    s = preset("debug" if size == "debug" else "125m")
    others = [(s["vocab"], s["dim"])] * 2 + [(s["dim"],)] * (2 * s["layers"] + 1)
    return block_matrices(s) * s["layers"], others


def elements(shapes: list) -> int:
    return sum(functools.reduce(lambda a, b: a * b, s) for s in shapes)


def muon_flops(shapes: list) -> float:
    """4 R C s + 2 s^3 an iteration with s = min(R, C): the iteration as it is written, not what a cleverer one does."""
    return float(sum(ITERATIONS * (4 * r * c * min(r, c) + 2 * min(r, c) ** 3) for r, c in shapes))


def _random(shapes, sizes, scale):
    return [torch.randn(s, device=sizes.device, dtype=sizes.dtype).mul_(scale) for s in shapes]


def _torch_optimizer(rule, parameters, gradients, captured):
    for p, g in zip(parameters, gradients):
        p.grad = g
    if rule == "sgd":
        return torch.optim.SGD(parameters, lr=RATE, momentum=0.9, weight_decay=0.1, fused=True)
    rate = torch.tensor(RATE, device=parameters[0].device) if captured else RATE
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True, capturable=captured)


def _make(sizes: Sizes, rule: str, size: str, mode: str):
    torch.manual_seed(1)
    matrices, others = shapes_of(size, rule == "muon")
    parameters, gradients = _random(matrices + others, sizes, 0.02), _random(matrices + others, sizes, 1e-3)
    if rule in ("adamw", "sgd"):
        return [_torch_optimizer(rule, parameters, gradients, mode == "graph").step]
    own = len(matrices) if rule == "muon" else len(parameters)
    update = {"lion": Lion, "schedule_free": ScheduleFree, "muon": Muon}[rule](parameters[:own])
    if rule == "muon" and mode != "eager":
        update.use_lists()
    rest = _torch_optimizer("adamw", parameters[own:], gradients[own:], mode == "graph").step if own < len(parameters) else lambda: None
    run = update.loop if mode == "eager" else torch.compile(update.lists)

    @torch.no_grad()
    def step():
        run(gradients[:own])
        rest()

    return [step]


def cases(sizes: Sizes):
    for rule in ("muon", "adamw", "lion", "schedule_free", "sgd"):
        for size in ("debug",) if sizes.small else ("125m", "1g"):
            matrices, others = shapes_of(size, rule == "muon")
            count, width = elements(matrices + others), torch.finfo(sizes.dtype).bits // 8
            states = STATES.get(rule, 1)
            muon = rule == "muon"
            # Weights, gradient and state are read, weights and state written.
            moved = (3 + 2 * states) * count * width + (2 * elements(others) * width if muon else 0)
            for mode in sizes.modes:
                if mode == "compiled" and rule in ("adamw", "sgd"):
                    continue
                yield Case(f"optimizer/{rule}/{size}", mode, "optimizer", sizes.dtype_name, functools.partial(_make, sizes, rule, size, mode),
                           "weights, gradient and state once in, weights and state once out" + ("; Newton-Schulz as it is written" if muon else ""),
                           flops=muon_flops(matrices) if muon else 0.0, bytes=float(moved), items=float(count), item_units="parameters",
                           captured=mode == "graph", patience=4.0 if muon and size == "1g" else 1.0)
