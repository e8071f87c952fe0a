"""The job script of a campaign's rows under Slurm: printed, and given to sbatch only when asked.

Partition, account and the like are the site's: sbatch reads them from SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_QOS. MYLOS_DATA goes along
with the environment.
"""

import math
import re
import shlex
import subprocess

from mylos_device.errors import PlanError

from .folder import ROOT

START_S = 120  # of the job itself


def script(campaign, plan, arguments, budget_s):
    gpus, nodes = max(row.gpus for row in plan.rows), max(row.nodes for row in plan.rows)
    a_node = math.ceil(gpus / nodes)
    seconds = START_S + (budget_s or sum(row.limit_s for row in plan.rows))
    minutes = math.ceil(seconds / 60)
    job = "mylos-" + re.sub(r"[^A-Za-z0-9_.-]", "_", campaign.name)
    # `set -e` would end the job at srun's first failure, whose reason the outcomes keep.
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={job}",
        f"#SBATCH --nodes={nodes}",
        f"#SBATCH --ntasks-per-node={max(a_node, 1)}",
        *([f"#SBATCH --gpus-per-node={a_node}"] if gpus else []),
        f"#SBATCH --time={minutes // 60:02d}:{minutes % 60:02d}:00",
        f"#SBATCH --output={job}-%j.log",
        "set -u",
        f"# {len(plan.rows)} rows: {', '.join(row.name for row in plan.rows[:8])}{', ...' if len(plan.rows) > 8 else ''}",
        f"exec python3 {shlex.quote(str(ROOT / 'tools/campaign'))} run {shlex.join([str(campaign.folder), *arguments])}",
    ]
    return "\n".join(lines) + "\n"


def submit(text):
    try:
        done = subprocess.run(["sbatch"], input=text, text=True, check=False)
    except OSError as error:
        raise PlanError(f"sbatch cannot be started ({error}); leave --submit out, and give the printed script to the cluster yourself") from error
    return done.returncode
