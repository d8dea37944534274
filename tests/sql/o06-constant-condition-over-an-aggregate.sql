-- A condition that names no column, over an aggregate without groups: pushed into it, it made a row of no rows.
CREATE TABLE t (k INT);
CREATE VIEW v AS SELECT q.n FROM (SELECT COUNT(*) AS n FROM t) AS q CROSS JOIN (SELECT COUNT(*) AS m FROM t) AS r WHERE ('a' LIKE 'a%') IS NOT TRUE UNION ALL SELECT n FROM (SELECT 3 AS c, n FROM (SELECT COUNT(*) AS n FROM t) AS s) AS u WHERE c IS NULL;
--! +t(1) +t(2)
--= empty
--! -t(1) -t(2)
--= empty
