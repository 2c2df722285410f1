-- Judgements in force, each piece of evidence once, as in the view evidence, with all that is recorded of the newest but
-- its text; run_id, trees and n_rows are as there. Runs that others have superseded are left out.
create view judgement_evidence as
with given as (
    select
        judgements.* exclude (judge_output, fallback_output, created_at),
        judgements.created_at as judged_at,
        coalesce(judgements.request_hash, answered.request_hash) as call_hash
    from judgements
    -- A verdict of a rule rests on the call that made the answer.
    left join (
        select run_id, benchmark, question_id, sample_index, request_hash
        from lake.answers
        where request_hash is not null
    ) as answered
        on starts_with(judge, 'rule:')
       and judgements.strategy is null
       and answered.run_id = judgements.run_id
       and answered.benchmark = judgements.benchmark
       and answered.question_id = judgements.question_id
       and answered.sample_index = judgements.sample_index
    where not superseded
      and judgements.run_id not in (select run_id from lake.runs where superseded_by is not null)
)
from evidence_of('given');
