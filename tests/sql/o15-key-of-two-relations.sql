-- A join's key made of columns of two relations: it was lost, and every row joined every other.
CREATE TABLE a (k INT);
CREATE TABLE b (k INT);
CREATE TABLE c (k INT);
CREATE VIEW v AS SELECT a.k AS x, b.k AS y, c.k AS z FROM a JOIN (b CROSS JOIN c) ON a.k = b.k + c.k;
--! +a(1) +b(1) +c(1)
--= empty
--! +c(0) +a(2)
--= (1, 1, 0) (2, 1, 1)
--! -b(1)
--= empty
