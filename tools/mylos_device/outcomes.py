"""Records of rows, <call>.rows.json: a list with one object a row, what became of it in that call.

    read(path)              # the outcomes; OutcomesError (a PlanError) names the file, the entry and what is wrong with it
    write(path, outcomes)   # whole or not at all

Names of rows and calls become parts of paths, so they are held to letters, digits, '.', '_' and '-'.
"""

import json
import math
import os
import re
from pathlib import Path

from .errors import PlanError
from .progress import plain

STATUSES = ("ok", "failed", "refused", "skipped")
NAMES = {"row": r"[A-Za-z0-9][A-Za-z0-9_-]{0,109}", "call": r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"}
MOST_BYTES = 64 << 20
SHOWN = 60


OUT_OF_TIME = "took longer than"  # how the reason of a row begins that was ended at its limit


class OutcomesError(PlanError):
    pass


def was_cut_short(outcome):
    """Ended at its limit: what it had finished by then stands in its bundles, which are whole, or else they are not taken."""
    return outcome["status"] == "failed" and outcome.get("reason", "").startswith(OUT_OF_TIME)


def _wrong(outcome):
    """What is wrong with one entry; empty: nothing."""
    if not isinstance(outcome, dict):
        return f"it is {str(outcome)[:SHOWN]!r}, no object"
    for key, pattern in NAMES.items():
        value = outcome.get(key)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            return f"{key} is {str(value)[:SHOWN]!r}; it must be a name of letters, digits, '_' and '-'"
    if outcome.get("status") not in STATUSES:
        return f"status is {str(outcome.get('status'))[:SHOWN]!r}; it must be one of {', '.join(STATUSES)}"
    for key in ("reason", "definition", "log"):
        if not isinstance(outcome.get(key, ""), str):
            return f"{key} is {str(outcome[key])[:SHOWN]!r}; it must be a text"
    seconds = outcome.get("seconds", 0)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds < math.inf:
        return f"seconds is {str(seconds)[:SHOWN]!r}; it must be a finite number, 0 or more"
    return ""


def read(path: Path) -> list:
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise OutcomesError(f"'{path}' is no record of rows: it is no file, or has more than {MOST_BYTES >> 20} MiB")
        outcomes = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # wrong JSON and wrong UTF-8 are ValueErrors
        raise OutcomesError(f"'{path}' is no record of rows: {error}") from error
    if not isinstance(outcomes, list):
        raise OutcomesError(f"'{path}' is no record of rows: it holds no list")
    for number, outcome in enumerate(outcomes, 1):
        if wrong := _wrong(outcome):
            raise OutcomesError(f"'{path}' is no record of rows: entry {number}: {wrong}")
    return [{"seconds": 0, **outcome, "reason": plain(outcome.get("reason", ""), 1000)} for outcome in outcomes]


def write(path: Path, outcomes: list) -> None:
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(json.dumps(outcomes, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def alike(found: list) -> list:
    """(the rows' names, one outcome) of each status and reason, in the order of the first."""
    groups = {}
    for o in found:
        groups.setdefault((o["status"], o.get("reason", "")), []).append(o)
    return [(", ".join([*(o["row"] for o in group[:3]), *([f"{len(group) - 3} more"] if len(group) > 3 else [])]), group[0]) for group in groups.values()]
