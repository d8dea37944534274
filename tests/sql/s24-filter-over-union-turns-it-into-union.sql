-- S24, duckdb#11163; StarRocks#78811: filter over UNION turns it into UNION ALL; UNION ALL arms counted once.
CREATE TABLE t (a int);
CREATE TABLE u (a int);
CREATE VIEW v AS select 'u' k,a from (select a from t union select a from u) z where a=1 union all select 'all',a from (select a from t union all select a from u union all select a from t) y where a=1;
--! +t(1) +t(1) +u(2)
--= (all, 1) x4 (u, 1)
--! +u(1)
--= (all, 1) x5 (u, 1)
--! -t(1)
--= (all, 1) x3 (u, 1)
--! -t(1)
--= (all, 1) (u, 1)
--! -u(1)
--= empty
