CREATE TABLE t (g INT, x INT);
CREATE VIEW v AS SELECT g, COUNT(DISTINCT x) AS n, SUM(DISTINCT x) AS s, AVG(DISTINCT x) AS m, COUNT(x) AS c, COUNT(*) AS r FROM t GROUP BY g;
--! +t(1,NULL) +t(1,NULL) +t(2,3) +t(2,3) +t(2,4)
--= (1, 0, NULL, NULL, 0, 2) (2, 2, 7, 3.5, 3, 3)
--! -t(2,3) +t(1,5)
--= (1, 1, 5, 5.0, 1, 3) (2, 2, 7, 3.5, 2, 2)
--! -t(2,3) -t(2,4) +t(2,NULL)
--= (1, 1, 5, 5.0, 1, 3) (2, 0, NULL, NULL, 0, 1)
