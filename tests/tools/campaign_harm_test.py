"""`mylos campaign` where something is wrong or odd: one clear message, no traceback, nothing lost, nothing measured that does not count."""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from mylos_campaign import convention  # noqa: E402
from mylos_device import outcomes, plan  # noqa: E402
from mylos_device.errors import PlanError  # noqa: E402
from campaign_command import campaign, command, environment  # noqa: E402
from small_model import SMALL  # noqa: E402

ROWS = """title = "a test"
gpus = 0
limit_s = 60
[tokens.small]
vocab = 64
count = 2000
[[row]]
name = "fine"
config = "small.toml"
set = ['data.train=["{tokens.small}"]']
"""
ENDLESS = ROWS.replace('"fine"', '"endless"').replace("set = [", 'set = ["train.steps=1000000000", ')


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def processes(text):
    lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line for line in lines if str(text).encode() in line and b"train" in line]


class Harm(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.out = self.place / "out"
        self.assertEqual(campaign("new", self.place / "mine")[0], 0)
        self.mine = self.place / "mine"
        self.write(ROWS)

    def write(self, text, small=SMALL):
        (self.mine / "campaign.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        (self.mine / "small.toml").write_bytes(small if isinstance(small, bytes) else small.encode())

    def run_it(self, *more):
        status, text, errors = campaign("run", self.mine, "--out", self.out, *more)
        self.assertNotIn("Traceback", text + errors)
        return status, text, errors

    def outcome(self):
        return json.loads(sorted(self.out.glob("*.rows.json"))[-1].read_text())[0]

    def states(self):
        status, text, errors = campaign("status", self.mine, "--out", self.out, "--json")
        self.assertEqual((status, errors), (0, ""))
        return {r["row"]: (r["state"], r["reason"]) for r in json.loads(text)["rows"]}

    def test_a_row_follows_its_tokens_and_the_rows_it_starts_from(self):
        more = '[[row]]\nname = "next"\nconfig = "small.toml"\nset = ["{weights.fine}"]\n'
        keys = {}

        def changed(text):
            from mylos_campaign import history

            self.write(text + more)
            p = plan.load(self.mine / "campaign.toml")
            before = dict(keys)
            keys.update({row.name: history.definition(row, p, ROOT) for row in p.rows})
            return [name for name in keys if keys[name] != before.get(name)]

        self.assertEqual(changed(ROWS), ["fine", "next"])
        self.assertEqual(changed(ROWS.replace("limit_s = 60", "limit_s = 61")), [])
        self.assertEqual(changed(ROWS.replace("count = 2000", "count = 2000\nseed = 2")), ["fine", "next"])
        self.assertEqual(changed(ROWS + "[tokens.other]\nvocab = 9\ncount = 9\n"), ["fine", "next"])

        self.write(ROWS)
        self.assertEqual(self.run_it()[0], 0)
        first = self.outcome()["command"]
        self.write(ROWS.replace("count = 2000", "count = 2000\nseed = 2"))
        self.assertEqual(self.states()["fine"][0], "open")
        self.assertEqual(self.run_it()[0], 0)
        self.assertNotEqual([t for t in first if "tokens" in t], [t for t in self.outcome()["command"] if "tokens" in t])
        files = sorted((self.out / "tokens").glob("small-*.bin"))
        self.assertEqual([f.stat().st_size for f in files], [8000, 8000])
        self.assertNotEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_one_run_at_a_time_and_nothing_outlives_a_killed_one(self):
        self.write(ENDLESS)
        first = subprocess.Popen(command("run", self.mine, "--out", self.out), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(first.kill)
        self.assertTrue(until(lambda: any(log.stat().st_size for log in self.out.glob("logs/endless.*"))))
        status, _, errors = self.run_it()
        self.assertEqual(status, 2)
        self.assertRegex(errors, rf"out is in use: process {first.pid} measures there, row endless; wait for it, or end it: kill {first.pid}\n$")
        self.assertEqual(self.states()["endless"][0], "running")
        status, _, errors = campaign("keep", self.mine, "--out", self.out)
        self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)
        self.assertIn("out is in use: process", errors)
        first.send_signal(signal.SIGKILL)
        first.wait()
        self.assertTrue(until(lambda: not processes(self.out), 5))
        self.assertEqual(self.states()["endless"][0], "open")
        self.write(ROWS)
        status, text, errors = self.run_it()
        self.assertEqual(status, 0, text + errors)

    def test_what_leaves_no_whole_bundle_is_not_measured(self):
        for text, why in ((ROWS + 'arguments = ["--help"]\n', "it left no bundle; the program ended well"), ):
            self.write(text)
            status, _, _ = self.run_it()
            self.assertEqual(status, 1)
            self.assertIn(why, self.outcome()["reason"])
            self.assertEqual(self.states()["fine"][0], "failed")
        for row in ("bench = '--help'", "bench = '-x'", "bench = ''", "config = '--help'"):
            with self.assertRaisesRegex(PlanError, "does not begin with '-'"):
                self.write(f"[[row]]\nname = 'a'\n{row}\n")
                plan.load(self.mine / "campaign.toml")

    def test_a_bundle_that_is_lost_or_damaged_opens_its_row_again(self):
        self.assertEqual(self.run_it()[0], 0)
        self.assertEqual(self.states()["fine"], ("done", ""))
        bundle = next(self.out.glob("fine.*.h5"))
        whole = bundle.read_bytes()
        bundle.write_bytes(whole[: len(whole) // 2])
        self.assertEqual(self.states()["fine"][0], "open")
        self.assertIn("cannot be read", self.states()["fine"][1])
        status, text, errors = campaign("keep", self.mine, "--out", self.out)
        self.assertEqual(status, 1, text)
        self.assertIn("not kept", errors)
        bundle.unlink()
        self.assertEqual(self.states()["fine"], ("open", "it left no bundle"))

    def test_what_a_row_finished_before_its_limit_is_kept_and_said_to_be_cut_short(self):
        self.assertEqual(self.run_it()[0], 0)
        record = next(self.out.glob("*.rows.json"))
        whole = outcomes.read(record)
        for reason, kept, said in (("exit status 1: a result is wrong", 0, "| failed |"), (f"{outcomes.OUT_OF_TIME} 3 s; its last words: step 4", 1, "| cut short |")):
            outcomes.write(record, [o | {"status": "failed", "reason": reason} for o in whole])
            status, text, errors = campaign("keep", self.mine, "--out", self.out)
            self.assertEqual((status, len(list((self.mine / "results").glob("fine.*.h5")))), (1 - kept, kept), text + errors)
            status, text, errors = campaign("report", self.mine)
            self.assertEqual(status, 0, text + errors)
            self.assertIn(said, (self.mine / "README.md").read_text())
        # As long as it stands among the results it is said, whatever another call measured.
        bundle = next((self.mine / "results").glob("fine.*.h5"))
        other = whole[0]["call"][:-1] + ("0" if whole[0]["call"][-1] != "0" else "1")
        shutil.copy(bundle, bundle.with_name(bundle.name.replace(whole[0]["call"], other)))
        outcomes.write(self.mine / "results" / f"{other}.rows.json", [o | {"call": other} for o in whole])
        self.assertEqual(campaign("report", self.mine)[0], 0)
        self.assertIn("| cut short |", (self.mine / "README.md").read_text())
        bundle.unlink()
        self.assertEqual(campaign("report", self.mine)[0], 0)
        self.assertIn("None of those that ran.", (self.mine / "README.md").read_text())

    def test_what_a_failed_call_left_is_no_result(self):
        self.assertEqual(self.run_it()[0], 0)
        self.assertEqual(self.run_it("--again")[0], 0)
        first, second = sorted(self.out.glob("*.rows.json"))
        failed = [o | {"status": "failed", "reason": "exit status 1: a result is wrong"} for o in outcomes.read(second)]
        outcomes.write(second, failed)
        status, text, errors = campaign("report", self.mine, "--results", self.out)
        page = (self.out / "report.md").read_text()
        calls = [record.name.removesuffix(".rows.json") for record in (first, second)]
        self.assertEqual((status, calls[0] in page, calls[1] in page), (0, True, False), text + errors)
        # Nor is a row that ended well without its bundle one.
        for bundle in self.out.glob(f"fine.*{calls[0]}*.h5"):
            bundle.unlink()
        campaign("report", self.mine, "--results", self.out)
        self.assertIn("| fine | failed | exit status 1: a result is wrong |", (self.out / "report.md").read_text())

    def test_too_many_rows_are_refused_at_once(self):
        sweep = "[row.sweep]\n'train.batch' = [" + ", ".join(map(str, range(100))) + "]\n"
        for text, why in ((ROWS + "repeats = 1000\n" + sweep, "100 combinations and 1000 repeats are 100000 rows; an entry has at most 1000: leave an axis out"),
                          (ROWS + "".join(f"[[row]]\nname = 'r{i}'\nconfig = 'small.toml'\nrepeats = 1000\n" for i in range(11)), "at most 10000: make a second")):  # fmt: skip
            self.write(text)
            start = time.monotonic()
            status, _, errors = campaign("status", self.mine)
            self.assertEqual((status, len(errors.splitlines())), (2, 1), errors[-500:])
            self.assertIn(why, errors)
            self.assertLess(time.monotonic() - start, 10)

    def test_a_pattern_that_takes_for_ever_is_one_line(self):
        self.write(ROWS.replace('"fine"', f'"{"a" * 60}-b"'))
        for arguments, why in ((("--only", "(a*)*c$"), "takes longer than 5 s"), (("--only", "((a|aa)+)+$"), "takes longer"), (("--only", "a" * 2000), "2000 characters"),
                               (("--only", "(" * 900), "no regular expression")):  # fmt: skip
            status, _, errors = self.run_it(*arguments)
            self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)
            self.assertIn(why, errors)

    def test_odd_records_are_one_line(self):
        self.out.mkdir()
        record = self.out / "20261202T000000Z-abcd.rows.json"
        fine = {"row": "fine", "call": "20261202T000000Z-abcd", "status": "ok", "reason": "", "seconds": 1}
        odd = ([1], {}, "text", None, [{}], [fine | {"row": "../../fine"}], [fine | {"row": 3}], [fine | {"call": "../x"}], [fine | {"call": None}], [fine | {"status": "good"}],
               [fine | {"seconds": "long"}], [fine | {"seconds": -1}], [fine | {"reason": 4}], [fine | {"definition": []}])  # fmt: skip
        texts = [json.dumps(value).encode() for value in odd] + [b"", b"[", b"\xff\xfe", b"[" * 100_000, b"[" + json.dumps(fine)[:-2].encode() + b"e999}]"]
        for text in texts:
            with self.subTest(text[:60]):
                record.write_bytes(text)
                with self.assertRaisesRegex(PlanError, "is no record of rows"):
                    outcomes.read(record)
        for value in (odd[5], odd[0]):
            record.write_text(json.dumps(value))
            for arguments, expected in ((("status",), 0), (("keep",), 2)):
                status, _, errors = campaign(*arguments, self.mine, "--out", self.out)
                self.assertEqual((status, len(errors.splitlines())), (expected, 1), errors[-500:])
                self.assertIn("is no record of rows", errors)
            self.assertEqual(list((self.mine / "results").glob("*")), [])
        record.unlink()
        record.mkdir()
        self.assertEqual(campaign("keep", self.mine, "--out", self.out)[0], 2)

    def test_keep_into_itself_is_refused(self):
        shutil.copytree(ROOT / "campaigns/profiling", self.place / "profiling")
        for out in (self.place / "profiling/results", self.place / "profiling/../profiling/results/"):
            status, _, errors = campaign("keep", self.place / "profiling", "--out", out)
            self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)
            self.assertIn("already", errors)

    def test_configurations_lie_in_the_campaign_or_the_presets(self):
        (self.place / "link").mkdir()
        (self.mine / "link.toml").symlink_to("/etc/passwd")
        for config in ("../../etc/passwd", "/etc/passwd", "../out/x.toml", "configs/../tools/x.toml", "tools/setup", "link.toml"):
            self.write(ROWS.replace('"small.toml"', json.dumps(config)))
            status, _, errors = campaign("status", self.mine)
            if config in ("tools/setup", "configs/../tools/x.toml"):
                self.assertEqual(status, 0, errors)  # beside the campaign, where it is not
                continue
            self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)
            self.assertIn(f"config = {config!r}, outside of the plan's folder and of configs/", errors)
        for config in ("configs/model/debug.toml", str(self.mine / "small.toml")):
            self.write(ROWS.replace('"small.toml"', json.dumps(config)))
            self.assertEqual(campaign("status", self.mine)[0], 0)

    def test_a_scale_or_cache_that_is_none_runs_nothing(self):
        for more, why in ((("--scale", ""), "is empty"), (("--cache", self.place / "none.json"), "there is no such file")):
            status, _, errors = self.run_it(*more)
            self.assertEqual(status, 2, errors)
            self.assertIn(why, errors)
        self.assertFalse(list(self.out.glob("*.json")))

    def test_odd_bytes_are_one_line(self):
        for text in (b"", b"\xff", b"\0", ROWS.encode() + b"\0", ROWS.encode() + b"# \xfe\n", ROWS.replace("small.toml", "a\\u0000b").encode(),
                     ROWS.replace("set = [", 'set = ["a\\u0000b", ').encode(), ROWS.replace('"a test"', "7").encode()):  # fmt: skip
            with self.subTest(text[-60:]):
                self.write(text)
                for arguments in (["status", self.mine], ["run", self.mine, "--out", self.out]):
                    status, _, errors = campaign(*arguments)
                    self.assertEqual((status, len(errors.splitlines())), (2, 1), errors[-800:])
                self.assertTrue(convention.problems(self.mine))
        for small in (b"\xff\n", b"\0", SMALL.encode() + b"# \xff\n"):
            with self.subTest(small[-10:]):
                self.write(ROWS, small)
                self.assertEqual(self.states()["fine"][0], "open")
                status, _, errors = self.run_it()
                self.assertEqual(status, 1)
                self.assertEqual(self.outcome()["status"], "failed")
        self.write(ROWS)
        for name in ("README.md", "mine.sh", "report.py"):
            before = (self.mine / name).read_bytes()
            (self.mine / name).write_bytes(before + b"\n# \xff\n")
            self.assertIn(name, "\n".join(convention.problems(self.mine)))
            status, _, errors = campaign("report", self.mine)
            self.assertNotIn("Traceback", errors)
            self.assertEqual((status, len(errors.splitlines())), (0, 0) if name == "mine.sh" else (1, 1), errors)
            (self.mine / name).write_bytes(before)
        self.assertEqual(campaign("report", self.mine)[0], 0)

    def test_a_report_that_raises_is_one_line(self):
        path = self.mine / "report.py"
        before = path.read_text()
        for text, why in ((before + "\nraise RuntimeError('no such table')\n", None), ("raise RuntimeError('no such table')\n" + before, "RuntimeError: no such table"),
                          ("def (\n", "SyntaxError"), (before.replace("parts.opening", "lambda results: 1 / 0"), "ZeroDivisionError")):  # fmt: skip
            path.write_text(text)
            status, _, errors = campaign("report", self.mine)
            self.assertNotIn("Traceback", errors)
            if why:
                self.assertEqual((status, len(errors.splitlines())), (1, 1), errors)
                self.assertIn(why, errors)

    def test_odd_names_are_one_line(self):
        names = ("", "..", "/", ".", " ", "a b", "naïve", "../..", "x" * 5000, "a\nb", "\x1b[31mred", "mfu_scaling/..", b"\xff\xfe", "x" * 300)
        for name in names:
            for arguments in ([word, name] for word in ("status", "new", *(("keep", "run", "report") if name in ("", "..", b"\xff\xfe") else ()))):
                with self.subTest(str(arguments)[:60]):
                    status, _, errors = campaign(*arguments, cwd=self.place)
                    self.assertEqual((status, len(errors.splitlines())), (2, 1), errors[-800:])
                    self.assertLess(len(errors), 600)
                    self.assertNotIn("\x1b", errors)

    def test_tokens_are_bounded(self):
        for text, why in (("count = 100_000_000_000", "count = 100000000000; at most 1000000000"), ("count = 9\nseed = 99999999999999999999", "seed"),
                          ("count = 9\ndocument = 99999999999999999999", "document")):  # fmt: skip
            self.write(ROWS.replace("count = 2000", text))
            status, _, errors = campaign("status", self.mine)
            self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)
            self.assertIn(why, errors)

    def test_nothing_left_to_run_says_so(self):
        self.assertEqual(self.run_it()[0], 0)
        status, text, errors = self.run_it()
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("nothing left to run; --again", text)

    def test_check_of_another_folder_writes_nothing(self):
        self.assertEqual(self.run_it()[0], 0)
        arguments = ("report", self.mine, "--check", "--results", self.out)
        status, text, errors = campaign(*arguments)
        self.assertEqual((status, errors), (0, ""), text)
        report = self.out / "report.md"
        before = report.read_text()
        report.write_text(before.replace("fine", "fone", 1))
        status, _, errors = campaign(*arguments)
        self.assertEqual(status, 1)
        self.assertIn("fone", errors)
        self.assertIn("fone", report.read_text())
        report.unlink()
        status, _, errors = campaign(*arguments)
        self.assertEqual((status, report.exists()), (1, False))
        self.assertIn("there is no", errors)

    def full(self, options, *script):
        """A shell with a tmpfs of its own at `out`, where this machine lets one be made; status, output, errors."""
        self.out.mkdir(exist_ok=True)
        text = f"mount -t tmpfs {options} none '{self.out}' && " + " && ".join(script)
        tried = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none '{self.out}'"], capture_output=True, check=False) if shutil.which("unshare") else None
        if not tried or tried.returncode:
            self.skipTest("a tmpfs of one's own cannot be mounted here")
        done = subprocess.run(["unshare", "-m", "sh", "-c", text], env=environment(), capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_a_full_disk_is_one_message(self):
        run = " ".join(f"'{part}'" for part in command("run", self.mine, "--out", self.out))
        for options in ("-o size=4k", "-o size=16k", "-o size=40k", "-o size=100k"):
            with self.subTest(options):
                status, text, errors = self.full(options, run)
                if status == 0:  # about what a run needs: at times all of it fits
                    self.assertEqual(options, "-o size=100k")
                    self.assertIn("1 rows measured, 0 not", text)
                    continue
                self.assertIn(status, (1, 2), text + errors)
                self.assertNotIn("Traceback", text + errors)
                self.assertIn("No space left", text + errors)

    def test_a_folder_that_cannot_be_written_is_one_line(self):
        run = " ".join(f"'{part}'" for part in command("run", self.mine, "--out", self.out))
        status, text, errors = self.full("", f"mount -o remount,ro '{self.out}'", run)
        self.assertEqual((status, len(errors.splitlines())), (2, 1), text + errors)
        self.assertIn("cannot be a folder of results", errors)
        self.out.rmdir()
        self.out.write_text("")
        status, _, errors = self.run_it()
        self.assertEqual((status, len(errors.splitlines())), (2, 1), errors)


if __name__ == "__main__":
    unittest.main()
