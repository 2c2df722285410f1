-- How many samples of runs a rule has graded itself, by judge and benchmark.
select run_id, judge, benchmark, count(*) as verdicts
from lake.judgements
where score_source = 'rule' and not superseded and strategy is null and list_contains($run_ids, run_id)
group by all
