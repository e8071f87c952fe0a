"""Peers' records become bundles that mylos validates, and a campaign's report compares them or says why it cannot."""
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "benchmarks/peers")]
import shape  # noqa: E402
from mylos_report import peer_bundle, sample_interval, steady  # noqa: E402
from mylos_report.bundle import Bundle, BundleError  # noqa: E402

MYLOS = os.environ["MYLOS"]


def record(system="pytorch", step_time=2.0, **changes):
    """What a peer leaves after 12 steps on an H200, the first of which compiled."""
    steps = 12
    times = [30.0] + [step_time + 0.001 * i for i in range(steps - 1)]
    ends = [sum(times[: i + 1]) + 0.5 for i in range(steps)]
    model = shape.preset("7b")
    clock = [0.05 * i for i in range(int(ends[-1] / 0.05) + 2)]
    gpu = {"time": clock, "power": [700.0] * len(clock), "sm_clock": [1500.0] * len(clock), "memory_clock": [3201.0] * len(clock),
           "temperature": [60.0] * len(clock), "throttle_reasons": [4.0] * len(clock), "energy": [1e6 + 700 * t for t in clock]}
    loss = [None] * steps if system == "limit" else [11.0 - 0.1 * i for i in range(steps)]
    r = {
        "format": "mylos-peer", "version": 1, "system": system, "call": "20261201T000000Z-abcd", "created": "2026-12-01T00:00:00Z",
        "status": "finished", "label": f"{system} none", "versions": {"PyTorch": "2.11.0"}, "commit": "unknown", "host": "h",
        "hardware": {"device": "NVIDIA H200", "backend": "Cuda", "is_gpu": True, "device_memory": 150 << 30, "driver": "",
                     "threads": 2, "cpu_cores": 2, "cpu": "x", "host_memory": 1 << 34},
        "command_line": ["gpu_llama.py"], "operating_system": "Linux", "environment": {}, "model": model, "sequence": 4096,
        "parameters": shape.parameter_counts(model)[0], "flops_per_token": shape.flops_per_token(model, 4096), "devices": 1,
        "recompute": "none", "batch": 4, "accumulation": 2, "tokens_per_step": 32768, "deterministic": False, "mode": "compiled",
        "compile": "blocks", "state": {"weights": "bf16", "gradients": "bf16", "master": "none", "moments": "bf16"},
        "peak_memory": 100 << 30, "telemetry": {"gpu": gpu}, "clock": "device",
        "steps": {"step": list(range(1, steps + 1)), "loss": loss, "grad_norm": loss, "learning_rate": [3e-4] * steps,
                  "step_time": times, "time": ends},
    }
    return r | changes


class Campaign(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, *arguments, **named):
        path = self.folder / f"{name}.h5"
        peer_bundle.write(record(*arguments, **named), path)
        return path

    def report(self, *more):
        done = subprocess.run([sys.executable, ROOT / "tools/report", self.folder, *more], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_a_peers_bundle_is_valid_and_has_its_numbers(self):
        for system in ("pytorch", "limit"):
            path = self.write(system, system)
            done = subprocess.run([MYLOS, "validate", path], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(subprocess.run([MYLOS, "inspect", path], capture_output=True).returncode, 0)
        bundle = Bundle(self.folder / "pytorch.h5")
        rate = bundle.number("/summary/tokens_per_s_median")
        self.assertAlmostEqual(rate, 32768 / 2.006, delta=1)
        self.assertEqual(bundle.number("/summary/steady_window_first"), 3)
        mean = bundle.number("/summary/tokens_per_s")
        self.assertAlmostEqual(bundle.number("/derived/mfu_causal"), 48249176064 * mean / 989.4e12, places=9)
        self.assertAlmostEqual(bundle.number("/derived/energy_per_token"), 700 / mean, delta=1e-4)
        self.assertTrue(math.isnan(Bundle(self.folder / "limit.h5").datasets["/samples/steps/loss"][0]))
        self.assertEqual(bundle.attribute("/provenance", "call"), "20261201T000000Z-abcd")

    def test_a_last_step_that_the_host_cut_short_does_not_count(self):
        r = record()
        late = {**r["steps"], "step_time": [*r["steps"]["step_time"][:-1], 0.01]}
        self.write("late", steps=late, clock="host")
        bundle = Bundle(self.folder / "late.h5")
        self.assertEqual(bundle.number("/summary/steady_window_end"), 11)
        self.assertAlmostEqual(bundle.number("/summary/tokens_per_s"), 32768 / 2.0055, delta=1)
        self.assertEqual(len(bundle.table("/samples/steps")["loss"]), 12)

    def test_validate_finds_damage_in_a_peers_bundle(self):
        import h5py

        path = self.write("row")
        with h5py.File(path, "r+") as file:
            file["samples/steps/loss"][3] = 1.0
            del file.attrs["system"]
        done = subprocess.run([MYLOS, "validate", path], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("SHA-256", done.stdout + done.stderr)
        self.assertIn("/:system", done.stdout + done.stderr)

    def test_rows_are_compared_within_their_call(self):
        self.write("limit", "limit", 1.5)
        self.write("fast", "pytorch", 2.0)
        self.write("slow", "pytorch", 3.0)
        self.write("other", "pytorch", 2.5, call="20261202T000000Z-ffff")
        status, text, errors = self.report("--json")
        self.assertEqual((status, errors), (0, ""))
        rows = {r["name"]: r for r in json.loads(text)["rows"]}
        self.assertAlmostEqual(rows["fast"]["ratio_limit"], 0.75, delta=0.002)
        self.assertAlmostEqual(rows["slow"]["ratio_pytorch"], 2 / 3, delta=0.002)
        self.assertIsNone(rows["other"]["ratio_limit"])
        self.assertEqual(rows["fast"]["sm_clock"], 1500)
        status, text, _ = self.report()
        self.assertEqual(status, 0)
        self.assertIn("bf16/bf16/none/bf16", text)
        self.assertGreater((self.folder / "share_of_limit.png").stat().st_size, 5000)

    def test_a_file_that_does_not_count_is_named_and_the_rest_is_shown(self):
        import h5py

        self.write("good")
        for name, harm in (("damaged", lambda f: f["samples/steps/loss"].write_direct(f["samples/steps/step"][...])),
                           ("incomplete", lambda f: f.attrs.modify("complete", 0)),
                           ("lacking", lambda f: f["summary"].pop("device_memory_peak"))):
            with h5py.File(self.write(name), "r+") as file:
                harm(file)
        (self.folder / "text.h5").write_text("not HDF5")
        status, text, errors = self.report()
        self.assertEqual(status, 1)
        self.assertIn("good.h5", text)
        for name, why in (("damaged", "SHA-256"), ("incomplete", "not complete"), ("lacking", "device_memory_peak"), ("text", "cannot be read")):
            line = next((line for line in errors.splitlines() if f"{name}.h5" in line), "")
            self.assertIn(why, line, errors)

    def test_an_empty_folder_is_no_success(self):
        status, text, _ = self.report()
        self.assertEqual(status, 1)
        self.assertIn("no bundle", text)

    def test_records_that_cannot_be_converted_say_why(self):
        path = self.folder / "row.json"
        bad = record()
        del bad["model"]
        early = {key: value for key, value in record(status="failed: out of memory", label="x").items() if key not in ("compile", "steps")}
        path.write_text("\n".join(json.dumps(r) for r in (record(), early, bad)))
        written, failures = peer_bundle.convert(path, self.folder, "row")
        self.assertEqual([p.name for p in written], ["row.pytorch-none.20261201T000000Z-abcd.h5"])
        self.assertIn("out of memory", failures[0])
        self.assertIn("'model'", failures[1])
        path.write_text("{")
        with self.assertRaisesRegex(BundleError, "line 1"):
            peer_bundle.read_records(path)

    def test_impossible_records_are_refused(self):
        steps = record()["steps"]
        for why, change in (
            ("devices", {"devices": 0}), ("tokens_per_step", {"tokens_per_step": 0}), ("tokens_per_step", {"tokens_per_step": True}),
            ("step_time of row 1", {"steps": {**steps, "step_time": [1.0, 0.0, *steps["step_time"][2:]]}}),
            ("step_time of row 2", {"steps": {**steps, "step_time": [1.0, 1.0, None, *steps["step_time"][3:]]}}),
            ("flops_per_token.palm", {"flops_per_token": {"causal": 1.0, "palm": math.inf, "total": 1.0}}),
            ("flops_per_token.causal", {"flops_per_token": {"causal": 0, "palm": 1, "total": 1}}), ("flops_per_token", {"flops_per_token": 1e18}),
            ("created", {"created": "yesterday"}), ("created", {"created": "2026-13-01T00:00:00Z"}), ("model.dim", {"model": {"dim": [1]}}),
            ("model is", {"model": {"a b": 1}}), ("parameters", {"parameters": 1e30}), ("label", {"label": "x" * 121}), ("call", {"call": "x" * 65}),
        ):  # fmt: skip
            with self.subTest(why), self.assertRaisesRegex(BundleError, why):
                peer_bundle.write(record(**change), self.folder / "row.h5")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_hostile_files_stop_no_other(self):
        good = record()
        bad = {"telemetry": {"telemetry": 5}, "model": {"model": 5}, "line": {"command_line": ["a", None]}, "parameters": {"parameters": 1e30},
               "label": {"label": "x" * 300}, "path": {"call": "../../evil"}, "seven": {"call": 7}, "gpu": {"telemetry": {"gpu": 5}},
               "text": {"host": "\ud800"}, "nul": {"host": "a\0b"}, "steps": {"steps": {"step_time": [1.0]}}}  # fmt: skip
        inside = self.folder / "out"
        inside.mkdir()
        for name, change in bad.items():
            (inside / f"{name}.json").write_text(json.dumps(good | change))
        (inside / "bytes.json").write_bytes(b"\xff\xfe{}")
        (inside / "deep.json").write_text("[" * 100000)
        os.mkfifo(inside / "pipe.json")
        (inside / "zgood.json").write_text(json.dumps(good))
        done = subprocess.run([sys.executable, ROOT / "tools/device", "bundle", inside], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        lines = done.stderr.splitlines()
        self.assertEqual(sorted(line.split(":")[0] for line in lines), sorted(f"{n}.json" for n in (*bad, "bytes", "deep", "pipe")), done.stderr)
        self.assertEqual([p.name for p in self.folder.rglob("*.h5*")], ["zgood.pytorch-none.20261201T000000Z-abcd.h5"])

    def test_a_policy_in_every_block_counts_as_all(self):
        import h5py

        self.write("limit", "limit", 1.0, recompute="full")
        layers = record()["model"]["layers"]
        for name, blocks in (("all", layers), ("some", layers - 1)):
            text = json.dumps({"execution": {"recompute": "full", "recompute_blocks": blocks}}).encode()
            with h5py.File(self.write(name, "mylos", recompute="full"), "r+") as file:
                item = file.create_dataset("plan/json", data=text, dtype=f"S{len(text)}")
                item.attrs["sha256"] = hashlib.sha256(text).hexdigest()
        rows = {r["name"]: r for r in json.loads(self.report("--json")[1])["rows"]}
        self.assertEqual((rows["all"]["recompute_blocks"], rows["some"]["recompute_blocks"]), (0, layers - 1))
        self.assertAlmostEqual(rows["all"]["ratio_limit_same"], 0.5, delta=0.002)
        self.assertIsNone(rows["some"]["ratio_limit_same"])

    def test_a_bundle_of_one_step_is_named_and_no_row(self):
        self.write("good")
        self.write("start", steps={name: values[:1] for name, values in record()["steps"].items()})
        status, text, errors = self.report()
        self.assertEqual(status, 0, errors)
        self.assertNotIn("start.h5", text)
        self.assertIn("start.h5': one step: not a row", errors)

    def test_a_report_of_one_bundle_says_what_it_needs(self):
        def report(*arguments):
            done = subprocess.run([sys.executable, ROOT / "tools/report", *arguments], capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            return done.stderr

        path = self.write("good")
        self.assertIn("--json is for folders", report(path, "--json"))
        (self.folder / "file").write_text("")
        self.assertIn("file", report(self.folder, "--out", self.folder / "file"))
        config = self.folder / "small.toml"
        config.write_text(
            "[model]\ndim = 32\nlayers = 1\nheads = 2\nvocab = 64\nmax_seq_len = 16\n[train]\nsteps = 2\nbatch = 2\nsequence = 16\n"
            f'[data]\ntrain = ["{self.folder}/tokens.bin"]\ndtype = "u32"\n[output]\nsave_weights = false\nbundle = "{self.folder}/plain"\n'
        )
        (self.folder / "tokens.bin").write_bytes(bytes(4000))
        done = subprocess.run([MYLOS, "train", config], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("--out", report(self.folder / "plain"))

    def test_the_median_has_an_interval_around_it(self):
        values = [100.0 + i % 7 for i in range(40)]
        median, low, high = sample_interval.bootstrap(values)
        self.assertTrue(100 <= low <= median <= high <= 106)
        self.assertEqual(sample_interval.bootstrap(values), (median, low, high))
        self.assertEqual(sample_interval.figures([1.0 + i for i in range(40)])["median_low"], 0)  # they drift, and are times
        self.assertEqual(steady.window(12), (3, 12, True))
        self.assertEqual(steady.window(4), (0, 4, True))


if __name__ == "__main__":
    unittest.main()
