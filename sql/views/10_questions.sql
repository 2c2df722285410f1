-- Every version of every benchmark's questions.
create view questions as
select * from lake.questions;
