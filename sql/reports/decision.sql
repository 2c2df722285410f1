-- One decision.
from decisions
where decision_id = $decision_id
