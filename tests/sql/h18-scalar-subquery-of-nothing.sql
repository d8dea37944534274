CREATE TABLE a (k INT);
CREATE TABLE b (k INT, x INT);
CREATE VIEW v AS SELECT k, (SELECT COUNT(*) FROM b WHERE b.k = a.k) AS n, (SELECT SUM(x) FROM b WHERE b.k = a.k) AS s FROM a WHERE k > (SELECT COALESCE(MIN(x), 0) FROM b);
--! +a(1) +a(2) +a(2)
--= (1, 0, NULL) (2, 0, NULL) x2
--! +b(2,1) +b(2,4)
--= (2, 2, 5) x2
--! -b(2,1)
--= empty
--! -b(2,4)
--= (1, 0, NULL) (2, 0, NULL) x2
