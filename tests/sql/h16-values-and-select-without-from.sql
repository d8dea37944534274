CREATE TABLE t (k INT);
CREATE VIEW v AS SELECT x.k, x.n, t.k AS tk FROM (VALUES (1, 'a'), (2, NULL)) AS x(k, n) LEFT JOIN t ON t.k = x.k UNION ALL SELECT 7, 'q', NULL;
--! 
--= (1, a, NULL) (2, NULL, NULL) (7, q, NULL)
--! +t(2) +t(2)
--= (1, a, NULL) (2, NULL, 2) x2 (7, q, NULL)
