-- Every call with what it costs at the price of its own date as the table prices has it now, beside what was recorded
-- when it was made.
create view repriced_calls as
from cost_at(null);
