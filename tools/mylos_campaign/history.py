"""What became of a campaign's rows in earlier calls, so that a run goes on where the last one ended.

A row is done when it left its bundle, whole, by the same definition: its part of campaign.toml with the tokens and the rows that it names, the
path of the user's own data, and its configuration, whose hash every outcome has. A failed row stays failed, with its reason, until --retry; a skipped or refused one is
tried again.
"""

import hashlib
import json
import os
import re
import sys
from dataclasses import asdict

from mylos_device import bundles, outcomes
from mylos_device.plan import config_path
from mylos_device.progress import say


def definition(row, plan, source):
    """The hash of all that the row is made of; `source`: the tree that has the presets."""
    about = {key: value for key, value in asdict(row).items() if key != "limit_s"}
    named = sorted(set(re.findall(r"\{(tokens|weights)\.([\w-]+)\}", " ".join(row.values()))))
    more = {f"{kind}.{name}": plan.tokens[name] if kind == "tokens" else definition(plan.row(name), plan, source) for kind, name in named}
    if any("{data}" in text for text in row.values()):
        more["data"] = os.environ.get("MYLOS_DATA", "")
    config = config_path(row, plan.folder, source) if row.config else None
    text = config.read_bytes() if config and config.is_file() else b""
    return hashlib.sha256(json.dumps([about, more], sort_keys=True).encode() + text).hexdigest()[:16]


def read(folder):
    """The latest outcome by row that says more than "skipped", and the seconds that rows took when they ended well. A damaged record is named and
    does not count: its rows are open."""
    latest, seconds = {}, {}
    for path in sorted(folder.glob("*.rows.json")):
        try:
            found = outcomes.read(path)
        except outcomes.OutcomesError as error:
            say(f"campaign: {error}; it does not count", sys.stderr)
            continue
        for outcome in found:
            if outcome["status"] == "ok":
                seconds[outcome["row"]] = outcome["seconds"]
            if outcome["status"] != "skipped" or outcome["row"] not in latest:
                latest[outcome["row"]] = outcome
    return latest, seconds


def state(row, key, latest, folder):
    """("done"|"failed"|"refused"|"open", the outcome or None)."""
    outcome = latest.get(row.name)
    if not outcome:
        return "open", None
    if outcome.get("definition") != key:
        changed = "its entry, configuration, tokens or first weights are others than in that call"
        return "open", outcome | {"reason": changed if outcome["status"] == "ok" else outcome["reason"]}
    if outcome["status"] == "ok":
        lost = bundles.lacks(folder, row, outcome["call"])
        return ("open" if lost else "done"), outcome | {"reason": lost}
    return (outcome["status"] if outcome["status"] in ("failed", "refused") else "open"), outcome
