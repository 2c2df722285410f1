-- Audited verdicts of rules with which the model disagrees and that no person has settled.
select
    audited.judge, audited.benchmark, form, rule_verdict, model_verdict, auditor, null::varchar as person, question, reference,
    answer, regexp_extract(judge_output, '^\w+ \[\d+:\d+\]: (.*)$', 1, 's') as passage, audited.model, audited.run_tag,
    audited.run_id, audited.question_id, audited.sample_index, audited.strategy, audited.answer_hash
from (
    from audited_verdicts
    where is_unsettled
      and run_id in (from selected_runs($models, $tags, $sources))
) as audited
join lake.judgements as judged
  on judged.run_id = audited.run_id and judged.benchmark = audited.benchmark and judged.judge = audited.judge
 and judged.question_id = audited.question_id and judged.sample_index = audited.sample_index
 and judged.strategy is not distinct from audited.strategy and not judged.superseded
join (
    select run_id, benchmark, question_id, sample_index, null as strategy, answer from lake.answers
    union all
    select run_id, benchmark, question_id, 0, strategy, answer from lake.consensus
) as answered
  on answered.run_id = audited.run_id and answered.benchmark = audited.benchmark
 and answered.question_id = audited.question_id and answered.sample_index = audited.sample_index
 and answered.strategy is not distinct from audited.strategy
left join (from lake.questions select distinct on (benchmark, question_set, question_id) *) as questions
  on questions.benchmark = audited.benchmark and questions.question_id = audited.question_id
 and questions.question_set = judged.question_set
order by audited.judge, audited.benchmark, audited.model, audited.run_tag, audited.question_id, audited.sample_index
