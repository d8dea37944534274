CREATE TABLE t (a INT);
CREATE VIEW v AS SELECT a, (SELECT a FROM t) AS b FROM t;
--refused: a subquery that stands for one value, and may have many rows
