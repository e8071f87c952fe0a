"""tools/compare against programs that write bundles of known times: who runs when, what is judged, what is refused."""
import functools
import json
import math
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from mylos_compare.rounds import order, rounds_for  # noqa: E402

# A stand-in for mylos-bench: cases x and y, whose times drift as the load of a machine does, seen by both sides alike.
PROGRAM = """
    #!{python}
    import math, os, pathlib, random, sys
    sys.path.insert(0, {tools!r})
    from mylos_report import peer_bench
    here = pathlib.Path({folder!r})
    with open(here / "order.txt", "a") as log:
        log.write("{side}")
    number = len((here / "order.txt").read_text())
    slow = sys.argv[4] == "--slow_down"
    assert not slow or ("{side}" == "b" and sys.argv[5] == "0.03"), sys.argv
    assert sys.argv[1] == "^x|y$" and sys.argv[2] == "--budget" and sys.argv[6 if slow else 4] == "--bundle", sys.argv
    if {fails} and number > 3:
        sys.exit("the device fell off")
    chance = random.Random(f"{side}{{number}}")
    drift = math.exp(0.05 * math.sin(number / 4) + chance.gauss(0, 0.0015))
    def case(name, time):
        return {{"name": name, "mode": "fake", "component": "harness", "dtype": "", "flops": 0.0, "bytes": 1e6, "items": 0.0, "item_units": "",
                "work_source": "made up", "samples_s": [time * drift * math.exp(chance.gauss(0, 0.003)) for _ in range(20)],
                "calls_per_sample": 3, "stop": "width", "clock": "host", "threads": 1}}
    record = {{"format": "mylos-peer-bench", "version": 1, "system": "fake", "call": os.environ["MYLOS_CALL"], "created": "2026-12-02T00:00:00Z",
              "versions": {{}}, "hardware": {{"device": "d", "backend": "OpenMP", "is_gpu": False, "device_memory": 1, "driver": "", "threads": 1,
              "cpu_cores": 1, "cpu": "c", "host_memory": 1}}, "command_line": ["fake"], "commit": "{side}", "host": "h", "operating_system": "o",
              "environment": {{}}, "telemetry": {{}}, "rules": {{"warm_up": "w", "stop": "s"}},
              "cases": [case("x", (1.03 if slow else 1) * 1e-3), case("y", {factor} * 1e-3)]}}
    peer_bench.check(record)
    peer_bench.write(record, record["cases"], "fake", pathlib.Path(sys.argv[-1]))
"""


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, side, factor=1.0, fails=False):
        path = self.folder / f"bench-{side}"
        text = textwrap.dedent(PROGRAM).lstrip()
        path.write_text(text.format(python=sys.executable, tools=str(ROOT / "tools"), folder=str(self.folder), side=side, factor=factor, fails=fails))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def compare(self, a, b, *more):
        command = [sys.executable, ROOT / "tools/compare", a, b, "--filter", "^x|y$", "--out", self.folder / "out", "--mylos", os.environ["MYLOS"]]
        return subprocess.run([*map(str, command), *more], capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def test_a_slowdown_of_3_percent(self):
        done = self.compare(self.program("a"), self.program("b", 1.03), "--rounds", "8", "--json", "--fail-on-slower")
        self.assertEqual(done.returncode, 5, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual([(c["name"], c["verdict"], c["method"]) for c in answer["cases"]], [("x", "SAME", "paired"), ("y", "SLOWER", "paired")])
        self.assertEqual(answer["cases"][1]["a"]["rounds"], 8)
        self.assertEqual(answer["warnings"], [])  # one call, one machine, many rounds
        # A run that is not kept, then A B, B A, ...
        self.assertEqual((self.folder / "order.txt").read_text(), "a" + "abba" * 4)
        self.assertEqual(len(list((self.folder / "out/a").glob("*.h5"))), 8)
        self.assertFalse((self.folder / "out/warm-up.h5").exists())
        again = self.compare(self.program("a"), self.program("b"))
        self.assertEqual(again.returncode, 1)
        self.assertIn("is there already", again.stderr)

    def test_a_slowdown_on_purpose_is_asked_of_b_alone(self):
        done = self.compare(self.program("a"), self.program("b"), "--json", "--slow-b", "0.03")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(c["name"], c["verdict"]) for c in json.loads(done.stdout)["cases"]], [("x", "SLOWER"), ("y", "SAME")])
        refused = self.compare(self.program("a"), self.program("b"), "--slow-b", "3")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--slow-b is 3", refused.stderr)

    def test_the_same_program(self):
        a = self.program("a")
        done = self.compare(a, a, "--fail-on-slower")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("2 SAME, 0 FASTER, 0 SLOWER, 0 UNSURE", done.stdout)
        self.assertIn("2 cases, 12 rounds", done.stderr)

    def test_too_few_rounds_for_many_cases_is_said(self):
        done = self.compare(self.program("a"), self.program("b", 1.1), "--rounds", "6")
        self.assertEqual(done.returncode, 0)
        self.assertIn("2 cases together need 7 rounds", done.stderr)
        self.assertIn("more rounds", done.stdout)

    def test_pairs(self):
        done = self.compare(self.program("a"), self.program("b", 1.03), "--rounds", "6", "--pair", "x=y", "--json")
        self.assertEqual([c["verdict"] for c in json.loads(done.stdout)["cases"]], ["SLOWER"])

    def test_a_program_that_fails(self):
        done = self.compare(self.program("a"), self.program("b", fails=True), "--rounds", "6")
        self.assertEqual(done.returncode, 1)
        self.assertIn("of side B ended with status 1: the device fell off", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_wrong_use(self):
        a = self.program("a")
        for more, code, words in ((["--rounds", "5"], 2, "it must be 6 to 200"), (["--budget", "0"], 2, "must be above 0"),
                                  (["--threshold", "nonsense"], 2, "--threshold is 'nonsense'"), (["--pair", "x="], 2, "--pair is 'x='"),
                                  (["--slow-b", "0.1", "--slow-b", "0.9"], 2, "more than once"), (["--slow-b", "0"], 2, "must be above 0"),
                                  (["--mylos", "/absent"], 1, "'/absent' is no program")):  # fmt: skip
            done = self.compare(a, a, *more)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(words, done.stderr)
        done = self.compare(a, self.folder / "absent")
        self.assertEqual((done.returncode, "absent' is no program" in done.stderr), (1, True), done.stderr)

    def test_how_many_rounds(self):
        # The clearest result of n pairs has p = 2 / 2^n; times the number of cases it must stay below 5 %.
        for cases in (1, 2, 6, 7, 20, 100, 1000):
            n = rounds_for(cases)
            self.assertLess(cases * 2 / 2**n, 0.05)
            self.assertTrue(n == 6 or cases * 2 / 2 ** (n - 1) >= 0.05)
        self.assertEqual([order(i) for i in (1, 2, 3)], [("a", "b"), ("b", "a"), ("a", "b")])
        self.assertTrue(math.isfinite(rounds_for(0)))

    def test_what_ends_it_ends_its_program(self):
        slow = self.folder / "bench-slow"
        slow.write_text(f"#!/bin/bash\necho begun > '{self.folder}/begun'\nexec -a '{slow}' sleep 1000\n")
        slow.chmod(0o755)
        for kind, expected in ((signal.SIGTERM, 130), (signal.SIGINT, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -9)):
            with self.subTest(kind.name):
                out = self.folder / kind.name
                command = [sys.executable, ROOT / "tools/compare", slow, slow, "--filter", "x", "--out", out, "--mylos", os.environ["MYLOS"]]
                usual = functools.partial(signal.signal, kind, signal.SIG_DFL if kind != signal.SIGINT else signal.default_int_handler)
                program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=usual if kind != signal.SIGKILL else None)
                until = time.monotonic() + 60
                while not (self.folder / "begun").exists() and time.monotonic() < until:
                    time.sleep(0.05)
                program.send_signal(kind)
                _, errors = program.communicate(timeout=30)
                self.assertEqual(program.returncode, expected, errors)
                self.assertNotIn("Traceback", errors)
                time.sleep(0.5)
                lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
                self.assertFalse([line for line in lines if str(slow).encode() in line])
                (self.folder / "begun").unlink()


if __name__ == "__main__":
    unittest.main()
