"""A workspace with what stands above the stages: the upgrade of older lakes, and the results beside the lake."""

from shaberi_dagster.exchange.publishing import begin, changed
from shaberi_dagster.exchange.results.results_tree import is_exported
from shaberi_dagster.exchange.trees import importing
from shaberi_dagster.lake.store import Lake, Step
from shaberi_dagster.lake.upgrades import bring_up_to_date
from shaberi_dagster.prompts.library import PromptLibrary
from shaberi_dagster.runs.former_hashes import record_former_configs
from shaberi_dagster.runs.prompts_used import record_known_prompts
from shaberi_dagster.runs.workspace import Workspace
from shaberi_dagster.stages import imported
from shaberi_dagster.stages.metrics import count_undecided, fill_question_scores


class Installation(Workspace):
    """The workspace of commands, of Dagster and of the viewer."""

    def upgrade(self, lake: Lake) -> None:
        """Bring a lake of an earlier format up to date."""
        steps: dict[int, Step] = {
            1: lambda older: record_known_prompts(older, PromptLibrary(*self.settings.prompt_folders)),
            2: record_former_configs,
            3: lambda older: importing.regroup_imports(self.with_lake(older)),
            4: lambda older: imported.fill_scores(self.with_lake(older)),
            5: fill_question_scores,
            6: lambda older: count_undecided(self.with_lake(older)),
        }
        for number in bring_up_to_date(lake.folder, steps):
            self.reporter.note(f"the lake in {lake.folder} now has format {number}")

    def begin(self, run_id: str) -> None:
        """Let the manifest of a run say that it is running."""
        begin(run_id, self)

    def changed(self, run_id: str, *, tells: bool = True) -> None:
        """Have a run published at the end; if it `tells`, its manifest says at once how far it is."""
        changed(run_id, self, tells=tells)

    def is_published(self, run_id: str) -> bool:
        """Return whether the results of a run are those of its state in the lake, as far as the manifest tells."""
        return is_exported(self.lake, run_id, self.settings.results)
