-- A HAVING that names no column, of an aggregate without groups, under more than one filter: none reaches into it.
CREATE TABLE t (k INT, d DOUBLE);
CREATE VIEW v AS SELECT x2.c2 AS c0, COUNT(x2.c0) AS c1 FROM (SELECT MIN(x1.d) AS c0, MAX(x1.k) AS c1, COUNT(*) AS c2 FROM t AS x1 HAVING CAST(NULL AS VARCHAR) NOT ILIKE '_') AS x2 WHERE EXISTS (SELECT 1 FROM t AS x3 WHERE (x3.k = x3.k) IS TRUE) GROUP BY 1;
--! +t(1,0.5) +t(2,0.5)
--= empty
--! -t(1,0.5) -t(2,0.5)
--= empty
