"""`campaign keep`: bundles of rows that ended well or were cut short, and what became of all rows, from a folder of results into the
campaign's own.

What was measured on another machine is kept so as well. Weights, logs, tokens and commands stay behind; a bundle above 16 MiB, or one that is
damaged or unfinished, does, too. A record that is no record of rows is refused before anything is copied.
"""

import os
import shutil
import sys

from mylos_device import bundles, outcomes
from mylos_device.errors import PlanError
from mylos_device.progress import say

LEFT_OUT = ("command", "log")


def _unfit(path):
    """Why a bundle stays behind; empty: it is kept."""
    if path.stat().st_size > bundles.KEPT_BYTES:
        return f"it has {path.stat().st_size / 2**20:.1f} MiB; a kept bundle has at most {bundles.KEPT_BYTES >> 20}"
    return bundles.invalid(path)


def _copy(path, target):
    """Whole or not at all."""
    temporary = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    try:
        shutil.copyfile(path, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def keep(campaign, folder):
    """How many bundles were copied, and how many stayed behind. A row that was measured again is kept as it was measured last."""
    if folder.resolve() == campaign.kept.resolve():
        raise PlanError(f"{folder} is where the campaign keeps its bundles already; name another folder of results with --out")
    records = {path: outcomes.read(path) for path in sorted(folder.glob("*.rows.json"))}
    if not records:
        raise PlanError(f"there is no record of rows (*.rows.json) in {folder}; `mylos campaign run {campaign.name}` leaves one")
    campaign.kept.mkdir(exist_ok=True)
    last = {o["row"]: o["call"] for rows in records.values() for o in rows if o["status"] == "ok"}
    copied = left = 0
    for record, rows in records.items():
        rows = [o for o in rows if last.get(o["row"], o["call"]) == o["call"]]
        if not rows:
            continue
        whole = [o for o in rows if o["status"] == "ok" or outcomes.was_cut_short(o)]
        for o, path in ((o, p) for o in whole for p in bundles.of_row(folder, o["row"], o["call"])):
            if why := _unfit(path):
                say(f"not kept: {path.name}: {why}", sys.stderr)
                left += o["status"] == "ok"
                continue
            _copy(path, campaign.kept / path.name)
            copied += 1
        outcomes.write(campaign.kept / record.name, [{key: value for key, value in o.items() if key not in LEFT_OUT} for o in rows])
    say(f"kept {copied} bundles in {campaign.kept}; `mylos campaign report {campaign.shown}` puts them into its README")
    return copied, left
