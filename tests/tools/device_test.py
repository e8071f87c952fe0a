"""tools/device: a small plan is measured from a build folder and from a pack, and what fails is kept with its reason."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from mylos_device import plan  # noqa: E402

MYLOS, BUILD = os.environ["MYLOS"], os.environ["MYLOS_BUILD"]
CONFIG = """
[model]
dim = 32
layers = 1
heads = 2
vocab = 64
max_seq_len = 16
[train]
steps = 6
batch = 2
sequence = 16
[data]
dtype = "u32"
[output]
save_weights = false
"""
PLAN = """
limit_s = 60
[tokens.small]
vocab = 64
count = 2000
order = "chain"
[[row]]
name = "fine"
config = "{config}"
set = ['data.train=["{{tokens.small}}"]', "output.save_weights=true"]
[[row]]
name = "unknown-key"
config = "{config}"
set = ['data.train=["{{tokens.small}}"]', "train.stepz=1"]
[[row]]
name = "endless"
config = "{config}"
set = ['data.train=["{{tokens.small}}"]', "train.steps=1000000000"]
limit_s = 3
[[row]]
name = "from-weights"
peer = "no_such_peer"
arguments = ["--weights", "{{weights.fine}}"]
"""


class Device(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "small.toml").write_text(CONFIG)
        (self.folder / "plan.toml").write_text(PLAN.format(config=self.folder / "small.toml"))

    def bench(self, *arguments, device=ROOT / "tools/device"):
        out = self.folder / "out"
        done = subprocess.run([sys.executable, device, "bench", *arguments, "--plan", self.folder / "plan.toml", "--out", out],
                              capture_output=True, text=True)
        rows = [json.loads(p.read_text()) for p in out.glob("*.rows.json")]
        return done, {r["row"]: r for r in rows[0]} if rows else {}

    def test_failures_are_kept_and_stop_nothing(self):
        done, rows = self.bench("--build", BUILD)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual({n: r["status"] for n, r in rows.items()},
                         {"fine": "ok", "unknown-key": "failed", "endless": "failed", "from-weights": "failed"}, done.stdout)
        self.assertIn("stepz", rows["unknown-key"]["reason"])
        self.assertIn("longer than 3 s", rows["endless"]["reason"])
        call = rows["fine"]["call"]
        self.assertIn(f"fine.{call}.weights.h5", " ".join(rows["from-weights"]["command"]))
        bundle = self.folder / f"out/fine.{call}.h5"
        self.assertEqual(subprocess.run([MYLOS, "validate", bundle], capture_output=True).returncode, 0)
        self.assertRegex(done.stdout, r"fine, mylos none 2x1 +[\d,]+")
        self.assertIn("1 rows measured, 3 not", done.stdout)

    def test_from_a_pack_one_row(self):
        pack = self.folder / "pack"
        done = subprocess.run([sys.executable, ROOT / "tools/device", "pack", BUILD, pack, "--only", "^none$"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("bin/mylos", "source/configs/model/7b.toml", "source/benchmarks/peers/gpu_llama.py", "source/tools/report",
                     "source/campaigns/mfu_scaling/campaign.toml"):
            self.assertTrue((pack / part).is_file(), part)
        done, rows = self.bench(pack, "--only", "fine", device=pack / "source/tools/device")
        self.assertEqual((done.returncode, list(rows)), (0, ["fine"]), done.stdout + done.stderr)

    def test_a_spent_budget_skips_rows(self):
        done, rows = self.bench("--build", BUILD, "--budget", "0.01")
        self.assertEqual({r["status"] for r in rows.values()}, {"skipped"}, done.stdout)
        self.assertEqual(done.returncode, 1)

    def test_a_wrong_plan_is_one_line(self):
        for harm, why in (("[[row]]\nname = 'fine'\nconfig = 'x'\n", "two rows"), ("[[row]]\nname = 'a b'\npeer = 'x'\n", "name is 'a b'"),
                          ("[[row]]\nname = 'c'\n", "either config"), ("[[row]]\nname = 'c'\npeer = 'x'\nlimits = 1\n", "'limits'"),
                          ("[[row]]\nname = 'c'\npeer = 'x'\narguments = ['{tokens.no}']\n", "tokens.no"), ("= 3\n", "plan.toml")):
            with self.subTest(why):
                (self.folder / "plan.toml").write_text(PLAN.format(config="x") + harm)
                done, _ = self.bench("--build", BUILD)
                self.assertEqual(done.returncode, 2)
                self.assertIn(why, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_the_campaigns_plan_is_sound(self):
        for path in sorted(ROOT.glob("campaigns/*/campaign.toml")):
            for row in plan.load(path).rows:
                file = ROOT / row.config if row.config else ROOT / f"benchmarks/peers/{row.peer}.py"
                self.assertTrue(file.is_file(), f"{path}: row {row.name}: {file}")
            chosen = plan.load(path, "parity-pytorch$").rows
            self.assertEqual([r.name for r in chosen], ["parity-start", "parity-pytorch"])


if __name__ == "__main__":
    unittest.main()
