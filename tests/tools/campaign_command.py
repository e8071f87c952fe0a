"""`tools/campaign` as tests call it: without the caller's data, with the mylos under test."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MYLOS = os.environ["MYLOS"]


def environment(**more):
    return {k: v for k, v in os.environ.items() if k != "MYLOS_DATA"} | {"MYLOS": MYLOS} | more


def command(*arguments):
    return [sys.executable, ROOT / "tools/campaign", *arguments]


def campaign(*arguments, cwd=ROOT, prefix=(), **more):
    """Its exit status, output and errors; `more`: environment variables."""
    done = subprocess.run([*prefix, *command(*arguments)], cwd=cwd, env=environment(**more), capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr
