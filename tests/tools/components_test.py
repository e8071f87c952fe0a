"""Records of the peers' components become `bench` bundles that mylos validates; wrong records are refused by name."""
import copy
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "benchmarks/peers")]
import components_record  # noqa: E402
from mylos_report import peer_bench, peer_bundle  # noqa: E402
from mylos_report.bundle import Bundle, BundleError  # noqa: E402

MYLOS = os.environ["MYLOS"]


def facts():
    """What record.facts() gives on an H200; it needs torch, this does not."""
    return {"system": "pytorch", "call": "20261202T000000Z-abcd", "created": "2026-12-02T00:00:00Z", "versions": {"PyTorch": "2.11.0"},
            "hardware": {"device": "NVIDIA H200", "backend": "Cuda", "is_gpu": True, "device_memory": 150 << 30, "driver": "",
                         "threads": 16, "cpu_cores": 16, "cpu": "x", "host_memory": 1 << 34},
            "command_line": ["components.py"], "commit": "unknown", "host": "h", "operating_system": "Linux", "environment": {},
            "model": {"dim": 768}, "flops_per_token": {}}


def case(name, mode, time, samples=40, **changes):
    # Slowly wandering, as clocks do: an interval that took samples for independent would be too narrow.
    chance = random.Random(f"{name} {mode}")
    drift, times = 0.0, []
    for _ in range(samples):
        drift = 0.9 * drift + chance.gauss(0, 0.002)
        times.append(time * math.exp(drift + chance.gauss(0, 0.001)))
    return {"name": name, "mode": mode, "component": "optimizer", "dtype": "bf16", "flops": 1e9, "bytes": 2e9, "items": 10.0, "item_units": "parameters",
            "work_source": "counted", "threads": 16, "warm": False, "samples_s": times, "calls_per_sample": 3, "warm_up_calls": 9,
            "warm_up_s": 0.1, "stop": "width", "clock": "device", "captured": True, "peak_memory": 1 << 20} | changes


def run():
    out = components_record.begin(facts(), {"warm_up": "until still", "stop": "when narrow"})
    skipped = {"samples_s": [], "skipped": "no time left"}
    out["cases"] = [case("optimizer/muon/125m", "eager", 9e-3), case("optimizer/muon/125m", "graph", 3e-3), case("optimizer/lion/125m", "eager", 1e-3, samples=7),
                    case("optimizer/lion/125m", "graph", 1.0, **skipped), case("data/mapped_iteration", "numpy", 1e-2, component="data", clock="host", flops=0.0)]
    out["telemetry"] = {"gpu": {name: [0.0, 1.0] for name in peer_bundle.TELEMETRY_COLUMNS}}
    return out


class CpuLlama(unittest.TestCase):
    def test_what_cannot_be_started_or_read_is_one_line(self):
        for option, value, why in (("--python", "no-such-python", "with --python"), ("--python", "false", "cannot import numpy and torch"),
                                   ("--mylos", "no-such-mylos", "with --mylos"), ("--config", "none.toml", "No such file"),
                                   ("--config", __file__, "components_test.py: ")):
            given = {"--python": sys.executable, "--mylos": MYLOS} | {option: value}
            done = subprocess.run([sys.executable, ROOT / "benchmarks/peers/cpu_llama.py", *(w for o in given.items() for w in o)],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(why, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_contender_that_fails_ends_it_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            python = pathlib.Path(folder) / "python"  # one that has torch, as far as it is asked
            python.write_text('#!/bin/sh\n[ "$1" = -c ]\n')
            python.chmod(0o755)
            done = subprocess.run([sys.executable, ROOT / "benchmarks/peers/cpu_llama.py", "--python", python, "--mylos", "false"],
                                  capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "cpu_llama: mylos failed with 1: \n"))


class Components(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def convert(self, record):
        components_record.write(record, str(self.folder / "c.json"))
        return peer_bundle.convert(self.folder / "c.json", self.folder, "micro")

    def test_bundles_are_valid_and_hold_every_sample(self):
        record = run()
        written, failures = self.convert(record)
        self.assertEqual(failures, [])
        self.assertEqual({p.name for p in written}, {f"micro.pytorch-{m}.{record['call']}.h5" for m in ("eager", "graph", "numpy", "best")})
        done = subprocess.run([MYLOS, "validate", *written], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        best = Bundle(next(p for p in written if "-best" in p.name))
        self.assertEqual(best.texts("/cases/mode"), ["graph", "eager", "numpy"])
        self.assertEqual(list(best.datasets["/samples/calls/time"][:40]), record["cases"][1]["samples_s"])
        self.assertEqual(best.attribute("/", "system"), "pytorch")

    def test_a_figure_that_its_samples_do_not_give_is_found(self):
        record = run()
        genuine = peer_bench.sample_interval.figures
        self.addCleanup(setattr, peer_bench.sample_interval, "figures", genuine)
        peer_bench.sample_interval.figures = lambda values: genuine(values) | {"median_low": genuine(values)["median_low"] * (1 - 1e-6)}
        written, _ = self.convert(record)
        self.assertNotEqual(subprocess.run([MYLOS, "validate", *written], capture_output=True).returncode, 0)

    def test_wrong_records_are_refused_by_name(self):
        wrong = {
            "version": lambda r: r.update(version=2),
            "hardware": lambda r: r.pop("hardware"),
            "call": lambda r: r.update(call="../x"),
            "system": lambda r: r.update(system="a/b"),
            "created": lambda r: r.update(created="yesterday"),
            "cases": lambda r: r.update(cases=[]),
            "twice": lambda r: r["cases"].append(r["cases"][0]),
            "mode": lambda r: r["cases"][0].update(mode="../eager"),
            "sample 1": lambda r: r["cases"][0]["samples_s"].__setitem__(1, 0.0),
            "sample 2": lambda r: r["cases"][0]["samples_s"].__setitem__(2, "1"),
            "samples_s": lambda r: r["cases"][0].update(samples_s=[]),
            "flops": lambda r: r["cases"][0].update(flops=-1.0),
            "items": lambda r: r["cases"][0].update(item_units=""),
            "rules": lambda r: r.update(rules={}),
        }
        for what, change in wrong.items():
            record = copy.deepcopy(run())
            change(record)
            with self.subTest(what), self.assertRaisesRegex(BundleError, what):
                peer_bench.convert(record, self.folder, "micro")

    def test_a_killed_run_leaves_the_cases_that_were_done(self):
        record = run()
        components_record.write(record, str(self.folder / "c.json"))
        record["cases"].append(case("optimizer/sgd/125m", "eager", 1e-3))
        components_record.write(record, str(self.folder / "c.json"))
        self.assertEqual(len(json.loads((self.folder / "c.json").read_text())["cases"]), 6)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["c.json"])

    def test_a_row_says_rates_or_why_there_are_none(self):
        lines = [components_record.line(c) for c in run()["cases"]]
        self.assertIn("TFLOP/s", lines[0])
        self.assertIn("skipped: no time left", lines[3])


if __name__ == "__main__":
    unittest.main()
