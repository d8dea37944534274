-- A subquery that depends on the row outside alone.
CREATE TABLE a (k INT);
CREATE TABLE b (k INT);
CREATE VIEW v AS SELECT k, (SELECT MAX(b.k) FROM b WHERE a.k = 1) AS m FROM a;
--refused: depends on the row outside by something else than an equality
