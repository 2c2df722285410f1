-- One decision, or all of them, the one that changed last first.
from decisions
where $decision_id is null or decision_id = $decision_id
order by updated_at desc, decision_id
