-- All judgements of the samples of some models that were made here, for the old suite's trees.
select
    model, run_id, run_tag, benchmark, question_set, question_id, sample_index, judge, answer_hash, score, judge_output,
    superseded, generation
from lake.judgements
where model between $first and $last
  and list_contains($models, model)
  and strategy is null
  and generation is null
  and run_id not in (select run_id from lake.runs where list_count(json_extract_string(spec, '$.benchmarks.*.asked')) > 0)
