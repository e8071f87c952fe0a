"""`campaign keep`: bundles of rows that ended well, and what became of all rows, from a folder of results into the campaign's own.

What was measured on another machine is kept so as well. Weights, logs, tokens and commands stay behind; a bundle above 16 MiB does, too.
"""

import json
import shutil
import sys

from mylos_device.errors import PlanError
from mylos_device.progress import say

KEPT_BYTES = 16 << 20
LEFT_OUT = ("command", "log")


def _bundles(folder, outcome):
    """Of one row: its own, and those beside it (a profile, cases of a peer)."""
    pattern = f"{outcome['row']}.*{outcome['call']}*.h5"
    own = [folder / f"{outcome['row']}.{outcome['call']}.h5", *folder.glob(pattern)]
    return sorted({path for path in own if path.is_file() and not path.name.endswith(".weights.h5")})


def keep(campaign, folder):
    """How many bundles were copied."""
    records = sorted(folder.glob("*.rows.json"))
    if not records:
        raise PlanError(f"there is no record of rows (*.rows.json) in {folder}; `mylos campaign run {campaign.name}` leaves one")
    campaign.kept.mkdir(exist_ok=True)
    copied = 0
    for record in records:
        outcomes = json.loads(record.read_text())
        for path in (p for o in outcomes if o["status"] == "ok" for p in _bundles(folder, o)):
            if path.stat().st_size > KEPT_BYTES:
                say(f"not kept: {path.name} has {path.stat().st_size / 2**20:.1f} MiB; a kept bundle has at most {KEPT_BYTES >> 20}", sys.stderr)
                continue
            shutil.copyfile(path, campaign.kept / path.name)
            copied += 1
        short = [{key: value for key, value in o.items() if key not in LEFT_OUT} for o in outcomes]
        (campaign.kept / record.name).write_text(json.dumps(short, indent=1) + "\n")
    say(f"kept {copied} bundles in {campaign.kept}; `mylos campaign report {campaign.name}` puts them into its README")
    return copied
