#!/usr/bin/env python3
"""PyTorch's training step of a mylos preset, as fast as PyTorch's own means make it: the peer of `mylos train` on a GPU.

  benchmarks/peers/gpu_llama.py --preset 7b --case selective:4:2 --case full:2:4 --json results/pytorch.json
  benchmarks/peers/gpu_llama.py --preset 125m --sequence 512 --case none:4:1 --mode eager --mode compiled --mode graphs --steps 200
  benchmarks/peers/gpu_llama.py --preset 125m --weights w.h5 --tokens t.bin --state fp32 --case none:4:1 --steps 200   # parity

A case is recompute:batch:accumulation. A step is everything from the batch to the updated weights: forward, loss, backward,
clipping, fused AdamW. Attention is cuDNN's. State bf16: parameters, gradients and moments in bf16, no master; fp32: all in
fp32 with products in bf16 (autocast) or, on request, fp32. Modes: eager; compiled (deep models block by block, others as one graph); graphs
(compiled with mode="reduce-overhead", CUDA graphs); captured (compiled, and the whole step with clipping and AdamW in one CUDA
graph). One JSON object a case and mode; a case that fails is an object, too, and does not stop the others.
"""
import argparse
import contextlib
import gc
import sys

import torch
from torch import nn

import llama
import parity
import record
from shape import preset
from telemetry import Telemetry

MODES = ("eager", "compiled", "graphs", "captured")
DEEP = 16  # layers from which compiling block by block is worth it: compile time would grow with depth


def build_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", required=True, help="7b, 125m, ... (configs/model) or the path of a configuration")
    parser.add_argument("--case", action="append", default=[], help="recompute:batch:accumulation, like selective:4:2")
    parser.add_argument("--mode", action="append", default=[], choices=MODES, help="default: compiled")
    parser.add_argument("--compile", choices=("blocks", "model"), help="default: blocks from 16 layers on")
    parser.add_argument("--state", choices=("bf16", "fp32"), default="bf16", help="of parameters, gradients and moments")
    parser.add_argument("--products", choices=("bf16", "fp32"), default="bf16", help="with --state fp32: bf16 through autocast")
    parser.add_argument("--sequence", type=int, help="default: the preset's max_seq_len")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=0, help="steps before those that are recorded")
    parser.add_argument("--weights", help="weights of mylos (HDF5) to start from")
    parser.add_argument("--tokens", help="token file, read in order; default: random tokens")
    parser.add_argument("--tokens-dtype", choices=("u16", "u32"))
    parser.add_argument("--schedule", choices=("constant", "cosine", "linear"), default="constant")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--final-fraction", type=float, default=0.1)
    parser.add_argument("--schedule-warmup", type=int, default=0)
    parser.add_argument("--schedule-length", type=int, default=0)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--label", default="pytorch", help="first part of each record's label")
    parser.add_argument("--json", help="file that a JSON object a case is added to")
    arguments = parser.parse_args()
    arguments.mode = arguments.mode or ["compiled"]
    arguments.cases = [parse_case(parser, text) for text in arguments.case or ["selective:4:2"]]
    if min(arguments.steps, *(c[i] for c in arguments.cases for i in (1, 2))) < 1 or arguments.warmup < 0:
        parser.error("steps, batch and accumulation must be at least 1, warm-up at least 0")
    if arguments.weights and arguments.warmup:
        parser.error("--weights starts a run that is compared step by step; that has no --warmup")
    return arguments


def parse_case(parser, text):
    part = text.split(":")
    if len(part) != 3 or part[0] not in llama.RECOMPUTE or not (part[1].isdigit() and part[2].isdigit()):
        parser.error(f"'{text}' is not recompute:batch:accumulation with recompute one of {', '.join(llama.RECOMPUTE)}")
    return part[0], int(part[1]), int(part[2])


class Training:
    """One case: the model, its optimizer, and a step that only queues work."""

    def __init__(self, a, shape, device, case, mode):
        self.a, self.shape, self.device, self.mode = a, shape, device, mode
        self.recompute, self.batch, self.accumulation = case
        self.sequence = a.sequence
        torch.manual_seed(a.seed)
        dtype = torch.bfloat16 if a.state == "bf16" else torch.float32
        self.model = llama.Llama(shape, device, dtype)
        if a.weights:
            parity.load_weights(self.model, a.weights)
        self.tokens = parity.Tokens(a.tokens, a.tokens_dtype, self.sequence, shape["vocab"], device) if a.tokens else None
        by = a.compile or ("blocks" if shape["layers"] >= DEEP else "model")
        self.compiled = {"eager": "no", "graphs": "graphs"}.get(mode, by)
        self.loss = llama.loss_function(self.model, self.sequence, self.recompute, self.compiled, dtype)
        captured = mode == "captured"
        if captured and device != "cuda":
            raise RuntimeError("mode captured needs a CUDA device; use eager or compiled")
        if mode == "graphs" and self.accumulation > 1:
            raise RuntimeError("mode graphs keeps gradients inside a CUDA graph, so accumulation must be 1; use compiled")
        rate = torch.tensor(a.learning_rate, device=device) if captured else a.learning_rate
        self.optimizer = llama.adamw(self.model, rate, **({"capturable": True} if captured else {}))
        self.graph = None

    def batch_of(self, step, micro):
        if self.tokens:
            return self.tokens.batch(step, micro, self.batch, self.accumulation)
        random = torch.randint(0, self.shape["vocab"], (self.batch, self.sequence + 1), device=self.device)
        return random[:, :-1].contiguous(), random[:, 1:].contiguous()

    def rate(self, step):
        a = self.a
        return parity.learning_rate(step, a.schedule, a.learning_rate, a.final_fraction, a.schedule_warmup,
                                    a.schedule_length or a.warmup + a.steps)

    def set_rate(self, rate):
        for group in self.optimizer.param_groups:
            if torch.is_tensor(group["lr"]):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def work(self, batches):
        """Gradients, clipping and update; returns loss and gradient norm as tensors on the device."""
        total = None
        autocast = self.a.state == "fp32" and self.a.products == "bf16"
        mixed = torch.autocast(self.device, torch.bfloat16) if autocast else contextlib.nullcontext()
        for tokens, labels in batches:
            if self.mode == "graphs":
                torch.compiler.cudagraph_mark_step_begin()
            with mixed:
                loss = self.loss(tokens, labels) / self.accumulation
            loss.backward()
            total = loss.detach().clone() if total is None else total + loss.detach()
        limit = self.a.clip if self.a.clip > 0 else float("inf")
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total, norm.detach().clone()

    def step(self, step):
        self.set_rate(self.rate(step))
        batches = [self.batch_of(step, m) for m in range(self.accumulation)]
        if self.mode != "captured":
            return self.work(batches)
        if self.graph is None:
            return self.capture(batches, step)
        for static, fresh in zip(self.static, batches):
            static[0].copy_(fresh[0]), static[1].copy_(fresh[1])
        self.graph.replay()
        return tuple(t.clone() for t in self.outputs)

    def capture(self, batches, step):
        """The first steps run as they are (compilation, AdamW's state); the third is captured for those that follow."""
        if step < 2:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                result = self.work(batches)
            torch.cuda.current_stream().wait_stream(side)
            return result
        self.static, self.graph = batches, torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.outputs = self.work(self.static)
        self.graph.replay()
        return tuple(t.clone() for t in self.outputs)


def attention_choice(device):
    if device != "cuda":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel(SDPBackend.CUDNN_ATTENTION)


def measure(a, shape, device, case, mode, facts):
    recompute, batch, accumulation = case
    out = dict(facts, label=f"{a.label} {mode} {recompute} {batch}x{accumulation}", mode=mode, recompute=recompute, batch=batch,
               accumulation=accumulation, tokens_per_step=batch * accumulation * a.sequence, deterministic=False,
               seed=a.seed, parity=bool(a.weights), products=a.products,
               state=dict.fromkeys(("weights", "gradients", "moments"), "bf16" if a.state == "bf16" else "f32") | {"master": "none"},
               optimizer={"name": "AdamW, fused", "clip": a.clip, "schedule": a.schedule, "learning_rate": a.learning_rate})
    telemetry = None
    try:
        if device == "cuda":
            torch._dynamo.reset()
            gc.collect()  # compiled code and the model before it refer to each other
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        training = Training(a, shape, device, case, mode)
        out["compile"] = training.compiled
        with attention_choice(device):
            for step in range(a.warmup):
                training.step(step)
            telemetry = Telemetry(record.uuid_of(device))
            clock = record.StepClock(device, telemetry.origin)
            results = []
            for step in range(a.warmup, a.warmup + a.steps):
                results.append(training.step(step))
                clock.lap()
            times, ends = clock.finish()
        out["telemetry"], out["power_limit"] = telemetry.stop(), telemetry.power_limit_w()
        numbers = range(a.warmup + 1, a.warmup + a.steps + 1)
        out["steps"] = {"step": list(numbers), "loss": [r[0].item() for r in results], "grad_norm": [r[1].item() for r in results],
                        "learning_rate": [training.rate(n - 1) for n in numbers], "step_time": times, "time": ends}
        out["clock"] = "device"
        memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
        out |= {"peak_memory": memory, "peak_memory_reserved": torch.cuda.max_memory_reserved() if device == "cuda" else 0}
        broken = [s for s, loss in zip(out["steps"]["step"], out["steps"]["loss"]) if loss != loss]
        out["status"] = f"failed: the loss of step {broken[0]} is not a number" if broken else "finished"
    except (RuntimeError, torch._dynamo.exc.TorchDynamoException, AssertionError) as error:
        if telemetry:
            telemetry.stop()
        out["status"] = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return out


def main() -> int:
    a = build_arguments()
    shape = preset(a.preset)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a.sequence = a.sequence or shape["max_seq_len"]
    # Blocks are one graph, but a recompilation for each of their layouts must not end in eager code unnoticed.
    torch._dynamo.config.recompile_limit = 64
    facts = record.facts("pytorch", device, shape, a.sequence)
    failed = 0
    for case in a.cases:
        for mode in a.mode:
            result = measure(a, shape, device, case, mode, facts)
            failed += result["status"] != "finished"
            record.write(result, a.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
