-- Rules with an audit, by benchmark: asked before the verdicts are looked at, as most lakes have none.
select distinct judge, benchmark from lake.audits
