"""Where things of a campaign are: its folder, the tree's root, its plan, its results.

A campaign is named by a folder of campaigns/ or by a path. Results go to results/NAME of the working directory unless they are kept.
"""

import difflib
import os
import pathlib
from dataclasses import dataclass

from mylos_device import plan
from mylos_device.errors import PlanError

ROOT = pathlib.Path(__file__).resolve().parents[2]


def campaigns():
    return sorted(path.parent for path in ROOT.glob("campaigns/*/campaign.toml"))


@dataclass
class Campaign:
    folder: pathlib.Path

    @property
    def name(self):
        return self.folder.name

    @property
    def kept(self):
        return self.folder / "results"

    def out(self, given):
        return pathlib.Path(given).resolve() if given else pathlib.Path("results").resolve() / self.name

    def plan(self, only="", scale=""):
        return plan.load(self.folder / "campaign.toml", only, ROOT / "benchmarks/peers", scale)


def find(text):
    """The campaign that a name or a path stands for."""
    for folder in (ROOT / "campaigns" / text, pathlib.Path(text)):
        if (folder / "campaign.toml").is_file():
            return Campaign(folder.resolve())
    names = [folder.name for folder in campaigns()]
    near = difflib.get_close_matches(text, names, 1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(names)}; `mylos campaign new {pathlib.Path(text).name}` makes one"
    raise PlanError(f"there is no campaign '{text}' (a folder of campaigns/, or a path, with campaign.toml); {hint}")


def environment():
    """For programs of a campaign, which find the tree by it."""
    return os.environ | {"MYLOS_ROOT": str(ROOT)}
