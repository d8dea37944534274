-- The least and the greatest value so far are enough where rows only come; a worse one changes nothing, a NULL neither.
CREATE TABLE t (g INT, x INT);
CREATE VIEW v AS SELECT g, MIN(x) AS lo, MAX(x) AS hi, COUNT(*) AS n FROM t GROUP BY g;
--! +t(1,5) +t(1,7) +t(2,NULL)
--= (1, 5, 7, 2) (2, NULL, NULL, 1)
--! +t(1,3) +t(1,6) +t(2,4)
--= (1, 3, 7, 4) (2, 4, 4, 2)
--! +t(1,9) +t(2,NULL) +t(3,1)
--= (1, 3, 9, 5) (2, 4, 4, 3) (3, 1, 1, 1)
