-- Verdicts of rules in force, of each benchmark so many with the smallest hashes: a larger sample has the smaller one in it,
-- and all samples of a lake are parts of one random order.
with verdicts as (
    select
        run_id, model, run_tag, benchmark, question_id, sample_index, strategy, answer_hash, judge, judge_config_hash,
        nullif(regexp_extract(judge_output, '^(\w+) \[\d+:\d+\]: ', 1), '') as form,
        if(score = 1, 'right', 'wrong') as rule_verdict,
        md5(concat_ws('|', run_id, benchmark, question_id, sample_index, coalesce(strategy, ''), answer_hash)) as place
    from lake.judgements
    where score_source = 'rule' and status = 'ok' and not superseded and not contains(judge, '+')
      and list_contains($run_ids, run_id)
      and ($benchmarks is null or list_contains($benchmarks, benchmark))
)
select *, count(*) over (partition by benchmark) as pool
from verdicts
qualify row_number() over (partition by benchmark order by place) <= $most
order by benchmark, place
