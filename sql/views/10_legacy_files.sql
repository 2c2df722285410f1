-- Every file of the imported legacy trees and what became of its lines.
create view legacy_files as
select * from lake.legacy_files;
