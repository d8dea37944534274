CREATE TABLE t (a INT, b INT);
CREATE VIEW v AS SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b);
--refused: write one GROUP BY for each set
