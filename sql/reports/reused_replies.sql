-- The runs among some that use replies of other runs, with the numbers by stage and run, and of how many answers.
select run_id, model, run_tag, reused_replies, n_answers
from runs
left join (
    select run_id, count(*) as n_answers
    from answers
    where list_contains($run_ids, run_id)
    group by run_id
) using (run_id)
where list_contains($run_ids, run_id) and reused_replies is not null
order by run_id
