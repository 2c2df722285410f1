-- One row per model × run tag × judge × benchmark × question set × pipeline under the legacy policy
-- (failures and missing scores left out), best first.
create view leaderboard as
from leaderboard_under('legacy');
