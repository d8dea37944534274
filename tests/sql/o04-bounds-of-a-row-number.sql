-- The first rows by a bound with a fraction: `rn < 2.5` kept one row in place of two; BETWEEN was refused.
CREATE TABLE t (k INT);
CREATE VIEW v AS SELECT 'lt' AS w, k FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS rn FROM t) AS a WHERE rn < 2.5 UNION ALL SELECT 'le', k FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS rn FROM t) AS b WHERE rn <= 1.5 UNION ALL SELECT 'eq', k FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS rn FROM t) AS c WHERE rn = 1.5 UNION ALL SELECT 'be', k FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY k) AS rn FROM t) AS d WHERE rn BETWEEN 2 AND 3;
--! +t(1) +t(2) +t(3) +t(4)
--= (be, 2) (be, 3) (le, 1) (lt, 1) (lt, 2)
--! -t(2)
--= (be, 3) (be, 4) (le, 1) (lt, 1) (lt, 3)
