-- What each judge makes of the strategies of runs and of their samples, in the order of the runs' settings.
select ensemble_results.*
from ensemble_results
join run_benchmarks using (run_id, benchmark)
where list_contains($run_ids, run_id)
  and single is not null
order by run_id, benchmark, judge, list_position(strategies, strategy) nulls last
