"""Rows of a plan that stand for several: `sweep` for combinations of values, `repeats` for the same again.

expanded(entries, path) returns plain entries with unique names, or a PlanError that names the row and what its sweep may be.
"""

import itertools
import json
import re

from .errors import PlanError

MOST = 1000  # rows of one entry; more is a slip


def _choices(axis, values, where):
    """(label, overrides) of each value."""
    if isinstance(values, dict) and values:
        for label, overrides in values.items():
            if not isinstance(overrides, list) or not all(isinstance(text, str) for text in overrides):
                raise PlanError(f"{where}: sweep.{axis}.{label} is {overrides!r}; it must be a list of overrides")
        return list(values.items())
    if isinstance(values, list) and values and all(isinstance(v, (str, int, float)) for v in values):
        return [(str(v).lower(), [f"{axis}={json.dumps(v)}"]) for v in values]
    raise PlanError(f"{where}: sweep.{axis} is {values!r}; it must be a list of values, or a table of lists of overrides by label")


def _label(text):
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text)


def _swept(entry, path):
    axes = entry.get("sweep")
    if axes is None:
        return [entry]
    where = f"{path}: row {entry.get('name', '')!r}"
    if not isinstance(axes, dict) or not axes or "config" not in entry:
        raise PlanError(f"{where}: sweep must be a table with an axis or more, of a row with config")
    choices = [_choices(axis, values, where) for axis, values in axes.items()]
    rest = {key: value for key, value in entry.items() if key != "sweep"}
    if not isinstance(rest.get("set", []), list) or not isinstance(rest.get("name"), str):
        return [rest]  # the plan says what is wrong with them
    rows = []
    for combination in itertools.islice(itertools.product(*choices), MOST + 1):
        name = "-".join([rest["name"], *(_label(label) for label, _ in combination)])
        overrides = [text for _, texts in combination for text in texts]
        rows.append(rest | {"name": name, "set": [*rest.get("set", []), *overrides]})
    if len(rows) > MOST:
        raise PlanError(f"{where}: its sweep has more than {MOST} combinations; leave an axis out or make it shorter")
    return rows


def _repeated(entry, path):
    repeats = entry.get("repeats", 1)
    if type(repeats) is not int or not 1 <= repeats <= MOST:
        raise PlanError(f"{path}: row {entry.get('name', '')!r} has repeats = {repeats!r}; it must be a whole number from 1 to {MOST}")
    rest = {key: value for key, value in entry.items() if key != "repeats"}
    return [rest] if repeats == 1 else [rest | {"name": f"{rest.get('name', '')}-r{i}"} for i in range(1, repeats + 1)]


def expanded(entries, path):
    return [row for entry in entries for swept in _swept(entry, path) for row in _repeated(swept, path)]
