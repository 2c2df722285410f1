-- Judges and benchmarks with scores whose judgement is there and whose judged_at is not.
select distinct benchmark, judge
from lake.scores
join lake.judgements using (run_id, benchmark, judge, question_id, sample_index)
where judged_at is null
  and not superseded
  and scores.strategy is not distinct from judgements.strategy
  and scores.answer_hash is not distinct from judgements.answer_hash
order by all
