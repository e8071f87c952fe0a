"""What a campaign's results are: rows of its bundles, bundles of other kinds, and what became of each row that was to run.

    results = Results(folder)             # a campaign's folder (its results/), or any folder of bundles
    results.rows                          # rows.py, of train and peer bundles
    results.bundles("profile")            # of other kinds, complete ones
    results.abouts                        # when, where and by what each row or other bundle came about (rows.about)
    results.outcomes                      # of the latest call that has a row: {"row", "status", "reason", "seconds", "call"}
    results.problems                      # files that cannot be used, and why; numbers that samples do not give (verify())
"""

import pathlib

from mylos_device import outcomes
from mylos_device.bundles import KEPT_BYTES, of_row

from . import recompute, rows
from .bundle import ODD, Bundle, BundleError


class Results:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.place = self.folder / "results" if (self.folder / "results").is_dir() else self.folder
        self.every_outcome, unreadable = self._every_outcome()
        self._failed = {(o["row"], o["call"]) for o in self.every_outcome if o["status"] != "ok"}
        bad = [o for o in self.every_outcome if o["status"] == "failed" and not outcomes.was_cut_short(o)]
        self._no_results = {path: f"its row failed ({' '.join(o['reason'].split())[:200]})" for o in bad for path in self._bundles_of(o)}
        self.rows, self.problems, self.notes = rows.read(self.folder, leave_out=self._left_out)
        self.problems += unreadable
        self.outcomes = self._latest()
        self._excuse()
        self._others = self._read_others()
        self.abouts = [*self.rows, *self._abouts]

    def paths(self):
        found = [path for path in sorted(self.place.glob("*.h5")) if not path.name.endswith(".weights.h5")]
        return [path for path in found if not self._left_out(path)]

    def _left_out(self, path):
        """Why a bundle is no result, though it may be whole; empty: it can be one."""
        return self._no_results.get(path, "")

    def _bundles_of(self, outcome):
        return of_row(self.place, outcome["row"], outcome["call"])

    def has_result(self, row):
        return any(o["row"] == row and o["status"] == "ok" and self._bundles_of(o) for o in self.every_outcome)

    def cut_short(self):
        """Outcomes of what was cut short and stands among the results."""
        shown = {row["file"] for row in self.rows} | {bundle.path.name for bundle in self._others}
        return [o for o in self.every_outcome if outcomes.was_cut_short(o) and any(path.name in shown for path in self._bundles_of(o))]

    def bundles(self, kind):
        return [bundle for bundle in self._others if bundle.attribute("/", "kind") == kind]

    def _read_others(self):
        found, self._abouts = [], []
        for path in self.paths() if len(self.rows) < len(self.paths()) else []:
            try:
                bundle = Bundle(path)
                if bundle.attribute("/", "kind") in rows.KINDS:
                    continue
                if not bundle.attribute("/", "complete"):
                    raise BundleError(f"'{path}' is not complete")
                self._abouts.append(rows.about(bundle))
                found.append(bundle)
            except (BundleError, *ODD) as error:
                if not any(str(path) in problem for problem in self.problems + self.notes):
                    self.problems.append(str(error) if isinstance(error, BundleError) else f"'{path}' has a value of the wrong type: {error}")
        return found

    def _excuse(self):
        """The unfinished bundle of a row that is known to have failed, or to have been killed, is no problem, but what it left."""
        unfinished = tuple(f"{row}.{call}." for row, call in self._failed)
        for what in [p for p in self.problems if " is not complete " in p]:
            if pathlib.Path(what.split("'")[1]).name.startswith(unfinished) and unfinished:
                self.problems.remove(what)
                self.notes.append(what)

    def _every_outcome(self):
        """Of all calls, and what is wrong with their records."""
        found, problems = [], []
        for path in sorted(self.place.glob("*.rows.json")):
            try:
                found += outcomes.read(path)
            except outcomes.OutcomesError as error:
                problems.append(str(error))
        return found, problems

    def _latest(self):
        latest = {}
        for outcome in self.every_outcome:
            if outcome["status"] != "skipped" or outcome["row"] not in latest:
                latest[outcome["row"]] = outcome
        return list(latest.values())

    def verify(self, most=KEPT_BYTES):
        """Adds what is wrong with numbers and sizes (`most`: bytes of a file); every sample is read again."""
        for path in self.paths():
            if path.is_file() and path.stat().st_size > most:
                self.problems.append(f"'{path}' has {path.stat().st_size} bytes; a kept bundle has at most {most}")
            try:
                self.problems += recompute.disagreements(Bundle(path))
            except BundleError:
                pass  # among the problems already

    def call(self, ending):
        """Rows of the call whose name ends so."""
        return [row for row in self.rows if row["call"].endswith(ending)]

    def calls(self):
        return sorted({about["call"] for about in self.abouts})
