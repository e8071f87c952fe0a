"""`campaign new`: a folder from tools/mylos_campaign/template that keeps the convention as it is, with its name put in."""

import pathlib
import re
import tempfile

from mylos_device.errors import PlanError
from mylos_device.progress import plain

from .folder import NAME, ROOT, Campaign

TEMPLATE = pathlib.Path(__file__).resolve().parent / "template"
PLACE = "@NAME@"


def make(text):
    folder = pathlib.Path(text) if "/" in text else ROOT / "campaigns" / text
    name = text.rpartition("/")[2]
    if not re.fullmatch(NAME, name):
        raise PlanError(f"'{plain(text, 100)}' ends in no name of a campaign: it begins with a lower-case letter and has up to 60 of those, digits and '_'")
    if folder.exists():
        raise PlanError(f"'{folder}' is there already; take another name")
    if not folder.resolve().parent.is_dir():
        raise PlanError(f"there is no folder '{folder.resolve().parent}' to make '{name}' in")
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as place:
        made = pathlib.Path(place) / name
        made.mkdir()
        for source in sorted(TEMPLATE.iterdir()):
            target = made / source.name.replace("NAME", name)
            target.write_text(source.read_text(encoding="utf-8").replace(PLACE, name), encoding="utf-8")
            target.chmod(0o755 if target.suffix == ".sh" else 0o644)
        made.rename(folder)
    print(f"{folder}: change campaign.toml and small.toml, then `mylos campaign run {Campaign(folder).shown} --scale cpu-smoke`")
    print("docs/campaigns.md says what each file is for")
    return 0
