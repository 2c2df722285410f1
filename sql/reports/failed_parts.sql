-- What failed of some runs: answers, and judgements by judge.
select metrics.run_id, metrics.benchmark, 'judge ' || metrics.judge as who, n_planned, n_failed, classes
from metrics
left join (
    select run_id, benchmark, judge, histogram(coalesce(error_class, status)) as classes
    from scores
    where list_contains($run_ids, run_id)
      and pipeline = 'baseline'
      and strategy is null
      and status not in ('ok', 'excluded')
    group by all
) as failures using (run_id, benchmark, judge)
where list_contains($run_ids, metrics.run_id)
  and pipeline = 'baseline'
  and strategy is null
  and null_policy = 'legacy'
  and n_failed > 0
  and ($judges is null or list_contains($judges, metrics.judge))
union all
select
    run_id, benchmark, 'answers' as who, count(*) as n_planned, count(*) filter (failed) as n_failed,
    histogram(error_class) filter (failed) as classes
-- An empty answer is excluded, which is no failure.
from (select *, status = 'error' and error_class is distinct from 'empty_answer' as failed from answers)
where list_contains($run_ids, run_id)
group by all
having n_failed > 0
order by all
