-- Answers to one question that are the same text under two model names or more: they stay evidence of each.
-- $benchmark: benchmark = null
select
    benchmark, question_id, list(distinct answers.model order by answers.model) as models, count(*) as n_answers,
    list_sort(list_distinct(list(source))) as trees, left(any_value(answer), 200) as answer, answer_hash
from answers
join runs using (run_id)
where answer_state = 'text'
  and superseded_by is null
  and benchmark = coalesce($benchmark, benchmark)
group by benchmark, question_id, answer_hash
having min(answers.model) <> max(answers.model)
order by len(models) desc, benchmark, question_id, answer_hash;
