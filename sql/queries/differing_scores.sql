-- The same answer judged by the same judge with the same settings, read with two scores or more: all of them, the one
-- that counts (the newest: score), and the trees that have it. On the judge's scale.
-- $benchmark: benchmark = null
-- $judge: judge = null
select
    benchmark, judge, model, question_sets, position, score, scores, trees, judged_at, run_id, question_id, answer_hash
from evidence
left join (select benchmark, question_id, min(position) as position from questions group by all) using (benchmark, question_id)
where len(scores) > 1
  and benchmark = coalesce($benchmark, benchmark)
  and judge = coalesce($judge, judge)
order by benchmark, judge, model, position, answer_hash;
