"""Dagster's daemon as a cluster runs it: what an earlier one was killed over is launched first."""

import os
import sys
from pathlib import Path

from shaberi_dagster.defs.execution import open_instance
from shaberi_dagster.defs.launcher import ClusterRunLauncher
from shaberi_dagster.settings import Settings

if __name__ == "__main__":
    with open_instance(Settings.from_environment().dagster_home) as instance:
        launcher = instance.run_launcher
        if isinstance(launcher, ClusterRunLauncher):  # dagster.yaml may name another one
            launcher.launch_lost()
    program = str(Path(sys.executable).with_name("dagster-daemon"))
    os.execv(program, [program, *sys.argv[1:]])  # noqa: S606
