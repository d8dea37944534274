-- S40, ydb#11380; materialize#6526: several updates of a key in one batch: winner arbitrary, or panic.
CREATE TABLE u (k int PRIMARY KEY,v int,g int);
CREATE VIEW v AS select g,count(*) n,sum(v) s from u group by g;
--! ^u(1,1,7) ^u(1,2,7) ^u(1,3,8) ^u(2,5,7)
--= (7, 1, 5) (8, 1, 3)
--! ^u(2,6,8) ^u(2,5,7)
--= (7, 1, 5) (8, 1, 3)
