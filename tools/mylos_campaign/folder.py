"""Where things of a campaign are: its folder, the tree's root, its plan, its results.

A campaign is named by a folder of campaigns/ or by a path. Results go to results/NAME of the working directory unless they are kept.
"""

import difflib
import os
import pathlib
import re
from dataclasses import dataclass

from mylos_device import plan
from mylos_device.errors import PlanError
from mylos_device.progress import plain

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = r"[a-z][a-z0-9_]{0,59}"


def campaigns():
    return sorted(path.parent for path in ROOT.glob("campaigns/*/campaign.toml"))


@dataclass
class Campaign:
    folder: pathlib.Path

    @property
    def name(self):
        return self.folder.name

    @property
    def shown(self):
        """What finds it again from anywhere: its name, or the path of a folder elsewhere."""
        return self.name if self.folder.resolve().parent == ROOT / "campaigns" else str(self.folder)

    @property
    def kept(self):
        return self.folder / "results"

    def out(self, given):
        return pathlib.Path(given).resolve() if given else pathlib.Path("results").resolve() / self.name

    def plan(self, only="", scale=None):
        return plan.load(self.folder / "campaign.toml", only, ROOT / "benchmarks/peers", scale)


def find(text):
    """The campaign that a name or a path stands for."""
    try:
        for folder in (ROOT / "campaigns" / text, pathlib.Path(text)):
            if text and (folder / "campaign.toml").is_file():
                return Campaign(folder.resolve())
    except (OSError, ValueError):
        pass  # no path at all: too long, or with a NUL
    shown = plain(text, 100)
    names = [folder.name for folder in campaigns()]
    near = difflib.get_close_matches(shown, names, 1)
    new = f"; `mylos campaign new {shown}` makes one" if re.fullmatch(NAME, text) else ""
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}{new}"
    raise PlanError(f"there is no campaign '{shown}' (a folder of campaigns/, or a path, with campaign.toml); {hint}")


def environment():
    """For programs of a campaign, which find the tree by it."""
    return os.environ | {"MYLOS_ROOT": str(ROOT)}
