#!/usr/bin/env python3
"""mylos and PyTorch side by side on the CPU: the same Llama, fp32, the same shapes and threads, one call.

  benchmarks/peers/cpu_llama.py --python TORCH_PYTHON [--config configs/quickstart.toml] [--rounds 3] [--steps 20] [--threads 2]

The contenders take turns (mylos, PyTorch eager, PyTorch compiled, mylos, ...), so that a machine that slows down slows all of
them; only ratios within one call mean something. Each turn trains --steps steps after --warmup steps that are not counted,
on the same random tokens. A step is everything from the batch to the updated weights: forward, loss, backward, clipping
to the configured norm, AdamW. PyTorch runs scaled_dot_product_attention, fused AdamW and, compiled, one graph for the model.
Prints tokens/s from the median step of each turn, and how mylos compares with the faster PyTorch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def read_shape(path: pathlib.Path) -> dict:
    """The model and batch of a configuration, with the defaults and the width rule of mylos."""
    with open(path, "rb") as file:
        toml = tomllib.load(file)
    if "include" in toml:
        sys.exit(f"{path}: include is not followed here; give a configuration that holds its own [model]")
    model, train = toml.get("model", {}), toml.get("train", {})
    s = {"dim": 256, "layers": 4, "heads": 4, "kv_heads": 0, "head_size": 0, "ffn": 0, "ffn_multiplier": 1.0, "vocab": 512,
         "rope_theta": 10000.0, "norm_eps": 1e-5, "tied_head": False, "qk_norm": False, "init_std": 0.02} | model
    s |= {"batch": train.get("batch", 8), "sequence": train.get("sequence", 512), "accumulation": train.get("accumulation", 1)}
    s["clip"] = toml.get("optimizer", {}).get("max_grad_norm", 1.0)
    if train.get("storage", "f32") != "f32" or s["qk_norm"] or s["accumulation"] != 1:
        sys.exit(f"{path}: this comparison is for fp32 storage, no qk_norm and no accumulation")
    s["kv_heads"] = s["kv_heads"] or s["heads"]
    s["head_size"] = s["head_size"] or s["dim"] // s["heads"]
    s["ffn"] = s["ffn"] or 256 * -(-int(8 * s["dim"] / 3 * s["ffn_multiplier"]) // 256)
    return s


def torch_worker(shape: dict, tokens_file: str, threads: int, compiled: bool) -> None:
    """Reads a number of steps a line, trains so many, answers with their times in seconds."""
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    D, H, K, h, S, B, V = (shape[k] for k in ("dim", "heads", "kv_heads", "head_size", "sequence", "batch", "vocab"))
    frequency = shape["rope_theta"] ** (-torch.arange(0, h, 2).float() / h)
    angle = torch.outer(torch.arange(S).float(), frequency)
    cos, sin = angle.cos(), angle.sin()

    def rope(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))
            self.qkv, self.out = nn.Linear(D, (H + 2 * K) * h, bias=False), nn.Linear(H * h, D, bias=False)
            self.gate_up, self.down = nn.Linear(D, 2 * shape["ffn"], bias=False), nn.Linear(shape["ffn"], D, bias=False)

        def forward(self, x):
            q, k, v = self.qkv(F.rms_norm(x, (D,), self.norm1, shape["norm_eps"])).split((H * h, K * h, K * h), -1)
            q, k, v = (t.view(B, S, -1, h).transpose(1, 2) for t in (q, k, v))
            a = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True, enable_gqa=H != K)
            x = x + self.out(a.transpose(1, 2).reshape(B, S, H * h))
            gate, up = self.gate_up(F.rms_norm(x, (D,), self.norm2, shape["norm_eps"])).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(V, D)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm = nn.Parameter(torch.ones(D))
            self.head = nn.Linear(D, V, bias=False)
            if shape["tied_head"]:
                self.head.weight = self.embedding.weight

        def forward(self, tokens, labels):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x)
            logits = self.head(F.rms_norm(x, (D,), self.norm, shape["norm_eps"]))
            return F.cross_entropy(logits.view(-1, V), labels.reshape(-1))

    model = Llama()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=shape["init_std"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model) if compiled else model
    data = torch.from_numpy(np.fromfile(tokens_file, np.uint32).astype(np.int64))
    position = 0
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            if position + B * S + 1 > len(data):
                position = 0
            window = data[position : position + B * S + 1]
            position += B * S
            loss = forward(window[:-1].view(B, S), window[1:].view(B, S))
            loss.backward()
            if shape["clip"] > 0:
                nn.utils.clip_grad_norm_(model.parameters(), shape["clip"])
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = loss.item()
            times.append(time.perf_counter() - start)
        if value != value:
            sys.exit("the loss is not a number")
        print(json.dumps({"times": times, "loss": value, "parameters": sum(p.numel() for p in model.parameters()),
                          "torch": torch.__version__}), flush=True)


class TorchContender:
    def __init__(self, arguments, compiled: bool, tokens_file: str):
        self.name = "PyTorch compiled" if compiled else "PyTorch eager"
        command = [arguments.python, __file__, "--config", str(arguments.config), "--threads", str(arguments.threads),
                   "--worker", "compiled" if compiled else "eager", "--tokens", tokens_file]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, steps: int) -> dict:
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class MylosContender:
    name = "mylos"

    def __init__(self, arguments, tokens_file: str, folder: str):
        self.log = os.path.join(folder, "run.jsonl")
        self.command = [arguments.mylos, "train", str(arguments.config), f'--data.train=["{tokens_file}"]', "--data.validation=[]",
                        '--data.dtype="u32"', "--data.documents=false", '--data.tokenizer=""', '--schedule.shape="constant"',
                        "--schedule.learning_rate=1e-4", "--schedule.warmup=0", f"--train.threads={arguments.threads}", "--eval.interval=0",
                        f'--output.bundle="{folder}/run.h5"', f'--output.log="{self.log}"', "--output.overwrite=true", '--output.progress="off"']
        self.environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads), "OMP_PROC_BIND": "false"}

    def turn(self, steps: int) -> dict:
        done = subprocess.run([*self.command, f"--train.steps={steps}"], env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"mylos failed with {done.returncode}: {done.stderr.strip()}")
        with open(self.log) as file:
            events = [json.loads(line) for line in file]
        samples = [e for e in events if e["event"] == "step"]
        return {"times": [e["step_time_s"] for e in samples], "loss": samples[-1]["loss"], "parameters": events[0]["parameters"]}

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch and numpy")
    parser.add_argument("--mylos", default=str(ROOT / "build/src/cli/mylos"))
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "configs/quickstart.toml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="counted steps a turn")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out (it needs a C++ compiler)")
    parser.add_argument("--json", help="also write all step times to this file")
    parser.add_argument("--worker", choices=["eager", "compiled"], help=argparse.SUPPRESS)
    parser.add_argument("--tokens", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    shape = read_shape(arguments.config)
    if arguments.worker:
        torch_worker(shape, arguments.tokens, arguments.threads, arguments.worker == "compiled")
        return

    import random
    from array import array

    tokens_per_step = shape["batch"] * shape["sequence"]
    with tempfile.TemporaryDirectory() as folder:
        tokens_file = os.path.join(folder, "tokens.bin")
        generator = random.Random(1)
        with open(tokens_file, "wb") as file:
            array("I", (generator.randrange(shape["vocab"]) for _ in range(tokens_per_step * 64 + 1))).tofile(file)
        contenders = [MylosContender(arguments, tokens_file, folder), TorchContender(arguments, False, tokens_file)]
        if not arguments.no_compile:
            contenders.append(TorchContender(arguments, True, tokens_file))
        speeds = {c.name: [] for c in contenders}
        record = {"shape": shape, "threads": arguments.threads, "turns": []}
        print(f"{json.dumps(shape)}\n{arguments.threads} threads, {tokens_per_step} tokens a step, tokens/s by turn:")
        for round_ in range(arguments.rounds):
            for contender in contenders:
                result = contender.turn(arguments.warmup + arguments.steps)
                counted = result["times"][arguments.warmup :]
                speed = tokens_per_step / statistics.median(counted)
                speeds[contender.name].append(speed)
                record["turns"].append({"round": round_, "contender": contender.name, **result})
                print(f"  round {round_ + 1}  {contender.name:17} {speed:9.0f}   loss {result['loss']:.3f}   {result['parameters']} parameters", flush=True)
        for contender in contenders:
            contender.close()
    ratios = [mine / max(others) for mine, *others in zip(*speeds.values())]
    for name, values in speeds.items():
        print(f"{name:17} median {statistics.median(values):9.0f} tokens/s")
    print(f"mylos / faster PyTorch, per round: {', '.join(f'{r:.3f}' for r in ratios)}; median {statistics.median(ratios):.3f}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(record | {"ratios": ratios}))


if __name__ == "__main__":
    main()
