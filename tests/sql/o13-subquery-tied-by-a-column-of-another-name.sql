CREATE TABLE a (k INT);
CREATE VIEW v AS SELECT k FROM a WHERE 0 NOT IN (SELECT x.k AS j FROM a AS x CROSS JOIN a AS y WHERE y.k = a.k);
--! +a(7) +a(1)
--= (1) (7)
--! +a(0)
--= empty
--! -a(0) +a(NULL)
--= (NULL)
