-- Judgements in force that do not go with the rest of their run. Reason answer: they judge another text than the
-- answer that stands now; judge: made with other settings or another prompt (current_judge_config_hash,
-- current_judge_prompt_hash) than the run's newest judgement by this judge of this benchmark.
create view stale as
with newest as (
    select
        run_id, benchmark, judge,
        max_by(judge_config_hash, created_at) as current_judge_config_hash,
        max_by(judge_prompt_hash, created_at) as current_judge_prompt_hash
    from judgements
    where not superseded
      and strategy is null
    group by all
)
select
    judgements.* exclude (judge_output, fallback_output),
    answers.answer_hash as current_answer_hash,
    current_judge_config_hash,
    current_judge_prompt_hash,
    case when judgements.answer_hash is distinct from answers.answer_hash then 'answer' else 'judge' end as reason
from judgements
join lake.answers using (run_id, benchmark, question_id, sample_index)
join newest using (run_id, benchmark, judge)
where not judgements.superseded
  and judgements.strategy is null
  and (
    judgements.answer_hash is distinct from answers.answer_hash
    or judgements.judge_config_hash <> current_judge_config_hash
    or judgements.judge_prompt_hash <> current_judge_prompt_hash
  );
