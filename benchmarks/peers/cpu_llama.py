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
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from shape import ROOT, model_shape, read_toml


def read_shape(path: pathlib.Path) -> dict:
    """The model and batch of a configuration, with the defaults and the width rule of mylos."""
    toml = read_toml(path)
    train = toml.get("train", {})
    s = model_shape(toml)
    s |= {"batch": train.get("batch", 8), "sequence": train.get("sequence", 512), "accumulation": train.get("accumulation", 1)}
    s["clip"] = toml.get("optimizer", {}).get("max_grad_norm", 1.0)
    if train.get("storage", "f32") != "f32" or s["accumulation"] != 1:
        sys.exit(f"{path}: this comparison is for fp32 storage and no accumulation")
    return s


def torch_worker(shape: dict, tokens_file: str, threads: int, compiled: bool) -> None:
    """Reads a number of steps a line, trains so many, answers with their times in seconds."""
    import numpy as np
    import torch
    from torch import nn

    import llama

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    S, B = shape["sequence"], shape["batch"]
    model = llama.Llama(shape)
    optimizer = llama.adamw(model, 1e-4)
    forward = llama.loss_function(model, S, "none", "model" if compiled else "no", torch.float32)
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
    for program, option, wanted in ((arguments.mylos, "--mylos", "the mylos of a build"), (arguments.python, "--python", "a Python with torch and numpy")):
        if not shutil.which(program):
            sys.exit(f"cpu_llama: '{program}' is no program that can be started; name {wanted} with {option}")
    if subprocess.run([arguments.python, "-c", "import numpy, torch"], stderr=subprocess.DEVNULL).returncode != 0:
        sys.exit(f"cpu_llama: '{arguments.python}' cannot import numpy and torch; name a Python that can with --python")
    try:
        compare(arguments, shape)
    except RuntimeError as e:  # a contender's end
        sys.exit(f"cpu_llama: {e}")


def compare(arguments, shape: dict) -> None:
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
