"""What became of a campaign's rows in earlier calls, so that a run goes on where the last one ended.

A row is done when it left its bundle by the same definition: its part of campaign.toml and the text of its configuration, whose hash
every outcome has. A failed row stays failed, with its reason, until --retry; a skipped or refused one is tried again.
"""

import hashlib
import json
from dataclasses import asdict


def definition(row, config):
    """`config`: the path of the row's configuration, or None."""
    text = config.read_text(encoding="utf-8") if config and config.is_file() else ""
    about = {key: value for key, value in asdict(row).items() if key != "limit_s"}
    return hashlib.sha256((json.dumps(about, sort_keys=True) + text).encode()).hexdigest()[:16]


def read(folder):
    """The latest outcome by row that says more than "skipped", and the seconds that rows took when they ended well."""
    latest, seconds = {}, {}
    for path in sorted(folder.glob("*.rows.json")):
        try:
            outcomes = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # of a call that is being written, or of another program
        for outcome in outcomes:
            if outcome.get("status") == "ok":
                seconds[outcome["row"]] = outcome["seconds"]
            if outcome.get("status") != "skipped" or outcome["row"] not in latest:
                latest[outcome["row"]] = outcome
    return latest, seconds


def state(row, key, latest, folder):
    """("done"|"failed"|"refused"|"open", the outcome or None)."""
    outcome = latest.get(row.name)
    if not outcome or outcome.get("definition") != key:
        return "open", outcome
    if outcome["status"] == "ok":
        return ("done" if any(folder.glob(f"{row.name}.*{outcome['call']}*.h5")) else "open"), outcome
    return (outcome["status"] if outcome["status"] in ("failed", "refused") else "open"), outcome
