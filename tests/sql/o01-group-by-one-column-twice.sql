-- One column twice in GROUP BY: the plan names it once, and was read past its end.
CREATE TABLE t (k INT, b INT);
CREATE VIEW v AS SELECT k AS c0, k AS c1, COUNT(*) AS n FROM t GROUP BY 1, 2;
--! +t(1,1) +t(1,2) +t(NULL,1)
--= (1, 1, 2) (NULL, NULL, 1)
--! -t(1,1) -t(NULL,1)
--= (1, 1, 1)
