"""`report --check` computes every number of a bundle anew from its raw samples: a sum, a sample or a plan that was altered, checksum and all, is named."""
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from mylos_campaign import folder  # noqa: E402
from mylos_report import bench_figures, kernel_figures, recompute, rows, steady  # noqa: E402
from mylos_report.bundle import Bundle  # noqa: E402

TRAIN = "packing/results/plain-2048.*.h5"
PEER = "mfu_scaling/results/pytorch-7b-full.pytorch-compiled-full*.h5"
BENCH = "micro/results/attention.*.h5"
PROFILE = "profiling/results/125m.*.profile.h5"


def alter(path, name, change):
    """A dataset's values changed, and its checksum with them."""
    with h5py.File(path, "r+") as file:
        item = file[name]
        values = np.asarray(change(item[()]), item.dtype)
        item[...] = values
        item.attrs["sha256"] = hashlib.sha256(values.tobytes()).hexdigest()


def row(index, value):
    def change(values):
        values = values.copy()
        values[index] = value(values[index]) if callable(value) else value
        return values

    return change


def text(before, after):
    def change(value):
        assert before in value
        return value.replace(before, after)

    return change


class Recompute(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def copy(self, pattern):
        source = next((ROOT / "campaigns").glob(pattern))
        return pathlib.Path(shutil.copy(source, self.place / source.name))

    def holds(self, pattern, cases):
        for name, change, why in cases:
            with self.subTest(f"{pattern}: {name}, {why}"):
                path = self.copy(pattern)
                self.assertEqual(recompute.disagreements(Bundle(path)), [])
                alter(path, name, change)
                self.assertIn(why, "\n".join(recompute.disagreements(Bundle(path))))

    def test_kept_bundles_say_what_their_samples_give(self):
        for path in sorted((ROOT / "campaigns").glob("*/results/*.h5")):
            self.assertEqual(recompute.disagreements(Bundle(path)), [])

    def test_sums_of_a_run(self):
        names = ("tokens_per_s", "tokens_per_s_median", "tokens_per_s_median_low", "train_loss_last", "train_loss_last_10_mean", "data_wait_fraction",
                 "power_mean", "sm_clock_median", "power_capped_share", "tokens", "steps")  # fmt: skip
        cases = [(f"summary/{name}", lambda v: 1.001 * v, f"{name} is") for name in names]
        cases += [(f"derived/{name}", lambda v: 1.001 * v, f"{name} is")
                  for name in ("mfu_causal", "mfu_palm", "mfu_total", "sol", "energy_per_token", "model_flops_per_token_causal", "model_flop_rate_total")]  # fmt: skip
        cases += [("summary/steady_window_first", lambda v: v + 1, "steady_window_first is"), ("summary/device_memory_peak", lambda v: 2 * v, "device_memory_peak"),
                  ("summary/device_memory_peak", lambda v: 0 * v, "above 0")]  # fmt: skip
        self.holds(TRAIN, cases)

    def test_samples_of_a_run(self):
        steps = "samples/steps/"
        cases = [(steps + "step_time", row(70, value), "above 0") for value in (0.0, -1.0, np.inf, np.nan)]
        cases += [(steps + "tokens", row(70, value), "has tokens") for value in (0.0, -1.0, np.inf, np.nan)]
        cases += [(steps + "tokens", row(70, 4096.0), "batch, accumulation and sequence give 8192"), (steps + "loss", row(-1, 1.0), "train_loss_last is"),
                  (steps + "tokens_per_s", row(70, lambda v: 1.1 * v), "tokens over step_time"), (steps + "step_time", row(70, lambda v: 0.9 * v), "tokens over"),
                  (steps + "data_wait", row(70, -1.0), "0 or more"), (steps + "time", row(70, lambda v: v - 0.1), "it ends before"),
                  (steps + "step", row(70, 1.0), "each step"), (steps + "valid_tokens", row(0, 1e9), "among the step's"),
                  ("telemetry/gpu/energy", row(1, lambda v: v + 100), "energy_per_token is"), ("telemetry/gpu/sm_clock", row(1, 1000.0), "sm_clock_median is")]  # fmt: skip
        self.holds(TRAIN, cases)

    def test_a_plan_follows_from_its_configuration(self):
        cases = [("plan/json", text(b'"total": 134105856', b'"total": 134105857'), "parameters.total"), ("plan/json", text(b'"layers": 12', b'"layers": 11'), "model.layers"),
                 ("plan/json", text(b"770310144.0", b"770310145.0"), "flops_per_token.causal"), ("plan/json", text(b'"recompute": "none"', b'"recompute": "full"'), "execution.recompute"),
                 ("plan/memory/bytes", row(0, lambda v: v + 1), "memory_bytes.activations"), ("plan/flop_ledger/flops", row(2, lambda v: 2 * v), "flops of products"),
                 ("config/toml", text(b"layers = 12", b"layers = 13"), "model_flops_per_token_causal is")]  # fmt: skip
        self.holds(TRAIN, cases)

    def test_a_run_without_its_window_is_refused(self):
        for name in ("summary/steady_window_end", "summary/tokens_per_s", "derived/mfu_palm", "samples/steps/step_time"):
            path = self.copy(TRAIN)
            with h5py.File(path, "r+") as file:
                del file[name]
            self.assertIn(name.split("/")[-1], "\n".join(recompute.disagreements(Bundle(path))))

    def test_numbers_of_peers(self):
        self.holds(PEER, [(f"summary/{name}", lambda v: 1.01 * v, f"{name} is") for name in ("tokens_per_s", "tokens_per_s_median", "train_loss_last")] +
                   [("derived/mfu_causal", lambda v: 1.001 * v, "mfu_causal is"), ("samples/steps/step_time", row(5, -1.0), "above 0")])  # fmt: skip

    def test_numbers_of_benchmarks(self):
        columns = ("median", "mad", "median_low", "median_high", "flop_rate", "item_rate", "roofline", "share", "samples")
        cases = [(f"derived/cases/{name}", row(0, lambda v: 2.0 if np.isnan(v) else 1.001 * v), f"cases/{name}, row 0") for name in columns]
        cases += [("samples/calls/time", row(0, lambda v: 0.5 * v), "row 0"), ("samples/calls/time", row(0, -1.0), "above 0"), ("samples/calls/rejected", row(0, 2.0), "rejected"),
                  ("cases/flops", row(0, lambda v: 2 * v), "row 0"), ("samples/calls/case", row(0, 999.0), "a case that is not there")]  # fmt: skip
        self.holds(BENCH, cases)
        path = self.copy(BENCH)
        median = bench_figures.cases(Bundle(path))[0]["median"]
        alter(path, "derived/cases/median", row(0, lambda v: 9 * v))
        self.assertEqual(bench_figures.cases(Bundle(path))[0]["median"], median)

    def test_numbers_of_profiles(self):
        cases = [(f"derived/categories/{name}", row(0, lambda v: 1.1 * v), f"categories/{name}, row 0") for name in ("calls", "time", "exposed")]
        cases += [(f"summary/{name}", lambda v: 1.1 * v + 1e-3, f"{name} is") for name in ("step_time", "idle", "outside_regions")]
        cases += [("derived/kernels/exposed", row(0, lambda v: 1.1 * v), "kernels/exposed, row 0"), ("samples/kernels/end", row(0, lambda v: v + 1e-3), "records give"),
                  ("samples/steps/step_time", row(0, lambda v: 2 * v), "step_time is not")]  # fmt: skip
        self.holds(PROFILE, cases)
        path = self.copy(PROFILE)
        step = kernel_figures.figures(Bundle(path))[2]["step_time"]
        alter(path, "summary/step_time", lambda v: 2 * v)
        self.assertEqual(kernel_figures.figures(Bundle(path))[2]["step_time"], step)

    def test_peaks_are_those_of_the_program(self):
        text = (ROOT / "src/measure/mfu.cpp").read_text()
        found = re.findall(r'\{\{("[^}]*)\},\s*\{"[^"]*", ([\d.e]+), [\d.e]+, ([\d.e]+),[^"]*"([^"]*)"', text)
        rows = [(tuple(re.findall(r'"([^"]*)"', words)), float(bf16), float(tf32), source) for words, bf16, tf32, source in found]
        self.assertEqual(rows, list(steady.PEAKS))

    def test_rows_are_of_samples_and_not_of_sums(self):
        path = self.copy(TRAIN)
        before = rows.row_of(path)
        for name in ("summary/tokens_per_s_median", "summary/tokens_per_s", "derived/mfu_causal", "derived/energy_per_token", "summary/data_wait_fraction"):
            alter(path, name, lambda v: 1.5 * v)
        self.assertEqual(rows.row_of(path), before)

    def test_check_refuses_a_campaign_with_altered_samples(self):
        for campaign, pattern, name, change in (("packing", "plain-2048.*.h5", "summary/power_mean", lambda v: 0.9 * v),
                                                ("micro", "attention.*.h5", "samples/calls/time", lambda v: 0.5 * v)):  # fmt: skip
            shutil.copytree(ROOT / "campaigns" / campaign, self.place / campaign)
            bundle = next((self.place / campaign / "results").glob(pattern))
            alter(bundle, name, change)
            done = subprocess.run([sys.executable, self.place / campaign / "report.py", "--check"], env=folder.environment(), capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(bundle.name, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
