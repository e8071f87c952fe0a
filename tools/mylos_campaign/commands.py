"""The command line of `mylos campaign`."""

import argparse
import json
import math
import pathlib
import sys

from mylos_device import lock
from mylos_device.bench import INTERRUPTED
from mylos_device.errors import PlanError
from mylos_device.progress import say

from . import history, keep, new, run
from .folder import ROOT, Campaign, campaigns, find


def seconds(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds, 0 or more")
    return value


def scale(text):
    if not text:
        raise argparse.ArgumentTypeError("is empty; name one, or leave --scale out for all rows")
    return text


def whole(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of processes, 1 or more")
    return value


def _parser(text):
    parser = argparse.ArgumentParser(prog="mylos campaign", description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    p = commands.add_parser("run", help="measure the rows that are not done yet")
    p.add_argument("campaign", help="a folder of campaigns/, or a path")
    p.add_argument("--scale", type=scale, help="rows that campaign.toml names together: cpu-smoke, h200, ...")
    p.add_argument("--only", default="", help="regular expression on the names of rows")
    p.add_argument("--budget", type=seconds, default=0, help="most seconds of all rows (default and 0: what the scale says, or no bound)")
    p.add_argument("--out", help="folder of results (default: results/NAME here)")
    p.add_argument("--keep", action="store_true", help="copy bundles and outcomes into the campaign's own results/")
    p.add_argument("--again", action="store_true", help="finished rows, too")
    p.add_argument("--retry", action="store_true", help="failed rows, too")
    p.add_argument("--cache", help="file of tuned products (mylos tune), for every mylos row")
    p.add_argument("--python", default="", help="a Python with torch, for peers (default: the python3 on PATH)")
    p.add_argument("--mpirun", type=whole, default=0, metavar="N", help="start mylos by `mpirun -n N`")
    p.add_argument("--sbatch", action="store_true", help="print the job script for Slurm instead")
    p.add_argument("--submit", action="store_true", help="with --sbatch: give it to sbatch, too")
    p.add_argument("--build", help="build folder of mylos (default: that of the mylos which started this)")
    p = commands.add_parser("status", help="which rows are done, open, failed or refused")
    p.add_argument("campaign")
    p.add_argument("--scale", type=scale)
    p.add_argument("--out")
    p.add_argument("--json", action="store_true")
    p = commands.add_parser("report", help="make tables and figures from the bundles")
    p.add_argument("campaign", nargs="*")
    p.add_argument("--results", help="another folder of bundles, with its own report.md")
    p.add_argument("--check", action="store_true", help="change nothing; exit status 1 when pages and bundles disagree")
    p = commands.add_parser("keep", help="take bundles of a folder of results into the campaign")
    p.add_argument("campaign")
    p.add_argument("--out", help="the folder (default: results/NAME here)")
    p = commands.add_parser("new", help="a folder that keeps the convention, to change")
    p.add_argument("campaign")
    return parser


def status(campaign, arguments):
    out = campaign.out(arguments.out)
    plan = campaign.plan(scale=arguments.scale)
    latest, _ = history.read(out)
    holder, under_way = lock.held(out)
    rows = []
    for row in plan.rows:
        state, outcome = history.state(row, history.definition(row, plan, ROOT), latest, out)
        if holder and row.name == under_way:
            state, outcome = "running", (outcome or {}) | {"reason": holder}
        rows.append({"row": row.name, "state": state, "call": (outcome or {}).get("call", ""), "reason": (outcome or {}).get("reason", "")})
    if arguments.json:
        print(json.dumps({"campaign": campaign.name, "results": str(out), "rows": rows}, indent=1))
        return 0
    width = max(len(r["row"]) for r in rows)
    for r in rows:
        print(f"{r['row']:{width}}  {r['state']:8}  {r['call'][-4:]:4}  {r['reason'][:200]}".rstrip())
    counts = {state: sum(r["state"] == state for r in rows) for state in ("done", "running", "open", "failed", "refused")}
    kept = len(list(campaign.kept.glob("*.h5")))
    print(f"{', '.join(f'{n} {state}' for state, n in counts.items() if n or state != 'running')} in {out}; {kept} bundles are kept in the campaign")
    print(f"scales: {', '.join(plan.scales) or 'none'}")
    return 0


def report(arguments):
    from . import pages

    if arguments.results and len(arguments.campaign) != 1:
        raise PlanError("--results is for one campaign; name it")
    if arguments.results and not pathlib.Path(arguments.results).is_dir():
        raise PlanError(f"there is no folder {arguments.results}")
    chosen = [find(name) for name in arguments.campaign] or [Campaign(folder) for folder in campaigns()]
    bad = 0
    for campaign in chosen:
        out = pathlib.Path(arguments.results).resolve() if arguments.results else None
        bad += run.report(campaign, out, arguments.check) != 0
    if not arguments.campaign:
        bad += pages.make(arguments.check)
    return 1 if bad else 0


def main(text, python):
    for stream in (sys.stdout, sys.stderr):  # names may have bytes that are no UTF-8
        stream.reconfigure(errors="backslashreplace")
    arguments = _parser(text).parse_args()
    try:
        if arguments.command == "new":
            return new.make(arguments.campaign)
        if arguments.command == "report":
            return report(arguments)
        campaign = find(arguments.campaign)
        if arguments.command == "keep":
            out = campaign.out(arguments.out)
            if holder := lock.held(out)[0]:
                raise PlanError(f"{out} is in use: {holder}")
            copied, left = keep.keep(campaign, out)
            return 0 if copied and not left else 1
        if arguments.command == "status":
            return status(campaign, arguments)
        if arguments.submit and not arguments.sbatch:
            raise PlanError("--submit goes with --sbatch")
        return run.run(campaign, arguments, python)
    except PlanError as error:
        say(f"campaign: {error}", sys.stderr)
        return 2
    except (OSError, UnicodeError) as error:
        say(f"campaign: {error}", sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        say(f"campaign: Python has no module '{error.name}'; tools/setup makes a .venv with h5py, numpy and matplotlib", sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
