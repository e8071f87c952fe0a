"""Rows of a plan that stand for several: `sweep` for combinations of values, `repeats` for the same again.

expanded(entries, path, most) returns plain entries with unique names, at most so many, or a PlanError that names the row and what its sweep may be.
"""

import itertools
import json
import math
import re

from .errors import PlanError

MOST = 1000  # rows of one entry, sweep and repeats together; more is a slip


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
    combinations, repeats = math.prod(map(len, choices)), _repeats(entry, path)
    if combinations * repeats > MOST:
        raise PlanError(f"{where}: its sweep of {combinations} combinations and {repeats} repeats are {combinations * repeats} rows; an entry has at most "
                        f"{MOST}: leave an axis out, make it shorter, or repeat less")  # fmt: skip
    rest = {key: value for key, value in entry.items() if key != "sweep"}
    if not isinstance(rest.get("set", []), list) or not isinstance(rest.get("name"), str):
        return [rest]  # the plan says what is wrong with them
    rows = []
    for combination in itertools.product(*choices):
        name = "-".join([rest["name"], *(_label(label) for label, _ in combination)])
        overrides = [text for _, texts in combination for text in texts]
        rows.append(rest | {"name": name, "set": [*rest.get("set", []), *overrides]})
    return rows


def _repeats(entry, path):
    repeats = entry.get("repeats", 1)
    if type(repeats) is not int or not 1 <= repeats <= MOST:
        raise PlanError(f"{path}: row {entry.get('name', '')!r} has repeats = {repeats!r}; it must be a whole number from 1 to {MOST}")
    return repeats


def _repeated(entry, path):
    repeats = _repeats(entry, path)
    rest = {key: value for key, value in entry.items() if key != "repeats"}
    return [rest] if repeats == 1 else [rest | {"name": f"{rest.get('name', '')}-r{i}"} for i in range(1, repeats + 1)]


def expanded(entries, path, most):
    rows = []
    for entry in entries:
        rows += [row for swept in _swept(entry, path) for row in _repeated(swept, path)]
        if len(rows) > most:
            raise PlanError(f"{path} has {len(rows)} rows by row {entry.get('name', '')!r}; a plan has at most {most}: make a second one of the rest")
    return rows
