-- The scores of a judge and benchmark with their call, the time of their judgement and whether they are out of scale.
select scores.* replace (
    coalesce(
        scores.call_hash, judgements.request_hash,
        case when starts_with($judge, 'rule:') and scores.strategy is null then answers.request_hash end
    ) as call_hash,
    coalesce(judged_at, judgements.created_at) as judged_at,
    coalesce(scores.out_of_scale, judgements.out_of_scale) as out_of_scale
)
from lake.scores
left join (
    from lake.judgements
    where benchmark = $benchmark and judge = $judge and not superseded
    -- Nothing is doubled where two are in force by a mistake.
    qualify row_number() over (
        partition by run_id, question_id, sample_index, strategy, answer_hash order by created_at desc
    ) = 1
) as judgements
    on judgements.run_id = scores.run_id
   and judgements.question_id = scores.question_id
   and judgements.sample_index = scores.sample_index
   and judgements.strategy is not distinct from scores.strategy
   and judgements.answer_hash is not distinct from scores.answer_hash
left join (from lake.answers where benchmark = $benchmark) as answers
    on answers.run_id = scores.run_id
   and answers.question_id = scores.question_id
   and answers.sample_index = scores.sample_index
where scores.benchmark = $benchmark
  and scores.judge = $judge
