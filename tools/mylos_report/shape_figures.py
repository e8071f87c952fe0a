"""What a run's shape in /config/toml gives: parameters, model FLOPs a token (docs/bundle.md), tokens a step; and what is wrong with its plan.

By the rules of src/model/parameters.cpp and src/model/flops.cpp.
"""

import math

from . import steady
from .bundle import of_bundle

MODEL = ("dim", "layers", "heads", "kv_heads", "head_size", "ffn", "vocab")


def _shape(bundle):
    """The model's sizes, or None when /config/toml does not say them all."""
    model = bundle.config().get("model", {})
    whole = isinstance(model, dict) and all(type(model.get(key)) is int and model[key] > 0 for key in MODEL)
    return model if whole else None


def parameters(m):
    """(all, the embedding's, those of matrix products) of a model's sizes."""
    attention = (2 * m["heads"] + 2 * m["kv_heads"]) * m["head_size"] * m["dim"]
    table = m["vocab"] * m["dim"]
    products = m["layers"] * (attention + 3 * m["dim"] * m["ffn"]) + table
    norms = m["layers"] * (2 * m["dim"] + 2 * m["head_size"] * bool(m.get("qk_norm"))) + m["dim"]
    embedding = 0 if m.get("tied_head") else table
    return products + embedding + norms, embedding, products


def flops_per_token(bundle):
    """{name: FLOPs} for each definition of docs/bundle.md: what the bundle states where its configuration does not say the shape."""
    m, sequence = _shape(bundle), bundle.config().get("train", {}).get("sequence")
    if m is None or type(sequence) is not int:
        stated = {name: bundle.number(f"/derived/model_flops_per_token_{name}") for name in steady.MFU}
        return {name: flops for name, flops in stated.items() if flops is not None}
    total, _, products = parameters(m)
    scores = m["layers"] * m["heads"] * m["head_size"] * sequence
    values = (6 * products + 6 * scores, 6 * products + 12 * scores, 6 * total + 12 * scores)
    return dict(zip(steady.MFU, map(float, values)))


def tokens_per_step(bundle):
    """Of all devices, or 0 when it is not known."""
    train = bundle.config().get("train", {})
    sizes = [train.get(key) for key in ("batch", "accumulation", "sequence")]
    return math.prod(sizes) * int(bundle.attribute("/hardware", "devices", 1)) if all(type(v) is int for v in sizes) else 0


def _differing(stated, expected, where):
    """A line for each number of `expected` that `stated` has otherwise."""
    found = []
    for name, value in expected.items():
        own = stated.get(name) if isinstance(stated, dict) else None
        if not isinstance(own, (int, float)) or isinstance(own, bool) or not math.isclose(own, value, rel_tol=1e-12):
            found.append(f"{where}.{name} is {own!r}; the configuration and the plan's own parts give {value:,.12g}")
    return found


@of_bundle
def plan_problems(bundle):
    """A line for each number of the plan that its configuration, or its own parts, do not give."""
    m, plan = _shape(bundle), bundle.plan()
    if m is None:
        return []
    total, embedding, products = parameters(m)
    if bundle.attribute("/", "kind") == "peer":
        return _differing(bundle.attributes.get("/plan", {}), {"parameters": total}, "/plan")
    train = bundle.config()["train"]
    found = _differing(plan.get("parameters"), {"total": total, "embedding": embedding, "products": products}, "/plan/json: parameters")
    found += _differing(plan.get("model"), {key: m[key] for key in MODEL}, "/plan/json: model")
    found += _differing(plan.get("flops_per_token"), flops_per_token(bundle), "/plan/json: flops_per_token")
    found += _differing(plan.get("execution"), {key: train.get(key) for key in ("batch", "sequence")}, "/plan/json: execution")
    return found + _execution(plan.get("execution"), train) + _memory(bundle, plan.get("memory_bytes")) + _ledger(bundle, m)


def _execution(stated, train):
    keys = ("storage", "gradients", *(("recompute", "recompute_blocks") if train.get("recompute") != "auto" else ()))
    own = stated if isinstance(stated, dict) else {}
    return [f"/plan/json: execution.{key} is {own.get(key)!r}; the configuration says {train.get(key)!r}" for key in keys if own.get(key) != train.get(key)]


def _ledger(bundle, m):
    """The ledger's products and attention, forward and backward, are those of the shape."""
    at = "/plan/flop_ledger/"
    ops, phases, flops = bundle.texts(at + "op"), bundle.texts(at + "phase"), bundle.datasets.get(at + "flops")
    tokens = tokens_per_step(bundle)
    if flops is None or not len(ops) == len(phases) == len(flops):
        return [f"{at} has no table of op, phase and flops"]
    trained = [(op, float(f)) for op, phase, f in zip(ops, phases, flops) if phase in ("forward", "backward")]
    scores = m["layers"] * m["heads"] * m["head_size"] * bundle.config()["train"]["sequence"]
    sums = (("products", 6 * parameters(m)[2] * tokens, ("matmul/", "linear_")), ("attention", 7 * scores * tokens, ("attention",)))
    found = []
    for name, expected, starts in sums:
        stated = sum(f for op, f in trained if op.startswith(starts))
        if tokens and not math.isclose(stated, expected, rel_tol=1e-9):
            found.append(f"{at}flops of {name} add up to {stated:.12g}; the configuration gives {expected:.12g}")
    return found


def _memory(bundle, stated):
    categories, sizes = bundle.texts("/plan/memory/category"), bundle.datasets.get("/plan/memory/bytes")
    if sizes is None or len(sizes) != len(categories):
        return ["/plan/memory has no table of categories and bytes"]
    parts = dict(zip(categories, sizes.tolist()))
    return _differing(stated, parts | {"total": sum(parts.values())}, "/plan/json: memory_bytes")
