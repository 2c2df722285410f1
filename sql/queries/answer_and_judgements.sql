-- One model's answer to one question and what each judge wrote about it, replaced judgements included.
-- $question: its place in the set, or the beginning of its question_id (8 digits or more where none is a letter).
-- $benchmark: benchmark
-- $model: model or run
-- $run_tag: tag or base tag = null
with asked as (
    select benchmark, question_set, question_id
    from questions
    where benchmark = $benchmark
      and case
          when regexp_full_match($question, '[0-9]{0,7}') then position::varchar = $question
          else starts_with(question_id, $question)
      end
)
select
    question_set, run_tag, sample_index, 'answer' as what, null as judge, null as score, status, error_class,
    created_at, answer as text
from answers
semi join asked using (benchmark, question_set, question_id)
where benchmark = $benchmark
  and run_id in (from selected_runs([$model], if($run_tag is null, null, [$run_tag]), null))
union all
select
    question_set, run_tag, sample_index,
    if(superseded, 'replaced judgement', 'judgement') as what, judge, score, status, error_class,
    created_at, concat_ws(chr(10) || '--- ' || chr(10), judge_output, fallback_output) as text
from judgements
semi join asked using (benchmark, question_set, question_id)
where benchmark = $benchmark
  and run_id in (from selected_runs([$model], if($run_tag is null, null, [$run_tag]), null))
order by question_set, run_tag, sample_index, what, judge, created_at;
