-- evidence_of(given): the distinct pieces of evidence among judgements in a table or a CTE of this name. The same answer
-- text of a model to a question, judged by the same judge with the same settings, is one piece, in however many trees
-- it lies; a judgement that was made here is one for each call. Of what was read of one piece the newest counts.
-- given: model, benchmark, question_set, question_id, sample_index, strategy, judge, judge_config_hash, answer_hash,
-- score, call_hash, judged_at, run_id, and whatever else is to be known of the newest.
-- Added: run_id (of the runs that have it the one with most scores, so that a fork takes no piece away), trees,
-- question_sets, scores (all that were read of it) and n_rows, of all that have it.
create macro evidence_of(given) as table
with places as (
    select run_id, source, row_number() over (order by n_scored desc nulls last, run_id) as place
    from lake.runs
    left join (select run_id, sum(n_scored) as n_scored from lake.metrics group by run_id) using (run_id)
),
pieces as materialized (
    select
        given.*, source, place,
        hash(
            model, benchmark, question_id, strategy, judge, judge_config_hash, answer_hash,
            -- Imported rows have no call; of rules the answer is what was drawn. Other rows without one are what they are.
            coalesce(call_hash, case
                when source is null then (row_number() over ())::varchar
                when starts_with(judge, 'rule:') then sample_index::varchar
            end)
        ) as piece
    from query_table(given) as given
    left join places using (run_id)
),
several as (
    select piece
    from pieces
    group by piece
    having count(*) > 1
),
shared as (
    from pieces
    semi join several using (piece)
),
newest as (
    select * exclude (run_id)
    from shared
    -- A score rather than none.
    qualify row_number() over (
        partition by piece order by score is not null desc, judged_at desc, place, run_id, sample_index
    ) = 1
),
holders as (
    select
        piece,
        coalesce(min_by(run_id, place), min(run_id)) as run_id,
        list_sort(list_distinct(list(source))) as trees,
        list_sort(list_distinct(list(question_set))) as question_sets,
        list_sort(list_distinct(list(score))) as scores,
        count(*) as n_rows
    from shared
    group by piece
)
select * exclude (piece, place, source, question_set, sample_index)
from newest
join holders using (piece)
union all by name
select
    * exclude (piece, place, source, question_set, sample_index),
    list_distinct([source]) as trees, [question_set] as question_sets, list_distinct([score]) as scores, 1 as n_rows
from pieces
anti join several using (piece);
