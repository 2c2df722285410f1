-- Which judges have judged which run, a column each: samples with a score / planned. Empty: not judged.
-- $benchmark: benchmark = null
-- $model: model = null
select
    model, run_tag, benchmark, question_set,
    any_value(n_answers) as n_answers,
    map_from_entries(list((judge, n_scored || '/' || n_planned) order by judge) filter (judge is not null)) as scored
from coverage
where benchmark = coalesce($benchmark, benchmark)
  and model = coalesce($model, model)
  and coalesce(pipeline, 'baseline') = 'baseline'
  and strategy is null
group by model, run_tag, benchmark, question_set
order by model, run_tag, benchmark, question_set;
