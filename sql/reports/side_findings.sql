-- What passes found in the answers of some runs to one question; the newest settings of each pass.
select run_id, sample_index, pass, severity, reason, details
from pass_outputs
where benchmark = $benchmark
  and question_id = $question_id
  and list_contains($run_ids, run_id)
  and strategy is null
  and severity is not null
qualify row_number() over (partition by run_id, sample_index, pass order by created_at desc) = 1
order by pass
