"""The code location: `dagster dev -m shaberi_dagster.definitions`."""

import warnings

import dagster as dg

warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

from shaberi_dagster.defs.assets import ASSETS  # noqa: E402
from shaberi_dagster.defs.ensemble_import import ENSEMBLE, import_ensemble_job  # noqa: E402
from shaberi_dagster.defs.export import EXPORTS  # noqa: E402
from shaberi_dagster.defs.jobs import JOBS, nightly_compaction  # noqa: E402
from shaberi_dagster.defs.legacy import LEGACY, import_legacy  # noqa: E402
from shaberi_dagster.defs.reprocess import reprocess  # noqa: E402
from shaberi_dagster.defs.resources import WorkspaceResource  # noqa: E402
from shaberi_dagster.defs.sensors import run_spec_folder  # noqa: E402

defs = dg.Definitions(
    assets=[*ASSETS, *EXPORTS, *LEGACY, *ENSEMBLE],
    jobs=[*JOBS, import_legacy, import_ensemble_job, reprocess],
    schedules=[nightly_compaction],
    sensors=[run_spec_folder],
    resources={"workspace": WorkspaceResource()},
    # One process per step would cost 5 to 19 seconds a run.
    executor=dg.in_process_executor,
)
