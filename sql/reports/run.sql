-- A run with its state and settings. Parameter: $run_id.
select run_id, status, status_by_benchmark, spec, not_sent from runs where run_id = $run_id
