-- Audited verdicts of rules by benchmark: how many were wrong, and sums of their weights.
select
    judge, benchmark, count(*) as n_audited, count(error) as n_wrong, count(*) filter (is_unsettled) as n_unsettled,
    sum(weight) as weight, max(weight) as heaviest,
    coalesce(sum(weight) filter (error = 'false right'), 0) as false_rights,
    coalesce(sum(weight) filter (error = 'false wrong'), 0) as false_wrongs,
    coalesce(sum(weight) filter (is_unsettled), 0) as unsettled,
    list_sort(list(distinct auditor)) as auditors, strftime(max(audited_at), '%Y-%m-%d') as audited_on
from audited_verdicts
where ($run_ids is null or list_contains($run_ids, run_id))
  and run_id in (from selected_runs($models, $tags, $sources))
group by all
order by judge, benchmark
