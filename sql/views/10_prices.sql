-- What the called models cost as it is known now, one row per model × address × range of dates, hours of the day and
-- prompt lengths; a model without a row has no known price.
create view prices as
from lake.prices;
