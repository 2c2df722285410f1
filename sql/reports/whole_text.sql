-- One whole text: $what is answer, thinking or judgement.
select case when $what = 'answer' then answer else thinking end as text
from answers
where $what in ('answer', 'thinking')
  and benchmark = $benchmark
  and run_id = $run_id
  and question_id = $question_id
  and sample_index = $sample_index
  and text is not null
union all
select judge_output as text
from judgements
where $what = 'judgement'
  and benchmark = $benchmark
  and run_id = $run_id
  and question_id = $question_id
  and sample_index = $sample_index
  and judge = $judge
  and strategy is null
  and not superseded
  and judge_output is not null
