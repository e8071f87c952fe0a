"""The command: tools/compare A_BENCH B_BENCH --filter PATTERN --out DIR [--rounds N]."""

import argparse
import pathlib
import re
import subprocess
import sys

from mylos_device.interrupt import Interrupts

from .rounds import FEWEST, FEWEST_BY_DEFAULT, CompareError, Rounds, cases_of, rounds_for

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parse():
    parser = argparse.ArgumentParser(
        prog="compare",
        description="Runs the benchmarks of two builds in turns (A B, B A, ...) and says which cases of B are faster, slower or the same.",
        epilog="DIR/a and DIR/b get a bundle a round; `mylos diff DIR/a DIR/b --paired` judges them, now or later. Exit status: 0, 1 failure, "
        "2 usage, 5 a case is SLOWER and --fail-on-slower was given.",
    )
    parser.add_argument("a", type=pathlib.Path, help="mylos-bench of build A, as PROGRAM")
    parser.add_argument("b", type=pathlib.Path, help="mylos-bench of build B")
    parser.add_argument("--filter", required=True, metavar="PATTERN", help="regular expression: which cases to run")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR", help="folder for the rounds' bundles and log.txt")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"pairs of runs; default: {FEWEST_BY_DEFAULT}, more with more cases")
    parser.add_argument("--budget", type=float, default=1.0, metavar="S", help="seconds of measuring a case in one run (default 1)")
    parser.add_argument("--threshold", default="1%", help="the least change that matters (default 1%%)")
    parser.add_argument("--pair", action="append", default=[], metavar="X=Y", help="compare case X of A with case Y of B")
    parser.add_argument("--slow-b", type=float, action="append", metavar="PART", help="slow B down on purpose: a wait of this part after each call (0.03: 3 %%)")
    parser.add_argument("--mylos", type=pathlib.Path, help="the program whose `diff` judges; default: that beside A, else build/mylos")
    parser.add_argument("--fail-on-slower", action="store_true", help="exit status 5 when a case is SLOWER")
    parser.add_argument("--json", action="store_true", help="the comparison as JSON")
    arguments = parser.parse_args()
    if arguments.rounds is not None and not FEWEST <= arguments.rounds <= 200:
        parser.error(f"--rounds is {arguments.rounds}; it must be {FEWEST} to 200")
    if not arguments.budget > 0:
        parser.error(f"--budget is {arguments.budget}; it must be above 0")
    if arguments.slow_b is not None and len(arguments.slow_b) > 1:
        parser.error("--slow-b is given more than once")
    arguments.slow_b = arguments.slow_b[0] if arguments.slow_b else None
    # What only `mylos diff` reads would be refused after all rounds otherwise.
    if not re.fullmatch(r"\d*\.?\d+(e-?\d+)?%?", arguments.threshold):
        parser.error(f"--threshold is '{arguments.threshold}'; write a part like 1% or 0.01")
    for pair in arguments.pair:
        if not re.fullmatch(r"[^=]+=.+", pair):
            parser.error(f"--pair is '{pair}'; write CASE_OF_A=CASE_OF_B")
    if arguments.slow_b is not None and not 0 < arguments.slow_b <= 1:
        parser.error(f"--slow-b is {arguments.slow_b}; it must be above 0 and at most 1")
    return arguments


def find_mylos(arguments):
    beside = arguments.a.resolve().parent
    for path in [arguments.mylos] if arguments.mylos else [beside / "mylos", beside.parent / "mylos", ROOT / "build" / "mylos"]:
        if path.is_file():
            return path.resolve()
    raise CompareError(f"'{arguments.mylos}' is no program" if arguments.mylos else "no mylos beside A nor in build/; name it with --mylos")


def measure(arguments, mylos, interrupts):
    log = arguments.out / "log.txt"
    programs = {}
    for side in ("a", "b"):
        program = getattr(arguments, side)
        if not program.is_file():
            raise CompareError(f"'{program}' is no program")
        programs[side] = program.resolve()
    slow_b = {"b": ["--slow_down", str(arguments.slow_b)]} if arguments.slow_b is not None else None
    rounds = Rounds(programs, arguments.filter, arguments.budget, arguments.out, log, interrupts, slow_b)
    rounds.prepare()
    log.write_bytes(b"")
    bundle, seconds = rounds.warm_up()
    cases = len(arguments.pair) or cases_of(mylos, bundle)
    bundle.unlink()
    if cases == 0:
        raise CompareError(f"no case that matches '{arguments.filter}' could be timed; see {log}")
    needed = rounds_for(cases)
    number = arguments.rounds or max(FEWEST_BY_DEFAULT, needed)
    print(f"{cases} cases, {number} rounds, about {2 * number * seconds:.0f} s more", file=sys.stderr, flush=True)
    if number < needed:
        print(f"compare: warning: {cases} cases together need {needed} rounds to be called FASTER or SLOWER", file=sys.stderr)
    for i in range(1, number + 1):
        took = rounds.round(i)
        print(f"round {i} of {number}: A {took['a']:.1f} s, B {took['b']:.1f} s", file=sys.stderr, flush=True)


def main():
    arguments = parse()
    try:
        mylos = find_mylos(arguments)
        with Interrupts() as interrupts:
            measure(arguments, mylos, interrupts)
    except CompareError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"compare: stopped; the rounds so far are in '{arguments.out}'", file=sys.stderr)
        return 130
    command = [str(mylos), "diff", str(arguments.out / "a"), str(arguments.out / "b"), "--paired", "--threshold", arguments.threshold]
    for pair in arguments.pair:
        command += ["--pair", pair]
    command += ["--fail-on-slower"] * arguments.fail_on_slower + ["--json"] * arguments.json
    return subprocess.run(command).returncode
