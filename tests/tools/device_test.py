"""tools/device: a small plan is measured from a build folder and from a pack, and what fails is kept with its reason."""
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from mylos_device import plan, tokens as token_files  # noqa: E402
from small_model import SMALL  # noqa: E402

MYLOS, BUILD = os.environ["MYLOS"], os.environ["MYLOS_BUILD"]
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
peer = "cpu_llama"
arguments = ["--weights", "{{weights.fine}}"]
"""


class Device(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "small.toml").write_text(SMALL)
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
                     "source/campaigns/mfu_scaling/campaign.toml", "source/tools/campaign", "source/campaigns/mfu_scaling/report.py"):
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
                          ("[[row]]\nname = 'c'\npeer = 'cpu_llama'\narguments = ['{tokens.no}']\n", "tokens.no"), ("= 3\n", "plan.toml")):
            with self.subTest(why):
                (self.folder / "plan.toml").write_text(PLAN.format(config="x") + harm)
                done, _ = self.bench("--build", BUILD)
                self.assertEqual(done.returncode, 2)
                self.assertIn(why, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_wrong_types_in_a_plan_are_one_line(self):
        row = "[[row]]\nname = 'c'\nconfig = 'x'\n"
        peer = "[[row]]\nname = 'c'\npeer = {}\n"
        cases = (
            ("[[row]]\nname = 5\n", "name is 5"), (row + "limit_s = 'x'", "limit_s = 'x'"), (row + "limit_s = true", "limit_s = True"),
            (row + "limit_s = inf", "limit_s = inf"), ("limit_s = nan\n" + row, "the plan has limit_s"), (row + "set = [1]", "set = [1]"),
            (row + "set = 'text'", "set = 'text'"), ("[row]\nname = 'c'\n", "[[row]]"), ("tokens = 'x'\n" + row, "[tokens.NAME]"),
            ("tokens.x = 3\n" + row, "[tokens.NAME]"), (b"# \xff\n", "plan.toml"), ("rows = 1\n" + row, "'rows'"),
            ("[[row]]\nname = 'c'\nconfig = ''\n", "config = ''"), (peer.format("''"), "peer = ''"),
            (peer.format("'../x'"), "peer = '../x'"), (peer.format("'absent'"), "benchmarks/peers/absent.py"),
            (peer.format("'cpu_llama'") + "arguments = {}", "arguments = {}"),
        )  # fmt: skip
        for text, why in cases:
            with self.subTest(why):
                (self.folder / "plan.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
                with self.assertRaises(plan.PlanError) as raised:
                    plan.load(self.folder / "plan.toml")
                self.assertIn(why, str(raised.exception))
                self.assertEqual(len(str(raised.exception).splitlines()), 1)

    def test_tokens_have_the_documents_that_are_asked_for(self):
        import numpy as np

        def tokens(**about):
            token_files.write_tokens(self.folder / "t.bin", **({"vocab": 100, "count": 10_000, "order": "uniform", "seed": 1} | about))
            return np.fromfile(self.folder / "t.bin", np.uint32)

        self.assertEqual(tokens().max(), 99)
        for order in ("uniform", "chain"):
            equal = tokens(order=order, document=64)
            self.assertEqual(len(equal), 10_000)
            self.assertTrue(((equal == 99) == (np.arange(10_000) % 64 == 63)).all())
        mixed = tokens(document=64, lengths="lognormal")
        lengths = np.diff(np.flatnonzero(mixed == 99))
        self.assertGreater(len(set(lengths.tolist())), 20)
        self.assertTrue(40 < lengths.mean() < 95, lengths.mean())
        self.assertTrue((mixed == tokens(document=64, lengths="lognormal")).all())

    def test_wrong_documents_of_tokens_are_one_line(self):
        for text in ("document = -1", "document = 1.5", "document = 8\norder = 'text'", "document = 8\nlengths = 'x'", "lengths = 'equal'"):
            with self.subTest(text):
                plan_text = f"[tokens.x]\nvocab = 9\ncount = 9\n{text}\n[[row]]\nname = 'c'\nconfig = 'x'\n"
                (self.folder / "plan.toml").write_text(plan_text)
                with self.assertRaisesRegex(plan.PlanError, "tokens 'x'"):
                    plan.load(self.folder / "plan.toml")

    def test_wrong_options_are_one_line(self):
        (self.folder / "file").write_text("")
        for options, why in ((["--only", "["], "regular expression"), (["--budget", "nan"], "budget"), (["--budget", "-1"], "budget"),
                             (["--out", self.folder / "file"], "folder of results")):
            with self.subTest(why):
                command = [sys.executable, ROOT / "tools/device", "bench", "--build", BUILD, "--plan", self.folder / "plan.toml"]
                done = subprocess.run([*command, "--out", self.folder / "out", *options], capture_output=True, text=True)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)
                self.assertIn(why, done.stderr)

    def test_a_row_that_cannot_begin_stops_nothing(self):
        empty = "[tokens.much]\nvocab = 2\ncount = 1000\norder = 'text'\n[[row]]"
        text = PLAN.format(config=self.folder / "small.toml").replace("[[row]]", empty, 1)
        text = text.replace('name = "fine"', 'name = "much"\nconfig = "x"\nset = ["{tokens.much}"]\n[[row]]\nname = "fine"', 1)
        (self.folder / "plan.toml").write_text(text)
        _, rows = self.bench("--build", BUILD, "--only", "much|fine")
        self.assertEqual({n: r["status"] for n, r in rows.items()}, {"much": "failed", "fine": "ok"})
        self.assertIn("tokens of text cannot be made", rows["much"]["reason"])

    def test_an_interrupt_ends_the_row_and_keeps_the_rest(self):
        text = PLAN.format(config=self.folder / "small.toml").replace("limit_s = 3\n", "")
        (self.folder / "plan.toml").write_text(text)
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(kind.name):
                out = self.folder / kind.name
                command = [sys.executable, ROOT / "tools/device", "bench", "--build", BUILD, "--plan", self.folder / "plan.toml"]
                command += ["--out", out, "--only", "fine|endless|from-weights"]
                # Under nohup, SIGHUP would be ignored in what it starts, too.
                usual = functools.partial(signal.signal, kind, signal.SIG_DFL)
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=usual)
                until = time.monotonic() + 60
                while not any(log.stat().st_size for log in out.glob("logs/endless.*")) and time.monotonic() < until:
                    time.sleep(0.1)
                process.send_signal(kind)
                text, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, text + errors)
                self.assertNotIn("Traceback", errors)
                rows = {r["row"]: r for p in out.glob("*.rows.json") for r in json.loads(p.read_text())}
                self.assertEqual({n: r["status"] for n, r in rows.items()}, {"fine": "ok", "endless": "skipped", "from-weights": "skipped"})
                self.assertEqual(rows["endless"]["reason"], "interrupted while it ran")
                self.assertRegex(text, r"fine, mylos none 2x1 +[\d,]+")
                lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
                self.assertFalse([line for line in lines if str(out).encode() in line and b"train" in line])

    def test_peers_keep_the_python_that_ran_the_script(self):
        python = self.folder / "python"  # outside of .venv, so the script goes on in the one there
        python.symlink_to(pathlib.Path(sys.executable).resolve())
        (self.folder / "plan.toml").write_text("[[row]]\nname = 'peer'\npeer = 'cpu_llama'\narguments = ['--no-such-option']\n")
        command = [python, ROOT / "tools/device", "bench", "--build", BUILD, "--plan", self.folder / "plan.toml"]
        done = subprocess.run([*command, "--out", self.folder / "out"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = [json.loads(p.read_text()) for p in (self.folder / "out").glob("*.rows.json")][0]
        self.assertEqual(rows[0]["command"][0], str(python))

    def test_bundle_needs_a_folder(self):
        done = subprocess.run([sys.executable, ROOT / "tools/device", "bundle", self.folder / "absent"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no folder", done.stderr)

    def test_the_campaigns_plan_is_sound(self):
        for path in sorted(ROOT.glob("campaigns/*/campaign.toml")):
            for row in plan.load(path).rows:
                places = (path.parent / row.config, ROOT / row.config) if row.config else (ROOT / f"benchmarks/peers/{row.peer}.py",)
                self.assertTrue(row.bench or any(file.is_file() for file in places), f"{path}: row {row.name}: {places}")
        chosen = plan.load(ROOT / "campaigns/mfu_scaling/campaign.toml", "parity-pytorch$").rows
        self.assertEqual([r.name for r in chosen], ["parity-start", "parity-pytorch"])


if __name__ == "__main__":
    unittest.main()
