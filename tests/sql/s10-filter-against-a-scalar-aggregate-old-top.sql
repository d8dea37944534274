-- S10, risingwave#5773; pg-trickle#474: filter against a scalar aggregate: old top not removed, crash when the aggregate turns NULL.
CREATE TABLE a (v int);
CREATE TABLE b (v int);
CREATE VIEW v AS select a.v from a, (select sum(v) s,max(v) m from b) q where a.v>q.s or a.v=q.m;
--! +a(233) +a(5) +b(0)
--= (233) (5)
--! +b(10)
--= (233)
--! -b(0) -b(10)
--= empty
--! +b(233)
--= (233)
