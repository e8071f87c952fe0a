"""Tables and figures of @NAME@'s README, from its bundles: `mylos campaign report @NAME@ [--check]`."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(os.environ.get("MYLOS_ROOT") or HERE.parents[1]) / "tools"))
from mylos_report import folder_report, parts  # noqa: E402

if __name__ == "__main__":
    sys.exit(
        folder_report.main(
            __file__,
            {
                "opening": parts.opening,
                "rows": lambda results: parts.runs(results.rows),
                "not-run": parts.outcomes,
            },
        )
    )
