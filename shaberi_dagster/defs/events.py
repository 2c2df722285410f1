"""Many materializations at once: Dagster's own way takes 8 ms for each, most of it for opening its database anew."""

import logging
import time
from collections.abc import Sequence

import dagster as dg
from dagster._core.events import DagsterEvent, DagsterEventType, StepMaterializationData
from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage


def report_materializations(instance: dg.DagsterInstance, materializations: Sequence[dg.AssetMaterialization]) -> None:
    """Record materializations that were not made by a Dagster run.

    What `report_runless_asset_event` does for each; in SQLite in one transaction. Without tags.

    Args:
        instance: Where to record them.
        materializations: Of whatever assets and partitions.
    """
    events = [_entry(materialization) for materialization in materializations]
    storage = instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        storage.store_event_batch(events)
        return
    if not events:
        return
    last = {event.get_dagster_event().asset_key: event for event in events}
    rest = [event for event in events if event is not last[event.get_dagster_event().asset_key]]
    insert = SqlEventLogStorageTable.insert()
    rows = [storage._event_to_row(event) for event in (*rest, *last.values())]  # noqa: SLF001 - as the pinned Dagster has it
    with storage.run_connection(RUNLESS_RUN_ID) as connection:
        connection.execute(insert, rows)
    with storage.index_transaction() as connection:
        if rest:
            connection.execute(insert, rows[: len(rest)])
        for event in last.values():
            key = connection.execute(storage.prepare_insert_event(event)).inserted_primary_key
            if key is not None:
                storage._store_asset_event(connection, event, key[0])  # noqa: SLF001


def _entry(materialization: dg.AssetMaterialization) -> dg.EventLogEntry:
    event = DagsterEvent(
        event_type_value=DagsterEventType.ASSET_MATERIALIZATION.value,
        event_specific_data=StepMaterializationData(materialization),
        job_name=RUNLESS_JOB_NAME,
    )
    return dg.EventLogEntry(  # type: ignore[no-untyped-call]
        user_message="",
        level=logging.INFO,
        job_name=RUNLESS_JOB_NAME,
        run_id=RUNLESS_RUN_ID,
        error_info=None,
        timestamp=time.time(),
        dagster_event=event,
    )
