-- Judgements in force whose answer does not exist.
create view orphan as
select judgements.* exclude (judge_output, fallback_output)
from lake.judgements
anti join lake.answers using (run_id, benchmark, question_id, sample_index)
where not judgements.superseded
  and judgements.strategy is null;
