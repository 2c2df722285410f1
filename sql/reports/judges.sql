-- Everybody who has judged, by name.
select distinct judge
from metrics
order by judge
