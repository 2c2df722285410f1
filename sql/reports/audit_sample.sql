-- Verdicts of rules in force, of each benchmark so many with the smallest hashes: a larger sample has the smaller one in it,
-- and all samples of a lake are parts of one random order. A new version of a rule has another order: who mended it by what
-- an audit found meets other verdicts.
with verdicts as (
    select
        run_id, model, run_tag, benchmark, question_id, sample_index, strategy, answer_hash, judge, judge_config_hash, score,
        md5(concat_ws(
            '|', judge_config_hash, run_id, benchmark, question_id, sample_index, coalesce(strategy, ''), answer_hash
        )) as place
    from lake.judgements
    where score_source = 'rule' and status = 'ok' and not superseded and not contains(judge, '+')
      and run_id in (select unnest($run_ids)) and ($benchmarks is null or list_contains($benchmarks, benchmark))
),
drawn as (
    select *, count(*) over (partition by benchmark) as pool
    from verdicts
    qualify row_number() over (partition by benchmark order by place) <= $most
)
select
    drawn.* exclude (score), if(drawn.score = 1, 'right', 'wrong') as rule_verdict,
    nullif(regexp_extract(judge_output, '^(\w+) \[\d+:\d+\]: ', 1), '') as form
from drawn
join lake.judgements as judged
  on judged.run_id = drawn.run_id and judged.benchmark = drawn.benchmark and judged.judge = drawn.judge
 and judged.question_id = drawn.question_id and judged.sample_index = drawn.sample_index
 and judged.strategy is not distinct from drawn.strategy and not judged.superseded
order by drawn.benchmark, place
