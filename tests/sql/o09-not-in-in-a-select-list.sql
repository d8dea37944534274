-- NOT IN (subquery) where its NULL is not false: refused, as IN is; it was answered with false.
CREATE TABLE a (k INT);
CREATE TABLE b (k INT);
CREATE VIEW v AS SELECT k, k NOT IN (SELECT k FROM b) AS c FROM a;
--refused: IN (subquery) in a place where its NULL differs from false
