"""What a campaign's results are: rows of its bundles, bundles of other kinds, and what became of each row that was to run.

    results = Results(folder)             # a campaign's folder (its results/), or any folder of bundles
    results.rows                          # rows.py, of train and peer bundles
    results.bundles("profile")            # of other kinds, complete ones
    results.outcomes                      # of the latest call that has a row: {"row", "status", "reason", "seconds", "call"}
    results.problems                      # files that cannot be used, and why; numbers that samples do not give (verify())
"""

import json
import pathlib

from . import recompute, rows
from .bundle import Bundle, BundleError

KEPT_BYTES = 16 << 20  # of one file in the tree


class Results:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.place = self.folder / "results" if (self.folder / "results").is_dir() else self.folder
        self.rows, self.problems, self.notes = rows.read(self.folder)
        self.outcomes = self._outcomes()

    def paths(self):
        return [path for path in sorted(self.place.glob("*.h5")) if not path.name.endswith(".weights.h5")]

    def bundles(self, kind):
        found = []
        for path in self.paths():
            try:
                bundle = Bundle(path)
            except BundleError:
                continue  # among the problems already
            if bundle.attribute("/", "kind") == kind and bundle.attribute("/", "complete"):
                found.append(bundle)
        return found

    def _outcomes(self):
        latest = {}
        for path in sorted(self.place.glob("*.rows.json")):
            try:
                for outcome in json.loads(path.read_text()):
                    if outcome["status"] != "skipped" or outcome["row"] not in latest:
                        latest[outcome["row"]] = outcome
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.problems.append(f"'{path}' is no record of rows: {error}")
        return list(latest.values())

    def verify(self):
        """Adds what is wrong with numbers and sizes; every sample is read again."""
        for path in self.paths():
            if path.stat().st_size > KEPT_BYTES:
                self.problems.append(f"'{path}' has {path.stat().st_size} bytes; a kept bundle has at most {KEPT_BYTES}")
            try:
                self.problems += recompute.disagreements(Bundle(path))
            except BundleError:
                pass  # among the problems already

    def call(self, ending):
        """Rows of the call whose name ends so."""
        return [row for row in self.rows if row["call"].endswith(ending)]

    def calls(self):
        return sorted({row["call"] for row in self.rows})
