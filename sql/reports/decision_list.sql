-- All decisions, the one that changed last first.
from decisions
order by updated_at desc, decision_id
