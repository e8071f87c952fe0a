"""tools/campaign: every campaign keeps the convention, its pages are what its bundles say, and a run goes on where the last one ended."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from mylos_campaign import convention, folder, machine  # noqa: E402
from mylos_device import plan, sweep  # noqa: E402
from mylos_device.bench import Place  # noqa: E402
from mylos_device.errors import PlanError  # noqa: E402
from mylos_report import plots, quoted, readme  # noqa: E402
from campaign_command import MYLOS, campaign  # noqa: E402
from small_model import SMALL  # noqa: E402

ROWS = """title = "a test"
gpus = 0
limit_s = 60
[scale.two]
rows = "^(fine|wrong)"
budget_s = 50
[tokens.small]
vocab = 64
count = 2000
[[row]]
name = "fine"
config = "small.toml"
set = ['data.train=["{tokens.small}"]']
[[row]]
name = "wrong"
config = "small.toml"
set = ["train.stepz=1"]
[[row]]
name = "large"
config = "small.toml"
set = ["model.dim=8192", "model.heads=64", "model.layers=400", 'data.train=["{tokens.small}"]']
[[row]]
name = "many"
config = "small.toml"
gpus = 8
nodes = 2
[[row]]
name = "mine"
config = "small.toml"
set = ['data.train=["{data}"]']
"""


class Tree(unittest.TestCase):
    """The campaigns that are in the tree."""

    def test_every_campaign_keeps_the_convention(self):
        found = folder.campaigns()
        self.assertGreaterEqual(len(found), 5)
        for path in found:
            self.assertEqual(convention.problems(path), [])

    def test_every_number_is_what_the_bundles_say(self):
        status, text, errors = campaign("report", "--check")
        self.assertEqual((status, errors), (0, ""), text)

    def test_kept_bundles_are_valid(self):
        kept = sorted(ROOT.glob("campaigns/*/results/*.h5"))
        done = subprocess.run([MYLOS, "validate", *kept], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-2000:])


class Folder(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)

    def make(self, name="mine"):
        status, text, errors = campaign("new", self.place / name)
        self.assertEqual(status, 0, errors)
        return self.place / name

    def test_tables_come_back_byte_for_byte_and_a_changed_number_is_found(self):
        shutil.copytree(ROOT / "campaigns/packing", self.place / "packing")
        path, script = self.place / "packing/README.md", self.place / "packing/report.py"
        before = path.read_bytes()

        def report(*more):
            return subprocess.run([sys.executable, script, *more], env=folder.environment(), capture_output=True, text=True)

        path.write_text(readme.filled(before.decode(), {name: "" for name in readme.names(before.decode())}))
        self.assertEqual(report("--check").returncode, 1)
        self.assertEqual(report().returncode, 0)
        self.assertEqual(path.read_bytes(), before)
        number = re.search(rb"\d{3},\d{3}", before).group()
        path.write_bytes(before.replace(number, b"999,999", 1))
        done = report("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("999,999", done.stderr)

    def test_neither_a_damaged_bundle_nor_a_lost_place_takes_numbers_away(self):
        shutil.copytree(ROOT / "campaigns/packing", self.place / "packing")
        path, script = self.place / "packing/README.md", self.place / "packing/report.py"
        before = path.read_bytes()

        def report(*more):
            return subprocess.run([sys.executable, script, *more], env=folder.environment(), capture_output=True, text=True)

        bundle = next((self.place / "packing/results").glob("*.h5"))
        whole = bundle.read_bytes()
        bundle.write_bytes(whole[: len(whole) // 2])
        done = report()
        self.assertEqual(done.returncode, 1)
        self.assertIn(bundle.name, done.stderr)
        self.assertEqual(path.read_bytes(), before)
        bundle.write_bytes(whole)
        part = readme.names(before.decode())[1]
        start = before.index(b"<!-- mylos:table " + part.encode())
        end = before.index(readme.END.encode(), start) + len(readme.END)
        path.write_bytes(before[:start] + before[end:])
        for more in ((), ("--check",)):
            done = report(*more)
            self.assertEqual(done.returncode, 1, more)
            self.assertIn(f"no place for the part '{part}'", done.stderr)

    def test_a_new_campaign_keeps_the_convention_and_reports(self):
        made = self.make()
        self.assertEqual(convention.problems(made), [])
        done = subprocess.run([made / "mine.sh", "--scale", "cpu-smoke", "--only", "none", "--out", self.place / "out", "--keep"], cwd="/",
                              env=folder.environment() | {"MYLOS": MYLOS}, capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("small-none", (self.place / "out/report.md").read_text())
        self.assertEqual(len(list((made / "results").glob("*.h5"))), 1)
        self.assertNotIn(str(self.place), next((made / "results").glob("*.rows.json")).read_text())
        first = {path.name for path in (made / "results").iterdir()}
        shutil.rmtree(made / "results")
        done = subprocess.run([made / "mine.sh", "--scale", "cpu-smoke", "--only", "none", "--out", self.place / "out", "--keep", "--again"], cwd="/",
                              env=folder.environment() | {"MYLOS": MYLOS}, capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        last = {path.name for path in (made / "results").iterdir()}
        self.assertEqual((len(last), last & first), (2, set()), "a row that was measured again is kept as it was measured last")
        done = subprocess.run([sys.executable, made / "report.py"], env=folder.environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex((made / "README.md").read_text(), r"\| small-none \| mylos \| 0 \(CPU\)")
        self.assertEqual(convention.problems(made), [])
        status, _, errors = campaign("new", made)
        self.assertEqual(status, 2)
        self.assertIn("is there already", errors)

    def test_what_breaks_the_convention_is_named(self):
        made = self.make()
        for file, text, why in (
            ("mine.sh", "\ncat /data/tokens\n", "an absolute path"), ("report.py", "\n# campaigns/mfu_scaling/results\n", "refers to the campaign 'mfu_scaling'"),
            ("README.md", "\n| a | b |\n", "outside of the markers"), ("README.md", "\n<!-- mylos:table more -->\n", "has no '<!-- mylos:end -->'"),
            ("campaign.toml", "\n[[row]]\nname = 'x'\nconfig = 'absent.toml'\n", "absent.toml"), ("campaign.toml", "\nthe = 1\n", "'the'"),
        ):  # fmt: skip
            with self.subTest(why):
                before = (made / file).read_text()
                (made / file).write_text(before + text if file != "campaign.toml" or "row" in text else text.lstrip() + before)
                self.assertIn(why, "\n".join(convention.problems(made)))
                (made / file).write_text(before)
        self.assertEqual(convention.problems(made), [])

    def test_a_run_goes_on_where_the_last_one_ended(self):
        made = self.make()
        (made / "campaign.toml").write_text(ROWS)
        (made / "small.toml").write_text(SMALL)
        out = self.place / "out"
        arguments = ("run", made, "--out", out)
        status, text, errors = campaign(*arguments)
        self.assertEqual(status, 1, text + errors)
        rows = {r["row"]: r for p in out.glob("*.rows.json") for r in json.loads(p.read_text())}
        self.assertEqual({n: r["status"] for n, r in rows.items()},
                         {"fine": "ok", "wrong": "failed", "large": "refused", "many": "refused", "mine": "failed"}, text)  # fmt: skip
        self.assertIn("stepz", rows["wrong"]["reason"])
        self.assertRegex(rows["large"]["reason"], r"needs [\d.]+ GiB by its plan, and [\d.]+ GiB are free")
        self.assertIn("needs 8 GPUs", rows["many"]["reason"])
        self.assertIn("MYLOS_DATA is not set", rows["mine"]["reason"])
        self.assertIn("left", errors)
        self.assertIn("| wrong | failed |", (out / "report.md").read_text())

        status, text, _ = campaign(*arguments, "--scale", "two")
        self.assertEqual(status, 1)
        self.assertIn("fine: done in call", text)
        self.assertIn("wrong: failed in call", text)
        self.assertIn("nothing left to run", text)
        self.assertEqual(len(list(out.glob("fine.*.h5"))), 1)

        (made / "small.toml").write_text(SMALL.replace("steps = 6", "steps = 7"))
        status, text, errors = campaign(*arguments, "--only", "fine")
        self.assertEqual(status, 0, text + errors)
        self.assertEqual(len(list(out.glob("fine.*.h5"))), 2)

        status, text, _ = campaign("status", made, "--out", out, "--json")
        self.assertEqual({r["row"]: r["state"] for r in json.loads(text)["rows"]},
                         {"fine": "done", "wrong": "open", "large": "open", "many": "open", "mine": "open"})  # fmt: skip

    def test_slurm_gets_a_script_that_runs_the_rows(self):
        status, text, errors = campaign("run", "mfu_scaling", "--only", "cluster-13b-16", "--sbatch", "--budget", "600")
        self.assertEqual(status, 0, errors)
        for line in ("#SBATCH --nodes=4", "#SBATCH --gpus-per-node=4", "#SBATCH --time=00:12:00"):
            self.assertIn(line, text)
        self.assertEqual(subprocess.run(["bash", "-n"], input=text, text=True).returncode, 0)

    def test_wrong_arguments_are_one_line(self):
        for arguments, why in (
            (["run", "mfu_scalin"], "did you mean 'mfu_scaling'"), (["run", "mfu_scaling", "--scale", "x"], "scales: cpu-smoke"),
            (["run", "mfu_scaling", "--only", "["], "regular expression"), (["run", "mfu_scaling", "--submit"], "--submit goes with"),
            (["run", "mfu_scaling", "--scale", "cpu-smoke", "--mpirun", "4", "--out", self.place / "o"], "1 process"),
            (["new", self.place / "No"], "no name of a campaign"), (["report", "packing", "--results", "absent"], "no folder absent"),
        ):  # fmt: skip
            with self.subTest(why):
                status, _, errors = campaign(*arguments)
                self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)
                self.assertIn(why, errors)

    def test_mylos_starts_it(self):
        done = subprocess.run([MYLOS, "campaign", "status", "packing", "--scale", "h200", "--out", self.place], capture_output=True, text=True, cwd=self.place)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("plain-512", done.stdout)
        self.assertIn("--sbatch", subprocess.run([MYLOS, "campaign", "run", "--help"], capture_output=True, text=True).stdout)

    def test_sweeps_and_repeats_are_rows(self):
        entry = {"name": "a", "config": "x", "sweep": {"train.batch": [1, 2], "state": {"exact": ["o=1"], "none": []}}, "repeats": 2}
        rows = sweep.expanded([entry], "plan", 100)
        self.assertEqual([r["name"] for r in rows][:3], ["a-1-exact-r1", "a-1-exact-r2", "a-1-none-r1"])
        self.assertEqual((len(rows), rows[0]["set"]), (8, ["train.batch=1", "o=1"]))
        for harm in ({"sweep": {}}, {"sweep": {"a": []}}, {"sweep": {"a": {"b": 1}}}, {"repeats": 0}, {"sweep": {"a": list(range(2000))}}, {"repeats": 999}):
            with self.assertRaisesRegex(PlanError, "row 'a"):
                sweep.expanded([entry | harm], "plan", 100)

    def test_rows_are_refused_with_value_bound_and_remedy(self):
        place = Place(pathlib.Path(MYLOS), ROOT, None, self.place / "mylos-bench")
        here = machine.Machine(gpus=1, memory=100 << 30, is_gpu_build=True, has_mpi=False)
        config = ROOT / "configs/model/70b.toml"
        for row, why in (
            (plan.Row("a", 1, config="x", gpus=4), "needs 4 GPUs on 1 node, and this mylos runs on 1"), (plan.Row("a", 1, bench="x"), "no mylos-bench"),
            (plan.Row("a", 1, config="x", gpus=1), r"needs 1\d\d\d\.\d GiB by its plan, and one GPU has 100.0 GiB; recompute more"),
            (plan.Row("a", 1, peer="gpu_llama"), "needs a Python with torch, and 'absent' has none"),
        ):  # fmt: skip
            self.assertRegex(machine.refusal(row, here, place, "absent", config, dict(os.environ)), why)
        self.assertEqual(machine.refusal(plan.Row("a", 1, config="x"), here, place, "absent", ROOT / "configs/model/debug.toml", dict(os.environ)), "")

    def test_figures_are_drawn_again_only_of_other_data(self):
        def rows(scale):
            return [{"parameters": 10**9, "system": "mylos", "mode": "", "batch": b, "hardware": {"devices": b}, "tokens_per_s": scale * b,
                     "tokens_per_s_low": 0.9 * scale * b, "tokens_per_s_high": 1.1 * scale * b} for b in (1, 2, 4)]  # fmt: skip

        def sweep_of(found):
            return plots.sweep(found, "sweep.png", "alt", "title", lambda r: r["system"], lambda r: r["batch"], lambda r: r["tokens_per_s"], "x", "y")

        entries = [{"system": "Other", "model": "1 B", "gpus": n, "tokens_per_s": 50.0 * n} for n in (1, 8)]
        figure = sweep_of(rows(100.0))
        self.assertEqual([figure.ensure(self.place), figure.ensure(self.place)], [True, False])
        self.assertTrue(sweep_of(rows(100.0)).is_current(self.place))
        self.assertEqual(sweep_of(rows(100.0)).disagreement(self.place), "")
        self.assertIn("was drawn of other data", sweep_of(rows(100.5)).disagreement(self.place))
        (self.place / "sweep.png").unlink()
        self.assertIn("sweep.png' is missing", figure.disagreement(self.place))
        self.assertIn(figure.note, figure.markdown())
        self.assertTrue(plots.scaling(rows(100.0), entries, "scaling.png", "alt", "title").ensure(self.place))
        self.assertGreater((self.place / "scaling.png").stat().st_size, 5000)
        self.assertIsNone(sweep_of([]))

    def test_markers_and_quotes_are_checked(self):
        good = "a\n<!-- mylos:table x -->\nold\n<!-- mylos:end -->\n"
        self.assertEqual(readme.filled(good, {"x": "new"}), good.replace("old", "new"))
        for bad in (good + good, good.replace("<!-- mylos:end -->", ""), good + "<!-- mylos:end -->", good.replace(" -->\nold", " --> old")):
            with self.assertRaises(readme.MarkerError):
                readme.names(bad)
        path = self.place / "quoted.toml"
        path.write_text("[[row]]\nsystem = 'x'\n")
        with self.assertRaisesRegex(quoted.QuotedError, "'?model'?"):
            quoted.read(path)


if __name__ == "__main__":
    unittest.main()
