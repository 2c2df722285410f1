-- What replayed decisions of some judges took, and how often they were wrong: the latest replay of these questions.
from decision_calibrations
where judges = $judges and question_sets = $question_sets and margin = $margin and error = $error
qualify created_at = max(created_at) over ()
order by list_position(['p<0.001', 'p0.001-0.05', 'p>0.05'], class)
