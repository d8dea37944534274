-- The same in ON of an outer join: the padded row had the aggregate of nothing in place of NULL.
CREATE TABLE a (k INT);
CREATE TABLE b (k INT);
CREATE VIEW v AS SELECT a.k, q.n FROM a LEFT JOIN (SELECT COUNT(*) AS n FROM b) AS q ON 1 = 0;
--! +a(1) +b(5)
--= (1, NULL)
--! +a(2) -b(5)
--= (1, NULL) (2, NULL)
