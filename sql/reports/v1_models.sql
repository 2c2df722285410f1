-- The models whose files the old suite's trees have, with the number of their rows: imported ones keep their names. Runs
-- that a decision asked some questions are left out.
select model, imported, sum(rows)::bigint as rows
from (
    select model, generation is not null as imported, count(*) as rows
    from lake.answers
    where ($tags = [] or list_contains($tags, run_tag) or run_id in (
        select run_id from lake.runs where list_contains($tags, import_tag)
    ))
      and run_id not in (select run_id from lake.runs where list_count(json_extract_string(spec, '$.benchmarks.*.asked')) > 0)
    group by all
    union all
    select model, generation is not null, count(*)
    from lake.judgements
    where ($tags = [] or list_contains($tags, run_tag) or run_id in (
        select run_id from lake.runs where list_contains($tags, import_tag)
    ))
      and run_id not in (select run_id from lake.runs where list_count(json_extract_string(spec, '$.benchmarks.*.asked')) > 0)
    group by all
)
where $sources = [] or model in (select model from lake.legacy_files where list_contains($sources, source))
group by all
