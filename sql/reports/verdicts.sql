-- What a run got right: one row per planned question and strategy, whether or not there is a verdict. `reused` says that
-- all replies behind the answer were paid for by other runs: the answer of single, the shared samples and the calls of a
-- consensus. It is null where no answer is stored; imported samples are evidence of their own.
-- Parameters: $run_id; $benchmarks with $sha256s, $n_questions and $judges, one of each; $planned (benchmark, strategy);
-- $strategies in their order.
with plan as (
    select
        unnest($benchmarks) as benchmark, unnest($sha256s) as question_set_sha256, unnest($n_questions) as n_questions,
        unnest($judges) as judge
),
asked as (
    select benchmark, question_set, question_set_sha256, question_id, judge, n_questions
    from plan
    join questions using (benchmark, question_set_sha256)
    qualify row_number() over (partition by benchmark order by position) <= n_questions
),
paid as (
    select request_hash, stage, benchmark, question_id, split_part(purpose, ':', 1) as strategy
    from calls
    where run_id = $run_id
      and stage in ('answers', 'consensus')
),
answered as (
    select
        benchmark, question_id,
        bool_and(reused) filter (sample_index = 0) as single_reused,
        bool_and(reused) filter (sample_index > 0 or single is distinct from 'own') as samples_reused
    from (
        select
            answers.benchmark, question_id, sample_index,
            source_sha256 is null
            and request_hash not in (select request_hash from paid where stage = 'answers') as reused
        from answers
        where run_id = $run_id
          and list_contains($benchmarks, answers.benchmark)
    )
    left join (select benchmark, single from run_benchmarks where run_id = $run_id) using (benchmark)
    group by all
),
decided as (
    select distinct benchmark, question_id, strategy
    from paid
    where stage = 'consensus'
)
select
    asked.benchmark, asked.question_set, asked.question_set_sha256, asked.question_id, strategies.strategy, asked.judge,
    scores.judge_config_hash,
    case when scores.status = 'ok' then scores.score = 1 end as correct,
    coalesce(scores.status, 'missing') as status,
    coalesce(consensus.error_class, scores.error_class) as error_class,
    scores.answer_hash,
    case when strategies.strategy = 'single' then single_reused
        else samples_reused and decided.strategy is null end as reused,
    consensus.strategy_version, consensus.strategy_prompt_hash
from asked
join (select unnest($planned, recursive := true)) as strategies using (benchmark)
left join scores
    on scores.run_id = $run_id
   and scores.benchmark = asked.benchmark
   and scores.question_id = asked.question_id
   and scores.strategy = strategies.strategy
   and scores.judge = asked.judge
   and scores.pipeline = 'baseline'
left join consensus
    on consensus.run_id = $run_id
   and consensus.benchmark = asked.benchmark
   and consensus.question_id = asked.question_id
   and consensus.strategy = strategies.strategy
left join answered
    on answered.benchmark = asked.benchmark
   and answered.question_id = asked.question_id
left join decided
    on decided.benchmark = asked.benchmark
   and decided.question_id = asked.question_id
   and decided.strategy = strategies.strategy
order by list_position($benchmarks, asked.benchmark), list_position($strategies, strategies.strategy), asked.question_id
