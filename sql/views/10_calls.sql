-- One row per finished call: reply, tokens, cost, attempts, latency.
create view calls as
select * from lake.calls;
