CREATE TABLE t (g INT, x INT);
CREATE VIEW v AS SELECT 'r' AS w, g, x, n FROM (SELECT g, x, RANK() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST) AS n FROM t) AS p WHERE n <= 2 UNION ALL SELECT 'd', g, x, n FROM (SELECT g, x, DENSE_RANK() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST) AS n FROM t) AS q WHERE n <= 2;
--! +t(1,9) +t(1,9) +t(1,5) +t(1,NULL)
--= (d, 1, 5, 2) (d, 1, 9, 1) x2 (r, 1, 9, 1) x2
--! -t(1,9)
--= (d, 1, 5, 2) (d, 1, 9, 1) (r, 1, 5, 2) (r, 1, 9, 1)
--! -t(1,9) -t(1,5)
--= (d, 1, NULL, 1) (r, 1, NULL, 1)
