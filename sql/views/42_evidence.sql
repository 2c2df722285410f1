-- What is known of answers, each piece once: one row per model, question, answer text, judge and settings (a judgement
-- that was made here: per call), with the trees that have it as a list. Every figure that is not of single runs is
-- over it. Without passes; superseded judgements and runs are left out. score: on the judge's scale; scores: all that
-- were read of the same piece, of which the newest counts; run_id: the largest run that has it; n_rows: in how many it is.
create view evidence as
with scales as (
    select benchmark, max(reported_multiplier) as reported_multiplier
    from lake.metrics
    group by benchmark
),
given as (
    select
        run_id, model, benchmark, question_set, question_id, sample_index, strategy, judge, judge_config_hash,
        answer_hash, call_hash, coalesce(judged_at, created_at) as judged_at, score, status, error_class, judge_prompt_hash
    from scores
    where pipeline = 'baseline'
      and run_id not in (select run_id from lake.runs where superseded_by is not null)
)
select
    model, benchmark, question_sets, question_id, answer_hash, strategy, judge, judge_config_hash, judge_prompt_hash,
    score, score * reported_multiplier as reported_score, status, error_class, trees, scores, n_rows, run_id, call_hash,
    judged_at
from evidence_of('given')
left join scales using (benchmark);
