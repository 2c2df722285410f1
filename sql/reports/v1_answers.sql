-- All answers of some models, for the old suite's trees. first and last of the models let files be skipped.
select
    model, run_id, run_tag, benchmark, question_set, question_id, sample_index, answer, answer_hash, status, generation
from lake.answers
where model between $first and $last
  and list_contains($models, model)
  and run_id not in (select run_id from lake.runs where list_count(json_extract_string(spec, '$.benchmarks.*.asked')) > 0)
