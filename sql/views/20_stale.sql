-- Judgements in force that judge another text than the answer that stands now.
create view stale as
select
    judgements.* exclude (judge_output, fallback_output),
    answers.answer_hash as current_answer_hash
from lake.judgements
join lake.answers using (run_id, benchmark, question_id, sample_index)
where not judgements.superseded
  and judgements.strategy is null
  and judgements.answer_hash is distinct from answers.answer_hash;
