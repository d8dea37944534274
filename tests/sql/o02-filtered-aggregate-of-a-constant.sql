-- FILTER over an aggregate of a constant: the constant was taken for 1, as COUNT may.
CREATE TABLE t (k INT);
CREATE VIEW v AS SELECT SUM(5) FILTER (WHERE k > 1) AS s, MIN('x') FILTER (WHERE k > 1) AS lo, COUNT(7) FILTER (WHERE k > 1) AS n, AVG(2.5) FILTER (WHERE k > 1) AS m FROM t;
--! +t(1) +t(2) +t(3)
--= (10, x, 2, 2.5)
--! -t(2) -t(3)
--= (NULL, NULL, 0, NULL)
